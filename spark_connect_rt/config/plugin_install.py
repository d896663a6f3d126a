"""Settings of installing plug-ins while a worker runs: where they go, who may, from where. Ours; Java ignores them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from spark_connect_rt.config.config_def import LOW, MEDIUM, ConfigDef, ConfigKey, Type
from spark_connect_rt.config.settings_group import SettingsGroup
from spark_connect_rt.config.validators import AtLeast, one_of

DIRECTORY = "connectrt.plugins.directory"
INSTALL = "connectrt.plugins.install"
TOKEN_FILE = "connectrt.plugins.install.token.file"
ALLOWED = "connectrt.plugins.allowed"
SIZE_MAX = "connectrt.plugins.size.max.bytes"
STORAGE_TOPIC = "connectrt.plugins.storage.topic"
WATCH = "connectrt.plugins.watch.interval.ms"
LOOPBACK, ALLOW, DENY = "loopback", "allow", "deny"

PLUGIN_INSTALL = ConfigDef(
    [
        ConfigKey(
            DIRECTORY,
            Type.STRING,
            None,
            MEDIUM,
            "Folder that plug-ins are installed in, one subfolder name-version for each. Workers may share it. It "
            "is searched like a folder of plugin.path. Not set: the first writable folder of plugin.path outside "
            "a source checkout, else a folder in the cache for this group.id and bootstrap.servers.",
        ),
        ConfigKey(
            INSTALL,
            Type.STRING,
            LOOPBACK,
            MEDIUM,
            "Who may install and remove plug-ins over REST. loopback: clients on this machine, on admin.listeners "
            "with only loopback addresses or with the token of connectrt.plugins.install.token.file. allow: every "
            "client of the REST API. deny: no client. Plug-in code runs with the worker's rights.",
            one_of(LOOPBACK, ALLOW, DENY, ignore_case=True),
        ),
        ConfigKey(
            TOKEN_FILE,
            Type.STRING,
            None,
            LOW,
            "File (mode 600) with the token that a client on this machine sends in X-Connectrt-Install-Token. The "
            "command connectrt plugins sends it automatically. It is created if it does not exist. Not set: "
            "install.token in the cache (CONNECTRT_CACHE, else ~/.cache/connectrt) of the worker's user.",
        ),
        ConfigKey(
            ALLOWED,
            Type.LIST,
            (),
            MEDIUM,
            "What may be installed, separated by commas. * matches any text. Coordinates (io.debezium:*), hosts "
            "of URLs (plugins.example.com), whole URLs, file:/folder/*, Python distributions (pypi:orders*). "
            "Empty: anything.",
        ),
        ConfigKey(
            SIZE_MAX,
            Type.LONG,
            1024**3,
            LOW,
            "Largest size of a plug-in, bytes. It applies to the download and to the unpacked files.",
            AtLeast(1),
        ),
        ConfigKey(
            STORAGE_TOPIC,
            Type.STRING,
            None,
            LOW,
            "Compacted topic of installed plug-ins: every worker of the group installs what one of them has. "
            "Created at the first install. Not set: config.storage.topic with the suffix -plugins.",
        ),
        ConfigKey(
            WATCH,
            Type.LONG,
            5_000,
            LOW,
            "Time between two checks of the folders of plugin.path, ms. A change counts once two checks have "
            "found the same content. 0: the worker only checks them when a configuration names an unknown "
            "plug-in.",
            AtLeast(0),
        ),
    ]
)


@dataclass(frozen=True, slots=True)
class PluginInstallSettings(SettingsGroup):
    """Where plug-ins are installed, and who may."""

    definition: ClassVar[ConfigDef] = PLUGIN_INSTALL
    connectrt_plugins_directory: str | None
    connectrt_plugins_install: str
    connectrt_plugins_install_token_file: str | None
    connectrt_plugins_allowed: tuple[str, ...]
    connectrt_plugins_size_max_bytes: int
    connectrt_plugins_storage_topic: str | None
    connectrt_plugins_watch_interval_ms: int
