"""What is said: requests to every endpoint, in an order in which each has a certain answer."""

from __future__ import annotations

from tests.parity.conversation import Append, Ask, AwaitBody, AwaitStates, AwaitStatus, AwaitText, Step
from tests.parity.scripts_of_oddities import BODIES, LOGGERS, PATCHES, PATHS, QUERIES, STATES
from tests.parity.scripts_of_offsets import SINK_OFFSETS, SOURCE_OFFSETS
from tests.parity.scripts_of_refusals import REFUSALS

FILE_SOURCE = {"connector.class": "FileStreamSource", "tasks.max": "1", "file": "in.txt", "topic": "lines"}
WITHOUT_TOPIC = {"connector.class": "FileStreamSource", "file": "in.txt"}
FILE_SINK = {"connector.class": "FileStreamSink", "tasks.max": "1", "file": "out.txt", "topics": "lines"}
JSON_SINK = FILE_SINK | {
    "file": "never.txt",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}


def _offset(file: str, position: int) -> dict[str, object]:
    return {"offsets": [{"partition": {"filename": file}, "offset": {"position": position}}]}


def _create(name: str, config: dict[str, str] | None) -> dict[str, object]:
    return {"name": name, "config": config}


EMPTY_WORKER: tuple[Step, ...] = (
    Ask("root", "GET", "/"),
    Ask("health", "GET", "/health"),
    Ask("no connectors", "GET", "/connectors"),
    Ask("no connectors, expanded", "GET", "/connectors?expand=info&expand=status"),
    Ask("connector plug-ins", "GET", "/connector-plugins"),
    Ask("unknown path", "GET", "/nope"),
    Ask("wrong method on root", "POST", "/", {}),
    Ask("wrong method on connectors", "DELETE", "/connectors"),
    Ask("info of none", "GET", "/connectors/none"),
    Ask("config of none", "GET", "/connectors/none/config"),
    Ask("status of none", "GET", "/connectors/none/status"),
    Ask("tasks of none", "GET", "/connectors/none/tasks"),
    Ask("task status of none", "GET", "/connectors/none/tasks/0/status"),
    Ask("task number that is none", "GET", "/connectors/none/tasks/x/status"),
    Ask("topics of none", "GET", "/connectors/none/topics"),
    Ask("offsets of none", "GET", "/connectors/none/offsets"),
    Ask("delete none", "DELETE", "/connectors/none"),
    Ask("pause none", "PUT", "/connectors/none/pause"),
    Ask("resume none", "PUT", "/connectors/none/resume"),
    Ask("stop none", "PUT", "/connectors/none/stop"),
    Ask("restart none", "POST", "/connectors/none/restart"),
    Ask("restart none with tasks", "POST", "/connectors/none/restart?includeTasks=true"),
    Ask("restart task of none", "POST", "/connectors/none/tasks/0/restart"),
)

BAD_REQUESTS: tuple[Step, ...] = (
    Ask("create from broken JSON", "POST", "/connectors", b"{"),
    Ask("create from nothing", "POST", "/connectors", b""),
    Ask("create from a list", "POST", "/connectors", []),
    Ask("create from an unknown field", "POST", "/connectors", _create("a", FILE_SOURCE) | {"colour": "red"}),
    Ask("create without config", "POST", "/connectors", _create("a", None)),
    Ask("create without class", "POST", "/connectors", _create("a", {"tasks.max": "1"})),
    Ask("create of unknown class", "POST", "/connectors", _create("a", {"connector.class": "Nope"})),
    Ask("create without topic", "POST", "/connectors", _create("a", WITHOUT_TOPIC)),
    Ask("create with tasks.max 0", "POST", "/connectors", _create("a", FILE_SOURCE | {"tasks.max": "0"})),
    Ask("create with tasks.max x", "POST", "/connectors", _create("a", FILE_SOURCE | {"tasks.max": "x"})),
    Ask(
        "create with two problems",
        "POST",
        "/connectors",
        _create("a", WITHOUT_TOPIC | {"tasks.max": "x"}),
    ),
    Ask(
        "create with unknown converter",
        "POST",
        "/connectors",
        _create("a", FILE_SOURCE | {"value.converter": "Nope"}),
    ),
    Ask("create with another name inside", "POST", "/connectors", _create("a", FILE_SOURCE | {"name": "b"})),
    Ask(
        "create sink without topics",
        "POST",
        "/connectors",
        _create("a", {"connector.class": "FileStreamSink", "file": "x"}),
    ),
    Ask(
        "create sink with topics and regex",
        "POST",
        "/connectors",
        _create("a", FILE_SINK | {"topics.regex": "x.*"}),
    ),
    Ask(
        "create with unknown initial state",
        "POST",
        "/connectors",
        _create("a", FILE_SOURCE) | {"initial_state": "ASLEEP"},
    ),
    Ask(
        "create with bad tolerance",
        "POST",
        "/connectors",
        _create("a", FILE_SOURCE | {"errors.tolerance": "some"}),
    ),
    Ask("put config of unknown class", "PUT", "/connectors/a/config", {"connector.class": "Nope"}),
    Ask("put config from broken JSON", "PUT", "/connectors/a/config", b"{"),
    Ask("unsigned task configurations", "POST", "/connectors/a/tasks", []),
    Ask("unsigned fence", "PUT", "/connectors/a/fence"),
)

SOURCE_LIFE: tuple[Step, ...] = (
    Append("in.txt", "one\ntwo\nthr"),
    Ask("create source", "POST", "/connectors", _create("src", FILE_SOURCE)),
    AwaitStates("src", "RUNNING", ("RUNNING",)),
    AwaitBody("/connectors/src/offsets", _offset("in.txt", 8)),
    Ask("create source again", "POST", "/connectors", _create("src", FILE_SOURCE)),
    Ask("names", "GET", "/connectors"),
    Ask("expanded info", "GET", "/connectors?expand=info"),
    Ask("expanded status and info", "GET", "/connectors?expand=status&expand=info"),
    Ask("expanded unknown", "GET", "/connectors?expand=colour"),
    Ask("info", "GET", "/connectors/src"),
    Ask("config", "GET", "/connectors/src/config"),
    Ask("status", "GET", "/connectors/src/status"),
    Ask("tasks", "GET", "/connectors/src/tasks"),
    Ask("task status", "GET", "/connectors/src/tasks/0/status"),
    Ask("status of a task that is not there", "GET", "/connectors/src/tasks/7/status"),
    Ask("offsets", "GET", "/connectors/src/offsets"),
    AwaitBody("/connectors/src/topics", {"src": {"topics": ["lines"]}}),
    Ask("topics", "GET", "/connectors/src/topics"),
    Append("in.txt", "ee\n"),
    AwaitBody("/connectors/src/offsets", _offset("in.txt", 14)),
    Ask("pause", "PUT", "/connectors/src/pause"),
    AwaitStates("src", "PAUSED", ("PAUSED",)),
    Ask("status paused", "GET", "/connectors/src/status"),
    Ask("pause again", "PUT", "/connectors/src/pause"),
    Ask("resume", "PUT", "/connectors/src/resume"),
    AwaitStates("src", "RUNNING", ("RUNNING",)),
    Ask("put same config", "PUT", "/connectors/src/config", FILE_SOURCE),
    AwaitStates("src", "RUNNING", ("RUNNING",)),
    Ask("put changed config", "PUT", "/connectors/src/config", FILE_SOURCE | {"batch.size": "100"}),
    AwaitStates("src", "RUNNING", ("RUNNING",)),
    Ask("put invalid config", "PUT", "/connectors/src/config", WITHOUT_TOPIC),
    Ask("stop", "PUT", "/connectors/src/stop"),
    AwaitStates("src", "STOPPED"),
    Ask("status stopped", "GET", "/connectors/src/status"),
    Ask("tasks stopped", "GET", "/connectors/src/tasks"),
    Ask("offsets stopped", "GET", "/connectors/src/offsets"),
    Ask("resume from stopped", "PUT", "/connectors/src/resume"),
    AwaitStates("src", "RUNNING", ("RUNNING",)),
)

RESTARTS: tuple[Step, ...] = (
    Ask("restart connector only", "POST", "/connectors/src/restart"),
    AwaitStates("src", "RUNNING", ("RUNNING",)),
    Ask(
        "restart failed only, none failed",
        "POST",
        "/connectors/src/restart?includeTasks=true&onlyFailed=true",
    ),
    AwaitStates("src", "RUNNING", ("RUNNING",)),
    Ask("restart one task", "POST", "/connectors/src/tasks/0/restart"),
    AwaitStates("src", "RUNNING", ("RUNNING",)),
    Ask("restart a task that is not there", "POST", "/connectors/src/tasks/7/restart"),
    # Answered before it is done, and nothing tells its RUNNING from the one before: so it comes last.
    Ask("restart with tasks", "POST", "/connectors/src/restart?includeTasks=true"),
    AwaitStates("src", "RUNNING", ("RUNNING",)),
)

LINES_READ = {"offsets": [{"partition": {"kafka_partition": 0, "kafka_topic": "lines"}, "offset": {"kafka_offset": 3}}]}
SINK_LIFE: tuple[Step, ...] = (
    Ask("create sink by PUT", "PUT", "/connectors/snk/config", FILE_SINK),
    AwaitStates("snk", "RUNNING", ("RUNNING",)),
    AwaitText("out.txt", "one\ntwo\nthree\n"),
    Ask("sink info", "GET", "/connectors/snk"),
    Ask("sink status", "GET", "/connectors/snk/status"),
    Ask("sink tasks", "GET", "/connectors/snk/tasks"),
    AwaitBody("/connectors/snk/topics", {"snk": {"topics": ["lines"]}}),
    Ask("stop sink", "PUT", "/connectors/snk/stop"),
    AwaitStates("snk", "STOPPED"),
    AwaitBody("/connectors/snk/offsets", LINES_READ),  # STOPPED is said of the connector, its task may still drain
    Ask("sink offsets", "GET", "/connectors/snk/offsets"),
    Ask("create failing sink", "POST", "/connectors", _create("bad", JSON_SINK)),
    AwaitStates("bad", "RUNNING", ("FAILED",)),
    Ask("status failed", "GET", "/connectors/bad/status"),
    Ask("task status failed", "GET", "/connectors/bad/tasks/0/status"),
    Ask("delete failing sink", "DELETE", "/connectors/bad"),
    AwaitStatus("/connectors/bad/status", 404),
)

ODD_NAMES: tuple[Step, ...] = (
    Ask("create stopped", "POST", "/connectors", _create("later", FILE_SOURCE) | {"initial_state": "STOPPED"}),
    AwaitStates("later", "STOPPED"),
    Ask("status created stopped", "GET", "/connectors/later/status"),
    Ask(
        "create paused",
        "POST",
        "/connectors",
        _create("odd name ü", FILE_SOURCE) | {"initial_state": "paused"},
    ),
    AwaitStates("odd name ü", "PAUSED"),
    Ask("info of an odd name", "GET", "/connectors/odd%20name%20%C3%BC"),
    Ask("offsets never written", "GET", "/connectors/odd%20name%20%C3%BC/offsets"),
    Ask("info of a name with a slash", "GET", "/connectors/a%2Fb"),
    Ask("delete an odd name", "DELETE", "/connectors/odd%20name%20%C3%BC"),
    Ask("delete source", "DELETE", "/connectors/src"),
    AwaitStatus("/connectors/src/status", 404),
    Ask("info after delete", "GET", "/connectors/src"),
    Ask("delete source again", "DELETE", "/connectors/src"),
    Ask("what is left", "GET", "/connectors"),
)

CLUSTER_LOGGER: tuple[Step, ...] = (
    Ask("cluster logger level", "PUT", "/admin/loggers/org.example?scope=cluster", {"level": "DEBUG"}),
)

EVERYTHING: tuple[Step, ...] = EMPTY_WORKER + BAD_REQUESTS + SOURCE_LIFE + RESTARTS + SINK_LIFE + ODD_NAMES

LONG: tuple[Step, ...] = (
    EVERYTHING + PATCHES + QUERIES + STATES + PATHS + BODIES + LOGGERS + SOURCE_OFFSETS + SINK_OFFSETS + REFUSALS
)
"""The conversation that both workers hold live; the recordings keep EVERYTHING's part of it."""
