"""Java transformations and predicates in the chain of a Python connector (Java ``Transformation``, ``Predicate``).

A class is made for each plug-in (``class X(JavaTransformation): java_class = ...; java_code = ...``). Neighbours in a
chain cross to their JVM together, a whole poll at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

from spark_connect_rt.api.predicate import Predicate
from spark_connect_rt.api.records import R, SinkRecord, SourceRecord
from spark_connect_rt.api.transformation import Applied, Refused, Transformation
from spark_connect_rt.config.config_def import ConfigDef
from spark_connect_rt.engine.java_host.declarations import declared
from spark_connect_rt.engine.java_host.stages.rows import RowCodec
from spark_connect_rt.engine.java_host.stages.stage import JavaStage, describe, failed
from spark_connect_rt.engine.java_host.wire import consumed
from spark_connect_rt.engine.task_runner import JavaCode

MOST_ROWS = 10_000  # of one crossing


class JavaPlugin:
    """The common part of a Python connector's Java plug-ins: their class, where it is, their settings."""

    java_class: ClassVar[str]
    java_code: ClassVar[JavaCode]
    java_version: ClassVar[str] = ""  # asked for among several; empty: there is one

    def __init__(self) -> None:
        """Start without settings and without a JVM."""
        self.config: Mapping[str, str] = {}
        self._crossing: JvmSegment | None = None

    def close(self) -> None:
        """Release the plug-in's number in its JVM, if it has one."""
        if self._crossing is not None:
            self._crossing.close()

    @property
    def jvm_pid(self) -> int | None:
        """Return the process that hosts it, None before its first crossing."""
        return None if self._crossing is None else self._crossing.jvm_pid

    def config_def(self) -> ConfigDef:
        """Return the settings as Java declares them. Starts a JVM for it; raises JavaHostGoneError, NotFoundError."""
        return declared(describe(self.java_code, self.java_class, self.java_version)["keys"])

    @property
    def named(self) -> Mapping[str, Any]:
        """Return what the JVM makes it from."""
        return {"class": self.java_class, "version": self.java_version, "config": dict(self.config)}


class JavaPredicate(JavaPlugin, Predicate):
    """A predicate; alone before a Python transformation, else it crosses with its transformation."""

    def configure(self, config: Mapping[str, str]) -> None:
        """Take the settings; the JVM checks them when it is first needed."""
        self.config = dict(config)

    def test(self, record: SourceRecord | SinkRecord) -> bool:
        """Answer whether the transformation applies."""
        answer = self.test_all([record])[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def test_all(self, records: Sequence[SourceRecord | SinkRecord]) -> list[bool | Exception]:
        """Return the answers of many records, with one crossing."""
        if self._crossing is None:
            self._crossing = JvmSegment([JavaStep(None, self, False)])
        return self._crossing.test_all(records)


class JavaTransformation(JavaPlugin, Transformation):
    """A transformation; the chain joins neighbours (``together``)."""

    def configure(self, config: Mapping[str, str]) -> None:
        """Take the settings; the JVM checks them when the chain is made."""
        self.config = dict(config)

    def together(self) -> Callable[[Sequence[Any]], JvmSegment]:
        """Return the function that joins neighbouring Java plug-ins into one segment."""
        return crossing_of

    def takes_predicate(self, predicate: Predicate) -> bool:
        """Return whether a predicate can be asked where the transformation is."""
        return isinstance(predicate, JavaPredicate)

    def apply(self, record: R) -> R | None:
        """Return the transformed record: a separate crossing."""
        if self._crossing is None:
            self._crossing = JvmSegment([JavaStep(self, None, False)])
        applied = self._crossing.apply_all([record])[0]
        if isinstance(applied, Refused):
            raise applied.error
        return cast("R | None", applied)


@dataclass(frozen=True, slots=True)
class JavaStep:
    """One step of a crossing; without a transformation it is a predicate to be asked."""

    transformation: JavaTransformation | None
    predicate: JavaPredicate | None
    negate: bool

    @property
    def plugins(self) -> list[JavaPlugin]:
        """Return what it is made of."""
        return [plugin for plugin in (self.transformation, self.predicate) if plugin is not None]

    @property
    def head(self) -> Mapping[str, Any]:
        """Return what the JVM makes it from."""
        return {
            "transformation": self.transformation.named if self.transformation else None,
            "predicate": self.predicate.named if self.predicate else None,
            "negate": self.negate,
        }


class JvmSegment:
    """Neighbouring Java steps in one JVM. One thread."""

    def __init__(self, steps: Sequence[JavaStep]) -> None:
        """Take the steps; a JVM is started when records come."""
        self._steps = steps
        self._rows = RowCodec()
        self._stages: dict[bool, JavaStage] = {}  # for source records, for sink records

    @property
    def jvm_pid(self) -> int | None:
        """Return the process of its JVM, None while there is none."""
        return next((stage.jvm_pid for stage in self._stages.values()), None)

    def prepare(self, *, sink: bool) -> None:
        """Have the JVM make the plug-ins. Raises BadConfigError, JavaHostGoneError."""
        self._stage(sink).prepare()

    def _stage(self, sink: bool) -> JavaStage:
        if sink not in self._stages:
            makes = {"kind": "chain", "sink": sink, "steps": [step.head for step in self._steps]}
            code = joined_code([plugin.java_code for step in self._steps for plugin in step.plugins])
            self._stages[sink] = JavaStage(code, makes)
        return self._stages[sink]

    def apply_all(self, records: Sequence[R]) -> list[Applied]:
        """Return what became of each record. Raises JavaHostGoneError; DataError: a value is unlike its schema."""
        applied: list[Applied] = []
        for at in range(0, len(records), MOST_ROWS):
            applied += self._applied(records[at : at + MOST_ROWS])
        return applied

    def _applied(self, records: Sequence[R]) -> list[Applied]:
        stage = self._stage(isinstance(records[0], SinkRecord))
        answer = stage.ask("apply", *consumed(self._rows.batch(records)))
        found: list[Applied] = list(self._rows.records(answer, records))
        steps = answer.head.get("failed_steps", ())
        for (row, error), step in zip(answer.head.get("errors", ()), steps, strict=True):
            found[row] = Refused(step, failed(error))
        return found

    def test_all(self, records: Sequence[SourceRecord | SinkRecord]) -> list[bool | Exception]:
        """Return the answers of the first step's predicate, or what it raised."""
        stage = self._stage(isinstance(records[0], SinkRecord))
        head = stage.ask("test", *consumed(self._rows.batch(records))).head
        answers: list[bool | Exception] = list(head["ok"])
        for row, error in head.get("errors", ()):
            answers[row] = failed(error)
        return answers

    def close(self) -> None:
        """Let the JVM go. Any number of times."""
        for stage in self._stages.values():
            stage.close()


def crossing_of(steps: Sequence[Any]) -> JvmSegment:
    """Return what applies all these steps of a chain at once."""
    return JvmSegment([JavaStep(step.transformation, step.predicate, step.negate) for step in steps])


def joined_code(codes: Sequence[JavaCode]) -> JavaCode:
    """Return the code of a JVM that hosts all of these: every plug-in once, the largest heap's JVM otherwise."""
    first = codes[0]
    plugins = tuple(dict.fromkeys(plugin for code in codes for plugin in code.plugins))
    return replace(first, plugins=plugins, connector_class="", connector_version="")
