"""A setting is declared once, as data, under Kafka's own name (Java ``ConfigDef``).

Owns: types, parsing of text into typed values, reports of every problem at once. Knows no setting itself.
REST ``validate``, the reference docs and the typed configurations all read the same declarations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from spark_connect_rt.config.validators import Check, Sentence, anything, complaint_of_nothing
from spark_connect_rt.errors import BadConfigError


class _Required:
    """The default of a setting that has none."""

    def __repr__(self) -> str:
        return "REQUIRED"

    def __reduce__(self) -> str:
        return "REQUIRED"  # pickles to the one instance


REQUIRED: Final = _Required()


class Type(Enum):
    """The type of a setting, by which its text is parsed (Java ``ConfigDef.Type``)."""

    BOOLEAN = "BOOLEAN"
    STRING = "STRING"
    INT = "INT"
    SHORT = "SHORT"
    LONG = "LONG"
    DOUBLE = "DOUBLE"
    LIST = "LIST"
    CLASS = "CLASS"
    PASSWORD = "PASSWORD"


class Importance(Enum):
    """How likely a user has to think about the setting."""

    HIGH = "HIGH"
    MEDIUM = "MEDIUM"
    LOW = "LOW"


HIGH, MEDIUM, LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW


@dataclass(frozen=True, slots=True)
class Password:
    """A secret; shows itself only when ``value`` is asked for."""

    value: str

    def __repr__(self) -> str:
        return "[hidden]"

    __str__ = __repr__


_INTEGER_BITS = {Type.INT: 32, Type.SHORT: 16, Type.LONG: 64}
_PARSERS: dict[Type, Callable[[str], Any]] = {
    Type.STRING: str,
    Type.CLASS: str,
    Type.PASSWORD: Password,
    Type.LIST: lambda text: [word.strip() for word in text.split(",")] if text else [],
}


_TRIMMED = "".join(map(chr, range(0x21)))


def _parse_boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("Expected value to be either true or false")
    return text.lower() == "true"


def _parse_number(text: str, kind: Type) -> int | float:
    try:
        if kind is Type.DOUBLE:
            return float(text)
        number = int(text) if "_" not in text else None
    except ValueError:
        number = None
    bits = _INTEGER_BITS.get(kind, 64)
    if number is None or not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise ValueError(f"Not a number of type {kind.value}")
    return number


def java_trim(text: str) -> str:
    """Return ``String.trim``: without the control characters and blanks at both ends; other spaces belong to a text."""
    return text.strip(_TRIMMED)


def parse_value(kind: Type, raw: Any, *, trimmed: bool = True) -> Any:
    """Turn text into the typed value; a typed one is kept. Raises ValueError with the reason.

    ``trimmed``: without blanks and control characters at both ends, as Java does with every setting.
    """
    if raw is None or not isinstance(raw, str):
        return raw
    text = java_trim(raw) if trimmed else raw
    if kind is Type.BOOLEAN:
        return _parse_boolean(text)
    if kind in _PARSERS:
        return _PARSERS[kind](text)
    return _parse_number(text, kind)


def text_of(value: Any) -> str | None:
    """Return a typed value as the text a properties file would hold; secrets stay hidden."""
    if value is None or value is REQUIRED:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return str(value)


def _java_text(value: Any) -> str:
    """Return a typed value as Java's sentences show it."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(str, value))}]"
    return "null" if value is None else str(text_of(value))


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """One setting: Kafka's spelling, type, default (REQUIRED: none), importance, doc that names the unit."""

    name: str
    type: Type
    default: Any
    importance: Importance
    doc: str
    check: Check = anything
    group: str | None = None
    order: int = -1
    width: str = "NONE"
    display_name: str | None = None
    dependents: tuple[str, ...] = ()
    recommended: tuple[str, ...] = ()
    trimmed: bool = True  # False: a tab or a blank is a value of a setting that Java does not have
    doubt: Check = anything  # returns why a valid value is surely a mistake: a warning
    # the name in its check's complaint: in a chain, as in Java, the one without the prefix
    checked_as: str | None = None

    @property
    def required(self) -> bool:
        """Whether the setting has no default."""
        return self.default is REQUIRED

    def parse(self, raw: Mapping[str, Any]) -> tuple[Any, list[str]]:
        """Return (typed value or None, complaints) for this setting in ``raw``."""
        if raw.get(self.name) is None and (self.name not in raw or self.default is not REQUIRED):
            if self.default is REQUIRED:
                missing = f'Missing required configuration "{self.name}" which has no default value.'
                return None, [missing, *self._complaints(None, complaint_of_nothing(self.check))]
            return parse_value(self.type, self.default, trimmed=self.trimmed), []
        given = raw[self.name]
        shown = "[hidden]" if self.type is Type.PASSWORD else given
        try:
            value = parse_value(self.type, given, trimmed=self.trimmed)
        except ValueError as error:
            wrong = f"Invalid value {shown} for configuration {self.name}: {error}"
            return None, [wrong, *self._complaints(None, complaint_of_nothing(self.check))]
        return value, self._complaints(value, self.check(value))

    def _complaints(self, value: Any, complaint: str | None) -> list[str]:
        """Return Java's sentence about a value that its check rejects."""
        if complaint is None:
            return []
        if isinstance(complaint, Sentence):
            return [str(complaint)]
        return [f"Invalid value {_java_text(value)} for configuration {self.checked_as or self.name}: {complaint}"]


@dataclass(frozen=True, slots=True)
class ConfigValue:
    """The result of validating one setting (Java ``ConfigValue``)."""

    name: str
    value: Any
    errors: tuple[str, ...] = ()
    recommended_values: tuple[str, ...] = ()
    visible: bool = True


@dataclass(frozen=True, slots=True, init=False)
class ConfigDef:
    """An immutable tuple of settings; ``a + b`` has both, b's declaration winning where both declare one."""

    keys: tuple[ConfigKey, ...]

    def __init__(self, keys: Iterable[ConfigKey] = ()) -> None:
        """Take the settings in their order. Raises ValueError when one is declared twice."""
        declared = tuple(keys)
        names = [key.name for key in declared]
        if len(set(names)) != len(names):
            raise ValueError(f"settings declared twice: {sorted({name for name in names if names.count(name) > 1})}")
        object.__setattr__(self, "keys", declared)

    def __iter__(self) -> Iterator[ConfigKey]:
        return iter(self.keys)

    def __len__(self) -> int:
        return len(self.keys)

    def __contains__(self, name: object) -> bool:
        return any(key.name == name for key in self.keys)

    def __getitem__(self, name: str) -> ConfigKey:
        return next(key for key in self.keys if key.name == name)

    def __add__(self, other: ConfigDef) -> ConfigDef:
        later = {key.name: key for key in other.keys}
        first = [later.pop(key.name, key) for key in self.keys]
        return ConfigDef((*first, *later.values()))

    def names(self) -> tuple[str, ...]:
        """Return the settings' names in their order."""
        return tuple(key.name for key in self.keys)

    def parse(self, raw: Mapping[str, Any]) -> dict[str, Any]:
        """Return every declared setting, typed. Raises BadConfigError naming every bad one, not just one."""
        values: dict[str, Any] = {}
        problems: dict[str, Sequence[str]] = {}
        for key in self.keys:
            values[key.name], complaints = key.parse(raw)
            if complaints:
                problems[key.name] = complaints
        if problems:
            raise BadConfigError(problems)
        return values

    def validate(self, raw: Mapping[str, Any]) -> list[ConfigValue]:
        """Return one finding a declared setting, valid or not, in order of declaration; never raises.

        The value is None if the text does not have the setting's type. A value that only the check rejects is kept.
        """
        findings = []
        for key in self.keys:
            value, complaints = key.parse(raw)
            findings.append(ConfigValue(key.name, value, tuple(complaints), key.recommended))
        return findings

    def doubts(self, raw: Mapping[str, Any]) -> dict[str, str]:
        """Return each setting whose value is valid and surely a mistake, with the reason."""
        found = {}
        for key in self.keys:
            value, complaints = key.parse(raw) if raw.get(key.name) is not None else (None, [])
            doubt = key.doubt(value) if value is not None and not complaints else None
            if doubt is not None:
                found[key.name] = doubt
        return found

    def unknown(self, raw: Mapping[str, Any], prefixes: Sequence[str] = ()) -> list[str]:
        """Return the names in ``raw`` that are neither declared nor start with one of ``prefixes``."""
        declared = set(self.names())
        return [name for name in raw if name not in declared and not name.startswith(tuple(prefixes))]


def prefixed(raw: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Return the settings that start with ``prefix``, without it (Java ``originalsWithPrefix``)."""
    cut = len(prefix)
    return {name[cut:]: value for name, value in raw.items() if name.startswith(prefix) and len(name) > cut}
