"""The committed reference pages say what the program reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_connect_rt.base.exit_codes import EXIT_CODES
from spark_connect_rt.config.config_def import REQUIRED, ConfigKey, Importance, Type
from spark_connect_rt.config.connector_config import SINK, SOURCE
from spark_connect_rt.config.validators import AtLeast, one_of
from spark_connect_rt.config.worker_settings import DISTRIBUTED, STANDALONE
from tools import reference_docs
from tools.reference_docs import PAGES, settings_table, write_pages

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("name", PAGES)
def test_the_committed_page_is_what_the_declarations_say(name: str) -> None:
    committed = (ROOT / reference_docs.FOLDER / name).read_text(encoding="utf-8")
    assert committed == PAGES[name](), "run: python -m tools.reference_docs"


def test_every_bundled_connector_is_in_the_readme_and_has_a_sentence_in_the_table() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    page = PAGES["connector_settings.md"]()
    for plugin in reference_docs.listed_connectors():
        name = plugin.java_class.rpartition(".")[2].removesuffix("Connector")
        assert plugin.description.endswith("."), name
        assert f"[{name}](docs/reference/connectors/{name}.md)" in readme
        assert f"| [`{name}`](connectors/{name}.md) | {plugin.type} | {plugin.description} |" in page


def test_every_setting_and_every_exit_code_is_on_its_page() -> None:
    worker, connector, codes = (
        PAGES[name]() for name in ("worker_settings.md", "connector_settings.md", "exit_codes.md")
    )
    assert [name for name in DISTRIBUTED.names() if f"| `{name}` |" not in worker] == []
    standalone = PAGES["standalone_settings.md"]()
    assert [name for name in STANDALONE.names() if f"| `{name}` |" not in standalone] == []
    assert "`group.id`" not in standalone
    assert [name for name in (*SOURCE.names(), *SINK.names()) if f"| `{name}` |" not in connector] == []
    assert [code for code in EXIT_CODES if f"| {code} |" not in codes] == []
    assert "| `batch.size` |" in PAGES["connectors/FileStreamSource.md"]()
    assert " at 0x" not in worker + connector


def test_a_row_shows_default_values_and_meaning_and_escapes_what_markdown_would_eat() -> None:
    table = settings_table(
        [
            ConfigKey("a", Type.STRING, REQUIRED, Importance.HIGH, "Of <alias> | or & not.", one_of("x", "y")),
            ConfigKey("b", Type.LIST, "", Importance.LOW, "B."),
            ConfigKey("c", Type.INT, None, Importance.MEDIUM, "C.", AtLeast(1)),
            ConfigKey("d", Type.BOOLEAN, True, Importance.MEDIUM, "D.", lambda value: None),
        ]
    )
    assert table.splitlines()[2:] == [
        "| `a` | string | **required** | [x, y] | high | Of &lt;alias> \\| or &amp; not. |",
        "| `b` | list | empty |  | low | B. |",
        "| `c` | int | not set | [1,...] | medium | C. |",
        "| `d` | boolean | `true` |  | medium | D. |",
    ]


def test_unsupported_settings_are_marked_in_the_page() -> None:
    worker = PAGES["worker_settings.md"]()
    row = next(line for line in worker.splitlines() if "`metrics.recording.level`" in line)
    assert "*In this version: every metric is recorded" in row


def test_pages_are_written(tmp_path: Path) -> None:
    write_pages(tmp_path / "reference")
    written = {str(page.relative_to(tmp_path / "reference")) for page in (tmp_path / "reference").rglob("*.md")}
    assert written == set(PAGES)
