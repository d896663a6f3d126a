"""Starts the JVM beside a driver: its jars, its heap, and what it is given of the worker (no secrets)."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from spark_connect_rt.config.connectrt_config import JAVA_HEAP, JAVA_OPTIONS
from spark_connect_rt.engine.java_host.class_archive import HostProgram
from spark_connect_rt.engine.java_host.driver_host import DriverHost, Limits
from spark_connect_rt.engine.java_host.jar import program_jars
from spark_connect_rt.engine.java_host.process import (
    JavaHostGoneError,
    JavaProcess,
    OnFrame,
    OnGone,
    command_line,
    prepare_archive,
)
from spark_connect_rt.engine.startup.java_home import java_of_plugins

_CONVERTER = "org.apache.kafka.connect.storage.StringConverter"
_WORKER = {  # plug-ins are named by their places, question by question
    "key.converter": _CONVERTER,
    "value.converter": _CONVERTER,
    "plugin.discovery": "service_load",
}

SEARCH_IDLE_S = 10.0

_RUNTIME = "org.apache.kafka.connect.runtime"
_LEVELS = {f"{_RUNTIME}.isolation": "WARN", f"{_RUNTIME}.standalone": "WARN"}  # of what is set up for no task


@dataclass(frozen=True, slots=True)
class JvmSettings:
    """What the worker's file says of the JVM: texts as they stand there."""

    heap: str
    options: str = ""


def driver_host(settings: JvmSettings, limits: Limits | None = None) -> DriverHost:
    """Return the host of a driver's connectors; its JVM starts when it is asked something."""
    return DriverHost(lambda on_frame, on_gone, place: _start(settings, on_frame, on_gone, place), limits)


def searching_host(settings: JvmSettings) -> DriverHost:
    """Return the host in which plug-ins are looked for, and made to be asked their versions; it ends soon."""
    return driver_host(settings, Limits(idle_s=SEARCH_IDLE_S))


def _start(settings: JvmSettings, on_frame: OnFrame, on_gone: OnGone, place: str) -> JavaProcess:
    java = java_of_plugins()
    program = HostProgram(java.executable, tuple(program_jars(java)), (Path(place),) if place else ())

    def command(socket: Path) -> Sequence[str]:
        options = ["-XX:TieredStopAtLevel=1", *shlex.split(settings.options)]  # it moves no records
        return command_line(program, socket, settings.heap, options)

    try:
        process = JavaProcess(command, _WORKER, on_frame, on_gone, _LEVELS)
    except JavaHostGoneError as error:
        raise JavaHostGoneError(
            f"{error} ({JAVA_HEAP}={settings.heap}, {JAVA_OPTIONS}={settings.options!r}, Java {java.major} of "
            f"{java.home})",
            code="CRT-1131",
        ) from error
    prepare_archive(program)
    return process
