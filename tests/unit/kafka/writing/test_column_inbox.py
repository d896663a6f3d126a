"""Batches on their way to their partitions: order, and which leave together."""

from __future__ import annotations

import asyncio

import pyarrow as pa

from spark_connect_rt.kafka.writing.column_producer import JOINED_BYTES, Inbox, Produced
from spark_connect_rt.records.pipeline.columns import TOPIC, produce_batch


def produced(topic: str, *values: str, keys: bool = False, at: int = 0) -> Produced:
    column = pa.array(values)
    return Produced(produce_batch(topic, column, column if keys else None), at, at + 0.5)


def taken(*put: Produced) -> list[Produced]:
    """Return what an inbox gives of all these, until it has nothing."""

    async def take_all() -> list[Produced]:
        inbox = Inbox()
        for piece in put:
            inbox.put(piece)
        found, left = [], sum(piece.batch.num_rows for piece in put)
        while left:
            found.append(await inbox.take())
            left -= found[-1].batch.num_rows
        waits = asyncio.create_task(inbox.take())
        await asyncio.sleep(0)
        assert not waits.done()
        inbox.put(put[0])
        assert await waits == put[0]
        return found

    return asyncio.run(take_all())


def values(piece: Produced) -> list[bytes]:
    column: list[bytes] = piece.batch.column("value").to_pylist()
    return column


def test_small_ones_that_are_alike_leave_together_at_the_first_one_s_time() -> None:
    (joined,) = taken(produced("t", "1", at=5), produced("t", "2", "3", at=6), produced("t", "4", at=7))
    assert (values(joined), joined.now_ms, joined.until_s) == ([b"1", b"2", b"3", b"4"], 5, 5.5)
    assert joined.batch.schema.metadata == {TOPIC: b"t"}


def test_another_topic_or_other_columns_leave_behind_them() -> None:
    given = (produced("t", "1"), produced("u", "2"), produced("u", "3"), produced("u", "4", keys=True))
    assert [values(piece) for piece in taken(*given)] == [[b"1"], [b"2", b"3"], [b"4"]]


def test_large_ones_are_not_copied() -> None:
    large = produced("t", "x" * JOINED_BYTES)
    found = taken(produced("t", "1"), large, produced("t", "2"), produced("t", "3"))
    assert [len(values(piece)) for piece in found] == [1, 1, 2]
    assert found[1] is large
