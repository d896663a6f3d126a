"""Java Connect's own leader, asked round by round: the oracle of the assignors, and what they are timed beside."""

from __future__ import annotations

import base64
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Self

import pyspark

from spark_connect_rt.base.cache import resolve_jars
from spark_connect_rt.engine.startup.java_home import find_java
from tests.support.java_connect import COORDINATES

SOURCE = Path(__file__).parent / "java" / "JavaLeader.java"
COMPILER = "org.codehaus.janino.SimpleCompiler"  # among Spark's jars: a JDK is not needed
QUIET = ("-Dlog4j2.level=error", "-XX:TieredStopAtLevel=4", "-Xms512m", "-Xmx1536m")


@dataclass(frozen=True, slots=True)
class JavaAnswer:
    """member -> its SyncGroup bytes, and the seconds Java's leader took to make them of the metadata."""

    blobs: Mapping[str, bytes]
    seconds: float


class JavaLeader:
    """``with JavaLeader() as java: java.begin("w1", 300_000); java.store("w1", 7, {"c1": 4}); java.lead(...)``."""

    def __enter__(self) -> Self:
        compiler = [*(Path(pyspark.__file__).parent / "jars").glob("*compiler-*.jar")]
        compiler += (Path(pyspark.__file__).parent / "jars").glob("janino-*.jar")
        class_path = os.pathsep.join(str(jar) for jar in [*resolve_jars(COORDINATES), *compiler])
        command = [str(find_java().executable), *QUIET, "-cp", class_path, COMPILER, str(SOURCE), SOURCE.stem]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return self

    def begin(self, worker: str, max_delay_ms: int) -> None:
        """Start this worker anew: it remembers nothing."""
        self._say("new", worker, max_delay_ms)

    def store(self, worker: str, offset: int, tasks: Mapping[str, int | None]) -> None:
        """Set what its config store holds: connector -> number of tasks, None for an inconsistent one."""
        self._say("store", worker, offset, *(f"{name}={'!' if n is None else n}" for name, n in tasks.items()))

    def join(self, worker: str) -> None:
        """Let it join the group: the configuration it knows is now what its store holds."""
        self._say("join", worker)

    def synced(self, worker: str, protocol: str, generation: int, assignment: bytes) -> None:
        """Let it adopt its own assignment, as after SyncGroup."""
        self._say("synced", worker, protocol, generation, _text(assignment))

    def lead(
        self, worker: str, protocol: str, generation: int, now_ms: int, members: Mapping[str, bytes]
    ) -> JavaAnswer:
        """Return what it tells each member, whose metadata bytes are given; its own are among them."""
        self._say("lead", worker, protocol, generation, now_ms, *(f"{m}={_text(b)}" for m, b in members.items()))
        self._stream(self._process.stdin).flush()
        blobs = {}
        for line in self._stream(self._process.stdout):
            word, _, rest = line.rstrip("\n").partition(" ")
            if word == "done":
                return JavaAnswer(blobs, int(rest) / 1e9)
            blobs[word] = base64.b64decode(rest)
        raise RuntimeError("Java's leader ended; its reason is on standard error")

    def __exit__(self, *_: object) -> None:
        self._stream(self._process.stdin).close()
        self._process.wait(30)
        self._stream(self._process.stdout).close()

    def _say(self, *words: object) -> None:
        self._stream(self._process.stdin).write(" ".join(map(str, words)) + "\n")

    @staticmethod
    def _stream(stream: IO[str] | None) -> IO[str]:
        assert stream is not None
        return stream


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode("ascii")
