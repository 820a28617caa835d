"""What the owner of NVML answers: plain values, whatever went wrong."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

import attrs

from berth.host.nvml.words import error_words
from berth.model.gpu import Driver, Gpu

XID: Final = 0x8
MIG_CHANGED: Final = 0x100
WHOLE_GPU: Final = 0xFFFFFFFF
"""Instance of an event that is tied to none."""

WANTED: Final = 0xFF0B
"""Event types that say something of a GPU's health or layout: ECC errors and their storms, XIDs,
MIG changes, retirement, poison, unavailability, recovery action (GH §6.2)."""


@attrs.frozen(kw_only=True)
class Refusal:
    """NVML answered, with an error.

    Attributes:
        code: NVML's; 0 for an answer that makes no sense.
    """

    code: int
    text: str

    @classmethod
    def of(cls, code: int) -> Refusal:
        """Give the refusal with this code."""
        return cls(code=code, text=error_words(code))


@attrs.frozen(kw_only=True)
class NoAnswer:
    """NVML did not answer in time; the call is still out.

    Attributes:
        purpose: What is being waited for, such as ``walk``.
        open_s: How long that call is out, in seconds.
    """

    purpose: str
    open_s: float

    @property
    def text(self) -> str:
        """For people."""
        return f"no answer to {self.purpose} for {self.open_s:.0f} s"


@attrs.frozen(kw_only=True)
class Walk:
    """What a walk over all GPUs found.

    Attributes:
        driver: ``None`` while there is no session.
        gpus: By address. One that did not answer this time is as it was last, with
            ``missing["answer"]`` in NVML's words.
        nameless: What NVML lists and does not even tell the address of, in words; their functions
            are among those of the PCI inventory that no GPU here has.
    """

    driver: Driver | None = None
    gpus: tuple[Gpu, ...] = ()
    nameless: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class Probe:
    """What a GPU said of itself.

    Attributes:
        fields: By field number; what is not supported is left out.
        refused: By field number: the error that is neither that nor success.
    """

    fields: Mapping[int, int] = attrs.field(factory=dict)
    refused: Mapping[int, Refusal] = attrs.field(factory=dict)


class EventKind(Enum):
    """What an event is, before anyone says what it means."""

    XID = "xid"
    MIG_CHANGED = "mig-changed"
    OTHER = "other"
    LOST = "lost"
    """NVML said that some GPU is lost, and this one then said so itself."""
    REGISTERED = "registered"
    """Events come from here on; those before are lost, so ask the recovery action once."""
    OVERFLOW = "overflow"
    """Events were dropped: ask every GPU."""


@attrs.frozen(kw_only=True)
class NvmlEvent:
    """One event.

    Attributes:
        address: PCI address; empty when the event names no GPU that is known.
        type: NVML's bit, 0 when the event is not NVML's own.
        data: The XID, for an XID.
        gi: Id of the GPU instance; ``None`` when it is tied to none.
        ci: Id of the compute instance; the same.
    """

    kind: EventKind
    address: str = ""
    type: int = 0
    data: int = 0
    gi: int | None = None
    ci: int | None = None


def event_of(*, address: str, number: int, data: int, gi: int, ci: int) -> NvmlEvent:
    """Give NVML's event as ours; bits are told apart, never their meaning."""
    kind = {XID: EventKind.XID, MIG_CHANGED: EventKind.MIG_CHANGED}.get(number, EventKind.OTHER)
    return NvmlEvent(
        kind=kind,
        address=address,
        type=number,
        data=data,
        gi=None if gi == WHOLE_GPU else gi,
        ci=None if ci == WHOLE_GPU else ci,
    )
