"""The kernel: its version, control groups, the modules that the groups need, and the IOMMU.

Source: README.md (oldest kernel); ``failCgroupV1`` of ``KubeletConfiguration``, on since 1.35;
network.md §6.2; Linux ``Documentation/admin-guide/kernel-parameters.txt``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import attrs

from berth.cli.checks.kubeletsettings import setting
from berth.cli.checks.line import Level, Line
from berth.cli.checks.machine import Machine
from berth.cli.checks.modules import Module, module, names_at_boot, plain
from berth.cli.wording import quoted
from berth.host.sysfiles import names
from berth.model.device import NicMode
from berth.nic.access import way_in
from berth.vfio.binding import VFIO

TOPIC: Final = "kernel"

OLDEST: Final = (5, 15)
"""The oldest kernel that berth is meant for."""

_PACKAGE: Final = "install the package with the kernel's further modules"
_SWITCHES: Final = {"GenuineIntel": "intel_iommu=on", "AuthenticAMD": "amd_iommu=on"}


@attrs.frozen
class Need:
    """A module that somebody needs.

    Attributes:
        name: Of the module.
        users: Whose devices need it.
        waits: The kernel does not load it by itself when it is used.
        level: How bad it is without.
    """

    name: str
    users: tuple[str, ...]
    waits: bool = False
    level: Level = Level.FAULT


def check_release(machine: Machine) -> Iterator[Line]:
    """Whether the kernel is one that berth is meant for."""
    found = re.match(r"(\d+)\.(\d+)", machine.kernel)
    if found is None:
        return
    oldest = ".".join(map(str, OLDEST))
    if (int(found[1]), int(found[2])) < OLDEST:
        text = f"Linux {machine.kernel} is older than {oldest}, with which berth was not tried"
        yield Line(topic=TOPIC, level=Level.WARNING, text=text, mend="take a newer kernel")
    else:
        yield Line(topic=TOPIC, level=Level.OK, text=f"Linux {machine.kernel}")


def check_cgroups(machine: Machine) -> Iterator[Line]:
    """Which control groups the machine has: kubelet gives version 1 up, berth needs neither."""
    if machine.at("/sys/fs/cgroup/cgroup.controllers").exists():
        yield Line(topic=TOPIC, level=Level.OK, text="cgroup v2")
    elif machine.at("/sys/fs/cgroup").is_dir() and setting(machine, "failCgroupV1") is False:
        text = "cgroup v1, which kubelet's failCgroupV1: false takes"
        yield Line(topic=TOPIC, level=Level.NOTE, text=text)
    elif machine.at("/sys/fs/cgroup").is_dir():
        yield Line(
            topic=TOPIC,
            level=Level.NOTE,
            text="cgroup v1: kubelet 1.35 and later refuses to start on it",
            mend="boot with systemd.unified_cgroup_hierarchy=1, or write failCgroupV1: false in "
            "kubelet's configuration",
        )


def check_modules(machine: Machine) -> Iterator[Line]:
    """Whether each module is there that the groups need, now and after the next boot."""
    boot = names_at_boot(machine)
    for need in _needs(machine):
        state = module(machine, need.name)
        if state in {Module.LOADED, Module.BUILT_IN}:
            text = f"module {need.name} is {state.value}"
            yield Line(topic=TOPIC, level=Level.OK, text=text)
        yield from _want(machine, need, state, kept=plain(need.name) in boot)


def _want(machine: Machine, need: Need, state: Module, *, kept: bool) -> Iterator[Line]:
    """What a module lacks for those who need it."""
    users = f"group {quoted(need.users)} {'needs' if len(need.users) == 1 else 'need'}"
    keep = f"echo {need.name} >> /etc/modules-load.d/berth.conf"
    if state is Module.ABSENT:
        text = f"kernel {machine.kernel} has no module {need.name}, which {users}"
        yield Line(topic=TOPIC, level=need.level, text=text, mend=_PACKAGE)
    elif need.waits and state in {Module.LOADABLE, Module.UNKNOWN}:
        text = f"module {need.name}, which {users}, is not loaded: the kernel does so for nobody"
        mend = f"modprobe {need.name}" + ("" if kept else f"; {keep}")
        yield Line(topic=TOPIC, level=need.level, text=text, mend=mend)
    elif need.waits and state is Module.LOADED and not kept:
        text = f"module {need.name}, which {users}, is named in no file for the next boot"
        yield Line(topic=TOPIC, level=Level.WARNING, text=text, mend=keep)


def check_iommu(machine: Machine) -> Iterator[Line]:
    """Whether there is an IOMMU, where functions are given to virtual machines."""
    users = (*_vfio_nics(machine), *_vfio_gpus(machine))
    if not users:
        return
    groups = names(machine.at("/sys/kernel/iommu_groups"))
    if groups:
        text = f"an IOMMU is on, with {len(groups)} groups"
        yield Line(topic=TOPIC, level=Level.OK, text=text)
        return
    bare = {g.name for g in machine.config.nic.groups if g.allow_noiommu}
    if bare.issuperset(users):
        text = f"no IOMMU is on: group {quoted(users)} may be given without, and nothing keeps a "
        text += "virtual machine from the host's memory"
        yield Line(topic=TOPIC, level=Level.WARNING, text=text)
        return
    yield Line(
        topic=TOPIC,
        level=Level.FAULT,
        text=f"no IOMMU is on: nothing of group {quoted(users)} can be given to virtual machines",
        mend=_iommu_mend(machine),
    )


def _iommu_mend(machine: Machine) -> str:
    words = (machine.read("/proc/cmdline") or "").split()
    off = [word for word in words if re.fullmatch(r"((intel|amd)_iommu|iommu)=off", word)]
    if off:
        return f"take {' '.join(off)} off the kernel's command line, and boot again"
    cpu = machine.read("/proc/cpuinfo") or ""
    switch = next((word for vendor, word in _SWITCHES.items() if vendor in cpu), "")
    firmware = "switch it on in the firmware (VT-d, AMD-Vi, SMMU)"
    if switch.startswith("intel") and switch not in words:
        return f"{firmware}, write {switch} on the kernel's command line, and boot again"
    return f"{firmware}, and boot again"


def _needs(machine: Machine) -> Iterator[Need]:
    children: dict[str, list[str]] = {}
    for group in machine.config.nic.groups:
        for child in group.shared.children if group.mode is NicMode.SHARED else ():
            children.setdefault(child.value, []).append(group.name)
    for kind, users in sorted(children.items()):
        yield Need(kind, tuple(users))
    if vfio := (*_vfio_nics(machine), *_vfio_gpus(machine)):
        yield Need(VFIO, vfio, waits=True)
    if vhost := tuple(g.name for g in machine.config.nic.groups if way_in(g).vhost):
        yield Need("vhost_net", vhost)
        yield Need("tun", vhost)
    if rdma := tuple(_rdma_groups(machine)):
        yield Need("ib_uverbs", rdma, waits=True, level=Level.WARNING)
        yield Need("rdma_ucm", rdma, waits=True, level=Level.WARNING)


def _vfio_nics(machine: Machine) -> tuple[str, ...]:
    return tuple(g.name for g in machine.config.nic.groups if g.mode is NicMode.VFIO)


def _vfio_gpus(machine: Machine) -> tuple[str, ...]:
    """Groups whose GPUs are bound to vfio-pci, where there are GPUs at all."""
    gear = machine.gear
    if gear is None or not any(function.is_nvidia_gpu for function in gear.functions):
        return ()
    return tuple(group.name for group in machine.config.gpu.groups if group.vfio.rebind)


def _rdma_groups(machine: Machine) -> Iterator[str]:
    """Groups whose NICs speak RDMA, by what the machine has."""
    scan = machine.scan
    speaking = {f.address for f in scan.functions if f.rdma} if scan is not None else set()
    for group in machine.config.nic.groups:
        nics = machine.inventory.nics
        if any(nic.group == group.name and nic.pci in speaking for nic in nics):
            yield group.name
