"""Levels by log4j's names over Python's logging."""

import logging
from collections.abc import Iterator

import pytest

from spark_connect_rt.app.logging_setup import PythonLoggers
from spark_connect_rt.base.loggers import JavaLogLevels, LoggerLevel


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
    loggers = PythonLoggers(JavaLogLevels())
    assert loggers.set_level("test.levels", "DEBUG", 7) == ["test.levels", "test.levels.child"]
    assert logging.getLogger("test.levels.child").getEffectiveLevel() == logging.DEBUG
    assert loggers.level("test.levelsnot") == LoggerLevel("ERROR")
    assert loggers.levels()["test.levels"] == LoggerLevel("DEBUG", 7)
    assert loggers.levels()["root"].last_modified_ms is None


def test_setting_what_is_set_modifies_nothing() -> None:
    loggers = PythonLoggers(JavaLogLevels())
    loggers.set_level("test.levels", "ERROR", 7)
    loggers.set_level("test.levels", "ERROR", 9)
    assert loggers.level("test.levels") == LoggerLevel("ERROR", 7)


def test_only_what_changed_is_answered_and_setting_it_again_changes_nothing() -> None:
    loggers = PythonLoggers(JavaLogLevels())
    logging.getLogger("test.levels.child").setLevel(logging.WARNING)
    logging.getLogger("test.levels").setLevel(logging.ERROR)
    assert loggers.set_level("test.levels", "WARN", 7) == ["test.levels"]
    assert loggers.set_level("test.levels", "WARN", 8) == []


def test_the_root_is_every_logger_whatever_its_case() -> None:
    before = logging.getLogger().level
    child = logging.getLogger("test.levels.child")
    child.setLevel(logging.ERROR)
    loggers = PythonLoggers(JavaLogLevels())
    try:
        loggers.set_level("ROOT", "INFO", 1)
        changed = loggers.set_level("Root", "DEBUG", 7)
        assert {"root", "test.levels.child"} <= set(changed)
        assert changed == sorted(changed)
        assert child.getEffectiveLevel() == logging.DEBUG
        assert loggers.set_level("root", "DEBUG", 8) == []
        assert loggers.level("ROOT") == loggers.level("root") == LoggerLevel("DEBUG", 7)
        assert list(loggers.levels()) == sorted(loggers.levels())
    finally:
        loggers.set_level("root", logging.getLevelName(before).replace("WARNING", "WARN"), 9)


@pytest.mark.parametrize("level", ["OFF", "FATAL", "ERROR", "WARN", "INFO", "DEBUG", "TRACE"])
def test_every_name_comes_back(level: str) -> None:
    loggers = PythonLoggers(JavaLogLevels())
    loggers.set_level("test.levels", level, 1)
    assert loggers.levels()["test.levels"].level == level


def test_off_is_silent_and_an_unknown_logger_has_no_level() -> None:
    loggers = PythonLoggers(JavaLogLevels())
    loggers.set_level("test.levels", "OFF", 1)
    assert not logging.getLogger("test.levels").isEnabledFor(logging.CRITICAL)
    assert loggers.level("test.nobody.made.it") is None


def test_javas_runtime_stands_for_ours() -> None:
    loggers = PythonLoggers(JavaLogLevels())
    assert "spark_connect_rt" in loggers.set_level("org.apache.kafka.connect", "DEBUG", 1)
    assert logging.getLogger("spark_connect_rt").level == logging.DEBUG
