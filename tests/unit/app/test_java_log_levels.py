"""Levels of Java's loggers: the later one covers what is below it, and every JVM is given them."""

from __future__ import annotations

from collections.abc import Mapping

from spark_connect_rt.app.logging_setup import PythonLoggers
from spark_connect_rt.base.loggers import JavaLogLevels


def test_a_later_level_covers_what_is_below_it_and_comes_last() -> None:
    levels = JavaLogLevels()
    for name, level in (("io.debezium", "DEBUG"), ("org.apache", "WARN"), ("io", "INFO"), ("io.debezium.x", "TRACE")):
        levels.set(name, level)
    assert list(levels.current().items()) == [("org.apache", "WARN"), ("io", "INFO"), ("io.debezium.x", "TRACE")]
    levels.set("root", "ERROR")
    assert levels.current() == {"root": "ERROR"}


def test_listeners_are_given_each_change_until_they_are_forgotten() -> None:
    levels = JavaLogLevels()
    came: list[Mapping[str, str]] = []
    levels.listen(came.append)
    levels.set("a", "INFO")
    levels.replace({"a": "INFO"})  # nothing new
    levels.replace({"a": "DEBUG"})
    levels.forget(came.append)
    levels.set("b", "INFO")
    assert came == [{"a": "INFO"}, {"a": "DEBUG"}]


def test_logger_level_also_applies_to_the_java_logger_of_that_name() -> None:
    levels = JavaLogLevels()
    loggers = PythonLoggers(levels)
    loggers.set_level("io.debezium.connector", "DEBUG", 5)
    assert levels.current() == {"io.debezium.connector": "DEBUG"}
    shown = loggers.level("io.debezium.connector")
    assert shown is not None
    assert (shown.level, shown.last_modified_ms) == ("DEBUG", 5)
