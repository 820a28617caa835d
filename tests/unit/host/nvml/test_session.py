"""The states of the session."""

from __future__ import annotations

import pytest

from berth.host.nvml.session import (
    RETRY_S,
    Session,
    SessionState,
    noticed,
    released,
    resumed,
    tried,
)
from berth.host.nvml.values import NoAnswer, Refusal
from berth.model.gpu import Driver

SEEN = noticed(Session(), functions=1, bind=False, now_s=0)
UP = tried(SEEN, Driver(version="580.65.06"), now_s=0)


def test_machine_without_a_gpu_has_no_timer() -> None:
    """Nothing is due, ever."""

    assert noticed(Session(), functions=0, bind=True, now_s=5) == Session()
    assert not Session().due(1e9)


def test_first_gpu_makes_init_due() -> None:
    """At once."""

    assert noticed(Session(), functions=1, bind=False, now_s=5).due(5)


@pytest.mark.parametrize(
    ("code", "state"),
    [
        (9, SessionState.DRIVER_ABSENT),
        (12, SessionState.LIBRARY_ABSENT),
        (18, SessionState.MISMATCH),
        (999, SessionState.FAILED),
    ],
)
def test_error_of_init_is_tried_again(code: int, state: SessionState) -> None:
    """After a while by itself, and at once when something happens."""

    session = tried(SEEN, Refusal.of(code), now_s=10)

    assert (session.state, session.due_s) == (state, 10 + RETRY_S)
    assert str(code) in session.detail
    assert noticed(session, functions=1, bind=True, now_s=11).due(11)


def test_init_without_an_answer_is_stalled() -> None:
    """With its time, for people."""

    session = tried(SEEN, NoAnswer(purpose="init", open_s=10), now_s=10)

    assert session.state is SessionState.STALLED
    assert session.detail == "no answer to init for 10 s"


def test_session_that_is_up_stays_so() -> None:
    """Until the last GPU is gone."""

    assert noticed(UP, functions=1, bind=True, now_s=5) == UP
    assert noticed(UP, functions=0, bind=False, now_s=5) == Session()


def test_released_session_waits_for_a_bind_or_its_time() -> None:
    """No other event ends it."""

    session = released(UP, for_s=600, now_s=0)

    assert session.due(600)
    assert not noticed(session, functions=1, bind=False, now_s=5).due(5)
    assert not noticed(session, functions=0, bind=False, now_s=5).due(5)
    assert noticed(session, functions=1, bind=True, now_s=5).due(5)


def test_release_of_a_machine_that_lost_its_gpus_ends_without_a_timer() -> None:
    """What is taken up again then is nothing."""

    session = noticed(released(UP, for_s=600, now_s=0), functions=0, bind=False, now_s=5)

    assert session.due(600)
    assert resumed(session, now_s=600) == Session()
    assert resumed(UP, now_s=600).due(600)
