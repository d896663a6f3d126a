"""JSON Schema of the bodies, made by pydantic from the dataclasses that are served.

Owns: what of pydantic's schema is shown. Imported when the description is first asked for, so that a worker's start
does not pay for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import make_dataclass
from typing import Any, Literal, get_type_hints

from pydantic import TypeAdapter

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.base.json_shape import JsonShape
from spark_connect_rt.rest.operation import Operation, Shape
from spark_connect_rt.rest.shapes import Error

_REFERENCE = "#/components/schemas/{model}"
Mode = Literal["validation", "serialization"]


class Schemas:
    """The bodies that some operations name, and ``components`` that these refer to."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        wanted: dict[tuple[str, Mode], Shape] = {_answer_key(Error): Error}
        for operation in operations:
            wanted |= {_answer_key(shape): shape for shape in operation.answers.values() if shape is not None}
            if operation.body is not None:
                wanted[_request_key(operation.body)] = operation.body
        inputs = [(name, mode, TypeAdapter(shape)) for (name, mode), shape in wanted.items()]
        schemas, definitions = TypeAdapter.json_schemas(inputs, ref_template=_REFERENCE)
        found = definitions["$defs"]
        if ConnectorTaskId.__name__ in found:
            found[ConnectorTaskId.__name__] = _task_id()
        self.components: dict[str, Any] = _without_noise(found)
        self._schemas = {key: _without_noise(schema) for key, schema in schemas.items()}

    def content(self, shape: Shape) -> dict[str, Any]:
        """Return the content of an answer."""
        return {"application/json": {"schema": self._schemas[_answer_key(shape)]}}

    def content_of_request(self, shape: Shape) -> dict[str, Any]:
        """Return the content of a request, whose fields with a default may be left out."""
        return {"application/json": {"schema": self._schemas[_request_key(shape)]}}


def _answer_key(shape: Shape) -> tuple[str, Mode]:
    return str(shape), "serialization"


def _request_key(shape: Shape) -> tuple[str, Mode]:
    return str(shape), "validation"


def _task_id() -> dict[str, Any]:
    """Return the schema of a task's id; for pydantic a named tuple is an array, here it is written as an object."""
    fields = list(get_type_hints(ConnectorTaskId).items())
    shape = make_dataclass(ConnectorTaskId.__name__, fields, bases=(JsonShape,), namespace={"__doc__": "A task's id."})
    return TypeAdapter(shape).json_schema()


def _without_noise(schema: Any) -> Any:
    """Drop titles that repeat a field's name, and defaults: of answers every field that has one is there."""
    if isinstance(schema, list):
        return [_without_noise(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: _without_noise(value) for key, value in schema.items() if not _is_noise(key, value)}


def _is_noise(key: str, value: Any) -> bool:
    # A field of that name has a schema there, never a text, a number or nothing.
    if key == "default":
        return value == {} or not isinstance(value, dict)
    return key == "title" and isinstance(value, str)
