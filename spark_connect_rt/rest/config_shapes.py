"""What plug-ins declare and what validations find, as JSON shows it (Java ``ConfigKeyInfo``, ``ConfigInfos``).

Owns: names and order of fields; every value is shown as text.
"""

from __future__ import annotations

from dataclasses import dataclass

from spark_connect_rt.base.json_shape import JsonShape
from spark_connect_rt.config.config_def import ConfigKey, ConfigValue, parse_value, text_of
from spark_connect_rt.config.validators import choices_of
from spark_connect_rt.runtime.herder.config_infos import ConfigInfos


@dataclass(frozen=True, slots=True)
class ConfigKeyInfo(JsonShape):
    """The declaration of one setting."""

    name: str
    type: str
    required: bool
    default_value: str | None
    importance: str
    documentation: str | None
    group: str | None
    width: str
    display_name: str | None
    dependents: tuple[str, ...]
    order: int


@dataclass(frozen=True, slots=True)
class ConfigValueInfo(JsonShape):
    """The value of one setting and what is wrong with it."""

    name: str
    value: str | None
    recommended_values: tuple[str | None, ...]
    errors: tuple[str, ...]
    visible: bool


@dataclass(frozen=True, slots=True)
class CheckedSetting(JsonShape):
    """One setting: as it is declared and as it was given."""

    definition: ConfigKeyInfo | None
    value: ConfigValueInfo | None


@dataclass(frozen=True, slots=True)
class CheckedConfig(JsonShape):
    """A configuration with what was found out about each setting."""

    name: str
    error_count: int
    groups: tuple[str, ...]
    configs: tuple[CheckedSetting, ...]


@dataclass(frozen=True, slots=True)
class FormSetting(JsonShape):
    """One setting as a form shows it: with the values that it may have, empty where these are not a closed set."""

    definition: ConfigKeyInfo | None
    value: ConfigValueInfo | None
    choices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CheckedForm(JsonShape):
    """A checked configuration (as ``CheckedConfig``), with each setting's choices."""

    name: str
    error_count: int
    groups: tuple[str, ...]
    configs: tuple[FormSetting, ...]


def key_info(key: ConfigKey) -> ConfigKeyInfo:
    """Return how a declaration is shown; the default is parsed, so that a list or a class has Java's text."""
    return ConfigKeyInfo(
        name=key.name,
        type=key.type.value,
        required=key.required,
        default_value=None if key.required else text_of(parse_value(key.type, key.default)),
        importance=key.importance.value,
        documentation=key.doc,
        group=key.group,
        width=key.width,
        display_name=key.display_name or key.name,
        dependents=key.dependents,
        order=key.order,
    )


def checked_config(infos: ConfigInfos) -> CheckedConfig:
    """Return how the findings of a validation are shown."""
    configs = tuple(
        CheckedSetting(
            None if config.key is None else key_info(config.key),
            None if config.value is None else _value_info(config.value),
        )
        for config in infos.configs
    )
    return CheckedConfig(infos.name, infos.error_count, infos.groups, configs)


def checked_form(infos: ConfigInfos) -> CheckedForm:
    """Return how a form shows the findings of a validation."""
    shown = checked_config(infos)
    configs = tuple(
        FormSetting(setting.definition, setting.value, () if info.key is None else choices_of(info.key.check))
        for setting, info in zip(shown.configs, infos.configs, strict=True)
    )
    return CheckedForm(shown.name, shown.error_count, shown.groups, configs)


def _value_info(found: ConfigValue) -> ConfigValueInfo:
    return ConfigValueInfo(found.name, text_of(found.value), found.recommended_values, found.errors, found.visible)
