"""The settings of the directory source."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Mapping
from typing import Any

from spark_connect_rt.config.config_def import HIGH, LOW, MEDIUM, REQUIRED, ConfigDef, ConfigKey, Type
from spark_connect_rt.config.java_regex import java_pattern
from spark_connect_rt.config.validators import AtLeast, java_regex, non_empty, one_of
from spark_connect_rt.connectors.files.delimited_settings import ROWS, checked_rows, row_problems
from spark_connect_rt.connectors.files.directory_files import HIDDEN, share_of
from spark_connect_rt.errors import BadConfigError

TASK, TASKS = "directory.task", "directory.tasks"  # of a task's configuration: its number, and of how many
LEAVE, DELETE, MOVE, RENAME = "leave", "delete", "move", "rename"

CONFIG = (
    ConfigDef(
        [
            ConfigKey(
                "directory", Type.STRING, REQUIRED, HIGH, "Folder of the files. Subfolders are not read.", non_empty
            ),
            ConfigKey("topic", Type.STRING, REQUIRED, HIGH, "Topic that the rows are sent to.", non_empty),
            ConfigKey(
                "format",
                Type.STRING,
                "csv",
                HIGH,
                "csv: delimited rows. jsonl: one JSON object per line. parquet: columns and types of the file.",
                one_of("csv", "jsonl", "parquet", ignore_case=True),
            ),
            ConfigKey(
                "file.pattern",
                Type.STRING,
                "*",
                HIGH,
                "Pattern of file names to read, with * ? and [abc]. Names that begin with . or _ are never read.",
                non_empty,
            ),
            ConfigKey(
                "file.regex",
                Type.STRING,
                None,
                LOW,
                "Regular expression that the whole name must also match.",
                java_regex,
            ),
            ConfigKey(
                "file.order",
                Type.STRING,
                "name",
                MEDIUM,
                "Order of the files of a task: by name, or by modification time.",
                one_of("name", "modified", ignore_case=True),
            ),
            ConfigKey(
                "file.settle.ms",
                Type.LONG,
                1_000,
                MEDIUM,
                "How long size and time of a file must stay the same before it is read, ms, so that no "
                "half-written file is read. 0: read it immediately, for files that are moved here complete.",
                AtLeast(0),
            ),
            ConfigKey(
                "poll.interval.ms", Type.LONG, 1_000, MEDIUM, "Time between polls of the directory, ms.", AtLeast(1)
            ),
            ConfigKey(
                "file.done",
                Type.STRING,
                LEAVE,
                HIGH,
                "What happens to a file once all of its rows are acknowledged and its offset is stored. leave: it "
                "stays, and is read again only if it changes.",
                one_of(LEAVE, DELETE, MOVE, RENAME, ignore_case=True),
            ),
            ConfigKey("file.done.directory", Type.STRING, None, MEDIUM, "Folder that file.done=move moves files to."),
            ConfigKey(
                "file.done.suffix",
                Type.STRING,
                ".done",
                LOW,
                "Suffix that file.done=rename adds to the name.",
                non_empty,
            ),
            ConfigKey(
                "file.error.directory",
                Type.STRING,
                None,
                MEDIUM,
                "Folder for files that cannot be read or have a row that is not tolerated. Reading continues with "
                "the next file. Not set: errors.tolerance decides, and all leaves the file where it is.",
            ),
        ]
    )
    + ROWS
)


def checked(config: Mapping[str, str]) -> dict[str, Any]:
    """Return the typed settings. Raises BadConfigError."""
    values = checked_rows(CONFIG, config)
    for name in ("file.order", "file.done"):
        values[name] = values[name].lower()
    if values["file.done"] == MOVE and not values["file.done.directory"]:
        raise BadConfigError({"file.done.directory": ["must be set with file.done=move"]})
    return values


def problems(config: Mapping[str, str]) -> dict[str, list[str]]:
    """Return problems of settings against each other."""
    found = row_problems(CONFIG, config)
    moves = (config.get("file.done") or "").lower() == MOVE
    if moves and not config.get("file.done.directory"):
        found["file.done.directory"] = ["must be set with file.done=move"]
    return found


def name_filter(values: Mapping[str, Any], config: Mapping[str, str]) -> Callable[[str], bool]:
    """Return which file names are this task's."""
    regex = None if values["file.regex"] is None else java_pattern(values["file.regex"])
    suffix = values["file.done.suffix"] if values["file.done"] == RENAME else None
    task, tasks = int(config.get(TASK, "0")), int(config.get(TASKS, "1"))

    def wanted(name: str) -> bool:
        return (
            not name.startswith(HIDDEN)
            and not (suffix and name.endswith(suffix))
            and fnmatch.fnmatchcase(name, values["file.pattern"])
            and (regex is None or regex.fullmatch(name) is not None)
            and share_of(name, tasks) == task
        )

    return wanted
