"""``/connector-plugins``: lists plug-ins and validates configurations (Java ``ConnectorPluginsResource``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Path
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from spark_connect_rt.base.json_text import JsonShape
from spark_connect_rt.config.config_def import ConfigKey, ConfigValue, parse_value, text_of
from spark_connect_rt.config.validators import choices_of
from spark_connect_rt.errors import BadRequestError
from spark_connect_rt.rest.json_bodies import UnreadableBodyError
from spark_connect_rt.rest.paths import decoded
from spark_connect_rt.rest.requests import JsonResponse, RestContext, json_of, read_json, texts_of
from spark_connect_rt.runtime.herder.herder_requests import ConfigInfos, DescribePlugin, ValidateConfig

# Declarations of plug-ins and findings of validations as JSON (Java ``ConfigKeyInfo``, ``ConfigInfos``).
#
# Owns: names and order of fields; every value is shown as text.


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


PluginName = Annotated[str, Path(description="Class name or alias of the plug-in, percent-encoded.")]

_SUFFIX = "Connector"


def router(context: RestContext) -> APIRouter:
    """Return the routes of ``/connector-plugins``."""
    routes = APIRouter(tags=["plug-ins"])

    @routes.get("/connector-plugins")
    async def plugins(connectorsOnly: str = "true") -> Response:  # noqa: N803 - Kafka's name of the parameter
        """Return the connectors, or with ``connectorsOnly=false`` every plug-in."""
        wanted = connectorsOnly.lower() == "true"
        return JsonResponse(await run_in_threadpool(context.herder.views.plugins, wanted))  # a JVM may have to say

    @routes.get("/connector-plugins/{plugin}/config")
    async def plugin_config(request: Request, plugin: PluginName) -> Response:
        """Return the settings of a plug-in of any kind, or with ``version`` those of one version."""
        version = request.query_params.get("version")
        keys = await context.answered(DescribePlugin(decoded(plugin), version))
        return JsonResponse([key_info(key) for key in keys])

    @routes.put("/connector-plugins/{plugin}/config/validate")
    async def validate(request: Request, plugin: PluginName) -> Response:
        """Check a configuration; return what is declared, what was given and what is wrong with it."""
        return JsonResponse(checked_config(await validation(context, request, decoded(plugin))))

    return routes


async def validation(context: RestContext, request: Request, plugin: str) -> ConfigInfos:
    """Return what a validation finds out about the configuration in a request's body.

    Raises BadRequestError: the configuration is of another connector than ``plugin``.
    """
    config = await read_json(request, read_settings)
    included = config.get("connector.class")
    if included is not None and not _plain(included).endswith(_plain(plugin)):
        raise BadRequestError(f"Included connector type {included} does not match request type {plugin}")
    infos: ConfigInfos = await context.answered(ValidateConfig(config))
    return infos


def read_settings(body: bytes) -> dict[str, str | None]:
    """Return the configuration of ``PUT /connector-plugins/{plugin}/config/validate``, nulls among it."""
    fields = json_of(body)
    if fields is None:
        raise UnreadableBodyError("The request body is empty. Send a configuration")
    return texts_of(fields)


def _plain(name: str) -> str:
    return name.removesuffix(_SUFFIX) or name


# ``/admin/connector-plugins``: Java's validation with additions for a form (not in Java).
#
# Java's answer does not name the values of a setting with a closed set; its own must stay as it is.


def add_routes(routes: APIRouter, context: RestContext) -> None:
    """Add the route of the validation for forms."""

    @routes.put("/admin/connector-plugins/{plugin}/config/validate")
    async def validate(request: Request, plugin: PluginName) -> Response:
        """Check a configuration; also return the values that each setting may have, where these are a closed set."""
        return JsonResponse(checked_form(await validation(context, request, decoded(plugin))))
