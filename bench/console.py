"""console: a group of two workers with 2,000 connectors of 5 tasks each, as the management API and the console show it.

``page_ms``: the console's overview page of 100 rows, whole; ``overview_ms``: ``GET /admin/overview`` of 100 rows;
``list_ms``: all rows of it; ``events_ms``: ``GET /admin/events``. Medians; ``..._cpu_ms``: what one costs the worker
that is asked. ``streams_share`` and ``pages_share``: of a core, what that worker costs more with 10 streams of
``/admin/overview/stream``, and with 10 open overview pages of the console, than with none.

10,000 tasks run on no small machine: the tasks are the workers' own objects, moved by a thread (bench/console_worker),
half of them with a batch a second. What every row must say is known and compared. ``limit`` is the same server with the
bytes of the overview ready. Java has nothing of the kind, so there is no ratio.
"""

from __future__ import annotations

import contextlib
import json
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import httpx
import psutil

from bench.console_worker import BATCH, FAILED_EACH, Wanted, name_of
from bench.lab import Lab
from bench.process_cost import CpuMeter
from bench.report import Result, Run
from bench.rest_reads import those_bytes
from spark_connect_rt.app.quickstart.embedded_kafka import free_ports
from spark_connect_rt.errors import ConnectError
from tests.support.connect_rest import ConnectRest

PAGE_TARGET_MS, SHARE_TARGET, OVERVIEW_CPU_TARGET_MS = 200.0, 0.03, 50.0
PAGE = "/console/"
OVERVIEW = "/admin/overview?limit=100"
LIST = "/admin/overview?limit=2000&sort=name"
EVENTS = "/admin/events?limit=100"
OPEN = 10
STARTED_LIMIT_S = 120.0


def run(lab: Lab, short: bool) -> Result:
    """The group, then the limit."""
    targets = f"page<={PAGE_TARGET_MS:.0f}ms,overview<={OVERVIEW_CPU_TARGET_MS:.0f}msCPU,streams<={SHARE_TARGET:.0%}"
    result = Result("console", "ms a page, 2,000 connectors x 5 tasks", "page_ms", False, targets)
    connectors, reads, watch_s = (40, 5, 1.0) if short else (2_000, 40, 30.0)
    settle_s = min(3.0, watch_s)
    with _group(connectors) as (wanted, process, url), ConnectRest(url) as rest:
        exact = _is_exact(rest, wanted)
        figures = {
            **_asked(rest, process, "page", PAGE, reads),
            **_asked(rest, process, "overview", OVERVIEW, reads),
            **_asked(rest, process, "list", LIST, reads),
            **_asked(rest, process, "events", EVENTS, reads),
            "idle_share": _share(process, watch_s),
        }
        with _streams(url, "/admin/overview/stream?since_ms=1", settle_s) as received:
            figures["streams_share"] = round(_share(process, watch_s) - figures["idle_share"], 4)
        figures["stream_kb_s"] = round(sum(received) / 1e3 / watch_s / OPEN, 1)
        with _streams(url, "/console/overview/stream", settle_s) as received:
            figures["pages_share"] = round(_share(process, watch_s) - figures["idle_share"], 4)
        figures["memory_mib"] = round(process.memory_info().rss / 2**20)
        result.runs.append(Run("ours", {**figures, "connectors": connectors, "exact": exact and all(received)}))
        body = rest.request("GET", OVERVIEW).body
    with those_bytes(body) as url, ConnectRest(url) as rest:
        took = [_timed_ms(rest, "/") for _ in range(reads)]
        result.runs.append(Run("limit", {"page_ms": round(statistics.median(took), 1)}))
    result.conclude()
    shares = max(figures["streams_share"], figures["pages_share"])
    quick = figures["page_ms"] <= PAGE_TARGET_MS and figures["overview_cpu_ms"] <= OVERVIEW_CPU_TARGET_MS
    result.met = quick and shares <= SHARE_TARGET and exact
    result.notes += [f"the overview's page is {len(body) / 1e3:.0f} kB", *lab.complaints]
    return result


@contextlib.contextmanager
def _group(connectors: int) -> Iterator[tuple[Wanted, psutil.Process, str]]:
    """Start two workers; yield what they are, the process of the one that is asked, its URL."""
    ports = sorted(free_ports(2))
    members = [
        Wanted(port, [other for other in ports if other != port], connectors, 5, 0.5, port == ports[0])
        for port in ports
    ]
    with contextlib.ExitStack() as ending:
        started = [ending.enter_context(_worker(member)) for member in members]
        for process in started:
            _await_ready(process)
        # The one that does not lead: it has the longer way.
        yield members[1], psutil.Process(started[1].pid), f"http://127.0.0.1:{ports[1]}"


@contextlib.contextmanager
def _worker(wanted: Wanted) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "bench.console_worker", json.dumps(wanted.__dict__)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        yield process
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _await_ready(process: subprocess.Popen[bytes]) -> None:
    timer = threading.Timer(STARTED_LIMIT_S, process.kill)
    timer.start()
    assert process.stdout is not None
    line = process.stdout.readline()
    timer.cancel()
    if line.strip() != b"ready":
        raise ConnectError("a worker of the console's benchmark did not start")


def _is_exact(rest: ConnectRest, wanted: Wanted) -> bool:
    """Return whether every row says what is known of its connector, rates within what a window's edge makes of them."""
    end_s = time.monotonic() + 30
    while True:
        rows = rest.request("GET", LIST).json()
        rows = {row["name"]: row for row in rows["connectors"]}
        if _rows_hold(rows, wanted):
            return True
        if time.monotonic() > end_s:
            return False
        time.sleep(1)


def _rows_hold(rows: dict[str, dict[str, object]], wanted: Wanted) -> bool:
    if len(rows) != wanted.connectors:
        return False
    for number in range(wanted.connectors):
        row, failed = rows[name_of(number)], number % FAILED_EACH == FAILED_EACH - 1
        rate = BATCH * (wanted.tasks - failed) if wanted.moves(number) else 0
        tasks = {"FAILED": 1, "RUNNING": wanted.tasks - 1} if failed else {"RUNNING": wanted.tasks}
        near = abs(float(row["records_per_second"] or 0) - rate) <= 0.45 * rate  # type: ignore[arg-type]
        if row["tasks"] != tasks or row["abnormal"] is not failed or not near:
            return False
    return True


def _asked(rest: ConnectRest, process: psutil.Process, name: str, path: str, reads: int) -> dict[str, float]:
    _timed_ms(rest, path)
    took = []
    with CpuMeter(lambda: [process]) as meter:
        for _ in range(reads):
            took.append(_timed_ms(rest, path))
            time.sleep(0.05)
    return {
        f"{name}_ms": round(statistics.median(took), 1),
        f"{name}_worst_ms": round(max(took), 1),
        f"{name}_cpu_ms": round(meter.used_s * 1000 / reads, 1),
    }


def _share(process: psutil.Process, watch_s: float) -> float:
    """Return what part of a core a worker uses."""
    with CpuMeter(lambda: [process]) as meter:
        time.sleep(watch_s)
    return round(meter.used_s / watch_s, 4)


@contextlib.contextmanager
def _streams(url: str, path: str, settle_s: float) -> Iterator[list[int]]:
    """Keep ten streams open; yield, after a moment, how many bytes each has brought so far."""
    received, ended = [0] * OPEN, threading.Event()

    def follow(number: int) -> None:
        headers = {"Accept": "text/event-stream"}
        with (
            contextlib.suppress(httpx.HTTPError),
            httpx.Client(timeout=20.0, trust_env=False) as client,
            client.stream("GET", url + path, headers=headers) as answer,
        ):
            for chunk in answer.iter_raw():
                received[number] += len(chunk)
                if ended.is_set():
                    return

    threads = [threading.Thread(target=follow, args=(number,), daemon=True) for number in range(OPEN)]
    for thread in threads:
        thread.start()
    time.sleep(settle_s)
    try:
        yield received
    finally:
        ended.set()
        for thread in threads:
            thread.join(15)


def _timed_ms(rest: ConnectRest, path: str) -> float:
    begun = time.monotonic()
    status = rest.request("GET", path).status
    if status != 200:
        raise ConnectError(f"{path} was answered {status}")
    return (time.monotonic() - begun) * 1000
