"""The transformations of one connector, in order, each after its predicate (Java ``TransformationChain``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Protocol, TypeVar

import pyarrow.compute as pc

from spark_connect_rt.api.plugin_modules import versioned
from spark_connect_rt.api.predicate import Predicate
from spark_connect_rt.api.records import B, SinkRecord, SourceRecord
from spark_connect_rt.api.records import R as R_JOINED_STEPS
from spark_connect_rt.api.transformation import Applied, Refused, Together, Transformation
from spark_connect_rt.config.config_def import Type, parse_value, prefixed
from spark_connect_rt.errors import BadConfigError, ExternalError, NotFoundError
from spark_connect_rt.records.pipeline.chain_config import OWN_SETTINGS, FindPlugin
from spark_connect_rt.records.pipeline.errant_records import Stage, StageError
from spark_connect_rt.records.transforms.column_forms import apply_batch as transformed_batch
from spark_connect_rt.records.transforms.predicates import Filter

# Steps of a chain applied to many records at once: steps that a Java host joins cross to it once.
#
# Records pass one part after the other. Each part has the same effect as its steps of the chain alone.


Outcome = Any
"""A record, None when it was dropped, or a StageError."""


class AnyStep(Protocol):
    """A step of a chain (``transformation_chain.Step``)."""

    @property
    def transformation(self) -> Transformation:
        """Return the transformation of this step."""

    @property
    def predicate(self) -> Predicate | None:
        """Return the condition of this step, None for all records."""

    @property
    def negate(self) -> bool:
        """Return which answer keeps a record from it."""


@dataclass(frozen=True, slots=True)
class StepGroup:
    """Neighbouring steps that take many records at once, or one that does not."""

    steps: Sequence[AnyStep]
    made: Together | None
    predicate: Predicate | None  # asked here, before; of one step only

    def apply_all(self, records: Sequence[R_JOINED_STEPS]) -> list[Outcome]:
        """Return the result for each record. Raises ExternalError: the failure is not caused by a record."""
        step = self.steps[0]
        answers: Sequence[bool | Exception] = [not step.negate] * len(records)
        if self.predicate is not None and records:
            answers = self.predicate.test_all(records)
        wanted = [r for r, answer in zip(records, answers, strict=True) if answer is (not step.negate)]
        passed = iter(self._passed(wanted))
        return [
            next(passed) if answer is (not step.negate) else record if answer is step.negate else self._error(0, answer)
            for record, answer in zip(records, answers, strict=True)
        ]

    def _passed(self, records: Sequence[R_JOINED_STEPS]) -> list[Outcome]:
        if self.made is None:
            return [self._one(record) for record in records]
        applied: Sequence[Applied] = self.made.apply_all(records) if records else []
        return [
            self._error(outcome.step, outcome.error) if isinstance(outcome, Refused) else outcome for outcome in applied
        ]

    def _one(self, record: R_JOINED_STEPS) -> Outcome:
        try:
            return self.steps[0].transformation.apply(record)
        except ExternalError:
            raise
        except Exception as error:  # noqa: BLE001 - plug-in code: an error of any class fails only this record
            return self._error(0, error)

    def _error(self, step: int, error: Any) -> StageError:
        raised = StageError(Stage.TRANSFORMATION, type(self.steps[step].transformation))
        raised.__cause__ = error
        return raised

    def close(self) -> None:
        """Close the joined steps that were made here."""
        if self.made is not None:
            self.made.close()


def joined(steps: Sequence[AnyStep], *, alone: bool = False) -> tuple[StepGroup, ...]:
    """Return the steps as parts, none where no step can be joined; ``alone``: a part for each, whatever it can."""
    if alone:
        return tuple(StepGroup([any_step], None, any_step.predicate) for any_step in steps)
    if not any(any_step.transformation.together() or _many(any_step.predicate) for any_step in steps):
        return ()
    parts: list[StepGroup] = []
    for key, group in groupby(enumerate(steps), lambda numbered: _key(*numbered)):
        some = [any_step for _, any_step in group]
        if isinstance(key, int):
            step = some[0]
            together = step.transformation.together()
            parts.append(StepGroup(some, together([_bare(step)]) if together else None, step.predicate))
        else:
            parts.append(StepGroup(some, key(some), None))
    return tuple(parts)


def _many(predicate: Predicate | None) -> bool:
    """Return whether a predicate overrides the form for many records."""
    return predicate is not None and type(predicate).test_all is not Predicate.test_all


def _key(number: int, step: AnyStep) -> Any:
    """Return the function that joins a step with its neighbours. A step that stays alone has its number instead."""
    together = step.transformation.together()
    if together is None or (step.predicate is not None and not step.transformation.takes_predicate(step.predicate)):
        return number
    return together


@dataclass(frozen=True, slots=True)
class _Bare:
    transformation: Transformation
    predicate: None = None
    negate: bool = False


def _bare(step: AnyStep) -> _Bare:
    """Return the step without its predicate, which is asked here."""
    return _Bare(step.transformation)


def pass_all(parts: Sequence[StepGroup], records: Sequence[R_JOINED_STEPS]) -> list[Outcome]:
    """Return the result for each record after all parts. Raises ExternalError."""
    outcomes: list[Outcome] = list(records)
    for part in parts:
        alive = [
            at for at, outcome in enumerate(outcomes) if outcome is not None and not isinstance(outcome, StageError)
        ]
        for at, result in zip(alive, part.apply_all([outcomes[at] for at in alive]), strict=True):
            outcomes[at] = result
    return outcomes


R = TypeVar("R", SourceRecord, SinkRecord)


@dataclass(frozen=True, slots=True)
class Step:
    """One transformation; it applies when its predicate's answer is not ``negate``."""

    transformation: Transformation
    predicate: Predicate | None = None
    negate: bool = False

    def apply(self, record: R) -> R | None:
        """Return the transformed record, the same one if the predicate rejects it, None when dropped."""
        if self.predicate is not None and self.predicate.test(record) is self.negate:
            return record
        return self.transformation.apply(record)

    def apply_batch(self, batch: B) -> B | None:
        """Return the transformed batch, None where it has to go row by row."""
        answer = True if self.predicate is None else self._answer(self.predicate, batch)
        if answer is None:
            return None
        if isinstance(answer, bool):
            return batch if answer is self.negate else transformed_batch(self.transformation, batch)
        if not isinstance(self.transformation, Filter):
            return None  # some records change and others do not
        return batch.where(answer if self.negate else pc.invert(answer))

    @staticmethod
    def _answer(predicate: Predicate, batch: Any) -> Any:
        if (batch.headers is not None or batch.more_headers) and not predicate.takes_headers:
            return None
        answer = predicate.test_batch(batch)
        if answer is None or isinstance(answer, bool):
            return answer
        same = {True: pc.all(answer).as_py(), False: not pc.any(answer).as_py()}
        return next((value for value, holds in same.items() if holds), answer)


@dataclass(frozen=True, slots=True)
class TransformationChain:
    """Every step of a connector, in order.

    If some of them take many records at once (``parts``), ``prepare`` applies them, and ``apply`` returns the prepared
    result. A record that was not prepared, or is applied a second time, goes through the steps alone.
    """

    steps: Sequence[Step] = ()
    parts: Sequence[StepGroup] = ()  # the same steps; empty: none is joined
    _prepared: dict[int, Any] = field(default_factory=dict)  # id of a record -> its prepared result

    @classmethod
    def from_config(cls, config: Mapping[str, str], plugin: FindPlugin) -> TransformationChain:
        """Return the chain of ``transforms``, configured. Raises BadConfigError naming every bad setting."""
        problems: dict[str, Sequence[str]] = {}
        predicates: dict[str, Predicate] = {}
        for alias in parse_value(Type.LIST, config.get("predicates") or ""):
            made = _make(f"predicates.{alias}.", Predicate, config, plugin, problems)
            if made is not None:
                predicates[alias] = made
        steps = []
        for alias in parse_value(Type.LIST, config.get("transforms") or ""):
            transformation = _make(f"transforms.{alias}.", Transformation, config, plugin, problems)
            wanted = config.get(f"transforms.{alias}.predicate")
            if wanted and wanted not in predicates:
                problems[f"transforms.{alias}.predicate"] = [f"predicate {wanted} does not exist"]
            negate = str(config.get(f"transforms.{alias}.negate", "false")).strip().lower() == "true"
            steps.append(Step(transformation, predicates.get(wanted or ""), negate))
        if problems:
            raise BadConfigError(problems)
        return cls(tuple(steps), joined(steps))

    def get_ready(self, *, sink: bool) -> None:
        """Create the steps that take many records at once. Raises BadConfigError, ConnectError."""
        for part in self.parts:
            if part.made is not None:
                part.made.prepare(sink=sink)

    def prepare(self, records: Sequence[R]) -> list[R]:
        """Apply every step to these records; return those that were not dropped. ``apply`` returns the results later.

        Earlier results are forgotten. Raises ExternalError: the failure is not caused by a record.
        """
        self._prepared.clear()
        outcomes = pass_all(self.parts or joined(self.steps, alone=True), records)
        for record, outcome in zip(records, outcomes, strict=True):
            self._prepared[id(record)] = (record, outcome)  # with the record, so that its id stays its own
        return [passed for passed in outcomes if passed is not None and not isinstance(passed, StageError)]

    def apply(self, record: R) -> R | None:
        """Return the record after every step, None when one dropped it. Raises StageError naming the step."""
        if self._prepared and (found := self._prepared.pop(id(record), None)) is not None:
            if isinstance(found[1], StageError):
                raise found[1]
            return found[1]  # type: ignore[no-any-return]  # it is a record, or None
        for step in self.steps:
            try:
                transformed = step.apply(record)
            except ExternalError:
                raise  # no record is to blame
            except Exception as error:  # plug-in code: an error of any class fails only this record
                raise StageError(Stage.TRANSFORMATION, type(step.transformation)) from error
            if transformed is None:
                return None
            record = transformed
        return record

    def apply_batch(self, batch: B) -> B | None:
        """Return the batch after every step, with fewer records if some were dropped; None: it needs rows."""
        for step in self.steps:
            transformed = step.apply_batch(batch)
            if transformed is None or not len(transformed.values):
                return transformed
            batch = transformed
        return batch

    def close(self) -> None:
        """Close every transformation and predicate."""
        for part in self.parts:
            part.close()
        for step in self.steps:
            step.transformation.close()
            if step.predicate is not None:
                step.predicate.close()


def _make(
    prefix: str, kind: type[Any], config: Mapping[str, str], plugin: FindPlugin, problems: dict[str, Sequence[str]]
) -> Any:
    name = config.get(f"{prefix}type")
    if not name:
        problems[f"{prefix}type"] = ["Missing required configuration which has no default value."]
        return None
    try:
        made = plugin(versioned(name, config.get(f"{prefix}plugin.version")))()
        if not isinstance(made, kind):
            problems[f"{prefix}type"] = [f"{name} is not a {kind.__name__}"]
            return None
        own = {key: value for key, value in prefixed(config, prefix).items() if key not in OWN_SETTINGS}
        made.configure(own)
    except NotFoundError as error:
        problems[f"{prefix}type"] = [str(error)]
        return None
    except BadConfigError as error:
        problems.update({f"{prefix}{key}": why for key, why in error.problems.items()})
        return None
    return made
