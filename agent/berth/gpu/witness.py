"""Two witnesses of a GPU, the PCI bus and NVML, and the memory of what NVML said before.

A function that NVML does not list, or the reverse, is a device with a reason and never a silent
gap. What NVML listed in this boot and does not list now is kept under its names and ids, unhealthy,
until the machine is booted anew, another card is in its place, or somebody forgets it.

Source: GH §1.1, §1.2, §2.3.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final

import attrs

from berth.host.hardware import PciFunction
from berth.model.device import Exclusion
from berth.model.gpu import Driver, Gpu, MigDevice
from berth.vfio.binding import VFIO

UUID_LIMIT: Final = 57
"""Longest UUID: with the number of a share it must fit the 63 bytes of an id."""

UP: Final = "up"
"""State of a session that answers."""

LOST: Final = "lost"
"""Reason of what neither witness, or NVML alone while it answers, has any more."""

NO_ANSWER: Final = "no-answer"
"""Reason of what NVML does not name, while one that it lists does not say who it is."""

_UUID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_/.-]*")
_OWN_DOING: Final = frozenset({"stalled", "released", "probing"})
# States in which it is us who do not ask, which says nothing about a GPU.
_REASONS: Final = {"mismatch": "driver-mismatch"}


@attrs.frozen(kw_only=True)
class Remembered:
    """What NVML last said of a GPU.

    Attributes:
        boot_id: The boot in which it said so.
    """

    gpu: Gpu
    boot_id: str
    driver: Driver | None = None


class Form(Enum):
    """What a sighting is."""

    DRIVER = "driver"
    VFIO = "vfio"


@attrs.frozen(kw_only=True)
class Sighting:
    """One GPU of the machine.

    Attributes:
        function: ``None`` when only NVML knows it, or nobody any more.
        gpu: As NVML says now or said before; ``None`` when it never did in this boot.
        driver: The same.
        unhealthy: Why it is offered as unhealthy; empty when it is well.
        lent: A claim has it, or had it and has not brought it home: berth bound it to vfio-pci.
        exclusion: Why it is not offered; ``None`` when it is.
    """

    address: str
    form: Form = Form.DRIVER
    function: PciFunction | None = None
    gpu: Gpu | None = None
    driver: Driver | None = None
    unhealthy: str = ""
    lent: bool = False
    exclusion: Exclusion | None = None

    @property
    def is_lost(self) -> bool:
        """Whether it is listed for what was known of it alone, whatever else may be down."""
        gone = self.function is None and self.exclusion is None
        return gone or self.unhealthy == LOST


@attrs.frozen(kw_only=True)
class Witnessed:
    """What both witnesses and the memory come to.

    Attributes:
        swapped: Addresses at which another card is than before, in this boot or the last one: its
            health history is not this one's.
        parts: By the UUID of a MIG device, the GPUs that report it now: no more than one, unless
            something is amiss.
    """

    sightings: tuple[Sighting, ...]
    memory: tuple[Remembered, ...]
    swapped: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    parts: Mapping[str, frozenset[str]] = attrs.field(factory=dict)

    def indistinct(self, gpu: Gpu, mig: MigDevice) -> Exclusion | None:
        """Why a part cannot be told from others; ``None`` when it can."""
        others = ", ".join(sorted(self.parts.get(mig.uuid, frozenset()) - {gpu.address}))
        if others:
            return _reason("identity", f"a part of {others} has the same UUID")
        alike = sum(other.uuid == mig.uuid for other in gpu.mig_devices)
        if alike == 1 and is_usable_uuid(mig.uuid):
            return None
        return _reason("identity", "it has no UUID of its own")


def witness(
    gpus: Iterable[Gpu],
    functions: Iterable[PciFunction],
    *,
    driver: Driver | None,
    state: str,
    memory: Iterable[Remembered],
    boot_id: str,
    lent: Mapping[str, str] = MappingProxyType({}),
    mute: bool = False,
) -> Witnessed:
    """Put together what is known of each GPU.

    Args:
        functions: Of the PCI bus; others than GPUs are passed over.
        state: Of the NVML session, such as `UP`.
        memory: As the last call gave it.
        boot_id: Of this boot; nothing is made up of what is remembered of another one.
        lent: Functions that berth bound to vfio-pci, each with why it is unhealthy; empty when it
            is well.
        mute: NVML lists a GPU that does not even tell its address.
    """
    listed, warnings = _listed(gpus)
    memory = tuple(memory)
    known = {each.gpu.address: each for each in memory if each.boot_id == boot_id}
    bus = {function.address: function for function in functions if function.is_nvidia_gpu}
    owners = _owners(listed.values())
    sightings = []
    fresh = {}
    for address in sorted({*listed, *bus, *known}):
        gpu, function = listed.get(address), bus.get(address)
        if gpu is not None and not _fault(gpu, owners) and function is not None:
            fresh[address] = Remembered(gpu=gpu, boot_id=boot_id, driver=driver)
        before = known.get(address)
        sightings.append(
            _sighting(
                address,
                gpu=gpu,
                function=function,
                before=before,
                owners=owners,
                driver=driver,
                state=state,
                lent=lent,
                mute=mute,
            )
        )
    before_all = {each.gpu.address: each for each in memory}
    swapped = tuple(
        address
        for address, each in fresh.items()
        if address in before_all and before_all[address].gpu.uuid != each.gpu.uuid
    )
    warnings += [
        f"GPU {address}: another card is there, {fresh[address].gpu.uuid} in place of "
        f"{before_all[address].gpu.uuid}; what was known of the old one's health is dropped"
        for address in swapped
    ]
    # What is of another boot tells whose health history there is, until NVML has said who is here.
    kept = {**(known if state == UP else before_all), **fresh}
    return Witnessed(
        sightings=tuple(sightings),
        memory=tuple(kept[address] for address in sorted(kept)),
        swapped=swapped,
        warnings=tuple(warnings),
        parts=_parts(listed.values()),
    )


def _parts(listed: Collection[Gpu]) -> Mapping[str, frozenset[str]]:
    owners: dict[str, frozenset[str]] = {}
    for gpu in listed:
        for mig in gpu.mig_devices:
            owners[mig.uuid] = owners.get(mig.uuid, frozenset()) | {gpu.address}
    return owners


def _listed(gpus: Iterable[Gpu]) -> tuple[dict[str, Gpu], list[str]]:
    """GPUs by address; one that is listed twice counts once."""
    listed: dict[str, Gpu] = {}
    warnings = []
    for gpu in gpus:
        if gpu.address in listed:
            warnings.append(f"GPU {gpu.address}: NVML lists two; the first is used")
        listed.setdefault(gpu.address, gpu)
    return listed, warnings


@attrs.frozen(kw_only=True)
class _Owners:
    """Addresses of the GPUs that say what only one can say."""

    uuids: Mapping[str, frozenset[str]]
    minors: Mapping[int | None, frozenset[str]]


def _owners(listed: Collection[Gpu]) -> _Owners:
    uuids: dict[str, frozenset[str]] = {}
    minors: dict[int | None, frozenset[str]] = {}
    for gpu in listed:
        uuids[gpu.uuid] = uuids.get(gpu.uuid, frozenset()) | {gpu.address}
        minors[gpu.minor] = minors.get(gpu.minor, frozenset()) | {gpu.address}
    return _Owners(uuids=uuids, minors=minors)


def is_usable_uuid(uuid: str) -> bool:
    """Whether ids can be made of a UUID."""
    return len(uuid) <= UUID_LIMIT and _UUID.fullmatch(uuid) is not None


def _fault(gpu: Gpu, owners: _Owners) -> str:
    """Why a GPU cannot be told from others; empty when it can."""
    if not is_usable_uuid(gpu.uuid):
        return gpu.missing.get("uuid", "") or "it has no UUID of use"
    if len(owners.uuids[gpu.uuid]) > 1:
        return "another one has the same UUID"
    if gpu.minor is None:
        return gpu.missing.get("minor", "") or "the number of its node is unknown"
    if len(owners.minors[gpu.minor]) > 1:
        return f"another one has the same node, /dev/nvidia{gpu.minor}"
    return ""


def _sighting(
    address: str,
    *,
    gpu: Gpu | None,
    function: PciFunction | None,
    before: Remembered | None,
    owners: _Owners,
    driver: Driver | None,
    state: str,
    lent: Mapping[str, str],
    mute: bool,
) -> Sighting:
    bare = Sighting(address=address, function=function)
    if function is not None and address in lent:
        return _lent(bare, before, lent[address])
    if function is not None and function.driver == VFIO:
        last = before.gpu if before is not None else None
        return attrs.evolve(bare, form=Form.VFIO, gpu=last)
    if gpu is not None and function is None:
        return attrs.evolve(bare, gpu=gpu, exclusion=_reason("no-function", "NVML alone lists it"))
    fault = _fault(gpu, owners) if gpu is not None else ""
    if gpu is not None and not fault:
        return attrs.evolve(bare, gpu=gpu, driver=driver)
    reason = _why(function, fault, state, mute=mute)
    if before is None or reason.reason == "foreign-driver":
        return attrs.evolve(bare, exclusion=reason)
    unhealthy = "" if reason.reason in _OWN_DOING else reason.reason
    last = _without_lost_node(before.gpu, owners)
    return attrs.evolve(bare, gpu=last, driver=before.driver, unhealthy=unhealthy)


def _lent(bare: Sighting, before: Remembered | None, unhealthy: str) -> Sighting:
    """A GPU that berth took from its driver, to which it comes back: as it was known."""
    if before is None:
        reason = _reason("lent", "a claim has it bound to vfio-pci")
        return attrs.evolve(bare, lent=True, unhealthy=unhealthy, exclusion=reason)
    return attrs.evolve(bare, lent=True, unhealthy=unhealthy, gpu=before.gpu, driver=before.driver)


def _without_lost_node(last: Gpu, owners: _Owners) -> Gpu:
    """A GPU as it was known, less the number of its node if that is another one's by now."""
    others = owners.minors.get(last.minor, frozenset()) - {last.address}
    return attrs.evolve(last, minor=None) if others else last


def _why(function: PciFunction | None, fault: str, state: str, *, mute: bool) -> Exclusion:
    """Why NVML's word of a GPU is missing."""
    if function is not None and function.driver not in {"", "nvidia"}:
        return _reason("foreign-driver", f"bound to {function.driver}")
    if fault:
        return _reason("identity", fault)
    if state != UP:
        return _reason(_REASONS.get(state, state), f"NVML's session is {state}")
    if function is None:
        return _reason(LOST, "neither the PCI bus nor NVML has it")
    if function.driver and mute:
        return _reason(NO_ANSWER, "NVML lists a GPU that does not answer, which may be this one")
    return _reason(LOST if function.driver else "no-driver", "NVML does not list it")


def _reason(reason: str, detail: str) -> Exclusion:
    return Exclusion(reason=reason, detail=detail)
