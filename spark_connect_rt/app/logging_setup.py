"""Where log lines go: standard error, one line a state change, ids first."""

from __future__ import annotations

import faulthandler
import logging
import sys
import threading
from collections.abc import Mapping, Sequence
from functools import partial

from spark_connect_rt.base.hidden_values import MaskingFormatter
from spark_connect_rt.base.loggers import JAVA_LOG_LEVELS, NUMBERS, ROOT, JavaLogLevels, LoggerLevel, quiet_libraries
from spark_connect_rt.config.connectrt_config import JobSettings
from spark_connect_rt.engine.task_logs import DriverLogs

_STARTED = logging.INFO  # at least: task logs hold what a connector's life is, however quiet the terminal


def set_up_logging(settings: Mapping[str, str]) -> None:
    """Have standard error show ``connectrt.log.level`` and above (default WARNING under the quickstart, else INFO).

    The logs of tasks and connectors hold INFO in any case. A fault in a native library (SIGSEGV in librdkafka) leaves
    the stacks of all threads, else it would end without a word.
    """
    if not faulthandler.is_enabled():
        faulthandler.enable(sys.__stderr__ or sys.stderr)
    job = JobSettings.of(settings)
    level = job.connectrt_log_level or ("WARNING" if job.connectrt_job == "quickstart" else "INFO")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(MaskingFormatter())
    shown = logging.getLevelNamesMapping()[level.upper()]
    if shown > _STARTED:
        handler.addFilter(partial(_is_shown, shown))
    logging.basicConfig(handlers=[handler, DriverLogs()], level=min(shown, _STARTED), force=True)
    quiet_libraries()


def _is_shown(shown: int, record: logging.LogRecord) -> bool:
    """Return whether standard error has a line: of a logger whose level was set since, it has all that passed."""
    return record.levelno >= shown or logging.getLogger(record.name).getEffectiveLevel() < _STARTED


# Port Loggers over Python's ``logging``: log4j's level names outside, Python's numbers inside.


JAVA_RUNTIME, OWN_RUNTIME = "org.apache.kafka.connect", "spark_connect_rt"
for _name in ("TRACE", "OFF"):
    logging.addLevelName(NUMBERS[_name], _name)


class PythonLoggers:
    """The process's loggers. Java's runtime package stands for ours: a level of one is also set for the other."""

    def __init__(self, java: JavaLogLevels = JAVA_LOG_LEVELS) -> None:
        """``java``: receives levels of JVMs' loggers; every level that is set here is set there, too."""
        self._java = java
        self._lock = threading.Lock()
        self._modified: dict[str, int] = {}

    def levels(self) -> Mapping[str, LoggerLevel]:
        """Return the loggers that have a level, and the root, by name."""
        with self._lock:
            own = {name: it for name, it in _existing().items() if it.level != logging.NOTSET}
            named = {ROOT: logging.getLogger(), **own}
            return {name: self._shown(name, named[name]) for name in sorted(named)}

    def level(self, name: str) -> LoggerLevel | None:
        """Return the level of one logger, None if it does not exist."""
        name = _canonical(name)
        with self._lock:
            logger = logging.getLogger() if name == ROOT else _existing().get(name)
            return None if logger is None else self._shown(name, logger)

    def set_level(self, namespace: str, level: str, now_ms: int) -> Sequence[str]:
        """Set the level of a logger and all below it; return the names of those that changed, sorted."""
        namespace = _canonical(namespace)
        self._java.set(namespace, level)
        with self._lock:
            names = {ROOT, *_existing()} if namespace == ROOT else _at_or_below(namespace)
            if _is_at_or_below(JAVA_RUNTIME, namespace):
                names |= _at_or_below(OWN_RUNTIME)
            loggers = {name: logging.getLogger(None if name == ROOT else name) for name in names}
            changed = sorted(name for name, it in loggers.items() if it.getEffectiveLevel() != NUMBERS[level])
            self._modified.update(dict.fromkeys(changed, now_ms))
            for name, logger in loggers.items():
                if logger.level != logging.NOTSET or name in (namespace, OWN_RUNTIME):
                    logger.setLevel(NUMBERS[level])
            return changed

    def _shown(self, name: str, logger: logging.Logger) -> LoggerLevel:
        return LoggerLevel(_name_of(logger.getEffectiveLevel()), self._modified.get(name))


def _existing() -> dict[str, logging.Logger]:
    known = logging.Logger.manager.loggerDict.items()
    return {name: it for name, it in list(known) if isinstance(it, logging.Logger)}


def _canonical(name: str) -> str:
    return ROOT if name.lower() == ROOT else name


def _at_or_below(namespace: str) -> set[str]:
    return {namespace} | {name for name in _existing() if _is_at_or_below(name, namespace)}


def _is_at_or_below(name: str, namespace: str) -> bool:
    return name == namespace or name.startswith(f"{namespace}.")


def _name_of(number: int) -> str:
    """Return the coarsest name that still lets through what ``number`` does."""
    return next((name for name, least in sorted(NUMBERS.items(), key=lambda item: item[1]) if number <= least), "OFF")
