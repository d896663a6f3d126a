"""I7: offsets that were put while the work was ours never reach the topic once it may be another worker's."""

from __future__ import annotations

from spark_connect_rt.errors import FencedError, RetriableError
from spark_connect_rt.testing.memory_compacted_log import MemoryCompactedLog, MemoryLogTopic
from spark_connect_rt.topics.offset_store import OffsetStore

PARTITION = {"task": "a-0"}


def started(may_write: bool = True) -> tuple[OffsetStore, MemoryLogTopic, list[bool]]:
    topic, contact = MemoryLogTopic("offsets"), [may_write]
    store = OffsetStore(MemoryCompactedLog(topic, threaded=False), may_write=lambda: contact[0])
    store.start()
    return store, topic, contact


def test_i7_nothing_is_appended_without_contact_and_the_caller_gets_the_reason() -> None:
    store, topic, contact = started(may_write=False)
    answers: list[Exception | None] = []
    store.put("a", [(PARTITION, {"position": 1})], answers.append)
    assert [type(answer) for answer in answers] == [FencedError]
    contact[0] = True
    store.flush(1_000)
    assert topic.records() == []


def test_i7_what_failed_before_the_contact_was_lost_is_not_tried_again_after_it() -> None:
    store, topic, _ = started()
    topic.fail_next_append(RetriableError("refused"))
    store.put("a", [(PARTITION, {"position": 1})])
    store.give_up()
    store.put("a", [({"task": "a-1"}, {"position": 7})])
    assert [record.key for record in topic.records()] == [b'["a",{"task":"a-1"}]']


def test_i7_what_failed_is_not_tried_again_for_a_task_that_is_over() -> None:
    store, topic, _ = started()
    lives = [True]
    topic.fail_next_append(RetriableError("refused"))
    store.put("a", [(PARTITION, {"position": 1})], is_wanted=lambda: lives[0])
    lives[0] = False
    store.put("a", [({"task": "a-1"}, {"position": 7})])
    store.flush(1_000)
    assert [record.key for record in topic.records()] == [b'["a",{"task":"a-1"}]']
