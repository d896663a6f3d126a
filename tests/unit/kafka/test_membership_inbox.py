"""Which waiting events a newer one makes worthless, and what ends a wait."""

from __future__ import annotations

import threading
import time

import pytest

from spark_connect_rt.errors import ConnectError
from spark_connect_rt.group.member import Assigned, AssignmentRequired, ContactLost, JoinRequired, MembershipInbox

ASSIGNED = Assigned(1, "sessioned", "m", "m", b"")
ASKED = AssignmentRequired(1, "sessioned", "m", {})


def test_a_lost_contact_overtakes_everything() -> None:
    inbox = MembershipInbox()
    inbox.tell(ASSIGNED)
    inbox.tell(JoinRequired("a"), 1)
    inbox.tell(ContactLost("silence"))
    inbox.tell(JoinRequired("b"), 2)
    assert inbox.take(0)[0] == [ContactLost("silence"), JoinRequired("b")]
    assert inbox.join_round == 2


def test_a_new_join_replaces_the_older_question_but_not_what_was_assigned() -> None:
    inbox = MembershipInbox()
    for event, number in ((ASSIGNED, 0), (JoinRequired("a"), 1), (ASKED, 7), (JoinRequired("b"), 2)):
        inbox.tell(event, number)
    assert inbox.take(0)[0] == [ASSIGNED, JoinRequired("b")]
    assert inbox.assignment_generation == -1


def test_only_what_was_taken_can_be_answered() -> None:
    inbox = MembershipInbox()
    inbox.tell(JoinRequired("a"), 4)
    assert inbox.join_round == 0
    inbox.take(0)
    inbox.tell(ASKED, 9)
    assert (inbox.join_round, inbox.assignment_generation) == (4, -1)
    inbox.take(0)
    assert inbox.assignment_generation == 9


def test_a_wakeup_is_kept_for_the_next_wait_and_used_up_by_it() -> None:
    inbox = MembershipInbox()
    inbox.wakeup()
    assert inbox.take(10_000) == ([], True)
    assert inbox.take(0) == ([], False)


def test_another_thread_ends_the_wait() -> None:
    inbox = MembershipInbox()
    waiting = threading.Timer(0.05, inbox.tell, [ASSIGNED])
    waiting.start()
    begun = time.monotonic()
    assert inbox.take(10_000)[0] == [ASSIGNED]
    assert time.monotonic() - begun < 5
    waiting.join()


def test_a_failure_is_raised_after_what_came_before_it() -> None:
    inbox = MembershipInbox()
    inbox.tell(ContactLost("refused"))
    inbox.fail(ConnectError("not authorised"))
    assert inbox.take(0)[0] == [ContactLost("refused")]
    for _ in range(2):
        with pytest.raises(ConnectError, match="not authorised"):
            inbox.take(10_000)


def test_forgetting_drops_what_waits() -> None:
    inbox = MembershipInbox()
    inbox.tell(ASSIGNED)
    inbox.forget()
    assert inbox.is_empty
