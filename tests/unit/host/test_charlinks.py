"""Links to device nodes by their numbers, in a tree of a test's own."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from berth.host.charlinks import CharLinks
from berth.model.edits import DeviceNode, NodeType

NODE = DeviceNode(
    path="/dev/nvidia0", host_path="/dev/nvidia0", type=NodeType.CHAR, major=1, minor=3
)
CAP = attrs.evolve(NODE, host_path="/dev/nvidia-caps/nvidia-cap1", minor=5)
ABSENT = attrs.evolve(NODE, host_path="/dev/nvidia1")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A machine with two nodes, which are ``/dev/null`` and ``/dev/zero`` really."""
    (tmp_path / "dev/nvidia-caps").mkdir(parents=True)
    (tmp_path / "dev/nvidia0").symlink_to("/dev/null")
    (tmp_path / "dev/nvidia-caps/nvidia-cap1").symlink_to("/dev/zero")
    return tmp_path


def links(root: Path) -> dict[str, str]:
    """Every link that is there."""
    return {path.name: str(path.readlink()) for path in (root / "dev/char").iterdir()}


def test_nodes_get_links_as_udev_makes_them(root: Path) -> None:
    """Relative ones, in a folder that is made if it has to be."""

    assert CharLinks(root).make([NODE, CAP, NODE]) == ()

    assert links(root) == {"1:3": "../nvidia0", "1:5": "../nvidia-caps/nvidia-cap1"}


def test_right_link_is_left_alone(root: Path) -> None:
    """However it is written, and whoever made it."""

    (root / "dev/char").mkdir()
    (root / "dev/char/1:3").symlink_to("/dev/null")
    before = (root / "dev/char/1:3").lstat().st_ino

    assert CharLinks(root).make([NODE]) == ()
    assert (root / "dev/char/1:3").lstat().st_ino == before


@pytest.mark.parametrize("target", ["../nvidia7", "/dev/zero", "../nvidia-caps"])
def test_wrong_link_is_corrected(root: Path, target: str) -> None:
    """One that leads nowhere, to another node, or to what is no node; nothing is left over."""

    (root / "dev/char").mkdir()
    (root / "dev/char/1:3").symlink_to(target)

    assert CharLinks(root).make([NODE]) == ()
    assert links(root) == {"1:3": "../nvidia0"}


@pytest.mark.parametrize(
    "node", [ABSENT, attrs.evolve(NODE, minor=4), attrs.evolve(NODE, type=NodeType.BLOCK)]
)
def test_what_the_host_lacks_gets_no_link(root: Path, node: DeviceNode) -> None:
    """Nor what is another device there by now."""

    assert CharLinks(root).make([node]) == ()
    assert not (root / "dev/char").exists()


def test_what_is_no_link_stays(root: Path) -> None:
    """It is told, with what that means."""

    (root / "dev/char/1:3").mkdir(parents=True)
    (fault,) = CharLinks(root).make([NODE])

    assert (root / "dev/char/1:3").is_dir()
    assert str(fault).startswith(
        "/dev/char/1:3: no link to /dev/nvidia0 can be made: something that is no link lies there: "
        "containers lose that device when systemd is reloaded; make /dev/char writable"
    )


def test_one_reason_is_told_once(root: Path) -> None:
    """What cannot be written to cannot for all nodes."""

    (root / "dev/char").write_bytes(b"no folder")
    (fault,) = CharLinks(root).make([NODE, CAP])

    assert "no link to /dev/nvidia0 can be made" in str(fault)
    assert fault.errno
