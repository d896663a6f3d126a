"""Calls of a sink task in a JVM: what is served while one has not returned, and what ends it."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

import pytest

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.engine.java_host import sink_calls
from spark_connect_rt.engine.java_host.process import JavaHostGoneError
from spark_connect_rt.engine.java_host.sink_calls import CallWait, SinkCalls
from spark_connect_rt.engine.java_host.sink_task import JavaErrants
from spark_connect_rt.engine.java_host.wire import Frame, FromJava, ToJava
from spark_connect_rt.errors import ConnectError, JavaPluginError
from spark_connect_rt.records.pipeline.errant_records import FailedRecord, Stage

ERROR = {"class": "a.B", "message": "no", "trace": "a.B: no\n\tat c.D\n"}


def frame(kind: FromJava, head: Any = None, data: bytes = b"") -> Frame:
    return Frame(kind, 1, head, memoryview(data))


class Jvm:
    """A number of a JVM that says what it is given."""

    def __init__(self) -> None:
        self.said: list[tuple[ToJava, Any]] = []
        self.answers: dict[ToJava, list[Frame]] = {}
        self.released = self.killed = False
        self.calls: SinkCalls

    def send(self, kind: ToJava, head: Any = None, data: Sequence[Any] = ()) -> None:
        self.said.append((kind, head))
        for answer in self.answers.pop(kind, []):
            self.calls.on_frame(answer)

    def stacks(self, prefix: str, timeout_s: float) -> list[Any]:
        return [{"thread": prefix, "stack": ["x.Y.put(Y.java:7)"]}]

    def release(self) -> None:
        self.released = True

    def kill_jvm(self, reason: str) -> None:
        self.killed = True


class Story:
    def __init__(self) -> None:
        self.jvm = Jvm()
        self.errants: list[Frame] = []
        self.settled = 0
        self.ending = False
        waiting = CallWait(self.errants.append, self._settle, lambda: self.ending, lambda: self.ending, dict)
        self.jvm.calls = self.calls = SinkCalls(ConnectorTaskId("s", 0), waiting)
        self.jvm.answers[ToJava.START] = [frame(FromJava.STARTED, {"version": "1"})]
        assert self.calls.begin(self.jvm, {}) == {"version": "1"}  # type: ignore[arg-type]

    def _settle(self) -> None:
        self.settled += 1
        if self.settled == 3:
            self.calls.on_frame(frame(FromJava.DONE, {"late": True}))


@pytest.fixture
def story(monkeypatch: pytest.MonkeyPatch) -> Story:
    monkeypatch.setattr(sink_calls, "LOOK_EACH_S", 0.001)
    return Story()


def test_errant_records_are_served_before_the_answer_behind_them(story: Story) -> None:
    errant = frame(FromJava.ERRANT, {"number": 1})
    story.jvm.answers[ToJava.PUT] = [errant, frame(FromJava.DONE, {"records": 2})]
    assert story.calls.ask(ToJava.PUT) == {"records": 2}
    assert story.errants == [errant]


def test_a_call_that_takes_long_is_shown_and_a_task_that_ends_is_hurried_once(
    story: Story, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sink_calls, "SHOW_AFTER_HURRIED_S", 0.0)
    story.ending = True
    assert story.calls.ask(ToJava.PUT) == {"late": True}
    assert story.jvm.said[1:] == [(ToJava.PUT, None), (ToJava.HURRY, True)]
    assert "PUT has not returned" in caplog.text
    assert "x.Y.put(Y.java:7)" in caplog.text


def test_the_answer_of_a_call_that_was_given_up_on_is_no_other_calls(story: Story) -> None:
    def refuse(_: Frame) -> None:
        raise ConnectError("the queue does not take it")

    story.calls._waiting = CallWait(refuse, lambda: None, lambda: False, lambda: False, dict)
    story.jvm.answers[ToJava.PUT] = [frame(FromJava.ERRANT, {}), frame(FromJava.DONE, {"of": "put"})]
    with pytest.raises(ConnectError, match="does not take it"):
        story.calls.ask(ToJava.PUT)
    story.jvm.answers[ToJava.CLOSE] = [frame(FromJava.DONE, {"of": "close"})]
    assert story.calls.ask(ToJava.CLOSE) == {"of": "close"}


def test_a_task_that_is_over_answers_no_call(story: Story) -> None:
    story.jvm.answers[ToJava.PUT] = [frame(FromJava.FAILED, ERROR), frame(FromJava.ENDED)]
    with pytest.raises(JavaPluginError, match=r"a.B: no\n\tat c.D"):
        story.calls.ask(ToJava.PUT)
    for _ in range(2):
        with pytest.raises(JavaHostGoneError):
            story.calls.ask(ToJava.SAFE)
    story.calls.end()
    assert story.jvm.released


def test_a_jvm_that_is_gone_answers_no_call(story: Story) -> None:
    story.calls.on_gone("exit code -9")
    for _ in range(2):
        with pytest.raises(JavaHostGoneError, match="exit code -9"):
            story.calls.ask(ToJava.PUT)


def test_abandoned_call_kills_the_jvm(story: Story) -> None:
    story.calls.give_up()
    with pytest.raises(JavaHostGoneError, match="the slice is over"):
        story.calls.ask(ToJava.PUT)
    assert story.jvm.killed


class Reports:
    """Takes errant records; says what it is given to say about their letters."""

    def __init__(self) -> None:
        self.errants: list[FailedRecord] = []
        self.durable: list[bool | ConnectError] = []

    def tell(self, errants: Sequence[FailedRecord], *, by_task: bool) -> Future[None]:
        assert by_task is (errants[0].stage is Stage.TASK_PUT)
        self.errants += errants
        return Future()

    def flush(self, timeout_ms: int) -> bool:
        answer = self.durable.pop(0)
        if isinstance(answer, ConnectError):
            raise answer
        return answer


def errant(number: int, stage: str) -> Frame:
    head = {
        "number": number,
        "topic": "t",
        "partition": 1,
        "offset": 7,
        "timestamp": None,
        "stage": stage,
        "executing_class": "a.Task",
        "error": ERROR,
        "key": -1,
        "value": 2,
        "headers": [["h", 1], ["none", -1]],
    }
    return frame(FromJava.ERRANT, head, b"vvh")


def test_an_errant_record_is_what_was_consumed_and_is_durable_when_its_letter_is() -> None:
    reports, said = Reports(), list[Any]()
    errants = JavaErrants(reports, said.append, 100)  # type: ignore[arg-type]
    errants.take(errant(1, "VALUE_CONVERTER"))
    errants.take(errant(2, "TASK_PUT"))
    assert (errants.skipped, errants.reported) == (1, 1)
    headers = [{"key": "h", "value": b"h"}, {"key": "none", "value": None}]
    assert reports.errants[1].record == ("t", 1, 7, None, None, b"vv", headers)
    assert (reports.errants[1].executing, str(reports.errants[1].error)) == ("a.Task", ERROR["trace"].rstrip())
    reports.durable = [False, True]
    errants.settle()
    assert said == []
    errants.settle()
    errants.settle()
    assert said == [{"to": 2}]


def test_a_letter_that_is_refused_fails_its_report() -> None:
    reports, said = Reports(), list[Any]()
    errants = JavaErrants(reports, said.append, 100)  # type: ignore[arg-type]
    errants.take(errant(1, "TASK_PUT"))
    reports.durable = [ConnectError("too large")]
    with pytest.raises(ConnectError, match="too large"):
        errants.settle()
    assert said == [{"to": 1, "error": "too large"}]
