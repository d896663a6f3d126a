"""Makes ``spark_connect_rt/rest/client/shapes.py``, the types of answers for the REST client, from ``/openapi.json``.

``python -m tools.client_shapes`` writes the file. tests/unit/tools/test_client_shapes.py fails when the committed file
differs. A new field of an answer reaches the client's types without further work, and a new answer is a line of SHAPES.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spark_connect_rt.app.rest.openapi import OPERATIONS, Schemas

FILE = Path("spark_connect_rt/rest/client/shapes.py")
Schema = Mapping[str, Any]

_HEAD = '''"""Types of the REST client's answers: plain JSON objects. Made by ``python -m tools.client_shapes``.

An answer of a newer worker keeps its additional fields, and one of an older worker lacks some. Times are ms since 1970.
None means that the value is not known.
"""

from __future__ import annotations

from typing import Any, TypedDict
'''
_SIMPLE = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
_WORKERS = "list[dict[str, str]]"
_NOT_OF_REPLAYS = frozenset({"changed_ms", "complete", "connector", "created_ms", "delivery", "edit", "failures"}) | {
    "filter",
    "letters",
    "scanned",
    "target",
    "topic",
    "who",
    "worker_id",
}


@dataclass(frozen=True, slots=True)
class ClientShape:
    """A type of the client, and the schemas of the document whose fields it has."""

    name: str
    schemas: Sequence[str]
    about: str
    is_partial: bool = True  # every field may be missing. False: only the optional fields of the document
    without: Set[str] = frozenset()  # fields that the type has never had
    kept: Mapping[str, str] = field(default_factory=dict)  # types that users have, where the document says another


SHAPES = (
    ClientShape("RootJson", ["WorkerVersion"], "The JSON answer of ``GET /``.", is_partial=False),
    ClientShape(
        "TaskIdJson", ["ConnectorTaskId"], "The name of a connector and the number of a task.", is_partial=False
    ),
    ClientShape(
        "ConnectorInfoJson",
        ["ConnectorInfo"],
        "``GET /connectors/NAME``. Only a connector that was created with offsets has ``offsets_status`` (KIP-995).",
        is_partial=False,
    ),
    ClientShape(
        "StateJson",
        ["TaskState", "InstanceState"],
        "State of a connector or task. Only tasks have ``id``, only our workers ``restart`` and ``progress``.",
        without=frozenset({"version"}),
    ),
    ClientShape(
        "ConnectorStatusJson",
        ["ConnectorStateInfo"],
        "The JSON answer of ``GET /connectors/NAME/status``.",
        is_partial=False,
    ),
    ClientShape("TaskInfoJson", ["TaskInfo"], "A JSON element of ``GET /connectors/NAME/tasks``.", is_partial=False),
    ClientShape(
        "OffsetJson", ["ConnectorOffset"], "A JSON element of ``GET /connectors/NAME/offsets``.", is_partial=False
    ),
    ClientShape(
        "PluginJson",
        ["PluginInfo"],
        "A JSON element of ``GET /connector-plugins``.",
        is_partial=False,
        kept={"version": "str | None"},
    ),
    ClientShape("LoggerLevelJson", ["LoggerLevel"], "A JSON element of ``GET /admin/loggers``.", is_partial=False),
    ClientShape(
        "RowJson",
        ["ConnectorRow"],
        'A connector of the overview. ``tasks`` counts tasks by state, and ``row["class"]`` is the class.',
    ),
    ClientShape(
        "OverviewJson",
        ["OverviewPage"],
        "The JSON answer of ``GET /admin/overview``.",
        kept={"records_per_second": "float | None", "unanswered": _WORKERS},
    ),
    ClientShape("TaskJson", ["TaskRow"], "A task, as on the page of its connector."),
    ClientShape(
        "ConnectorPageJson",
        ["ConnectorDetail"],
        "The JSON answer of ``GET /admin/connectors/NAME``.",
        without=frozenset({"at_ms", "trace", "unanswered", "version"}),
    ),
    ClientShape(
        "WorkerJson",
        ["GroupWorkerRow"],
        "A JSON element of ``GET /admin/group``. ``runtime`` is spark-connect-rt or java.",
        without=frozenset({"why"}),
    ),
    ClientShape("GroupJson", ["GroupInfo"], "The JSON answer of ``GET /admin/group``.", without=frozenset({"at_ms"})),
    ClientShape("EventJson", ["GroupEvent"], "A JSON element of ``GET /admin/events``."),
    ClientShape(
        "EventListJson",
        ["EventList"],
        "``GET /admin/events``, newest first. Last events of the workers in ``unanswered`` may be missing.",
        kept={"unanswered": _WORKERS},
    ),
    ClientShape("LogLineJson", ["LogLine"], "A line of a task's log. ``where`` is driver or executor."),
    ClientShape(
        "LogListJson",
        ["LogList"],
        "``GET /admin/connectors/NAME/logs``, oldest first. Lines of workers in ``unanswered`` may be missing.",
        kept={"unanswered": _WORKERS},
    ),
    ClientShape(
        "ChangeJson",
        ["Change"],
        "A JSON element of ``GET /admin/history``.",
        without=frozenset({"changed_unseen", "state"}),
        kept={"before": "Any", "after": "Any", "who": "str", "worker_id": "str"},
    ),
    ClientShape(
        "SettingChangeJson",
        ["SettingChange"],
        "A setting that differs. None: this side does not have it.",
        is_partial=False,
    ),
    ClientShape(
        "LetterJson",
        ["LetterInfo"],
        'A dead letter. ``letter["class"]`` is the class that failed.',
        kept=dict.fromkeys(("connector_name", "exception", "message", "stacktrace", "stage"), "str"),
    ),
    ClientShape(
        "LetterPageJson",
        ["LetterPage"],
        "The JSON answer of ``GET /admin/dead-letters``.",
        without=frozenset({"scanned"}),
        kept={"topic": "str"},
    ),
    ClientShape(
        "ReplayJson",
        ["ReplayInfo", "DryRun"],
        "A replay that is running, done, stopped or failed. A dry run has ``sample`` instead.",
        without=_NOT_OF_REPLAYS,
    ),
    ClientShape("PreviewJson", ["Preview"], "The JSON answer of ``POST /admin/preview``."),
    ClientShape(
        "CheckLineJson",
        ["CheckLine"],
        "A finding of a check. ``level`` is ok, warning or problem.",
        kept={"setting": "str | None", "change": "str | None"},
    ),
)


def document_schemas() -> Mapping[str, Schema]:
    """Return the schemas of ``/openapi.json`` by their names."""
    return Schemas(OPERATIONS.values()).components


def client_shapes(schemas: Mapping[str, Schema], shapes: Sequence[ClientShape] = SHAPES) -> str:
    """Return the text of the file. Raises ValueError for a field of SHAPES that the document does not have."""
    names = {schema: shape.name for shape in shapes for schema in shape.schemas}
    return _HEAD + "".join(f"\n\n{_type_text(shape, schemas, names)}\n" for shape in shapes)


def _type_text(shape: ClientShape, schemas: Mapping[str, Schema], names: Mapping[str, str]) -> str:
    required, optional = _fields(shape, schemas, names)
    about = f'    """{shape.about}"""\n\n'
    if "class" in required:  # the class syntax has no field of that name
        listed = ", ".join(f'"{name}": {hint}' for name, hint in required.items())
        return f'{shape.name} = TypedDict("{shape.name}", {{{listed}}})\n"""{shape.about}"""'
    if not optional:
        return f"class {shape.name}(TypedDict):\n{about}{_lines(required)}"
    if not required:
        return f"class {shape.name}(TypedDict, total=False):\n{about}{_lines(optional)}"
    base = f"_{shape.name.removesuffix('Json')}"  # NotRequired would have no effect at run time: annotations are texts
    return (
        f"class {base}(TypedDict):\n{_lines(required)}\n\n\n"
        f"class {shape.name}({base}, total=False):\n{about}{_lines(optional)}"
    )


def _lines(fields: Mapping[str, str]) -> str:
    return "\n".join(f"    {name}: {hint}" for name, hint in fields.items())


def _fields(
    shape: ClientShape, schemas: Mapping[str, Schema], names: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the types of the required and of the optional fields by name, in the order of the document."""
    required: dict[str, str] = {}
    optional: dict[str, str] = {}
    for schema in map(schemas.__getitem__, shape.schemas):
        for name, property_schema in schema["properties"].items():
            is_required = not shape.is_partial and (name in schema.get("required", ()) or name in shape.kept)
            hints = required if is_required else optional
            hints[name] = shape.kept.get(name) or type_hint(property_schema, names)
    if unknown := (shape.without | shape.kept.keys()) - (required.keys() | optional.keys()):
        raise ValueError(f"{shape.name}: the document has no field {', '.join(sorted(unknown))}. Remove it from SHAPES")
    left_out = shape.without | ({"class"} if shape.is_partial else set())
    return _without(required, left_out), _without(optional, left_out)


def _without(fields: Mapping[str, str], names: Set[str]) -> dict[str, str]:
    return {name: hint for name, hint in fields.items() if name not in names}


def type_hint(schema: Schema, names: Mapping[str, str]) -> str:
    """Return the Python type of a JSON Schema. ``names`` has the client's type for a schema of the document.

    An object without a type of the client is ``dict[str, Any]``.
    """
    if "$ref" in schema:
        return names.get(schema["$ref"].rpartition("/")[2], "dict[str, Any]")
    if "anyOf" in schema:
        hints = [type_hint(choice, names) for choice in schema["anyOf"]]
        return " | ".join(sorted(dict.fromkeys(hints), key=lambda hint: hint == "None"))
    if schema.get("type") == "array":
        return f"list[{type_hint(schema.get('items', {}), names)}]"
    if schema.get("type") == "object":
        values = schema.get("additionalProperties", True)
        return f"dict[str, {type_hint(values, names) if isinstance(values, Mapping) else 'Any'}]"
    return _SIMPLE.get(schema.get("type", ""), "Any")


if __name__ == "__main__":
    FILE.write_text(client_shapes(document_schemas()), encoding="utf-8")
