"""The steps of a rolling change from Java workers to Spark workers in one group, and of the way back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from spark_connect_rt.app.migrate.findings import PYTHON, ConnectorVerdict
from spark_connect_rt.config.distributed_config import DISTRIBUTED

DELAY = "scheduled.rebalance.max.delay.ms"
_DELAY_DEFAULT_MS: int = DISTRIBUTED[DELAY].default


def steps_there(settings: Mapping[str, str], file: str, workers: Sequence[str], must_change: bool) -> list[str]:
    """Return what to do, in order; ``workers``: REST addresses of the members now, none while no worker runs."""
    group, wait_s = settings.get("group.id") or "?", _wait_s(settings)
    count = len(workers)
    first = (
        [f"Change what is marked `change` above, then run connectrt migrate check {file} again"] if must_change else []
    )
    return [
        *first,
        f"Back up the state: connectrt store backup {file} before.jsonl (reads only; the groups of sinks are not "
        "in it).",
        f"On a machine with the same plugin.path: copy {file}, and change `listeners` and `rest.advertised.*`. "
        f"Keep group.id={group}, the three topics and everything else.",
        f"Start it: connectrt worker {file} (or ./spark-submit.sh). It joins the group of {count or 'the'} Java "
        f"worker{'' if count == 1 else 's'} and gets its share: see worker_id in GET /connectors/NAME/status.",
        "Compare for as long as you like: states, lag, GET /admin/story of the Spark worker. SIGTERM undoes it.",
        f"Stop one Java worker with SIGTERM. While a Java worker is in the group, its work may wait up to {wait_s} "
        f"s ({DELAY}; Java's rule also for workers that leave), then the others take it over.",
        "Start the next Spark worker and stop the next Java worker, until no Java worker is left. From then on, "
        "lost work is assigned immediately.",
        "Keep the Java workers' files and plug-ins until you are sure. The way back needs nothing else.",
    ]


def steps_back(settings: Mapping[str, str], connectors: Sequence[ConnectorVerdict]) -> list[str]:
    """Return the way back to Java workers."""
    only_here = sorted(
        connector.name for connector in connectors if connector.runtime == PYTHON and _python_only(connector)
    )
    warn = [f"Stop what Java cannot run (PUT /connectors/NAME/stop): {', '.join(only_here)}."] if only_here else []
    return [
        *warn,
        f"Start a Java worker with its old file (group.id={settings.get('group.id') or '?'}): it reads the same "
        "topics, joins, and gets its share. It ignores connectrt.* settings of connectors.",
        "Stop one Spark worker with SIGTERM. Its offsets are committed, and its work may wait up to "
        f"{_wait_s(settings)} s ({DELAY}). Continue until none is left.",
    ]


def _python_only(verdict: ConnectorVerdict) -> bool:
    named = [
        verdict.class_name,
        *(element.name for element in verdict.elements if element.runtime == PYTHON),
    ]
    return any(name.startswith("spark_connect_rt.") for name in named)


def _wait_s(settings: Mapping[str, str]) -> int:
    try:
        return int(settings.get(DELAY, _DELAY_DEFAULT_MS)) // 1000
    except ValueError:
        return _DELAY_DEFAULT_MS // 1000
