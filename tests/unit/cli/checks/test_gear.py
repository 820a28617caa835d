"""What the machine has beside NICs."""

from __future__ import annotations

from pathlib import Path

import attrs

from berth.cli.checks.gear import check_gpus, check_nodes
from berth.cli.checks.machine import Machine
from berth.cli.outlook import Gear
from berth.config.gpu import GpuGroup, GpuTable, GpuVfio
from berth.config.gpumatch import GpuMatch, GpuType
from berth.config.schema import Config
from berth.host.hardware import PciFunction
from berth.host.nodefacts import NodeScan
from tests.unit.cli.checks.tree import plant, told
from tests.unit.generic.nodes import MODEM, group, kvm, tty

KVM = group("kvm", 'match = { path = "/dev/kvm" }')


def test_nothing_is_said_without_groups() -> None:
    """A node without such groups has nothing to check."""

    assert told(check_nodes(Machine(config=Config()))) == []


def test_groups_say_what_they_take() -> None:
    """How many devices, and what finds none."""

    nodes = NodeScan(nodes=(tty(0), tty(1, serial="B7", port="3")), udev=True)
    machine = Machine(config=Config(generic=(MODEM, KVM)), gear=Gear(nodes=nodes))

    assert told(check_nodes(machine)) == [
        ("ok", '[[generic]] 1 "modem" selects 2 devices, 2 to offer'),
        ("warning", 'group "kvm" matches no device node'),
    ]


def test_group_that_offers_nothing_is_warned_of() -> None:
    """Two groups on one node: no one gets it."""

    other = group("other", 'match = { path = "/dev/kvm", subsystem = "misc" }')
    machine = Machine(
        config=Config(generic=(KVM, other)), gear=Gear(nodes=NodeScan(nodes=(kvm(),)))
    )

    lines = told(check_nodes(machine))

    assert (
        "warning",
        '[[generic]] 1 "kvm" selects 1 device, 0 to offer; not offered: 1 overlap',
    ) in lines


def test_command_that_is_no_program_is_warned_of(tmp_path: Path) -> None:
    """All devices of its group would be unhealthy."""
    asked = group("kvm", 'match.path = "/dev/kvm"\nhealth = { command = ["/opt/ok", "{node}"] }')
    machine = Machine(
        config=Config(generic=(asked,)), gear=Gear(nodes=NodeScan(nodes=(kvm(),))), root=tmp_path
    )
    warning = (
        "warning",
        '[[generic]] 1 "kvm" asks /opt/ok, which is no program here: all its devices are unhealthy',
    )
    program = plant(tmp_path, {"/opt/ok": "#!/bin/sh\n"}) / "opt/ok"

    assert told(check_nodes(machine))[1:] == [warning]
    program.chmod(0o755)
    assert told(check_nodes(machine))[1:] == []


def test_nodes_that_cannot_be_read_are_told() -> None:
    """The reason is told, and nothing is guessed."""

    machine = Machine(config=Config(generic=(KVM,)), gear_fault="/dev: cannot be read")

    assert told(check_nodes(machine)) == [("warning", "not looked at: /dev: cannot be read")]


def gpu(number: int, driver: str) -> PciFunction:
    """A GPU on the bus."""
    return PciFunction(
        address=f"0000:{number:02x}:00.0", class_code=0x030200, vendor="10de", driver=driver
    )


def test_gpus_are_told_by_their_driver() -> None:
    """One that no driver of use is bound to is not offered."""

    functions = (gpu(1, "nvidia"), gpu(2, "nvidia"), gpu(3, "nouveau"), gpu(4, ""))
    machine = Machine(config=Config(), gear=Gear(functions=functions))

    assert told(check_gpus(machine)) == [
        ("warning", "1 GPU (0000:04:00.0) bound to no driver: not offered"),
        ("warning", "1 GPU (0000:03:00.0) bound to nouveau: not offered"),
        ("ok", "2 GPUs (0000:01:00.0, 0000:02:00.0) bound to nvidia"),
    ]
    assert told(check_gpus(Machine(config=Config()))) == []


def test_what_binding_for_claims_needs_is_told(tmp_path: Path) -> None:
    """There has to be an IOMMU; which module has to be loaded the kernel's checks tell."""

    rebind = GpuGroup(name="vm", match=GpuMatch(type=(GpuType.VFIO,)), vfio=GpuVfio(rebind=True))
    config = Config(gpu=GpuTable(groups=(rebind,)))
    functions = (gpu(0, "nvidia"), attrs.evolve(gpu(1, "nvidia"), iommu_group=7))
    machine = Machine(
        config=config, gear=Gear(nodes=NodeScan(nodes=()), functions=functions), root=tmp_path
    )

    said = [text for level, text in told(check_gpus(machine)) if level == "warning"]
    assert said == [f"{functions[0].address} in no IOMMU group: not offered to virtual machines"]


def test_files_in_which_another_tool_describes_gpus_are_named(tmp_path: Path) -> None:
    """Nobody here goes by them, and what they say may be of another boot or layout."""

    files = ("/etc/cdi/nvidia.yaml", "/var/run/cdi/nvidia-mig.json", "/etc/cdi/nvidia.yaml.bak")
    root = plant(tmp_path, dict.fromkeys((*files, "/etc/cdi/berth.dev-gpu_1.json"), ""))
    machine = Machine(config=Config(), root=root, gear=Gear(functions=(gpu(1, "nvidia"),)))

    notes = [text for level, text in told(check_gpus(machine)) if level == "note"]

    assert [text.partition(" is another tool's")[0] for text in notes] == [*files[:2]]
    assert told(check_gpus(attrs.evolve(machine, gear=Gear()))) == []
