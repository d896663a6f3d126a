"""The error of a producer whose transactional id another one has."""

from __future__ import annotations

from spark_connect_rt.errors import FencedError

FENCED = "CRT-1061"


def fenced_error(transactional_id: str, why: str) -> FencedError:
    """Return the error of a fenced producer; ``why`` is what Kafka said."""
    return FencedError(
        f"The producer with transactional id {transactional_id} is fenced: a newer run of this task has started "
        "elsewhere, or its transaction was open for longer than transaction.timeout.ms. Nothing of the open "
        "transaction is visible to readers of committed data. If the task runs nowhere else, restart it. If it "
        f"happens again, raise producer.override.transaction.timeout.ms or use transaction.boundary=poll ({why})",
        code=FENCED,
    )
