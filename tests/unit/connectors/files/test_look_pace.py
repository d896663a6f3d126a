"""How often a growing file is looked at: a line now and then is not late, a flow is no flood of tiny batches."""

from __future__ import annotations

import pytest

from spark_connect_rt.connectors.files.poll_interval import LookPace, next_shared_ms, shared_wait_ms


class Story:
    """A file that grows at an even pace, and a task that looks at it as its pace says."""

    def __init__(self, lines_per_s: float) -> None:
        self.now_s = 0.0
        self.neighbours = 1
        self.pace = LookPace(lambda: self.now_s, lambda: self.neighbours)
        self._lines_per_s = lines_per_s
        self._read = 0
        self.batches = 0
        self.late_s: list[float] = []
        self.found_s: list[float] = []
        self.looked_s: list[float] = []

    def looks_since(self, began_s: float) -> int:
        return sum(at > began_s for at in self.looked_s)

    def goes_on(self, seconds: float) -> None:
        end_s = self.now_s + seconds
        while self.now_s < end_s:
            written = int(self.now_s * self._lines_per_s)
            found = written > self._read
            if found:
                self.late_s += [self.now_s - n / self._lines_per_s for n in range(self._read + 1, written + 1)]
                self.batches += 1
                self.found_s.append(self.now_s)
                self._read = written
            self.pace.looked(found)
            self.looked_s.append(self.now_s)
            self.now_s += 0.001 if found else self.pace.wait_ms() / 1000

    def forget(self) -> None:
        self.batches, self.late_s, self.found_s = 0, [], []


@pytest.mark.parametrize("lines_per_s", [0.5, 1.0, 1.9])
def test_lines_now_and_then_are_always_found_at_once(lines_per_s: float) -> None:
    story = Story(lines_per_s)
    story.goes_on(10.0)
    story.forget()
    story.goes_on(600.0)
    assert max(story.late_s) <= 0.1
    assert story.batches == len(story.late_s)


@pytest.mark.parametrize("lines_per_s", [4.7, 61.3])
def test_a_flow_makes_few_batches_and_no_line_is_later_than_half_a_second(lines_per_s: float) -> None:
    story = Story(lines_per_s)
    story.goes_on(60.0)
    story.forget()
    story.goes_on(60.0)
    assert 105 <= story.batches <= 160
    assert max(story.late_s) <= 0.53


def test_shared_flow_is_a_batch_a_second_as_in_java_and_a_single_line_is_not_late() -> None:
    flow, lines = Story(61.3), Story(0.9)
    for story in (flow, lines):
        story.neighbours = 20
        story.goes_on(60.0)
        story.forget()
        story.goes_on(60.0)
    assert 55 <= flow.batches <= 75
    assert max(flow.late_s) <= 1.03
    assert max(lines.late_s) <= 0.1


def test_a_burst_is_found_at_once() -> None:
    story = Story(60.0)
    story.goes_on(0.19)
    assert len(story.late_s) == 11
    assert max(story.late_s) <= 0.1


def test_long_idle_poller_is_calm_and_has_its_burst_again() -> None:
    story = Story(60.0)
    story.goes_on(60.0)
    story.pace.looked(found=True)
    assert story.pace.wait_ms() > 100
    for _ in range(200):
        story.pace.looked(found=False)
    assert story.pace.wait_ms() == 100
    story.now_s += 60.0
    story.pace.looked(found=True)
    assert story.pace.wait_ms() == 20


def test_a_file_long_at_rest_is_looked_at_twice_a_second_by_all_tasks_at_once() -> None:
    stories = [Story(0.0), Story(0.0)]
    stories[1].now_s = 0.13
    for story in stories:
        story.goes_on(30.0)
        began_s = story.now_s
        assert story.pace.wait_ms() >= 250
        story.goes_on(60.0)
        assert 110 <= story.looks_since(began_s) <= 130
    ends_ms = [round(1000 * story.now_s) + next_shared_ms(1000 * story.now_s) for story in stories]
    assert {end % 500 for end in ends_ms} <= {0, 1, 499}


def test_many_idle_tasks_poll_once_a_second_as_in_java_and_a_flow_is_still_followed() -> None:
    story = Story(0.0)
    story.neighbours = 1_000
    story.goes_on(60.0)
    began_s = story.now_s
    story.goes_on(60.0)
    assert 55 <= story.looks_since(began_s) <= 65
    story.pace.looked(found=True)
    assert story.pace.wait_ms() == 20


@pytest.mark.parametrize(("neighbours", "eager_looks"), [(1, 100), (200, 5)])
def test_among_many_a_task_soon_leaves_looking_to_the_one_that_looks_for_all(neighbours: int, eager_looks: int) -> None:
    story = Story(0.0)
    story.neighbours = neighbours
    story.pace.looked(found=True)
    for _ in range(eager_looks - 1):
        story.pace.looked(found=False)
    assert (story.pace.calm, story.pace.wait_ms()) == (False, 20)
    story.pace.looked(found=False)
    assert (story.pace.calm, story.pace.wait_ms()) == (True, 100)


def test_a_line_after_a_long_rest_is_found_within_three_quarters_of_a_second() -> None:
    story = Story(1 / 45.0)
    story.goes_on(600.0)
    assert len(story.late_s) == 13
    assert max(story.late_s) <= 0.76


@pytest.mark.parametrize(
    ("now_ms", "wait_ms", "shared_ms"),
    [
        (10_000.0, 500.0, 500),
        (10_003.5, 499.0, 497),
        (10_240.0, 400.0, 260),
        (10_260.0, 500.0, 740),
        (10_490.0, 10.0, 10),
    ],
)
def test_a_rationed_wait_ends_nearest_to_its_own_end_at_a_shared_instant(
    now_ms: float, wait_ms: float, shared_ms: int
) -> None:
    assert shared_wait_ms(now_ms, wait_ms) == shared_ms


def test_rationed_tasks_soon_look_at_the_same_instants() -> None:
    stories = [Story(rate) for rate in (30.0, 45.0, 61.3)]
    for story in stories:
        story.goes_on(20.0)
        story.forget()
        story.goes_on(20.0)
        assert 40 <= len(story.found_s) <= 45  # now and then a line comes right behind a look
        assert all(abs(at_s - round(at_s * 2) / 2) < 0.01 for at_s in story.found_s)


def test_poller_that_caught_up_rests_once_when_its_batches_are_rationed() -> None:
    story = Story(60.0)
    story.pace.looked(found=True, caught_up=True)
    assert not story.pace.rests()  # not rationed
    for _ in range(20):
        story.pace.looked(found=True, caught_up=True)
    assert story.pace.rests()
    assert not story.pace.rests()  # it has waited
    story.pace.looked(found=True)
    assert not story.pace.rests()  # behind
