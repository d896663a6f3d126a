"""A dedicated MirrorMaker of ours between real clusters, taking over from Java's, killed, and handing back.

A <-> B -> C. The tests share one story: the fixture lets Java's MirrorMaker begin and ours take over in mid-flow.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka
from spark_connect_rt.engine.startup.java_home import Java
from tests.integration.kafka.mirrored_clusters import BACK, CHECKED, FAILOVER, FEED, GROUP, ORDERS, MirroredClusters
from tests.topics import CommittedReader, count_records, read_records

START_LIMIT_S = 240.0
COPY_LIMIT_S = 120.0
COUNT = 200


@pytest.fixture(scope="module")
def mirrored(broker: EmbeddedKafka, java: Java, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MirroredClusters]:
    """Java has copied some of the feed over both hops; ours goes on."""
    folder: Path = tmp_path_factory.mktemp("mirrored")
    b, c = (EmbeddedKafka(folder / name, java=java, heap_mb=256, die_with_parent=True) for name in ("b", "c"))
    with b, c:
        clusters = MirroredClusters(folder, {"A": broker, "B": b, "C": c})
        try:
            clusters.start_java()
            await_more_of_the_feed(clusters)
            clusters.stop()
            clusters.start_ours()
            await_more_of_the_feed(clusters)
            yield clusters
        finally:
            clusters.close()


def await_more_of_the_feed(clusters: MirroredClusters) -> None:
    """Wait until what is written from now on arrives over both hops, while more is being written."""
    goal = clusters.feed.written
    clusters.until(lambda: clusters.newest_at_c() > goal, START_LIMIT_S, f"number {goal} of the feed reaches C")


def await_copies(clusters: MirroredClusters, alias: str, topic: str, count: int) -> None:
    address = clusters.addresses[alias]
    clusters.until(lambda: count_records(address, topic) >= count, COPY_LIMIT_S, f"{count} records in {topic}")


def test_records_go_both_ways_and_on_without_a_loop(mirrored: MirroredClusters) -> None:
    values = [f"order {number}" for number in range(COUNT)]
    mirrored.produce("A", ORDERS, values)
    mirrored.produce("B", BACK, ["back"])
    await_copies(mirrored, "B", f"A.{ORDERS}", COUNT)
    await_copies(mirrored, "A", f"B.{BACK}", 1)
    await_copies(mirrored, "C", f"B.{BACK}", 1)
    await_copies(mirrored, "C", f"B.A.{ORDERS}", COUNT)
    original, copy = (read_records(mirrored.addresses[a], t, COUNT) for a, t in (("A", ORDERS), ("B", f"A.{ORDERS}")))
    assert [
        (record.key(), record.value(), record.headers(), record.timestamp(), record.partition()) for record in copy
    ] == [
        (record.key(), record.value(), record.headers(), record.timestamp(), record.partition()) for record in original
    ]
    assert not {f"B.A.{FEED}", f"B.A.{ORDERS}"} & mirrored.topics("A")
    assert f"A.B.{BACK}" not in mirrored.topics("B")


def test_the_client_sees_the_way_records_came(mirrored: MirroredClusters) -> None:
    await_copies(mirrored, "C", "B.A.heartbeats", 1)
    code, told = mirrored.ask("client", str(mirrored.file), "--cluster", "C")
    assert (code, told["upstream_clusters"]) == (0, {"A": 2, "B": 1})
    assert f"B.A.{FEED}" in told["remote_topics"]


def test_a_group_fails_over_without_a_gap_as_verify_foretold(mirrored: MirroredClusters) -> None:
    values = [str(number) for number in range(COUNT)]
    mirrored.produce("A", FAILOVER, values)
    await_copies(mirrored, "B", f"A.{FAILOVER}", COUNT)
    at_a = mirrored.consume("A", FAILOVER, 150)
    mirrored.until(lambda: mirrored.committed("B", f"A.{FAILOVER}") > 0, COPY_LIMIT_S, "the group's offset is at B")
    _, flows = mirrored.ask("verify", str(mirrored.file), "--source", "A", "--target", "B")
    (foretold,) = (group for group in flows[0]["groups"] if group["group"] == GROUP)
    (place,) = foretold["partitions"]
    assert (foretold["safe"], foretold["lost"], foretold["repeated"]) == (True, 0, 150 - place["downstream"])
    at_b = mirrored.consume("B", f"A.{FAILOVER}", COUNT - mirrored.committed("B", f"A.{FAILOVER}"))
    assert sorted({*at_a, *at_b}, key=int) == values


def test_verify_compares_every_record_and_finds_what_is_wrong(mirrored: MirroredClusters) -> None:
    mirrored.produce("A", CHECKED, [str(number) for number in range(50)])
    await_copies(mirrored, "B", f"A.{CHECKED}", 50)

    def compared() -> dict[str, object]:
        _, flows = mirrored.ask("verify", str(mirrored.file), "--source", "A", "--full")
        found: dict[str, object] = next(
            partition for partition in flows[0]["partitions"] if partition["topic"] == CHECKED
        )["compared"]
        return found

    right = {"same": 50, "missing": 0, "not_copied_yet": 0, "expired": 0, "repeated": 0, "foreign": 0}
    assert compared() == {**right, "out_of_order": 0}
    mirrored.produce("B", f"A.{CHECKED}", ["nobody wrote this at A"])
    assert compared() == {**right, "foreign": 1, "out_of_order": 0}
    assert mirrored.ask("verify", str(mirrored.file), "--source", "A", "--full")[0] == 1


def test_kill_minus_9_and_handing_back_to_java_leave_no_gap(mirrored: MirroredClusters) -> None:
    assert mirrored.mirror is not None
    mirrored.mirror.kill()
    mirrored.start_ours()
    await_more_of_the_feed(mirrored)
    assert mirrored.stop() == 0
    mirrored.start_java()
    await_more_of_the_feed(mirrored)
    count = mirrored.feed.stop()

    mirrored.until(lambda: mirrored.newest_at_c() == count - 1, COPY_LIMIT_S, "the whole feed is at C")
    at_b = CommittedReader(mirrored.addresses["B"], f"A.{FEED}")
    copies = [value for _, value in at_b.to_end()]
    at_b.close()
    # At least once: every number, first in order. Exactly once: what B has, no more, no less.
    assert list(dict.fromkeys(copies)) == [b"%d" % number for number in range(count)]
    assert mirrored.fed_to_c() == copies
