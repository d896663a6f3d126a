"""The contract of every FencedWriter. Inherited by tests/unit/testing and tests/integration/kafka."""

from __future__ import annotations

import pytest

from spark_connect_rt.errors import FencedError, RetriableError
from spark_connect_rt.topics.compacted_log import CompactedLog, FencedWriter
from tests.contract.compacted_log_contract import LIMIT_MS, Seen, fresh_name


class FencedWriterContract:
    """The subclass makes writers and logs of one topic; writers of one id shut each other out."""

    def new_log(self, topic: str, partitions: int = 1) -> CompactedLog:
        raise NotImplementedError

    def new_writer(self, topic: str, transactional_id: str) -> FencedWriter:
        raise NotImplementedError

    @pytest.fixture
    def topic(self) -> str:
        return fresh_name("fenced")

    def test_written_records_are_read_in_order(self, topic: str) -> None:
        log, seen = self.new_log(topic), Seen()
        log.start(seen)
        writer = self.new_writer(topic, topic)
        writer.claim(LIMIT_MS)
        writer.write([(b"a", b"1"), (b"b", None)], LIMIT_MS)
        writer.write([(b"a", b"2")], LIMIT_MS)
        log.read_to_end(LIMIT_MS)
        log.stop()
        assert seen.pairs() == [(b"a", b"1"), (b"b", None), (b"a", b"2")]
        assert [record.offset for record in seen.records] == [0, 1, 3]  # the marker took number 2
        assert writer.is_claimed()

    def test_unclaimed_writer_cannot_write(self, topic: str) -> None:
        writer = self.new_writer(topic, topic)
        assert not writer.is_claimed()
        with pytest.raises(RetriableError, match="is not claimed"):
            writer.write([(b"a", b"1")], LIMIT_MS)

    def test_a_fenced_writer_fails_and_nothing_of_it_is_ever_visible(self, topic: str) -> None:
        log, seen = self.new_log(topic), Seen()
        log.start(seen)
        zombie, leader = self.new_writer(topic, topic), self.new_writer(topic, topic)
        zombie.claim(LIMIT_MS)
        zombie.write([(b"a", b"zombie while it led")], LIMIT_MS)
        leader.claim(LIMIT_MS)
        with pytest.raises(FencedError):
            zombie.write([(b"a", b"zombie")], LIMIT_MS)
        assert not zombie.is_claimed()
        leader.write([(b"a", b"leader")], LIMIT_MS)
        log.read_to_end(LIMIT_MS)
        log.stop()
        assert [value for _, value in seen.pairs()] == [b"zombie while it led", b"leader"]

    def test_fenced_writer_may_claim_again(self, topic: str) -> None:
        log, seen = self.new_log(topic), Seen()
        log.start(seen)
        writer, other = self.new_writer(topic, topic), self.new_writer(topic, topic)
        writer.claim(LIMIT_MS)
        other.claim(LIMIT_MS)
        with pytest.raises(FencedError):
            writer.write([(b"a", b"1")], LIMIT_MS)
        writer.claim(LIMIT_MS)
        writer.write([(b"a", b"2")], LIMIT_MS)
        with pytest.raises(FencedError):
            other.write([(b"a", b"3")], LIMIT_MS)
        log.read_to_end(LIMIT_MS)
        log.stop()
        assert seen.pairs() == [(b"a", b"2")]

    def test_other_ids_are_left_alone(self, topic: str) -> None:
        log, seen = self.new_log(topic), Seen()
        log.start(seen)
        writer, other = self.new_writer(topic, f"{topic}-1"), self.new_writer(topic, f"{topic}-2")
        writer.claim(LIMIT_MS)
        other.claim(LIMIT_MS)
        writer.write([(b"a", b"1")], LIMIT_MS)
        other.write([(b"b", b"2")], LIMIT_MS)
        log.read_to_end(LIMIT_MS)
        log.stop()
        assert seen.pairs() == [(b"a", b"1"), (b"b", b"2")]

    def test_a_released_writer_must_claim_again(self, topic: str) -> None:
        writer = self.new_writer(topic, topic)
        writer.claim(LIMIT_MS)
        writer.release()
        assert not writer.is_claimed()
        with pytest.raises(RetriableError, match="is not claimed"):
            writer.write([(b"a", b"1")], LIMIT_MS)
