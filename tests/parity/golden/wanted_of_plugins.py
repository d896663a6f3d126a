"""Where our answers about plug-ins differ from Java's, and the rows of differences.md that say why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tests.parity.conversation import Ask
from tests.parity.plugin_scripts import SOURCE, TRANSFORM

Errors = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What ours answers instead.

    ``status``: of ours; 0 with Java's, which then is a validation that differs in ``errors`` alone.
    ``begins``: our words. ``errors``: our complaints about some settings. ``same_as``: what ours answers alike.
    """

    heading: str
    status: int = 0
    begins: str = ""
    errors: Errors = field(default_factory=dict)
    same_as: Ask | None = None


def _validations(heading: str, cases: Mapping[str, Errors]) -> dict[str, Wanted]:
    return {f"validate {name}": Wanted(heading, errors=errors) for name, errors in cases.items()}


def _refused(heading: str, status: int, cases: Mapping[str, str]) -> dict[str, Wanted]:
    return {name: Wanted(heading, status, begins) for name, begins in cases.items()}


def _both_sides(name: str, errors: Errors) -> dict[str, Errors]:
    return {f"source: {name}${side} without settings": errors for side in ("Key", "Value")}


def _missing(settings: Iterable[str]) -> Errors:
    return {
        setting: (f'Missing required configuration "{setting}" which has no default value.',) for setting in settings
    }


_FILE = "file must be set: "
_NULL = ("Null value can not be supplied as the configuration value.",)
_NO_CLASS = "Failed to find any class that implements Connector and which name matches "
_NO_TYPE = "Connector config {"
_NO_VERSION = "[1 is no version and no range such as [1.0,2.0): an interval begins with [ or ( and ends with ] or )"
_NO_SUCH = (
    "Plugin org.apache.kafka.connect.json.JsonConverter not found that matches the version range [0.1,0.1], "
    "available versions: [4.1.1]",
)
_NO_PATTERN = "Invalid regex: '(' is not a regular expression: missing ), unterminated subpattern at position 0"
_NO_NUMBER = "Invalid value x for configuration linger.ms: Not a number of type LONG"
_CAST = "Invalid value {} for configuration spec: {}"
_MOCK = "org.apache.kafka.connect.tools.MockConnector"

WANTED: dict[str, Wanted] = {
    **_refused(
        "Invalid validation request",
        400,
        {
            "validate nothing": _NO_TYPE,
            "validate no class": _NO_TYPE,
            "validate an unknown path": _NO_TYPE,
            "validate an unknown class": _NO_CLASS,
            "validate a converter as a class": _NO_CLASS,
            "validate source: a version that is none": _NO_VERSION,
        },
    ),
    "validate source: a producer override that is no number": Wanted(
        "Invalid validation request", 200, errors={"producer.override.linger.ms": (_NO_NUMBER,)}
    ),
    **_refused(
        "Unreadable bodies",
        500,
        {
            "validate no body": "The request body is empty",
            "validate broken JSON": "The request body is not JSON",
            "validate a list": "Cannot deserialize value of type `Map` from Array value",
        },
    ),
    **_refused(
        "Test connectors",
        400,
        {f"validate {_MOCK} alone": _NO_CLASS, f"validate {_MOCK} with settings": _NO_CLASS},
    ),
    **_refused("Test connectors", 404, {f"settings of {_MOCK}": "Unknown plugin"}),
    **_refused("Classes that are not plug-ins", 404, {"settings of java.lang.String": "Unknown plugin"}),
    "settings of Cast$Key": Wanted(
        "Short names of inner classes", 200, same_as=Ask("", "GET", f"/connector-plugins/{TRANSFORM}.Cast%24Key/config")
    ),
    "validate source: an alias of an inner class": Wanted(
        "Short names of inner classes",
        200,
        same_as=Ask(
            "",
            "PUT",
            "/connector-plugins/FileStreamSource/config/validate",
            SOURCE | {"transforms": "t", "transforms.t.type": f"{TRANSFORM}.Cast$Value", "transforms.t.spec": "int8"},
        ),
    ),
    **_validations(
        "File connectors without a file",
        {
            "class alone": {"file": (f"{_FILE}an executor has no standard input to read",)},
            "sink class alone": {"file": (f"{_FILE}an executor's standard output is not read",)},
        },
    ),
    **_validations("Null values", {"source: no topic": {"topic": _NULL}, "source: no file": {"file": _NULL}}),
    **_validations(
        "Limits of error settings",
        {
            "source: bad error handling": {
                "errors.retry.timeout": (
                    "Invalid value -2 for configuration errors.retry.timeout: Value must be at least -1",
                ),
                "errors.retry.delay.max.ms": (
                    "Invalid value 0 for configuration errors.retry.delay.max.ms: Value must be at least 1",
                ),
            }
        },
    ),
    **_validations(
        "Version errors",
        {
            "source: a converter's version that is not there": {
                "value.converter": _NO_SUCH,
                "value.converter.plugin.version": _NO_SUCH,
            },
            "source: a converter's version that is none": {"value.converter.plugin.version": (_NO_VERSION,)},
            "source: a transformation's version that is none": {
                "transforms.t.type": (_NO_VERSION,),
                "transforms.t.plugin.version": (_NO_VERSION,),
            },
        },
    ),
    **_validations(
        "Transformations are configured",
        {
            **_both_sides("InsertField", {"transforms.t.topic.field": ("No field insertion configured",)}),
            **_both_sides(
                "SetSchemaMetadata", {"transforms.t.schema.name": ("Neither schema name nor version configured",)}
            ),
        },
    ),
    **_validations(
        "Names in error messages",
        {
            **_both_sides(
                "Cast",
                {
                    "transforms.t.spec": (
                        *_missing(["transforms.t.spec"])["transforms.t.spec"],
                        _CAST.format("null", "Must specify at least one field to cast."),
                    )
                },
            ),
            "source: bad cast": {
                "transforms.t.spec": (_CAST.format("[a:int7]", "Invalid type found in casting spec: int7"),)
            },
            "source: bad cast syntax": {
                "transforms.t.spec": (_CAST.format("[a:b:c]", "Invalid rename mapping: a:b:c"),)
            },
            "source: RegexRouter without settings": _missing(["transforms.t.regex"]),
            "source: TopicNameMatches without settings": _missing(["predicates.p.pattern"]),
            "source: bad regex": {"transforms.t.regex": (f"Invalid value ( for configuration regex: {_NO_PATTERN}",)},
            "source: bad pattern of a predicate": {
                "predicates.p.pattern": (f"Invalid value ( for configuration pattern: {_NO_PATTERN}",)
            },
            "sink: a pattern that is none": {
                "topics.regex": (f"Invalid value ( for configuration topics.regex: {_NO_PATTERN}",)
            },
        },
    ),
}
