"""Pages of dead letters of a real queue: order, cursors, filters, hostile content, topics that are none."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka
from spark_connect_rt.base.hidden_values import forget, remember
from spark_connect_rt.errors import BadRequestError, ForbiddenError, NotFoundError
from spark_connect_rt.kafka.admin import KafkaAdmin, TopicSpec
from spark_connect_rt.operations.dead_letters.browser import DeadLetterBrowser
from spark_connect_rt.operations.dead_letters.letter import LetterForms
from spark_connect_rt.operations.dead_letters.letter_topics import QUEUE, DeadLetterTopics, LetterTopics
from spark_connect_rt.operations.dead_letters.model import LetterPage, LetterQuery
from spark_connect_rt.plugins.bundled_plugins import bundled_plugins
from tests.integration.kafka.dead_letter_worker import Views

HOSTILE = "<img src=x onerror=alert(1)>\u202e\u0000"


class Letters:
    """A queue, and what shows it."""

    def __init__(self, kafka: EmbeddedKafka) -> None:
        self.topic = f"dead-{uuid.uuid4().hex[:8]}"
        servers = {"bootstrap.servers": kafka.bootstrap_servers}
        self._producer = Producer(servers)
        self.admin = KafkaAdmin(servers)
        self.admin.create_topic(TopicSpec(self.topic, 3, 1, {"retention.ms": "-1"}))
        json = {"value.converter": "JsonConverter", "value.converter.schemas.enable": "false"}
        configs = {
            "orders": {"name": "orders", QUEUE: self.topic, **json},
            "other": {"name": "other", QUEUE: self.topic},
            "none": {"name": "none"},
            "afar": {"name": "afar", QUEUE: "x", "producer.override.bootstrap.servers": "elsewhere:1"},
        }
        worker = {f"{kind}.converter": "StringConverter" for kind in ("key", "value")}
        views: Any = Views(configs)
        queues = DeadLetterTopics(views, dict, ["connect-configs"])
        worker["header.converter"] = "SimpleHeaderConverter"
        forms = LetterForms(queues.config_of, worker, bundled_plugins().class_of)
        self.desk = DeadLetterBrowser(
            queues, LetterTopics(self.admin, servers | {"auto.offset.reset": "earliest"}), forms
        )

    def put(self, number: int, value: bytes, connector: str = "orders", **more: str) -> None:
        place = {"topic": "lines", "partition": "0", "offset": str(number)}
        errors = {**place, "connector.name": connector, "task.id": "0", "stage": "VALUE_CONVERTER", **more}
        headers = [(f"__connect.errors.{name}", text.encode()) for name, text in errors.items()]
        self._producer.produce(
            self.topic, value, b"k%d" % number, number % 3, timestamp=1_000 + number, headers=[("h", b"7"), *headers]
        )

    def written(self) -> None:
        assert self._producer.flush(20) == 0

    def page(self, connector: str | None = "orders", **more: Any) -> LetterPage:
        return self.desk.page(LetterQuery(connector, **more))


@pytest.fixture
def letters(broker: EmbeddedKafka) -> Iterator[Letters]:
    made = Letters(broker)
    yield made
    made.admin.close()


def offsets(page: LetterPage) -> list[int | None]:
    return [letter.origin.offset for letter in page.letters]


def test_pages_go_by_time_over_all_partitions_and_every_letter_is_on_one(letters: Letters) -> None:
    assert (letters.page().letters, letters.page("none").topic) == ([], None)
    for number in range(250):
        letters.put(number, b'{"id":%d}' % number, stage="TASK_PUT" if number % 50 == 49 else "VALUE_CONVERTER")
    letters.put(250, b"{}", "other")
    letters.written()
    seen: list[int | None] = []
    cursor = None
    while True:
        page = letters.page(after=cursor, limit=100)
        seen += offsets(page)
        cursor = page.next
        if cursor is None:
            break
        assert len(page.letters) == 100
    assert seen == list(range(250))
    rare = letters.page(filter={"stage": "TASK_PUT", "from_ms": 1_060}, limit=2)
    assert (offsets(rare), rare.letters[0].value) == ([99, 149], {"json": {"id": 99}})
    assert offsets(letters.page(filter={"stage": "TASK_PUT"}, after=rare.next)) == [199, 249]
    assert offsets(letters.page(filter={"partition": "1", "to_ms": 1_006})) == [1, 4]
    assert offsets(letters.page(None, topic=letters.topic, filter={"from_ms": 1_250})) == [250]
    with pytest.raises(BadRequestError, match="cursor"):
        letters.page(after="x")


def test_hostile_letters_are_shown_and_secrets_are_not(letters: Letters) -> None:
    try:
        remember(["open sesame"])
        letters.put(0, b"{broken", **{"exception.message": f"{HOSTILE} open sesame", "task.id": "9" * 40})
        letters.put(1, b"\xff" * 900_000)
        letters.put(2, HOSTILE.encode())
        letters.written()
        broken, large, hostile = letters.page().letters
    finally:
        forget()
    assert (broken.message, broken.task) == (f"{HOSTILE} [hidden]", None)
    assert broken.value is not None
    assert broken.value["text"] == "{broken"
    assert broken.value["error"]
    assert (broken.key, broken.headers[0].value) == ({"json": "k0"}, {"json": 7})
    assert large.value is not None
    assert (large.value["cut"], len(large.value["base64"])) == (900_000, 87_384)
    assert hostile.value is not None
    assert "base64" in hostile.value


def test_only_dead_letters_are_shown(letters: Letters, broker: EmbeddedKafka) -> None:
    servers = {"bootstrap.servers": broker.bootstrap_servers}
    plain = f"plain-{uuid.uuid4().hex[:8]}"
    producer = Producer(servers)
    producer.produce(plain, b"secret")
    producer.produce(plain, b"letter", headers=[("__connect.errors.topic", b"lines")])
    assert producer.flush(20) == 0
    page = letters.page(None, topic=plain)
    assert ([letter.value for letter in page.letters], page.scanned) == ([{"text": "letter"}], 2)
    for topic in ("connect-configs", "__consumer_offsets"):
        with pytest.raises(ForbiddenError):
            letters.page(None, topic=topic)
    with pytest.raises(BadRequestError):
        letters.page(None)
    with pytest.raises(BadRequestError, match="another cluster"):
        letters.page("afar")
    with pytest.raises(NotFoundError):
        letters.page("unknown")
    with pytest.raises(BadRequestError):
        letters.page(None, topic="a\nb")
