"""A client's error that Python hides behind a SystemError is raised all the same."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from spark_connect_rt.kafka.client_factory import make_consumer, make_producer, unmasked

FENCED = KafkaException(KafkaError(KafkaError._FENCED))


class Client:
    """As CPython leaves it: a callback was called while the client's error was pending."""

    def flush(self, cause: BaseException | None) -> int:
        if cause is None:
            return 3
        raise SystemError("<class 'super'> returned a result with an exception set") from cause


def test_the_clients_error_is_raised_in_place_of_pythons() -> None:
    client: Any = unmasked(Client, "flush")()
    with pytest.raises(KafkaException) as raised:
        client.flush(FENCED)
    assert raised.value is FENCED
    assert client.flush(None) == 3


def test_other_system_errors_are_left_alone() -> None:
    client: Any = unmasked(Client, "flush")()
    with pytest.raises(SystemError):
        client.flush(ValueError("of the interpreter's own"))


def test_every_client_that_serves_callbacks_is_unmasked() -> None:
    servers = {"bootstrap.servers": "127.0.0.1:9"}
    producer = make_producer(servers, {})
    consumer = make_consumer({**servers, "group.id": "g"}, {})
    try:
        assert [hasattr(getattr(type(producer), name), "__wrapped__") for name in ("poll", "flush")] == [True, True]
        assert [hasattr(getattr(type(consumer), name), "__wrapped__") for name in ("poll", "consume")] == [True, True]
    finally:
        consumer.close()
