"""Parts of commits: their text, which of them may be committed, and whose turn it is."""

from __future__ import annotations

import pytest

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.connectors.lakehouse.commit_parts import (
    ChosenParts,
    CommitPart,
    CommitTurns,
    choose_parts,
    decode_part,
    encode_part,
    part_name,
    rank_of,
    rival_parts,
    writer_of,
)
from spark_connect_rt.connectors.lakehouse.guard import KEPT_COMMITS, is_surely_absent, stored_after
from spark_connect_rt.connectors.lakehouse.table_port import StoredOffset, WrittenRange
from spark_connect_rt.errors import DataError

PLACES = [TopicPartition("orders.eu-1", number) for number in range(4)]
NOW = 5


def part_of(
    part_id: str, *places: TopicPartition, expected: StoredOffset | None = None, table: str = "T"
) -> CommitPart:
    start = 0 if expected is None else expected.end
    ranges = {place: WrittenRange(expected, start, start + 10, "id", start + 2) for place in places}
    after = {place: stored_after(found, part_id, NOW) for place, found in ranges.items()}
    return CommitPart(part_id, table, ranges, after, ({"path": f"{part_id}.parquet", "rows": 8},))


def test_part_passes_through_its_text() -> None:
    stored = stored_after(WrittenRange(None, -1, 7), "before", NOW)
    for part in (part_of("a", *PLACES[:2], expected=stored), part_of("b", PLACES[3])):
        found = decode_part(encode_part(part), "name")
        assert found == CommitPart(part.part_id, "T", part.ranges, part.after, list(part.files))
        assert [at.commits for at in found.after.values()] == [at.commits for at in part.after.values()]


def test_torn_part_is_noticed_at_every_length() -> None:
    content = encode_part(part_of("a", *PLACES[:2]))
    for length in range(len(content)):
        with pytest.raises(DataError, match="not a part"):
            decode_part(content[:length], "name")


@pytest.mark.parametrize("content", [b"[]", b"{}", b"null", b'{"id": 1, "table": "T", "places": [{}], "files": []}'])
def test_foreign_file_is_not_taken_for_a_part(content: bytes) -> None:
    with pytest.raises(DataError, match="name: not a part"):
        decode_part(content, "name")


def test_parts_that_hold_are_accepted_together() -> None:
    stored = {place: StoredOffset(10, "id", ("x",)) for place in PLACES[:2]}
    parts = {
        "a": part_of("a", PLACES[0], expected=stored[PLACES[0]]),
        "b": part_of("b", PLACES[1]),  # made before the first commit of its partition
        "c": part_of("c", PLACES[2], PLACES[3]),
        "d": part_of("d", PLACES[3]),  # of another owner of the same partition
    }
    assert choose_parts(stored, "T", parts) == ChosenParts(("a", "c"), frozenset({"b"}))
    assert choose_parts(stored, "T", parts, taken=[PLACES[2]]) == ChosenParts(("a", "d"), frozenset({"b"}))
    assert choose_parts(stored, "U", parts) == ChosenParts((), frozenset(parts))  # the table was replaced


def test_committed_part_is_finished() -> None:
    part = part_of("a", *PLACES[:2])
    assert choose_parts(part.after, "T", {"a": part}) == ChosenParts((), frozenset({"a"}))
    later = {place: stored_after(WrittenRange(at, 10, 12), "next", NOW) for place, at in part.after.items()}
    assert choose_parts(later, "T", {"a": part}) == ChosenParts((), frozenset({"a"}))


def test_parts_with_a_partition_are_rivals() -> None:
    parts = {"a": part_of("a", *PLACES[:2]), "b": part_of("b", PLACES[2])}
    assert rival_parts(parts, [PLACES[1], PLACES[3]]) == ["a"]
    assert rival_parts(parts, []) == []


def test_commit_is_absent_only_while_the_table_knows_the_commit_before() -> None:
    before = stored_after(WrittenRange(None, 0, 3), "before", NOW)
    ranges = {PLACES[0]: WrittenRange(before, 3, 5)}
    assert is_surely_absent({PLACES[0]: before}, ranges, "mine")
    stored = stored_after(ranges[PLACES[0]], "mine", NOW)
    for number in range(KEPT_COMMITS + 2):
        assert not is_surely_absent({PLACES[0]: stored}, ranges, "mine")
        stored = stored_after(WrittenRange(stored, stored.end, stored.end + 1), f"other{number}", NOW)
    stored = stored_after(ranges[PLACES[0]], "other", NOW)
    assert is_surely_absent({PLACES[0]: stored}, ranges, "mine")
    assert not is_surely_absent({}, ranges, "mine")
    assert not is_surely_absent({PLACES[0]: StoredOffset(0, commits=("reset",))}, ranges, "mine")
    first = {PLACES[0]: WrittenRange(None, 0, 5)}  # nothing shows that the ids begin with the first commit
    assert not is_surely_absent({PLACES[0]: stored}, first, "mine")


def test_rank_counts_writers_that_come_before() -> None:
    names = [part_name("b", "2"), part_name("b", "3"), part_name("a", "9"), part_name("c", "0")]
    assert [rank_of(names, writer) for writer in "abcd"] == [0, 1, 2, 3]
    assert {writer_of(name) for name in names} == {"a", "b", "c"}


@pytest.mark.parametrize("interval_ms", [1, 7, 300, 5_000, 300_000])
@pytest.mark.parametrize("phase_ms", [0, 123_456_789])
def test_all_tasks_offer_before_the_same_collections(interval_ms: int, phase_ms: int) -> None:
    turns = CommitTurns(interval_ms, phase_ms)
    assert 1 <= turns.gathering_ms <= max(1, interval_ms // 4)
    for now_ms in range(1_795_000_000_000, 1_795_000_000_000 + 3 * interval_ms, max(1, interval_ms // 13)):
        offer_ms = now_ms + turns.offer_wait_ms(now_ms)
        assert now_ms < offer_ms <= now_ms + interval_ms
        collection_ms = offer_ms + turns.collection_wait_ms(offer_ms)
        assert (collection_ms - phase_ms) % interval_ms == 0
        assert collection_ms - offer_ms == turns.gathering_ms % interval_ms
        assert now_ms + turns.collection_wait_ms(now_ms) < now_ms + interval_ms


def test_turns_are_one_after_another_and_end_before_the_next_gathering() -> None:
    turns = CommitTurns(20_000)
    waits = [turns.turn_ms(rank) for rank in range(16)]
    assert waits[:2] == [0, turns.gathering_ms]
    assert waits == sorted(set(waits))
    assert waits[-1] < turns.interval_ms - turns.gathering_ms
    assert turns.poll_ms < turns.gathering_ms
