"""Heap and options of a host's JVM, and its signs of life."""

from __future__ import annotations

import threading
import time

import pytest

from spark_connect_rt.config.connectrt_config import CONNECTOR, heap_bytes, heap_complaint, options_complaint
from spark_connect_rt.engine.java_host.process import JvmLiveness, for_records, jvm_options
from spark_connect_rt.errors import BadConfigError


def test_sizes_are_read_as_the_jvm_reads_them() -> None:
    assert [heap_bytes(text) for text in ("256m", " 1G ", "65536K", "99", "1t", "", "-1m", "1.5g")] == [
        256 << 20,
        1 << 30,
        64 << 20,
        99,
        None,
        None,
        None,
        None,
    ]


@pytest.mark.parametrize(
    ("heap", "why"), [("many", "not a valid size"), ("31m", "too small"), ("2048g", "any machine")]
)
def test_a_heap_that_cannot_be_is_refused_with_the_setting(heap: str, why: str) -> None:
    assert why in str(heap_complaint(heap))
    with pytest.raises(BadConfigError, match=rf"connectrt\.java\.heap: .*{why}"):
        jvm_options(heap)


@pytest.mark.parametrize(
    ("setting", "value", "why"),
    [
        ("heap", "8m", "8m is too small for a Java host. Use at least 32m"),
        ("heap", "lots", "'lots' is not a valid size. Use a number with k, m or g"),
        ("options", "-Da=b 'c", "not a valid list of options: No closing quotation"),
        ("options", "-Xss1m -jar x.jar", "-jar cannot be set, because the host sets it itself"),
        ("options", "Main", "'Main' is not a JVM option"),
    ],
)
def test_impossible_jvm_setting_is_refused_at_creation(setting: str, value: str, why: str) -> None:
    name = f"connectrt.java.{setting}"
    found = {config_value.name: config_value.errors for config_value in CONNECTOR.validate({name: value})}
    assert len(found[name]) == 1
    assert why in found[name][0]
    good = {"connectrt.java.heap": "64m", "connectrt.java.options": "-Da='b c' -Xss1m"}
    assert [config_value.errors for config_value in CONNECTOR.validate(good) if config_value.errors] == []


def test_options_come_last_and_may_not_be_the_hosts_own() -> None:
    options = jvm_options("64m", ["-Xmx80m", "-Da=b"])
    assert options[:3] == ["-Xms16m", "-Xmx64m", "-XX:MaxDirectMemorySize=64m"]
    assert options[-2:] == ["-Xmx80m", "-Da=b"]
    assert "-XX:+ExitOnOutOfMemoryError" in options
    for wrong in ("Main", "-cp", "-XX:-ExitOnOutOfMemoryError"):
        assert options_complaint([wrong])
    assert options_complaint(["-Xss1m"]) is None


def test_a_heap_with_room_begins_with_a_larger_young_part() -> None:
    options = jvm_options("256m", [*for_records("256m"), "-Xms40m"])
    assert [option for option in options if option.startswith("-Xms")] == [
        "-Xms16m",
        "-Xms24m",
        "-Xms40m",
    ]  # the last counts
    assert "-XX:NewSize=16m" in options
    assert not any("NewSize" in record for record in for_records("64m"))


def test_how_much_stays_free_is_the_users_if_they_say_anything_of_it() -> None:
    assert "-XX:MinHeapFreeRatio=60" in for_records("256m")
    said = ["-XX:MaxHeapFreeRatio=60"]  # beside ours the JVM would not start
    assert not any("HeapFreeRatio" in record for record in for_records("256m", said))


def test_silence_is_reported_once_and_ends_in_a_kill(caplog: pytest.LogCaptureFixture) -> None:
    killed: list[str] = []
    over = threading.Event()

    def kill(reason: str) -> None:
        killed.append(reason)
        over.set()

    signs = JvmLiveness(7, kill, kill_after_s=0.5)
    for _ in range(8):  # longer than the limit, but never silent for so long
        time.sleep(0.1)
        signs.notice()
    assert not killed
    assert over.wait(5)
    assert len(killed) == 1
    assert "no sign of life" in killed[0]
    assert sum("has shown no sign of life" in line.getMessage() for line in caplog.records) >= 1


def test_a_jvm_that_was_let_go_is_watched_no_more() -> None:
    killed: list[str] = []
    signs = JvmLiveness(7, killed.append, kill_after_s=0.2)
    signs.end()
    signs.end()
    time.sleep(0.5)
    assert killed == []
