"""The leader's answer when members say things it cannot use."""

from __future__ import annotations

from spark_connect_rt.group.assignor import AssignorMemory
from spark_connect_rt.group.member import AssignmentRequired
from spark_connect_rt.group.subprotocol import (
    CONFIG_MISMATCH,
    ConnectProtocol,
    WorkerMetadata,
    decode_assignment,
    encode_metadata,
)
from spark_connect_rt.runtime.herder.steps.assigning import LeaderAssignment, assign_work
from spark_connect_rt.topics import config_records as records
from spark_connect_rt.topics.config_state import ClusterConfigState, ConfigFold

SESSIONED = ConnectProtocol.SESSIONED


def snapshot(*connectors: str) -> ClusterConfigState:
    fold = ConfigFold()
    for offset, name in enumerate(connectors):
        fold.apply(offset, records.connector_key(name), records.encode_properties({"name": name}))
    return fold.snapshot()


def metadata(worker: str, offset: int) -> bytes:
    return encode_metadata(SESSIONED, WorkerMetadata(f"http://{worker}/", offset))


def answer(
    members: dict[str, bytes], knows: ClusterConfigState, fresh: ClusterConfigState | None = None
) -> LeaderAssignment:
    return assign_work(
        AssignmentRequired(5, "sessioned", "w1", members),
        joined_with=knows,
        fresh=fresh or knows,
        memory=AssignorMemory(),
        last_completed_generation=-1,
        now_ms=0,
        max_delay_ms=300_000,
        lost_delay_ms=0,
    )


def test_a_member_that_sends_nonsense_gets_nothing_and_the_others_get_it_all() -> None:
    knows = snapshot("a", "b")
    told = answer({"w1": metadata("w1", 2), "w2": metadata("w2", 2), "bad": b"\x00\x02\x00\xffhttp"}, knows)
    assert told.blobs.keys() == {"w1", "w2", "bad"}
    nothing = decode_assignment(told.blobs["bad"])
    assert (nothing.error, nothing.connectors, nothing.tasks, nothing.revokes) == (0, (), (), False)
    assert (nothing.leader_id, nothing.leader_url, nothing.config_offset) == ("w1", "http://w1/", 2)
    dealt = [decode_assignment(told.blobs[member]).connectors for member in ("w1", "w2")]
    assert sorted(name for names in dealt for name in names) == ["a", "b"]
    assert "nothing for bad: group protocol blob of 8 bytes breaks at byte 4" in told.sentence


def test_a_leader_that_knows_less_than_a_member_refuses_to_assign() -> None:
    told = answer({"w1": metadata("w1", 1), "w2": metadata("w2", 2)}, snapshot("a"))
    assert {decode_assignment(blob).error for blob in told.blobs.values()} == {CONFIG_MISMATCH}
    assert {decode_assignment(blob).config_offset for blob in told.blobs.values()} == {2}
    assert "config topic is not read yet" in told.sentence


def test_a_stale_leader_assigns_from_what_it_has_read_meanwhile_and_says_so() -> None:
    told = answer({"w1": metadata("w1", 1), "w2": metadata("w2", 2)}, snapshot("a"), snapshot("a", "b", "c"))
    assert {decode_assignment(blob).config_offset for blob in told.blobs.values()} == {3}
    assert {n for blob in told.blobs.values() for n in decode_assignment(blob).connectors} == {"a", "b", "c"}


def test_a_group_too_large_for_one_broker_record_is_reported() -> None:
    knows = snapshot(*(f"{n:05d}-{'x' * 240}" for n in range(5_000)))
    told = answer({"w1": metadata("w1", 5_000)}, knows)
    assert f"one record of {len(told.blobs['w1']) + len(metadata('w1', 5_000))} bytes" in told.sentence
    assert "message.max.bytes" in told.sentence
    assert "message.max.bytes" not in answer({"w1": metadata("w1", 1)}, snapshot("a")).sentence
