"""Settings that sources of programs share, below a prefix of each; and what they become."""

from __future__ import annotations

import fnmatch
import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from spark_connect_rt.config.config_def import REQUIRED, ConfigDef, ConfigKey, Type
from spark_connect_rt.config.keys import HIGH, LOW, MEDIUM, json_object, number, text
from spark_connect_rt.config.validators import AtLeast, non_empty, one_of
from spark_connect_rt.errors import ConnectError

STRUCT, TREE = "struct", "tree"
TASK_STREAMS = "task.streams"
"""Of a task's configuration, below the prefix: its streams, a JSON array."""


def program_settings(prefix: str, program: str) -> ConfigDef:
    """Return the settings below ``prefix``; ``program`` is what the docs call one (with its article)."""
    return ConfigDef(
        [
            text("topic", "Topic of a stream's records; ${stream} is its name.", REQUIRED, HIGH, non_empty),
            text(
                f"{prefix}.requirement",
                "What pip is to install for it, blanks between: an environment is made at first use, where tasks run "
                "and beside the worker, and kept.",
                None,
                HIGH,
            ),
            text(
                f"{prefix}.executable",
                f"Path or name of {program}: in that environment, or without one on the PATH. "
                "Not set: the requirement's name.",
                None,
                HIGH,
            ),
            text(f"{prefix}.python", "Interpreter of the environment; not set: the worker's.", None, LOW),
            text(f"{prefix}.config", "Its configuration, as JSON.", None, HIGH, json_object),
            ConfigKey(f"{prefix}.secret.config", Type.PASSWORD, None, HIGH, "More of it, kept secret.", json_object),
            ConfigKey(
                f"{prefix}.environment",
                Type.PASSWORD,
                None,
                LOW,
                "Environment variables as JSON, secret.",
                json_object,
            ),
            ConfigKey(
                f"{prefix}.streams",
                Type.LIST,
                "*",
                HIGH,
                "Streams to read: names or patterns (* and ?), one with ! in front leaves out.",
                non_empty,
            ),
            text(
                f"{prefix}.value",
                "struct: values with a schema, by the column. tree: JSON values without one.",
                STRUCT,
                MEDIUM,
                one_of(STRUCT, TREE),
            ),
            text(
                f"{prefix}.times",
                "text, or timestamp: date-time and date become Connect's Timestamp (whole ms) and Date.",
                "text",
                MEDIUM,
                one_of("text", "timestamp"),
            ),
            text(
                f"{prefix}.deletes",
                "What a deleted record becomes: a tombstone of its key, or a record like others.",
                "tombstone",
                MEDIUM,
                one_of("tombstone", "record"),
            ),
            ConfigKey(
                f"{prefix}.interval.ms",
                Type.LONG,
                60_000,
                HIGH,
                "Wait between the end of a run and the next one, ms; -1: one run.",
                AtLeast(-1),
            ),
            number(
                f"{prefix}.discover.interval.ms",
                "Least age of a discovered catalog before it is made again, ms.",
                3_600_000,
                0,
            ),
            number(f"{prefix}.discover.timeout.ms", "How long discovery may take beside the worker, ms.", 300_000, 1),
            number(
                f"{prefix}.silence.timeout.ms",
                "Without any output for this long it counts as hung, ms; 0: never.",
                900_000,
                0,
            ),
            number(f"{prefix}.line.max.bytes", "Longest line of output; a longer one fails the run.", 64 << 20, 1_024),
            number(
                f"{prefix}.retries.max",
                "Failed runs in a row without a new state before the task fails.",
                10,
                0,
                MEDIUM,
            ),
            number(f"{prefix}.retry.backoff.ms", "First wait after a failed run, ms; doubled each time.", 1_000, 1),
            number(f"{prefix}.retry.backoff.max.ms", "Longest such wait, ms.", 60_000, 1),
        ]
    )


def json_of(value: Any) -> dict[str, Any]:
    """Return the object of a setting of JSON, secret or not; empty where there is none."""
    return dict(json.loads(getattr(value, "value", value))) if value is not None else {}


def merged(tree: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Return two trees as one; where both have an object it is merged, else the second's value wins."""
    both = dict(tree)
    for name, value in other.items():
        mine = both.get(name)
        both[name] = merged(mine, value) if isinstance(mine, dict) and isinstance(value, dict) else value
    return both


def requirement_words(value: str | None) -> list[str]:
    """Return what pip is to install, a word each."""
    return shlex.split(value or "")


def named_program(requirement: Sequence[str]) -> str:
    """Return the program that a requirement most likely is: its first word without version and extras."""
    word = requirement[0] if requirement else ""
    for end in "[=<>!~;@ ":
        word = word.partition(end)[0]
    return word


def chosen(streams: Sequence[str], patterns: Sequence[str]) -> list[str]:
    """Return the streams that patterns choose, sorted. Raises ConnectError: none."""
    wanted = [pattern for pattern in patterns if not pattern.startswith("!")] or ["*"]
    without = [pattern[1:] for pattern in patterns if pattern.startswith("!")]
    found = [
        name
        for name in sorted(set(streams))
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in wanted)
        and not any(fnmatch.fnmatchcase(name, pattern) for pattern in without)
    ]
    if not found:
        raise ConnectError(f"no stream fits {', '.join(patterns)}; there are: {', '.join(sorted(streams)) or 'none'}")
    return found


def plain_names(patterns: Sequence[str]) -> bool:
    """Whether patterns are names: what they choose is known without asking."""
    return not any(character in pattern for pattern in patterns for character in "*?[!")


def shares(streams: Sequence[str], most: int) -> list[list[str]]:
    """Return at most ``most`` shares of the streams, as equal as can be, each sorted."""
    count = min(most, len(streams))
    return [sorted(streams)[number::count] for number in range(count)]
