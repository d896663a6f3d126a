"""What a snapshot holds may have been aborted since: another isolation level reads the topic anew."""

from __future__ import annotations

from pathlib import Path

from spark_connect_rt.kafka.logs.compaction import Latest
from spark_connect_rt.kafka.logs.log_load import LatestLoad
from spark_connect_rt.topics.compacted_log import LogRecord
from spark_connect_rt.topics.log_snapshot import LogCache, LogFacts

RECORDS = [LogRecord(0, 0, b"k", b"committed"), LogRecord(0, 1, b"k", b"of an open transaction")]


def facts(committed_only: bool) -> LogFacts:
    return LogFacts("cluster", "offsets", "id", {0: 0}, {0: 2}, 86_400_000, committed_only)


def test_a_committed_reader_does_not_begin_with_what_an_uncommitted_one_read(tmp_path: Path) -> None:
    cache = LogCache(tmp_path, lambda: 1_000)
    preparing = LatestLoad(cache)
    preparing.begin(facts(committed_only=False))
    preparing.take_latest(0, Latest(RECORDS[-1:], RECORDS[0], RECORDS[1], 2))
    assert [record.value for record in preparing.finish()] == [b"of an open transaction"]
    preparing.save()
    assert LatestLoad(cache).begin(facts(committed_only=False)) == {0: 1}  # from its last record on
    enabled = LatestLoad(cache)
    assert enabled.begin(facts(committed_only=True)) == {0: 0}
    assert enabled.finish() == []
