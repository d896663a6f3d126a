"""Round trips of Connect's group bytes; truncated bytes raise only our own error."""

from __future__ import annotations

from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.errors import DataError
from spark_connect_rt.group.subprotocol import (
    Assignment,
    ConnectProtocol,
    WorkerMetadata,
    decode_assignment,
    decode_metadata,
    encode_assignment,
    encode_metadata,
)

NAMES = st.text(max_size=12)
CONNECTORS = st.lists(NAMES, max_size=4, unique=True).map(tuple)
INT32 = st.integers(0, 2**31 - 1)


@st.composite
def tasks(draw: st.DrawFn) -> tuple[ConnectorTaskId, ...]:
    """Tasks grouped by connector, the order every writer of assignments leaves them in."""
    return tuple(
        ConnectorTaskId(connector, number)
        for connector in draw(CONNECTORS)
        for number in draw(st.lists(INT32, min_size=1, max_size=3))
    )


ASSIGNMENTS = st.builds(
    Assignment,
    leader_id=NAMES,
    leader_url=NAMES,
    config_offset=st.integers(-1, 2**63 - 1),
    connectors=CONNECTORS,
    tasks=tasks(),
    revoked_connectors=CONNECTORS,
    revoked_tasks=tasks(),
    delay_ms=INT32,
    error=st.sampled_from([0, 1]),
)
INCREMENTAL = st.sampled_from([ConnectProtocol.COMPATIBLE, ConnectProtocol.SESSIONED])


def same_work(assignment: Assignment, other: Assignment) -> bool:
    """Connectors and tasks share an array, so only the order between connectors may differ."""
    return set(assignment.tasks) == set(other.tasks) and assignment.connectors == other.connectors


@given(assignment=ASSIGNMENTS, protocol=INCREMENTAL)
def test_an_assignment_comes_back(assignment: Assignment, protocol: ConnectProtocol) -> None:
    back = decode_assignment(encode_assignment(protocol, assignment))
    assert same_work(back, assignment)
    assert set(back.revoked_tasks) == set(assignment.revoked_tasks)
    assert encode_assignment(protocol, back) == encode_assignment(protocol, assignment)


@given(assignment=ASSIGNMENTS, url=NAMES, offset=st.integers(-1, 2**63 - 1), protocol=INCREMENTAL)
def test_metadata_comes_back(assignment: Assignment, url: str, offset: int, protocol: ConnectProtocol) -> None:
    blob = encode_metadata(protocol, WorkerMetadata(url, offset, assignment))
    back = decode_metadata(blob)
    assert (back.url, back.config_offset) == (url, offset)
    assert encode_metadata(protocol, back) == blob


@given(assignment=ASSIGNMENTS, cut=st.integers(0, 400), junk=st.binary(max_size=8))
def test_damaged_bytes_raise_only_data_error(assignment: Assignment, cut: int, junk: bytes) -> None:
    blob = encode_metadata(ConnectProtocol.SESSIONED, WorkerMetadata("u", 1, assignment))
    with suppress(DataError):
        decode_metadata(blob[:cut] + junk)


@given(junk=st.binary(max_size=64))
def test_any_bytes_raise_only_data_error(junk: bytes) -> None:
    for decode in (decode_metadata, decode_assignment):
        with suppress(DataError):
            decode(junk)
