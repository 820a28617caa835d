"""NRI's events: their numbers, bits and names, and what one tells.

Source: containerd/nri, pkg/api/event.go and api.proto; which of them have an RPC of their own in
which version, pkg/adaptation/plugin_type.go.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

import attrs

from berth.model.pod import Container, Sandbox


class Event(IntEnum):
    """NRI's events, by their number in the protocol."""

    RUN_POD_SANDBOX = 1
    STOP_POD_SANDBOX = 2
    REMOVE_POD_SANDBOX = 3
    CREATE_CONTAINER = 4
    POST_CREATE_CONTAINER = 5
    START_CONTAINER = 6
    POST_START_CONTAINER = 7
    UPDATE_CONTAINER = 8
    POST_UPDATE_CONTAINER = 9
    STOP_CONTAINER = 10
    REMOVE_CONTAINER = 11
    UPDATE_POD_SANDBOX = 12
    POST_UPDATE_POD_SANDBOX = 13
    VALIDATE_CONTAINER_ADJUSTMENT = 14

    @property
    def bit(self) -> int:
        """The event's bit in a mask."""
        return 1 << (self - 1)

    @property
    def method(self) -> str:
        """The name of the event's own RPC, such as ``RunPodSandbox``."""
        return self.name.title().replace("_", "")

    @property
    def is_container_event(self) -> bool:
        """Whether the event tells a container beside the pod."""
        return "CONTAINER" in self.name

    @property
    def is_state_change(self) -> bool:
        """Whether NRI up to 0.11 tells the event by ``StateChange``, without a result."""
        return self not in _OWN_RPC_ALWAYS


_OWN_RPC_ALWAYS = frozenset(
    {
        Event.CREATE_CONTAINER,
        Event.UPDATE_CONTAINER,
        Event.STOP_CONTAINER,
        Event.UPDATE_POD_SANDBOX,
        Event.VALIDATE_CONTAINER_ADJUSTMENT,
    }
)


def mask(events: Iterable[Event]) -> int:
    """Gives the bits of ``events``."""
    return sum({event.bit for event in events})


@attrs.frozen(kw_only=True)
class Happening:
    """What an event tells.

    Attributes:
        kind: Which event; ``None`` for a number that this code does not know.
        container: ``None`` in pod events.
    """

    kind: Event | None
    sandbox: Sandbox
    container: Container | None = None
