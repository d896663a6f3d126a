"""The transformations of one connector, in order, each behind its predicate (Java ``TransformationChain``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from spark_connect_rt.api.plugin_modules import versioned
from spark_connect_rt.api.predicate import Predicate
from spark_connect_rt.api.records import SinkRecord, SourceRecord
from spark_connect_rt.api.transformation import Transformation
from spark_connect_rt.config.config_def import Type, parse_value, prefixed
from spark_connect_rt.errors import BadConfigError, NotFoundError

R = TypeVar("R", SourceRecord, SinkRecord)

FindPlugin = Callable[[str], type[Any]]
"""Returns the class of a plug-in by class name or alias. Raises NotFoundError."""

_OWN_SETTINGS = ("type", "predicate", "negate", "plugin.version")


@dataclass(frozen=True, slots=True)
class Step:
    """One transformation; it applies when its predicate's answer is not ``negate``."""

    transformation: Transformation
    predicate: Predicate | None = None
    negate: bool = False

    def apply(self, record: R) -> R | None:
        """Return the transformed record, the same one where the predicate says no, None when dropped."""
        if self.predicate is not None and self.predicate.test(record) is self.negate:
            return record
        return self.transformation.apply(record)


@dataclass(frozen=True, slots=True)
class TransformationChain:
    """Every step of a connector."""

    steps: Sequence[Step] = ()

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
                problems[f"transforms.{alias}.predicate"] = [f"no predicate is called {wanted}"]
            negate = str(config.get(f"transforms.{alias}.negate", "false")).strip().lower() == "true"
            steps.append(Step(transformation, predicates.get(wanted or ""), negate))
        if problems:
            raise BadConfigError(problems)
        return cls(tuple(steps))

    def apply(self, record: R) -> R | None:
        """Return the record after every step, None when one dropped it."""
        for step in self.steps:
            transformed = step.apply(record)
            if transformed is None:
                return None
            record = transformed
        return record

    def close(self) -> None:
        """Close transformations and predicates."""
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
            problems[f"{prefix}type"] = [f"{name} is no {kind.__name__}"]
            return None
        own = {key: value for key, value in prefixed(config, prefix).items() if key not in _OWN_SETTINGS}
        made.configure(own)
    except NotFoundError as error:
        problems[f"{prefix}type"] = [str(error)]
        return None
    except BadConfigError as error:
        problems.update({f"{prefix}{key}": why for key, why in error.problems.items()})
        return None
    return made
