"""What a validation finds out about the ``producer.``, ``consumer.`` and ``admin.override.`` settings of a connector.

Only of clients that the connector has. Java ``AbstractHerder.validateClientOverrides`` (KIP-458).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from spark_connect_rt.base.java_hash_order import java_hash_order
from spark_connect_rt.config.client_settings import client_config_def
from spark_connect_rt.config.config_def import ConfigDef, ConfigValue, prefixed
from spark_connect_rt.config.override_policy import CLIENT_PREFIXES, override_problems, used_prefixes
from spark_connect_rt.runtime.herder.config_infos import ConfigInfos, prefixed_infos
from spark_connect_rt.runtime.herder.dependencies import HerderDependencies


def override_infos(deps: HerderDependencies, config: Mapping[str, str], *, sink: bool) -> list[ConfigInfos]:
    """Return the answers about the overrides of each client, the policy's complaints among them."""
    prefixes = used_prefixes(config, sink=sink)
    refused = _refused(deps, config, prefixes)
    # A policy that is a plug-in may also refuse what would not be used.
    asked = [
        prefix for prefix in CLIENT_PREFIXES if prefix in prefixes or any(name.startswith(prefix) for name in refused)
    ]
    return [_client_infos(prefix, config, refused) for prefix in asked]


def _refused(deps: HerderDependencies, config: Mapping[str, str], prefixes: Sequence[str]) -> dict[str, list[str]]:
    if deps.override_policy is not None:
        return {name: [why] for name, why in deps.override_policy.problems(config).items()}
    policy = deps.settings.worker.runtime.connector_client_config_override_policy
    return override_problems(config, policy, prefixes)


def _client_infos(prefix: str, config: Mapping[str, str], refused: Mapping[str, Sequence[str]]) -> ConfigInfos:
    definition, given = client_config_def(prefix.partition(".")[0]), prefixed(config, prefix)
    return prefixed_infos(
        prefix,
        definition,
        [_found(definition, name, given[name], refused.get(f"{prefix}{name}", ())) for name in java_hash_order(given)],
    )


def _found(definition: ConfigDef, name: str, text: str, refused: Sequence[str]) -> ConfigValue:
    if name not in definition:
        return ConfigValue(name, text, tuple(refused))
    value, complaints = definition[name].parse({name: text})
    return ConfigValue(name, value, (*complaints, *refused))
