"""The quick way is tried less and less often while it fails."""

from __future__ import annotations

from spark_connect_rt.base.adaptive_fallback import AdaptiveFallback


def tried(tries: AdaptiveFallback, times: int) -> list[int]:
    """Return which of the next times are tried, while all of them fail."""
    found = []
    for time in range(times):
        if tries.due():
            found.append(time)
            tries.failed()
    return found


def test_failures_are_further_and_further_apart_but_never_more_than_64_times() -> None:
    assert tried(AdaptiveFallback(), 300) == [0, 2, 5, 10, 19, 36, 69, 134, 199, 264]


def test_working_attempt_is_repeated_each_time() -> None:
    tries = AdaptiveFallback()
    assert tried(tries, 4) == [0, 2]
    while not tries.due():
        pass
    tries.worked()
    assert [tries.due() for _ in range(3)] == [True, True, True]
    assert tried(tries, 3) == [0, 2]
