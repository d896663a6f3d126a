"""An ASGI application that answers the REST contract from memory.

Owns no rule of the product: it stores the bodies, checks them only as far as the contract names them, and notes every
request. ``without``: resources that it does not serve, as a worker of Java serves none.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from typing import Any
from urllib.parse import unquote

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from spark_connect_rt.topics.aggregate_state import aggregate_rank, aggregate_state
from tests.support.management_stand_in import content

Handler = Callable[[Request], Awaitable[Response]]


class Refused(Exception):
    """A rejected request, which becomes Connect's error body."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class StandIn:
    """The content of a group, to be changed by a test, and the application over it."""

    def __init__(self, without: Collection[str] = ()) -> None:
        """``without``: first words below /admin that answer 404 ("history", "dead-letters" ...)."""
        self.without = set(without)
        self.requests: list[tuple[str, str, Any]] = []  # method, path?query, body
        # (method, path) -> status and body that replace the normal answer
        self.answers: dict[tuple[str, str], tuple[int, Any]] = {}
        self.connectors = content.connectors()
        self.group = content.group()
        self.events = content.events()
        self.changes = content.changes()
        self.letters = content.letters()
        self.plugins = content.plugins()
        self.loggers: dict[str, dict[str, Any]] = {"root": {"level": "INFO", "last_modified": None}}
        self.replays: dict[str, dict[str, Any]] = {}
        self.points = 360  # of a connector's course, ten seconds apart
        self.pushed: list[bytes] = []  # of every stream: sent once, then heartbeats
        self.app = Starlette(
            routes=self._routes(),
            exception_handlers={Refused: _refused, 404: _no_resource, 405: _no_resource},
        )

    def sent(self, method: str, path: str) -> list[Any]:
        """Return the bodies of the requests to a path (its query left out)."""
        return [body for verb, target, body in self.requests if verb == method and target.partition("?")[0] == path]

    def _routes(self) -> list[Route]:
        connector, dead, past = "/connectors/{name}", "/admin/dead-letters", "/admin/history/{name}"
        table: dict[tuple[str, str], Callable[..., Any]] = {
            ("GET", "/"): lambda _: {"version": "4.1.1", "commit": "c", "kafka_cluster_id": "c1"},
            ("GET", "/health"): lambda _: {"status": "healthy", "message": "x"},
            ("GET", "/connectors"): lambda _: sorted(self.connectors),
            ("POST", "/connectors"): self._create,
            ("GET", connector): lambda r: {"name": self._one(r)["config"]["name"], "config": self._one(r)["config"]},
            ("DELETE", connector): self._delete,
            ("GET", connector + "/config"): lambda r: self._one(r)["config"],
            ("PUT", connector + "/config"): self._configure,
            ("GET", connector + "/status"): self._status,
            ("GET", connector + "/topics"): lambda r: {self._one(r)["row"]["name"]: {"topics": self._one(r)["topics"]}},
            ("GET", connector + "/offsets"): lambda r: {"offsets": self._one(r)["offsets"]},
            ("PATCH", connector + "/offsets"): self._alter,
            ("DELETE", connector + "/offsets"): self._alter,
            ("PUT", connector + "/{verb:str}"): self._steer,
            ("POST", connector + "/restart"): lambda r: (202, self._one(r)["row"]),
            ("POST", connector + "/tasks/{task}/restart"): lambda r: (204, self._one(r) and None),
            ("GET", "/connector-plugins"): lambda _: self.plugins["plugins"],
            ("GET", "/connector-plugins/{plugin:path}/config"): lambda _: [
                it["definition"] for it in content.validation({})["configs"]
            ],
            ("PUT", "/connector-plugins/{plugin:path}/config/validate"): lambda _, body: content.validation(body),
            ("PUT", "/admin/connector-plugins/{plugin:path}/config/validate"): lambda _, body: content.form(body),
            ("GET", "/admin/overview"): self._overview,
            ("GET", "/admin/overview/stream"): self._stream,
            ("GET", "/admin/connectors/{name}"): self._detail,
            ("GET", "/admin/connectors/{name}/logs"): self._logs,
            ("GET", "/admin/connectors/{name}/tasks/{task}/logs"): self._logs,
            ("GET", "/admin/connectors/{name}/offsets/course"): self._course,
            ("POST", "/admin/connectors/{name}/offsets/goto"): self._moved,
            ("GET", "/admin/group"): lambda _: self.group,
            ("GET", "/admin/events"): self._events,
            ("GET", "/admin/events/stream"): self._stream,
            ("GET", "/admin/history"): self._history,
            ("GET", past + "/diff"): lambda _: {"changes": [{"setting": "topic", "before": "old", "after": "lines"}]},
            ("GET", past + "/{number:int}"): self._change,
            ("POST", past + "/{number:int}/rollback"): self._rolled_back,
            ("POST", past + "/{number:int}/undo"): self._moved,
            ("GET", dead): self._letters,
            ("POST", dead + "/replays"): self._replay,
            ("GET", dead + "/replays"): lambda _: {"replays": list(self.replays.values())},
            ("GET", dead + "/replays/{id}"): lambda r: self._replay_of(r),
            ("POST", dead + "/replays/{id}/{verb}"): self._steer_replay,
            ("POST", dead + "/delete"): lambda _, body: {"deleted": 1, "up_to": {"0": 1}},
            ("POST", "/admin/preview"): self._preview,
            ("POST", "/admin/check"): self._check,
            ("GET", "/admin/plugins"): lambda _: self.plugins,
            ("POST", "/admin/plugins"): lambda _, body: (201, content.plugins()["installed"][0] | body),
            ("DELETE", "/admin/plugins/{plugin}/{version}"): self._uninstall,
            ("GET", "/admin/loggers"): lambda _: self.loggers,
            ("PUT", "/admin/loggers/{logger:path}"): self._set_level,
        }
        return [Route(path, self._handler(method, work), methods=[method]) for (method, path), work in table.items()]

    def _handler(self, method: str, work: Callable[..., Any]) -> Handler:
        async def handle(request: Request) -> Response:
            body = await _body(request)
            path, query = request.url.path, request.url.query
            self.requests.append((method, f"{path}?{query}" if query else path, body))
            words = path.strip("/").split("/")
            if words[0] == "admin" and words[1] in self.without:
                raise Refused(404, "HTTP 404 Not Found")
            if (method, path) in self.answers:
                return _json(*self.answers[method, path])
            answer = work(request) if method in ("GET", "DELETE") or body is None else _called(work, request, body)
            if isinstance(answer, Response):
                return answer
            return _json(*answer) if isinstance(answer, tuple) else _json(200, answer)

        return handle

    def _one(self, request: Request) -> dict[str, Any]:
        name = unquote(request.path_params["name"])
        if name not in self.connectors:
            raise Refused(404, f"Connector {name} not found")
        return self.connectors[name]

    def _create(self, _: Request, body: dict[str, Any]) -> Any:
        name = body["name"]
        if name in self.connectors:
            raise Refused(409, f"Connector {name} already exists")
        state = body.get("initial_state") or "RUNNING"
        made = content.row(name, state=state)
        self.connectors[name] = {
            "row": made, "config": body["config"] | {"name": name}, "tasks": [], "offsets": [], "topics": [],
            "tables": [],
        }  # fmt: skip
        return 201, {"name": name, "config": body["config"], "tasks": [], "type": "source"}

    def _delete(self, request: Request) -> Any:
        self._one(request)
        del self.connectors[unquote(request.path_params["name"])]
        return 204, None

    def _configure(self, request: Request, body: dict[str, Any]) -> Any:
        self._one(request)["config"] = body
        return {"name": body.get("name"), "config": body, "tasks": [], "type": "source"}

    def _steer(self, request: Request) -> Any:
        states = {"pause": "PAUSED", "resume": "RUNNING", "stop": "STOPPED"}
        verb = request.path_params["verb"]
        if verb not in states:
            raise Refused(404, "HTTP 404 Not Found")
        row = self._one(request)["row"]
        row["state"], row["aggregate"] = states[verb], aggregate_state(states[verb], row["tasks"])
        return (204 if verb == "stop" else 202), None

    def _status(self, request: Request) -> Any:
        kept = self._one(request)
        instance = {"state": kept["row"]["state"], "worker_id": kept["row"]["worker_id"]}
        tasks = [{key: task[key] for key in ("id", "state", "worker_id", "trace")} for task in kept["tasks"]]
        return {"name": kept["row"]["name"], "connector": instance, "tasks": tasks, "type": kept["row"]["type"]}

    def _alter(self, request: Request, body: dict[str, Any] | None = None) -> Any:
        kept = self._one(request)
        if kept["row"]["state"] != "STOPPED":
            raise Refused(400, "Connectors must be in the STOPPED state before their offsets can be modified.")
        kept["offsets"] = (body or {}).get("offsets", [])
        return {"message": "The offsets for this connector have been altered successfully"}

    def _overview(self, request: Request) -> Any:
        query = request.query_params
        rows = [it["row"] for it in self.connectors.values()]
        found = [
            it for it in rows
            if query.get("search", "").lower() in it["name"].lower()
            and (not query.get("state") or it["aggregate"] in query["state"].split(","))
            and query.get("type") in (None, "", it["type"])
            and (query.get("abnormal") != "true" or it["abnormal"])
        ]  # fmt: skip
        found.sort(key=lambda it: (not it["abnormal"], aggregate_rank(it["aggregate"]), it["name"]))
        offset, limit = int(query.get("offset", 0)), int(query.get("limit", 100))
        counts = {state: sum(it["aggregate"] == state for it in rows) for state in {it["aggregate"] for it in rows}}
        counts["abnormal"] = sum(it["abnormal"] for it in rows)
        return {
            "connectors": found[offset : offset + limit], "total": len(rows), "matching": len(found),
            "counts": counts, "records_per_second": 31.5, "unanswered": [], "at_ms": content.NOW_MS,
        }  # fmt: skip

    def _detail(self, request: Request) -> Any:
        kept = self._one(request)
        config = kept["config"] | {"db.password": "[hidden]"}
        course = [
            {"at_ms": content.NOW_MS - (self.points - n) * 10_000, "records_per_second": n % 7, "lag": n, "errors": 0}
            for n in range(self.points)
        ]
        shown = {part: kept[part] for part in ("topics", "tasks", "tables")}
        return kept["row"] | shown | {"config": config, "course": course}

    def _logs(self, request: Request) -> Any:
        self._one(request)
        line = {"at_ms": content.NOW_MS, "level": "INFO", "logger": "x", "task": 0, "where": "executor"}
        return {"lines": [line | {"worker_id": content.WORKER, "host": "h", "message": content.NASTY}]}

    def _course(self, request: Request) -> Any:
        offsets = self._one(request)["offsets"]
        return {"points": [{"at_ms": content.NOW_MS - n * 60_000, "offsets": offsets} for n in range(3, 0, -1)]}

    def _moved(self, request: Request, body: dict[str, Any]) -> Any:
        move = {"partition": {"filename": "in.txt"}, "from": {"position": 42}, "to": {"position": 1}}
        return {"offsets": [move], "applied": not body.get("dry_run")}

    def _events(self, request: Request) -> Any:
        query = request.query_params
        found = [
            it for it in self.events
            if (not query.get("kind") or it["kind"] in query["kind"].split(","))
            and (not query.get("connector") or it["connector"] == query["connector"])
            and it["at_ms"] >= int(query.get("since_ms") or 0)
        ]  # fmt: skip
        return {"events": found[: int(query.get("limit", 100))]}

    def _history(self, request: Request) -> Any:
        query = request.query_params
        found = [
            it for it in self.changes
            if (not query.get("kind") or it["kind"] in query["kind"].split(","))
            and (not query.get("connector") or it["connector"] == query["connector"])
            and it["number"] < int(query.get("before") or 1 << 60)
        ]  # fmt: skip
        return {"changes": found[: int(query.get("limit", 100))], "problem": ""}

    def _change(self, request: Request) -> Any:
        found = [it for it in self.changes if it["number"] == request.path_params["number"]]
        if not found:
            raise Refused(404, "no such change")
        return found[0]

    def _rolled_back(self, request: Request, body: dict[str, Any]) -> Any:
        diff = [{"setting": "topic", "before": "lines", "after": "old"}]
        return {"diff": diff, "applied": not body.get("dry_run")}

    def _letters(self, request: Request) -> Any:
        query = request.query_params
        after, limit = int(query.get("after") or -1), int(query.get("limit") or 100)
        found = [
            it for it in self.letters
            if it["offset"] > after
            and query.get("stage") in (None, "", it["stage"])
            and (query.get("message") or "") in it["message"]
            and (not query.get("replayed") or (query["replayed"] == "true") == bool(it["replayed"]))
        ]  # fmt: skip
        more = str(found[limit - 1]["offset"]) if len(found) > limit else None
        return {"topic": "orders-dlq", "connector": query.get("connector"), "letters": found[:limit], "next": more}

    def _replay(self, _: Request, body: dict[str, Any]) -> Any:
        matched = len(body.get("letters") or self.letters)
        made = {"id": f"r{len(self.replays) + 1}", "state": "running", "matched": matched, "done": 0, "failed": 0}
        made |= {"rate": body.get("rate"), "error": None, "connector": body.get("connector")}
        made |= {"target": body.get("target") or "topic"}
        if body.get("dry_run"):
            letter = {key: self.letters[0][key] for key in ("key", "value", "headers")}
            return made | {"sample": [{"before": letter, "after": letter | {"value": {"json": {"id": 2}}}}]}
        self.replays[str(made["id"])] = made
        return 201, made

    def _replay_of(self, request: Request) -> dict[str, Any]:
        found = self.replays.get(request.path_params["id"])
        if found is None:
            raise Refused(404, "no such replay")
        return found

    def _steer_replay(self, request: Request, _: Any = None) -> Any:
        self._replay_of(request)["state"] = {"stop": "stopped", "resume": "running"}[request.path_params["verb"]]
        return self._replay_of(request)

    def _preview(self, _: Request, body: dict[str, Any]) -> Any:
        record: dict[str, Any] = {
            "topic": "lines",
            "partition": None,
            "key": None,
            "value": {"line": content.NASTY},
            "headers": [],
        }
        record |= {"timestamp": None, "key_schema": None, "value_schema": {"type": "struct"}}
        stages = [
            {"stage": "polled", "record": record},
            {"stage": "transforms.drop", "record": None},
            {"stage": "converted", "record": record, "bytes": {"key": None, "value": "eyJhIjoxfQ==", "headers": []}},
        ]
        return {"records": [{"stages": stages}], "ended": "records", "error": None, "seconds": 0.5}

    def _check(self, _: Request, body: dict[str, Any]) -> Any:
        line = {"check": "validation", "setting": None, "ok": True, "level": "ok", "what": "valid", "change": ""}
        bad = line | {"check": "host", "setting": "topic", "ok": False, "level": "problem", "what": content.NASTY}
        return {"ok": False, "lines": [line, bad | {"change": "set topic"}]}

    def _uninstall(self, request: Request) -> Any:
        name, version = request.path_params["plugin"], request.path_params["version"]
        kept = [it for it in self.plugins["installed"] if (it["name"], it["version"]) != (name, version)]
        if len(kept) == len(self.plugins["installed"]):
            raise Refused(404, f"no plug-in {name} is installed")
        self.plugins["installed"] = kept
        return 204, None

    def _set_level(self, request: Request, body: dict[str, Any]) -> Any:
        self.loggers[request.path_params["logger"]] = {"level": body["level"], "last_modified": content.NOW_MS}
        return (204, None) if request.query_params.get("scope") == "cluster" else [request.path_params["logger"]]

    def _stream(self, _: Request) -> Response:
        async def sent() -> AsyncIterator[bytes]:
            for event in self.pushed:
                yield event
            while True:
                yield b": heartbeat\n\n"
                await asyncio.sleep(0.2)

        return StreamingResponse(sent(), media_type="text/event-stream")


def _called(work: Callable[..., Any], request: Request, body: Any) -> Any:
    try:
        return work(request, body)
    except KeyError as error:
        raise Refused(400, f"the body has no {error}") from error


async def _body(request: Request) -> Any:
    data = await request.body()
    if not data:
        return None
    if request.headers.get("content-type", "").partition(";")[0] != "application/json":
        raise Refused(415, "HTTP 415 Unsupported Media Type")
    return json.loads(data)


def _json(status: int, body: Any) -> Response:
    data = b"" if body is None else json.dumps(body).encode()
    return Response(data, status, media_type=None if body is None else "application/json")


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    return _json(error.status, {"error_code": error.status, "message": str(error)})


async def _no_resource(_: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", 404)
    return _json(status, {"error_code": status, "message": f"HTTP {status}"})
