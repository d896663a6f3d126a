"""The API's own description, ``GET /openapi.json``: made from the routes when it is first asked for."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI

_ERROR = {
    "description": "A refusal; code, hint and problems are additions to Kafka Connect's body.",
    "content": {
        "application/json": {
            "schema": {
                "type": "object",
                "required": ["error_code", "message"],
                "properties": {
                    "error_code": {"type": "integer"},
                    "message": {"type": "string"},
                    "code": {"type": "string"},
                    "hint": {"type": "string"},
                    "problems": {"type": "object"},
                },
            }
        }
    },
}


def describe(app: FastAPI, version: str) -> None:
    """Make ``app.openapi`` describe the routes with Connect's error body in place of FastAPI's."""
    made: dict[str, Any] = {}

    def openapi() -> dict[str, Any]:
        if not made:
            from fastapi.openapi.utils import get_openapi

            document = get_openapi(title="Kafka Connect REST API", version=version, routes=app.routes)
            for operations in document.get("paths", {}).values():
                for operation in operations.values():
                    operation["responses"].pop("422", None)
                    operation["responses"]["default"] = _ERROR
            made.update(document)
        return made

    app.openapi = openapi  # type: ignore[method-assign]
