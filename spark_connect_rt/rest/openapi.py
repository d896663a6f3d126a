"""The API's own description, ``GET /openapi.json``: made from the routes and openapi_operations when first asked for.

Owns: putting the two together. Nothing here has a say in what is answered.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI

if TYPE_CHECKING:
    from spark_connect_rt.rest.openapi_operations import Model, Operation, QueryParameter

TITLE = "Kafka Connect REST API"
_ABOUT = (
    "Kafka Connect's REST API as this worker serves it. Names in paths are percent-encoded (a slash as %2F). "
    "A refusal's code, hint and problems are additions to Kafka Connect's two fields."
)
_REFERENCE = "#/components/schemas/{model}"
_LOCATION = {"Location": {"description": "Where the new connector is.", "schema": {"type": "string"}}}


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

    from spark_connect_rt.rest.openapi_operations import OPERATIONS

    document = get_openapi(title=TITLE, version=version, description=_ABOUT, routes=app.routes)
    known = {(method, _shape(path)): operation for (method, path), operation in OPERATIONS.items()}
    shown: list[Operation] = []
    for path, methods in document.get("paths", {}).items():
        for method, guessed in methods.items():
            operation = known[method.upper(), _shape(path)]
            shown.append(operation)
            methods[method] = _described(guessed, operation)
    document["components"] = {"schemas": _schemas(shown)}
    return document


def _shape(path: str) -> str:
    """Return a path without the names of its parameters."""
    return re.sub(r"\{[^}]*\}", "{}", path)


def _described(guessed: Mapping[str, Any], operation: Operation) -> dict[str, Any]:
    from spark_connect_rt.rest.openapi_operations import ALWAYS, UNREADABLE

    refusals = {**ALWAYS, **operation.refusals}
    if operation.body is not None:
        refusals[500] = f"{UNREADABLE} Or: {refusals[500]}"
    responses = {str(status): _refusal(why) for status, why in refusals.items() if status not in operation.answers}
    responses |= {str(status): _answer(status, model) for status, model in operation.answers.items()}
    parameters = [one for one in guessed.get("parameters", ()) if one["in"] == "path"]
    parameters += [_parameter(one) for one in operation.parameters]
    own = {one["name"] for one in parameters}
    parameters += [one for one in guessed.get("parameters", ()) if one["name"] not in own]
    described = {
        "tags": guessed.get("tags", []),
        "summary": guessed.get("description", "").partition("\n")[0],
        "operationId": operation.id,
        "parameters": parameters,
        "responses": dict(sorted(responses.items())),
    }
    if operation.body is not None:
        described["requestBody"] = {"required": True, "content": _content(operation.body)}
    return described


def _answer(status: int, model: Model | None) -> dict[str, Any]:
    answer: dict[str, Any] = {"description": HTTPStatus(status).phrase}
    if model is not None:
        answer["content"] = _content(model)
    if status == HTTPStatus.CREATED:
        answer["headers"] = _LOCATION
    return answer


def _refusal(why: str) -> dict[str, Any]:
    from spark_connect_rt.rest.openapi_models import Error

    return {"description": why, "content": _content(Error)}


def _content(model: Model) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": _REFERENCE.format(model=model.__name__)}}}


def _parameter(parameter: QueryParameter) -> dict[str, Any]:
    schema = {"type": "array", "items": parameter.schema} if parameter.repeats else parameter.schema
    return {
        "name": parameter.name,
        "in": "query",
        "required": False,
        "description": parameter.description,
        "schema": schema,
    }


def _schemas(operations: Iterable[Operation]) -> dict[str, Any]:
    """Return the shapes that the operations name, and those that these name."""
    from pydantic.json_schema import models_json_schema

    from spark_connect_rt.rest.openapi_models import Error

    named: dict[Model, None] = {Error: None}
    for operation in operations:
        named.update(dict.fromkeys(model for model in (*operation.answers.values(), operation.body) if model))
    _, definitions = models_json_schema([(model, "validation") for model in named], ref_template=_REFERENCE)
    schemas: dict[str, Any] = _without_noise(definitions["$defs"])
    return schemas


def _without_noise(schema: Any) -> Any:
    """Drop titles that repeat a field's name, and the defaults that stand for an absent field."""
    if isinstance(schema, list):
        return [_without_noise(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: _without_noise(value) for key, value in schema.items() if not _is_noise(key, value)}


def _is_noise(key: str, value: Any) -> bool:
    # A field of that name has a schema there, never a text or nothing.
    return (key == "title" and isinstance(value, str)) or (key == "default" and value in (None, "", {}))
