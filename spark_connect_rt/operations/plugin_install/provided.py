"""What Connect brings itself, and a plug-in's folder must therefore not hold: jars of a Maven closure. Pure.

A plug-in's class loader looks in its own folder first. With a Jackson of its own there, the modules that Connect's
service files name are no subtypes of its ``Module``: the plug-in fails at its start. Vendors' archives leave these out;
the dependencies of a coordinate do not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

PROVIDED = frozenset(
    {
        "connect-api",
        "connect-json",
        "connect-runtime",
        "connect-transforms",
        "kafka-clients",
        "jackson-annotations",
        "jackson-core",
        "jackson-databind",
        "jackson-datatype-jdk8",
        "jackson-module-afterburner",
        "jackson-module-blackbird",
        "lz4-java",
        "snappy-java",
        "zstd-jni",
        # Logging: the host's, whatever the plug-in was built with; two bindings of slf4j quarrel.
        "slf4j-api",
        "slf4j-simple",
        "slf4j-log4j12",
        "slf4j-reload4j",
        "log4j-slf4j-impl",
        "log4j-slf4j2-impl",
        "logback-classic",
        "reload4j",
    }
)
_VERSION = re.compile(r"-\d[\w.+-]*$")


def artifact_of(jar_name: str) -> str:
    """Return ``zstd-jni`` of ``zstd-jni-1.5.6-10.jar``."""
    return _VERSION.sub("", jar_name.removesuffix(".jar"))


def left_out(jar_names: Iterable[str], wanted: str) -> list[str]:
    """Return the jars that stay out of the folder, sorted; never the one that was asked for (its artifact)."""
    return sorted(name for name in jar_names if (artifact := artifact_of(name)) in PROVIDED and artifact != wanted)
