"""The settings that sources of programs share, each below a prefix, and their typed form."""

from __future__ import annotations

import fnmatch
import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from spark_connect_rt.config.config_def import HIGH, LOW, MEDIUM, REQUIRED, ConfigDef, ConfigKey, Type
from spark_connect_rt.config.settings_group import json_object, number, text
from spark_connect_rt.config.validators import AtLeast, non_empty, one_of
from spark_connect_rt.errors import ConnectError

STRUCT, TREE = "struct", "tree"
TASK_STREAMS = "task.streams"
"""Of a task's configuration, below the prefix: its streams, a JSON array."""


def program_settings(prefix: str, program: str) -> ConfigDef:
    """Return the settings below ``prefix``; ``program`` is the docs' word for one (with its article)."""
    return ConfigDef(
        [
            text("topic", "Topic of a stream's records. ${stream} is the stream's name.", REQUIRED, HIGH, non_empty),
            text(
                f"{prefix}.requirement",
                "Requirements that pip installs for it, separated by spaces. The environment is created at first "
                "use, next to the worker and where tasks run, and kept.",
                None,
                HIGH,
            ),
            text(
                f"{prefix}.executable",
                f"Path or name of {program}, in that environment, or on the PATH if there is none. Not set: the "
                "requirement's name.",
                None,
                HIGH,
            ),
            text(f"{prefix}.python", "Interpreter of the environment. Not set: the worker's.", None, LOW),
            text(f"{prefix}.config", "Configuration of the program, as JSON.", None, HIGH, json_object),
            ConfigKey(
                f"{prefix}.secret.config",
                Type.PASSWORD,
                None,
                HIGH,
                "More of the configuration, kept secret.",
                json_object,
            ),
            ConfigKey(
                f"{prefix}.environment",
                Type.PASSWORD,
                None,
                LOW,
                "Environment variables as JSON, kept secret.",
                json_object,
            ),
            ConfigKey(
                f"{prefix}.streams",
                Type.LIST,
                "*",
                HIGH,
                "Streams to read: names or patterns (* and ?). A leading ! excludes.",
                non_empty,
            ),
            text(
                f"{prefix}.value",
                "struct: values with a schema, as columns. tree: JSON values without a schema.",
                STRUCT,
                MEDIUM,
                one_of(STRUCT, TREE),
            ),
            text(
                f"{prefix}.times",
                "Type of dates. text, or timestamp: Connect's Timestamp (whole ms) and Date.",
                "text",
                MEDIUM,
                one_of("text", "timestamp"),
            ),
            text(
                f"{prefix}.deletes",
                "The form of a deleted record: a tombstone of its key, or a normal record.",
                "tombstone",
                MEDIUM,
                one_of("tombstone", "record"),
            ),
            ConfigKey(
                f"{prefix}.interval.ms",
                Type.LONG,
                60_000,
                HIGH,
                "Wait between two runs, ms. -1: only one run.",
                AtLeast(-1),
            ),
            number(
                f"{prefix}.discover.interval.ms",
                "Age at which the catalog is discovered again, ms.",
                3_600_000,
                0,
            ),
            number(f"{prefix}.discover.timeout.ms", "Timeout of a discovery next to the worker, ms.", 300_000, 1),
            number(
                f"{prefix}.silence.timeout.ms",
                "Time without output after which the program is stopped as hung, ms. 0: never.",
                900_000,
                0,
            ),
            number(f"{prefix}.line.max.bytes", "Longest line of output. A longer one fails the run.", 64 << 20, 1_024),
            number(
                f"{prefix}.retries.max",
                "Failed runs in a row without a new state before the task fails.",
                10,
                0,
                MEDIUM,
            ),
            number(f"{prefix}.retry.backoff.ms", "First wait after a failed run, ms. It doubles each time.", 1_000, 1),
            number(f"{prefix}.retry.backoff.max.ms", "Longest wait after a failed run, ms.", 60_000, 1),
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
    """Return the words that pip installs."""
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
        raise ConnectError(f"no stream matches {', '.join(patterns)}. Streams: {', '.join(sorted(streams)) or 'none'}")
    return found


def plain_names(patterns: Sequence[str]) -> bool:
    """Return whether all patterns are plain names: then the chosen streams are known without a discovery."""
    return not any(character in pattern for pattern in patterns for character in "*?[!")


def shares(streams: Sequence[str], most: int) -> list[list[str]]:
    """Return at most ``most`` shares of the streams, as equal as can be, each sorted."""
    count = min(most, len(streams))
    return [sorted(streams)[number::count] for number in range(count)]
