"""The long form: taps and sources whose packages are large, from their packages, each killed twice in mid-flow."""

from __future__ import annotations

from pathlib import Path

from tests.integration.programs.kill_story import killed_twice_and_counted
from tests.integration.programs.program_runs import harness, ids, poll_to_end
from tests.integration.programs.real_programs import faker, manifest, tap_rest
from tests.integration.programs.rest_orders import TOKEN, Orders

ROWS = 3_000


def test_a_singer_tap_of_a_rest_service(tmp_path: Path) -> None:
    with Orders(ROWS, pause_s=0.1) as orders:
        tap = tap_rest(orders.service.url)
        _, again = killed_twice_and_counted(tmp_path, tap, "of.orders", range(1, ROWS + 1), 600)
    assert again < 2 * ROWS


def test_a_declarative_manifest_of_a_rest_service(tmp_path: Path) -> None:
    with Orders(ROWS, pause_s=0.1) as orders:
        source = manifest(orders.service.url)
        _, again = killed_twice_and_counted(tmp_path, source, "of.orders", range(1, ROWS + 1), 800)
    assert again < ROWS


def test_both_read_only_what_is_new_after_a_restart() -> None:
    for make in (tap_rest, manifest):
        with Orders(350) as orders:
            program = make(orders.service.url)
            with harness(program.kind, "", program.config, program.settings) as source:
                assert sorted(ids(poll_to_end(source))) == list(range(1, 351))
                orders.rows = 420
                source.restart()
                assert sorted(ids(poll_to_end(source)))[-70:] == list(range(351, 421))
            assert TOKEN not in str(source.offsets.all())


def test_a_python_source_of_airbyte(tmp_path: Path) -> None:
    killed_twice_and_counted(tmp_path, faker(40_000), "of.users", range(1, 40_001), 4_000)
