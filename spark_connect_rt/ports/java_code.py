"""What an executor must know to host a Java plug-in: where its jars are, and what JVM it gets. Values only."""

from __future__ import annotations

from dataclasses import dataclass

DEFAULT_HEAP = "256m"


@dataclass(frozen=True, slots=True)
class JavaCode:
    """Java plug-ins of one task and the JVM that hosts them. Pickles. Equal ones may share a JVM, unless ``alone``."""

    plugins: tuple[str, ...]
    """Folders of jars, or single jars, as they are on the driver: the connector's own first, then what its chain of
    converters and transformations needs besides. Empty: all is in Connect's own jars."""
    heap: str = DEFAULT_HEAP  # as of -Xmx
    options: tuple[str, ...] = ()  # of the JVM, besides ours
    alone: bool = False  # connectrt.isolation=process: a JVM for this task only
    levels: tuple[tuple[str, str], ...] = ()  # of Java's loggers when it starts
    connector_class: str = ""  # Java's name
    connector_version: str = ""  # as the driver found it; empty: the plug-in has none
