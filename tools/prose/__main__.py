"""The docs check. ``python -m tools.prose`` fails when a file breaks a rule more often than the baseline allows.

python -m tools.prose                 new violations, as file:line, rule and fix
python -m tools.prose PATH ...        every violation of these files or folders
python -m tools.prose --lower         write lower counts into the baseline; refused when a count rose
python -m tools.prose --rules         each rule with its count in the whole repository
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence

from tools.prose import baseline
from tools.prose.measures import Rule, Violation, rules, violations
from tools.prose.texts import ROOT, names_of_tests, package_texts, pages


def found_everywhere(table: dict[str, Rule]) -> list[Violation]:
    """Return every violation of the repository."""
    return violations(table, pages(), (*package_texts(), *names_of_tests()))


def shown(table: dict[str, Rule], hits: Sequence[Violation]) -> str:
    """Return a line per violation, and under it the fix."""
    return "\n".join(
        f"{hit.file}:{hit.line}: {hit.rule}: {hit.words!r}\n    {table[hit.rule].why} {table[hit.rule].fix}"
        for hit in hits
    )


def main(arguments: Sequence[str]) -> int:
    """Run the check; return the exit code: 0 when nothing is new."""
    table = rules()
    found = found_everywhere(table)
    if arguments == ["--rules"]:
        count = Counter(hit.rule for hit in found)
        print("\n".join(f"{count[name]:6} {name}: {rule.why} {rule.fix}" for name, rule in table.items()))
        return 0
    if arguments and arguments != ["--lower"]:
        print(shown(table, [hit for hit in found if hit.file.startswith(tuple(arguments))]))
        return 0
    return _compare(table, found, lower=bool(arguments))


def _compare(table: dict[str, Rule], found: list[Violation], lower: bool) -> int:
    now = baseline.counts(found)
    allowed = baseline.read(baseline.BASELINE.read_text(encoding="utf-8"))
    gone = {file for file, _ in allowed if not (ROOT / file).exists()}
    risen = baseline.rises(now, allowed, {file for file, _ in (*now, *allowed)} - gone)
    if risen:
        print(shown(table, [hit for hit in found if (hit.file, hit.rule) in set(risen)]))
        for file, rule in risen:
            print(f"{file}: {rule}: {now[file, rule]} places, at most {allowed[file, rule]} (tools/prose/baseline.txt)")
        print("Fix the new ones; the rules are in tools/prose/rules.toml.")
        return 1
    if lower:
        baseline.BASELINE.write_text(baseline.written(now), encoding="utf-8")
    elif now != allowed:
        print("Fewer violations than the baseline allows, or moved files: run python -m tools.prose --lower")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
