"""Frames between Python and a Java host."""

from __future__ import annotations

import socket
import struct
import threading
from pathlib import Path

import pytest

from spark_connect_rt.engine.java_host import wire
from spark_connect_rt.engine.java_host.class_archive import HostProgram
from spark_connect_rt.engine.java_host.compiler import artifact_of
from spark_connect_rt.engine.java_host.process import command_line
from spark_connect_rt.engine.java_host.wire import (
    Frame,
    FromJava,
    ToJava,
    WireError,
    encode_frame,
    read_frame,
    send_frame,
)


def read(content: bytes) -> Frame | None:
    """Return the first frame of these bytes, behind which the other side is gone."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(content)
        theirs.shutdown(socket.SHUT_WR)
        return read_frame(ours)


def test_a_frame_is_its_head_and_its_data() -> None:
    data = b"\0\1\2"
    frame = read(encode_frame(ToJava.PUT, 7, {"rows": 1}, len(data)).replace(b"P", FromJava.BATCH.value, 1) + data)
    assert frame is not None
    assert (frame.kind, frame.host, frame.head, bytes(frame.data)) == (FromJava.BATCH, 7, {"rows": 1}, data)
    assert read(encode_frame(ToJava.START, 3)) == Frame(FromJava.STARTED, 3, None, memoryview(b""))


@pytest.mark.parametrize("kept", [0, 1, 12, 13, 15])
def test_a_frame_that_is_truncated_is_the_end(kept: int) -> None:
    assert read(encode_frame(ToJava.START, 3, {"a": 1})[:kept]) is None


@pytest.mark.parametrize(
    "content",
    [
        struct.pack("<icii", 9, b"B", 1, 5),  # a head longer than the frame
        struct.pack("<icii", 9, b"B", 1, -1),
        struct.pack("<icii", -1, b"B", 1, 0),
        struct.pack("<icii", 2**31 - 1, b"B", 1, 0),  # more than any frame may have
        struct.pack("<icii", 9, b"?", 1, 0),
        struct.pack("<icii", 12, b"B", 1, 3) + b"{a}",
    ],
)
def test_invalid_frame_is_refused(content: bytes) -> None:
    with pytest.raises(WireError):
        read(content)


def test_oversized_frame_is_refused_before_anything_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "FRAME_BYTES_MAX", 100)
    with pytest.raises(ValueError, match="too large for a Java host"):
        encode_frame(ToJava.PUT, 1, None, 100)


def test_many_large_parts_are_sent_whole_and_in_order() -> None:
    parts = [bytes([number % 251]) * (number * 37) for number in range(1_500)]
    ours, theirs = socket.socketpair()
    received = bytearray()

    def receive() -> None:
        while content := theirs.recv(1 << 16):
            received.extend(content)

    reader = threading.Thread(target=receive)
    reader.start()
    with ours:
        send_frame(ours, parts)
        ours.shutdown(socket.SHUT_WR)
        reader.join(30)
    theirs.close()
    assert bytes(received) == b"".join(parts)


@pytest.mark.parametrize(
    ("jar", "artifact"),
    [
        ("kafka-clients-4.1.1.jar", "kafka-clients"),
        ("zstd-jni-1.5.6-10.jar", "zstd-jni"),
        ("snappy-java-1.1.10.7.jar", "snappy-java"),
        ("jackson-datatype-jdk8-2.19.0.jar", "jackson-datatype-jdk8"),
        ("commons-lang3-3.12.0.jar", "commons-lang3"),
    ],
)
def test_a_jars_name_is_taken_apart(jar: str, artifact: str) -> None:
    assert artifact_of(Path(jar)) == artifact


def test_a_host_ends_when_it_is_out_of_memory_and_gets_the_users_options() -> None:
    command = command_line(HostProgram(Path("java"), (Path("a.jar"), Path("b.jar"))), Path("s"), "64m", ["-Dx=1"])
    assert command[:3] == ["java", "-Xms16m", "-Xmx64m"]
    assert {"-XX:+ExitOnOutOfMemoryError", "-Dx=1"} <= set(command)
    assert command[-4:-1] == ["-cp", "a.jar:b.jar", "org.sparkconnectrt.host.Host"]
    assert command[-1] == "s"
