"""A connector's configuration as a form: what ``PUT /connector-plugins/{plugin}/config/validate`` answered, in groups.

Pure. Owns which control a setting gets, the order of groups and fields, and how a secret passes through a page: it
does not. In its place stands ``[hidden]``, which stands for "as it is stored" on the way back.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spark_connect_rt.config.indirection import references
from spark_connect_rt.ports.hidden_values import HIDDEN

OWN, OTHER = "Connector", "Other settings"
_LONG_LISTS = 12  # recommended values: more of them are offered while typing, fewer to choose from
_SECRET_NAME = re.compile(
    r"(?:^|[._-])(?:passw(?:or)?d|secret|token|credentials?|api[._-]?key|access[._-]?key|private[._-]?key"
    r"|keystore[._-]key|basic[._-]auth[._-]user[._-]info|sasl[._-]jaas[._-]config)(?:$|[._-])",
    re.IGNORECASE,
)
_NUMBERS = ("INT", "SHORT", "LONG", "DOUBLE")


@dataclass(frozen=True, slots=True)
class Field:
    """One setting. ``value`` is what its control holds: empty is "not set", a secret is ``[hidden]``."""

    name: str
    label: str
    kind: str  # ConfigDef's type, UNDECLARED where the plug-in does not declare the setting
    control: str  # text, number, lines, choice, switch, secret
    value: str
    default: str | None
    required: bool
    importance: str
    documentation: str
    recommended: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()

    @property
    def anchor(self) -> str:
        """The id of its element: any text is a name of a setting, few are ids."""
        return f"setting-{hashlib.sha256(self.name.encode(errors='replace')).hexdigest()[:12]}"

    @property
    def prominent(self) -> bool:
        """Whether it is shown without unfolding anything: given, wrong, required or important."""
        return bool(self.value or self.errors or self.required) or self.importance == "HIGH"


@dataclass(frozen=True, slots=True)
class Group:
    """Settings that belong together, in ConfigDef's order."""

    name: str
    fields: tuple[Field, ...]

    @property
    def anchor(self) -> str:
        """The id of its element."""
        return f"group-{hashlib.sha256(self.name.encode(errors='replace')).hexdigest()[:12]}"

    @property
    def errors(self) -> int:
        """How many complaints there are in it."""
        return sum(len(field.errors) for field in self.fields)

    @property
    def prominent(self) -> bool:
        """Whether it is shown unfolded."""
        return any(field.prominent for field in self.fields)


@dataclass(frozen=True, slots=True)
class Form:
    """A whole configuration. ``json_text`` is the same as JSON, secrets hidden there, too."""

    connector_class: str
    groups: tuple[Group, ...]
    json_text: str
    problem: str = ""  # why nothing could be validated: the class is unknown, say

    def fields(self) -> Iterator[Field]:
        """Yield every field."""
        for group in self.groups:
            yield from group.fields

    @property
    def errors(self) -> tuple[tuple[str, str], ...]:
        """(setting, complaint) for each complaint, in order."""
        return tuple((field.name, error) for field in self.fields() for error in field.errors)


def form_of(answer: Mapping[str, Any], given: Mapping[str, str | None], problem: str = "") -> Form:
    """Return the form of a configuration.

    Args:
        answer: of a validation; an empty one when there was none.
        given: the configuration that was validated, secrets and all: none of them is in the form.
        problem: why there is no answer.
    """
    fields: dict[str, dict[str, list[Field]]] = {}
    declared = _by_name(answer.get("configs") or ())
    secrets = {name for name, (definition, _) in declared.items() if (definition or {}).get("type") == "PASSWORD"}
    shown = hidden(given, secrets)
    orders: dict[str, int] = {}
    for name, (definition, value) in declared.items():
        if value and value.get("visible") is False and not value.get("errors") and not shown.get(name):
            continue
        field = _field(name, definition, value, shown.get(name))
        group = OTHER if definition is None else str(definition.get("group") or OWN)
        orders[name] = _order(definition)
        fields.setdefault(group, {}).setdefault(name, []).append(field)
    for name in shown:
        if name not in declared:
            fields.setdefault(OTHER, {})[name] = [_field(name, None, None, shown[name])]
    groups = tuple(
        Group(name, tuple(sorted((one[0] for one in fields[name].values()), key=lambda it: orders.get(it.name, 0))))
        for name in _group_order(answer.get("groups") or (), fields)
    )
    return Form(str(given.get("connector.class") or ""), groups, json_text(shown), problem)


def _by_name(configs: Iterable[Any]) -> dict[str, tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]]:
    """Return setting -> (declaration, finding). One that stands twice keeps its first place and all complaints."""
    found: dict[str, tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]] = {}
    for one in configs:
        definition, value = one.get("definition"), one.get("value")
        name = str((definition or value or {}).get("name") or "")
        earlier = found.get(name)
        if earlier is None:
            found[name] = definition, value
        else:
            errors = [*((earlier[1] or {}).get("errors") or ()), *((value or {}).get("errors") or ())]
            both = {**(value or {}), **(earlier[1] or {}), "errors": list(dict.fromkeys(errors))}
            found[name] = earlier[0] or definition, both
    return found


def _field(
    name: str, definition: Mapping[str, Any] | None, value: Mapping[str, Any] | None, given: str | None
) -> Field:
    declared, found = definition or {}, value or {}
    kind = str(declared.get("type") or "UNDECLARED")
    recommended = tuple(str(one) for one in found.get("recommended_values") or () if one is not None)
    text = given or ""
    secret = kind == "PASSWORD" or (definition is None and is_secret_name(name))
    default = declared.get("default_value")
    return Field(
        name=name,
        label=str(declared.get("display_name") or name),
        kind=kind,
        control="secret" if secret and not references(text) else _control(kind, recommended, text),
        value=text,
        default=None if default is None else (HIDDEN if secret and default else str(default)),
        required=bool(declared.get("required")),
        importance=str(declared.get("importance") or "LOW"),
        documentation=str(declared.get("documentation") or ""),
        recommended=recommended,
        errors=tuple(str(one) for one in found.get("errors") or ()),
    )


def _control(kind: str, recommended: Sequence[str], text: str) -> str:
    """Return which control holds a setting; whatever does not fit a special one is text."""
    if kind == "BOOLEAN" and text.lower() in ("", "true", "false"):
        return "switch"
    if kind in _NUMBERS and re.fullmatch(r"-?\d*", text) and kind != "DOUBLE":
        return "number"
    if recommended and len(recommended) <= _LONG_LISTS and kind != "LIST" and text in ("", *recommended):
        return "choice"
    return "lines" if "\n" in text or "\r" in text else "text"


def _order(definition: Mapping[str, Any] | None) -> int:
    order = (definition or {}).get("order")
    return order if isinstance(order, int) and order >= 0 else 1 << 30


def _group_order(groups: Iterable[Any], present: Collection[str]) -> list[str]:
    """Return the groups that are there: the connector's own after Connect's common ones, the undeclared last."""
    named = [str(name) for name in groups]
    first = [name for name in named if name == "Common"]
    wanted = [*first, OWN, *named, *present]
    return [name for name in dict.fromkeys(wanted) if name in present and name != OTHER] + [
        name for name in (OTHER,) if name in present
    ]


def is_secret_name(name: str) -> bool:
    """Whether a setting that no one declares is shown as a secret, by the words in its name."""
    return _SECRET_NAME.search(name) is not None


def hidden(config: Mapping[str, str | None], secrets: Collection[str] = ()) -> dict[str, str]:
    """Return a configuration as a page may show it: ``[hidden]`` for secrets, references as they were written.

    ``secrets``: names of settings declared as PASSWORD. Settings that are null are left out.
    """
    return {
        name: HIDDEN if value and (name in secrets or is_secret_name(name)) and not references(value) else value
        for name, value in config.items()
        if value is not None
    }


def restored(given: Mapping[str, str], stored: Mapping[str, str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return what a page sent, each ``[hidden]`` replaced by what is stored, and the settings that store nothing."""
    missing = tuple(name for name, value in given.items() if value == HIDDEN and not stored.get(name))
    return {name: stored.get(name, value) if value == HIDDEN else value for name, value in given.items()}, missing


def json_text(config: Mapping[str, str]) -> str:
    """Return a configuration as a page's JSON editor shows it: the class and the name first, the rest as given."""
    first = {name: config[name] for name in ("name", "connector.class") if name in config}
    return json.dumps({**first, **config}, indent=2, ensure_ascii=False)


def read_json(text: str) -> tuple[dict[str, str], str]:
    """Return (the configuration that an editor's text holds, "") or ({}, what is wrong with it).

    Numbers and switches become the text that was written, as the REST API takes them; null is "not set".
    """
    try:
        pairs = json.loads(text, object_pairs_hook=list, parse_int=str, parse_float=str, parse_constant=str)
    except RecursionError:
        return {}, "a configuration is one JSON object, not nested"
    except ValueError as error:
        return {}, f"this is not JSON: {error}"
    if not text.lstrip().startswith("{"):
        return {}, 'a configuration is one JSON object: {"setting": "value"}'
    config: dict[str, str] = {}
    for name, value in pairs:
        if isinstance(value, list):
            return {}, f"{name}: a setting is a text, number or switch, not a list or an object"
        if name in config:
            return {}, f"{name} stands twice"
        if value is not None:
            config[name] = value if isinstance(value, str) else str(value).lower()
    return config, ""
