"""What sysfs tells of how a function is, on trees as the kernel lays them."""

from __future__ import annotations

from pathlib import Path

import pytest

from berth.host.pcihealth import ABSENT, HEAD_BYTES, PciHealth
from tests.sysfs_tree import SysfsTree

PF = "0000:41:00.0"
VF = "0000:41:10.0"

FATAL = """Undefined 0
DLP 1
SDES 0
TLP 2
TOTAL_ERR_FATAL 3
"""


@pytest.fixture(name="tree")
def _tree(tmp_path: Path) -> SysfsTree:
    """A machine with a PF, its VF, and an RDMA device on the PF."""
    tree = SysfsTree(tmp_path / "sys")
    tree.function(PF, total_vfs=2, rdma=["mlx5_0"])
    tree.vf(VF, pf=PF, number=0)
    return tree


def test_a_function_with_all_that_is_told_of_it(tree: SysfsTree) -> None:
    """Driver, counters, ports; what is not told is not known."""

    tree.port("mlx5_0", 1, "4: ACTIVE", on=PF)
    tree.errors(PF, fatal=FATAL, nonfatal="TOTAL_ERR_NONFATAL 17\n")
    sight = PciHealth(tree.root).look(PF)

    assert (sight.present, sight.answers, sight.driver) == (True, True, "mlx5_core")
    assert (sight.fatal, sight.nonfatal) == (3, 17)
    assert sight.ports == {"mlx5_0/1": "ACTIVE"}
    assert sight.rdma == {"mlx5_0"}
    assert sight.physfn == ""


def test_a_function_that_tells_little(tree: SysfsTree) -> None:
    """No counters, no configuration space: nothing is made of that."""

    sight = PciHealth(tree.root).look(VF)

    assert sight.answers
    assert (sight.fatal, sight.nonfatal) == (None, None)
    assert sight.physfn == PciHealth(tree.root).physfn(VF) == PF
    assert PciHealth(tree.root).look(PF).ports == {"mlx5_0/0": ""}


@pytest.mark.parametrize("content", ["", "many\n", "TOTAL_ERR_FATAL\n", "TOTAL_ERR_FATAL x\n"])
def test_counters_in_another_form_are_not_known(tree: SysfsTree, content: str) -> None:
    """No number is guessed."""

    tree.errors(PF, fatal=content, nonfatal=content)

    assert PciHealth(tree.root).look(PF).fatal is None


def test_only_a_head_of_nothing_but_ones_is_silence(tree: SysfsTree) -> None:
    """A virtual function has them where others have their vendor, and answers all the same."""

    pci = PciHealth(tree.root)
    tree.config(VF, b"\xff" * 4 + b"\x07" + b"\0" * (HEAD_BYTES - 5))
    assert pci.look(VF).answers
    tree.config(VF, b"\xff" * 4096)
    assert not pci.look(VF).answers


def test_a_function_that_sleeps_is_not_woken(tree: SysfsTree) -> None:
    """The kernel would power it up for us."""

    pci = PciHealth(tree.root)
    tree.config(PF, b"\xff" * HEAD_BYTES)
    tree.power(PF, "suspended")
    assert pci.look(PF).answers
    tree.power(PF, "active")
    assert not pci.look(PF).answers


def test_a_function_that_is_not_there(tree: SysfsTree) -> None:
    """Unplugged, or never there."""

    tree.remove(VF)

    assert PciHealth(tree.root).look(VF) == PciHealth(tree.root).look("0000:99:00.0") == ABSENT


def test_each_bind_of_a_driver_is_another(tree: SysfsTree) -> None:
    """Also where it was never seen without; and none is none."""

    pci = PciHealth(tree.root)
    before = pci.look(PF)
    folder = tree.folder(PF)
    (folder / "driver").rename(tree.root / "former")
    bare = pci.look(PF)
    tree.bind(folder, "mlx5_core")
    after = pci.look(PF)

    assert (bare.driver, bare.binding) == ("", 0)
    assert before.driver == after.driver
    assert len({before.binding, after.binding, 0}) == 3
