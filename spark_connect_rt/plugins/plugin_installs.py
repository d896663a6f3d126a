"""Plug-ins installed while the worker runs, as REST asks for them. Implemented by operations.plugin_install.group_installs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from spark_connect_rt.base.json_shape import JsonShape, described, one_of

INSTALLED, FAILED = "installed", "failed"


@dataclass(frozen=True, slots=True)
class WantedPlugin:
    """What is to be installed. ``name`` and ``version`` replace those that the source says."""

    source: str = field(metadata=described("group:artifact:version, a path or URL, a Python requirement."))
    sha512: str = ""
    name: str = ""
    version: str = ""


@dataclass(frozen=True, slots=True)
class InstallState(JsonShape):
    """How one worker stands with one plug-in: installed, or failed and why."""

    state: str = field(metadata=one_of((INSTALLED, FAILED)))
    reason: str = ""


@dataclass(frozen=True, slots=True)
class InstalledInfo(JsonShape):
    """One installed plug-in, and how the workers of the group stand with it."""

    name: str
    version: str
    source: str
    kind: str
    sha512: str
    installed_by: str
    installed_at_ms: int
    left_out: Sequence[str]  # jars that Connect provides
    plugins: Sequence[str]  # classes found in its jars
    recorded: bool  # False: on this worker alone
    workers: dict[str, InstallState]


class PluginInstalls(Protocol):
    """Installs and removes plug-ins on this worker and, by a record of the group, on all. Any thread; blocks."""

    def install(self, wanted: WantedPlugin, who: str) -> InstalledInfo:
        """Raises AlreadyExistsError, BadRequestError, ForbiddenError, ConnectError; then nothing has changed."""

    def remove(self, name: str, version: str, who: str) -> None:
        """Raises NotFoundError, PluginInUseError."""

    def installed(self) -> Sequence[InstalledInfo]:
        """Return every installed plug-in, by name and version."""

    def problem(self) -> str:
        """Return why the group's record is not followed at the moment; empty: it is."""
