"""What is to be said of one device or claim: a sentence, what it waits for, and what to do.

How far a NIC is on its way is told alike whoever has it, a claim or a container that asked for a
resource.
"""

from __future__ import annotations

from typing import Any, Final

import attrs

from berth.health.finding import Severity
from berth.health.verdict import Verdict
from berth.nic.record import NicRecord, Stage
from berth.node.records.given import Given, GivenDevice
from berth.node.records.record import ClaimRecord, HeldDevice
from berth.node.views.status import NriState
from berth.node.views.troubles import Trouble
from berth.vfio.binding import VFIO, Binding
from berth.vfio.binding import Stage as Bound

_AGAIN: Final = "kubelet tries again by itself, after up to 90 s"
_SUCCEED: Final = "delete the pod; its successor gets another device"


@attrs.frozen(kw_only=True)
class Word:
    """What is to be said of one device or claim.

    Attributes:
        text: A sentence without its subject.
        waits_for: ``sandbox``, ``nri``, ``home``, ``prepare``, ``kubelet``; empty: for nothing.
        mend: What a person can do; empty when nobody has to do anything.
        rank: Which of several words is the verdict: the highest.
    """

    text: str
    waits_for: str = ""
    mend: str = ""
    rank: int = 0


def said(word: Word) -> dict[str, Any]:
    """A word as it is answered."""
    return {"says": word.text, "waits_for": word.waits_for, "mend": word.mend}


def trouble_word(trouble: Trouble) -> Word:
    """What is to be said of what was refused, or is waited for."""
    if trouble.waiting:
        return Word(text=f"waits: {trouble.text}", waits_for="prepare", rank=6)
    times = f" ({trouble.count} times)" if trouble.count > 1 else ""
    return Word(
        text=f"was refused{times}, last at {trouble.at}: {trouble.text}", mend=_AGAIN, rank=9
    )


def claim_word(record: ClaimRecord, trouble: Trouble | None) -> Word:
    """What is to be said of a claim as a whole."""
    if trouble is not None:
        return trouble_word(trouble)
    if record.revoked:
        return Word(text="is being undone: the pod is to end here", waits_for="home", rank=5)
    if not record.prepared:
        return Word(text="is being prepared", waits_for="prepare", rank=5)
    return Word(text="is prepared")


def lost_word(verdict: Verdict | None) -> Word | None:
    """What is to be said of a device that is lost, whatever its record tells of the time before.

    Args:
        verdict: On the device; ``None`` where nobody judges that.
    """
    if verdict is None or verdict.severity is not Severity.LOST:
        return None
    return Word(text=f"is lost: {verdict.message}", mend=_SUCCEED, rank=8)


def device_word(record: ClaimRecord, device: HeldDevice, nri: NriState | None) -> Word:
    """What is to be said of a claim's device."""
    if device.binding is not None:
        return _bound_word(record, device.binding)
    if device.nic is not None:
        return _nic_word(device.nic, nri, revoked=record.revoked)
    if device.peripheral is not None and device.keys:
        return Word(
            text="is given to the containers that use the claim: nothing of ours is missing"
        )
    return Word(text="is only looked at (adminAccess), nothing is moved for it")


def given_word(given: Given, device: GivenDevice, nri: NriState | None) -> Word:
    """What is to be said of what the device plugin gave."""
    if device.nic is None:
        return Word(text="is given to its container: nothing of ours is missing")
    if device.nic.stage is Stage.LENT:
        text = "is given to its container; a CNI plugin moves it, and brings it home"
        fault = device.nic.fault
        late = f"; once home it was not put back, which is tried again: {fault}" if fault else ""
        return Word(text=f"{text}{late}", rank=1 if fault else 0)
    return _nic_word(device.nic, nri, revoked=given.revoked)


def _nic_word(nic: NicRecord, nri: NriState | None, *, revoked: bool) -> Word:
    if nic.stage is Stage.LOST:
        return Word(text=f"is lost: {nic.fault or 'its device is gone'}", mend=_SUCCEED, rank=8)
    if nic.stage is Stage.ATTACHED:
        return _attached_word(nic)
    if nic.stage is Stage.RETURNING or revoked:
        fault = f", tried again by itself: {nic.fault}" if nic.fault else ""
        return Word(text=f"is on its way home{fault}", waits_for="home", rank=7 if fault else 3)
    if nic.stage is Stage.ATTACHING and not nic.fault:
        where = nic.sandbox.id if nic.sandbox else "its sandbox"
        return Word(text=f"is being brought into sandbox {where}", waits_for="sandbox", rank=4)
    if nic.fault:
        return Word(text=f"was not attached: {nic.fault}", mend=_AGAIN, rank=8)
    return _waiting_word(nic, nri)


def _bound_word(record: ClaimRecord, binding: Binding) -> Word:
    """A function for a machine: what is ours is that its driver changes."""
    if binding.stage is Bound.LOST:
        return Word(text="is lost: its function is gone", mend=_SUCCEED, rank=8)
    if record.revoked or binding.stage is Bound.RETURNING:
        fault = f", tried again by itself: {binding.fault}" if binding.fault else ""
        return Word(text=f"is on its way home{fault}", waits_for="home", rank=7 if fault else 3)
    if not record.prepared:
        step = f", at {binding.step}" if binding.step else ""
        return Word(text=f"is being bound to {VFIO}{step}", waits_for="prepare", rank=4)
    return Word(text=f"is bound to {VFIO} for the claim: nothing of ours is missing")


def _attached_word(nic: NicRecord) -> Word:
    network = nic.network
    name = network.interface_name if network else nic.config.interface.name
    if nic.carrier:
        return Word(text=f"is in the pod as {name}: nothing of ours is missing")
    return Word(
        text=f"is in the pod as {name}, and had no carrier when it came there",
        mend="check its cable, its switch port, and the other end",
        rank=1,
    )


def _waiting_word(nic: NicRecord, nri: NriState | None) -> Word:
    if nic.stage is Stage.RESERVED:
        return Word(text="is being made ready at home", waits_for="prepare", rank=4)
    if nri is not None and not nri.synchronized:
        return Word(
            text=f"is ready at home; the runtime's NRI is not connected: {nri.reason}",
            waits_for="nri",
            mend="see `berth check`: the runtime must be up, with NRI switched on",
            rank=7,
        )
    again = " again" if nic.stage is Stage.HOME else ""
    return Word(
        text=f"is ready at home, and goes into the pod's sandbox as soon as one is made{again}",
        waits_for="sandbox",
        mend="if none is made, see the pod's events and the journals of kubelet and runtime",
        rank=2,
    )
