"""Serial adapters and a shared device, as sources see them and as somebody holds them."""

from __future__ import annotations

from typing import Any, Final

import attrs

from berth.model.device import Capacity
from berth.model.edits import DeviceNode, Edits, NodeType
from berth.model.peripheral import Door, Peripheral
from berth.model.resource import ContainerRef, Usage
from berth.node.ledger import PluginHolder
from berth.node.records.given import Given, GivenDevice
from tests.unit.node.machine import BOOT

RESOURCE: Final = "berth.dev/modem"
KVM: Final = "berth.dev/kvm"
USER: Final = ContainerRef(namespace="team", pod="user", container="main")


def modem(number: int = 0, *, door: Door = Door.BOTH, minor: int | None = None) -> Peripheral:
    """A serial adapter that one holder has alone."""
    name = f"modem-{number}"
    return Peripheral(
        identity=f"usb:0403-6001-{number}",
        name=name,
        kind="generic",
        type="generic",
        group="modem",
        keys=(f"usb:0403-6001-{number}",),
        door=door,
        resource=RESOURCE if door.opens_plugin else "",
        ids=(name,) if door.opens_plugin else (),
        numa=(number,),
        attributes={"type": "generic", "group": "modem"},
        edits=_edits(f"/dev/ttyUSB{number}", 188, number if minor is None else minor, "rw"),
        admin=_edits(f"/dev/ttyUSB{number}", 188, number, "r"),
    )


def renamed(number: int) -> Peripheral:
    """A modem of a group that gives each of them the same path inside."""
    one = modem(number)
    (node,) = one.edits.nodes
    return attrs.evolve(one, edits=Edits(nodes=(attrs.evolve(node, path="/dev/modem0"),)))


def kvm(slots: int = 3, **more: Any) -> Peripheral:
    """A device that several may hold at once."""
    return Peripheral(
        identity="path:/dev/kvm",
        name="kvm-dev-kvm",
        kind="generic",
        type="generic",
        group="kvm",
        keys=("path:/dev/kvm",),
        door=Door.BOTH,
        resource=KVM,
        ids=tuple(f"kvm-dev-kvm::{number}" for number in range(slots)),
        slots=slots,
        attributes={"type": "generic", "group": "kvm"},
        capacity={"slots": Capacity(value=slots, default=1, values=(1,))},
        edits=_edits("/dev/kvm", 10, 232, "rw"),
        **more,
    )


def _edits(path: str, major: int, minor: int, permissions: str) -> Edits:
    node = DeviceNode(
        path=path,
        host_path=path,
        type=NodeType.CHAR,
        major=major,
        minor=minor,
        permissions=permissions,
    )
    return Edits(nodes=(node,))


def given(*devices: Peripheral, uid: str = "g1", bound: bool = False, **holder: Any) -> Given:
    """An answer of the device plugin, the first id of each device in it."""
    units = tuple(GivenDevice(id=one.ids[0], peripheral=one) for one in devices)
    return Given(
        holder=PluginHolder(
            uid=uid,
            resource=devices[0].resource,
            ids=tuple(unit.id for unit in units),
            since="2026-11-30T08:00:00Z",
            **holder,
        ),
        devices=units,
        boot_id=BOOT,
        bound=bound,
    )


def usage(*ids: str, resource: str = RESOURCE, container: ContainerRef = USER) -> Usage:
    """What kubelet's list shows of one container."""
    return Usage(container=container, resource=resource, ids=ids)
