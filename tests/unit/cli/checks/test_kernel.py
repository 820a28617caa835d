"""The kernel, with files as Debian 13 has them: version, control groups, modules, IOMMU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from berth.cli.checks.kernel import check_cgroups, check_iommu, check_modules, check_release
from berth.cli.checks.machine import Machine
from berth.cli.checks.modules import Module, module, names_at_boot
from berth.config.nic import NicTable
from berth.config.nicgroup import NicGroup
from berth.config.schema import Config
from berth.model.device import NicMode
from tests.unit.cli.checks.tree import plant, told
from tests.unit.nic.machine import Machine as Host
from tests.unit.nic.machine import group

RELEASE = "6.12.43+deb13-amd64"
LIB = f"/lib/modules/{RELEASE}"
DEP = """\
kernel/drivers/vfio/vfio.ko.xz: kernel/drivers/iommu/iommufd/iommufd.ko.xz
kernel/drivers/vfio/pci/vfio-pci-core.ko.xz: kernel/drivers/vfio/vfio.ko.xz kernel/virt/lib/irqbypass.ko.xz
kernel/drivers/vfio/pci/vfio-pci.ko.xz: kernel/drivers/vfio/pci/vfio-pci-core.ko.xz kernel/drivers/vfio/vfio.ko.xz
kernel/drivers/net/macvlan.ko.xz:
kernel/drivers/net/ipvlan/ipvlan.ko.xz:
"""  # noqa: E501 - as depmod writes it
BUILTIN = "kernel/net/ipv6/ipv6.ko\nkernel/drivers/tty/serial/8250/8250.ko\n"
PROC = "vfio_pci 16384 0 - Live 0xffffffffc0a0e000\nvfio_pci_core 94208 1 vfio_pci, Live 0x0\n"
VFIO = group("vm", name=("ens1f0",), mode=NicMode.VFIO)
SHARED = group("lan", name=("ens1f0",), mode=NicMode.SHARED)
MOVED = group("fast", name=("ens1f0",))
KEEP = "echo vfio-pci >> /etc/modules-load.d/berth.conf"


def machine_of(root: Path, files: dict[str, str], *groups: NicGroup) -> Machine:
    """A machine of files, with groups for it."""
    return Machine(
        config=Config(nic=NicTable(groups=groups)), root=plant(root, files), kernel=RELEASE
    )


@pytest.mark.parametrize(
    ("release", "lines"),
    [
        (RELEASE, [("ok", f"Linux {RELEASE}")]),
        ("5.15.0-122-generic", [("ok", "Linux 5.15.0-122-generic")]),
        (
            "5.10.0-30-amd64",
            [
                (
                    "warning",
                    "Linux 5.10.0-30-amd64 is older than 5.15, with which berth was not tried",
                )
            ],
        ),
        ("", []),
    ],
)
def test_release(release: str, lines: list[tuple[str, str]]) -> None:
    """An old kernel is warned of; what is not a version is not judged."""

    assert told(check_release(Machine(config=Config(), kernel=release))) == lines


@pytest.mark.parametrize(
    ("files", "lines"),
    [
        ({"/sys/fs/cgroup/cgroup.controllers": "cpuset cpu io"}, [("ok", "cgroup v2")]),
        (
            {"/sys/fs/cgroup/memory/": ""},
            [("note", "cgroup v1: kubelet 1.35 and later refuses to start on it")],
        ),
        (
            {
                "/sys/fs/cgroup/memory/": "",
                "/var/lib/kubelet/config.yaml": "failCgroupV1: false\n",
            },
            [("note", "cgroup v1, which kubelet's failCgroupV1: false takes")],
        ),
        ({}, []),
    ],
)
def test_control_groups(
    tmp_path: Path, files: dict[str, str], lines: list[tuple[str, str]]
) -> None:
    """The second version is told by its own file; without any nothing is said."""

    assert told(check_cgroups(machine_of(tmp_path, files))) == lines


@pytest.mark.parametrize(
    ("files", "state"),
    [
        ({"/proc/modules": PROC}, Module.LOADED),
        ({"/sys/module/vfio_pci/": "", f"{LIB}/modules.dep": DEP}, Module.BUILT_IN),
        ({"/sys/bus/pci/drivers/vfio-pci/": ""}, Module.BUILT_IN),
        ({f"{LIB}/modules.builtin": "kernel/drivers/vfio/pci/vfio-pci.ko\n"}, Module.BUILT_IN),
        ({f"{LIB}/modules.dep": DEP, f"{LIB}/modules.builtin": BUILTIN}, Module.LOADABLE),
        ({f"{LIB}/modules.dep": "kernel/drivers/vfio/pci/vfio-pci-core.ko:\n"}, Module.ABSENT),
        ({f"{LIB}/modules.builtin": BUILTIN}, Module.ABSENT),
        ({}, Module.UNKNOWN),
    ],
)
def test_module_by_each_witness(tmp_path: Path, files: dict[str, str], state: Module) -> None:
    """A module is known by its own name alone, packed or not; no list is no word."""

    assert module(machine_of(tmp_path, files), "vfio-pci") is state


def test_modules_that_others_need_are_not_taken_for_them(tmp_path: Path) -> None:
    """A name at the end of a line is what the module in front needs."""

    files = {f"{LIB}/modules.dep": "kernel/net/macvtap.ko: kernel/drivers/net/macvlan.ko\n"}

    assert module(machine_of(tmp_path, files), "macvlan") is Module.ABSENT


def test_names_for_the_next_boot(tmp_path: Path) -> None:
    """Each file counts, remarks do not."""

    files = {
        "/etc/modules": "# at boot\nloop max_loop=8\n",
        "/etc/modules-load.d/berth.conf": "vfio-pci\n; no\n",
        "/usr/lib/modules-load.d/x.conf": "br_netfilter\n",
        "/etc/modules-load.d/README": "nothing\n",
    }

    assert names_at_boot(machine_of(tmp_path, files)) == {"loop", "vfio_pci", "br_netfilter"}


@pytest.mark.parametrize(
    ("files", "level", "mend"),
    [
        ({f"{LIB}/modules.dep": DEP}, "fault", f"modprobe vfio-pci; {KEEP}"),
        (
            {f"{LIB}/modules.dep": DEP, "/etc/modules-load.d/v.conf": "vfio_pci\n"},
            "fault",
            "modprobe vfio-pci",
        ),
        ({}, "fault", f"modprobe vfio-pci; {KEEP}"),
        (
            {f"{LIB}/modules.builtin": BUILTIN},
            "fault",
            "install the package with the kernel's further modules",
        ),
        ({"/proc/modules": PROC}, "warning", KEEP),
        ({"/proc/modules": PROC, "/etc/modules": "vfio-pci"}, "ok", ""),
        ({"/sys/module/vfio_pci/": ""}, "ok", ""),
    ],
)
def test_module_that_nobody_loads_for_us(
    tmp_path: Path, files: dict[str, str], level: str, mend: str
) -> None:
    """It must be there now, and after the next boot."""

    last = list(check_modules(machine_of(tmp_path, files, VFIO)))[-1]

    assert (last.level.value, last.mend) == (level, mend)
    assert "vfio-pci" in last.text


@pytest.mark.parametrize(
    ("files", "lines"),
    [
        ({}, []),
        ({f"{LIB}/modules.dep": DEP}, []),
        ({"/sys/module/macvlan/": ""}, [("ok", "module macvlan is built in")]),
        (
            {f"{LIB}/modules.dep": "kernel/drivers/net/dummy.ko:\n"},
            [
                (
                    "fault",
                    f'kernel {RELEASE} has no module macvlan, which group "lan", "wan" need',
                )
            ],
        ),
    ],
)
def test_module_that_the_kernel_loads_itself(
    tmp_path: Path, files: dict[str, str], lines: list[tuple[str, str]]
) -> None:
    """One that is there to be loaded is well; a kernel that tells nothing is given credit."""

    other = group("wan", name=("ens1f1",), mode=NicMode.SHARED)

    assert told(check_modules(machine_of(tmp_path, files, SHARED, other))) == lines


@pytest.mark.parametrize("keys", [{"vhost": True}, {"defaults": {"vfio": {"vhost": True}}}])
def test_modules_of_the_hosts_packet_queue(tmp_path: Path, keys: dict[str, Any]) -> None:
    """Of a group that gives its nodes, whichever way it says so."""

    machines = group("vms", name=("ens1f1",), mode=NicMode.VFIO, **keys)
    files = {f"{LIB}/modules.dep": DEP, "/sys/module/vfio_pci/": ""}

    found = told(check_modules(machine_of(tmp_path, files, machines)))

    assert [text for level, text in found if level == "fault"] == [
        f'kernel {RELEASE} has no module {name}, which group "vms" needs'
        for name in ("vhost_net", "tun")
    ]


def test_modules_of_rdma_where_nics_speak_it(tmp_path: Path) -> None:
    """Without them pods get NICs and no RDMA, which is worth a warning."""

    host = Host(tmp_path / "host")
    host.tree.function("0000:41:00.0", rdma=("mlx5_0",))
    host.nic("ens1f0", "0000:41:00.0")
    files = {f"{LIB}/modules.dep": "kernel/drivers/infiniband/core/ib_uverbs.ko:\n"}
    machine = Machine(
        config=Config(nic=NicTable(groups=(MOVED,))),
        root=plant(tmp_path / "root", files),
        kernel=RELEASE,
        scan=host.scan(),
    )

    assert [(level, text.split(",")[0]) for level, text in told(check_modules(machine))] == [
        ("warning", "module ib_uverbs"),
        ("warning", f"kernel {RELEASE} has no module rdma_ucm"),
    ]


def test_nothing_is_asked_of_the_kernel_for_nics_that_are_moved(tmp_path: Path) -> None:
    """No module and no IOMMU."""

    machine = machine_of(tmp_path, {}, MOVED)

    assert [*check_modules(machine), *check_iommu(machine)] == []


INTEL = "vendor_id\t: GenuineIntel\n"


@pytest.mark.parametrize(
    ("files", "mend"),
    [
        (
            {"/proc/cpuinfo": INTEL, "/proc/cmdline": "root=/dev/vda quiet\n"},
            "write intel_iommu=on on the kernel's command line",
        ),
        (
            {"/proc/cpuinfo": INTEL, "/proc/cmdline": "intel_iommu=on\n"},
            "switch it on in the firmware (VT-d, AMD-Vi, SMMU), and boot again",
        ),
        (
            {"/proc/cpuinfo": "vendor_id : AuthenticAMD\n", "/proc/cmdline": "amd_iommu=off x"},
            "take amd_iommu=off off the kernel's command line, and boot again",
        ),
        ({}, "switch it on in the firmware (VT-d, AMD-Vi, SMMU), and boot again"),
    ],
)
def test_iommu_that_is_off(tmp_path: Path, files: dict[str, str], mend: str) -> None:
    """A fault, with the mend for this very machine."""

    (line,) = check_iommu(machine_of(tmp_path, files, VFIO))

    assert line.level.value == "fault"
    assert mend in line.mend


def test_iommu_that_is_on(tmp_path: Path) -> None:
    """Its groups are there."""

    files = {"/sys/kernel/iommu_groups/0/": "", "/sys/kernel/iommu_groups/1/": ""}

    assert told(check_iommu(machine_of(tmp_path, files, VFIO))) == [
        ("ok", "an IOMMU is on, with 2 groups")
    ]


def test_iommu_that_nobody_insists_on(tmp_path: Path) -> None:
    """A group that may be given without one is warned of what that means."""

    loose = group("vm", name=("ens1f0",), mode=NicMode.VFIO, allow_noiommu=True)

    assert [level for level, _ in told(check_iommu(machine_of(tmp_path, {}, loose)))] == ["warning"]
