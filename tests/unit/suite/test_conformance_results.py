"""The table of Kafka's own tests counts what JUnit reported."""

from __future__ import annotations

from pathlib import Path

from tests.conformance.results import Outcome, dump, load, page, read_reports, summary

REPORT = """<testsuite>
<testcase name="testA()" classname="org.x.OneTest" time="1.5"/>
<testcase name="testB(boolean)[1]" classname="org.x.OneTest" time="1"/>
<testcase name="testB(boolean)[2]" classname="org.x.OneTest" time="2">
<failure message="expected 1 | got 2&#10;at"/></testcase>
<testcase name="testC()" classname="org.x.OneTest" time="1"><error>java.lang.Error: none
at x</error></testcase>
</testsuite>"""


def test_a_method_with_parameters_counts_once_and_fails_with_any_of_them(tmp_path: Path) -> None:
    (tmp_path / "TEST-junit-jupiter.xml").write_text(REPORT)
    assert read_reports(tmp_path) == {
        ("OneTest", "testA"): Outcome(True, 1.5),
        ("OneTest", "testB"): Outcome(False, 3.0, "expected 1 | got 2"),
        ("OneTest", "testC"): Outcome(False, 1.0, "java.lang.Error: none"),
    }


def test_the_page_and_the_last_line_count_methods(tmp_path: Path) -> None:
    (tmp_path / "TEST-junit-jupiter.xml").write_text(REPORT)
    found = read_reports(tmp_path)
    assert "| `OneTest` | 3 | 1 | 2 | 0 |" in page(found)
    assert "| `OneTest.testB` | expected 1 \\| got 2 |" in page(found)
    assert summary(found, 3).splitlines()[-1] == "1 passed, 2 failed"


def test_outcomes_are_kept_as_they_were(tmp_path: Path) -> None:
    (tmp_path / "TEST-junit-jupiter.xml").write_text(REPORT)
    found = read_reports(tmp_path)
    assert load(dump(found)) == found
