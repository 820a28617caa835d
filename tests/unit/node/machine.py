"""A machine with two NICs and a parent of children: what a look at it gives, and claims on it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import trio

from berth.errors import BerthError
from berth.model import jsontext
from berth.model.claim import (
    Claim,
    ClaimRef,
    ConfigSource,
    Consumer,
    DeviceResult,
    OpaqueConfig,
)
from berth.model.device import Capacity, Device, Exclusion, Nic, NicKind, NicMode
from berth.model.inventory import Inventory
from berth.model.peripheral import Peripheral
from berth.nic.config.devicefacts import DeviceFacts
from berth.nic.config.group import GroupPolicy
from berth.nic.config.values import AttachMode
from berth.nic.facts import Home
from berth.node.claims.drafting import Settings
from berth.node.holders.equipment import published
from berth.node.inventory.sighting import Memory
from berth.node.inventory.snapshot import Snapshot
from berth.runtime.latest import Latest

DRIVER: Final = "berth.dev"
BOOT: Final = "boot-1"
FAST: Final = "nic-fast-0"
OTHER: Final = "nic-fast-1"
PARENT: Final = "nic-parent-0"
SLOTS: Final = 4

SETTINGS: Final = Settings(
    driver=DRIVER,
    boot_id=BOOT,
    policies={
        "fast": GroupPolicy(name="fast", modes=(AttachMode.MOVE,)),
        "parent": GroupPolicy(name="parent", modes=(AttachMode.MACVLAN,), slots=SLOTS),
    },
)

_ADDRESSES: Final = {FAST: "0000:41:00.0", OTHER: "0000:41:00.1", PARENT: "0000:42:00.0"}
NAMES: Final = tuple(_ADDRESSES)


def identity_of(name: str) -> str:
    """What a NIC physically is."""
    return f"pci:{_ADDRESSES[name]}"


def look(
    *,
    names: Sequence[str] = NAMES,
    excluded: Mapping[str, str] | None = None,
    without_link: Sequence[str] = (),
    peripherals: Sequence[Peripheral] = (),
) -> Snapshot:
    """What a look gives.

    Args:
        names: NICs that are seen.
        excluded: Reasons for which some are not offered.
        without_link: NICs whose link is not seen.
        peripherals: What else is seen.
    """
    linked = [name for name in names if name not in without_link]
    return Snapshot(
        inventory=Inventory(
            nics=tuple(_nic(name, (excluded or {}).get(name, "")) for name in names),
            peripherals=tuple(peripherals),
            devices=(
                *published(peripherals, (), driver=DRIVER),
                *(_device(name) for name in names),
            ),
        ),
        facts={name: _facts(name) for name in linked},
        homes={
            name: Home(index=NAMES.index(name) + 2, parent_device=_ADDRESSES[name], driver="mlx5")
            for name in linked
        },
        hardware_addrs={"02:00:00:00:00:99": "the host"},
        memory=Memory(),
    )


def _nic(name: str, reason: str) -> Nic:
    return Nic(
        identity=identity_of(name),
        name=name,
        kind=NicKind.PCI,
        group=_group(name),
        mode=NicMode.SHARED if name == PARENT else NicMode.EXCLUSIVE,
        exclusion=Exclusion(reason=reason, detail="as the test says") if reason else None,
    )


def _device(name: str) -> Device:
    return Device(
        name=name,
        identity=identity_of(name),
        type=_type(name),
        group=_group(name),
        attributes={"type": _type(name), "numaNode": 0},
        capacity={"slots": Capacity(value=SLOTS, default=1)} if name == PARENT else {},
        shared=name == PARENT,
    )


def _facts(name: str) -> DeviceFacts:
    return DeviceFacts(
        identity=identity_of(name),
        type=_type(name),
        kind=NicKind.PCI,
        group=_group(name),
        mtu=1500,
        min_mtu=68,
        max_mtu=9216,
    )


def _group(name: str) -> str:
    return name.split("-")[1]


def _type(name: str) -> str:
    return "nic-shared" if name == PARENT else "nic"


def result(device: str = FAST, request: str = "nic", **more: Any) -> DeviceResult:
    """One allocated NIC."""
    return DeviceResult(request=request, pool="node/nic", device=device, **more)


def share(number: int, request: str = "child", slots: int = 1) -> DeviceResult:
    """One share of the parent."""
    return result(
        PARENT,
        request,
        share_id=f"0000000{number}-0000-4000-8000-000000000000",
        consumed={f"{DRIVER}/slots": str(slots)},
    )


def pod(name: str = "web") -> Consumer:
    """A pod that may use a claim."""
    return Consumer(resource="pods", name=name, uid=f"uid-of-pod-{name}")


def config(**parameters: object) -> OpaqueConfig:
    """What a claim's author wishes."""
    text = json.dumps({"apiVersion": f"{DRIVER}/v1alpha1", "kind": "NicConfig", **parameters})
    return OpaqueConfig(
        index=0, source=ConfigSource.CLAIM, requests=(), parameters=jsontext.loads(text)
    )


def claim(
    *results: DeviceResult,
    name: str = "net",
    consumers: Sequence[Consumer] = (),
    configs: Sequence[OpaqueConfig] = (),
) -> Claim:
    """An allocated claim; for one NIC and one pod unless it is said otherwise."""
    return Claim(
        ref=ClaimRef(namespace="default", name=name, uid=f"uid-of-{name}"),
        results=results or (result(),),
        configs=tuple(configs),
        consumers=tuple(consumers) or (pod(),),
    )


class Eyes:
    """Whoever looks at the machine: sees what the test says.

    Attributes:
        fault: What the next looks end with.
    """

    def __init__(self) -> None:
        self.inventory: Latest[Inventory] = Latest(Inventory())
        self.looks = 0
        self.fault: BerthError | None = None
        self._seen = look()
        self.show(self._seen)

    def show(self, seen: Snapshot) -> None:
        """Let this be seen from now on."""
        self._seen = seen
        self.inventory.set(seen.inventory)

    async def look(self) -> Snapshot:
        """Give what is to be seen."""
        await trio.lowlevel.checkpoint()
        self.looks += 1
        if self.fault is not None:
            raise self.fault
        return self._seen
