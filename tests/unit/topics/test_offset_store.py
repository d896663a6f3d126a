import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from spark_connect_rt.base.concurrency import MachineThreads, Timer
from spark_connect_rt.errors import ConnectError, DataError, RetriableError, TimedOutError
from spark_connect_rt.testing.memory_compacted_log import MemoryCompactedLog, MemoryLogTopic
from spark_connect_rt.topics.compacted_log import LogRecord, OnAppended, OnRecords
from spark_connect_rt.topics.offset_records import OffsetFold
from spark_connect_rt.topics.offset_store import OffsetStore

FILE = {"filename": "data.txt"}
KEY = b'["c",{"filename":"data.txt"}]'


class Fixture:
    def __init__(self) -> None:
        self.topic = MemoryLogTopic("offsets", partitions=3)
        self.store = OffsetStore(MemoryCompactedLog(self.topic, threaded=False))
        self.store.start()

    def values(self) -> list[bytes | None]:
        return [record.value for record in self.topic.records()]


@pytest.fixture
def it() -> Iterator[Fixture]:
    fixture = Fixture()
    yield fixture
    fixture.store.stop()


class HeldLog:
    """A log whose appends are answered, and whose records come back, only when the test says so."""

    def __init__(self) -> None:
        self.appends: list[tuple[Sequence[tuple[bytes, bytes | None]], OnAppended]] = []
        self.on_records: OnRecords | None = None
        self.answered = 0
        self.reads = 0
        self.loading = False

    def start(self, on_records: OnRecords) -> None:
        self.on_records = on_records

    def append(self, records: Sequence[tuple[bytes, bytes | None]], on_appended: OnAppended | None = None) -> None:
        assert on_appended is not None
        self.appends.append((list(records), on_appended))

    def answer(self, error: Exception | None = None) -> None:
        _, on_appended = self.appends[self.answered]
        self.answered += 1
        on_appended(error)

    def deliver(self, append: int) -> None:
        assert self.on_records is not None
        records = self.appends[append][0]
        self.on_records([LogRecord(0, 0, key, value) for key, value in records])

    def flush(self, timeout_ms: int) -> None: ...

    def read_to_end(self, timeout_ms: int) -> None:
        self.reads += 1
        if self.loading:
            raise TimedOutError("still loading")

    def stop(self) -> None: ...


@pytest.fixture
def held() -> HeldLog:
    return HeldLog()


@pytest.fixture
def store(held: HeldLog) -> OffsetStore:
    store = OffsetStore(held)
    store.start()
    return store


def test_stored_offset_is_read(it: Fixture) -> None:
    done: list[Exception | None] = []
    it.store.put("c", [(FILE, {"position": 3})], done.append)
    assert done == [None]
    assert it.store.read("c", [FILE, {"filename": "other"}]) == [{"position": 3}, None]
    assert it.topic.records()[0].key == KEY
    assert it.store.connector_offsets("c") == [(FILE, {"position": 3})]


def test_an_offset_written_by_java_is_found_and_written_under_its_key(it: Fixture) -> None:
    java_key = b'["c",{"b":1,"a":"x"}]'
    it.topic.write([(java_key, b'{"p":1}')])
    assert it.store.read("c", [{"a": "x", "b": 1}]) == [{"p": 1}]
    it.store.put("c", [({"a": "x", "b": 1}, {"p": 2})])
    assert it.topic.records()[-1].key == java_key


def test_nothing_is_written_when_nothing_changed(it: Fixture) -> None:
    it.store.put("c", [(FILE, {"position": 3})])
    it.store.read("c", [FILE])
    done: list[Exception | None] = []
    it.store.put("c", [(FILE, {"position": 3})], done.append)
    it.store.put("c", [({"filename": "unknown"}, None)], done.append)
    it.store.put("c", [], done.append)
    assert done == [None, None, None]
    assert it.values() == [b'{"position":3}']


def test_a_none_offset_forgets_the_partition(it: Fixture) -> None:
    it.store.put("c", [(FILE, {"position": 3})])
    it.store.put("c", [(FILE, None)])
    assert it.store.read("c", [FILE]) == [None]
    assert it.values() == [b'{"position":3}', None]


def test_bad_types_are_refused_before_anything_is_written(it: Fixture) -> None:
    with pytest.raises(DataError):
        it.store.put("c", [(FILE, {"position": 3}), (FILE, {"position": [1]})])
    with pytest.raises(DataError):
        it.store.put("c", [({1: 2}, {"position": 3})])
    assert it.values() == []


def test_offsets_put_during_an_append_leave_together_with_the_newest_of_each(held: HeldLog, store: OffsetStore) -> None:
    done: list[str] = []
    for position in range(4):
        store.put("c", [(FILE, {"position": position})], lambda error, p=position: done.append(f"{p}{error}"))
    store.put("c", [({"filename": "b"}, {"position": 0})])
    assert len(held.appends) == 1
    held.answer()
    assert done == ["0None"]
    assert len(held.appends) == 2
    assert held.appends[1][0] == [
        (KEY, b'{"position":3}'),
        (b'["c",{"filename":"b"}]', b'{"position":0}'),
    ]
    held.answer()
    assert done == ["0None", "1None", "2None", "3None"]
    assert len(held.appends) == 2


def test_an_equal_offset_in_flight_is_waited_for_not_written_again(held: HeldLog, store: OffsetStore) -> None:
    done: list[Exception | None] = []
    store.put("c", [(FILE, {"position": 1})])
    store.put("c", [(FILE, {"position": 1})], done.append)
    assert done == []
    held.answer()
    assert done == [None]
    assert len(held.appends) == 1


def test_going_back_to_what_the_topic_held_before_is_written(held: HeldLog, store: OffsetStore) -> None:
    store.put("c", [(FILE, {"position": 1})])
    held.answer()
    held.deliver(0)
    store.put("c", [(FILE, {"position": 2})])
    held.answer()  # durable, but not read back yet: the fold still has 1
    store.put("c", [(FILE, {"position": 1})])
    assert len(held.appends) == 3


def test_record_read_before_its_answer_is_known(held: HeldLog, store: OffsetStore) -> None:
    store.put("c", [(FILE, {"position": 1})])
    held.deliver(0)
    held.answer()
    assert held.on_records is not None
    held.on_records([LogRecord(0, 1, KEY, b'{"position":9}')])  # another worker owned it for a while
    store.put("c", [(FILE, {"position": 1})])
    assert len(held.appends) == 2


def test_a_failed_append_is_reported_and_retried_beneath_newer_ones(held: HeldLog, store: OffsetStore) -> None:
    done: list[str | None] = []
    other = {"filename": "b"}
    store.put("c", [(FILE, {"position": 1}), (other, {"position": 1})], lambda e: done.append(str(e)))
    store.put("c", [(FILE, {"position": 2})])
    held.answer(RetriableError("no leader"))
    assert done == ["no leader"]
    store.put("c", [])
    assert len(held.appends) == 2
    assert dict(held.appends[1][0]) == {
        KEY: b'{"position":2}',
        b'["c",{"filename":"b"}]': b'{"position":1}',
    }


def test_after_a_failure_an_old_value_is_not_taken_for_unchanged(held: HeldLog, store: OffsetStore) -> None:
    store.put("c", [(FILE, {"position": 1})])
    held.answer()
    held.deliver(0)
    store.put("c", [(FILE, {"position": 2})])
    held.answer(RetriableError("timed out: it may have been written"))
    store.put("c", [(FILE, {"position": 1})])
    assert held.appends[-1][0] == [(KEY, b'{"position":1}')]
    assert len(held.appends) == 3


def test_flush_waits_with_a_limit(held: HeldLog, store: OffsetStore) -> None:
    store.flush(1)  # nothing to wait for
    store.put("c", [(FILE, {"position": 1})])
    with pytest.raises(TimedOutError):
        store.flush(1)


def test_flush_raises_what_went_wrong(it: Fixture) -> None:
    it.topic.fail_next_append(ConnectError("too large"))
    it.store.put("c", [(FILE, {"position": 1})])
    it.topic.fail_next_append(ConnectError("still too large"))
    with pytest.raises(RetriableError, match="still too large"):
        it.store.flush(1_000)
    it.store.flush(1_000)
    assert it.values() == [b'{"position":1}']


def test_after_the_stop_the_caller_gets_an_error(it: Fixture) -> None:
    it.store.stop()
    done: list[Exception | None] = []
    it.store.put("c", [(FILE, {"position": 1})], done.append)
    assert isinstance(done[0], ConnectError)


def test_unreadable_records_are_passed_over(it: Fixture) -> None:
    it.topic.write([(b"x", b"{}"), (KEY, b"[]"), (None, b"{}"), (KEY, b'{"position":7}')])
    assert it.store.read("c", [FILE]) == [{"position": 7}]


def test_the_first_poll_waits_for_the_topic_and_later_ones_do_not(held: HeldLog, store: OffsetStore) -> None:
    held.loading = True
    with pytest.raises(TimedOutError):
        store.connector_offsets("c")
    held.loading = False
    assert held.on_records is not None
    held.on_records([LogRecord(0, 0, KEY, b'{"position":9}')])
    for _ in range(3):
        assert store.connector_offsets("c") == [(FILE, {"position": 9})]
    assert held.reads == 2


class ManualThreads(MachineThreads):
    """Timers that run only when the test calls them."""

    def __init__(self) -> None:
        self.due: list[Callable[[], None]] = []

    def later(self, delay_ms: int, call: Callable[[], None]) -> Timer:
        assert delay_ms > 0
        self.due.append(call)
        return threading.Timer(0, call)  # never started: only cancelled

    def run_due(self) -> None:
        due, self.due = self.due, []
        for call in due:
            call()


def test_a_failed_append_is_tried_again_by_itself_while_it_is_wanted(held: HeldLog) -> None:
    threads, told = ManualThreads(), list[Exception | None]()
    store = OffsetStore(held, threads)
    store.start()
    store.put("c", [(FILE, {"position": 1})], told.append, until_durable=True)
    held.answer(RetriableError("a hiccup"))
    threads.run_due()
    held.answer(RetriableError("another"))
    assert (told, len(held.appends)) == ([], 2)  # still in flight: the run is not over (I5)
    threads.run_due()
    held.answer()
    assert [records for records, _ in held.appends] == [[(KEY, b'{"position":1}')]] * 3
    assert (told, threads.due) == ([None], [])


def test_failure_is_final_once_the_offsets_are_unwanted_or_waiting_does_not_help(held: HeldLog) -> None:
    threads, told, wanted = ManualThreads(), list[Exception | None](), [True]
    store = OffsetStore(held, threads)
    store.start()
    store.put("c", [(FILE, {"position": 1})], told.append, lambda: wanted[0], until_durable=True)
    wanted[0] = False
    passing, lasting = RetriableError("a hiccup"), DataError("too large")
    held.answer(passing)
    threads.run_due()
    assert (told, len(held.appends)) == ([passing], 1)
    store.put("c", [(FILE, {"position": 2})], told.append, until_durable=True)
    held.answer(lasting)
    assert (told, threads.due) == ([passing, lasting], [])


def test_offset_put_during_an_append_leaves_after_it_without_a_waiter(held: HeldLog, store: OffsetStore) -> None:
    store.put("c", [(FILE, {"position": 1})])
    store.put("c", [(FILE, {"position": 2})])
    held.answer()
    assert [records[0][1] for records, _ in held.appends] == [b'{"position":1}', b'{"position":2}']


def test_a_burst_is_waited_for_where_there_was_one_the_last_time(held: HeldLog) -> None:
    threads, told = ManualThreads(), list[Exception | None]()
    store = OffsetStore(held, threads)
    store.start()

    def burst(position: int, names: str) -> None:
        for name in names:
            store.put(name, [(FILE, {"position": position})], told.append)

    burst(1, "abc")
    assert [len(records) for records, _ in held.appends] == [1]  # the store could not know that more offsets follow
    held.answer()
    held.answer()
    burst(2, "abc")
    assert (len(held.appends), len(threads.due)) == (2, 1)
    threads.run_due()
    assert [len(records) for records, _ in held.appends] == [1, 2, 3]
    held.answer()
    burst(3, "a")
    threads.run_due()
    held.answer()
    burst(4, "a")
    assert (len(held.appends), threads.due) == (5, []), "one alone was no burst: the next goes at once"
    held.answer()
    assert told == [None] * 8


def test_a_flush_waits_for_no_burst(held: HeldLog) -> None:
    threads = ManualThreads()
    store = OffsetStore(held, threads)
    store.start()
    for position in (1, 2):  # the second one during the append of the first
        store.put("c", [(FILE, {"position": position})])
    held.answer()
    held.answer()
    store.put("c", [(FILE, {"position": 3})])
    assert (len(held.appends), len(threads.due)) == (2, 1)
    with pytest.raises(TimedOutError):
        store.flush(1)
    assert len(held.appends) == 3
    threads.run_due()
    assert len(held.appends) == 3


def test_a_record_that_breaks_the_fold_does_not_end_the_reader(it: Fixture, monkeypatch: pytest.MonkeyPatch) -> None:
    apply = OffsetFold.apply

    def broken(fold: OffsetFold, *record: Any) -> Any:
        if record[-1] == b"poison":
            raise OverflowError("cannot convert float infinity to integer")
        return apply(fold, *record)

    monkeypatch.setattr(OffsetFold, "apply", broken)
    it.topic.write([(b"any", b"poison")])
    it.topic.write([(KEY, b'{"position":7}')])
    assert it.store.read("c", [FILE]) == [{"position": 7}]
