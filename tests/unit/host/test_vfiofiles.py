"""Groups, names and nodes of functions that vfio-pci has."""

from __future__ import annotations

from pathlib import Path

from berth.host.vfiofiles import VfioFacts
from berth.rehearsal.drivercore import VFIO
from tests.vfio_tree import AUDIO, BRIDGE_ABOVE, GPU, GROUP, OTHER, VfioMachine


def bind(machine: VfioMachine, address: str = GPU) -> None:
    """Give a function to vfio-pci."""
    machine.drivers.set_override(address, VFIO)
    machine.drivers.unbind(address, "nvidia")
    machine.drivers.probe(address)


def test_function_is_seen_with_all_of_its_group(tmp_path: Path) -> None:
    """Whatever their class; not those of other groups."""

    machine = VfioMachine(tmp_path / "machine")
    machine.add_audio("snd_hda_intel")

    around = machine.files.around(GPU)

    assert [one.address for one in around] == [BRIDGE_ABOVE, GPU, AUDIO]
    assert [one.address for one in machine.files.around(OTHER)] == [OTHER]
    assert machine.files.around("0000:99:00.0") == ()


def test_nodes_come_with_the_driver_and_go_with_it(tmp_path: Path) -> None:
    """The number of the group is what sysfs says now."""

    machine = VfioMachine(tmp_path / "machine", iommufd=True)
    files = machine.files
    assert files.facts(GPU) == VfioFacts(group=GROUP)
    assert files.node(f"/dev/vfio/{GROUP}") is None

    bind(machine)

    assert files.facts(GPU) == VfioFacts(group=GROUP, name=f"vfio{GROUP}")
    for path in (f"/dev/vfio/{GROUP}", f"/dev/vfio/devices/vfio{GROUP}", "/dev/iommu"):
        assert files.node(path) is not None
    machine.drivers.unbind(GPU, VFIO)
    assert machine.core.nodes() == set()


def test_group_without_iommu_says_so(tmp_path: Path) -> None:
    """It is made when vfio-pci takes the function, and has a name."""

    machine = VfioMachine(tmp_path / "machine", groups=False, noiommu=True)
    assert machine.files.facts(GPU) == VfioFacts()

    bind(machine)

    facts = machine.files.facts(GPU)
    assert facts.noiommu
    assert machine.files.node(f"/dev/vfio/noiommu-{facts.group}") is not None


def test_driver_is_known_when_it_is_loaded(tmp_path: Path) -> None:
    """Nobody loads it for us."""

    files = VfioMachine(tmp_path / "machine").files

    assert files.knows(VFIO)
    assert not files.knows("nouveau")
