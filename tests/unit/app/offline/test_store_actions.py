"""What the ``store`` and ``offsets`` words do, over topics in memory; tests/integration/kafka has a real broker."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import pytest

from spark_connect_rt.app.offline import store_actions
from spark_connect_rt.app.offline.store_backup import KINDS, BackedUpTopic, StoreBackup
from spark_connect_rt.base.checked_lines import RawRecord
from spark_connect_rt.base.exit_codes import EXIT_DAMAGE
from spark_connect_rt.errors import BadRequestError, StartupError
from spark_connect_rt.kafka.admin import TopicSpec
from spark_connect_rt.topics.offset_changes import OffsetsChanged
from spark_connect_rt.topics.store_check import Change, Stored, StoreFinding, record_findings


class MemoryTopics:
    """Stands for InternalTopics."""

    def __init__(self) -> None:
        self.specs = {kind: TopicSpec(f"g-{kind}") for kind in KINDS}
        self.records: dict[str, list[RawRecord]] = {kind: [] for kind in KINDS}
        self.running = False
        self.config = "the worker's"
        self.recorded: list[OffsetsChanged] = []

    def write(self, kind: str, *changes: tuple[str, Any]) -> None:
        self.append(kind, [(key.encode(), None if v is None else json.dumps(v).encode()) for key, v in changes], 0)

    def append(self, kind: str, changes: Sequence[Change], now_ms: int) -> None:
        held = self.records[kind]
        held += [(0, len(held) + at, key, value, now_ms) for at, (key, value) in enumerate(changes)]

    def refuse_running_group(self) -> None:
        if self.running:
            raise BadRequestError("workers are running")

    def stored(self) -> Stored:
        names = {kind: spec.name for kind, spec in self.specs.items()}
        return Stored(names, self.records["configs"], self.records["offsets"], self.records["statuses"])

    def findings(self) -> list[StoreFinding]:
        return record_findings(self.stored())

    def backup(self, now_ms: int) -> StoreBackup:
        topics = {kind: BackedUpTopic(f"g-{kind}", 1, tuple(self.records[kind])) for kind in KINDS}
        return StoreBackup("cluster", "g", now_ms, topics)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...


@pytest.fixture
def topics(monkeypatch: pytest.MonkeyPatch) -> MemoryTopics:
    made = MemoryTopics()

    def opened(_: Mapping[str, str]) -> MemoryTopics:
        return made

    def recorded(config: str, changes: Sequence[OffsetsChanged], _: object) -> None:
        assert config == made.config
        made.recorded += changes

    monkeypatch.setattr(store_actions, "InternalTopics", opened)
    monkeypatch.setattr(store_actions, "record_offsets", recorded)
    made.write(
        "configs", ("connector-a", {"properties": {}}), ("task-a-0", {"properties": {}}), ("commit-a", {"tasks": 1})
    )
    made.write("offsets", ('["a",{"f":"[x]"}]', {"p": 1}), ('["gone",{"f":"y"}]', {"p": 2}), ('["old",null]', {"p": 3}))
    return made


def test_a_check_prints_every_finding_and_its_exit_code_says_damage(
    topics: MemoryTopics, capsys: pytest.CaptureFixture[str]
) -> None:
    assert store_actions.check({}, as_json=True) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["damage"], document["leftover"]) == (0, 2)
    topics.write("configs", ("commit-a", {"tasks": 1}))
    assert store_actions.check({}, as_json=False) == EXIT_DAMAGE
    assert "tasks-without-commit" in capsys.readouterr().out


def test_nothing_is_repaired_without_being_asked_or_while_workers_run(topics: MemoryTopics, tmp_path: Path) -> None:
    topics.write("configs", ("commit-a", {"tasks": 1}))
    before = {kind: list(records) for kind, records in topics.records.items()}
    safety = tmp_path / "safety"
    assert store_actions.repair({}, safety, apply=False, while_running=False) == 0
    topics.running = True
    with pytest.raises(BadRequestError, match="running"):
        store_actions.repair({}, safety, apply=True, while_running=False)
    safety.write_text("somebody's")
    with pytest.raises(BadRequestError, match="File exists"):
        store_actions.repair({}, safety, apply=True, while_running=True)
    assert topics.records == before
    assert safety.read_text() == "somebody's"


def test_a_repair_keeps_everything_first_and_leaves_nothing_to_repair(topics: MemoryTopics, tmp_path: Path) -> None:
    topics.write("configs", ("commit-a", {"tasks": 1}))
    before = topics.backup(0)
    assert store_actions.repair({}, tmp_path / "safety", apply=True, while_running=False) == 0
    assert topics.findings() == []
    assert store_actions._read_backup(tmp_path / "safety").topics == before.topics


def test_offsets_are_listed_with_what_became_of_their_connector(
    topics: MemoryTopics, capsys: pytest.CaptureFixture[str]
) -> None:
    store_actions.list_offsets({}, None, as_json=True)
    listed = {row["connector"]: row for row in json.loads(capsys.readouterr().out)}
    assert {name: row["state"] for name, row in listed.items()} == {
        "a": "configured",
        "gone": "deleted",
        "old": "deleted",
    }
    assert listed["a"]["partition"] == {"f": "[x]"}
    assert listed["old"]["partition"] is None
    store_actions.list_offsets({}, "a", as_json=False)
    assert '{"f": "[x]"}' in capsys.readouterr().out


def test_only_offsets_of_deleted_connectors_are_pruned(topics: MemoryTopics, tmp_path: Path) -> None:
    store_actions.prune_offsets({}, tmp_path / "none", "a", apply=True)
    store_actions.prune_offsets({}, tmp_path / "none", None, apply=False)
    assert not (tmp_path / "none").exists()
    topics.running = True
    store_actions.prune_offsets({}, tmp_path / "one", "gone", apply=True)
    assert [(key, value) for _, _, key, value, _ in topics.records["offsets"][3:]] == [(b'["gone",{"f":"y"}]', None)]
    store_actions.prune_offsets({}, tmp_path / "all", None, apply=True)
    assert [key for _, _, key, _, _ in topics.records["offsets"][4:]] == [b'["old",null]']
    assert [(change.connector, change.action, change.after) for change in topics.recorded] == [
        ("gone", "prune", []),
        ("old", "prune", []),
    ]


def test_a_file_that_is_not_a_backup_is_refused_before_the_cluster_is_asked(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("{}\n{}\n")
    for name in ("file", "missing"):
        with pytest.raises(StartupError) as refused:
            store_actions.restore({}, tmp_path / name, apply=True, into_used=False, while_running=False)
        assert (refused.value.exit_code, refused.value.code) == (23, "CRT-1092")
