"""The ``[gpu]`` table."""

from __future__ import annotations

from pathlib import Path

import pytest

from berth.config.doors import Door
from berth.config.gpu import GpuTable, Prefer, ShareMemory
from berth.config.gpumatch import Glob, GpuType
from tests.unit.config.reading import check_text, read_table

GROUP = '[[group]]\nname = "a"\nmatch.type = "gpu"\n'
PLACE = '[[group]]\nname = "a"\nmatch.pci = "0000:3b:00.0"\n'


def faults(text: str) -> list[str]:
    """What is said of a table."""
    return read_table(GpuTable, text)[1]


def test_group_is_read() -> None:
    """Every key of a group, and one item without brackets."""

    table, said = read_table(
        GpuTable,
        """
        door = "auto"
        [[group]]
        name = "legacy"
        match = { product = "NVIDIA A100*", numa = 1, type = ["gpu", "mig"] }
        door = "plugin"
        resource = "nvidia.com/gpu"
        share = { slots = 4, memory = "free", many = true, prefer = "pack" }
        """,
    )

    assert said == []
    assert table is not None
    assert table.door is Door.AUTO
    (group,) = table.groups
    assert group.match.product == (Glob("NVIDIA A100*"),)
    assert group.match.type == (GpuType.GPU, GpuType.MIG)
    assert (group.door, group.resource) == (Door.PLUGIN, "nvidia.com/gpu")
    share = group.share
    assert (share.slots, share.memory) == (4, ShareMemory.FREE)
    assert (share.many, share.prefer) == (True, Prefer.PACK)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"{GROUP}vfio.rebind = true", 'add "vfio" to match.type or match.profile'),
        (f"{PLACE}vfio.rebind = true\nmatch.profile = 'full'", "selects no function"),
        (f"{PLACE}vfio.rebind = true\nshare.slots = 2", "a GPU is bound for one holder"),
        (f"{PLACE}vfio.rebind = true\ndoor = 'plugin'", "only a claim has a GPU bound"),
        (f"{GROUP}mig.create = true", "not available in this version"),
        (f"{GROUP}skip_node_operations = 'all'", '"none", since prepare writes the CDI file'),
        ('session = "keep"', 'must be "hold" or "probe"'),
        ('library = "libnvidia-ml.so.1"', "absolute path"),
        ('door = "slices"', '"dra", "plugin", "auto" or "both"'),
        ('[[group]]\nname = "a"\nmatch = {}', "would select every GPU"),
        (f'{GROUP}door = "x"', '"dra", "plugin", "auto" or "both"'),
        (f'{GROUP}resource = "gpu"', 'write "nvidia.com/gpu"'),
        (f'{GROUP}resource = "node.k8s.io/gpu"', "extended resource"),
        (f"{GROUP}share = {{ memory = 'free' }}", "given without shares"),
        (f'{GROUP}[[group]]\nname = "a"\nmatch.type = "mig"', "as is that of group 1"),
        ('[[group]]\nname = "a"\nmatch.type = "vfio"\nshare.slots = 2', "for itself"),
        ('[[group]]\nname = "a"\nmatch.profile = "MIG 1g.10GB"', 'write "1g.10gb"'),
        ('[[group]]\nname = "a"\nmatch.uuid = "3b:00.0"', "nvidia-smi"),
    ],
)
def test_fault_is_told_with_what_would_be_right(text: str, said: str) -> None:
    """Each fault is one finding that says what is allowed."""

    (fault,) = faults(text)
    assert said in fault


@pytest.mark.parametrize(
    "match", ['type = "vfio"', 'profile = "vfio"', 'pci = "0000:3b:00.0"', 'type = ["gpu", "vfio"]']
)
def test_group_lets_claims_have_gpus_bound(match: str) -> None:
    """Any that selects functions for virtual machines."""

    text = f'[[group]]\nname = "a"\nmatch.{match}\ndoor = "both"\nvfio.rebind = true'
    table, said = read_table(GpuTable, text)

    assert said == []
    assert table is not None
    assert table.groups[0].vfio.rebind


@pytest.mark.parametrize("door", ["dra", "plugin", "both"])
def test_way_into_a_machine_is_a_resources(tmp_path: Path, door: str) -> None:
    """A claim says it in a configuration of its own."""

    text = '[[gpu.group]]\nname = "a"\nmatch.type = "vfio"\nvfio.iommufd = true\n'
    report = check_text(tmp_path, f'{text}door = "{door}"')

    assert report.faults == ()
    said = "a claim says so by its VfioConfig" in str(report.warnings)
    assert said is (door == "dra")


def test_groups_that_take_the_same_device_are_told() -> None:
    """A device that both name, with nothing that tells them apart, and a resource of two sorts."""

    text = """
        [[group]]
        name = "a"
        match.pci = "0000:3b:00.0"
        resource = "x.example/y"
        [[group]]
        name = "b"
        match.pci = ["0000:3b:00.0", "0000:3c:00.0"]
        resource = "x.example/y"
        share.slots = 2
        """

    assert [fault.partition(" group 1: ")[0] for fault in faults(text)] == [
        '[[group]] 2 "b": match.pci takes 0000:3b:00.0, as does',
        '[[group]] 2 "b": resource is "x.example/y", as is that of',
    ]


def test_what_has_no_effect_is_warned_of(tmp_path: Path) -> None:
    """A resource without the plugin's door, and groups of a table that is off, are no faults."""

    text = """
        [gpu]
        enabled = false
        [[gpu.group]]
        name = "a"
        match.type = "gpu"
        door = "dra"
        resource = "x.example/y"
        """
    report = check_text(tmp_path, text)

    assert report.faults == ()
    assert [str(warning).partition(": ")[2] for warning in report.warnings] == [
        "[gpu] enabled is false, so no group of GPUs offers anything",
        '[[gpu.group]] 1 "a": resource is not used with door "dra"',
    ]
