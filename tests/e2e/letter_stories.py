"""Dead letters of a running file sink: looked at over REST, edited, and replayed straight into the sink."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka
from tests.e2e.commands import until
from tests.support.connect_rest import ConnectRest

NAME, LINES, QUEUE = "letters-out", "letters-in", "letters-dead"
CAST = "org.apache.kafka.connect.transforms.Cast$Value"
PATH = "/admin/dead-letters"


def replayed(rest: ConnectRest, **wanted: Any) -> dict[str, Any]:
    """Replay into the sink, and return the replay when it is over."""
    answer = rest.request("POST", f"{PATH}/replays", {"connector": NAME, "target": "sink", **wanted})
    assert answer.status == 201, answer.body

    def now() -> dict[str, Any]:
        found: dict[str, Any] = rest.request("GET", f"{PATH}/replays/{answer.json()['id']}").json()
        return found

    until(lambda: now()["state"] != "running", 90, "the replay ends", now)
    return now()


def letters_reach_a_sink(rest: ConnectRest, broker: EmbeddedKafka, folder: Path) -> None:
    """One that no converter reads is mended on its way; one that a transformation refuses is refused again."""
    target = folder / "letters.txt"
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for value, id_after in (('{"id":"1"}', "1"), ("{broken", "3"), ('{"id":"x"}', "y"), ('{"id":"2"}', "2")):
        producer.produce(LINES, value, headers=[("after", f'{{"id":"{id_after}"}}')])
    assert producer.flush(20) == 0
    config = {
        "connector.class": "FileStreamSink",
        "file": str(target),
        "topics": LINES,
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        "transforms": "cast",
        "transforms.cast.type": CAST,
        "transforms.cast.spec": "id:int32",
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": QUEUE,
        "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true",
    }
    rest.create(NAME, config)

    def lines() -> list[str]:
        return target.read_text().splitlines() if target.exists() else []

    def letters(**more: str) -> list[dict[str, Any]]:
        query = "".join(f"&{name}={value}" for name, value in more.items())
        found: list[dict[str, Any]] = rest.request("GET", f"{PATH}?connector={NAME}{query}").json()["letters"]
        return found

    until(lambda: (lines(), len(letters())) == (["{id=1}", "{id=2}"], 2), 90, "two lines, two letters", lines)
    broken, refused = letters()
    assert (broken["stage"], broken["value"]["text"]) == ("VALUE_CONVERTER", "{broken")
    assert (refused["stage"], refused["value"]) == ("TRANSFORMATION", {"json": {"id": "x"}})

    patch = [{"op": "copy", "from": "/headers/0/value", "path": "/value"}]
    ended = replayed(rest, edit={"patch": patch})
    counts = tuple(ended[name] for name in ("state", "matched", "done", "failed"))
    assert counts == ("done", 2, 1, 1), ended
    assert "TRANSFORMATION" in ended["failures"][0]["error"]
    assert [letter["offset"] for letter in letters(replayed="true")] == [broken["offset"]]
    assert (lines(), len(letters())) == (["{id=1}", "{id=2}", "{id=3}"], 2)

    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    until(
        lambda: not [topic for topic in admin.list_topics(timeout=10).topics if topic.startswith(f"{QUEUE}-replay-")],
        20,
        "its topics go",
    )
    assert rest.request("GET", "/connectors").json() == [NAME]
    rest.delete(NAME)
