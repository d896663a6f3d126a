"""A web service's items through four connectors, with bad input: HttpSource, KafkaSource, KafkaSink and HttpSink."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

import orjson
from confluent_kafka import Producer
from starlette.responses import Response

from spark_connect_rt.connectors.topics.kafka_settings import BYTES
from tests.integration.http_service import Asked, HttpService
from tests.support.connect_rest import ConnectRest
from tests.support.numbered_lines import create_topics
from tests.topics import count_records, read_records

PAGE = 10
REFUSED = 7
NO_JSON = b"\xff{"
JSON = {
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}
PLAIN = {f"{side}.converter": BYTES for side in ("key", "value", "header")}
TOLERANT = {
    "errors.tolerance": "all",
    "errors.deadletterqueue.topic.replication.factor": "1",
    "errors.deadletterqueue.context.headers.enable": "true",
}


@dataclass
class Items:
    """Answers ``GET /items?since=n`` with the items behind n, now and then with an error or what is no JSON."""

    count: int
    bad: Callable[[int], Response | None]  # number of the request -> instead of an answer
    numbers: itertools.count[int] = field(default_factory=itertools.count)

    def __call__(self, asked: Asked) -> Response:
        if (instead := self.bad(next(self.numbers))) is not None:
            return instead
        since = int(asked.query["since"])
        items = [{"id": n, "word": f"word {n}"} for n in range(since + 1, min(self.count, since + PAGE) + 1)]
        return Response(orjson.dumps({"items": items}), media_type="application/json")


@dataclass
class Inbox:
    """Takes every item but REFUSED; asks for patience now and then."""

    taken: list[int] = field(default_factory=list)
    numbers: itertools.count[int] = field(default_factory=itertools.count)

    def __call__(self, asked: Asked) -> Response:
        if next(self.numbers) % 20 == 3:
            return Response(status_code=503)
        number = orjson.loads(asked.body)["id"]
        if number == REFUSED:
            return Response("seven is no number", status_code=422)
        self.taken.append(number)
        return Response(status_code=204)


class FourConnectors:
    """The connectors of one group, named ``<group>-...`` as are their topics."""

    def __init__(self, group: str, bootstrap_servers: str, items: HttpService, inbox: HttpService) -> None:
        self.group, self._servers = group, bootstrap_servers
        self._items, self._inbox = items, inbox
        self.read, self.copied, self.sunk = (f"{group}-{name}" for name in ("read", "copied", "sunk"))
        self.dead_items, self.dead_records = f"{group}-dead-items", f"{group}-dead-records"
        create_topics(bootstrap_servers, [self.read, self.copied, self.sunk])

    def configs(self) -> dict[str, dict[str, str]]:
        """Return the connectors' configurations by name."""
        patient = {"http.retry.backoff.ms": "20", "http.retry.backoff.max.ms": "200"}
        return {
            f"{self.group}-http-source": {
                "connector.class": "HttpSource",
                "topic": self.read,
                "http.url": f"{self._items.url}/items",
                "http.params": '{"since": "${offset.since}"}',
                "http.records.pointer": "/items",
                "http.key.pointer": "/id",
                "http.offset.fields": '{"since": "/id"}',
                "http.offset.initial": '{"since": "0"}',
                "http.poll.interval.ms": "100",
                "errors.deadletterqueue.topic.name": self.dead_items,
                **patient,
                **JSON,
                **TOLERANT,
            },
            f"{self.group}-kafka-source": {
                "connector.class": "KafkaSource",
                "source.bootstrap.servers": self._servers,
                "topics": self.read,
                "topic.format": self.copied,
                **PLAIN,
            },
            f"{self.group}-kafka-sink": {
                "connector.class": "KafkaSink",
                "target.bootstrap.servers": self._servers,
                "topics": self.copied,
                "topic.format": self.sunk,
                **PLAIN,
            },
            f"{self.group}-http-sink": {
                "connector.class": "HttpSink",
                "topics": self.copied,
                "http.url": f"{self._inbox.url}/in",
                "errors.deadletterqueue.topic.name": self.dead_records,
                **patient,
                **JSON,
                **TOLERANT,
            },
        }

    def create(self, rest: ConnectRest) -> None:
        """Create all four."""
        for name, config in self.configs().items():
            rest.create(name, config)

    def add_what_is_no_json(self) -> None:
        """Put a record among the copied ones that the HTTP sink's converter cannot read."""
        producer = Producer({"bootstrap.servers": self._servers, "enable.idempotence": True})
        producer.produce(self.copied, NO_JSON, key=b"odd")
        assert producer.flush(30) == 0

    def numbers(self, topic: str) -> list[int]:
        """Return the items in a topic."""
        values = [record.value() for record in self._records(topic)]
        return [orjson.loads(value)["id"] for value in values if value != NO_JSON]

    def values(self, topic: str) -> list[bytes | None]:
        """Return the values in a topic."""
        return [record.value() for record in self._records(topic)]

    def stages(self, topic: str) -> list[bytes]:
        """Return at which stage each dead letter of a queue died."""
        return [dict(record.headers() or [])["__connect.errors.stage"] for record in self._records(topic)]

    def _records(self, topic: str) -> list[object]:
        return read_records(self._servers, topic, count_records(self._servers, topic))
