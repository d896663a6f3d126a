"""Connect's group bytes against worked examples, two of them recorded from a Java worker."""

import pytest

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.errors import DataError
from spark_connect_rt.group.subprotocol import (
    CONFIG_MISMATCH,
    Assignment,
    ConnectProtocol,
    WorkerMetadata,
    decode_assignment,
    decode_metadata,
    encode_assignment,
    encode_metadata,
    is_own_group,
    join_protocols,
)

EAGER, COMPATIBLE, SESSIONED = ConnectProtocol.EAGER, ConnectProtocol.COMPATIBLE, ConnectProtocol.SESSIONED


def spaced(text: str) -> bytes:
    return bytes.fromhex(text.replace(" ", ""))


def test_names_versions_and_order_of_preference() -> None:
    assert [p.version for p in (EAGER, COMPATIBLE, SESSIONED)] == [0, 1, 2]
    assert [p.protocol_name for p in SESSIONED.offered()] == ["sessioned", "compatible", "default"]
    assert [p.protocol_name for p in COMPATIBLE.offered()] == ["compatible", "default"]
    assert [p.protocol_name for p in EAGER.offered()] == ["default"]
    assert ConnectProtocol.of_setting("Sessioned") is SESSIONED
    assert ConnectProtocol.of_name("default") is EAGER
    with pytest.raises(DataError, match="'range'"):
        ConnectProtocol.of_name("range")
    with pytest.raises(ValueError, match="default"):
        ConnectProtocol.of_setting("default")


def test_v2_metadata_of_a_fresh_worker() -> None:
    blob = spaced("0002 000E 687474703A2F2F683A383038332F 0000000000000005 FFFFFFFF")
    metadata = WorkerMetadata("http://h:8083/", 5)
    assert encode_metadata(SESSIONED, metadata) == blob
    assert decode_metadata(blob) == metadata


def test_metadata_seen_on_the_wire_in_three_versions() -> None:
    url = "0017 687474703a2f2f3132372e302e302e313a32383139302f"
    offered = join_protocols(SESSIONED, WorkerMetadata("http://127.0.0.1:28190/", 13))
    javas = [
        ("sessioned", spaced(f"0002 {url} 000000000000000d ffffffff")),
        ("compatible", spaced(f"0001 {url} 000000000000000d ffffffff")),
        ("default", spaced(f"0000 {url} 000000000000000d")),
    ]
    assert offered[-3:] == javas
    # Before them the names that only our own workers offer, under the very same bytes.
    assert offered[:-3] == [("connectrt-sessioned", javas[0][1]), ("connectrt-compatible", javas[1][1])]
    assert {decode_metadata(blob) for _, blob in offered} == {WorkerMetadata("http://127.0.0.1:28190/", 13)}


@pytest.mark.parametrize(
    ("others", "chosen", "own"),
    [
        ((SESSIONED,), "connectrt-sessioned", True),
        ((COMPATIBLE,), "connectrt-compatible", True),
        ((EAGER,), "default", False),
    ],
)
def test_the_chosen_protocol_shows_a_group_without_java_workers(
    others: tuple[ConnectProtocol, ...], chosen: str, own: bool
) -> None:
    offers = [
        [name for name, _ in join_protocols(protocol, WorkerMetadata("u", 1))] for protocol in (SESSIONED, *others)
    ]
    common = set.intersection(*map(set, offers))
    votes = [next(name for name in offer if name in common) for offer in offers]
    assert set(votes) == {chosen}
    assert is_own_group(chosen) is own
    assert ConnectProtocol.of_name(chosen) is min((SESSIONED, *others), key=lambda protocol: protocol.version)


def test_a_java_worker_in_the_group_makes_it_javas() -> None:
    ours = [name for name, _ in join_protocols(SESSIONED, WorkerMetadata("u", 1))]
    javas = ["sessioned", "compatible", "default"]
    chosen = next(name for name in ours if name in javas)
    assert (chosen, is_own_group(chosen)) == ("sessioned", False)


def test_an_empty_config_topic_is_offset_minus_one() -> None:
    assert encode_metadata(EAGER, WorkerMetadata("u", -1)) == spaced("0000 0001 75 ffffffffffffffff")


def test_v1_assignment_of_a_connector_and_its_task() -> None:
    blob = spaced(
        "0001 0000 0002 6D31 0001 75 000000000000000500000001 0001 63 00000002 FFFFFFFF 00000000 00000000 00000000"
    )
    assignment = Assignment("m1", "u", 5, ("c",), (ConnectorTaskId("c", 0),))
    assert encode_assignment(COMPATIBLE, assignment) == blob
    assert decode_assignment(blob) == assignment


def test_v2_assignment_received_from_a_java_leader() -> None:
    leader = "connect-127.0.0.1:18083-6a0c8a5e-2b1a-4c55-9d0e-0a1b2c3d4e5f"[:0x3C]
    url = "http://127.0.0.1:18083/"
    blob = (
        spaced("0002 0000 003c")
        + leader.encode()
        + spaced("0017")
        + url.encode()
        + spaced("000000000000000d 00000002")
        + spaced("0003 667332 00000002 ffffffff 00000000")
        + spaced("0003 667331 00000002 ffffffff 00000000")
        + spaced("00000000 00000000")
    )
    assignment = Assignment(leader, url, 13, ("fs2", "fs1"), (ConnectorTaskId("fs2", 0), ConnectorTaskId("fs1", 0)))
    assert decode_assignment(blob) == assignment
    assert encode_assignment(SESSIONED, assignment) == blob


def test_v0_assignment_ends_after_the_array() -> None:
    assignment = Assignment("m", "u", 1, ("c",), revoked_connectors=("x",), delay_ms=7)
    blob = spaced("0000 0000 0001 6d 0001 75 0000000000000001 00000001 0001 63 00000001 ffffffff")
    assert encode_assignment(EAGER, assignment) == blob
    assert decode_assignment(blob) == Assignment("m", "u", 1, ("c",))


def test_revocations_and_delay_travel() -> None:
    assignment = Assignment(
        "m",
        "u",
        9,
        (),
        (ConnectorTaskId("b", 3),),
        ("a",),
        (ConnectorTaskId("a", 1),),
        300_000,
        CONFIG_MISMATCH,
    )
    back = decode_assignment(encode_assignment(SESSIONED, assignment))
    assert back == assignment
    assert back.failed
    assert back.revokes


def test_the_allocation_has_its_own_version_header() -> None:
    held = Assignment("m", "u", 2, ("c",), (ConnectorTaskId("c", 0),), delay_ms=40)
    for protocol in (COMPATIBLE, SESSIONED):
        blob = encode_metadata(protocol, WorkerMetadata("u", 2, held))
        inner = encode_assignment(protocol, held)
        assert blob.endswith(len(inner).to_bytes(4, "big") + inner)
        assert inner[:2] == protocol.version.to_bytes(2, "big")
        assert decode_metadata(blob).allocation == held
    assert decode_metadata(encode_metadata(EAGER, WorkerMetadata("u", 2, held))).allocation is None


def test_a_connector_mark_anywhere_and_null_lists_are_read() -> None:
    blob = spaced(
        "0001 0000 0000 0000 000000000000000000000001 0001 63 00000003 00000001 ffffffff 00000000 ffffffff 00000000"
    )
    assert decode_assignment(blob) == Assignment("", "", 0, ("c",), (ConnectorTaskId("c", 1), ConnectorTaskId("c", 0)))


@pytest.mark.parametrize(
    "blob",
    [
        b"",
        spaced("ffff 0001 75 0000000000000000"),
        spaced("0002 0009 75"),
        spaced("0002 0001 ff 0000000000000000 ffffffff"),
        spaced("0002 ffff"),
    ],
)
def test_senseless_bytes_are_a_data_error(blob: bytes) -> None:
    with pytest.raises(DataError):
        decode_metadata(blob)


def test_a_huge_count_fails_at_once() -> None:
    with pytest.raises(DataError):
        decode_assignment(spaced("0002 0000 0000 0000 0000000000000000 7fffffff"))


def test_an_overlong_name_is_refused() -> None:
    with pytest.raises(DataError, match="32767"):
        encode_metadata(EAGER, WorkerMetadata("u" * 40_000, 0))
