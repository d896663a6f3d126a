"""The description of each plug-in in a list: one sentence, from a docstring that is read without an import."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from spark_connect_rt.engine.process_plugins import plugins_in
from spark_connect_rt.operations.plugin_install.report import plugin_report
from spark_connect_rt.plugins.plugin_desc import LENGTH_MAX, description_of, docstrings_of, first_sentence
from spark_connect_rt.plugins.registry import Plugins, bundled

EXITS = 'raise SystemExit("a list of plug-ins must not run this")\n'


@pytest.mark.parametrize(
    ("docstring", "sentence"),
    [
        ("", ""),
        ("Reads rows.", "Reads rows."),
        ("Reads rows of\n    a table. Settings are JDBC's.\n\nMore.", "Reads rows of a table."),
        ("Reads ``a.b``, e.g. of version 1.5 on.\n", "Reads a.b, e.g. of version 1.5 on."),
        ("x" * 500, "x" * (LENGTH_MAX - 1) + "…"),
    ],
)
def test_the_first_sentence_of_a_docstring(docstring: str, sentence: str) -> None:
    assert first_sentence(docstring) == sentence


def test_inner_classes_and_classes_that_extend_one_of_their_module() -> None:
    source = (
        'class A:\n    """About A."""\n    class Inner:\n        """Within."""\nclass B(A):\n    x = 1\nclass C: ...\n'
    )
    assert docstrings_of(source) == {"A": "About A.", "A.Inner": "Within.", "B": "About A.", "C": ""}


def test_bundled_plugins_are_described_and_not_imported() -> None:
    plugin = bundled("spark_connect_rt.connectors.sql.sql_sink:SqlSinkConnector", "sink")
    before = set(sys.modules)
    [row] = plugin_report(Plugins([plugin]))["plugins"]
    assert row["description"] == "Inserts, upserts, updates or deletes rows in the tables of a SQL database."
    assert set(sys.modules) == before


def test_a_plugin_of_a_folder_is_described_again_when_its_file_changes(tmp_path: Path) -> None:
    folder = tmp_path / "described_orders"  # a process keeps the first plug-in of a name
    folder.mkdir()
    (folder / "entry_points.txt").write_text(
        "[spark_connect_rt.source_connectors]\nOrders = deep.orders:Orders\nBad = bad:Bad\nGone = gone:Gone\n"
    )
    (folder / "deep").mkdir()
    (folder / "deep" / "__init__.py").write_text(EXITS)
    module = folder / "deep" / "orders.py"
    module.write_text(f'{EXITS}class Orders:\n    """Reads orders."""\n')
    (folder / "bad.py").write_text("class Bad(:\n")
    found = {
        plugin.target: plugin for plugin in plugins_in([str(tmp_path)]).everything() if plugin.location == str(folder)
    }
    assert [found[name].description for name in ("deep.orders:Orders", "bad:Bad", "gone:Gone")] == [
        "Reads orders.",
        "",
        "",
    ]
    module.write_text(f'{EXITS}class Orders:\n    """Reads orders and their lines."""\n')
    assert found["deep.orders:Orders"].description == "Reads orders and their lines."


def test_missing_class_has_no_description() -> None:
    assert description_of("no.such.module:Class") == description_of("no-module") == ""
