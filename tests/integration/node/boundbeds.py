"""A NIC whose link comes and goes with its driver, in the namespace in which the process stands.

The link is a veth end, which the driver core of files makes and ends. It comes back bare, under
another index, as after a real bind.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import attrs

from berth.host.netlink.link import Link
from berth.host.netlink.rtnl import Rtnl
from berth.model.claim import ClaimRef, Consumer, DeviceResult
from berth.nic.config.values import AttachMode, NicConfig
from berth.nic.execute import open_namespaces
from berth.nic.look import look_home
from berth.nic.record import NicRecord
from berth.nic.view import take_originals
from berth.node.nics.nics import Nics
from berth.node.records.record import ClaimRecord, HeldDevice
from berth.node.records.records import Records
from berth.node.vfio.bindings import Bindings
from berth.vfio.binding import Binding
from berth.vfio.wayin import WayIn
from tests.integration.nic.beds import BOOT
from tests.integration.node.nodebeds import DRIVER
from tests.vfio_tree import NIC, NIC_GROUP, VfioMachine

UID = "u1"
LINK = "v0"
OWN_DRIVER = "mlx5_core"
MAC = "02:00:00:00:00:41"


def ip(*words: str) -> None:
    """Run ``ip`` here."""
    subprocess.run(["ip", *words], check=True, capture_output=True)


def is_there() -> bool:
    """Whether the link is at home."""
    with Rtnl.home() as tables:
        return tables.link(name=LINK) is not None


def make_link() -> None:
    """Have the link appear."""
    ip("link", "add", LINK, "address", MAC, "type", "veth", "peer", "name", f"{LINK}p")
    ip("link", "set", f"{LINK}p", "up")
    ip("link", "set", LINK, "up")


def dress_link() -> None:
    """Put on the link what a host can have on one."""
    for command in (
        f"link set dev {LINK} mtu 1400",
        f"link property add dev {LINK} altname enp65s0",
        f"addr add 10.9.0.1/24 dev {LINK}",
        "route add 10.8.0.0/16 via 10.9.0.2",
        f"neigh add 10.9.0.2 lladdr 02:00:00:00:00:77 dev {LINK}",
    ):
        ip(*command.split())


def the_link() -> Link:
    """The link at home."""
    with Rtnl.home() as tables:
        found = tables.link(name=LINK)
    assert found is not None
    return found


def shown() -> dict[str, str]:
    """How the link is, but for the number that the kernel gave it."""
    with open_namespaces() as spaces:
        link = the_link()
        originals = attrs.asdict(take_originals(look_home(spaces, link)), recurse=False)
    own = rf"\b(index|link|oif)={link.index}\b"
    texts = {name: re.sub(own, r"\1=own", str(value)) for name, value in originals.items()}
    return {name: text for name, text in texts.items() if name != "index"}


def machine_of(
    folder: Path,
    *,
    groups: bool = True,
    iommufd: bool = False,
    comes: Callable[[], bool] = lambda: True,
) -> VfioMachine:
    """The machine below a folder; its NIC's link follows the driver.

    Args:
        iommufd: Whether functions get nodes of their own.
        comes: Whether the link comes back with its driver.
    """

    def changed(address: str, driver: str) -> None:
        if address != NIC:
            return
        if driver == OWN_DRIVER and comes():
            make_link()
        elif not driver and is_there():
            ip("link", "del", LINK)

    return VfioMachine(
        folder / "machine", groups=groups, noiommu=not groups, iommufd=iommufd, changed=changed
    )


def bindings_of(records: Records, nics: Nics, machine: VfioMachine) -> Bindings:
    """Whoever binds, in one life."""
    return Bindings(records, links=nics, files=machine.files, drivers=machine.drivers)


def drafted(way: WayIn | None = None, *, noiommu: bool = False) -> ClaimRecord:
    """A claim's record before anything is done."""
    way = way or WayIn()
    link = NicRecord(
        identity=f"pci:{NIC}",
        device="nic-0000-41-00-0",
        group="machines",
        config=NicConfig(mode=AttachMode.VFIO, vfio=way),
        boot_id=BOOT,
    )
    device = HeldDevice(
        result=DeviceResult(request="nic", pool="node/nic", device=link.device),
        identity=link.identity,
        type="nic-vfio",
        attributes={},
        binding=Binding(address=NIC, way=way, allow_noiommu=noiommu, keys=(f"iommu:{NIC_GROUP}",)),
        link=link,
    )
    return ClaimRecord(
        claim=ClaimRef(namespace="team", name=f"claim-{UID}", uid=UID),
        pod_claim_name=None,
        consumers=(Consumer(resource="pods", name="vm", uid="p1"),),
        driver=DRIVER,
        boot_id=BOOT,
        devices=(device,),
    )


async def prepare(records: Records, nics: Nics, bindings: Bindings, draft: ClaimRecord) -> None:
    """What a prepare does to the NIC, and to its record."""
    async with records.lock(UID):
        staged = await nics.stage(draft, [the_link().index])
        bound = await bindings.bind(staged)
        await records.put(attrs.evolve(bound, prepared=True, generation=1))
