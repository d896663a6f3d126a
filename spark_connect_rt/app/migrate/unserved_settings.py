"""Settings of Kafka Connect whose effect this version does not have, and that promise nothing by their defaults.

A promise that would be broken in silence (protection, delivery) is refused where the setting is checked; what only
changes comfort is said on the reference pages. A line goes when the feature comes.
"""

from __future__ import annotations

WITHOUT_EFFECT = {
    "metrics.recording.level": "every metric is recorded; see /admin/metrics",
}


def in_this_version(name: str) -> str:
    """Return what the reference page adds about a setting; empty when it has its whole effect."""
    return WITHOUT_EFFECT.get(name, "")
