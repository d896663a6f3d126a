"""``GET /docs``: the API's description to read and to try, from files of this machine.

Owns: the page and its files. FastAPI's own page would load them from the internet, which workers seldom reach; the
package fastapi-offline of the extra ``quickstart`` brings the same files (Swagger UI, Apache License 2.0).
"""

from __future__ import annotations

from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from spark_connect_rt.app.rest.openapi import TITLE
from spark_connect_rt.base.optional_package import package_folder
from spark_connect_rt.errors import ConnectError, NotFoundError

_FILES = {
    "swagger-ui-bundle.js": "text/javascript",
    "swagger-ui.css": "text/css",
    "favicon.png": "image/png",
}
_CACHED = {"Cache-Control": "public, max-age=86400"}


def routes() -> list[Route]:
    """Return the page and its files. They are no JSON: the rules for content types of the API are not theirs."""
    return [Route("/docs", _page, name="docs"), Route("/docs/{file}", _file, name="docs-file")]


def _static() -> Path:
    try:
        return package_folder("fastapi_offline", "quickstart", "the pages at /docs") / "static"
    except ConnectError as error:
        raise NotFoundError(str(error), code=error.code) from error


async def _page(request: Request) -> Response:
    _static()
    from fastapi.openapi.docs import get_swagger_ui_html

    root = str(request.scope.get("root_path", "")).rstrip("/")
    return get_swagger_ui_html(
        openapi_url=f"{root}/openapi.json",
        title=TITLE,
        swagger_js_url=f"{root}/docs/swagger-ui-bundle.js",
        swagger_css_url=f"{root}/docs/swagger-ui.css",
        swagger_favicon_url=f"{root}/docs/favicon.png",
    )


async def _file(request: Request) -> Response:
    name = request.path_params["file"]
    if name not in _FILES:
        raise HTTPException(404)
    content = (_static() / name).read_bytes()
    return Response(content, media_type=_FILES[name], headers=_CACHED)
