"""Reads the records that are available now.

``Consumer.consume`` itself waits for the whole number or the whole time.
"""

from __future__ import annotations

from typing import Any

from confluent_kafka import Consumer


def consumed(consumer: Consumer, most: int, wait_s: float) -> list[Any]:
    """Return up to ``most`` messages, waiting for the first alone; none after ``wait_s``."""
    first = consumer.poll(wait_s)
    return [] if first is None else [first, *consumer.consume(most - 1, 0)]
