"""What a leader told its members, as text that can be kept, compared, read, and turned back into bytes.

``"c!:0,2 b1:1 / Z9!"`` is: start connector c, tasks c-0, c-2 and b1-1; stop connector Z9. Everything stands in the
order of the wire. Two leaders are compared without it: in Java's bytes it is the order of a hash table of names,
in ours that of the decision. It does matter for the next round, which revokes first what a member names first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.group.subprotocol import Assignment, ConnectProtocol, decode_assignment, encode_assignment

Told = dict[str, Any]
EVERYBODY = "everybody"


def told(blobs: Mapping[str, bytes]) -> Told:
    """Return ``{"everybody": [version, error, leader, URL, offset, delay, members], "a": "starts / stops", ...}``.

    Fails when members are told different ones. A member that starts and stops nothing is left out.
    """
    decoded = {member: decode_assignment(blob) for member, blob in sorted(blobs.items())}
    heads = {
        (int.from_bytes(blobs[m][:2]), a.error, a.leader_id, a.leader_url, a.config_offset, a.delay_ms)
        for m, a in decoded.items()
    }
    assert len(heads) == 1, f"members are told different things: {heads}"
    answer: Told = {EVERYBODY: [*heads.pop(), "".join(decoded)]}
    for member, assignment in decoded.items():
        starts = _text(assignment.connectors, assignment.tasks)
        stops = _text(assignment.revoked_connectors, assignment.revoked_tasks)
        if starts or stops:
            answer[member] = f"{starts} / {stops}" if stops else starts
        ours = encode_assignment(_protocol(blobs[member]), assignment)
        assert len(ours) == len(blobs[member]), f"{member} is told something that this text does not say"
    return answer


def blobs_of(answer: Told) -> dict[str, bytes]:
    """Return the SyncGroup bytes that say this."""
    version, error, leader_id, leader_url, offset, delay_ms, members = answer[EVERYBODY]
    blobs = {}
    for member in members:
        starts, _, stops = answer.get(member, "").partition(" / ")
        assignment = Assignment(
            leader_id, leader_url, offset, *_items(starts), *_items(stops), delay_ms=delay_ms, error=error
        )
        blobs[member] = encode_assignment(tuple(ConnectProtocol)[version], assignment)
    return blobs


def without_order(answer: Told) -> Told:
    """Return the same with everything sorted, for comparing; an item told twice still shows twice."""
    plain: Told = {EVERYBODY: list(answer[EVERYBODY])}
    for member, text in answer.items():
        if member != EVERYBODY:
            starts, _, stops = text.partition(" / ")
            plain[member] = [sorted(map(str, part)) for side in (starts, stops) for part in _items(side)]
    return plain


def _protocol(blob: bytes) -> ConnectProtocol:
    return tuple(ConnectProtocol)[int.from_bytes(blob[:2])]


def _text(connectors: tuple[str, ...], tasks: tuple[ConnectorTaskId, ...]) -> str:
    numbers: dict[str, list[str]] = {f"{name}!": [] for name in connectors}
    for task in tasks:
        name = f"{task.connector}!" if f"{task.connector}!" in numbers else task.connector
        numbers.setdefault(name, []).append(str(task.task))
    return " ".join(f"{name}:{','.join(them)}" if them else name for name, them in numbers.items())


def _items(text: str) -> tuple[tuple[str, ...], tuple[ConnectorTaskId, ...]]:
    connectors, tasks = [], []
    for part in text.split():
        name, _, numbers = part.partition(":")
        if name.endswith("!"):
            connectors.append(name[:-1])
        tasks += [ConnectorTaskId(name.rstrip("!"), int(number)) for number in numbers.split(",") if number]
    return tuple(connectors), tuple(tasks)
