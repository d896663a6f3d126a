"""What a plug-in declares: the answer to ``GET /connector-plugins/{plugin}/config``.

Makes the plug-in, that is runs its own code, so never on the tick thread.
Java ``AbstractHerder.connectorPluginConfig``.
"""

from __future__ import annotations

from dataclasses import replace

from spark_connect_rt.api.connector import Connector
from spark_connect_rt.api.plugin_modules import VERSION_MARK, versioned
from spark_connect_rt.config.config_def import ConfigDef, ConfigKey
from spark_connect_rt.config.override_policy import policy_name
from spark_connect_rt.engine.task_runner import TaskKind
from spark_connect_rt.errors import BadConfigError, BadRequestError, NotFoundError
from spark_connect_rt.plugins.interfaces import PluginFacts
from spark_connect_rt.runtime.herder.connector_definition import common_to
from spark_connect_rt.runtime.herder.dependencies import HerderDependencies
from spark_connect_rt.runtime.worker.launches import kind_of

# In the order of Java's sentence.
_KINDS = ("sink", "source", "converter", "header_converter", "transformation", "predicate")


def plugin_settings(deps: HerderDependencies, name: str, version: str | None) -> list[ConfigKey]:
    """Return the settings of a plug-in, a connector's own ones first; ``version`` None: the newest.

    Raises NotFoundError: no such plug-in; BadRequestError: not of a kind that connectors configure, no such version.
    """
    plain = name.partition(VERSION_MARK)[0]
    try:
        found = deps.plugins.find(plain)
    except NotFoundError:
        if policy_name(plain):
            raise _of_no_connector(name) from None
        raise NotFoundError(f"Unknown plugin {name}.") from None
    if found.type not in _KINDS:
        raise _of_no_connector(name)
    if version is not None:
        found = _of_version(deps, plain, found, version)
    made = found.cls()
    own: ConfigDef = made.config_def()
    if not isinstance(made, Connector):
        return list(own)
    return [*own, *(key for key in _common(deps, found) if key.name not in own)]


def _of_no_connector(name: str) -> BadRequestError:
    return BadRequestError(f"Invalid plugin class {name}. Valid types are {', '.join(_KINDS)}.")


def _of_version(deps: HerderDependencies, name: str, found: PluginFacts, version: str) -> PluginFacts:
    if not version.strip():
        available = ", ".join(deps.plugins.versions(name))
        raise BadRequestError(
            f"Plugin {found.java_class} not found that matches the version range [,], available versions: [{available}]"
        )
    try:
        return deps.plugins.find(versioned(name, version))
    except NotFoundError as error:
        raise BadRequestError(str(error)) from error
    except BadConfigError:
        raise BadRequestError(f"Invalid version specification: {version}") from None


def _common(deps: HerderDependencies, found: PluginFacts) -> list[ConfigKey]:
    """Return what every connector of that kind has; the version's default is the one that would be taken."""
    common = common_to(deps, sink=kind_of(found.cls) is not TaskKind.SOURCE)
    newest = {"connector.plugin.version": found.version}
    return [replace(key, default=newest[key.name]) if key.name in newest else key for key in common]
