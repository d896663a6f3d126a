"""What examples/README.md promises, done on a worker whose ``plugin.path`` is ``examples/plugins``."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq

from tests.e2e.commands import ROOT, until
from tests.support.connect_rest import ConnectRest
from tests.topics import count_records, read_values

EXAMPLES = ROOT / "examples"
PLUGINS = EXAMPLES / "plugins"
FOLDER = "/tmp/connectrt-examples"


class Examples:
    """The five requests, with a folder of the test's own in place of the page's."""

    def __init__(self, rest: ConnectRest, servers: str, folder: Path) -> None:
        self.rest, self.servers, self.folder = rest, servers, folder

    def deploy(self) -> list[str]:
        """POST all files; return the connectors' names."""
        (self.folder / "in.txt").write_text("card 4111 1111 1111 1234\n")
        names = []
        for file in sorted(EXAMPLES.glob("*.json")):
            body = json.loads(file.read_text(encoding="utf-8").replace(FOLDER, str(self.folder)))
            answer = self.rest.settled("POST", "/connectors", body)
            assert answer.status == 201, (file.name, answer)
            names.append(body["name"])
        return names

    def values(self, topic: str, count: int) -> list[bytes | None]:
        """Return all values of a topic once there are so many."""
        until(lambda: count_records(self.servers, topic) == count, 150, f"{count} in {topic}", lambda: self.states())
        return read_values(self.servers, topic, count)

    def states(self) -> object:
        """Return what the worker says of its connectors."""
        return self.rest.request("GET", "/connectors?expand=status").json()

    def table_rows(self) -> int:
        """Return the number of rows of the table, 0 while there is none."""
        table = self.folder / "countdown.table"
        return int(pq.read_table(table).num_rows) if any(table.glob("*.parquet")) else 0
