"""The pages and pictures are true: paths exist, links lead somewhere, what is drawn is what the sources say."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench import chart, performance
from tools import layers

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "spark_connect_rt"
WHERE = ROOT / "docs/reference/where_is.md"
PAGES = sorted(
    page for page in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")) if page.is_file()
)


def named_paths(page: Path) -> Iterator[str]:
    """Yield what looks like a file or folder of this repository in a page's code marks: ``a/b.py``, ``a/b/``."""
    for words in re.findall(r"`([^`\n]+)`", page.read_text(encoding="utf-8")):
        for word in words.removeprefix("./").split("::")[0].split():
            if re.fullmatch(r"[a-z_]+/[\w/-]*(?:\.(?:py|md|json|toml|sh|properties))?", word) and word[-1:] != "_":
                yield word


def exists(name: str) -> bool:
    """Return whether a path is there: from the root, the package, or the tests."""
    return any((folder / name).exists() for folder in (ROOT, PACKAGE, ROOT / "tests"))


def test_every_path_in_the_where_is_map_exists() -> None:
    paths = list(named_paths(WHERE))
    assert len(paths) > 50
    assert [path for path in paths if not (PACKAGE / path).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_python_file_that_a_page_names_exists(page: Path) -> None:
    assert [path for path in named_paths(page) if path.endswith((".py", ".md")) and not exists(path)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_to_a_file(page: Path) -> None:
    targets = re.findall(r"\]\(([^)\s#]+)(?:#[\w-]+)?\)", page.read_text(encoding="utf-8"))
    local = [target for target in targets if "://" not in target and not target.startswith("mailto:")]
    assert [target for target in local if not (page.parent / target).exists()] == []


def test_the_pictures_are_what_their_scripts_draw() -> None:
    committed = (ROOT / chart.PICTURE).read_text(encoding="utf-8")
    assert committed == chart.drawn(ROOT / "bench/results"), "run: python -m bench.chart"
    assert (ROOT / layers.PICTURE).read_text(encoding="utf-8") == layers.drawn(), "run: python -m tools.layers"
    page = (ROOT / layers.PAGE).read_text(encoding="utf-8")
    assert page == layers.page(page), "run: python -m tools.layers"


def test_the_figures_of_a_page_are_those_of_the_benchmarks() -> None:
    committed = (ROOT / performance.PAGE).read_text(encoding="utf-8")
    assert committed == performance.page(committed, ROOT / "bench/results"), "run: python -m bench.performance"


def test_every_module_of_the_package_is_in_the_picture_of_its_layers() -> None:
    there = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert {name for row in layers.layers() for name in row} == there - {"__init__"}


def test_a_bar_says_how_many_times_better_whichever_way_the_figure_runs() -> None:
    found = {bar.words: bar for bar in chart.bars(ROOT / "bench/results")}
    throughput, seconds = found["file source, one task"], found["start until REST answers"]
    assert throughput.better == pytest.approx(throughput.ours / throughput.java)
    assert seconds.better == pytest.approx(seconds.java / seconds.ours)


def test_pictures_have_colours_for_dark_pages() -> None:
    pictures = sorted((ROOT / "docs/images").glob("*.svg"))
    assert len(pictures) >= 3
    assert [
        picture.name for picture in pictures if "prefers-color-scheme: dark" not in picture.read_text("utf-8")
    ] == []


def test_every_page_is_in_the_sites_navigation() -> None:
    listed = re.findall(r"^ +- (?:Home: )?([\w/.-]+\.md)$", (ROOT / "mkdocs.yml").read_text("utf-8"), re.MULTILINE)
    there = [str(page.relative_to(ROOT / "docs")) for page in PAGES if page.is_relative_to(ROOT / "docs")]
    assert sorted(listed) == sorted(there)
