"""The kinds of things ``connectrt get`` lists: how each is asked for, and its columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from spark_connect_rt.cli.selecting import Term, chosen_names, matching_rows
from spark_connect_rt.cli.session import Session
from spark_connect_rt.cli.tables import Column, Item, compact, count_text, rate_text, time_text
from spark_connect_rt.cli.terminal import state_style
from spark_connect_rt.errors import BadRequestError, NotFoundError
from spark_connect_rt.rest.client import calls, management_calls
from spark_connect_rt.rest.client.refusals import RefusedError
from spark_connect_rt.topics.aggregate_state import aggregate_rank, aggregate_state

# Connectors and tasks as rows, from the one request that every worker serves; enriched where ours know more. Pure.


Row = dict[str, Any]


def connector_rows(expanded: Mapping[str, Any]) -> list[Row]:
    """Return a row for each connector of ``GET /connectors?expand=status&expand=info``, by name.

    A connector that was created a moment ago may lack either part.
    """
    return [connector_row(name, entry.get("info"), entry.get("status")) for name, entry in sorted(expanded.items())]


def connector_row(name: str, info: Mapping[str, Any] | None, status: Mapping[str, Any] | None) -> Row:
    """Return one row: name, type, class, state, aggregate, worker_id, tasks, config, trace, restart.

    ``state`` is what Java says, of the connector alone; ``aggregate`` is the state of both (``AGGREGATES``).
    """
    config = dict((info or {}).get("config", {}))
    connector = (status or {}).get("connector", {})
    kind = (info or {}).get("type") or (status or {}).get("type") or ""
    state, tasks = connector.get("state", "UNASSIGNED"), list((status or {}).get("tasks", ()))
    row = {
        "name": name,
        "type": kind,
        "class": config.get("connector.class", ""),
        "state": state,
        "aggregate": aggregate_state(
            state, Counter(task["state"] for task in tasks), has_error=bool(connector.get("trace"))
        ),
        "worker_id": connector.get("worker_id", ""),
        "tasks": tasks,
        "config": config,
    }
    return row | {key: connector[key] for key in ("trace", "restart") if connector.get(key)}


def enriched(rows: Iterable[Row], overview: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Return the rows with what the overview adds: rate, lag, errors, last error, why abnormal."""
    known = {entry["name"]: entry for entry in overview}
    more = ("records_per_second", "lag", "errors", "last_error", "last_error_at_ms", "stalled", "abnormal", "why")
    return [row | {key: known.get(row["name"], {}).get(key) for key in more} for row in rows]


def running_tasks(row: Mapping[str, Any]) -> str:
    """Return ``running/all``, and how many have failed."""
    states = Counter(task["state"] for task in row["tasks"])
    failed = f" ({states['FAILED']} failed)" if states["FAILED"] else ""
    return f"{states['RUNNING']}/{len(row['tasks'])}{failed}"


def why(row: Mapping[str, Any]) -> str | None:
    """Return in one line what is wrong with a connector: the worker's words, else the first error."""
    if row.get("why"):
        return str(row["why"])
    return next((error_line(task["trace"]) for task in (row, *row["tasks"]) if task.get("trace")), None)


def error_line(trace: str | None) -> str | None:
    """Return the line of a trace, Java's or Python's, that says what went wrong."""
    if not trace:
        return None
    from spark_connect_rt.base.traces import last_line

    return last_line(trace) or None


def task_rows(rows: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Return a row for each task: name (``connector/0``), connector, task, and its state's fields."""
    return [
        {
            "name": f"{row['name']}/{task['id']}",
            "connector": row["name"],
            "task": task["id"],
            "type": row["type"],
            **task,
        }
        for row in rows
        for task in row["tasks"]
    ]


def what_changed(change: Mapping[str, Any]) -> str | None:
    """Return in one line what a change of the history did: settings, partitions, a state, a level; never a value."""
    from spark_connect_rt.cli.differences import config_differences, offset_differences

    before, after = change.get("before") or {}, change.get("after") or {}
    if change["kind"] == "config":
        settings = {difference.name for difference in config_differences(before, after)} | set(
            change.get("changed_unseen") or ()
        )
        return ", ".join(sorted(settings)) if before and after else f"{len(settings)} settings"
    if change["kind"] == "offsets":
        moved = offset_differences(before.get("offsets") or (), after.get("offsets") or ())
        return f"{len(moved)} partition{'' if len(moved) == 1 else 's'}"
    field = "level" if change["kind"] == "logger" else "state"
    what = f"{after['logger']} " if after.get("logger") else ""
    return what + " -> ".join(str(side[field]) for side in (before, after) if side.get(field))


def workers_by_states(rows: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Return the workers that the states name: all that a group of Java workers says of itself."""
    workers: dict[str, Row] = {}
    for row in rows:
        if row["worker_id"] and row["state"] != "UNASSIGNED":
            _worker(workers, row["worker_id"])["connectors"].append(row["name"])
        for task in row["tasks"]:
            if task["worker_id"] and task["state"] != "UNASSIGNED":
                _worker(workers, task["worker_id"])["tasks"].append(f"{row['name']}-{task['id']}")
    return [workers[key] for key in sorted(workers)]


def _worker(workers: dict[str, Row], worker_id: str) -> Row:
    return workers.setdefault(worker_id, {"worker_id": worker_id, "connectors": [], "tasks": []})


OVERVIEW_PAGE = 2_000
_LETTER_TOPIC = "errors.deadletterqueue.topic.name"
_CALM = aggregate_rank("RESTARTING")  # all but FAILED and DEGRADED stand by name


@dataclass(frozen=True, slots=True)
class GetQuery:
    """The arguments of ``get``: names of connectors (of the kind, where it has none), ``-l``, more columns."""

    words: Sequence[str] = ()
    terms: tuple[Term, ...] = ()
    wide: bool = False
    limit: int = 100
    sorts: tuple[str, ...] = ()
    """The kinds of changes: config, state ..."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind. ``key`` identifies an item when it changes."""

    name: str
    fetch: Callable[[Session, GetQuery], Sequence[Item]]
    columns: tuple[Column, ...]
    key: Callable[[Item], str] = field(default=lambda item: str(item["name"]))
    aliases: tuple[str, ...] = ()
    single: bool = False  # a name means one item, not a list of items
    rank: Callable[[Item], int] | None = None  # the place of an item in a table; machines get them by name


def rows_of(session: Session, words: Sequence[str] = (), terms: Sequence[Term] = ()) -> list[dict[str, Any]]:
    """Return the rows of the connectors that are meant, in one request."""
    return [dict(row) for row in matching_rows(connector_rows(session.ask(calls.connectors())), words, terms)]


def names_of(session: Session, words: Sequence[str], terms: Sequence[Term] = ()) -> list[str]:
    """Return the names that are meant; no words: all."""
    if terms:
        return [row["name"] for row in rows_of(session, words, terms)]
    there = sorted(session.ask(calls.connector_names()))
    return chosen_names(words, there) if words else there


def _connectors(session: Session, asked: GetQuery) -> Sequence[Item]:
    rows = rows_of(session, asked.words, asked.terms)
    return enriched(rows, _overview(session)) if asked.wide else rows


def _overview(session: Session) -> list[Any]:
    found: list[Any] = []
    while True:
        page = session.ask_if_served(management_calls.overview(sort="name", offset=len(found), limit=OVERVIEW_PAGE))
        rows = page["connectors"] if page else []
        if page and not found:
            session.note_unanswered(page)
        found += rows
        if not page or not rows or len(found) >= page.get("matching", 0):
            return found


def _tasks(session: Session, asked: GetQuery) -> Sequence[Item]:
    everything = connector_rows(session.ask(calls.connectors()))
    names = {row["name"] for row in everything}
    wanted: dict[str, set[str]] = {}  # connector, or pattern -> numbers of tasks; "": all
    for word in asked.words:
        name, slash, task = word.rpartition("/")
        one_task = bool(name and slash) and task.isdigit() and word not in names  # a name may look like a task
        wanted.setdefault(name if one_task else word, set()).add(task if one_task else "")
    rows = task_rows(matching_rows(everything, list(wanted), asked.terms))
    whole = {""}
    only = [
        row
        for row in rows
        if not whole.isdisjoint(wanted.get(row["connector"], whole)) or str(row["task"]) in wanted[row["connector"]]
    ]
    if asked.words and not only:
        raise NotFoundError(f"no task {', '.join(asked.words)}")
    return only


def _workers(session: Session, asked: GetQuery) -> Sequence[Item]:
    group = session.ask_if_served(management_calls.group())
    if group is None:
        session.terminal.note(
            "this worker does not serve /admin/group, so only workers with a connector or task are listed"
        )
        workers: Sequence[Item] = workers_by_states(rows_of(session))
    else:
        workers = group["workers"]
    if not asked.words:
        return workers
    by_id = {worker["worker_id"]: worker for worker in workers}
    return [by_id[name] for name in _known("worker", asked.words, list(by_id))]


def _plugins(session: Session, asked: GetQuery) -> Sequence[Item]:
    found = session.ask(calls.plugins(connectors_only=False))
    terms = [term for term in asked.terms if term.field == "type"]
    about = plugin_sentences(session)
    chosen: list[Item] = [
        {**plugin, "description": about.get(plugin["class"], "")}
        for plugin in found
        if all(term.holds({**plugin, "state": "", "tasks": []}) for term in terms)
    ]
    if not asked.words:
        return chosen
    by_name: dict[str, list[int]] = {}
    for index, plugin in enumerate(chosen):
        for name in {plugin["class"], plugin["class"].rpartition(".")[2]}:
            by_name.setdefault(name, []).append(index)
    # A pattern may match both names of a class: each plug-in is listed once.
    meant = dict.fromkeys(index for name in _known("plug-in", asked.words, list(by_name)) for index in by_name[name])
    return [chosen[index] for index in meant]


def plugin_sentences(session: Session) -> dict[str, str]:
    """Return class -> what the plug-in does, of those that say so; nothing from a worker that does not report it."""
    try:
        report = session.ask_if_served(management_calls.plugins_report())
    except RefusedError:  # the worker serves it to others only
        return {}
    return {
        plugin["class"]: plugin["description"]
        for plugin in (report or {}).get("plugins", ())
        if plugin.get("description")
    }


def _offsets(session: Session, asked: GetQuery) -> Sequence[Item]:
    return [
        {"connector": name, **offset}
        for name in names_of(session, asked.words, asked.terms)
        for offset in session.ask(calls.offsets(name))
    ]


def _topics(session: Session, asked: GetQuery) -> Sequence[Item]:
    return [
        {"connector": name, "topic": topic}
        for name in names_of(session, asked.words, asked.terms)
        for topic in sorted(session.ask(calls.topics(name)).get(name, {}).get("topics", ()))
    ]


def _loggers(session: Session, asked: GetQuery) -> Sequence[Item]:
    if asked.words:
        return [{"name": name, **session.ask(calls.logger(name))} for name in asked.words]
    return [{"name": name, **level} for name, level in session.ask(calls.loggers()).items()]


def _letters(session: Session, asked: GetQuery) -> Sequence[Item]:
    found: list[Item] = []
    for name in _with_letters(session, asked):
        found += session.ask(management_calls.letters(filters={"connector": name}, limit=asked.limit))["letters"]
    return found


def _with_letters(session: Session, asked: GetQuery) -> list[str]:
    """Return the connectors that are named, else all that write dead letters."""
    if asked.words:
        return names_of(session, asked.words, asked.terms)
    rows = rows_of(session, (), asked.terms)
    return [row["name"] for row in rows if row["config"].get(_LETTER_TOPIC)]


def _events(session: Session, asked: GetQuery) -> Sequence[Item]:
    names: Sequence[str] = asked.words or [""]
    found: list[Item] = []
    for name in names:
        answer = session.ask(management_calls.events(connector=name, limit=asked.limit))
        session.note_unanswered(answer)
        found += answer["events"]
    return sorted(found, key=lambda event: event["at_ms"])


def _history(session: Session, asked: GetQuery) -> Sequence[Item]:
    found: list[Item] = []
    for name in asked.words or [""]:
        answer = session.ask(management_calls.history(name, kind=asked.sorts, limit=asked.limit))
        if answer.get("problem"):
            session.terminal.note(f"the history is incomplete: {answer['problem']}")
        found += answer["changes"]
    return sorted(found, key=lambda change: (change["at_ms"], change["number"]))


def _known(kind: str, words: Sequence[str], there: Sequence[str]) -> list[str]:
    try:
        return chosen_names(words, there)
    except NotFoundError as error:
        raise NotFoundError(str(error).replace("no connector", f"no {kind}", 1)) from None


KINDS = (
    Kind(
        "connectors",
        _connectors,
        (
            Column("NAME", lambda connector: connector["name"]),
            Column("TYPE", lambda connector: connector["type"]),
            Column("STATE", lambda connector: connector["aggregate"], style=state_style),
            Column("TASKS", running_tasks, style=lambda text: "red" if "failed" in text else None),
            Column("WORKER", lambda connector: connector["worker_id"]),
            Column("CONNECTOR", lambda connector: connector["state"], wide=True, style=state_style),
            Column("CLASS", lambda connector: connector["class"].rpartition(".")[2], wide=True),
            Column("RECORDS/S", lambda connector: rate_text(connector.get("records_per_second")), wide=True),
            Column("LAG", lambda connector: count_text(connector.get("lag")), wide=True),
            Column("ERRORS", lambda connector: count_text(connector.get("errors")), wide=True),
            Column("WHY", why, wide=True),
        ),
        aliases=("connector", "c"),
        single=True,
        rank=lambda connector: min(aggregate_rank(connector["aggregate"]), _CALM),
    ),
    Kind(
        "tasks",
        _tasks,
        (
            Column("TASK", lambda task: task["name"]),
            Column("STATE", lambda task: task["state"], style=state_style),
            Column("WORKER", lambda task: task["worker_id"]),
            Column("TYPE", lambda task: task["type"], wide=True),
            Column("TRACE", lambda task: error_line(task.get("trace")), limit=60),
        ),
        aliases=("task", "t"),
    ),
    Kind(
        "workers",
        _workers,
        (
            Column("WORKER", lambda worker: worker["worker_id"]),
            Column("LEADER", lambda worker: "yes" if worker.get("leader") else "-"),
            Column("RUNTIME", lambda worker: worker.get("runtime")),
            Column("VERSION", lambda worker: worker.get("version")),
            Column("HEALTH", lambda worker: worker.get("health") if worker.get("reachable", True) else "unreachable"),
            Column("CONNECTORS", lambda worker: len(worker.get("connectors") or ())),
            Column("TASKS", lambda worker: len(worker.get("tasks") or ())),
            Column("RECORDS/S", lambda worker: rate_text(worker.get("records_per_second")), wide=True),
            Column("MEMORY", lambda worker: _megabytes(worker.get("memory_bytes")), wide=True),
            Column("STARTED", lambda worker: time_text(worker.get("started_ms")), wide=True),
            Column("URL", lambda worker: worker.get("url"), wide=True),
        ),
        key=lambda worker: str(worker["worker_id"]),
        aliases=("worker", "w"),
        single=True,
    ),
    Kind(
        "plugins",
        _plugins,
        (
            Column("CLASS", lambda plugin: plugin["class"]),
            Column("TYPE", lambda plugin: plugin["type"]),
            Column("VERSION", lambda plugin: plugin.get("version")),
            Column("ABOUT", lambda plugin: plugin.get("description"), limit=100),
        ),
        key=lambda plugin: str(plugin["class"]),
        aliases=("plugin", "p"),
    ),
    Kind(
        "offsets",
        _offsets,
        (
            Column("CONNECTOR", lambda offset: offset["connector"]),
            Column("PARTITION", lambda offset: compact(offset["partition"])),
            Column("OFFSET", lambda offset: compact(offset["offset"])),
        ),
        key=lambda offset: f"{offset['connector']} {compact(offset['partition'])}",
        aliases=("offset", "o"),
    ),
    Kind(
        "topics",
        _topics,
        (Column("CONNECTOR", lambda topic: topic["connector"]), Column("TOPIC", lambda topic: topic["topic"])),
        key=lambda topic: f"{topic['connector']} {topic['topic']}",
        aliases=("topic",),
    ),
    Kind(
        "loggers",
        _loggers,
        (
            Column("LOGGER", lambda logger: logger["name"]),
            Column("LEVEL", lambda logger: logger["level"]),
            Column("CHANGED", lambda logger: time_text(logger.get("last_modified"))),
        ),
        aliases=("logger", "l"),
        single=True,
    ),
    Kind(
        "dead-letters",
        _letters,
        (
            Column("LETTER", lambda letter: f"{letter['partition']}/{letter['offset']}"),
            Column("AT", lambda letter: time_text(letter.get("at_ms"))),
            Column("CONNECTOR", lambda letter: letter.get("connector_name")),
            Column("ORIGIN", lambda letter: _origin(letter.get("origin")), wide=True),
            Column("STAGE", lambda letter: letter.get("stage")),
            Column("EXCEPTION", lambda letter: str(letter.get("exception") or "").rpartition(".")[2]),
            Column("REPLAYED", lambda letter: (letter.get("replayed") or {}).get("id")),
            Column("MESSAGE", lambda letter: letter.get("message"), limit=60),
        ),
        key=lambda letter: f"{letter['topic']}-{letter['partition']}-{letter['offset']}",
        aliases=("dead-letter", "letters", "dlq"),
    ),
    Kind(
        "events",
        _events,
        (
            Column("AT", lambda event: time_text(event["at_ms"])),
            Column("KIND", lambda event: event["kind"]),
            Column("WORKER", lambda event: event.get("worker_id")),
            Column("CONNECTOR", lambda event: event.get("connector")),
            Column("SUMMARY", lambda event: event.get("summary"), limit=100),
        ),
        key=lambda event: str(event["id"]),
        aliases=("event", "e"),
    ),
    Kind(
        "history",
        _history,
        (
            Column("NUMBER", lambda change: change["number"]),
            Column("AT", lambda change: time_text(change["at_ms"])),
            Column("CONNECTOR", lambda change: change.get("connector")),
            Column("KIND", lambda change: change["kind"]),
            Column("ACTION", lambda change: change["action"]),
            Column("WHO", lambda change: change.get("who")),
            Column("WORKER", lambda change: change.get("worker_id"), wide=True),
            Column("CHANGED", what_changed, limit=60),
            Column("NOTE", lambda change: change.get("note"), limit=60),
        ),
        key=lambda change: f"{change.get('connector')} {change['number']}",
        aliases=("changes",),
    ),
)


def kind_of(word: str) -> Kind:
    """Return the kind that a word means. Raises BadRequestError."""
    found = find_kind(word)
    if found is None:
        raise BadRequestError(f"get what? {word} is not one of {', '.join(kind.name for kind in KINDS)}")
    return found


def find_kind(word: str) -> Kind | None:
    """Return the kind that a word means, in the singular and short, too; None: it means none."""
    plain = _plain(word)
    return next((kind for kind in KINDS if plain in map(_plain, (kind.name, *kind.aliases))), None)


def _plain(word: str) -> str:
    """Return a word as ``plug-ins``, ``Plugins`` and ``plugins`` have it in common."""
    return word.lower().replace("-", "").replace("_", "")


def _megabytes(size: Any) -> str | None:
    return f"{size / 2**20:,.0f} MiB" if isinstance(size, int) else None


def _origin(origin: Any) -> str | None:
    return f"{origin['topic']}-{origin['partition']}@{origin['offset']}" if origin else None
