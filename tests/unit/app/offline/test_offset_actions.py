"""``connectrt offsets alter|reset`` without a cluster; tests/integration/kafka/test_store_commands.py has one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from spark_connect_rt.app.offline.offset_actions import AskedWorker, ChangeOptions, NoTables, alter
from spark_connect_rt.app.offline.store_actions import change_rows
from spark_connect_rt.errors import BadRequestError, ConnectError
from spark_connect_rt.group.peers import PeerAnswer
from spark_connect_rt.topics.offset_changes import OffsetPair

NOW: list[OffsetPair] = [({"f": "x", "g": 1}, {"p": 1}), ({"f": "y"}, {"p": 2}), (None, {"p": 3})]


class Peers:
    """Stands for a worker."""

    def __init__(self, status: int, body: object) -> None:
        self.answer = PeerAnswer(status, body if isinstance(body, bytes) else json.dumps(body).encode(), {})
        self.asked: list[tuple[str, str, object]] = []

    def request(
        self,
        method: str,
        url: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_ms: int = 90_000,
    ) -> PeerAnswer:
        self.asked.append((method, url, json.loads(body) if body else None))
        return self.answer

    def close(self) -> None: ...


def test_rows_show_what_is_and_what_will_be() -> None:
    wanted: list[OffsetPair] = [
        ({"g": 1, "f": "x"}, {"p": 7}),  # the same partition: fields have no order
        ({"f": "new"}, {"p": 1}),
        (None, None),
    ]
    assert change_rows(NOW, wanted) == [
        ("none", '{"p": 3}', "none"),
        ('{"f": "new"}', "none", '{"p": 1}'),
        ('{"g": 1, "f": "x"}', '{"p": 1}', '{"p": 7}'),
    ]
    assert {row[2] for row in change_rows(NOW, None)} == {"none"}
    assert len(change_rows(NOW, None)) == 3
    assert change_rows([], None) == []


def test_a_worker_is_asked_with_the_requests_of_kip_875() -> None:
    peers = Peers(200, {"message": "done", "offsets": [{"partition": {"f": "x"}, "offset": {"p": 1}}]})
    worker = AskedWorker("http://w:1/", "a/b", peers)
    assert worker.offsets() == [({"f": "x"}, {"p": 1})]
    assert worker.change([({"f": "x"}, None)]) == "done"
    assert worker.change(None) == "done"
    url = "http://w:1/connectors/a%2Fb/offsets"
    assert peers.asked == [
        ("GET", url, None),
        ("PATCH", url, {"offsets": [{"partition": {"f": "x"}, "offset": None}]}),
        ("DELETE", url, None),
    ]


@pytest.mark.parametrize(("body", "told"), [({"message": "not stopped"}, "not stopped"), (b"<html>", "<html>")])
def test_a_refusal_is_shown_in_the_workers_words(body: object, told: str) -> None:
    with pytest.raises(ConnectError, match=f"answered 400: {told}"):
        AskedWorker("http://w:1", "a", Peers(400, body)).change(None)


def test_a_file_that_lists_no_offsets_is_refused_before_the_cluster_is_asked(tmp_path: Path) -> None:
    with pytest.raises(BadRequestError, match="cannot be read"):
        alter({}, "a", tmp_path / "none", ChangeOptions())
    for text in ("{", '{"offsets": []}', '{"offsets": [1]}'):
        (tmp_path / "file").write_text(text)
        with pytest.raises(ConnectError):
            alter({}, "a", tmp_path / "file", ChangeOptions())


def test_tables_that_spark_writes_are_left_to_a_worker() -> None:
    for call in (NoTables().held, NoTables().forget):
        with pytest.raises(BadRequestError, match="Start a worker"):
            call("a", {})
