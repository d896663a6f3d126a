"""The docs check: every rule finds its bad example and passes its good one; the baseline only falls."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from tools.prose import __main__ as command
from tools.prose import baseline
from tools.prose.measures import Rule, rules, violations
from tools.prose.texts import Text, names_of_tests, page, pages, python_texts, template_texts

RULES = rules()
PATTERNS = [rule for rule in RULES.values() if rule.pattern]
SHORT, LONG = "A short one. ", "word " * 40


def broken_by_page(source: str, file: str = "docs/howto/page.md") -> list[tuple[str, int]]:
    return [(hit.rule, hit.line) for hit in violations(RULES, [page(file, source)], [])]


def broken_by_module(source: str) -> list[tuple[str, int]]:
    return [(hit.rule, hit.line) for hit in violations(RULES, [], python_texts("a.py", source))]


def broken_by(rule: Rule, words: str) -> bool:
    kind = sorted(rule.kinds)[0]
    text = f"\n{words}" if kind == "code" else words
    return rule.name in {hit.rule for hit in violations(RULES, [], [Text(kind, "a", text, ((0, 1),))])}


@pytest.mark.parametrize("rule", PATTERNS, ids=lambda rule: rule.name)
def test_each_pattern_finds_its_bad_example_and_passes_the_good_one(rule: Rule) -> None:
    assert broken_by(rule, rule.bad)
    assert not broken_by(rule, rule.good)


def test_every_rule_has_a_reason_and_a_fix_and_its_pattern_is_in_lower_case() -> None:
    assert [name for name, rule in RULES.items() if not (rule.why.endswith(".") and rule.fix.endswith("."))] == []
    patterns = {rule.name: re.sub(r"\\.", "", rule.pattern.pattern) for rule in PATTERNS if rule.pattern}
    assert [name for name, pattern in patterns.items() if pattern != pattern.lower()] == []
    assert [rule.name for rule in PATTERNS if not (rule.bad and rule.good)] == []
    assert [name for name, rule in RULES.items() if not rule.pattern and not rule.limit] == []


@pytest.mark.parametrize(
    ("rule", "bad", "good"),
    [
        ("long-paragraph", SHORT * 21, SHORT * 20),
        ("long-sentence", "word " * 31, "word " * 30),
        ("long-line", SHORT + "w" * 121 + ". It ends.", SHORT + "\n" + "w" * 121),
        ("semicolons", "a b; c d. e f; g h.", "a b; c d. e f, g h."),
        ("semicolon-chain", "A; b; c.", "A; b. C; d."),
        ("aside", f"It ({'word ' * 16}) is.", f"It ({'word ' * 15}) is."),
        ("few-code-blocks", SHORT * 60, SHORT * 60 + "\n\n```\nrun\n```\n"),
    ],
)
def test_each_limit_of_a_page_holds_at_its_edge(rule: str, bad: str, good: str) -> None:
    assert rule in {name for name, _ in broken_by_page(bad)}
    assert rule not in {name for name, _ in broken_by_page(good)}


@pytest.mark.parametrize(
    ("rule", "bad", "good"),
    [
        ("long-sentence", f'"""{LONG}"""', '"""Return the size. It is in bytes."""'),
        ("long-sentence", f'raise ValueError("{LONG}")', 'raise ValueError("size: not valid")'),
        ("short-docstring", '"""Return the task."""', '"""Return the task of that number."""'),
        ("see-docstring", '"""See ``HostedSink``."""', '"""Return the sink. See ``HostedSink``."""'),
        ("is-none", "# the body is none", "# the body is None"),
    ],
)
def test_strings_docstrings_and_comments_of_a_module_are_read(rule: str, bad: str, good: str) -> None:
    assert (rule, 2) in broken_by_module(f"\n{bad}\n")
    assert rule not in {name for name, _ in broken_by_module(f"\n{good}\n")}


def test_a_long_test_name_is_found(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    names = ["test_" + "x" * 76, "test_" + "x" * 75, "test_what_is_no_page"]
    (tmp_path / "tests/test_a.py").write_text("".join(f"def {name}(): ...\n" for name in names))
    found = violations(RULES, [], names_of_tests(tmp_path))
    assert [(hit.line, hit.rule) for hit in found] == [(1, "long-test-name"), (3, "clause-as-subject"), (3, "is-no")]


def test_a_line_of_a_page_is_that_of_the_words() -> None:
    source = "# Title\n\nA first line\nthat goes on.\n\n- item\n- it stands there\n\n| a |\n|---|\n| of its own |\n"
    assert broken_by_page(source, "docs/reference/a.md") == [("goes-on", 4), ("stands", 7), ("of-its-own", 11)]


@pytest.mark.parametrize(
    "source",
    [
        "```\nit goes on\n```",
        "    it goes on",
        "`goes on`",
        'The log says "it goes on".',
        "> it goes on",
        "<!-- figures: written by python -m bench.performance -->\nit goes on\n<!-- figures: end -->",
    ],
)
def test_code_quotations_and_parts_that_a_program_writes_are_left_out(source: str) -> None:
    assert broken_by_page(source) == []


def test_pages_that_a_program_writes_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/a.md").write_text("<!-- Made by `python -m tools.reference_docs` -->\n")
    (tmp_path / "docs/b.md").write_text("By hand.\n")
    assert [found.file for found in pages(tmp_path)] == ["docs/b.md"]


def test_adjacent_strings_are_one_text_and_a_kept_line_is_left_out() -> None:
    assert broken_by_module('x = (\n    "it goes "\n    "on"\n)\n') == [("goes-on", 2)]
    assert broken_by_module('x = "it goes on"  # prose: keep - Java\'s words\n') == []
    assert broken_by_module('# prose: keep - Java\'s words\nx = "it goes on"\ny = "it goes on"\n') == [("goes-on", 3)]
    assert broken_by_module("# it goes\n# on\n") == [("goes-on", 1)]


def test_placeholders_are_one_word_each() -> None:
    assert broken_by_module('x = f"{a} goes {b[1]} on %s"\n') == []


def test_templates_are_read_without_tags_and_expressions() -> None:
    texts = list(
        template_texts("a.html", '<p>\n It <b>goes on</b></p><i title="for ever {{ a }}">{% if x %}a b{% end %}</i>')
    )
    assert [(text.text, text.line(0)) for text in texts] == [("goes on", 2), ("for ever X", 2), ("a b", 2)]


def test_a_baseline_is_sorted_without_zeros_and_read_back() -> None:
    counts = Counter({("p/b.py", "tell"): 2, ("p/a.py", "tell"): 1, ("p/a.py", "beside"): 3, ("c.md", "tell"): 4})
    counts["p/c.py", "tell"] = 0
    text = baseline.written(counts)
    assert text == "./\nc.md tell=4\np/\na.py beside=3 tell=1\nb.py tell=2\n"
    assert baseline.read(text) == +counts


@pytest.mark.parametrize(
    ("now", "files", "risen"),
    [
        ({("p/a.py", "tell"): 2}, {"p/a.py", "p/b.py"}, []),
        ({("p/a.py", "tell"): 3}, {"p/a.py", "p/b.py"}, [("p/a.py", "tell")]),
        ({("p/new.py", "tell"): 1}, {"p/a.py", "p/b.py", "p/new.py"}, [("p/new.py", "tell")]),
        ({("p/new.py", "tell"): 2}, {"p/b.py", "p/new.py"}, []),  # a.py was moved
        ({("p/new.py", "tell"): 3}, {"p/b.py", "p/new.py"}, [("p/new.py", "tell")]),
        ({("p/b.py", "tell"): 3}, {"p/b.py"}, []),  # a.py was merged into b.py
        ({("q/new.py", "tell"): 2}, {"p/b.py", "q/new.py"}, [("q/new.py", "tell")]),
    ],
)
def test_a_count_rises_only_by_what_files_that_are_gone_held(
    now: dict[tuple[str, str], int], files: set[str], risen: list[tuple[str, str]]
) -> None:
    allowed = Counter({("p/a.py", "tell"): 2, ("p/b.py", "tell"): 1})
    assert baseline.rises(Counter(now), allowed, files) == risen


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of one page that breaks one rule twice."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/a.md").write_text("It goes on.\nIt goes on.\n")
    monkeypatch.setattr(command, "ROOT", tmp_path)
    monkeypatch.setattr(command, "pages", lambda: pages(tmp_path))
    monkeypatch.setattr(command, "package_texts", lambda: ())
    monkeypatch.setattr(command, "names_of_tests", lambda: ())
    monkeypatch.setattr(baseline, "BASELINE", tmp_path / "baseline.txt")
    baseline.BASELINE.write_text("docs/\na.md goes-on=2\n")
    assert command.main(["--lower"]) == 0
    return tmp_path


@pytest.mark.parametrize("arguments", [[], ["--lower"]])
def test_without_its_baseline_the_check_fails(repository: Path, arguments: list[str]) -> None:
    baseline.BASELINE.unlink()
    with pytest.raises(FileNotFoundError):
        command.main(arguments)


def test_a_new_violation_fails_with_place_rule_and_fix(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (repository / "docs/a.md").write_text("It goes on.\nIt goes on.\nIt goes on.\n")
    assert command.main([]) == 1
    said = capsys.readouterr().out
    assert "docs/a.md:3: goes-on: 'goes on'" in said
    assert "'continues', 'resumes'" in said
    assert "3 places, at most 2" in said


def test_lower_writes_fewer_and_refuses_more(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (repository / "docs/a.md").write_text("It goes on.\n")
    assert command.main([]) == 0
    assert "--lower" in capsys.readouterr().out
    assert command.main(["--lower"]) == 0
    assert baseline.BASELINE.read_text() == "docs/\na.md goes-on=1\n"
    (repository / "docs/a.md").write_text("It goes on.\nIt goes on.\n")
    assert command.main(["--lower"]) == 1
    assert baseline.BASELINE.read_text() == "docs/\na.md goes-on=1\n"
