"""What is said with odd methods, paths, bodies, encodings and query values, and to the smaller resources."""

from __future__ import annotations

from typing import Any

from tests.parity.conversation import Ask, AwaitBody, AwaitStates, AwaitStatus, Step

SOURCE = {"connector.class": "FileStreamSource", "tasks.max": "1", "file": "odd.txt", "topic": "odd"}
PATH = "/connectors/odd"


def _created(name: str, state: Any, **more: str) -> dict[str, Any]:
    return {"name": name, "config": {**SOURCE, **more}, "initial_state": state}


def _json(text: str, encoding: str = "utf-8") -> bytes:
    return text.encode(encoding)


STOPPED = (
    '{"name":"%s","config":{"connector.class":"FileStreamSource","file":"f","topic":"t"},"initial_state":"STOPPED"}'
)

PATCHES: tuple[Step, ...] = (
    Ask("patch none", "PATCH", "/connectors/none/config", {"tasks.max": "1"}),
    Ask("create to patch", "POST", "/connectors", _created("odd", "STOPPED")),
    AwaitStates("odd", "STOPPED"),
    Ask("patch adds", "PATCH", f"{PATH}/config", {"batch.size": "7"}),
    Ask("patched config", "GET", f"{PATH}/config"),
    Ask("patch with a number", "PATCH", f"{PATH}/config", {"batch.size": 8}),
    Ask("patch with true", "PATCH", f"{PATH}/config", {"errors.log.enable": True}),
    Ask("patch removes", "PATCH", f"{PATH}/config", {"batch.size": None, "errors.log.enable": None}),
    Ask("patch removes what is not there", "PATCH", f"{PATH}/config", {"colour": None}),
    Ask("patch with nothing in it", "PATCH", f"{PATH}/config", {}),
    Ask("patch with no body", "PATCH", f"{PATH}/config", b""),
    Ask("patch with null", "PATCH", f"{PATH}/config", b"null"),
    Ask("patch with a list", "PATCH", f"{PATH}/config", []),
    Ask("patch with a map inside", "PATCH", f"{PATH}/config", {"a": {"b": "c"}}),
    Ask("patch that makes it invalid", "PATCH", f"{PATH}/config", {"tasks.max": "x"}),
    Ask("patch that removes what must be there", "PATCH", f"{PATH}/config", {"topic": None}),
    Ask("patch that renames", "PATCH", f"{PATH}/config", {"name": "other"}),
    Ask("patch that renames back", "PATCH", f"{PATH}/config", {"name": "odd"}),
    Ask("patch that removes the name", "PATCH", f"{PATH}/config", {"name": None}),
    Ask("config after the patches", "GET", f"{PATH}/config"),
    Ask("status after the patches", "GET", f"{PATH}/status"),
)

QUERIES: tuple[Step, ...] = (
    Ask("restart a stopped connector", "POST", f"{PATH}/restart"),
    Ask("restart a stopped connector with tasks", "POST", f"{PATH}/restart?includeTasks=true"),
    AwaitStates("odd", "STOPPED"),
    Ask("restart what failed of a stopped one", "POST", f"{PATH}/restart?onlyFailed=true"),
    AwaitStates("odd", "STOPPED"),
    Ask("restart with a word that is no boolean", "POST", f"{PATH}/restart?includeTasks=yes"),
    Ask("restart with an empty value", "POST", f"{PATH}/restart?includeTasks="),
    Ask("restart with a body", "POST", f"{PATH}/restart", {"includeTasks": True}),
    Ask("restart with unknown parameters", "POST", f"{PATH}/restart?colour=red"),
    Ask("restart task of a stopped connector", "POST", f"{PATH}/tasks/0/restart"),
    Ask("restart task number below zero", "POST", f"{PATH}/tasks/-1/restart"),
    Ask("restart task number that is none", "POST", f"{PATH}/tasks/x/restart"),
    Ask("restart task number beyond 32 bits", "POST", f"{PATH}/tasks/2147483648/restart"),
    Ask("get restart", "GET", f"{PATH}/restart"),
    Ask("expand in capitals", "GET", "/connectors?expand=INFO"),
    Ask("expand empty", "GET", "/connectors?expand="),
    Ask("expand without a value", "GET", "/connectors?expand"),
    Ask("expand known and unknown", "GET", "/connectors?expand=colour&expand=info&expand=info"),
    Ask("unknown parameter", "GET", "/connectors?colour=red"),
    Ask("plug-ins, connectors only in capitals", "GET", "/connector-plugins?connectorsOnly=TRUE"),
    Ask("topics of a stopped connector", "GET", f"{PATH}/topics"),
    Ask("reset topics", "PUT", f"{PATH}/topics/reset"),
    Ask("topics after the reset", "GET", f"{PATH}/topics"),
    Ask("reset topics of a sink that has some", "PUT", "/connectors/snk/topics/reset"),
    AwaitBody("/connectors/snk/topics", {"snk": {"topics": []}}),
    Ask("topics of a sink after the reset", "GET", "/connectors/snk/topics"),
    Ask("reset topics of none", "PUT", "/connectors/none/topics/reset"),
    Ask("get topics reset", "GET", f"{PATH}/topics/reset"),
    Ask("reset topics with a body", "PUT", f"{PATH}/topics/reset", {}),
)

STATES: tuple[Step, ...] = (
    Ask("create with an empty initial state", "POST", "/connectors", _created("state", "")),
    Ask("create with a number as initial state", "POST", "/connectors", _created("state", 1)),
    Ask("create with a list as initial state", "POST", "/connectors", _created("state", [])),
    Ask("create with no initial state", "POST", "/connectors", _created("state", None, file="none-yet.txt")),
    AwaitStates("state", "RUNNING", ("RUNNING",)),
    Ask("delete it again", "DELETE", "/connectors/state"),
    AwaitStatus("/connectors/state/status", 404),
    Ask("create running", "POST", "/connectors", _created("state", "Running", file="none-yet.txt")),
    AwaitStates("state", "RUNNING", ("RUNNING",)),
    Ask("stop it", "PUT", "/connectors/state/stop"),
    AwaitStates("state", "STOPPED"),
    Ask("pause a stopped connector", "PUT", "/connectors/state/pause"),
    AwaitStates("state", "PAUSED"),
    Ask("status after pausing a stopped one", "GET", "/connectors/state/status"),
    Ask("stop it again", "PUT", "/connectors/state/stop"),
    AwaitStates("state", "STOPPED"),
    Ask("stop a stopped one", "PUT", "/connectors/state/stop"),
    Ask("stop with a body", "PUT", "/connectors/state/stop", {"a": 1}),
    Ask("post stop", "POST", "/connectors/state/stop"),
    Ask("resume with a last slash", "PUT", "/connectors/state/resume/"),
    AwaitStates("state", "RUNNING", ("RUNNING",)),
    Ask("delete it at last", "DELETE", "/connectors/state"),
    AwaitStatus("/connectors/state/status", 404),
)

PATHS: tuple[Step, ...] = (
    Ask("connectors with a last slash", "GET", "/connectors/"),
    Ask("info with a last slash", "GET", f"{PATH}/"),
    Ask("head of connectors", "HEAD", "/connectors"),
    Ask("head of none", "HEAD", "/connectors/none"),
    Ask("options of connectors", "OPTIONS", "/connectors"),
    Ask("options of a connector", "OPTIONS", PATH),
    Ask("options of offsets", "OPTIONS", f"{PATH}/offsets"),
    Ask("put connectors", "PUT", "/connectors", {}),
    Ask("patch connectors", "PATCH", "/connectors", {}),
    Ask("post a connector", "POST", PATH, {}),
    Ask("put a connector", "PUT", PATH, {}),
    Ask("patch a connector", "PATCH", PATH, {}),
    Ask("delete a config", "DELETE", f"{PATH}/config"),
    Ask("post a config", "POST", f"{PATH}/config", {}),
    Ask("delete a status", "DELETE", f"{PATH}/status"),
    Ask("put tasks", "PUT", f"{PATH}/tasks", []),
    Ask("tasks-config, gone since 4.0", "GET", f"{PATH}/tasks-config"),
    Ask("a task without more", "GET", f"{PATH}/tasks/0"),
    Ask("deeper than anything", "GET", f"{PATH}/tasks/0/status/more"),
    Ask("delete the root", "DELETE", "/"),
    Ask("post health", "POST", "/health", {}),
    Ask("post plug-ins", "POST", "/connector-plugins", {}),
    Ask("a name with a blank", "GET", "/connectors/a%20b"),
    Ask("a name with a plus", "GET", "/connectors/a+b"),
    Ask("a name with a semicolon", "GET", "/connectors/a%3Bb"),
    Ask("a name with a question mark", "GET", "/connectors/a%3Fb"),
    Ask("a name with a per cent sign", "GET", "/connectors/a%25b"),
    Ask("a name in another script", "GET", "/connectors/%E6%97%A5"),
    Ask("capital path", "GET", "/Connectors"),
    Ask("admin without more", "GET", "/admin"),
)

BODIES: tuple[Step, ...] = (
    Ask("create from plain text", "POST", "/connectors", _json(STOPPED % "b1"), {"Content-Type": "text/plain"}),
    Ask("create from a form", "POST", "/connectors", b"a=b", {"Content-Type": "application/x-www-form-urlencoded"}),
    Ask("create from XML", "POST", "/connectors", b"<a/>", {"Content-Type": "application/xml"}),
    Ask("create with a content type of nonsense", "POST", "/connectors", b"{}", {"Content-Type": "json"}),
    Ask("accept XML", "GET", "/connectors", None, {"Accept": "application/xml"}),
    Ask("accept HTML or anything", "GET", "/connectors", None, {"Accept": "text/html, */*;q=0.1"}),
    Ask("accept any application", "GET", "/connectors", None, {"Accept": "application/*"}),
    Ask(
        "create in UTF-16",
        "POST",
        "/connectors",
        _json(STOPPED % "sixteen", "utf-16"),
        {"Content-Type": "application/json"},
    ),
    Ask(
        "create in UTF-16 without a mark",
        "POST",
        "/connectors",
        _json(STOPPED % "unmarked", "utf-16-be"),
        {"Content-Type": "application/json"},
    ),
    Ask(
        "create with a byte order mark",
        "POST",
        "/connectors",
        _json(STOPPED % "marked", "utf-8-sig"),
        {"Content-Type": "application/json; charset=utf-8"},
    ),
    Ask("create in broken UTF-8", "POST", "/connectors", b'{"name":"\xff\xfe","config":{}}'),
    Ask("create from a text", "POST", "/connectors", b'"name"'),
    Ask("create from a number", "POST", "/connectors", b"5"),
    Ask("create from null", "POST", "/connectors", b"null"),
    Ask("create with a field twice", "POST", "/connectors", _json((STOPPED % "twice").replace("{", '{"name":"x",', 1))),
    Ask("create with more behind it", "POST", "/connectors", _json(STOPPED % "b6") + b" {}"),
    Ask("create with a comment", "POST", "/connectors", b"/* a */" + _json(STOPPED % "b7")),
    Ask("create with NaN", "POST", "/connectors", b'{"name":"b8","config":{"a":NaN}}'),
    Ask("create with a number as name", "POST", "/connectors", {"name": 5, "config": {"a": "b"}}),
    Ask("create with a list as name", "POST", "/connectors", {"name": [], "config": {}}),
    Ask("create without a name", "POST", "/connectors", {"config": SOURCE}),
    Ask("create with an empty name", "POST", "/connectors", {"name": "", "config": SOURCE}),
    Ask("create with a blank name", "POST", "/connectors", {"name": "  ", "config": SOURCE}),
    Ask("create with a control character in the name", "POST", "/connectors", {"name": "a\u0001b", "config": SOURCE}),
    Ask("create with a config that is a list", "POST", "/connectors", {"name": "b9", "config": []}),
    Ask("create with a null in the config", "POST", "/connectors", {"name": "b9", "config": SOURCE | {"x": None}}),
    Ask("create with a map in the config", "POST", "/connectors", {"name": "b9", "config": SOURCE | {"x": {}}}),
    Ask("create with blanks around the name", "POST", "/connectors", _created(" trimmed ", "STOPPED")),
    AwaitStates("trimmed", "STOPPED"),
    Ask("delete the trimmed name", "DELETE", "/connectors/trimmed"),
    Ask("put config with no body", "PUT", f"{PATH}/config", b""),
    Ask("put config with null", "PUT", f"{PATH}/config", b"null"),
    Ask("put config with an empty object", "PUT", f"{PATH}/config", {}),
    Ask("put config with numbers", "PUT", "/connectors/numbers/config", SOURCE | {"tasks.max": 0, "batch.size": 1.0}),
    Ask("put config of another name", "PUT", f"{PATH}/config", SOURCE | {"name": "x"}),
    Ask("names at the end of it", "GET", "/connectors"),
)

LOGGERS: tuple[Step, ...] = (
    Ask("loggers", "GET", "/admin/loggers"),
    Ask("root logger", "GET", "/admin/loggers/root"),
    Ask("logger that is none", "GET", "/admin/loggers/org.example.none"),
    Ask("set a logger", "PUT", "/admin/loggers/org.example", {"level": "DEBUG"}),
    Ask("logger that was set", "GET", "/admin/loggers/org.example"),
    Ask("set a logger in lower case", "PUT", "/admin/loggers/org.example", {"level": "info"}),
    Ask("logger that was set in lower case", "GET", "/admin/loggers/org.example"),
    Ask("set a logger for a scope unknown", "PUT", "/admin/loggers/org.example?scope=galaxy", {"level": "WARN"}),
    Ask("set a logger for the worker", "PUT", "/admin/loggers/org.example?scope=worker", {"level": "ERROR"}),
    Ask("set a logger for all", "PUT", "/admin/loggers/org.example.all?scope=cluster", {"level": "TRACE"}),
    Ask("set a logger for all, in capitals", "PUT", "/admin/loggers/org.example.all?scope=CLUSTER", {"level": "INFO"}),
    Ask("set a logger without a level", "PUT", "/admin/loggers/org.example", {}),
    Ask("set a logger to null", "PUT", "/admin/loggers/org.example", {"level": None}),
    Ask("set a logger to nonsense", "PUT", "/admin/loggers/org.example", {"level": "LOUD"}),
    Ask("set a logger for all to nonsense", "PUT", "/admin/loggers/org.example?scope=cluster", {"level": "LOUD"}),
    Ask("set a logger to a number", "PUT", "/admin/loggers/org.example", {"level": 5}),
    Ask("set a logger to a list", "PUT", "/admin/loggers/org.example", {"level": []}),
    Ask("set a logger to off", "PUT", "/admin/loggers/org.example", {"level": "OFF"}),
    Ask("set a logger with more fields", "PUT", "/admin/loggers/org.example", {"level": "INFO", "a": "b"}),
    Ask("set a logger from broken JSON", "PUT", "/admin/loggers/org.example", b"{"),
    Ask("set a logger from nothing", "PUT", "/admin/loggers/org.example", b""),
    Ask("set a logger from a list", "PUT", "/admin/loggers/org.example", []),
    Ask("delete a logger", "DELETE", "/admin/loggers/org.example"),
)
