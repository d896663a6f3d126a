from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from spark_connect_rt.base.cache import KAFKA_BROKER, KAFKA_VERSION
from spark_connect_rt.base.downloads import shown_nowhere
from spark_connect_rt.base.locked_jars import LockedJar, fetch_jars, locked_jars
from spark_connect_rt.errors import ConnectError

CONTENT = {f"group/{name}/1/{name}-1.jar": name.encode() * 1_000 for name in "abc"}
JARS = [LockedJar(hashlib.sha256(data).hexdigest(), len(data), path) for path, data in CONTENT.items()]


class Repository:
    """A Maven repository of ``CONTENT`` that counts what it is asked for."""

    def __init__(self, content: dict[str, bytes]) -> None:
        self.content, self.asked = content, list[str]()
        self.client = httpx.Client(transport=httpx.MockTransport(self.answer), base_url="http://repository/maven2")

    def answer(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path.removeprefix("/maven2/")
        self.asked.append(path)
        return httpx.Response(200, content=self.content[path]) if path in self.content else httpx.Response(503)


def test_every_jar_is_downloaded_and_its_bytes_are_counted(tmp_path: Path) -> None:
    shown: list[int] = []

    @contextlib.contextmanager
    def count(_name: str, _size_bytes: int) -> Iterator[Callable[[int], None]]:
        yield shown.append

    jars = fetch_jars(JARS, tmp_path / "jars", Repository(CONTENT).client, count)
    assert [jar.name for jar in jars] == ["a-1.jar", "b-1.jar", "c-1.jar"]
    assert jars[1].read_bytes() == b"b" * 1_000
    assert sum(shown) == 3_000


def test_a_second_try_downloads_only_what_is_missing_or_half(tmp_path: Path) -> None:
    first = Repository({path: data for path, data in CONTENT.items() if "/b/" not in path})
    with pytest.raises(httpx.HTTPStatusError):
        fetch_jars(JARS, tmp_path, first.client, shown_nowhere)
    (tmp_path / "c-1.jar").write_bytes(b"half")
    again = Repository(CONTENT)
    fetch_jars(JARS, tmp_path, again.client, shown_nowhere)
    assert set(again.asked) <= {"group/b/1/b-1.jar", "group/c/1/c-1.jar", "group/a/1/a-1.jar"}
    assert "group/b/1/b-1.jar" in again.asked
    assert (tmp_path / "c-1.jar").read_bytes() == b"c" * 1_000
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a-1.jar", "b-1.jar", "c-1.jar"]
    last = Repository(CONTENT)
    fetch_jars(JARS, tmp_path, last.client, shown_nowhere)
    assert last.asked == []


def test_other_content_than_the_lock_file_names_is_refused(tmp_path: Path) -> None:
    changed = Repository(CONTENT | {"group/a/1/a-1.jar": b"something else"})
    with pytest.raises(ConnectError, match=r"a-1\.jar has another SHA-256"):
        fetch_jars(JARS, tmp_path, changed.client, shown_nowhere)
    assert not (tmp_path / "a-1.jar").exists()


def test_the_broker_that_is_embedded_has_a_lock_file() -> None:
    jars = locked_jars([f"{KAFKA_BROKER}:{KAFKA_VERSION}"])
    assert len(jars) == 45
    assert any(jar.name == f"kafka_2.13-{KAFKA_VERSION}.jar" for jar in jars)
    assert locked_jars([f"{KAFKA_BROKER}:0.0.1"]) == ()
    assert locked_jars(["a:b:1", "c:d:2"]) == ()
