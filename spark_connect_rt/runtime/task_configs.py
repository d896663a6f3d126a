"""A connector's generated task configurations: checked, made raw again, compared with what is stored.

Sources: Java ``AbstractHerder.reverseTransform``, ``taskConfigsChanged``, ``Worker.connectorTaskConfigs``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from spark_connect_rt.base.backoff import Backoff
from spark_connect_rt.config.stored_config import StoredConfig
from spark_connect_rt.errors import ConnectError

_REFERENCE_OPENS = "${"
_RETRIES = Backoff(first=250, longest=60_000)


def enforces(connector_config: Mapping[str, str]) -> bool:
    """Return ``tasks.max.enforce`` of a resolved configuration, read as Java reads a boolean."""
    return connector_config.get("tasks.max.enforce", "true").strip().lower() != "false"


def checked_count(name: str, generated: Sequence[Mapping[str, str]], tasks_max: int, enforce: bool) -> str | None:
    """Hold the connector to ``tasks.max``; return a warning where the breach is permitted.

    Raises:
        ConnectError: too many tasks and ``tasks.max.enforce`` is true (KIP-1004); the connector fails.
    """
    if len(generated) <= tasks_max:
        return None
    # Java's words (TooManyTasksException): tests and alerts look for them.
    breach = (
        f"The connector {name} has generated {len(generated)} tasks, which is greater than {tasks_max}, the maximum "
        "number of tasks it is configured to create."
    )
    if enforce:
        raise ConnectError(
            f"{breach} Correct the connector, raise tasks.max, or permit it with tasks.max.enforce=false.",
            code="CRT-1090",
        )
    return breach


def checked_configs(name: str, generated: object) -> Sequence[Mapping[str, str]]:
    """Return what a connector's ``task_configs`` answered. Raises ConnectError: it is not a list of settings."""
    if isinstance(generated, Sequence) and not isinstance(generated, str | bytes):
        wrong = next((config for config in generated if not _is_settings(config)), None)
        if wrong is None and None not in generated:
            return generated
        generated = wrong
    raise ConnectError(
        f"connector {name} answered task_configs with {type(generated).__name__}. Return a list with one mapping of "
        "setting names to texts for each task, an empty list for none"
    )


def _is_settings(config: object) -> bool:
    return isinstance(config, Mapping) and all(
        isinstance(key, str) and (value is None or isinstance(value, str)) for key, value in config.items()
    )


def raw_task_config(
    task_config: Mapping[str, str], connector: StoredConfig, resolved: Mapping[str, str]
) -> dict[str, str]:
    """Put ``${provider:...}`` references back where the task got the connector's value under the same key.

    Secrets so never reach the config topic. A value that the connector computed from a secret stays as it is.
    """
    raw = connector.written()
    return {
        key: raw[key] if _REFERENCE_OPENS in raw.get(key, "") and resolved.get(key) == value else value
        for key, value in task_config.items()
    }


def completed_task_config(
    task_config: Mapping[str, str], task_class: str, connector: StoredConfig, sink: bool
) -> dict[str, str]:
    """Add what the worker owes every task: its class, and a sink's topics."""
    completed = {key: value for key, value in task_config.items() if value is not None}
    completed["task.class"] = task_class
    if sink:
        for key in ("topics", "topics.regex"):
            if text := connector.written().get(key):
                completed.setdefault(key, text)
    return completed


def task_configs_changed(
    generated: Sequence[Mapping[str, str]],
    stored: Sequence[StoredConfig],
    connector_config: StoredConfig | None,
    applied_config: StoredConfig | None,
) -> str | None:
    """Return why the stored set must be rewritten, None when it need not be.

    ``applied_config`` is the connector configuration the stored set was made from; when that is no longer the
    connector's, tasks restart although their own configurations are equal (KAFKA-9228).
    """
    if len(generated) != len(stored):
        return f"{len(stored)} tasks become {len(generated)}"
    for number, (new, old) in enumerate(zip(generated, stored, strict=True)):
        if old != new:
            return f"task {number} has a new configuration"
    if applied_config is None or connector_config is None or applied_config != connector_config:
        return "the connector's configuration changed"
    return None


def retry_delay_ms(attempt: int, chance: float) -> int:
    """Return how long to wait before attempt ``attempt`` + 1 (from 0) to hand in task configs: 250 ms to 60 s.

    ``chance`` from 0 to 1 spreads the waits of many connectors (``Backoff.wait``).
    """
    return int(_RETRIES.wait(attempt + 1, chance))
