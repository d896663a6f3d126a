"""A process with a zygote whose forks say what they are: run by test_zygote.py, told what to do by its arguments."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

from spark_connect_rt.engine.startup.process_python import STARTER
from spark_connect_rt.engine.startup.zygote import start_zygote
from spark_connect_rt.engine.startup.zygote_socket import SOCKET


def say_what_is(module: str) -> None:
    """Run in a fork: what a daemon would see."""
    found = {
        "module": module,
        "arguments": sys.argv,
        "variable": os.environ.get("MINE"),
        "path": sys.path[:2],
        "input": sys.stdin.readline(),
        "title": Path("/proc/self/cmdline").read_bytes().decode().split("\0")[:4],
        "parent": os.getppid(),
    }
    print(json.dumps(found))
    print("in error", file=sys.stderr)


def started(environment: dict[str, str], directory: str | None = None) -> dict[str, object]:
    """Return how a daemon went that Spark would start so."""
    done = subprocess.run(
        [str(STARTER), "-m", "pyspark.daemon", "pyspark.worker"],
        input="a line\n",
        env=environment,
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return {"code": done.returncode, "output": done.stdout, "error": done.stderr}


def gives_up(address: str) -> str:
    """Ask for the zygote and go away before it greets."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        line.connect(address)
    return "after"


def main(stand_in: str, elsewhere: str) -> None:
    """Print one story after the other as JSON. ``stand_in``: runs instead of a Python that imports for itself."""
    assert start_zygote(lambda: None, say_what_is, ["/p/a", "/p/b"])
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text(encoding="ascii")
    zygote = int(children.split()[0])
    environment = {**os.environ, "MINE": "x=y\n", "CONNECTRT_PYTHON": stand_in, "SPARK_HOME": "/none"}
    environment["PYTHONPATH"] = "/p/a:/p/b:/spark/jars/a.jar:/p/a"
    stories = {
        "forked": started(environment),
        "other path": started({**environment, "PYTHONPATH": "/p/b"}),
        "other folder": started(environment, elsewhere),
        "other seed": started({**environment, "PYTHONHASHSEED": "7"}),
        "after one that gave up": started({**environment, "MINE": gives_up(os.environ[SOCKET])}),
        "a second one": start_zygote(lambda: None, say_what_is, []),
    }
    os.kill(zygote, signal.SIGKILL)
    os.waitpid(zygote, 0)
    stories["killed"] = started(environment)
    print(json.dumps({**stories, "zygote": zygote, "socket": os.environ[SOCKET]}))


if __name__ == "__main__":
    main(*sys.argv[1:])
