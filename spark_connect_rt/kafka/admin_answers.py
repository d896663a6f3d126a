"""Waiting for what an admin client of librdkafka answers, also while the broker it takes for the controller is away.

librdkafka believes its last controller for ever: while that broker is away and others run, a request waits for it until
its limit and connects some 650 times a second, at 0.7 of a core (2.16). Metadata names another.
"""

from __future__ import annotations

import contextlib
import random
import time
from concurrent.futures import Future
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from spark_connect_rt.backoff import Backoff

# An answer that takes longer has the client look which broker is the controller now, later twice as long each time.
LOOK_AGAIN_S = Backoff(first=0.25, longest=4.0)
GRACE_S = 5.0  # the client's own limit comes first


def answer_of(admin: Any, future: Future[Any], limit_s: float) -> Any:
    """Return what ``admin``, a client of the library, answers. Raises KafkaException; no answer is ``_TIMED_OUT``.

    Args:
        admin: the client that was asked.
        future: its answer.
        limit_s: the limit that the request was given.
    """
    end_s = time.monotonic() + limit_s + GRACE_S
    looks = 1
    while (left_s := end_s - time.monotonic()) > (wait_s := LOOK_AGAIN_S.wait(looks, random.random())):
        with contextlib.suppress(TimeoutError):
            return future.result(wait_s)
        with contextlib.suppress(KafkaException):
            admin.list_topics(topic=None, timeout=min(wait_s, left_s))
        looks += 1
    try:
        return future.result(max(0.0, left_s))
    except TimeoutError:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "no answer from the client")) from None
