"""Live group: 200 workers in one process hold 100,000 tasks, on a real broker with its default settings; no data.

Every worker has its own connections and heartbeats; what it holds is remembered, not started. The seconds are those
of the whole group, 200 members on this machine's cores, until every task is held once and evenly.
"""

from __future__ import annotations

import time

from bench.lab import Lab
from bench.report import Result, Run
from tests.support.live_group import LiveGroup

TIMES = {"session.timeout.ms": "60000", "heartbeat.interval.ms": "3000", "rebalance.timeout.ms": "120000"}
LIMIT_S = 300.0


def run(lab: Lab, short: bool) -> Result:
    """Let workers join, one leave, one come, the first (which leads) leave."""
    workers, connectors, tasks = (10, 10, 100) if short else (200, 100, 1_000)
    result = Result("live_group", "s until all is held once and evenly", "settled_s", False, "<60s")
    settings = {"bootstrap.servers": lab.bootstrap_servers, "group.id": lab.fresh("live"), **TIMES}
    group = LiveGroup(settings, connectors, tasks)
    try:
        for event in ("all join", "1 leaves", "1 joins", "the leader leaves"):
            rounds_before, cpu_before = sum(w.rounds for w in group.workers), time.process_time()
            for worker in group.workers:
                worker.assigned_bytes = 0  # the largest of this event counts
            if event == "all join":
                group.join(workers)
            elif event == "1 joins":
                group.join(1)
            elif event == "1 leaves":
                group.leave(1)
            else:
                leader = next(w for w in group.workers if w.last and w.last.leader_url == w.url)
                group.workers.remove(leader)
                rounds_before -= leader.rounds
                leader.member.stop()
            settled_s = group.until(group.is_settled, LIMIT_S)
            figures = {
                "group": f"{workers} x {connectors} x {tasks}",
                "event": event,
                "settled_s": round(settled_s, 2),
                "cpu_s": round(time.process_time() - cpu_before, 2),
                "rounds": sum(w.rounds for w in group.workers) - rounds_before,
                "sync_bytes": max(w.assigned_bytes for w in group.workers),
            }
            result.runs.append(Run("ours", figures))
    finally:
        group.close()
    result.conclude()
    result.met = max(result.values("ours")) < 60
    return result
