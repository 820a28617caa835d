"""Links are judged anew by a word in their file, wherever it lies."""

from __future__ import annotations

import socket
from pathlib import Path

from berth.host.udevtrigger import trigger_function, trigger_link

ADDRESS = "0000:41:00.0"


def _file(path: Path) -> Path:
    path.parent.mkdir(parents=True)
    path.touch()
    return path


def test_links_of_a_function(tmp_path: Path) -> None:
    """Every port, and what it has through virtio; no other function's."""

    devices = tmp_path / "bus/pci/devices"
    ports = [_file(devices / ADDRESS / "net" / name / "uevent") for name in ("a0", "a1")]
    virtio = _file(devices / ADDRESS / "virtio3/net/b0/uevent")
    other = _file(devices / "0000:42:00.0/net/c0/uevent")

    trigger_function(ADDRESS, root=tmp_path)

    assert [file.read_text() for file in (*ports, virtio, other)] == [*["change"] * 3, ""]


def test_link_of_an_index(tmp_path: Path) -> None:
    """Its name is asked of the kernel."""

    uevent = _file(tmp_path / "class/net/lo/uevent")

    trigger_link(socket.if_nametoindex("lo"), root=tmp_path)

    assert uevent.read_text() == "change"


def test_what_is_gone_is_left(tmp_path: Path) -> None:
    """No error, and no file is made."""

    trigger_function(ADDRESS, root=tmp_path)
    trigger_link(socket.if_nametoindex("lo"), root=tmp_path)
    trigger_link(2**31 - 1, root=tmp_path)

    assert list(tmp_path.iterdir()) == []
