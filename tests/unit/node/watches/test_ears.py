"""Links are heard at home and in pods, at home alone where nothing else is allowed, and anew."""

from __future__ import annotations

import errno
from collections.abc import Iterable

import pytest
import trio
from trio.testing import MockClock
from typing_extensions import Self

from berth.errors import HostError
from berth.host.netlink.events import Changed, Event, Overflow
from berth.node.watches import ears as nicears
from tests.unit.nic.links import link_of

NEWS = Changed(value=link_of())


class Sockets:
    """Makes sockets that hear one thing and then break or wait.

    Attributes:
        made: Whether each was to hear other namespaces.
        refuses: What the kernel says to the next ones that are.
        breaks: How many more break.
    """

    def __init__(self) -> None:
        self.made: list[bool] = []
        self.refuses: HostError | None = None
        self.breaks = 0

    def __call__(
        self, _groups: Iterable[int], *, all_nsids: bool = False, buffer_bytes: int = 0
    ) -> Sockets:
        """Open one."""
        assert buffer_bytes == nicears.BUFFER_BYTES
        if all_nsids and self.refuses is not None:
            raise self.refuses
        self.made.append(all_nsids)
        self._told = False
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    async def receive(self) -> tuple[Event, ...]:
        """Hear one thing."""
        await trio.lowlevel.checkpoint()
        if not self._told:
            self._told = True
            return (NEWS,)
        if self.breaks:
            self.breaks -= 1
            raise HostError("netlink events", "broken")
        await trio.sleep_forever()
        raise AssertionError


@pytest.fixture(name="sockets")
def _sockets(monkeypatch: pytest.MonkeyPatch) -> Sockets:
    """The kernel's sockets."""
    sockets = Sockets()
    monkeypatch.setattr(nicears, "EventSocket", sockets)
    return sockets


async def hear(sockets: Sockets, *, wanted: bool = True) -> list[Event]:
    """What is heard in ten seconds."""
    heard: list[Event] = []
    sign = trio.Event()
    if wanted:
        sign.set()
    with trio.move_on_after(10):
        await nicears.hear_links(sign, heard.extend)
    return heard


async def test_nothing_is_opened_while_nothing_is_watched(
    sockets: Sockets, autojump_clock: MockClock
) -> None:
    """A node without NICs of ours wakes up for no link."""

    assert await hear(sockets, wanted=False) == []
    assert sockets.made == []


async def test_whatever_was_before_counts_as_unheard(
    sockets: Sockets, autojump_clock: MockClock
) -> None:
    """So all is looked at once the socket is there."""

    assert await hear(sockets) == [Overflow(), NEWS]
    assert sockets.made == [True]


async def test_what_breaks_is_opened_anew(sockets: Sockets, autojump_clock: MockClock) -> None:
    """And what was meanwhile was heard by nobody."""

    sockets.breaks = 2

    assert await hear(sockets) == [Overflow(), NEWS] * 3


@pytest.mark.parametrize(("number", "made"), [(errno.EPERM, [False]), (errno.EMFILE, [])])
async def test_pods_that_may_not_be_heard(
    sockets: Sockets, autojump_clock: MockClock, number: int, made: list[bool]
) -> None:
    """Home is heard all the same; any other fault is tried again."""

    sockets.refuses = HostError("netlink events", "refused", errno=number)
    await hear(sockets)

    assert sockets.made == made
