"""Schedules in which members report work by digests alone, and leaders ask one member at a time for its list."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from spark_connect_rt.group.compact.group_record_budget import GroupRecordBudget
from spark_connect_rt.group.compact.reported_work import known_after
from spark_connect_rt.runtime.herder.steps import assigning
from tests.support.simulation.simulated_schedule import run_schedule

SEEDS = range(2_000, 2_025)


def test_no_invariant_breaks_when_leaders_know_lists_by_their_digests(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: Counter[str] = Counter()
    asking = assigning._asking

    def asks(*given: Any) -> assigning.LeaderAssignment:
        seen["asked"] += 1
        return asking(*given)

    def knows(claims: Any, owners: Any, limit_bytes: int = 0) -> Mapping[bytes, Any]:
        seen["digests"] += sum(said.digest is not None for said in claims.said.values())
        return known_after(claims, owners, limit_bytes)

    def asked(self: GroupRecordBudget, lists: Mapping[str, int]) -> list[str]:
        return sorted(lists)[:1]

    monkeypatch.setattr(GroupRecordBudget, "list_exponent", 0)
    monkeypatch.setattr(GroupRecordBudget, "asked", asked)
    monkeypatch.setattr(assigning, "_asking", asks)
    monkeypatch.setattr(assigning, "known_after", knows)
    for seed in SEEDS:
        run_schedule(seed)
    assert seen["asked"] >= 3
    assert seen["digests"] > len(SEEDS)
