"""The settings of a connector's own chain: ``transforms.<alias>.*`` and ``predicates.<alias>.*``.

The classes that the configuration names determine the settings (Java ``ConnectorConfig.enrich``). Quick to import:
checking a chain does not need the code that applies it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from spark_connect_rt.api.plugin_modules import BROKEN_PLUGIN, versioned
from spark_connect_rt.api.predicate import Predicate
from spark_connect_rt.api.transformation import Transformation
from spark_connect_rt.config.config_def import REQUIRED, ConfigDef, ConfigKey, Importance, Type, parse_value, prefixed
from spark_connect_rt.config.connector_config import unknown_class, wrong_class
from spark_connect_rt.errors import BadConfigError, NotFoundError

FindPlugin = Callable[[str], type[Any]]
"""Returns the class of a plug-in by class name or alias. Raises NotFoundError."""

OWN_SETTINGS = ("type", "predicate", "negate", "plugin.version")
_IMPORTANCE_ORDER = list(Importance)


@dataclass(frozen=True, slots=True)
class _Kind:
    """The differences between transformations and predicates."""

    setting: str
    group: str
    word: str
    plugin: type[Any]
    own: tuple[ConfigKey, ...]


_KINDS = (
    _Kind(
        "transforms",
        "Transforms",
        "Transformation",
        Transformation,
        (
            ConfigKey("predicate", Type.STRING, None, Importance.MEDIUM, "Alias of the predicate that decides."),
            ConfigKey(
                "negate",
                Type.BOOLEAN,
                False,
                Importance.MEDIUM,
                "Whether to apply it to records that the predicate does not match.",
            ),
        ),
    ),
    _Kind("predicates", "Predicates", "Predicate", Predicate, ()),
)


def chain_config_def(config: Mapping[str, str], plugin: FindPlugin) -> ConfigDef:
    """Return the settings of every alias; those of a class that cannot be found are left out."""
    keys: list[ConfigKey] = []
    for kind in _KINDS:
        for alias in _aliases(config, kind):
            keys += _alias_keys(kind, alias, config, plugin)
    return ConfigDef(keys)


def _aliases(config: Mapping[str, str], kind: _Kind) -> list[str]:
    named = parse_value(Type.LIST, config.get(kind.setting) or "")
    return [alias for alias in dict.fromkeys(named) if alias]


def _alias_keys(kind: _Kind, alias: str, config: Mapping[str, str], plugin: FindPlugin) -> list[ConfigKey]:
    prefix, group = f"{kind.setting}.{alias}.", f"{kind.group}: {alias}"
    made, _ = _make(kind, prefix, config, plugin)
    shown = (
        ("type", Type.CLASS, REQUIRED, f"Class of the {kind.word.lower()} {alias}.", "type"),
        ("plugin.version", Type.STRING, None, f"Version of the {kind.word.lower()} {alias}.", "version"),
    )
    keys = [
        ConfigKey(
            f"{prefix}{name}",
            of,
            default,
            Importance.HIGH,
            doc,
            group=group,
            order=order,
            width="LONG",
            display_name=f"{kind.word} {word} for {alias}",
        )
        for order, (name, of, default, doc, word) in enumerate(shown)
    ]
    if made is None:
        return keys
    inner = [key for key in made.config_def() if key.name not in {config_key.name for config_key in kind.own}]
    for order, key in enumerate(sorted([*kind.own, *inner], key=_rank), start=len(shown)):
        shown_name = key.display_name or key.name
        names = {"name": f"{prefix}{key.name}", "display_name": shown_name, "checked_as": key.name}
        keys.append(replace(key, **names, group=f"{group}: {key.group}" if key.group else group, order=order))
    return keys


def _rank(key: ConfigKey) -> tuple[str, int, bool, int, str]:
    """Java's order: by group and place, then those without a default, then by importance and name."""
    return key.group or "", key.order, not key.required, _IMPORTANCE_ORDER.index(key.importance), key.name


def _make(kind: _Kind, prefix: str, config: Mapping[str, str], plugin: FindPlugin) -> tuple[Any, dict[str, list[str]]]:
    """Return the plug-in that an alias names, None with the complaints when it cannot be loaded."""
    setting, version_setting = f"{prefix}type", f"{prefix}plugin.version"
    name, version = config.get(setting), config.get(version_setting)
    if name is None:
        return None, {}  # the missing setting is reported by its declaration
    try:
        made = plugin(versioned(name, version))() if name.strip() else None
    except BadConfigError as error:  # the version is invalid
        whys = [why for found in error.problems.values() for why in found]
        return None, {setting: whys, version_setting: whys}
    except NotFoundError as error:
        return None, _not_found(kind, prefix, config, plugin, error)
    if made is None:
        return None, {setting: [unknown_class(setting, name)]}
    if not isinstance(made, kind.plugin):
        return None, {setting: [wrong_class(name, kind.word)]}
    return made, {}


def _not_found(
    kind: _Kind, prefix: str, config: Mapping[str, str], plugin: FindPlugin, error: NotFoundError
) -> dict[str, list[str]]:
    setting, version_setting = f"{prefix}type", f"{prefix}plugin.version"
    if config.get(version_setting) and _make(kind, prefix, {setting: config[setting]}, plugin)[0] is not None:
        return {setting: [str(error)], version_setting: [str(error)]}
    why = f" {error}" if error.code == BROKEN_PLUGIN else ""
    return {setting: [f"{unknown_class(setting, config[setting])}{why}"]}


def chain_problems(config: Mapping[str, str], plugin: FindPlugin) -> dict[str, list[str]]:
    """Return the problems of the chain: setting -> complaints; also those that Java finds only when a task starts."""
    problems = {
        config_value.name: list(config_value.errors)
        for config_value in chain_config_def(config, plugin).validate(config)
        if config_value.errors
    }
    for kind in _KINDS:
        for alias in _aliases(config, kind):
            prefix = f"{kind.setting}.{alias}."
            made, found = _make(kind, prefix, config, plugin)
            if made is not None:
                found = _predicate_problems(kind, prefix, config)
            if made is not None and not any(name.startswith(prefix) for name in problems):
                found.update(_configure_problems(made, prefix, config))
            for name, why in found.items():
                problems.setdefault(name, []).extend(why)
    return problems


def _predicate_problems(kind: _Kind, prefix: str, config: Mapping[str, str]) -> dict[str, list[str]]:
    if kind.setting != "transforms":
        return {}
    negate, predicate = f"{prefix}negate", f"{prefix}predicate"
    wanted = config.get(predicate)
    if negate in config and predicate not in config:
        return {
            f"{prefix}type": [
                f"Config '{negate}' was provided but there is no config '{predicate}' "
                "defining a predicate to be negated."
            ]
        }
    if wanted and wanted not in _aliases(config, _KINDS[1]):
        return {predicate: [f"predicate {wanted} does not exist"]}
    return {}


def _configure_problems(made: Any, prefix: str, config: Mapping[str, str]) -> dict[str, list[str]]:
    own = {name: value for name, value in prefixed(config, prefix).items() if name not in OWN_SETTINGS}
    try:
        made.configure(own)
    except BadConfigError as error:
        return {f"{prefix}{name}": list(why) for name, why in error.problems.items()}
    finally:
        made.close()
    return {}
