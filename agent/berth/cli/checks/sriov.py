"""Virtual functions: how many the PFs have that groups take them of, and who makes them at boot.

Source: Linux ``Documentation/PCI/pci-iov-howto.rst``; systemd.link(5) (``[SR-IOV]``); netplan's
``virtual-function-count``; nm-settings(5) (``sriov.total-vfs``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from berth.cli.checks.line import Level, Line
from berth.cli.checks.machine import Machine
from berth.cli.wording import quoted
from berth.config.match import PfPattern
from berth.config.nicgroup import NicGroup
from berth.host.hardware import PciFunction
from berth.model.names import is_pci_address

TOPIC: Final = "SR-IOV"

MAKERS: Final = (
    ("/etc/systemd/network", "*.link"),
    ("/etc/systemd/network", "*.link.d/*.conf"),
    ("/etc/systemd/network", "*.network"),
    ("/run/systemd/network", "*.link"),
    ("/etc/systemd/system", "*.service"),
    ("/etc/udev/rules.d", "*.rules"),
    ("/etc/tmpfiles.d", "*.conf"),
    ("/etc/modprobe.d", "*.conf"),
    ("/etc/netplan", "*.yaml"),
    ("/etc/NetworkManager/system-connections", "*"),
    ("/etc/network", "interfaces"),
    ("/etc/network/interfaces.d", "*"),
    ("/etc", "rc.local"),
    ("/etc", "sysfs.conf"),
    ("/etc/sysfs.d", "*.conf"),
)
"""Files in which somebody may have written that VFs are made at boot."""

_MAKES: Final = re.compile(
    r"^[^#;]*(sriov_numvfs|SR-IOVVirtualFunctions|\[SR-IOV\]|virtual-function-count|total-vfs|"
    r"max_vfs)",
    re.MULTILINE,
)


def check_functions(machine: Machine) -> Iterator[Line]:
    """Whether each PF has the VFs that groups name, and will have them after the next boot."""
    if machine.scan is None:
        return
    makers = _makers(machine)
    for pf in machine.scan.functions:
        groups = [group for group in machine.config.nic.groups if _takes(machine, group, pf)]
        if pf.total_vfs == 0 or not groups:
            continue
        name = _name(machine, pf)
        yield from _short(machine, groups, pf, name)
        if pf.num_vfs and not makers:
            yield Line(
                topic=TOPIC,
                level=Level.WARNING,
                text=f"{name} has {pf.num_vfs} of {pf.total_vfs} VFs, and no file was found that "
                "makes them at boot: they are lost then, unless a program makes them",
                mend=f"a line `w /sys/bus/pci/devices/{pf.address}/sriov_numvfs - - - - "
                f"{pf.num_vfs}` in /etc/tmpfiles.d/sriov.conf",
            )
        elif pf.num_vfs:
            text = f"{name} has {pf.num_vfs} of {pf.total_vfs} VFs, made at boot by "
            yield Line(topic=TOPIC, level=Level.OK, text=text + " or ".join(makers))


def _short(machine: Machine, groups: list[NicGroup], pf: PciFunction, name: str) -> Iterator[Line]:
    """What groups name by number that is not there."""
    wanted = [
        (group.name, last)
        for group in groups
        for pattern in group.match.pf
        if _is_of(machine, pattern, pf)
        for _, last in pattern.ranges or ((0, 0),)
        if last >= pf.num_vfs
    ]
    if not wanted:
        return
    most = max(last for _, last in wanted) + 1
    users = quoted(dict.fromkeys(group for group, _ in wanted))
    reach = f"group {users} names VFs up to number {most - 1} of {name}"
    if most > pf.total_vfs:
        text = f"{reach}, which can have {pf.total_vfs}"
        mend = "name those that it can have, or raise the number in the card's firmware"
    else:
        text = f"{reach}, which has {pf.num_vfs} of {pf.total_vfs}"
        way = f"/sys/bus/pci/devices/{pf.address}/sriov_numvfs"
        # The kernel takes another number only after none.
        mend = f"echo 0 > {way}, while no pod has one; " if pf.num_vfs else ""
        mend += f"echo {most} > {way}"
    yield Line(topic=TOPIC, level=Level.WARNING, text=text, mend=mend)


def _takes(machine: Machine, group: NicGroup, pf: PciFunction) -> bool:
    """Whether a group takes VFs of a PF, or says that it would."""
    if any(_is_of(machine, pattern, pf) for pattern in group.match.pf):
        return True
    vfs = (
        {f.address for f in machine.scan.functions if f.physfn == pf.address}
        if machine.scan
        else ()
    )
    return any(nic.group == group.name and nic.pci in vfs for nic in machine.inventory.nics)


def _is_of(machine: Machine, pattern: PfPattern, pf: PciFunction) -> bool:
    if is_pci_address(pattern.pf):
        return pattern.pf == pf.address
    return pattern.pf in _links(machine, pf)


def _links(machine: Machine, pf: PciFunction) -> list[str]:
    """Names of the links of a function."""
    scan = machine.scan
    on = {d.index for d in scan.devices if d.bearer.function == pf.address} if scan else set()
    return [link.name for link in scan.links if link.index in on] if scan else []


def _name(machine: Machine, pf: PciFunction) -> str:
    links = _links(machine, pf)
    return f"{links[0]} ({pf.address})" if links else pf.address


def _makers(machine: Machine) -> tuple[str, ...]:
    """Files that speak of making VFs."""
    files = (
        f"{folder}/{path.relative_to(machine.at(folder))}"
        for folder, pattern in MAKERS
        for path in sorted(machine.at(folder).glob(pattern))
        if path.is_file()
    )
    return tuple(file for file in files if _MAKES.search(machine.read(file) or ""))
