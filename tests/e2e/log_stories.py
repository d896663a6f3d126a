"""The lines that a task logs on its executor, read by REST from the worker; a plug-in that logs much."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.e2e.commands import until
from tests.support.worker_process import SparkWorkerProcess

CHATTY = '''
"""A source that logs: in poll, on a thread of its own, a secret, and a flood when it is asked for one."""
import logging
import threading
import time
from spark_connect_rt.api.connector import SourceConnector
from spark_connect_rt.api.records import SourceRecord
from spark_connect_rt.api.task import SourceTask
from spark_connect_rt.config.config_def import ConfigDef, ConfigKey, Importance, Type

log = logging.getLogger("chatty")


class ChattySource(SourceConnector):
    """Logs."""

    def config_def(self):
        return ConfigDef([ConfigKey("door.password", Type.PASSWORD, None, Importance.LOW, "A secret.")])

    def task_class(self):
        return ChattyTask

    def task_configs(self, max_tasks):
        log.info("connector=%s makes its tasks", self.config["name"])
        return [dict(self.config)]


class ChattyTask(SourceTask):
    """Logs in each poll."""

    def start(self, config):
        self.flood = int(config.get("flood", "0"))
        self.polls = 0
        log.info("starts with %s", config.get("door.password"))
        threading.Thread(target=lambda: log.warning("from a thread of its own"), daemon=True).start()

    def poll(self):
        self.polls += 1
        if self.polls == 1:
            try:
                raise ValueError("no such door")
            except ValueError:
                log.exception("the first poll")
            began = time.perf_counter()
            for number in range(self.flood):
                log.info("flood %d", number)
            log.warning("logged %d lines in %d ms", self.flood, 1000 * (time.perf_counter() - began))
            return [SourceRecord({}, {"n": 1}, "chatty", "one")]
        time.sleep(0.2)
        return None

    def stop(self):
        """Hold nothing."""
'''


def chatty_plugin(folder: Path) -> Path:
    """Make the folder of a plug-in that logs."""
    plugin = folder / "chatty" / "chatty-1.0"
    plugin.mkdir(parents=True)
    (plugin / "chatty_source.py").write_text(CHATTY)
    (plugin / "entry_points.txt").write_text(
        "[spark_connect_rt.source_connectors]\nChatty = chatty_source:ChattySource\n"
    )
    return plugin.parent


def logged_lines(worker: SparkWorkerProcess, path: str) -> list[dict[str, Any]]:
    answer = worker.rest.request("GET", f"/admin/connectors/{path}")
    assert answer.status == 200, answer.body
    found: list[dict[str, Any]] = answer.json()["lines"]
    return found


def a_task_is_read_without_sparks_pages(worker: SparkWorkerProcess, flood: int) -> str:
    """Return what the task says of its flood of lines."""
    worker.rest.create(
        "chatty", {"connector.class": "ChattySource", "door.password": "hunter2hunter2", "flood": str(flood)}
    )

    def said(part: str) -> list[dict[str, Any]]:
        return [line for line in logged_lines(worker, "chatty/tasks/0/logs") if part in line["message"]]

    def all_said() -> bool:
        return bool(said("logged") and said("were dropped"))

    until(all_said, 150, "the task's lines", lambda: logged_lines(worker, "chatty/logs")[:5])
    found = logged_lines(worker, "chatty/tasks/0/logs")
    assert len(found) <= 1_000
    assert not [line for line in found if "hunter2hunter2" in line["message"]]
    (starts,) = said("starts with")
    assert starts["message"] == "starts with [hidden]"
    assert (starts["where"], starts["level"], starts["logger"], starts["task"]) == ("executor", "INFO", "chatty", 0)
    assert len(said("from a thread of its own")) == 1
    (first,) = said("the first poll")
    assert (first["level"], "ValueError: no such door" in first["message"]) == ("ERROR", True)
    dropped = sum(int(line["message"].split()[0]) for line in said("were dropped"))
    flooded = said("flood ")
    assert dropped + len(flooded) >= flood  # other lines of its library's may be among those
    of_connector = logged_lines(worker, "chatty/logs?level=INFO")
    makes = [line for line in of_connector if line["message"] == "connector=chatty makes its tasks"]
    assert [(make["where"], make["task"]) for make in makes][:1] == [("driver", None)]
    assert worker.rest.request("GET", "/admin/connectors/none/logs").status == 404
    worker.rest.delete("chatty")
    the_groups_story_has_it(worker)
    assert logged_lines(worker, "chatty/tasks/0/logs")  # for a while
    (said_of_flood,) = [line["message"] for line in found if line["message"].startswith("logged")]
    return str(said_of_flood)


def the_groups_story_has_it(worker: SparkWorkerProcess) -> None:
    """What happened to the connector are events, without its secret; so are the rebalances that its tasks made."""

    def events(query: str) -> list[dict[str, Any]]:
        answer = worker.rest.request("GET", f"/admin/events?{query}")
        assert answer.status == 200, answer.body
        assert b"hunter2hunter2" not in answer.body
        found: list[dict[str, Any]] = answer.json()["events"]
        return found

    def deleted() -> bool:
        return any(
            event["summary"] == "connector chatty is deleted" for event in events("connector=chatty&kind=config")
        )

    until(deleted, 30, "the connector's end is an event", lambda: events("connector=chatty"))
    summaries = [event["summary"] for event in events("connector=chatty&kind=config,state&limit=2000")]
    assert {"connector chatty is created", "connector chatty is RUNNING", "task chatty-0 is RUNNING"} <= set(summaries)
    moved = [item for event in events("kind=rebalance&connector=chatty") for item in event["details"]["moved"]]
    assert {(it["connector"], it["task"]) for it in moved} >= {("chatty", None), ("chatty", 0)}
    first = events("kind=rebalance&limit=2000")[-1]
    assert first["details"]["joined"] == first["details"]["members"] == [first["worker_id"]]
    assert 0 < first["details"]["took_ms"] < 600_000
    assert any("starts, version" in event["summary"] for event in events("kind=worker"))
