"""What managers are told to leave alone, and what stays with the host."""

from __future__ import annotations

from typing import Any

import pytest

from berth.model.device import Exclusion, Nic, NicKind, NicMode
from berth.model.inventory import Inventory
from berth.nic.marks import index_of, is_lent, marks

PCI = "0000:41:00.0"
BOOT = "6f9619ff-8b86-4d01-b42d-00cf4fc964ff"


def nic(identity: str = f"pci:{PCI}", *, reason: str = "", index: int = 7, **facts: Any) -> Nic:
    """A NIC of a group."""
    kind, _, rest = identity.partition(":")
    pci = rest.partition("/")[0] if kind == "pci" else ""
    plain = {"group": "fast", "kind": NicKind.PCI, "pci": pci}
    return Nic(
        identity=identity,
        name="nic",
        ifindex=index,
        exclusion=Exclusion(reason=reason) if reason else None,
        **{**plain, **facts},
    )


def due(*nics: Nic, standing: tuple[str, ...] = (), has_uplink: bool = True) -> list[str]:
    """The marks of an inventory, in order."""
    return sorted(marks(Inventory(nics=nics, has_uplink=has_uplink), standing))


@pytest.mark.parametrize(
    ("facts", "lent"),
    [
        ({}, True),
        ({"mode": NicMode.VFIO}, True),
        ({"mode": NicMode.SHARED}, False),
        ({"group": ""}, False),
        ({"reason": "no-runtime"}, True),
        ({"reason": "restore-failed"}, True),
        ({"reason": "returning"}, True),
        ({"reason": "uplink"}, False),
        ({"reason": "enslaved"}, False),
        ({"reason": "in-use-by-host"}, False),
        ({"reason": "has-vfs"}, False),
        ({"reason": "overlap"}, False),
        ({"reason": "in-use-by-host", "held_by": ("shop/a",)}, True),
    ],
)
def test_who_is_lent(facts: dict[str, Any], lent: bool) -> None:
    """What the host needs itself is not, unless somebody has it already."""

    assert is_lent(nic(**facts)) is lent
    assert due(nic(**facts)) == ([PCI] if lent else [])


def test_function_is_marked_by_its_address_wherever_its_link_is() -> None:
    """Also while the link is in a pod, and while there is none."""

    assert due(nic(index=0, held_by=("shop/a",))) == [PCI]


def test_link_without_a_function_is_marked_by_its_index() -> None:
    """A virtual one keeps the index that it had at home; of others only one at home has one."""

    usb = nic("usb:pci-0000:00:14.0-usb-0:2", index=9, kind=NicKind.USB)
    away = nic("usb:pci-0000:00:14.0-usb-0:3", index=0, kind=NicKind.USB)
    virtual = nic(f"link:{BOOT}:12", index=0, held_by=("shop/a",))

    assert due(usb, away, virtual) == ["ifindex-12", "ifindex-9"]
    assert [index_of(mark) for mark in ("ifindex-12", PCI, "ifindex-x")] == [12, None, None]


def test_function_with_a_port_of_the_hosts_is_marked_by_the_index_of_the_other() -> None:
    """Its address would take the host's port from the host's manager too."""

    ours, hosts = nic(f"pci:{PCI}/1", index=8), nic(f"pci:{PCI}", reason="uplink")

    assert due(ours, hosts) == ["ifindex-8"]
    assert due(ours, nic(f"pci:{PCI}")) == [PCI]


def test_nothing_is_marked_anew_before_an_uplink_is_known() -> None:
    """At boot any NIC may be the one that a manager is about to configure."""

    other = nic("pci:0000:42:00.0")

    assert due(nic(), other, has_uplink=False) == []
    assert due(nic(), other, standing=(PCI,), has_uplink=False) == [PCI]


def test_mark_of_a_function_that_is_not_there_stays() -> None:
    """As of a VF before its PF has it made; of a link without a function it goes."""

    assert due(standing=(PCI, "ifindex-7"), has_uplink=True) == [PCI]
    assert due(nic(reason="uplink"), standing=(PCI,)) == []
