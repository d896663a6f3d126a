"""``/connector-plugins`` (Java ``ConnectorPluginsResource``)."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from spark_connect_rt.errors import BadRequestError
from spark_connect_rt.rest.config_shapes import checked_config, key_info
from spark_connect_rt.rest.context import JsonResponse, RestContext
from spark_connect_rt.rest.paths import decoded
from spark_connect_rt.rest.request_body import read_settings
from spark_connect_rt.rest.shared_answers import read_json
from spark_connect_rt.runtime.herder.config_infos import ConfigInfos
from spark_connect_rt.runtime.herder.requests_api import DescribePlugin, ValidateConfig

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


def _plain(name: str) -> str:
    return name.removesuffix(_SUFFIX) or name
