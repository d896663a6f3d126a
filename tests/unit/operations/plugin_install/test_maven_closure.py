"""The jars of a coordinate: each is what its repository says it is, or nothing of it is used."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import Any

import pytest

from spark_connect_rt.errors import BadRequestError
from spark_connect_rt.operations.plugin_install import installer as maven_closure
from spark_connect_rt.operations.plugin_install.downloads import NotFetchedError
from spark_connect_rt.operations.plugin_install.installer import copy_closure

GOOD, LIMIT = b"good", 1_000


class _Checksums(BaseHTTPRequestHandler):
    def __init__(self, texts: dict[str, str], *rest: object) -> None:
        self._texts = texts
        super().__init__(*rest)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        text = self._texts.get(self.path)
        self.send_response(404 if text is None else 200)
        self.end_headers()
        self.wfile.write((text or "").encode())

    def log_message(self, *_: object) -> None: ...


@dataclass
class Repository:
    """A repository that has checksums, and what a resolver downloaded from it."""

    folder: Path
    url: str = ""
    texts: dict[str, str] = field(default_factory=dict)
    resolved: list[Any] = field(default_factory=list)

    def artifact(self, name: str, *downloads: bytes | Exception, **checksums: str) -> None:
        """Let ``name``, of version 1, be resolved: its downloads in their order, its checksums by their kind."""
        file_name = f"{name}-1.jar"
        for kind, text in checksums.items():
            self.texts[f"/g/{name}/1/{file_name}.{kind}"] = text
        made = SimpleNamespace(
            filename=file_name,
            artifactId=name,
            version="1",
            resolve=partial(self._download, self.folder / file_name, list(downloads)),
            component=SimpleNamespace(path_prefix=PurePosixPath("g") / name / "1"),
            context=SimpleNamespace(remote_repos={"here": self.url}),
        )
        self.resolved.insert(0, made)  # so that the wanted one, named first, is not first here

    @staticmethod
    def _download(jar: Path, downloads: list[bytes | Exception]) -> Path:
        """As jgo: what is there is not fetched again."""
        if not jar.exists():
            content = downloads.pop(0)
            if isinstance(content, Exception):
                raise content
            jar.write_bytes(content)
        return jar


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Repository]:
    (tmp_path / "cache").mkdir()
    made = Repository(tmp_path / "cache")
    jgo = SimpleNamespace(resolve=lambda _coordinate: list(made.resolved))
    monkeypatch.setattr(maven_closure, "optional_module", lambda *_: jgo)
    with HTTPServer(("127.0.0.1", 0), partial(_Checksums, made.texts)) as server:
        made.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=partial(server.serve_forever, poll_interval=0.02), daemon=True)
        thread.start()
        yield made
        server.shutdown()
        thread.join()


@pytest.fixture
def out(tmp_path: Path) -> Path:
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


def sha(kind: str, content: bytes = GOOD) -> str:
    return hashlib.new(kind, content).hexdigest()


def test_all_jars_are_there_the_wanted_one_first_and_files_of_other_kinds_are_not(
    repository: Repository, out: Path
) -> None:
    repository.artifact("wanted", GOOD, sha1=f"{sha('sha1').upper()}  wanted-1.jar\n")
    repository.artifact("aid", GOOD, sha1=sha("sha1"))
    repository.resolved.append(SimpleNamespace(filename="parent-1.pom", artifactId="parent"))
    assert copy_closure("g:wanted:1", out, LIMIT) == ("1", ["wanted-1.jar", "aid-1.jar"])
    assert {path.name: path.read_bytes() for path in out.iterdir()} == {"wanted-1.jar": GOOD, "aid-1.jar": GOOD}


def test_a_jar_that_a_broken_download_left_is_fetched_once_more(
    repository: Repository, out: Path, caplog: pytest.LogCaptureFixture
) -> None:
    repository.artifact("wanted", b"goo", GOOD, sha1=sha("sha1"))
    assert copy_closure("g:wanted:1", out, LIMIT) == ("1", ["wanted-1.jar"])
    assert (out / "wanted-1.jar").read_bytes() == GOOD
    assert "downloading it again" in caplog.text


def test_one_that_is_wrong_twice_is_refused_with_both_checksums_and_not_kept(repository: Repository, out: Path) -> None:
    repository.artifact("wanted", b"bad", b"bad", sha1=sha("sha1"))
    with pytest.raises(
        NotFetchedError, match=f"its sha1 is {sha('sha1', b'bad')}, but the repository lists {sha('sha1')}"
    ):
        copy_closure("g:wanted:1", out, LIMIT)
    assert list(out.iterdir()) == []
    assert list(repository.folder.iterdir()) == [], "the next install would find it and ask nobody"


def test_the_strongest_checksum_decides(repository: Repository, out: Path) -> None:
    repository.artifact("wanted", GOOD, GOOD, sha512=sha("sha512", b"another"), sha1=sha("sha1"))
    with pytest.raises(NotFetchedError, match="its sha512 is"):
        copy_closure("g:wanted:1", out, LIMIT)


def test_artifact_without_a_checksum_is_refused(repository: Repository, out: Path) -> None:
    repository.artifact("wanted", GOOD)
    with pytest.raises(NotFetchedError, match=r"no repository has a checksum"):
        copy_closure("g:wanted:1", out, LIMIT)
    repository.resolved[0].context.remote_repos = {"gone": "http://127.0.0.1:1"}
    with pytest.raises(NotFetchedError, match=r"the checksum of wanted-1\.jar cannot be downloaded"):
        copy_closure("g:wanted:1", out, LIMIT)
    assert list(out.iterdir()) == []


def test_all_jars_together_are_held_to_the_limit(repository: Repository, out: Path) -> None:
    for name in ("wanted", "aid"):
        repository.artifact(name, GOOD, sha1=sha("sha1"))
    with pytest.raises(BadRequestError, match=r"connectrt\.plugins\.size\.max\.bytes"):
        copy_closure("g:wanted:1", out, 2 * len(GOOD) - 1)
    assert copy_closure("g:wanted:1", out, 2 * len(GOOD))[0] == "1"


def test_unresolved_or_unfetched_artifact_is_named(
    repository: Repository, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.artifact("other", OSError("the connection was cut"), sha1=sha("sha1"))
    with pytest.raises(NotFetchedError, match="g:wanted:1 has no jar"):
        copy_closure("g:wanted:1", out, LIMIT)
    with pytest.raises(NotFetchedError, match=r"other-1\.jar cannot be downloaded: the connection was cut"):
        copy_closure("g:other:1", out, LIMIT)

    def resolve(_coordinate: str) -> list[Any]:
        raise RuntimeError("no such artifact")

    monkeypatch.setattr(maven_closure, "optional_module", lambda *_: SimpleNamespace(resolve=resolve))
    with pytest.raises(NotFetchedError, match="g:wanted:1 cannot be resolved from Maven Central: no such artifact"):
        copy_closure("g:wanted:1", out, LIMIT)
