"""The connector of all sources that are programs: discovers streams on the worker and divides them among tasks."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from spark_connect_rt.api.connector import (
    ConnectorTransactionBoundaries,
    ExactlyOnceSupport,
    SourceConnector,
    SourceOffset,
)
from spark_connect_rt.config.config_def import ConfigDef
from spark_connect_rt.config.worker_settings import BOUNDARY
from spark_connect_rt.connectors.external_process.program import Program
from spark_connect_rt.connectors.external_process.program_output import SHARED, STATE, STREAM
from spark_connect_rt.connectors.external_process.program_settings import TASK_STREAMS, chosen, plain_names, shares
from spark_connect_rt.connectors.external_process.program_task import ProgramSourceTask
from spark_connect_rt.errors import ConnectError


class ProgramSourceConnector(SourceConnector):
    """One program; its streams are divided among at most ``tasks.max`` tasks, each with a separate process."""

    task: ClassVar[type[ProgramSourceTask]]

    def config_def(self) -> ConfigDef:
        """Return the declarations of this connector's settings."""
        return self.task.definition

    def task_class(self) -> type[Any]:
        """Return the class of its tasks."""
        return self.task

    def start(self, config: Mapping[str, str]) -> None:
        """Find the streams: asks the program, unless all are named. Raises ConnectError: it fails, or has none."""
        super().start(config)
        values = self.task.definition.parse(config)
        patterns = values[f"{self._prefix}.streams"]
        self._streams = sorted(set(patterns)) if plain_names(patterns) else self._asked(values, patterns)

    def _asked(self, values: Mapping[str, Any], patterns: Sequence[str]) -> list[str]:
        program = self._program_class(values)
        try:
            return chosen(program.discovered().streams, patterns)
        finally:
            program.close()

    @property
    def _program_class(self) -> type[Program]:
        return self.task.program_class

    @property
    def _prefix(self) -> str:
        return self._program_class.prefix

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """Return a configuration for each share of the streams."""
        name = f"{self._prefix}.{TASK_STREAMS}"
        return [{**self.config, name: json.dumps(share)} for share in shares(self._streams, max_tasks)]

    def validate(self, config: Mapping[str, str]) -> Mapping[str, list[str]]:
        """Return problems that involve several settings: there is no program to run."""
        name, other = f"{self._prefix}.executable", f"{self._prefix}.requirement"
        return {} if config.get(name) or config.get(other) else {other: [f"must be set, or {name}"]}

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport:
        """Return SUPPORTED if transactions end after states.

        The output of a failed run after its last state is dropped.
        """
        bounded = config.get(BOUNDARY, "").lower() == "connector"
        return ExactlyOnceSupport.SUPPORTED if bounded else ExactlyOnceSupport.UNSUPPORTED

    def can_define_transaction_boundaries(self, config: Mapping[str, str]) -> ConnectorTransactionBoundaries:
        """Return SUPPORTED, as ``exactly_once_support`` describes."""
        return ConnectorTransactionBoundaries.SUPPORTED

    def alter_offsets(self, config: Mapping[str, str], offsets: Sequence[SourceOffset]) -> bool:
        """Check the new offsets: a stream's state is JSON text. Raises ConnectError."""
        for partition, offset in offsets:
            if offset is None:
                continue
            if partition is None or partition.keys() != {STREAM}:
                raise ConnectError(f'the partition must be {{"{STREAM}": name}}')
            for name in (STATE, SHARED):
                _check_state(name, offset.get(name))
        return True


def _check_state(name: str, value: Any) -> None:
    try:
        if value is not None:
            json.loads(value)
    except (TypeError, ValueError) as error:
        raise ConnectError(f"the offset's {name} must be JSON text, or null: {error}") from error
