"""Answers of requests: a Future gets what a call returned or raised, whatever that is, and whatever became of it.

The one place where a request's work, plug-in code included, ends: nothing it raises passes to the thread that ran it.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from typing import TypeVar

from spark_connect_rt.errors import as_error

T = TypeVar("T")


def answered(call: Callable[[], T | Future[T]]) -> Future[T]:
    """Return what a call answered at once, or its error, or what a Future gets that it returned."""
    answer: Future[T] = Future()
    answer_by(answer, call)
    return answer


def answer_by(answer: Future[T], call: Callable[[], T | Future[T]]) -> None:
    """Give ``answer`` what a call returns or raises, or what a Future gets that it returns.

    An answer that was cancelled asks for no call; from here on it cannot be cancelled.
    """
    if not _is_wanted(answer):
        return
    try:
        outcome = call()
    except BaseException as error:  # noqa: BLE001 - the request's failure is its answer, SystemExit of a plug-in too
        answer.set_exception(as_error(error))
        return
    if isinstance(outcome, Future):
        outcome.add_done_callback(lambda done: copy_outcome(done, answer))
    else:
        answer.set_result(outcome)


def copy_outcome(done: Future[T], answer: Future[T]) -> None:
    """Give ``answer`` what ``done`` got, unless it was cancelled meanwhile."""
    if not _is_wanted(answer):
        return
    try:
        error = done.exception()
    except CancelledError as cancelled:
        error = cancelled
    if error is not None:
        answer.set_exception(as_error(error))
    else:
        answer.set_result(done.result())


def _is_wanted(answer: Future[T]) -> bool:
    """Return whether an answer may be set; if so it cannot be cancelled any more."""
    return answer.running() or (not answer.cancelled() and answer.set_running_or_notify_cancel())
