"""Runs checks side by side, each within its time. One that does not return becomes a problem, and is left behind.

Owns how many may be left behind: code that hangs (a name server, a driver) cannot be ended, so at some number of them
no more is begun.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from spark_connect_rt.api.outside_checks import Finding, Level, OutsideCheck
from spark_connect_rt.errors import BadConfigError, ConnectError

MOST_LEFT_BEHIND = 100
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PlannedCheck:
    """A check, and what to say of it should it not return."""

    check: str
    setting: str
    look: OutsideCheck


class ParallelChecks:
    """Runs checks in parallel, each within its time. Any thread."""

    def __init__(self, limit_s: float = 10.0, most: int = MOST_LEFT_BEHIND) -> None:
        """Take how long each check may take."""
        self._limit_s, self._most = limit_s, most
        self._running = 0
        self._lock = threading.Lock()

    def run(self, checks: Sequence[PlannedCheck], limit_s: float | None = None) -> list[Finding]:
        """Return what was found, in the order of the checks. Raises ConnectError: too many are left behind."""
        with self._lock:
            if self._running + len(checks) > self._most:
                raise ConnectError(
                    f"{self._running} earlier checks have not returned yet, so no more are started. Try again later",
                    code="CRT-1181",
                )
            self._running += len(checks)
        limit = limit_s or self._limit_s
        found: list[list[Finding] | None] = [None] * len(checks)
        threads = [
            threading.Thread(target=self._run, args=(check, found, at), name=f"check-{check.check}", daemon=True)
            for at, check in enumerate(checks)
        ]
        for thread in threads:
            thread.start()
        end_s = time.monotonic() + limit
        for thread in threads:
            thread.join(max(0.0, end_s - time.monotonic()))
        return [
            line
            for check, lines in zip(checks, found, strict=True)
            for line in (lines if lines is not None else [_late(check, limit)])
        ]

    def _run(self, planned: PlannedCheck, found: list[list[Finding] | None], at: int) -> None:
        try:
            found[at] = list(planned.look())
        except BadConfigError as error:
            found[at] = [
                Finding(planned.check, setting, Level.PROBLEM, "; ".join(why), f"correct {setting}")
                for setting, why in error.problems.items()
            ]
        except Exception as error:
            log.info("check %s of %s failed", planned.check, planned.setting, exc_info=True)
            what = f"{error}" if isinstance(error, ConnectError) else f"{type(error).__name__}: {error}"
            found[at] = [Finding(planned.check, planned.setting, Level.PROBLEM, what)]
        finally:
            with self._lock:
                self._running -= 1


def _late(planned: PlannedCheck, limit_s: float) -> Finding:
    what = f"no answer within {limit_s:g} s"
    change = f"make sure that {planned.setting} names a host that answers this worker" if planned.setting else ""
    return Finding(planned.check, planned.setting, Level.PROBLEM, what, change)
