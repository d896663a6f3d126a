"""A change to some settings of a connector (KIP-477; Java ``ConnectUtils.patchConfig``)."""

from __future__ import annotations

from collections.abc import Mapping

from spark_connect_rt.base.java_hash_order import hash_order_of_copy, in_java_hash_order


def patched_config(raw: Mapping[str, str], patch: Mapping[str, str | None]) -> dict[str, str]:
    """Return the raw configuration with the patch applied: a value replaces or adds, None removes. Java's order."""
    patched = {**in_java_hash_order(raw), **patch}
    kept = {key: value for key, value in patched.items() if value is not None}
    return {key: kept[key] for key in hash_order_of_copy(raw, kept)}
