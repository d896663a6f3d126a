"""Warns of settings that a properties file sets more than once, once in a process for each file and setting."""

from __future__ import annotations

import logging

from spark_connect_rt.config.java_properties import Properties

log = logging.getLogger(__name__)
_WARNED: set[tuple[str, str]] = set()


def warn_repeated(settings: Properties, source: object) -> Properties:
    """Log a warning for each repeated setting of ``source``, the file's name; return the settings. Any thread."""
    for sentence in settings.repeated:
        if (str(source), sentence) not in _WARNED:
            _WARNED.add((str(source), sentence))
            log.warning("%s: %s", source, sentence)
    return settings
