"""The process's limit of open files: raised to the system's maximum, checked before a worker starts.

A JVM raises its own soft limit (HotSpot's MaxFDLimit) and Python does not, so the two halves of a worker would run out
at different loads. Owns the numbers and their sentences; ``app`` and the executors' daemon call it.
"""

from __future__ import annotations

import contextlib
import os
import resource
from dataclasses import dataclass

MINIMUM = 512
"""Spark's JVM opens about 420 files before it runs a job, most of them jars; the worker's own process about 120."""
RECOMMENDED = 4_096
MOST = 1_048_576
"""Used where the hard limit is unlimited or greater. Linux grants a process this many by default (``fs.nr_open``)."""
NOWHERE = "/dev/null"


@dataclass(frozen=True, slots=True)
class DescriptorLimit:
    """How many files this process may open; ``hard``: how many an operator would have to allow at least."""

    soft: int
    hard: int


def raise_descriptor_limit() -> DescriptorLimit:
    """Raise the soft limit of this process to its hard limit, at most ``MOST``; return the limit in force afterwards.

    Processes that are forked or started from now on inherit it. A system that refuses leaves the limit unchanged.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST if hard == resource.RLIM_INFINITY else min(hard, MOST)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        # macOS limits it by kern.maxfilesperproc, even below the hard limit.
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return descriptor_limit()


def descriptor_limit() -> DescriptorLimit:
    """Return the limits in force; an unlimited one counts as ``MOST``."""
    soft, hard = (
        MOST if limit == resource.RLIM_INFINITY else limit for limit in resource.getrlimit(resource.RLIMIT_NOFILE)
    )
    return DescriptorLimit(soft, hard)


def open_descriptors() -> int | None:
    """Return how many files this process has open now, None where the system does not show it."""
    for folder in ("/proc/self/fd", "/dev/fd"):
        try:
            return len(os.listdir(folder)) - 1  # without the folder itself
        except OSError:
            continue
    return None


def too_low(limit: DescriptorLimit) -> str:
    """Return why a worker cannot start with this limit, naming it and the fix; empty when it can."""
    if limit.soft >= MINIMUM:
        return ""
    return (
        f"this process may open {limit.soft} files (ulimit -n; hard limit {limit.hard}), but a worker needs at "
        f"least {MINIMUM}, because Spark's JVM alone opens about 420. Raise the hard limit to {RECOMMENDED} or "
        "more: ulimit -Hn in the shell, LimitNOFILE= of a systemd unit, nofile in limits.conf, --ulimit nofile= "
        "of a container."
    )


def rather_low(limit: DescriptorLimit) -> str:
    """Return a warning about a limit that a busy worker may reach; empty when it is high enough."""
    if limit.soft >= RECOMMENDED:
        return ""
    return (
        f"this process may open {limit.soft} files (ulimit -n; hard limit {limit.hard}). A worker with many tasks and "
        f"REST clients may need more: raise the hard limit to {RECOMMENDED} or more. "
        "GET /admin/group shows how many files are open."
    )
