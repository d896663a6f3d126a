"""What ``connectrt get connectors`` costs, next to a bare Python that sends the same request with ``http.client``.

CPU seconds of the process as its parent counts them, user and system, in turns on the same server. The limit is what
Python and one request cost; the target is at most four times that.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from bench.lab import Lab
from bench.report import Result, Run
from bench.rest_reads import running_connectors

TURNS = 15
TARGET = 4.0
CONNECTORS = 12
_BARE = (
    "import http.client, json\n"
    "connection = http.client.HTTPConnection({place!r})\n"
    "connection.request('GET', '/connectors?expand=status&expand=info')\n"
    "print(*json.loads(connection.getresponse().read()))\n"
)


def run(lab: Lab, short: bool) -> Result:
    """Measure both in turns; the first turn of each is left out: it writes bytecode and fills caches."""
    result = Result("command", "CPU s of one process", "cpu_s", False, f"<={TARGET:g}x bare Python")
    environment = {**os.environ, "CONNECTRT_CONFIG": str(lab.folder / "no-contexts.json")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its bytecode
    with running_connectors(CONNECTORS, {}) as url:
        bare = [sys.executable, "-c", _BARE.format(place=urlsplit(url).netloc)]
        ours = [sys.executable, "-m", "spark_connect_rt", "get", "connectors", "--url", url]
        for turn in range(2 if short else TURNS + 1):
            measured = [
                Run(who, {"cpu_s": cpu_s_of(words, environment)}) for who, words in (("ours", ours), ("limit", bare))
            ]
            result.runs += measured if turn else []
    result.conclude()
    if result.ours and result.limit:
        result.ratio = result.ours / result.limit
        result.met = result.ratio <= TARGET
    result.notes.append("ratio is to a bare Python: Java has no command line")
    return result


def cpu_s_of(words: Sequence[str], environment: dict[str, str]) -> float:
    """Return the CPU seconds of a command, which must succeed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(words, env=environment, cwd=Path(__file__).parents[1], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
