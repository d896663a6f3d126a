"""Named topics that are not there: who is asked for, when, and when librdkafka must be told."""

from __future__ import annotations

from spark_connect_rt.kafka.sink_group import LISTED_AFTER_MS, MOST_LOOKED_FOR, TopicWatch


def subscribed(*names: str) -> TopicWatch:
    watch = TopicWatch(100, 1_000, lambda: 0.5)
    watch.doubt(names, now_ms=0)
    return watch


def test_topics_that_are_held_are_not_looked_for() -> None:
    watch = subscribed("a", "b")
    watch.held(["a", "b"])
    assert [watch.names_to_look_for(now_ms) for now_ms in (100, 10_000)] == [(), ()]


def test_a_missing_topic_is_looked_for_at_doubling_times_up_to_the_most() -> None:
    watch, looks = subscribed("a", "late"), list[int]()
    watch.held(["a"])
    for now_ms in range(0, 4_000, 50):
        if names := watch.names_to_look_for(now_ms):
            assert names == ("late",)
            assert not watch.looked(names, (), now_ms)
            looks.append(now_ms)
    assert looks == [100, 300, 700, 1_500, 2_500, 3_500]
    assert watch.missing == {"late"}


def test_when_it_came_all_topics_are_listed_once_and_the_looking_ends() -> None:
    watch = subscribed("late")
    assert not watch.looked(watch.names_to_look_for(100), (), 100)
    assert watch.looked(watch.names_to_look_for(300), ("late",), 300)
    watch.listed(["late", "other"])
    assert watch.names_to_look_for(100_000) == ()


def test_a_listing_from_a_broker_that_does_not_know_it_yet_is_repeated() -> None:
    watch = subscribed("late")
    watch.looked(watch.names_to_look_for(100), (), 100)
    assert watch.looked(watch.names_to_look_for(300), ("late",), 300)
    watch.listed(["other"])
    assert watch.names_to_look_for(700) == ("late",)
    assert watch.looked(("late",), ("late",), 700)


def test_existing_topic_never_held_is_listed_once_after_a_while() -> None:
    """It may have been created between librdkafka's request and the first look."""
    watch, listings = subscribed("a"), list[int]()
    for now_ms in range(0, 20_000, 100):
        names = watch.names_to_look_for(now_ms)
        if names and watch.looked(names, names, now_ms):
            listings.append(now_ms)
            watch.listed(names)
    assert len(listings) == 1
    assert LISTED_AFTER_MS <= listings[0] <= LISTED_AFTER_MS + 1_000


def test_deleted_topic_is_reported_at_once_and_polled_until_it_is_back() -> None:
    watch = subscribed("a")
    watch.held(["a"])
    watch.suspect(["a"], 50_000)
    assert watch.looked(watch.names_to_look_for(50_100), (), 50_100)
    watch.listed([])
    assert not watch.looked(watch.names_to_look_for(50_300), (), 50_300)
    assert watch.looked(watch.names_to_look_for(50_700), ("a",), 50_700)


def test_a_false_alarm_costs_no_more_than_one_listing() -> None:
    watch, listings = subscribed("a"), 0
    watch.held(["a"])
    watch.suspect(["a"], 50_000)
    for now_ms in range(50_000, 80_000, 100):
        if names := watch.names_to_look_for(now_ms):
            listings += watch.looked(names, names, now_ms)
            watch.listed(names)
    assert listings <= 1


def test_very_many_missing_topics_are_listed_rather_than_asked_for_one_by_one() -> None:
    watch = subscribed(*[f"t{number:03d}" for number in range(3 * MOST_LOOKED_FOR)])
    watch.listed([])
    names = watch.names_to_look_for(100)
    assert len(names) == MOST_LOOKED_FOR
    assert watch.looked(names, (), 100)
