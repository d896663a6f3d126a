"""The zygote: what is forked from it is what Spark asked for, and whatever it cannot be is started as before."""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from spark_connect_rt.engine.startup.zygote import (
    ForkRequest,
    ImportedSurroundings,
    receive_request,
    request_of,
    run_daemon,
    start_zygote,
)
from spark_connect_rt.engine.startup.zygote_client import request
from spark_connect_rt.engine.startup.zygote_socket import SOCKET

STORY = Path(__file__).with_name("zygote_story.py")
HOME = ImportedSurroundings("/work", ("/p/a",), None)
pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="forks, and reads /proc")


@pytest.fixture(scope="module")
def stories(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return what happened to daemons that Spark's starter was asked for."""
    folder = tmp_path_factory.mktemp("zygote")
    stand_in = folder / "python"
    stand_in.write_text(f'#!/bin/sh\n[ "$1" = -I ] && exec "{sys.executable}" "$@"\necho by itself "$@"\n')
    stand_in.chmod(0o755)
    command = [sys.executable, str(STORY), str(stand_in), str(folder)]
    variables = {name: value for name, value in os.environ.items() if name != SOCKET}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=True, timeout=120)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_fork_is_the_process_that_was_asked_for(stories: dict[str, Any]) -> None:
    story = stories["forked"]
    found = json.loads(story["output"])
    assert found == {
        "module": "pyspark.daemon",
        "arguments": ["pyspark.daemon", "pyspark.worker"],
        "variable": "x=y\n",
        "path": [os.getcwd(), "/p/a"],
        "input": "a line\n",
        "title": ["python", "-m", "pyspark.daemon", "pyspark.worker"],
        "parent": stories["zygote"],
    }
    assert (story["code"], story["error"]) == (0, "in error\n"), "its starter ends when it does"


@pytest.mark.parametrize(
    ("story", "why"),
    [
        ("other path", "PYTHONPATH"),
        ("other folder", "works in"),
        ("other seed", "PYTHONHASHSEED"),
        ("killed", "the zygote does not answer"),
    ],
)
def test_process_that_cannot_be_forked_imports_for_itself_and_says_why(
    stories: dict[str, Any], story: str, why: str
) -> None:
    found = stories[story]
    assert found["output"] == "by itself -m pyspark.daemon pyspark.worker\n"
    assert why in found["error"]


def test_client_that_left_before_its_greeting_does_not_affect_the_next(stories: dict[str, Any]) -> None:
    assert json.loads(stories["after one that gave up"]["output"])["variable"] == "after"


def test_there_is_one_a_process(stories: dict[str, Any]) -> None:
    assert stories["a second one"] is False


def test_none_where_there_are_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SOCKET, raising=False)
    ending = threading.Event()
    thread = threading.Thread(target=ending.wait)
    thread.start()
    try:
        assert not start_zygote(lambda: None, run_daemon, [])
    finally:
        ending.set()
        thread.join()
    assert SOCKET not in os.environ


def test_it_ends_with_the_process_that_forked_it() -> None:
    code = (
        "import os, sys;"
        "from spark_connect_rt.engine.startup.zygote_socket import SOCKET;"
        "from spark_connect_rt.engine.startup.zygote import run_daemon, start_zygote;"
        "start_zygote(lambda: None, run_daemon, []);"
        "print(os.environ[SOCKET], flush=True);"
        "os.read(0, 1)"
    )
    variables = {name: value for name, value in os.environ.items() if name != SOCKET}
    with subprocess.Popen(
        [sys.executable, "-c", code], env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        address = Path(owner.stdout.readline().strip())
        assert address.is_socket()
        owner.kill()
        ended, _, _ = select.select([owner.stdout], [], [], 30)  # the zygote has it, too: its end is the zygote's
        assert ended
        assert owner.stdout.read() == ""
    assert not address.parent.exists()


def test_a_request_says_where_what_and_with_which_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ÄÖ", "=ü=")
    found = request_of(request(["a.module", "argument"]))
    assert (found.directory, found.module, found.argument) == (os.getcwd(), "a.module", "argument")
    assert found.environment == dict(os.environ)
    assert request_of(request(["a.module"])).argument == ""


@pytest.mark.parametrize("data", [b"", b"/work\0", b"/work\0m\0a", b"no end"])
def test_half_a_request_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="too few fields"):
        request_of(data)


@pytest.mark.parametrize(("head", "why"), [(b"9" * 10, "bytes"), (b"-000000001", "bytes"), (b"no number!", "invalid")])
def test_strange_words_are_refused_and_their_descriptors_closed(head: bytes, why: str) -> None:
    ours, theirs = socket.socketpair()
    reading, writing = os.pipe()
    with ours, theirs:
        socket.send_fds(theirs, [head], [writing] * 4)
        os.close(writing)
        with pytest.raises(ValueError, match=why):
            receive_request(ours)
    assert os.read(reading, 1) == b"", "nobody holds the other end"
    os.close(reading)


def test_a_request_without_descriptors_is_refused() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(b"%10d" % 0)
        with pytest.raises(ValueError, match="0 descriptors"):
            receive_request(ours)


def test_jars_on_the_path_change_no_import() -> None:
    wanted = ForkRequest("/work", "m", "", {"PYTHONPATH": "/spark/core.jar:/p/a:/p/a"})
    assert HOME.refusal(wanted) == ""


@pytest.mark.parametrize(
    ("own", "wanted", "met"), [(None, "0", True), ("5", "0", True), ("5", "5", True), ("5", "6", False)]
)
def test_a_seed_that_the_user_gave_is_kept_spark_s_says_only_that_all_have_the_same(
    own: str | None, wanted: str, met: bool
) -> None:
    asked = ForkRequest("/work", "m", "", {"PYTHONPATH": "/p/a", "PYTHONHASHSEED": wanted})
    assert (ImportedSurroundings("/work", ("/p/a",), own).refusal(asked) == "") is met
