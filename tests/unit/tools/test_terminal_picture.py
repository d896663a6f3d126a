from __future__ import annotations

from xml.etree import ElementTree

from tools.terminal_picture import terminal_picture


def test_colours_and_hostile_text_become_spans() -> None:
    svg = terminal_picture("a < b", "NAME\n\x1b[1;31m<x>\x1b[0m plain & more\n")
    root = ElementTree.fromstring(svg)  # it is well formed
    spans = [(element.get("class"), element.text) for element in root.iter("{http://www.w3.org/2000/svg}tspan")]
    assert spans == [("", "NAME"), ("head bad", "<x>"), ("", " plain & more")]
    assert "prefers-color-scheme: dark" in svg
