"""The compact form: its bytes, both directions, and rejected bytes."""

from __future__ import annotations

import zlib
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.errors import DataError
from spark_connect_rt.group.compact import form as packed_work
from spark_connect_rt.group.compact.form import (
    ByteReader,
    CompactAssignment,
    ReportedWork,
    compact_name,
    decode_claim,
    decode_compact,
    digest_of,
    encode_claim,
    encode_compact,
    is_compact,
    leader_hint,
    metadata_of,
    pack_work,
    varint,
)
from spark_connect_rt.group.subprotocol import (
    CONFIG_MISMATCH,
    Assignment,
    ConnectProtocol,
    WorkerMetadata,
    encode_assignment,
    encode_metadata,
    is_own_group,
)

SESSIONED = ConnectProtocol.SESSIONED
NAMES = st.text(min_size=1, max_size=12)
TASKS = st.builds(ConnectorTaskId, NAMES, st.integers(0, 2**31 - 1) | st.integers(0, 30))
WORK = st.tuples(st.lists(NAMES, unique=True).map(tuple), st.lists(TASKS, unique=True).map(tuple))
URLS = st.sampled_from(
    ["http://10.0.0.1:8083/", "https://255.255.255.255:65535/", "http://h:1/", "x", "http://010.0.0.1:80/"]
)


def unpacked(blob: bytes) -> packed_work.Work:
    return ByteReader(blob).work()


@given(WORK)
def test_any_set_comes_back_in_order_and_has_one_digest(work: packed_work.Work) -> None:
    connectors, tasks = work
    assert unpacked(pack_work(work)) == (tuple(sorted(connectors)), tuple(sorted(tasks)))
    assert digest_of(work) == digest_of((connectors[::-1], tasks[::-1]))


@given(URLS, st.integers(-1, 2**62), st.none() | WORK, st.none() | st.integers(0, 255), st.booleans())
def test_a_claim_comes_back(
    url: str, offset: int, work: packed_work.Work | None, hint: int | None, short: bool
) -> None:
    held = None if work is None else Assignment("", "", offset, tuple(sorted(work[0])), tuple(sorted(work[1])))
    claim = ReportedWork(WorkerMetadata(url, offset, held), knows_leader=hint)
    if short:
        claim = ReportedWork(WorkerMetadata(url, offset), b"12345678", 8, hint)
    back = decode_claim(encode_claim(SESSIONED, claim))
    assert replace(back, list_bytes=0) == replace(claim, list_bytes=0)


@given(URLS, st.integers(-1, 2**40), st.integers(-1, 2**40), WORK, WORK, st.integers(0, 2**31 - 1), st.booleans())
def test_an_assignment_comes_back(
    url: str, offset: int, own: int, given_work: packed_work.Work, gone: packed_work.Work, delay_ms: int, bad: bool
) -> None:
    sent = CompactAssignment(
        Assignment(
            leader_id="leader",
            leader_url=url,
            config_offset=offset,
            connectors=tuple(sorted(given_work[0])),
            tasks=tuple(sorted(given_work[1])),
            revoked_connectors=tuple(sorted(gone[0])),
            revoked_tasks=tuple(sorted(gone[1])),
            delay_ms=delay_ms,
            error=CONFIG_MISMATCH if bad else 0,
        ),
        whole_list=bad,
        limit_exponent=9,
    )
    assert decode_compact(encode_compact(sent, own), own, "leader", None) == sent
    known = replace(sent, url_known=True)
    assert decode_compact(encode_compact(known, own), own, "leader", url) == known


@given(st.binary(max_size=60), st.booleans())
def test_noise_is_a_data_error_or_a_value_and_never_another_error(blob: bytes, claim: bool) -> None:
    with suppress(DataError):
        if claim:
            decode_claim(blob)
        else:
            decode_compact(blob, 7, "leader", "http://h:1/")


@pytest.mark.parametrize(
    ("blob", "says"),
    [
        (b"", "breaks at byte 0"),
        (encode_claim(SESSIONED, ReportedWork(WorkerMetadata("http://h:1/", 3), b"12345678"))[:-3], "breaks at byte"),
        (b"\x06\x01u\x01" + varint(5 << 1 | 1) + b"\xff\xff\xff\xff\xff", "cannot be inflated"),
        (b"\x06\x01\xff\x00", "is not UTF-8"),
        (b"\x06\x01u" + b"\xff" * 9, "more than 63 bits"),
        (b"\x06\x01u\x01" + varint(12 << 1) + b"\x00\x01a\x02\x00" + varint(2**40) + b"\x00", "too many"),
        (b"\x06\x01u\x01" + varint(3 << 1) + b"\x09\x01a", "cannot be read"),
        (b"\x0e\x01u\x01", "says in 3 what is held"),
    ],
)
def test_impossible_claim_is_refused_with_the_reason(blob: bytes, says: str) -> None:
    with pytest.raises(DataError, match=says):
        decode_claim(blob)


def test_a_small_blob_that_inflates_to_a_gigabyte_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_work, "_LARGEST_PLAIN_BYTES", 10_000)
    deflater = zlib.compressobj(9, zlib.DEFLATED, -15)
    bomb = deflater.compress(b"\x00" * 1_000_000) + deflater.flush()
    with pytest.raises(DataError, match="has no end"):
        unpacked(varint(len(bomb) << 1 | 1) + bomb)


def test_unknown_leader_url_is_missed_unless_another_round_follows() -> None:
    sent = CompactAssignment(Assignment("leader", "http://h:1/", 5), url_known=True)
    with pytest.raises(DataError, match="leader's URL"):
        decode_compact(encode_compact(sent, 5), 5, "leader", None)
    soon = decode_compact(encode_compact(replace(sent, again=True), 5), 5, "leader", None)
    assert soon.assignment.leader_url == ""


def test_the_bytes_on_the_wire() -> None:
    """Workers of different versions meet in one group: these bytes may not change under this name."""
    tasks = (*(ConnectorTaskId("a", n) for n in (0, 1, 2, 7)), ConnectorTaskId("ab", 3))
    held = Assignment("", "", 9, ("a",), tasks)
    claim = ReportedWork(WorkerMetadata("http://10.0.0.1:8083/", 9, held), knows_leader=0x41)
    packed = "00 01 61 05 00 02 04 00 01 01 62 02 03 00"
    assert encode_claim(SESSIONED, claim) == bytes.fromhex(f"56 41 0a000001 1f93 0a 1c {packed}")
    sent = CompactAssignment(Assignment("l", "http://h/", 10, ("a",), tasks, delay_ms=300), limit_exponent=11)
    assert encode_compact(sent, 9) == bytes.fromhex(f"50 0b 02 09 687474703a2f2f682f ac02 1c {packed}")
    assert digest_of((("a",), tasks)).hex() == digest_of((("a",), tasks[::-1])).hex() == DIGEST


DIGEST = "9e923fbad9da9ccb"


def test_it_takes_a_fraction_of_javas_form() -> None:
    tasks = tuple(ConnectorTaskId(f"connector-{n:05d}", t) for n in range(100) for t in (3, 203, 403))
    assignment = Assignment("connect-10.0.0.1:8083-" + "0" * 36, "http://10.0.0.1:8083/", 5, (), tasks)
    java = encode_assignment(SESSIONED, assignment)
    ours = encode_compact(CompactAssignment(assignment), 5)
    assert len(ours) * 8 < len(java)


def test_names_say_who_reads_it() -> None:
    assert compact_name(SESSIONED) == "connectrt-sessioned-compact"
    assert is_compact("connectrt-sessioned-compact")
    assert is_own_group("connectrt-sessioned-compact")
    assert not is_compact("connectrt-sessioned")
    assert not is_compact("sessioned")
    assert ConnectProtocol.of_name("connectrt-sessioned-compact") is SESSIONED
    assert 0 <= leader_hint("connect-1") <= 255


def test_metadata_is_read_by_the_protocol_that_the_group_chose() -> None:
    metadata = WorkerMetadata("http://10.0.0.1:8083/", 7)
    compact, javas = encode_claim(SESSIONED, ReportedWork(metadata)), encode_metadata(SESSIONED, metadata)
    assert metadata_of(compact_name(SESSIONED), compact) == metadata
    assert metadata_of("sessioned", javas) == metadata_of("connectrt-sessioned", javas) == metadata
    with pytest.raises(DataError):
        metadata_of("sessioned", compact)
