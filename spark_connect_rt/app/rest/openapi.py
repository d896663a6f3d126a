"""The API's own description, ``GET /openapi.json``: made from the routes and openapi_operations when first asked for.

Owns: putting the two together. Nothing here has a say in what is answered.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI

from spark_connect_rt.rest.shapes import Error

if TYPE_CHECKING:
    from spark_connect_rt.app.rest.openapi_schemas import Schemas
    from spark_connect_rt.rest.operation import Operation, QueryParameter, Shape

TITLE = "Kafka Connect REST API"
_ABOUT = (
    "Kafka Connect's REST API as this worker serves it. Percent-encode names in paths (a slash is %2F). The "
    "fields code, hint and problems of an error are additions to Kafka Connect's two fields."
)
_LOCATION = {"Location": {"description": "Path of the new connector.", "schema": {"type": "string"}}}


def describe(app: FastAPI, version: str) -> None:
    """Make ``app.openapi`` describe the routes as they are, in place of what FastAPI guesses."""
    made: dict[str, Any] = {}

    def openapi() -> dict[str, Any]:
        if not made:
            made.update(_document(app, version))
        return made

    app.openapi = openapi  # type: ignore[method-assign]


def _document(app: FastAPI, version: str) -> dict[str, Any]:
    from fastapi.openapi.utils import get_openapi

    from spark_connect_rt.app.rest.openapi_operations import OPERATIONS
    from spark_connect_rt.app.rest.openapi_schemas import Schemas

    document = get_openapi(title=TITLE, version=version, description=_ABOUT, routes=app.routes)
    known = {(method, _pattern(path)): operation for (method, path), operation in OPERATIONS.items()}
    shown = {
        (method, path): known[method.upper(), _pattern(path)]
        for path, methods in document.get("paths", {}).items()
        for method in methods
    }
    schemas = Schemas(shown.values())
    for (method, path), operation in shown.items():
        methods = document["paths"][path]
        methods[method] = _described(methods[method], operation, schemas)
    document["components"] = {"schemas": schemas.components}
    return document


def _pattern(path: str) -> str:
    """Return a path without the names of its parameters."""
    return re.sub(r"\{[^}]*\}", "{}", path)


def _described(guessed: Mapping[str, Any], operation: Operation, schemas: Schemas) -> dict[str, Any]:
    from spark_connect_rt.app.rest.openapi_operations import ALWAYS, UNREADABLE

    refusals = {**ALWAYS, **operation.refusals}
    if operation.body is not None:
        refusals[500] = f"{UNREADABLE} Or: {refusals[500]}"
    responses = {
        str(status): _refusal(why, schemas) for status, why in refusals.items() if status not in operation.answers
    }
    responses |= {str(status): _answer(status, shape, schemas) for status, shape in operation.answers.items()}
    parameters = [parameter for parameter in guessed.get("parameters", ()) if parameter["in"] == "path"]
    parameters += [_parameter(parameter) for parameter in operation.parameters]
    own = {parameter["name"] for parameter in parameters}
    parameters += [parameter for parameter in guessed.get("parameters", ()) if parameter["name"] not in own]
    described = {
        "tags": guessed.get("tags", []),
        "summary": guessed.get("description", "").partition("\n")[0],
        "operationId": operation.id,
        "parameters": parameters,
        "responses": dict(sorted(responses.items())),
    }
    if operation.body is not None:
        described["requestBody"] = {"required": True, "content": schemas.content_of_request(operation.body)}
    return described


def _answer(status: int, shape: Shape | None, schemas: Schemas) -> dict[str, Any]:
    answer: dict[str, Any] = {"description": HTTPStatus(status).phrase}
    if shape is not None:
        answer["content"] = schemas.content(shape)
    if status == HTTPStatus.CREATED:
        answer["headers"] = _LOCATION
    return answer


def _refusal(why: str, schemas: Schemas) -> dict[str, Any]:
    return {"description": why, "content": schemas.content(Error)}


def _parameter(parameter: QueryParameter) -> dict[str, Any]:
    schema = {"type": "array", "items": parameter.schema} if parameter.repeats else parameter.schema
    return {
        "name": parameter.name,
        "in": "query",
        "required": False,
        "description": parameter.description,
        "schema": schema,
    }
