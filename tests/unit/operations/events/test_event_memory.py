"""The events of one worker: bounded, without secrets, and never an error for who records them."""

from __future__ import annotations

from spark_connect_rt.base import hidden_values
from spark_connect_rt.base.concurrency import SystemClock
from spark_connect_rt.operations.events.memory import BYTES_PER_KIND, EVENTS_PER_KIND, EventMemory


def test_one_kind_does_not_push_out_another() -> None:
    memory = EventMemory(SystemClock(), "w:1")
    memory("rebalance", "generation 1")
    for number in range(EVENTS_PER_KIND + 500):
        memory("state", f"task {number} is RUNNING")
    kept = memory.events()
    assert len(kept) == EVENTS_PER_KIND + 1
    assert [event.summary for event in kept if event.kind == "rebalance"] == ["generation 1"]
    assert kept[-1].summary == f"task {EVENTS_PER_KIND + 499} is RUNNING"


def test_bytes_are_bounded_too_and_no_event_outweighs_all_others() -> None:
    memory = EventMemory(SystemClock(), "w:1")
    for _ in range(300):
        memory("failure", "x" * 10_000_000 if _ == 7 else "x", details={"trace": "y" * 15_000})
    assert sum(len(event.details["trace"]) for event in memory.events()) <= BYTES_PER_KIND
    memory("failure", "big", details={"trace": "y" * 10_000_000})
    assert "left_out" in memory.events()[-1].details


def test_secrets_are_hidden_in_summary_and_details_and_lines_are_one() -> None:
    hidden_values.remember(['pass"word\\1'])
    try:
        memory = EventMemory(SystemClock(), "w:1")
        memory("config", 'a\nb pass"word\\1', details={"a": ['x pass"word\\1'], "b": {"c": 'pass"word\\1'}})
        (event,) = memory.events()
        assert event.summary == "a b [hidden]"
        assert event.details == {"a": ["x [hidden]"], "b": {"c": "[hidden]"}}
    finally:
        hidden_values.forget()


def test_unshowable_event_is_dropped_without_an_error() -> None:
    memory = EventMemory(SystemClock(), "w:1")
    memory("config", "odd", details={"a": object()})
    memory("config", "half a pair \ud800", details={"a": "\ud800"})
    assert [event.summary for event in memory.events()] == ["half a pair \\ud800"]


def test_an_id_is_the_same_each_time_and_differs_between_processes() -> None:
    memory, again = EventMemory(SystemClock(), "w:1"), EventMemory(SystemClock(), "w:1")
    for event_memory in (memory, again):
        event_memory("worker", "starts")
        event_memory("config", "a is created", key="config-7")
    assert memory.events() == memory.events()
    assert {event.id for event in memory.events()} & {event.id for event in again.events()} == {"config-7"}


def test_events_after_a_number_come_in_order_and_in_parts() -> None:
    memory = EventMemory(SystemClock(), "w:1")
    for number in range(10):
        memory("state" if number % 2 else "worker", str(number))
    number, newest = memory.after(0, 4)
    assert ([event.summary for event in newest], number) == (["6", "7", "8", "9"], 10)
    number, rest = memory.after(3, 4)
    assert ([event.summary for event in rest], number) == (["3", "4", "5", "6"], 7)
    assert memory.after(10, 4) == (10, [])


def test_author_of_an_event_is_known_before_or_after_it_and_is_news() -> None:
    memory = EventMemory(SystemClock(), "w:1")
    memory.name_client("config-7", "ada@h\nx")
    memory("config", "a is created", key="config-7")
    memory("config", "a is configured again", key="config-8")
    memory("config", "a is deleted", key="config-9")
    number = memory.last_number()
    memory.name_client("config-8", "bob@h")
    assert [(event.id, event.who) for event in memory.events()] == [
        ("config-7", "ada@h x"),
        ("config-9", None),
        ("config-8", "bob@h"),
    ]
    assert [event.id for event in memory.after(number, 10)[1]] == ["config-8"]
    for unknown in range(10_000):
        memory.name_client(f"config-{unknown + 100}", "eve@h")
    assert len(memory.events()) == 3
