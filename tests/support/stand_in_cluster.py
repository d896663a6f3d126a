"""A cluster in memory for the client's transport: Kafka Connect's REST API as far as the command line uses it.

``java=True``: nothing below /admin but the loggers, as a Java worker. ``admin``: path -> answer of the management API.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qs, unquote

import httpx

Answer = tuple[int, Any]
Handler = Callable[[str, dict[str, Any], dict[str, str]], Any]
NOT_FOUND: Answer = (404, {"error_code": 404, "message": "HTTP 404 Not Found"})
CLASS = "org.apache.kafka.connect.file.FileStreamSourceConnector"


def refused(status: int, message: str) -> Answer:
    """Return Connect's body of a refusal."""
    return status, {"error_code": status, "message": message}


class StandInCluster(httpx.BaseTransport):
    """``connectors``: name -> row with config, type, state, tasks, offsets, topics. Changed by writes."""

    def __init__(self, java: bool = False) -> None:
        self.java = java
        self.connectors: dict[str, dict[str, Any]] = {}
        self.admin: dict[str, Any] = {}
        self.loggers: dict[str, dict[str, Any]] = {"root": {"level": "INFO", "last_modified": None}}
        self.asked: list[str] = []
        self.bodies: list[Any] = []
        self.headers: list[httpx.Headers] = []
        self.before_answer: Callable[[str], None] = lambda _: None

    def add(self, name: str, state: str = "RUNNING", tasks: str = "R", kind: str = "source", **config: str) -> None:
        """Add a connector; ``tasks``: a letter each, R(unning), F(ailed), P(aused), U(nassigned)."""
        words = {"R": "RUNNING", "F": "FAILED", "P": "PAUSED", "U": "UNASSIGNED"}
        states: list[dict[str, Any]] = [
            {"id": index, "state": words[task], "worker_id": f"w{index % 2 + 1}:8083"}
            for index, task in enumerate(tasks)
        ]
        for status in states:
            if status["state"] == "FAILED" and kind == "sink":
                status["trace"] = (
                    'Traceback (most recent call last):\n  File "x.py", line 1\nx.DataError: no such table\n'
                )
            elif status["state"] == "FAILED":
                status["trace"] = (
                    "org.apache.kafka.connect.errors.ConnectException: no route to host\n\tat x.y(Z.java:1)"
                )
        self.connectors[name] = {
            "config": {
                "connector.class": CLASS,
                "name": name,
                **{key.replace("_", "."): v for key, v in config.items()},
            },
            "type": kind,
            "state": state,
            "tasks": states,
            "offsets": [],
            "topics": [],
        }

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Note a request and return its prepared answer (``httpx.BaseTransport``)."""
        path = request.url.raw_path.partition(b"?")[0].decode()
        query = request.url.query.decode()
        body = json.loads(request.read()) if request.content else None
        line = f"{request.method} {path}" + (f"?{query}" if query else "")
        self.asked.append(line)
        self.bodies.append(body)
        self.headers.append(request.headers)
        self.before_answer(line)
        answer = self._answer(request.method, path, {key: values[-1] for key, values in parse_qs(query).items()}, body)
        if isinstance(answer, httpx.Response):
            return answer
        status, value = answer
        return httpx.Response(status, content=b"" if value is None else json.dumps(value).encode())

    def writes(self) -> list[str]:
        """Return the requests that were not reads."""
        return [line for line in self.asked if not line.startswith("GET ")]

    def _answer(self, method: str, path: str, query: dict[str, str], body: Any) -> Any:
        segments = [unquote(part) for part in path.strip("/").split("/")]
        if segments[0] == "admin" and segments[1] != "loggers":
            found = None if self.java else self.admin.get(f"{method} {path}", self.admin.get(path))
            if found is None:
                return NOT_FOUND
            if callable(found):
                return found(query, body)
            return found if isinstance(found, (tuple, httpx.Response)) else (200, found)
        if segments[0] == "admin":
            return self._logger(method, segments[2:], body)
        if segments == [""]:
            return 200, {"version": "4.1.1", "commit": "x", "kafka_cluster_id": "c1"}
        if segments[0] == "connector-plugins":
            return self._plugin(method, segments[1:], body)
        if segments[0] != "connectors":
            return NOT_FOUND
        if len(segments) == 1:
            return self._all(method, query, body)
        return self._one(method, segments[1], segments[2:], query, body)

    def _all(self, method: str, query: Mapping[str, str], body: Any) -> Answer:
        if method == "POST":
            if body["name"] in self.connectors:
                return refused(409, f"Connector {body['name']} already exists")
            if "connector.class" not in body["config"]:
                return 400, {
                    "error_code": 400,
                    "message": "bad config",
                    "problems": {"connector.class": ["is missing"]},
                }
            self.add(body["name"], body.get("initial_state") or "RUNNING")
            self.connectors[body["name"]]["config"] = {**body["config"], "name": body["name"]}
            return 201, self._info(body["name"])
        if "expand" not in query:
            return 200, list(self.connectors)
        return 200, {name: {"status": self._status(name), "info": self._info(name)} for name in self.connectors}

    def _one(self, method: str, name: str, rest: list[str], query: Mapping[str, str], body: Any) -> Answer:
        if name not in self.connectors and (method, rest) != ("PUT", ["config"]):
            return refused(404, f"Connector {name} not found")
        act = rest[0] if rest else ""
        connector = self.connectors.get(name, {})
        reads: dict[str, Callable[[], Any]] = {
            "": lambda: self._info(name),
            "config": lambda: connector["config"],
            "status": lambda: self._status(name),
            "offsets": lambda: {"offsets": connector["offsets"]},
            "topics": lambda: {name: {"topics": connector["topics"]}},
            "tasks": lambda: [
                {"id": {"connector": name, "task": task["id"]}, "config": {}} for task in connector["tasks"]
            ],
        }
        if method == "GET" and act in reads:
            return 200, reads[act]()
        if method == "DELETE" and not rest:
            del self.connectors[name]
            return 204, None
        return self._change(method, name, rest, body)

    def _change(self, method: str, name: str, rest: list[str], body: Any) -> Answer:
        states = {"pause": "PAUSED", "resume": "RUNNING", "stop": "STOPPED"}
        if rest[0] in states:
            self._become(name, states[rest[0]])
            return 202, None
        if rest[0] == "config":
            return self._configure(method, name, body)
        if rest[-1] == "restart":
            for task in self.connectors[name]["tasks"]:
                task.pop("trace", None)
                task["state"] = "RUNNING"
            return (204, None) if len(rest) > 1 else (202, self._status(name))
        if rest[0] == "offsets":
            if self.connectors[name]["state"] != "STOPPED":
                return refused(400, "Connectors must be in the STOPPED state before their offsets can be modified.")
            self.connectors[name]["offsets"] = [] if method == "DELETE" else body["offsets"]
            return 200, {"message": "The offsets for this connector have been altered successfully"}
        return NOT_FOUND

    def _configure(self, method: str, name: str, body: Any) -> Answer:
        created = name not in self.connectors
        if created:
            self.add(name)
        merged = {**(self.connectors[name]["config"] if method == "PATCH" else {}), **body, "name": name}
        self.connectors[name]["config"] = {key: str(value) for key, value in merged.items() if value is not None}
        return (201 if created else 200), self._info(name)

    def _become(self, name: str, state: str) -> None:
        connector = self.connectors[name]
        connector["state"] = state
        if state == "STOPPED":
            connector["tasks"] = []
        for task in connector["tasks"]:
            task["state"] = state

    def _plugin(self, method: str, rest: list[str], body: Any) -> Answer:
        if not rest:
            return 200, [
                {"class": CLASS, "type": "source", "version": "4.1.1"},
                {"class": "x.Pred", "type": "predicate"},
            ]
        key: dict[str, Any] = {
            "name": "file",
            "type": "STRING",
            "required": True,
            "default_value": None,
            "importance": "HIGH",
        }
        if rest[-1] == "config":
            return 200, [{**key, "documentation": "Source filename."}]
        problems = [] if "file" in body else ['Missing required configuration "file" which has no default value.']
        value = {"name": "file", "value": body.get("file"), "errors": problems}
        return 200, {"name": CLASS, "error_count": len(problems), "configs": [{"definition": key, "value": value}]}

    def _logger(self, method: str, rest: list[str], body: Any) -> Answer:
        if method == "PUT":
            self.loggers[rest[0]] = {"level": body["level"], "last_modified": 1_700_000_000_000}
            return 204, None
        if not rest:
            return 200, self.loggers
        return (200, self.loggers[rest[0]]) if rest[0] in self.loggers else refused(404, f"Logger {rest[0]} not found.")

    def _info(self, name: str) -> dict[str, Any]:
        connector = self.connectors[name]
        tasks = [{"connector": name, "task": task["id"]} for task in connector["tasks"]]
        return {"name": name, "config": connector["config"], "tasks": tasks, "type": connector["type"]}

    def _status(self, name: str) -> dict[str, Any]:
        connector = self.connectors[name]
        state = {"state": connector["state"], "worker_id": "w1:8083"}
        return {"name": name, "connector": state, "tasks": connector["tasks"], "type": connector["type"]}
