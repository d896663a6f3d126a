"""The search for the coordinator among brokers that answer, refuse, or say nothing at all."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable

import pytest
from aiokafka.errors import SaslAuthenticationFailed

from spark_connect_rt.kafka.membership import group_link
from spark_connect_rt.kafka.membership.group_link import (
    CoordinatorLink,
    CoordinatorRefusesError,
    CoordinatorSearch,
    CoordinatorUnknownError,
    LinkSettings,
)

SETTINGS = LinkSettings("g", "a:1,b:2", "c", 1_000, 1_000, 1_000)


class Link(CoordinatorLink):
    def __init__(self, name: str) -> None:
        self.name, self.closed = name, False

    def close(self) -> None:
        self.closed = True


def search(monkeypatch: pytest.MonkeyPatch, **answers: Callable[[], Awaitable[CoordinatorLink]]) -> CoordinatorLink:
    """Find with these brokers, asked in the order of SETTINGS."""
    monkeypatch.setattr(group_link.random, "sample", lambda servers, _: list(servers))
    monkeypatch.setattr(group_link, "STAGGER_S", 0.001)
    monkeypatch.setattr(CoordinatorSearch, "_ask", lambda self, host, port: answers[host]())
    return asyncio.run(CoordinatorSearch(SETTINGS).find())


async def silence() -> CoordinatorLink:
    await asyncio.Event().wait()
    raise AssertionError


def failing(error: Exception) -> Callable[[], Awaitable[CoordinatorLink]]:
    async def fail() -> CoordinatorLink:
        raise error

    return fail


def finding(link: CoordinatorLink) -> Callable[[], Awaitable[CoordinatorLink]]:
    async def find() -> CoordinatorLink:
        return link

    return find


def test_a_host_that_says_nothing_does_not_hold_the_search_up(monkeypatch: pytest.MonkeyPatch) -> None:
    link = Link("b")
    assert search(monkeypatch, a=silence, b=finding(link)) is link


def test_one_link_is_kept_when_two_brokers_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    links = [Link("a"), Link("b")]
    asked = asyncio.Event()

    async def with_the_other() -> CoordinatorLink:
        await asked.wait()
        return links[0]

    async def second() -> CoordinatorLink:
        asked.set()
        return links[1]

    kept = search(monkeypatch, a=with_the_other, b=second)
    assert [link.closed for link in links] == [link is not kept for link in links] or not any(
        link.closed for link in links if link is kept
    )
    assert sum(link.closed for link in links) <= 1


def test_every_brokers_failure_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {"a": failing(OSError("refused")), "b": failing(CoordinatorUnknownError("loading"))}
    with pytest.raises(CoordinatorUnknownError, match="a:1: refused; b:2: loading"):
        search(monkeypatch, **answers)


@pytest.mark.parametrize(
    ("error", "setting"),
    [
        (SaslAuthenticationFailed("invalid credentials"), "sasl.jaas.config"),
        (ssl.SSLError(1, "[SSL: TLSV1_ALERT_UNKNOWN_CA] tlsv1 alert unknown ca"), None),
    ],
)
def test_a_broker_that_lets_this_worker_in_outweighs_one_that_does_not(
    monkeypatch: pytest.MonkeyPatch, error: Exception, setting: str | None
) -> None:
    link = Link("b")
    assert search(monkeypatch, a=failing(error), b=finding(link)) is link
    expected = CoordinatorUnknownError if setting is None else CoordinatorRefusesError
    with pytest.raises(expected, match=setting):
        search(monkeypatch, a=failing(error), b=failing(OSError("refused")))


def test_a_mistake_of_ours_is_not_taken_for_a_broker_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ZeroDivisionError):
        search(monkeypatch, a=failing(ZeroDivisionError()), b=silence)
