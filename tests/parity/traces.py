"""The expected traces of Connect's incremental assignor as histories: what its own tests tell of, by name."""

from __future__ import annotations

from tests.parity.group_history import Step

ROUND: Step = ["round", {"leader": "a"}]
DELAY_MS = 300_000


def two_workers(*more: Step) -> list[Step]:
    """Two connectors of four tasks on workers a and b, settled in two rounds; then more."""
    return [["configure", "c1", 4], ["configure", "c2", 4], ["join", "a"], ROUND, ["join", "b"], ROUND, ROUND, *more]


def by_leader(leader: str, **more: object) -> Step:
    """A round that another worker leads, or in which something goes wrong."""
    return ["round", {"leader": leader, **more}]


TRACES: dict[str, tuple[int, list[Step]]] = {
    "a second worker gets its half in two rounds": (DELAY_MS, two_workers(ROUND)),
    "a worker that left is replaced after the delay": (
        DELAY_MS,
        two_workers(["leave", "b"], ROUND, ["wait", DELAY_MS // 2], ROUND, ["wait", DELAY_MS // 2], ROUND, ROUND),
    ),
    "a worker that bounced within the delay gets its work back": (
        DELAY_MS,
        two_workers(["leave", "b"], ROUND, ["wait", 150_000], ["join", "c"], ROUND, ["wait", 150_001], ROUND, ROUND),
    ),
    "two candidates share lost work": (
        DELAY_MS,
        two_workers(
            ["leave", "b"], ROUND, ["join", "c"], ["join", "d"], ROUND, ["wait", DELAY_MS], ROUND, ROUND, ROUND
        ),
    ),
    "a worker that comes back still running keeps its work": (
        DELAY_MS,
        two_workers(["leave", "b"], ROUND, ["return", "b"], ROUND, ["wait", DELAY_MS], ROUND),
    ),
    "without a delay lost work moves at once": (0, two_workers(["leave", "b"], ROUND, ROUND)),
    "a new leader places the dead leader's work at once": (
        DELAY_MS,
        two_workers(["leave", "a"], by_leader("b"), by_leader("b")),
    ),
    "a leader that comes back after another led forgets": (
        DELAY_MS,
        two_workers(["leave", "a"], by_leader("b"), ["return", "a"], ROUND, ROUND, ROUND, ROUND),
    ),
    "work held twice is revoked from both": (
        DELAY_MS,
        two_workers(["claim", "a", ["c1", "c2"], [["c1", n] for n in range(4)]], ROUND, ROUND, ROUND),
    ),
    "an unknown claim is left alone until it is in the way": (
        DELAY_MS,
        two_workers(["claim", "b", ["gone"], [["gone", 0], ["gone", 1]]], ROUND, ROUND, ["join", "c"], ROUND, ROUND),
    ),
    "the leader never synced, first round": (
        DELAY_MS,
        [["configure", "c1", 4], ["join", "a"], ["join", "b"], by_leader("a", deaf="ab"), ROUND, ROUND],
    ),
    "the leader never synced, later round": (
        DELAY_MS,
        two_workers(["leave", "b"], by_leader("a", deaf="ab"), ROUND, ROUND),
    ),
    "a member never heard its assignment": (
        DELAY_MS,
        [["configure", "c1", 4], ["join", "a"], ["join", "b"], by_leader("a", deaf="b"), ROUND, ROUND],
    ),
    "a member never heard its revocation": (
        DELAY_MS,
        [["configure", "c1", 8], ["join", "a"], ROUND, ["join", "b"], by_leader("a", deaf="a"), ROUND, ROUND, ROUND],
    ),
    "deleted, shrunk and new work": (
        DELAY_MS,
        two_workers(["delete", "c1"], ["configure", "c2", 2], ["configure", "c3", 5], ROUND, ROUND, ROUND),
    ),
    "an emptied cluster": (DELAY_MS, two_workers(["delete", "c1"], ["delete", "c2"], ROUND, ROUND)),
    "new work during a delay, no balancing": (
        DELAY_MS,
        two_workers(["leave", "b"], ROUND, ["join", "c"], ["configure", "c3", 2], ROUND, ["wait", DELAY_MS], ROUND),
    ),
    "an inconsistent connector has no tasks": (DELAY_MS, two_workers(["configure", "c2", None], ROUND, ROUND)),
    "back-off of successive revocations: 40, 1600, 64000, 300000": (
        DELAY_MS,
        [
            ["configure", "c1", 60],
            ["join", "a"],
            ROUND,
            ["join", "b"],
            ROUND,
            *(
                step
                for n, ms in zip("cdef", (40, 1_600, 64_000, 300_000), strict=True)
                for step in (["join", n], ROUND, ["wait", ms], ROUND)
            ),
            *[ROUND] * 4,
        ],
    ),
    "no back-off without a delay": (
        0,
        [["configure", "c1", 12], ["join", "a"], ROUND, ["join", "b"], ROUND, ["join", "c"], *[ROUND] * 4],
    ),
    "a leader that is behind refuses": (
        DELAY_MS,
        two_workers(["configure", "c3", 1], by_leader("a", store_lag=1), by_leader("a", lag=1), ROUND),
    ),
    "the members are behind": (
        DELAY_MS,
        two_workers(["configure", "c3", 1], by_leader("a", behind="b"), ["configure", "c4", 1], ROUND),
    ),
    "eager deals anew each time": (
        DELAY_MS,
        [
            ["configure", "c1", 3],
            ["configure", "b", 4],
            ["join", "a"],
            ["join", "b"],
            by_leader("a", protocol="eager"),
            ["join", "c"],
            by_leader("a", protocol="eager"),
            ["leave", "b"],
            by_leader("a", protocol="eager"),
        ],
    ),
    "a downgrade to eager and back": (
        DELAY_MS,
        two_workers(["join", "c"], by_leader("a", protocol="eager"), ROUND, by_leader("a", protocol="compatible")),
    ),
}
