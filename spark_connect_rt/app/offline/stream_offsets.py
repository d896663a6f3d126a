"""Implements ``connectrt offsets reconcile``: compares a stream's checkpoint and the offset topic, repairs the topic.

Spark's checkpoint decides where a query of ``format("connectrt")`` resumes; the topic shows it to others, and may be
behind after a kill or an unfinished ``commitOffsets``. So only the topic is ever written. The checkpoint is read as
files: ``commits/<batch>`` says that a batch is done, ``offsets/<batch>`` where it ended (Spark's ``OffsetSeqLog``, v1).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from spark_connect_rt.app.offline.deployed_connectors import Deployed
from spark_connect_rt.app.offline.internal_topics import InternalTopics
from spark_connect_rt.app.offline.store_actions import keep_backup, print_table, say
from spark_connect_rt.base.json_text import canonical, decode_json, encode_json
from spark_connect_rt.engine.datasource.read_options import SourceOffset
from spark_connect_rt.engine.datasource.stream_position import as_position, offsets_of
from spark_connect_rt.errors import BadRequestError, DataError
from spark_connect_rt.topics.offset_records import OffsetMap
from spark_connect_rt.topics.store_check import fold_configs

VERSION = "v1"
SAME, DIFFERENT, MISSING, EXTRA = "same", "differs", "not in the topic", "not in the checkpoint: unchanged"


@dataclass(frozen=True, slots=True)
class DoneBatch:
    """The last batch of a query that is done, and whether another one was begun."""

    number: int
    offsets: Sequence[SourceOffset]
    next_begun: bool


@dataclass(frozen=True, slots=True)
class ReconcileOptions:
    """How it is to be done."""

    source: int = 0  # which of the query's sources, in the order of its plan
    apply: bool = False
    safety: Path | None = None  # where everything is kept before the topic is written


def done_batch(checkpoint: Path, source: int) -> DoneBatch:
    """Return where a query is. Raises BadRequestError: it is not a checkpoint of a query, or no batch is done."""
    done, begun = _batches(checkpoint / "commits"), _batches(checkpoint / "offsets")
    if not done or done[-1] not in begun:
        raise BadRequestError(f"{checkpoint} is not the checkpoint of a query that has finished a batch")
    file = checkpoint / "offsets" / str(done[-1])
    version, _, *sources = file.read_text(encoding="utf-8").splitlines()
    if version != VERSION or source >= len(sources):
        raise BadRequestError(
            f"{file} has format {version} and {len(sources)} sources, but only {VERSION} is supported"
        )
    try:
        offsets = offsets_of(as_position(decode_json(sources[source].encode())))
    except (DataError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise BadRequestError(f'source {source} of {file} is not one of format("connectrt"): {error!r}') from error
    return DoneBatch(done[-1], list(offsets), begun[-1] > done[-1])


def compared(stream: Sequence[SourceOffset], topic: Sequence[SourceOffset]) -> list[tuple[str, str, str, str]]:
    """Return partition, offset in the checkpoint, offset in the topic, and what that is, for every partition."""
    ours, theirs = _by_partition(stream), _by_partition(topic)
    rows = []
    for place in ours | theirs:
        partition, offset = ours.get(place, (None, None))
        held, other = theirs.get(place, (None, None))
        verdict = EXTRA if offset is None else MISSING if other is None else DIFFERENT
        verdict = SAME if canonical(offset) == canonical(other) else verdict
        rows.append((_text(partition or held), _text(offset), _text(other), verdict))
    return sorted(rows)


def reconcile(settings: Mapping[str, str], name: str, checkpoint: Path, how: ReconcileOptions) -> int:
    """Print the difference and, when asked to, write the checkpoint's offsets to the topic. Return the exit code."""
    batch = done_batch(checkpoint, how.source)
    with InternalTopics(settings) as topics:
        book = Deployed(settings).offsets(name)
        try:
            rows = compared(batch.offsets, book.read())
            print_table((f"partition of {name}", f"checkpoint, batch {batch.number}", "topic", "is"), rows)
            if batch.next_begun:
                say(f"batch {batch.number + 1} was started: the query repeats it when it runs again")
            if all(verdict in (SAME, EXTRA) for *_, verdict in rows):
                say("nothing to write")
                return 0
            if not how.apply:
                say("nothing was written. Use --apply to write")
                return 0
            _refuse(topics, name)
            if how.safety is None:
                raise BadRequestError("a backup is required. Name a new file with --backup")
            keep_backup(topics, how.safety)
            book.write(batch.offsets)
        finally:
            book.close()
    say(f"the topic now matches the checkpoint; backup: {how.safety}")
    return 0


def _refuse(topics: InternalTopics, name: str) -> None:
    """Raises BadRequestError: a worker may be running a connector of this name, which writes its offsets itself."""
    configs, _ = fold_configs(topics.read("configs"))
    if configs.contains(name) and topics.group_runs():
        raise BadRequestError(
            f"workers of group {topics.config.group.group_id} are running, and connector {name} is deployed and "
            "writes these offsets itself. Stop them, or delete it"
        )


def _batches(folder: Path) -> list[int]:
    return sorted(int(path.name) for path in folder.glob("*") if path.name.isdigit())


def _by_partition(pairs: Sequence[SourceOffset]) -> dict[Hashable, SourceOffset]:
    return {canonical(partition): (partition, offset) for partition, offset in pairs if offset is not None}


def _text(fields: OffsetMap | None) -> str:
    return "none" if fields is None else encode_json(fields).decode()
