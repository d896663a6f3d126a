"""Levels by log4j's names over Python's logging."""

import logging
from collections.abc import Iterator

import pytest

from spark_connect_rt.app.logger_levels import PythonLoggers
from spark_connect_rt.ports.loggers import LoggerLevel


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    loggers = [it for it in logging.Logger.manager.loggerDict.values() if isinstance(it, logging.Logger)]
    before = [(logger, logger.level) for logger in loggers]
    yield
    for logger, level in before:
        logger.setLevel(level)
    for name in ("test.levels", "test.levels.child", "test.levelsnot", "org.apache.kafka.connect"):
        logging.getLogger(name).setLevel(logging.NOTSET)


def test_a_namespace_is_the_logger_and_all_below_it() -> None:
    logging.getLogger("test.levels.child").setLevel(logging.ERROR)
    logging.getLogger("test.levelsnot").setLevel(logging.ERROR)
    loggers = PythonLoggers()
    assert loggers.set_level("test.levels", "DEBUG", 7) == ["test.levels", "test.levels.child"]
    assert logging.getLogger("test.levels.child").getEffectiveLevel() == logging.DEBUG
    assert loggers.level("test.levelsnot") == LoggerLevel("ERROR")
    assert loggers.levels()["test.levels"] == LoggerLevel("DEBUG", 7)
    assert loggers.levels()["root"].last_modified_ms is None


def test_setting_what_is_set_modifies_nothing() -> None:
    loggers = PythonLoggers()
    loggers.set_level("test.levels", "WARN", 7)
    loggers.set_level("test.levels", "WARN", 9)
    assert loggers.level("test.levels") == LoggerLevel("WARN", 7)


@pytest.mark.parametrize("level", ["OFF", "FATAL", "ERROR", "WARN", "INFO", "DEBUG", "TRACE"])
def test_every_name_comes_back(level: str) -> None:
    loggers = PythonLoggers()
    loggers.set_level("test.levels", level, 1)
    assert loggers.levels()["test.levels"].level == level


def test_off_is_silent_and_an_unknown_logger_is_none() -> None:
    loggers = PythonLoggers()
    loggers.set_level("test.levels", "OFF", 1)
    assert not logging.getLogger("test.levels").isEnabledFor(logging.CRITICAL)
    assert loggers.level("test.nobody.made.it") is None


def test_javas_runtime_stands_for_ours() -> None:
    loggers = PythonLoggers()
    assert "spark_connect_rt" in loggers.set_level("org.apache.kafka.connect", "DEBUG", 1)
    assert logging.getLogger("spark_connect_rt").level == logging.DEBUG
