"""The conversation of daemon and command, without sockets: lines, answers, faults, time."""

from __future__ import annotations

import contextlib
import json
import logging
import sys
from collections.abc import Mapping
from typing import Any

import attrs
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MemoryReceiveStream, MemorySendStream, MockClock, memory_stream_pair

from berth import control
from berth.control import ANSWER_LIMIT, LINE_LIMIT, LINE_S, Event, Verb, converse
from berth.errors import BerthError, ConfigError, Faults, RemoteProtocolError
from berth.host.devnodes import NODES_LIMIT
from berth.model.inventory import Inventory
from berth.node.views import devices_view
from tests.unit.node.peripherals import modem

Stream = trio.StapledStream[MemorySendStream, MemoryReceiveStream]
Answer = Mapping[str, Any]


async def echo(request: Answer, tell: Event) -> Answer:
    """Answer with what was asked, after one event."""
    await tell({"event": "heard"})
    return {"said": request.get("say")}


VERBS: Mapping[str, Verb] = {"echo": echo}


async def read_all(stream: Stream) -> bytes:
    """Everything that comes until the end."""
    data = bytearray()
    while part := await stream.receive_some(65536):
        data += part
    return bytes(data)


async def hold(
    *sent: bytes, verbs: Mapping[str, Verb] = VERBS, ends: bool = True
) -> tuple[list[Answer], BerthError | None]:
    """Send the pieces to a conversation, and give what came back and how it ended."""
    ours, theirs = memory_stream_pair()
    raised: list[BerthError] = []

    async def converse_and_close() -> None:
        async with theirs:
            try:
                await converse(theirs, verbs)
            except BerthError as error:
                raised.append(error)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(converse_and_close)
        with contextlib.suppress(trio.BrokenResourceError):
            for piece in sent:
                await ours.send_all(piece)
                await trio.testing.wait_all_tasks_blocked()
        if ends:
            await ours.send_stream.aclose()
        answers = [json.loads(line) for line in (await read_all(ours)).splitlines()]
    return answers, raised[0] if raised else None


def asked(**fields: Any) -> bytes:
    """One request as a line."""
    return json.dumps(fields).encode() + b"\n"


async def test_answer_after_events() -> None:
    """An answer carries the request's id, as do the events before it."""

    answers, error = await hold(asked(id=7, verb="echo", say="hi"))

    assert answers == [{"event": "heard", "id": 7}, {"said": "hi", "id": 7, "ok": True}]
    assert error is None


async def test_requests_when_several_come_in_one_piece() -> None:
    """Each line is a request of its own, however the stream cuts them."""

    line = asked(id=1, verb="echo")
    answers, error = await hold(line + line[:5], line[5:])

    assert [a.get("ok") for a in answers] == [None, True, None, True]
    assert error is None


async def test_verb_when_unknown() -> None:
    """An unknown verb is refused with the known ones, and the conversation goes on."""

    answers, error = await hold(asked(id=1, verb="ecko"), asked(id=2, verb="echo"))

    assert answers[0] == {
        "id": 1,
        "ok": False,
        "error": "no verb 'ecko': it must be one of echo",
    }
    assert answers[-1]["ok"] is True
    assert error is None


@pytest.mark.parametrize("verb", [None, 7, ["echo"], {"echo": 1}, "x" * 5000])
async def test_verb_when_no_word(verb: object) -> None:
    """What is no verb is refused in a few words."""

    answers, _ = await hold(asked(verb=verb))

    assert answers[0]["ok"] is False
    assert len(answers[0]["error"]) < 150


async def test_answer_when_the_verb_refuses() -> None:
    """A verb's own error is its answer, and several faults are told one by one too."""

    async def refuse(_: Answer, __: Event) -> Answer:
        await trio.lowlevel.checkpoint()
        raise Faults("agent.toml", [ConfigError("a", "is 1"), ConfigError("b", "is 2")])

    answers, error = await hold(asked(id=3, verb="no"), verbs={"no": refuse})

    assert answers == [
        {"id": 3, "ok": False, "error": "a: is 1\nb: is 2", "faults": ["a: is 1", "b: is 2"]}
    ]
    assert error is None


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param({"when": {("a", "b"): 1}}, id="keys that JSON lacks"),
        pytest.param({"long": "x" * ANSWER_LIMIT}, id="too long"),
    ],
)
async def test_answer_when_it_cannot_be_sent(bad: Answer) -> None:
    """An answer that fits in no line is told as an error, and the conversation goes on."""

    async def answer(_: Answer, __: Event) -> Answer:
        await trio.lowlevel.checkpoint()
        return bad

    verbs = {"bad": answer, **VERBS}
    answers, error = await hold(asked(id=1, verb="bad"), asked(id=2, verb="echo"), verbs=verbs)

    assert (answers[0]["ok"], answers[-1]["ok"]) == (False, True)
    assert error is None


async def test_answer_of_a_node_with_thousands_of_devices() -> None:
    """As many as one look describes, each with the longest names and a holder."""

    told = "team-" + "x" * 200
    each = attrs.evolve(modem(), name="m" * 63, identity="i" * 255, held_by=(told,), path=told)
    inventory = Inventory(peripherals=(each,) * NODES_LIMIT)

    async def devices(_: Answer, __: Event) -> Answer:
        await trio.lowlevel.checkpoint()
        return devices_view(inventory)

    (answer,), error = await hold(asked(id=1, verb="devices"), verbs={"devices": devices})

    assert len(answer["devices"]) == NODES_LIMIT
    assert error is None


async def test_answer_when_the_verb_has_a_defect(caplog: pytest.LogCaptureFixture) -> None:
    """A defect is told and logged with its traceback, and the conversation goes on."""

    async def broken(_: Answer, __: Event) -> Answer:
        await trio.lowlevel.checkpoint()
        raise KeyError("oops")

    verbs = {"broken": broken, **VERBS}
    answers, error = await hold(asked(id=1, verb="broken"), asked(id=2, verb="echo"), verbs=verbs)

    assert answers[0] == {
        "id": 1,
        "ok": False,
        "error": "verb broken: has a defect: KeyError('oops'); "
        "the daemon's journal has the traceback",
    }
    assert answers[-1]["ok"] is True
    assert error is None
    assert [r.exc_info is not None for r in caplog.records] == [True]


async def test_answer_when_the_verb_gives_id_or_ok() -> None:
    """No verb can answer for another request, or refuse by accident."""

    async def sly(_: Answer, tell: Event) -> Answer:
        await tell({"event": "e", "id": 99})
        return {"ok": False, "id": 99}

    answers, _ = await hold(asked(id=1, verb="sly"), verbs={"sly": sly})

    assert answers == [{"event": "e", "id": 1}, {"ok": True, "id": 1}]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (b"hello\n", "a line that is no JSON"),
        (b"\n", "a line that is no JSON"),
        (b"\xff\xfe\n", "a line that is no JSON"),
        (b"[" * 100_000 + b"\n", "a line that is no JSON"),
        (b"1" * 10_000 + b"\n", "a line that is no JSON"),
        (b"[1]\n", "a line that is no JSON object"),
        (b"null\n", "a line that is no JSON object"),
        (b'{"verb": "echo"}', "a line without its end"),
    ],
)
async def test_line_when_it_is_no_request(line: bytes, found: str) -> None:
    """What is no request is told to the peer and ends its connection."""

    answers, error = await hold(line, asked(verb="echo") if line.endswith(b"\n") else b"")

    assert len(answers) == 1
    assert answers[0]["id"] is None
    assert answers[0]["ok"] is False
    assert found in answers[0]["error"]
    assert isinstance(error, RemoteProtocolError)


async def test_id_when_it_nests() -> None:
    """At one depth JSON is just read and cannot be written back; the daemon lives on, and tells."""

    for depth in (1, *range(900, sys.getrecursionlimit())):
        deep = b"[" * depth + b"]" * depth
        answers, error = await hold(b'{"id": ' + deep + b', "verb": "echo"}\n')

        assert [answer["ok"] for answer in answers] == [False]
        assert isinstance(error, RemoteProtocolError)


async def test_line_when_just_short_enough() -> None:
    """A line of exactly the limit, its end included, is taken."""

    line = asked(verb="echo", more="")
    padding = b"x" * (LINE_LIMIT - len(line))
    answers, error = await hold(line.replace(b'"more": ""', b'"more": "' + padding + b'"'))

    assert error is None
    assert answers[-1]["ok"] is True


async def test_line_when_too_long() -> None:
    """A line is refused as soon as it is too long, without waiting for its end."""

    answers, error = await hold(b"x" * LINE_LIMIT, ends=False)

    assert answers[0]["error"] == "control: a line of more than 1048576 bytes"
    assert isinstance(error, RemoteProtocolError)


async def test_line_when_it_comes_byte_by_byte() -> None:
    """A request may come in as many pieces as it has bytes."""

    answers, error = await hold(*(bytes([b]) for b in asked(verb="echo", say="ab")))

    assert answers[-1]["said"] == "ab"
    assert error is None


async def test_line_when_it_takes_too_long(autojump_clock: MockClock) -> None:
    """A line that is begun and not ended in time ends the connection."""

    began = trio.current_time()
    answers, error = await hold(b'{"verb"', ends=False)

    assert trio.current_time() - began == pytest.approx(LINE_S)
    assert answers[0]["error"] == "control: a line that took more than 10 s"
    assert isinstance(error, RemoteProtocolError)


async def test_silence_when_too_long(autojump_clock: MockClock) -> None:
    """A peer that says nothing is let go without a word, after its last answer."""

    began = trio.current_time()
    answers, error = await hold(asked(verb="echo"), ends=False)

    assert trio.current_time() - began == pytest.approx(LINE_S)
    assert len(answers) == 2
    assert error is None


async def stuck(theirs: Stream, verbs: Mapping[str, Verb]) -> None:
    """A conversation with a peer whose buffer is full from the first byte on."""
    theirs.send_stream.send_all_hook = trio.sleep_forever
    await converse(theirs, verbs)


def counting(counted: list[str]) -> Verb:
    """A verb that tells two events and takes note of what it has done."""

    async def count(_: Answer, tell: Event) -> Answer:
        for step in ("first", "second"):
            await tell({"event": step})
            counted.append(step)
        return {}

    return count


async def test_answer_when_the_peer_does_not_read(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """A peer that does not read is waited for once; the verb is done all the same."""

    ours, theirs = memory_stream_pair()
    counted: list[str] = []
    await ours.send_all(asked(verb="count") * 2)
    began = trio.current_time()
    await stuck(theirs, {"count": counting(counted)})

    assert trio.current_time() - began == pytest.approx(LINE_S)
    assert counted == ["first", "second"]
    assert [r.getMessage() for r in caplog.records] == ["control peer left its answer unread"]


async def test_answer_when_the_peer_has_gone(caplog: pytest.LogCaptureFixture) -> None:
    """A peer that has gone ends its conversation in silence; the verb is done all the same."""

    ours, theirs = memory_stream_pair()
    counted: list[str] = []
    await ours.send_all(asked(verb="count") * 2)
    await ours.aclose()
    with caplog.at_level(logging.DEBUG):
        await converse(theirs, {"count": counting(counted)})

    assert counted == ["first", "second"]
    assert caplog.records == []


@given(st.binary(max_size=300), st.integers(min_value=0, max_value=300))
def test_garbage_when_cut_anywhere(data: bytes, cut: int) -> None:
    """Whatever comes, in whatever pieces, is answered or refused, and nothing else happens."""

    async def check() -> None:
        answers, error = await hold(data[:cut], data[cut:])
        assert all(answer["ok"] is False for answer in answers)
        assert error is None or isinstance(error, RemoteProtocolError)

    trio.run(check)


async def test_search_when_a_line_is_long_and_slow() -> None:
    """What was searched for a line's end is not searched again, so slowness costs nothing."""

    ours, theirs = memory_stream_pair()
    lines = control._Lines(theirs)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lines.next)
        for _ in range(3):
            await ours.send_all(b"x" * 1000)
            await trio.testing.wait_all_tasks_blocked()

            assert lines._searched == len(lines._buffer)
        await ours.send_all(b"\n")


async def test_word_that_is_no_text_does_not_reach_a_verb() -> None:
    """A shell gives any bytes as an argument, and half a surrogate pair cannot be written down."""

    request = json.dumps(
        {"id": 1, "verb": "echo", "say": "grüße".encode("latin-1").decode(errors="surrogateescape")}
    )

    answers, raised = await hold(request.encode() + b"\n")

    assert raised is None
    assert answers[-1]["said"] == "gr\ufffd\ufffde"
