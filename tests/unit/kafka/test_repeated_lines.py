"""A library that says the same thing again and again says it once in a while."""

from __future__ import annotations

import logging

from spark_connect_rt.kafka.client_factory import MOST, RepeatedLogFilter


def test_alike_lines_pass_once_in_a_while_and_are_counted() -> None:
    now = [0.0]
    lines = RepeatedLogFilter(each_s=30, clock_s=lambda: now[0])

    def said(text: str) -> str | None:
        record = logging.LogRecord("x", logging.ERROR, "", 0, "%s", (text,), None)
        return record.getMessage() if lines.filter(record) else None

    assert said("refused (after 0ms)") == "refused (after 0ms)"
    assert said("another") == "another"
    for second in range(1, 30):
        now[0] = second
        assert said(f"refused (after {second}ms)") is None
    now[0] = 30
    assert said("refused (after 30ms)") == "refused (after 30ms) (and 29 more like it since the last one)"
    now[0] = 61
    assert said("refused (after 1ms)") == "refused (after 1ms)"
    for number in range(MOST):
        said(f"line {chr(0x4E00 + number)}")
    assert said("refused (after 2ms)") == "refused (after 2ms)"  # forgotten: bounded
