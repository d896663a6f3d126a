"""Steps of a chain applied to many records at once: those that a Java host takes together cross to it once.

Records pass one part after the other; what each part does to a record is what the chain does to it alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Protocol

from spark_connect_rt.api.predicate import Predicate
from spark_connect_rt.api.records import R
from spark_connect_rt.api.transformation import Applied, Refused, Together, Transformation
from spark_connect_rt.errors import ExternalError
from spark_connect_rt.records.pipeline.errant_records import Stage, StageError

Outcome = Any
"""A record, None when it was dropped, or a StageError."""


class AnyStep(Protocol):
    """A step of a chain (``transformation_chain.Step``)."""

    @property
    def transformation(self) -> Transformation:
        """Return what is applied."""

    @property
    def predicate(self) -> Predicate | None:
        """Return what decides."""

    @property
    def negate(self) -> bool:
        """Return which answer keeps a record from it."""


@dataclass(frozen=True, slots=True)
class Part:
    """Neighbouring steps that take many records at once, or one that does not."""

    steps: Sequence[AnyStep]
    made: Together | None
    predicate: Predicate | None  # asked here, before; of one step only

    def apply_all(self, records: Sequence[R]) -> list[Outcome]:
        """Return what becomes of each record. Raises ExternalError."""
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

    def _passed(self, records: Sequence[R]) -> list[Outcome]:
        if self.made is None:
            return [self._one(record) for record in records]
        applied: Sequence[Applied] = self.made.apply_all(records) if records else []
        return [
            self._error(outcome.step, outcome.error) if isinstance(outcome, Refused) else outcome for outcome in applied
        ]

    def _one(self, record: R) -> Outcome:
        try:
            return self.steps[0].transformation.apply(record)
        except ExternalError:
            raise
        except Exception as error:  # noqa: BLE001 - plug-in code: whatever it throws is this record's failure
            return self._error(0, error)

    def _error(self, step: int, error: Any) -> StageError:
        raised = StageError(Stage.TRANSFORMATION, type(self.steps[step].transformation))
        raised.__cause__ = error
        return raised

    def close(self) -> None:
        """Close what was made here."""
        if self.made is not None:
            self.made.close()


def joined(steps: Sequence[AnyStep], *, alone: bool = False) -> tuple[Part, ...]:
    """Return the steps as parts, none where no step can be joined; ``alone``: a part for each, whatever it can."""
    if alone:
        return tuple(Part([any_step], None, any_step.predicate) for any_step in steps)
    if not any(any_step.transformation.together() or _many(any_step.predicate) for any_step in steps):
        return ()
    parts: list[Part] = []
    for key, group in groupby(enumerate(steps), lambda numbered: _key(*numbered)):
        some = [any_step for _, any_step in group]
        if isinstance(key, int):
            step = some[0]
            together = step.transformation.together()
            parts.append(Part(some, together([_bare(step)]) if together else None, step.predicate))
        else:
            parts.append(Part(some, key(some), None))
    return tuple(parts)


def _many(predicate: Predicate | None) -> bool:
    """Tell whether a predicate has a form of its own for many records."""
    return predicate is not None and type(predicate).test_all is not Predicate.test_all


def _key(number: int, step: AnyStep) -> Any:
    """Return the function that joins a step with its neighbours; a number of its own where it stays alone."""
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


def pass_all(parts: Sequence[Part], records: Sequence[R]) -> list[Outcome]:
    """Return what becomes of each record after all parts. Raises ExternalError."""
    outcomes: list[Outcome] = list(records)
    for part in parts:
        alive = [
            at for at, outcome in enumerate(outcomes) if outcome is not None and not isinstance(outcome, StageError)
        ]
        for at, result in zip(alive, part.apply_all([outcomes[at] for at in alive]), strict=True):
            outcomes[at] = result
    return outcomes
