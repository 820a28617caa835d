"""Who is to blame for silence."""

from __future__ import annotations

import attrs

from berth.host.nvml.silence import LIBRARY, OpenCall, Silence, nameless, silences


def call(key: str, began_s: float, deadline_s: float = 4.0) -> OpenCall:
    """Give a probe that is out."""
    return OpenCall(key=key, purpose="probe", began_s=began_s, deadline_s=deadline_s)


def test_nobody_is_silent_before_the_deadline() -> None:
    """A call that is out is no silence yet."""

    assert silences([call("a", 0)], 3.9) == {}


def test_one_silent_gpu_does_not_answer() -> None:
    """It is alone, so it is the cause."""

    assert silences([call("a", 0), call("b", 2)], 4) == {"a": Silence.NO_ANSWER}


def test_call_of_many_steps_is_silent_when_one_of_them_is() -> None:
    """It may be out for as long as it likes while NVML answers one step after the other."""

    walk = attrs.evolve(call("a", 0), moved_s=8)

    assert silences([walk], 11.9) == {}
    assert silences([walk], 12) == {"a": Silence.NO_ANSWER}


def test_oldest_of_several_is_the_cause() -> None:
    """Of the others nothing is known."""

    assert silences([call("b", 1), call("a", 0), call("c", 2)], 6) == {
        "a": Silence.NO_ANSWER,
        "b": Silence.STALLED,
        "c": Silence.STALLED,
    }


def test_patience_with_the_others_ends() -> None:
    """After three deadlines of their own they do not answer either."""

    out = [call("a", 0), call("b", 1)]

    assert silences(out, 12.9)["b"] is Silence.STALLED
    assert silences(out, 13)["b"] is Silence.NO_ANSWER


def test_library_that_is_held_up_proves_nothing_against_the_others() -> None:
    """While not even a call that concerns no GPU returns, only the oldest is the cause."""

    out = [call("a", 0), call("b", 1), call(LIBRARY, 5)]

    assert silences(out, 3600) == {"a": Silence.NO_ANSWER, "b": Silence.STALLED}


def test_call_that_came_back_clears_the_library() -> None:
    """If it began when the others had been out for their time: an earlier one proves nothing."""

    out = [call("a", 0), call("b", 1), call(LIBRARY, 4)]

    assert silences(out, 9, proof_s=4.9)["b"] is Silence.STALLED
    assert silences(out, 9, proof_s=5) == {"a": Silence.NO_ANSWER, "b": Silence.NO_ANSWER}


def test_others_are_known_again_when_the_oldest_returns() -> None:
    """The next oldest is then the cause."""

    assert silences([call("b", 1)], 6) == {"b": Silence.NO_ANSWER}


def test_gpu_that_does_not_say_who_it_is_may_be_any() -> None:
    """What is said of it is said of one that NVML does not list by its address."""

    assert nameless({"0000:1b:00.0": Silence.NO_ANSWER}) is None
    assert nameless({"index 3": Silence.STALLED}) is Silence.STALLED
    both = {"index 3": Silence.STALLED, "index 5": Silence.NO_ANSWER}
    assert nameless(both) is Silence.NO_ANSWER
