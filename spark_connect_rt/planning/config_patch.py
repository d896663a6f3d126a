"""A change to some settings of a connector (KIP-477; Java ``ConnectUtils.patchConfig``)."""

from __future__ import annotations

from collections.abc import Mapping


def patched_config(raw: Mapping[str, str], patch: Mapping[str, str | None]) -> dict[str, str]:
    """Return the raw configuration with the patch applied: a value replaces or adds, None removes."""
    kept = {key: value for key, value in raw.items() if key not in patch}
    return {**kept, **{key: value for key, value in patch.items() if value is not None}}
