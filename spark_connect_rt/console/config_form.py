"""A connector's configuration as a form: the answer of a validation, in groups.

Pure. Owns which control a setting gets, which settings come first, which are folded, and how a secret passes through a
page: it does not. ``[hidden]`` takes its place and means "as stored" on the way back.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from spark_connect_rt.base.hidden_values import HIDDEN
from spark_connect_rt.config.connector_config import SINK, SOURCE
from spark_connect_rt.config.secrets import references

FIRST, OWN, OTHER = "Main settings", "More settings of this connector", "Other settings"
_CONVERTERS, _CLIENTS = "Converters", "Kafka clients"
_TITLES = {
    "Common": "Common to all connectors",
    "Error Handling": "Error handling",
    "Execution": "Execution on Spark",
    "Health": "Restarts and stall detection",
    "Topic Creation": "Topic creation",
    "Exactly Once Support": "Exactly-once",
    "offsets.topic": "Offset storage",
}
"""Java's name of a group, or the worker's -> the title that the form shows."""
_RANKS = {"name": 0, "topics": 1, "topics.regex": 2, "tasks.max": 9}  # in FIRST, around the connector's own settings
_RANK_REQUIRED, _RANK_IMPORTANT = 3, 4
_COMMON_NAMES = frozenset((*SOURCE.names(), *SINK.names()))
_COMMON_GROUPS = frozenset(key.group for key in (*SOURCE, *SINK) if key.group)
_BY_PREFIX = (
    *((f"{side}.converter.", _CONVERTERS) for side in ("key", "value", "header")),
    *((f"{client}.override.", _CLIENTS) for client in ("producer", "consumer", "admin")),
)
_LONG_LISTS = 12  # recommended values: more of them are offered while typing, fewer to choose from
_SECRET_NAME = re.compile(
    r"(?:^|[._-])(?:passw(?:or)?d|secret|token|credentials?|api[._-]?key|access[._-]?key|private[._-]?key"
    r"|keystore[._-]key|basic[._-]auth[._-]user[._-]info|sasl[._-]jaas[._-]config)(?:$|[._-])",
    re.IGNORECASE,
)
_NUMBERS = ("INT", "SHORT", "LONG", "DOUBLE")


@dataclass(frozen=True, slots=True)
class FormField:
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
    folded: bool = False  # shown only when a reader asks for more settings of its group

    @property
    def anchor(self) -> str:
        """The id of its element: any text is a name of a setting, few are ids."""
        return f"setting-{hashlib.sha256(self.name.encode(errors='replace')).hexdigest()[:12]}"


@dataclass(frozen=True, slots=True)
class SettingGroup:
    """Settings that belong together, in ConfigDef's order."""

    name: str
    fields: tuple[FormField, ...]

    @property
    def anchor(self) -> str:
        """The id of its element."""
        return f"group-{hashlib.sha256(self.name.encode(errors='replace')).hexdigest()[:12]}"

    @property
    def errors(self) -> int:
        """How many complaints there are in it."""
        return sum(len(field.errors) for field in self.fields)

    @property
    def shown(self) -> tuple[FormField, ...]:
        """The settings that are seen once the group is unfolded."""
        return tuple(field for field in self.fields if not field.folded)

    @property
    def more(self) -> tuple[FormField, ...]:
        """The settings behind "more settings"; none where all are folded: then the group itself is."""
        return tuple(field for field in self.fields if field.folded)

    @property
    def open(self) -> bool:
        """Whether it is unfolded at first."""
        return bool(self.shown)


@dataclass(frozen=True, slots=True)
class Form:
    """A whole configuration. ``json_text`` is the same as JSON, secrets hidden there, too."""

    connector_class: str
    groups: tuple[SettingGroup, ...]
    json_text: str
    problem: str = ""  # why nothing could be validated: the class is unknown, say

    def fields(self) -> Iterator[FormField]:
        """Yield every field of all groups."""
        for group in self.groups:
            yield from group.fields

    @property
    def errors(self) -> tuple[tuple[str, str], ...]:
        """(setting, complaint) for each complaint, in order."""
        return tuple((field.name, error) for field in self.fields() for error in field.errors)


def form_of(
    answer: Mapping[str, Any], given: Mapping[str, str | None], problem: str = "", *, untouched: bool = False
) -> Form:
    """Return the form of a configuration.

    Args:
        answer: of a validation; an empty one when there was none.
        given: the configuration that was validated, secrets and all: none of them is in the form.
        problem: why there is no answer.
        untouched: the user has not typed anything yet, so settings that are still empty are not shown as wrong.
    """
    fields: dict[str, list[FormField]] = {}
    declared = _by_name(answer.get("configs") or ())
    secrets = {name for name, (setting, _) in declared.items() if setting.get("type") == "PASSWORD"}
    shown = hidden(given, secrets)
    orders: dict[str, int] = {}
    for name, (definition, value) in declared.items():
        text = shown.get(name)
        wrong = bool(value.get("errors"))
        if not text and not wrong and (value.get("visible") is False or name.endswith(".converter.type")):
            continue  # a converter's type is set by the worker, never by a user
        field = _field(name, definition, value, text)
        if untouched and not text:
            field = replace(field, errors=())
        group = _group_of(field, definition)
        orders[name] = _order(definition)
        fields.setdefault(group, []).append(replace(field, folded=_is_folded(field, group)))
    for name in shown:
        if name not in declared:
            fields.setdefault(OTHER, []).append(_field(name, {}, {}, shown[name]))
    groups = tuple(
        SettingGroup(_TITLES.get(name, name), tuple(_in_order(name, fields[name], orders)))
        for name in _group_order(answer.get("groups") or (), fields)
    )
    return Form(str(given.get("connector.class") or ""), groups, json_text(shown), problem)


def _group_of(field: FormField, definition: Mapping[str, Any]) -> str:
    """Return the group of a setting: ``FIRST`` has those that a user of this connector must think about first."""
    own = field.name not in _COMMON_NAMES
    prefixed = next((group for prefix, group in _BY_PREFIX if field.name.startswith(prefix)), "")
    if not definition:
        return OTHER
    if prefixed:
        return prefixed
    if field.name in _RANKS:
        return FIRST
    if own and not field.name.startswith(("transforms.", "predicates.", "topic.creation.")):
        return (
            FIRST if definition.get("required") or field.importance == "HIGH" else str(definition.get("group") or OWN)
        )
    return str(definition.get("group") or OWN)


def _is_folded(field: FormField, group: str) -> bool:
    """Return whether a setting is shown only on request: it is neither set, nor wrong, nor one to think about."""
    if group == FIRST or field.errors:
        return False
    if field.name == "connector.class":
        return True  # the page's title says it
    return not (field.value or (field.required and field.name not in _COMMON_NAMES))


def _in_order(group: str, fields: Sequence[FormField], orders: Mapping[str, int]) -> list[FormField]:
    """Return the fields in ConfigDef's order; in ``FIRST`` the essential, the required, then the important ones."""

    def place(field: FormField) -> tuple[int, int]:
        rank = _RANKS.get(field.name, _RANK_REQUIRED if field.required else _RANK_IMPORTANT)
        return (rank if group == FIRST else 0), orders.get(field.name, 0)

    return sorted(fields, key=place)


def _by_name(configs: Iterable[Any]) -> dict[str, tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Return setting -> (declaration, finding), empty where there is none; ``choices`` are put into the finding.

    A setting that is listed twice keeps its first place and all complaints.
    """
    found: dict[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {}
    for setting in configs:
        definition, value = setting.get("definition") or {}, setting.get("value") or {}
        value = {**value, "choices": setting.get("choices") or ()}
        name = str(definition.get("name") or value.get("name") or "")
        earlier = found.get(name)
        if earlier is None:
            found[name] = definition, value
        else:
            errors = [*(earlier[1].get("errors") or ()), *(value.get("errors") or ())]
            found[name] = earlier[0] or definition, {**value, **earlier[1], "errors": list(dict.fromkeys(errors))}
    return found


def _field(name: str, declared: Mapping[str, Any], found: Mapping[str, Any], given: str | None) -> FormField:
    kind = str(declared.get("type") or "UNDECLARED")
    text = given or ""
    recommended = _values_to_choose(found, text)
    secret = kind == "PASSWORD" or (not declared and is_secret_name(name))
    default = declared.get("default_value")
    return FormField(
        name=name,
        label=str(declared.get("display_name") or name),
        kind=kind,
        control="secret" if secret and not references(text) else _control(kind, recommended, text),
        value=text,
        default=None if default is None else (HIDDEN if secret and default else str(default)),
        required=bool(declared.get("required")) or _is_needed(name, declared, found, text),
        importance=str(declared.get("importance") or "LOW"),
        documentation=str(declared.get("documentation") or ""),
        recommended=recommended,
        errors=tuple(str(error) for error in found.get("errors") or ()),
    )


def _is_needed(name: str, declared: Mapping[str, Any], found: Mapping[str, Any], text: str) -> bool:
    """Return whether a connector's own check asks for a setting that its definition does not call required.

    Debezium does so: ``database.hostname`` has no default, and its validator rejects the missing value.
    """
    own = bool(declared) and name not in _COMMON_NAMES
    return own and not text and declared.get("default_value") is None and bool(found.get("errors"))


def _values_to_choose(found: Mapping[str, Any], text: str) -> tuple[str, ...]:
    """Return what is recommended, else what the setting's check accepts, a word that is set in its own spelling."""
    recommended = tuple(str(value) for value in found.get("recommended_values") or () if value is not None)
    return tuple(text if word.lower() == text.lower() else word for word in recommended or found.get("choices") or ())


def _control(kind: str, recommended: Sequence[str], text: str) -> str:
    """Return which control holds a setting: a text field if no special one fits."""
    if kind == "BOOLEAN" and text.lower() in ("", "true", "false"):
        return "switch"
    if kind in _NUMBERS and re.fullmatch(r"-?\d*", text) and kind != "DOUBLE":
        return "number"
    if recommended and len(recommended) <= _LONG_LISTS and kind != "LIST" and text in ("", *recommended):
        return "choice"
    return "lines" if "\n" in text or "\r" in text else "text"


def _order(definition: Mapping[str, Any]) -> int:
    order = definition.get("order")
    return order if isinstance(order, int) and order >= 0 else 1 << 30


def _group_order(groups: Iterable[Any], present: Collection[str]) -> list[str]:
    """Return the groups that are there: the connector's own, its transformations, Connect's common ones, undeclared."""
    named = [str(name) for name in groups]
    chain = [name for name in named if name.startswith(("Transforms", "Predicates"))]
    own = [name for name in named if name not in _COMMON_GROUPS and name not in chain]
    wanted = [FIRST, OWN, *own, *chain, _CONVERTERS, *named, _CLIENTS, *present]
    return [name for name in dict.fromkeys(wanted) if name in present and name != OTHER] + [
        name for name in (OTHER,) if name in present
    ]


def is_secret_name(name: str) -> bool:
    """Whether an undeclared setting is shown as a secret, by the words in its name."""
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
        return {}, "a configuration must be one JSON object without nesting"
    except ValueError as error:
        return {}, f"not valid JSON: {error}"
    if not text.lstrip().startswith("{"):
        return {}, 'a configuration must be one JSON object: {"setting": "value"}'
    config: dict[str, str] = {}
    for name, value in pairs:
        if isinstance(value, list):
            return {}, f"{name}: a setting must be a string, number or boolean, not a list or an object"
        if name in config:
            return {}, f"{name} is set twice"
        if value is not None:
            config[name] = value if isinstance(value, str) else str(value).lower()
    return config, ""
