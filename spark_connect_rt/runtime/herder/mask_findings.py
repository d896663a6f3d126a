"""The mask that this product shows in place of secrets, sent back as a value: a secret would be lost by it.

Who copies a configuration from the history, a diff or a log has ``[hidden]`` where a password was. Java stores that
text as well, but never shows it in a configuration.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from spark_connect_rt.base.hidden_values import HIDDEN
from spark_connect_rt.config.secrets import named_like_secret

_MASKED = (
    f"is {HIDDEN}, the placeholder for a hidden value. Send the value itself or a reference to a config provider, "
    "or use PATCH, which leaves other settings unchanged"
)


def mask_problems(
    config: Mapping[str, str], stored: Mapping[str, str], secret: Collection[str]
) -> dict[str, list[str]]:
    """Return a complaint for each setting that is the mask. Pure.

    Args:
        config: the configuration as it was sent.
        stored: that of the same connector now; empty: there is none. A setting that is the mask there may stay so.
        secret: names of the settings that are declared to hold secrets.
    """
    return {
        name: [_MASKED]
        for name, value in config.items()
        if value == HIDDEN and _was_masked(name, stored.get(name), secret)
    }


def _was_masked(name: str, stored: str | None, secret: Collection[str]) -> bool:
    return stored != HIDDEN and (stored is not None or name in secret or named_like_secret(name))
