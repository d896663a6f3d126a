"""Records what Java's leader tells made-up groups: ``python -m tests.parity.record_assignments``.

Rewrites golden/assignments-*.json. ``--compare FIRST LAST`` records nothing: it lets Java's leader and ours
live through the histories of these seeds side by side and prints the first differences.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from spark_connect_rt.base.cache import KAFKA_VERSION
from tests.parity.group_history import GroupHistory, Leaders, Step, make_up
from tests.parity.java_leader import JavaLeader
from tests.parity.leaders import BothLeaders, JavaLeaders
from tests.parity.told import told
from tests.parity.traces import TRACES

TARGET = Path(__file__).parent / "golden" / f"assignments-{KAFKA_VERSION}.json"
HISTORIES = 160
STEPS = 36


def record(java: JavaLeader, max_delay_ms: int, steps: list[Step]) -> dict[str, Any]:
    """Return a history together with what Java told the group, round by round."""
    group = GroupHistory(JavaLeaders(java), max_delay_ms)
    answers = [told(answer) for step in steps if (answer := group.take(step)) is not None]
    return {"max_delay_ms": max_delay_ms, "steps": steps, "answers": answers}


def compare(java: Leaders, max_delay_ms: int, steps: list[Step]) -> int:
    """Let both live through one history; return its rounds. Raises AssertionError with step and difference."""
    group = GroupHistory(BothLeaders(java), max_delay_ms)
    for number, step in enumerate(steps):
        try:
            group.take(step)
        except AssertionError as difference:
            raise AssertionError(f"step {number} {step}\n{difference}") from difference
    return group.generation


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def main() -> int:
    """Record, or compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compare", nargs=2, type=int, metavar=("FIRST", "LAST"))
    arguments = parser.parse_args()
    with JavaLeader() as java:
        if arguments.compare:
            rounds = sum(compare(JavaLeaders(java), *make_up(seed, STEPS)) for seed in range(*arguments.compare))
            print(f"{rounds} rounds, no difference")
            return 0
        histories = {name: record(java, *history) for name, history in TRACES.items()}
        histories |= {f"seed {seed}": record(java, *make_up(seed, STEPS)) for seed in range(HISTORIES)}
    lines = ",\n".join(f"{_json(name)}:{_json(history)}" for name, history in histories.items())
    head = _json(f"Apache Kafka Connect {KAFKA_VERSION}")
    TARGET.write_text(f'{{"recorded_from":{head},\n"histories":{{\n{lines}\n}}}}\n', encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
