"""The committed types of the REST client are those of the API's own description."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tools.client_shapes import FILE, ClientShape, client_shapes, document_schemas, type_hint

ROOT = Path(__file__).parents[3]
TEXT, NOTHING = {"type": "string"}, {"type": "null"}
SCHEMAS: dict[str, dict[str, Any]] = {
    "Task": {"properties": {"id": {"type": "integer"}, "trace": TEXT, "class": TEXT}, "required": ["id"]},
}


def test_the_committed_types_are_what_the_tool_writes() -> None:
    committed = (ROOT / FILE).read_text(encoding="utf-8")
    assert committed == client_shapes(document_schemas()), "run: python -m tools.client_shapes"


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"anyOf": [NOTHING, {"type": "number"}]}, "float | None"),
        ({"type": "array", "items": {"$ref": "#/components/schemas/Task"}}, "list[TaskJson]"),
        ({"$ref": "#/components/schemas/Other"}, "dict[str, Any]"),
        ({"type": "object", "additionalProperties": {"type": "boolean"}}, "dict[str, bool]"),
        ({"type": "object"}, "dict[str, Any]"),
        ({}, "Any"),
    ],
)
def test_a_schema_becomes_the_type_of_its_json(schema: dict[str, Any], expected: str) -> None:
    assert type_hint(schema, {"Task": "TaskJson"}) == expected


def test_a_new_field_of_an_answer_becomes_a_field_of_the_type() -> None:
    text = client_shapes(SCHEMAS, [ClientShape("TaskJson", ["Task"], "A task.")])
    assert text.endswith('class TaskJson(TypedDict, total=False):\n    """A task."""\n\n    id: int\n    trace: str\n')


def test_optional_fields_of_a_complete_answer_may_be_missing() -> None:
    shape = ClientShape("TaskJson", ["Task"], "A task.", is_partial=False, without={"class"})
    text = client_shapes(SCHEMAS, [shape])
    assert "class _Task(TypedDict):\n    id: int\n" in text
    assert 'class TaskJson(_Task, total=False):\n    """A task."""\n\n    trace: str\n' in text


def test_an_exception_for_a_field_that_is_gone_is_rejected() -> None:
    shape = ClientShape("TaskJson", ["Task"], "A task.", kept={"lag": "int"})
    with pytest.raises(ValueError, match="TaskJson: the document has no field lag"):
        client_shapes(SCHEMAS, [shape])
