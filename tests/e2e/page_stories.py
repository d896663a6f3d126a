"""Every ``curl`` and ``connectrt`` command of the how-to pages and the README, run on a real worker in their order.

Owns what the pages take for granted: files, connectors, records and a web service, page by page (``_SCENES``). Names of
machines and folders on the pages become those of the test. A command must end with exit code 0 and a request with a
status below 300, unless ``ENDS`` says otherwise. ``LEFT_OUT`` lists what is not run, each with its reason.
"""

from __future__ import annotations

import json
import re
import shlex
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx
from confluent_kafka import Producer

from spark_connect_rt.cli.session import CommandContext
from tests.e2e.commands import ROOT, until
from tests.support.code_blocks import blocks_of, commands_in
from tests.support.command_line import run_command
from tests.support.worker_process import WorkerProcess

PAGES = (*sorted((ROOT / "docs/howto").glob("*.md")), ROOT / "README.md")
LONGEST_S = 60.0
_TESTED = "docs/tutorial runs it: tests/unit/app/development"
_INSTALLS = "downloads a plug-in: tests/integration/test_maven_install.py, tests/unit/operations/plugin_install"
_ENDLESS = "runs until Ctrl-C: tests/unit/app/cluster"
_OTHER_CLUSTER = "reads two clusters: tests/integration/kafka/test_mirror_maker.py"

LEFT_OUT: Mapping[tuple[str, str], str] = {
    ("airbyte.md", "connectrt dev"): "installs a package of hundreds of MB: tests/programs",
    ("choose_a_table_sink.md", "connectrt patch lake-orders"): "changes the connector that iceberg.md makes",
    ("choose_a_table_sink.md", "connectrt migrate check"): "reads the file of a Java worker: tests/unit/app/migrate",
    ("cli.md", "connectrt get connectors --watch"): _ENDLESS,
    ("cli.md", "connectrt logs lines-out/0 --follow"): _ENDLESS,
    ("cli.md", "connectrt top"): _ENDLESS,
    ("delta.md", "connectrt patch lake-orders delta.root=s3://"): "needs an object store",
    ("delta.md", "connectrt patch lake-orders delta.root=uc://"): "needs Databricks",
    ("alerts.md", "connectrt describe"): "describes a connector, as cli.md does",
    ("deploy.md", "connectrt new worker"): "writes a file: tests/unit/app/development/test_new_project.py",
    ("deploy.md", "connectrt class-archive"): "takes half a minute: tests/integration/java",
    ("format.md", "connectrt offsets reconcile"): "needs the checkpoint of a query: tests/integration/spark",
    ("iceberg.md", "connectrt patch lake-orders iceberg.catalog.type=rest"): "needs a REST catalog",
    ("iceberg.md", "connectrt quickstart --cdc"): "tests/e2e/test_quickstart_cdc.py",
    (
        "iceberg.md",
        "connectrt table",
    ): "reads a file of settings: tests/unit/connectors/lakehouse/test_table_commands.py",
    ("java_connectors.md", "connectrt plugins install"): _INSTALLS,
    ("java_connectors.md", "connectrt get plugins"): "lists what was installed in the line before",
    ("java_connectors.md", "connectrt apply"): "needs Debezium and PostgreSQL: tests/java_proofs/test_debezium.py",
    ("java_connectors.md", "connectrt describe"): "describes that connector",
    ("java_connectors.md", "connectrt plugins sync-manifests --file worker.properties"): "writes into plugin.path",
    ("lakeflow.md", "connectrt dev"): "reads GitHub: tests/lakeflow_proofs",
    ("migrate.md", "connectrt worker"): "starts a second worker: tests/e2e/test_several_workers.py",
    ("mirror.md", "connectrt mirror"): _OTHER_CLUSTER,
    ("object_stores.md", "curl -X PUT"): "needs an object store: tests/integration/test_object_stores.py",
    ("object_stores.md", "connectrt migrate check"): "reads the file of a Java worker: tests/unit/app/migrate",
    ("package_a_plugin.md", "connectrt plugins install"): "needs the built wheel: tests/unit/operations/plugin_install",
    ("package_a_plugin.md", "connectrt get plugins"): "lists what was installed in the line before",
    ("plugins.md", "connectrt plugins install"): _INSTALLS,
    ("plugins.md", "connectrt plugins remove"): "removes what was installed",
    ("plugins.md", "curl -X POST"): _INSTALLS,
    ("README.md", "connectrt plugins install"): _INSTALLS,
    ("README.md", "connectrt apply -f inventory.json"): "needs Debezium and PostgreSQL",
    (
        "write_a_connector.md",
        "connectrt plugins install",
    ): "needs the built wheel: tests/unit/operations/plugin_install",
    ("write_a_connector.md", "connectrt apply"): "needs the installed wheel",
    ("write_a_connector.md", "connectrt describe"): "describes that connector",
    ("write_a_sink.md", "connectrt check"): "needs the installed wheel",
    ("write_a_sink.md", "connectrt preview"): "needs the installed wheel",
}
"""(page, beginning of a command) -> why it is not run. The longest beginning that fits counts."""

ENDS: Mapping[tuple[str, str], int] = {
    ("cli.md", "connectrt diff"): 6,
    ("cli.md", "connectrt get tasks"): 4,
    ("files_and_spark.md", "connectrt dev rows.json"): 1,
    ("history.md", "connectrt diff"): 6,
    ("history.md", "connectrt offsets goto"): 9,  # its history is younger than a minute
    ("history.md", "curl -sS -X PUT"): 412,
    # The worker of these tests has a broken jar in its plugin.path.
    ("java_connectors.md", "connectrt plugins list --url"): 1,
    ("plugins.md", "connectrt plugins list --url"): 1,
    ("plugins.md", "curl http://127.0.0.1:8083/admin/plugins/orders"): 404,
    ("plugins.md", "curl -X DELETE"): 403,  # without the token of this machine
    ("preview.md", "connectrt check"): 1,
    ("schema_registry.md", "connectrt check"): 1,
}
"""(page, beginning of a command) -> its exit code or status where it is not a success."""


def left_out(page: str, line: str) -> str | None:
    """Return why a command of a page is not run, None: it is run."""
    return _of_longest(LEFT_OUT, page, line)


def _of_longest(table: Mapping[tuple[str, str], Any], page: str, line: str) -> Any:
    fitting = [(len(start), value) for (name, start), value in table.items() if name == page and line.startswith(start)]
    return max(fitting, key=lambda pair: pair[0])[1] if fitting else None


def commands_of(page: Path) -> Iterator[tuple[str, str]]:
    """Yield (command, output that the page shows) of each ``curl``, ``connectrt`` and ``cat`` of a page, in order."""
    for block in blocks_of(page):
        if block.language in ("python", "json", "toml", "yaml"):
            continue
        for command in commands_in(block):
            line = command.line.removeprefix(".venv/bin/")
            if line.startswith(("connectrt ", "curl ", "cat ")):
                yield re.sub(r"\s+#\s.*", "", line) if line.startswith("connectrt") else line, command.output


@dataclass
class Stage:
    """A worker, the folder of one page, and what was run. ``create`` waits until a connector runs."""

    worker: WorkerProcess
    bootstrap_servers: str
    folder: Path
    replaced: dict[str, str] = field(default_factory=dict)
    ran: int = 0

    @property
    def url(self) -> str:
        """The worker's address without a slash at its end."""
        return self.worker.rest.url.rstrip("/")

    def create(self, name: str, **config: str) -> None:
        """Create a connector of settings whose dots are written as ``__``."""
        self.worker.rest.create(name, {key.replace("__", "."): value for key, value in config.items()})
        self.worker.rest.await_states(name, "RUNNING", ["RUNNING"])

    def lines(self, name: str = "lines") -> None:
        """Create a file source of two lines."""
        file = self.write(f"{name}.txt", "one\ntwo\n")
        self.create(name, connector__class="FileStreamSource", file=str(file), topic=f"pages-{name}")

    def write(self, name: str, text: str) -> Path:
        """Write a file into the page's folder."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def block(self, page: str, start: str) -> str:
        """Return the first code block of a page whose text begins so."""
        blocks = blocks_of(ROOT / "docs/howto" / f"{page}.md")
        return next(block.text for block in blocks if block.text.startswith(start))

    def connectrt(self, line: str) -> tuple[int, str]:
        """Run a command with yes as every answer; return its exit code and its output."""
        words = shlex.split(line)[1:]
        target = words.index(">") if ">" in words else len(words)
        environment = {
            "CONNECTRT_URL": self.url,
            "CONNECTRT_CONFIG": str(self.folder / "contexts.json"),
            "EDITOR": "true",
            "HOME": str(self.folder),
        }
        around = CommandContext(environment, interactive=True, ask=lambda _: "y")
        with patch("getpass.getpass", lambda _: "secret"):
            ended = run_command(words[:target], around, input="y\n" * 5)
        if target < len(words):
            self.write(words[target + 1], ended.out)
        return ended.code, ended.out + ended.err

    def curl(self, line: str) -> tuple[int, str]:
        """Send a request; return its status and its body. A pipe or a redirection gets the body."""
        words = shlex.split(line, comments=True)
        end = next((number for number, word in enumerate(words) if word in ("|", ">")), len(words))
        method, data, url, headers, streamed = "", None, "", {}, False
        given = iter(words[1:end])
        for word in given:
            match word:
                case "-X":
                    method = next(given)
                case "-d":
                    data = next(given)
                case "-H":
                    name, _, value = next(given).partition(": ")
                    headers[name] = value
                case _ if word.startswith("-"):
                    streamed |= "N" in word
                case _:
                    url = word
        body = None if data is None else (self.folder / data[1:]).read_text() if data.startswith("@") else data
        method = method or ("GET" if data is None else "POST")
        if streamed:
            with httpx.stream(method, url, headers=headers, timeout=LONGEST_S) as answer:
                return answer.status_code, next(answer.iter_text(), "")
        answered = httpx.request(method, url, headers=headers, content=body, timeout=LONGEST_S)
        if end < len(words) and words[end] == ">":
            self.write(words[end + 1], answered.text)
        elif end < len(words):
            command = [sys.executable if word == "python3" else word for word in words[end + 1 :]]
            subprocess.run(command, input=answered.text, text=True, check=True, capture_output=True)
        return answered.status_code, answered.text

    def run(self, page: str, line: str) -> None:
        """Run a command of a page and compare how it ends."""
        wanted = _of_longest(ENDS, page, line)
        for pattern, text in self.replaced.items():
            line = re.sub(pattern, text, line)
        is_request = line.startswith("curl")
        code, said = self.curl(line) if is_request else self.connectrt(line)
        good = code == wanted if wanted is not None else (code < 300 if is_request else code == 0)
        assert good, f"{page}: {line}\nended with {code}, wanted {wanted or 'success'}:\n{said[-3000:]}"
        self.ran += 1


# What a page takes for granted. Each scene makes it, before the first command of its page.


def _cli(stage: Stage) -> None:
    stage.lines()
    stage.create("lines-out", connector__class="FileStreamSink", file=str(stage.folder / "o"), topics="pages-lines",
                 errors__tolerance="all", errors__deadletterqueue__topic__name="pages-dead",
                 errors__deadletterqueue__topic__replication__factor="1")  # fmt: skip
    for name in ("old-1", "old-2"):
        stage.lines(name)
    changed = {**stage.worker.rest.request("GET", "/connectors/lines/config").json(), "batch.size": "100"}
    stage.write("pipelines/lines.json", json.dumps({"name": "lines", "config": changed}))
    stage.write("new.json", json.dumps(_new(stage)))
    _change_offsets(stage)
    _number_changes(stage)


def _new(stage: Stage) -> Mapping[str, Any]:
    file = stage.write("new.txt", "one\ntwo\n")
    chain = {"transforms": "wrap", "transforms.wrap.type": "org.apache.kafka.connect.transforms.HoistField$Value"}
    config = {"connector.class": "FileStreamSource", "file": str(file), "topic": "pages-new", **chain}
    return {"name": "new", "config": {**config, "transforms.wrap.field": "line"}}


def _change_offsets(stage: Stage) -> None:
    where = json.dumps({"filename": str(stage.folder / "lines.txt")})
    code, said = stage.connectrt(
        f"connectrt offsets set lines --partition {shlex.quote(where)} --offset '{{\"position\": 4}}' --stop --yes"
    )
    assert code == 0, said


def _number_changes(stage: Stage) -> None:
    """Put the numbers of this group's changes in place of the page's 1 and 3."""

    def changes() -> list[int]:
        found = httpx.get(f"{stage.url}/admin/history?connector=lines&kind=config").json()
        return sorted(change["number"] for change in found["changes"])

    until(lambda: bool(changes()), LONGEST_S, "the history has the creation", changes)
    first, last = changes()[0], changes()[-1]
    stage.replaced[r"diff lines 1 3"] = f"diff lines {first} {last}"
    stage.replaced[r"rollback lines 1\b"] = f"rollback lines {first}"
    stage.replaced[r"history/lines/1\b"] = f"history/lines/{first}"
    stage.replaced[r"from=1&to=3"] = f"from={first}&to={last}"


def _history(stage: Stage) -> None:
    stage.lines()
    config = stage.worker.rest.request("GET", "/connectors/lines/config").json()
    stage.worker.rest.request("PUT", "/connectors/lines/config", {**config, "batch.size": "100"})
    stage.write("orders.json", json.dumps({**config, "name": "orders"}))
    _change_offsets(stage)
    _number_changes(stage)


def _dead_letters(stage: Stage) -> None:
    producer = Producer({"bootstrap.servers": stage.bootstrap_servers})
    for amount in ("10", "12,50", "n/a"):
        producer.produce("pages-orders", json.dumps({"id": 4, "amount": amount}))
    assert producer.flush(20) == 0
    config = {
        "connector.class": "FileStreamSink",
        "file": str(stage.folder / "orders-out.txt"),
        "topics": "pages-orders",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        "transforms": "cast",
        "transforms.cast.type": "org.apache.kafka.connect.transforms.Cast$Value",
        "transforms.cast.spec": "amount:float64",
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": "pages-orders-dead",
        "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true",
    }
    stage.worker.rest.create("orders-out", config)

    def letters() -> int:
        answer = httpx.get(f"{stage.url}/admin/dead-letters?connector=orders-out")
        return len(answer.json()["letters"]) if answer.status_code == 200 else 0

    until(lambda: letters() == 2, LONGEST_S, "two dead letters", letters)


def _errant_records(stage: Stage) -> None:
    stage.write("records.jsonl", '{"id": 3, "amount": "10"}\n{"id": 4, "amount": "12,50"}\n')
    chain = {
        "transforms": "cast",
        "transforms.cast.type": "org.apache.kafka.connect.transforms.Cast$Value",
        "transforms.cast.spec": "amount:float64",
    }
    settings = json.loads(f"{{{stage.block('errant_records', chr(34) + 'errors.tolerance')}}}")
    config = {"connector.class": "FileStreamSink", "file": "out.txt", "topics": "orders", **chain, **settings}
    stage.write("orders-out.json", json.dumps(config))


def _files_and_spark(stage: Stage) -> None:
    log, rows, _ = stage.block("files_and_spark", '{"connector.class": "FileStreamSource"').splitlines()
    stage.write("app.log", "GET /a 200\nGET /b 404\n")
    stage.write("log.json", log)
    stage.write("rows.csv", "id,name\n1,Ada\n2,Grace\nx,Joe\n")
    stage.write("rows.json", rows)
    stage.write("in/a.csv", "id,name\n1,Ada\n")
    drop = {"directory": "in", "format": "csv", "schema": "id:int64,name:string", "topic": "drop"}
    stage.write("drop.json", json.dumps({"connector.class": "DirectorySource", **drop, "file.settle.ms": "0"}))


def _http(stage: Stage) -> None:
    service = _Service.address
    stage.write("orders.jsonl", "")
    for name, start in (("tickets", "connector.class=HttpSource"), ("orders-web", "connector.class=HttpSink")):
        text = stage.block("http", start).replace("https://api.example.com", service)
        stage.write(f"{name}.properties", re.sub(r"\$\{file:[^}]*\}", "token", text))
    stage.write("gen.json", stage.block("http", '{"connector.class": "DatagenSource"'))


def _lake(stage: Stage) -> None:
    (stage.folder / "lake").mkdir()
    stage.replaced["/data/lake"] = str(stage.folder / "lake")


def _inventory(stage: Stage) -> None:
    file = str(stage.folder / "sink.txt")
    stage.create("inventory-sink", connector__class="FileStreamSink", file=file, topics="pages-lines")


def _internal_topics(stage: Stage) -> None:
    stage.lines()
    stage.lines("gone")
    stage.worker.rest.delete("gone")
    properties = (stage.folder / "worker.properties").read_text()
    group = stage.worker.group_id
    stage.write("other.properties", properties.replace(group, f"{group}-{stage.folder.parent.name}"))
    stage.replaced[r"store (restore|repair) worker.properties"] = r"store \1 other.properties"
    code, said = stage.connectrt("connectrt stop lines")
    assert code == 0, said
    until(
        lambda: not stage.worker.rest.request("GET", "/connectors/lines/status").json()["tasks"], LONGEST_S, "stopped"
    )


def _overview(stage: Stage) -> None:
    stage.lines("orders")


def _mirror(stage: Stage) -> None:
    stage.lines("mirror")


def _preview(stage: Stage) -> None:
    stage.write("new.json", json.dumps(_new(stage)))
    stage.replaced["/tmp/lines.txt"] = str(stage.folder / "new.txt")


def _plugins(stage: Stage) -> None:
    stage.write("config.json", json.dumps({"connector.class": "FileStreamSource", "file": "a", "topic": "b"}))


def _python_connectors(stage: Stage) -> None:
    _dlt(stage)
    stage.replaced["--records 3"] = "--records 2 --set connectrt.plugins.modules=my_source"


def _dlt(stage: Stage) -> None:
    stage.write("my_source.py", stage.block("dlt", "import dlt"))
    stage.write("crm.json", stage.block("dlt", '{"connector.class": "DltSource"'))


def _schema_registry(stage: Stage) -> None:
    settings = dict(line.split("=", 1) for line in stage.block("schema_registry", "value.converter=").splitlines()[:2])
    settings["value.converter.schema.registry.url"] = "http://127.0.0.1:1"
    config = {"connector.class": "FileStreamSource", "file": "a", "topic": "pages-registry", **settings}
    stage.write("orders.json", json.dumps({"name": "registry", "config": config}))


_TAP = """#!{python}
import json
import sys
schema = {{"type": "object", "properties": {{"id": {{"type": "integer"}}, "name": {{"type": "string"}}}}}}
if "--discover" in sys.argv:
    metadata = [{{"breadcrumb": [], "metadata": {{"selected": True}}}}]
    stream = {{"tap_stream_id": "users", "stream": "users", "key_properties": ["id"], "schema": schema}}
    sys.exit(print(json.dumps({{"streams": [{{**stream, "metadata": metadata}}]}})))
print(json.dumps({{"type": "SCHEMA", "stream": "users", "key_properties": ["id"], "schema": schema}}))
for number, name in ((1, "Ada"), (2, "Grace")):
    print(json.dumps({{"type": "RECORD", "stream": "users", "record": {{"id": number, "name": name}}}}))
print(json.dumps({{"type": "STATE", "value": {{"bookmarks": {{"users": {{"id": 2}}}}}}}}))
"""


def _singer(stage: Stage) -> None:
    tap = stage.write("taps/tap-users", _TAP.format(python=sys.executable))
    tap.chmod(0o755)
    config = stage.block("singer", '{"connector.class": "SingerSource"')
    stage.write("users.json", config.replace("/opt/taps", str(tap.parent)))
    stage.replaced["/opt/taps"] = str(tap.parent)


def _sql(stage: Stage) -> None:
    with sqlite3.connect(stage.folder / "shop.db") as shop:
        shop.execute("create table orders (id integer primary key, item text, price real, changed text not null)")
        shop.execute("insert into orders values (1, 'tea', 2.5, '2026-11-01 10:00:00')")
    shop.close()
    stage.write("db", "password=x\n")
    stage.replaced["/etc/connect/db"] = str(stage.folder / "db")
    config = {
        "name": "shop",
        "connector.class": "SqlSource",
        "connection.url": f"jdbc:sqlite:{stage.folder / 'shop.db'}",
        "mode": "timestamp+incrementing",
        "timestamp.column.name": "changed",
        "incrementing.column.name": "id",
        "table.whitelist": "orders",
        "topic.prefix": "shop-",
    }
    stage.write("shop.json", json.dumps(config))


def _write_a_connector(stage: Stage) -> None:
    stage.write("app.log", "GET /a 200\nGET /b 404\n")
    stage.write("log.json", json.dumps({"connector.class": "FileStreamSource", "file": "app.log", "topic": "log"}))
    stage.replaced[r"(dev \w+/connector.json)$"] = r"\1 --once"


_SCENES: Mapping[str, Callable[[Stage], None]] = {
    "cli.md": _cli,
    "dead_letters.md": _dead_letters,
    "delta.md": _lake,
    "dlt.md": _dlt,
    "errant_records.md": _errant_records,
    "files_and_spark.md": _files_and_spark,
    "history.md": _history,
    "http.md": _http,
    "iceberg.md": _lake,
    "internal_topics.md": _internal_topics,
    "java_connectors.md": _inventory,
    "mirror.md": _mirror,
    "overview.md": _overview,
    "plugins.md": _plugins,
    "preview.md": _preview,
    "python_connectors.md": _python_connectors,
    "schema_registry.md": _schema_registry,
    "singer.md": _singer,
    "sql.md": _sql,
    "write_a_connector.md": _write_a_connector,
    "write_a_sink.md": _write_a_connector,
}


class _Service(BaseHTTPRequestHandler):
    """The web service of http.md: three tickets on one page, and orders that are put and deleted."""

    address = ""

    def do_GET(self) -> None:
        tickets = [{"id": number, "updated_at": f"2026-01-0{number}T09:00:00Z"} for number in (1, 2, 3)]
        self._answer(json.dumps({"tickets": tickets, "items": tickets, "data": tickets, "links": {}}).encode())

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self._answer(b"{}")

    def do_DELETE(self) -> None:
        self._answer(b"{}")

    def _answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@contextmanager
def _service() -> Iterator[None]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Service)
    _Service.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def run_pages(
    worker: WorkerProcess,
    bootstrap_servers: str,
    folder: Path,
    enter: Callable[[Path], None],
    pages: Sequence[Path] = PAGES,
) -> int:
    """Run the commands of the pages; return how many ran. ``enter`` makes a folder the current one."""
    ran = 0
    kept = set(worker.rest.request("GET", "/connectors").json())
    with _service():
        for page in pages:
            commands = [(line, output) for line, output in commands_of(page)]
            if all(left_out(page.name, line) or line.startswith("cat ") for line, _ in commands):
                continue
            stage = Stage(worker, bootstrap_servers, folder / page.stem)
            stage.folder.mkdir()
            enter(stage.folder)
            properties = (worker.directory / "worker.properties").read_text()
            # Other tests put broken plug-ins into plugin.path.
            stage.write("worker.properties", re.sub(r"^plugin\.path=.*\n", "", properties, flags=re.MULTILINE))
            stage.replaced |= {
                r"http://(127\.0\.0\.1:808[34]|worker(-1\.example\.com)?:8083)": stage.url,
                r"127\.0\.0\.1:9092|host:9092": bootstrap_servers,
                r"\bNAME\b": "lines",
                r"orders/3\b": "orders/0",
            }
            _SCENES.get(page.name, lambda _: None)(stage)
            try:
                for line, output in commands:
                    if line.startswith("cat "):
                        stage.write(line.split()[1], output)
                    elif left_out(page.name, line) is None:
                        stage.run(page.name, line)
            finally:  # a failed connector would make the worker unhealthy for later tests
                for name in set(worker.rest.request("GET", "/connectors").json()) - kept:
                    worker.rest.delete(name)
            ran += stage.ran
    return ran
