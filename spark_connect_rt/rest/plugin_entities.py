"""JSON shapes of what plug-ins declare and what validations find (Java ``ConfigKeyInfo``, ``ConfigInfos``)."""

from __future__ import annotations

from collections.abc import Iterable

from spark_connect_rt.config.config_def import ConfigKey, ConfigValue, parse_value, text_of
from spark_connect_rt.planning.config_infos import ConfigInfos
from spark_connect_rt.rest.entities import Json


def config_keys_entity(keys: Iterable[ConfigKey]) -> list[Json]:
    """Return the declarations of a plug-in's settings."""
    return [config_key_entity(key) for key in keys]


def config_key_entity(key: ConfigKey) -> Json:
    """Return one declaration."""
    return {
        "name": key.name,
        "type": key.type.value,
        "required": key.required,
        "default_value": None if key.required else text_of(parse_value(key.type, key.default)),
        "importance": key.importance.value,
        "documentation": key.doc,
        "group": key.group,
        "width": key.width,
        "display_name": key.display_name or key.name,
        "dependents": list(key.dependents),
        "order": key.order,
    }


def config_value_entity(found: ConfigValue) -> Json:
    """Return what was found out about one setting; every value as text."""
    return {
        "name": found.name,
        "value": text_of(found.value),
        "recommended_values": list(found.recommended_values),
        "errors": list(found.errors),
        "visible": found.visible,
    }


def config_infos_entity(infos: ConfigInfos) -> Json:
    """Return the answer to a validation."""
    configs = [
        {
            "definition": None if one.key is None else config_key_entity(one.key),
            "value": None if one.value is None else config_value_entity(one.value),
        }
        for one in infos.configs
    ]
    return {"name": infos.name, "error_count": infos.error_count, "groups": list(infos.groups), "configs": configs}
