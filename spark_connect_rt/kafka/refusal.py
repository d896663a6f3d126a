"""Why a broker will not have this client: what a coordinator's answers and failed connections have in common."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Refusal:
    """The setting to correct, for an answer that repeating cannot change."""

    setting: str
    reason: str
