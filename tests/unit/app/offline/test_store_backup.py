from dataclasses import replace

import pytest

from spark_connect_rt.app.offline.store_backup import BackedUpTopic, StoreBackup, decode_backup, encode_backup
from spark_connect_rt.errors import DataError

BACKUP = StoreBackup(
    "cluster",
    "group",
    5,
    {
        "configs": BackedUpTopic("c", 1, ((0, 3, b"connector-a", None, 7), (0, 4, b"connector-a", b"{}", 8))),
        "offsets": BackedUpTopic("o", 25, ((24, 9, b'["a",{}]', b"\x00\xff", 9),)),
        "statuses": BackedUpTopic("s", 5, ()),
    },
)


def test_backup_survives_a_round_trip() -> None:
    assert decode_backup(b"".join(encode_backup(BACKUP))) == BACKUP


def test_a_line_that_is_missing_is_noticed() -> None:
    lines = list(encode_backup(BACKUP))
    for left_out in range(len(lines)):
        with pytest.raises(DataError):
            decode_backup(b"".join(lines[:left_out] + lines[left_out + 1 :]))


def test_a_backup_without_all_three_topics_is_refused() -> None:
    class Two(dict[str, BackedUpTopic]):
        """Answers for the statuses, but does not list them."""

        def __missing__(self, kind: str) -> BackedUpTopic:
            return BACKUP.topics[kind]

    topics = Two({kind: BACKUP.topics[kind] for kind in ("configs", "offsets")})
    with pytest.raises(DataError, match="statuses are incomplete"):
        decode_backup(b"".join(encode_backup(replace(BACKUP, topics=topics))))


@pytest.mark.parametrize("data", [b"", b"\n", b"not a backup\n{}\n"])
def test_another_file_is_refused(data: bytes) -> None:
    with pytest.raises(DataError):
        decode_backup(data)
