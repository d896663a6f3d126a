"""Answers to a validation: what is declared, what was given, what is wrong with it (Java ``ConfigInfos``).

Pure. Owns how findings of several declarations become one answer; who is asked is runtime.herder.validation's.
Source: Java ``AbstractHerder.generateResult`` and ``mergeConfigInfos``, whose order and counts these are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from spark_connect_rt.base.java_hash_order import java_hash_order
from spark_connect_rt.config.config_def import ConfigDef, ConfigKey, ConfigValue


@dataclass(frozen=True, slots=True)
class ConfigInfo:
    """One setting: its declaration (None: no one declares it) and what was found (None: not looked at)."""

    key: ConfigKey | None
    value: ConfigValue | None


@dataclass(frozen=True, slots=True)
class ConfigInfos:
    """Everything found. ``error_count`` is Java's: messages, but settings of converters and clients count once."""

    name: str
    error_count: int
    groups: tuple[str, ...]
    configs: tuple[ConfigInfo, ...]

    def declared(self) -> set[str]:
        """Return the names of all settings that someone declares."""
        return {config.key.name for config in self.configs if config.key is not None}

    def problems(self) -> dict[str, list[str]]:
        """Return setting -> complaints, in the order of the answer."""
        found: dict[str, list[str]] = {}
        for config in self.configs:
            if config.value is not None and config.value.errors:
                found.setdefault(config.value.name, []).extend(config.value.errors)
        return found


class Findings:
    """Findings by setting while they are being collected; the last of a name counts, complaints are added to it."""

    def __init__(self, found: Iterable[ConfigValue] = ()) -> None:
        self._by_name: dict[str, ConfigValue] = {config_value.name: config_value for config_value in found}

    def __getitem__(self, name: str) -> ConfigValue:
        return self._by_name[name]

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def get(self, name: str) -> ConfigValue | None:
        """Return the finding about a setting, None when no one looked at it."""
        return self._by_name.get(name)

    def errors(self, name: str) -> tuple[str, ...]:
        """Return the complaints about a setting."""
        return self._by_name[name].errors if name in self._by_name else ()

    def any_wrong(self) -> bool:
        """Return whether there is any complaint."""
        return any(config_value.errors for config_value in self._by_name.values())

    def change(self, name: str, **parts: object) -> None:
        """Replace parts of one finding; of a setting that no one looked at there is none."""
        if name in self._by_name:
            self._by_name[name] = replace(self._by_name[name], **parts)  # type: ignore[arg-type]

    def complain(self, name: str, messages: Iterable[str], value: object = None) -> None:
        """Add complaints that are not there yet; a setting that no one declares gets a finding with ``value``."""
        config_value = self._by_name.setdefault(name, ConfigValue(name, value))
        new = tuple(message for message in dict.fromkeys(messages) if message not in config_value.errors)
        self._by_name[name] = replace(config_value, errors=config_value.errors + new)

    def values(self) -> list[ConfigValue]:
        """Return the findings in the order of Java's hash map."""
        return [self._by_name[name] for name in java_hash_order(self._by_name)]


def plugin_infos(name: str, keys: Sequence[ConfigKey], found: Findings) -> ConfigInfos:
    """Return the answer about a connector's declared settings; undeclared ones come first."""
    declared = {key.name: key for key in keys}
    values = found.values()
    configs = [ConfigInfo(None, config_value) for config_value in values if config_value.name not in declared]
    configs += [ConfigInfo(key, found.get(key.name)) for key in declared.values()]
    count = sum(len(config_value.errors) for config_value in values)
    return ConfigInfos(name, count, groups_of(declared.values()), tuple(configs))


def prefixed_infos(prefix: str, definition: ConfigDef, found: Iterable[ConfigValue]) -> ConfigInfos:
    """Return the answer about settings that stand behind ``prefix``: a converter's, a client's."""
    declared = {key.name: key for key in definition}
    configs, keys = [], []
    for config_value in found:
        key = declared.get(config_value.name)
        if key is not None:
            keys.append(key)
            shown = key.display_name or key.name
            key = replace(key, name=f"{prefix}{key.name}", display_name=shown)
        configs.append(ConfigInfo(key, replace(config_value, name=f"{prefix}{config_value.name}")))
    count = sum(bool(config.value and config.value.errors) for config in configs)
    return ConfigInfos("", count, groups_of(keys), tuple(configs))


def merged_infos(name: str, parts: Iterable[ConfigInfos]) -> ConfigInfos:
    """Return several answers as one."""
    whole = list(parts)
    groups = tuple(dict.fromkeys(group for part in whole for group in part.groups))
    configs = tuple(config for part in whole for config in part.configs)
    return ConfigInfos(name, sum(part.error_count for part in whole), groups, configs)


def groups_of(keys: Iterable[ConfigKey]) -> tuple[str, ...]:
    """Return the groups of some settings, in the order in which they first come."""
    return tuple(dict.fromkeys(key.group for key in keys if key.group is not None))


def merged_keys(first: ConfigDef, second: ConfigDef) -> list[ConfigKey]:
    """Return the settings of both, the second's declaration winning in the first's place (``Map.putAll``)."""
    by_name: Mapping[str, ConfigKey] = {key.name: key for key in (*first, *second)}
    return list(by_name.values())
