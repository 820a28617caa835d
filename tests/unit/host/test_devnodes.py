"""Device nodes read from trees: what is found, what is said of it, and that nothing is opened."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from berth.host import devnodes
from berth.host.nodefacts import DevNode, Oddity, UsbDevice, Wanted
from berth.model.edits import NodeType
from berth.model.pathglob import PathGlob
from tests.node_tree import NodeTree


@pytest.fixture
def tree(tmp_path: Path) -> NodeTree:
    """An empty machine with udev."""
    return NodeTree(tmp_path)


def _globs(*texts: str) -> Wanted:
    return Wanted(globs=tuple(PathGlob(text) for text in texts))


def test_serial_adapter_is_described_whole(tree: NodeTree) -> None:
    """Numbers, owner, sysfs, USB and PCI ancestors, udev's properties, links."""
    tree.controller()
    tree.tty("2", 0)
    tree.link("serial/by-id/usb-FTDI-if00-port0", "ttyUSB0")
    tree.properties("c188:0", ID_MODEL="FT232R", ID_PATH="pci-0000:00:14.0-usb-0:2:1.0")

    (node,) = tree.reader.read(_globs("/dev/ttyUSB*")).nodes

    assert node.pci is not None
    assert (node.pci.address, node.pci.numa_node, node.pci.pcie_root) == (
        "0000:00:14.0",
        1,
        "pci0000:00",
    )
    assert node == DevNode(
        path="/dev/ttyUSB0",
        type=NodeType.CHAR,
        major=188,
        minor=0,
        mode=0o660,
        uid=os.getuid(),
        gid=os.getgid(),
        links=("/dev/serial/by-id/usb-FTDI-if00-port0",),
        subsystem="tty",
        way="pci0000:00/0000:00:14.0/usb1/1-2/1-2:1.0/ttyUSB0/tty/ttyUSB0",
        part="ttyUSB",
        usb=UsbDevice(
            vendor="0403",
            product="6001",
            serial="A50285BI",
            name="FT232R USB UART",
            interface="00",
            place="pci-0000:00:14.0-usb-0:2:1.0",
        ),
        pci=node.pci,
        properties={"ID_MODEL": "FT232R", "ID_PATH": "pci-0000:00:14.0-usb-0:2:1.0"},
    )


def test_node_that_sysfs_does_not_know_is_plain(tree: NodeTree) -> None:
    """As those of NVIDIA's driver, or one that was made by hand."""
    tree.node("made/by-hand", "195:7", mode=0o600)

    (node,) = tree.reader.read(_globs("/dev/made/*")).nodes

    assert (node.path, node.mode, node.way, node.subsystem) == ("/dev/made/by-hand", 0o600, "", "")
    assert (node.usb, node.pci) == (None, None)


def test_block_device_is_told_as_one(tree: NodeTree) -> None:
    """Its part has no letter."""
    tree.device("pci0000:00/ata1/host0/block/sdb", "8:16", subsystem="block", block=True)

    (node,) = tree.reader.read(Wanted(subsystems=frozenset({"block"}))).nodes

    assert (node.path, node.type, node.part) == ("/dev/sdb", NodeType.BLOCK, "sd")


def test_only_what_is_wanted_is_looked_at(tree: NodeTree) -> None:
    """By path, subsystem, USB, PCI, or all of it."""
    tree.controller()
    tree.tty("2", 0)
    tree.device("virtual/misc/kvm", "10:232", subsystem="misc")
    tree.device("pci0000:00/0000:00:14.0/drm/card0", "226:0", subsystem="drm", name="dri/card0")

    def paths(wanted: Wanted) -> list[str]:
        return [node.path for node in tree.reader.read(wanted).nodes]

    assert paths(Wanted()) == []
    assert paths(_globs("/dev/kvm", "/dev/missing", "/dev/none/*")) == ["/dev/kvm"]
    assert paths(Wanted(subsystems=frozenset({"misc"}))) == ["/dev/kvm"]
    assert paths(Wanted(usb=True)) == ["/dev/ttyUSB0"]
    assert paths(Wanted(pci=True)) == ["/dev/dri/card0", "/dev/ttyUSB0"]
    assert paths(Wanted(everything=True)) == ["/dev/dri/card0", "/dev/kvm", "/dev/ttyUSB0"]


def test_node_whose_entry_is_gone_from_dev_is_left_out(tree: NodeTree) -> None:
    """Sysfs may know a device before its node is there, and after."""
    tree.device("virtual/misc/kvm", "10:232", subsystem="misc")
    (tree.dev / "kvm").unlink()

    assert tree.reader.read(Wanted(everything=True)).nodes == ()


def test_entry_of_sysfs_that_is_odd_is_left_out(tree: NodeTree) -> None:
    """One that leads nowhere, and one that leads out of the devices."""
    folder = tree.sys / "dev/char"
    folder.mkdir(parents=True)
    (folder / "1:1").symlink_to("../../devices/gone")
    (folder / "1:2").symlink_to("../..")
    tree.node("x", "1:1")

    assert tree.reader.read(Wanted(everything=True)).nodes == ()
    assert tree.reader.read(_globs("/dev/x")).nodes[0].way == ""


def test_link_is_a_name_of_its_node(tree: NodeTree) -> None:
    """Whichever way it is found, it is one node."""
    tree.node("ttyS0", "4:64")
    tree.link("modem", "ttyS0")

    (node,) = tree.reader.read(_globs("/dev/modem")).nodes
    (both,) = tree.reader.read(_globs("/dev/modem", "/dev/ttyS*")).nodes

    assert (node.path, node.links) == ("/dev/ttyS0", ("/dev/modem",))
    assert both == node


def test_two_nodes_of_one_device_are_one(tree: NodeTree) -> None:
    """A node that was made a second time is no second device."""
    tree.node("b", "10:232")
    tree.node("a", "10:232")

    (node,) = tree.reader.read(_globs("/dev/*")).nodes

    assert (node.path, node.links) == ("/dev/a", ("/dev/b",))


def test_link_out_of_dev_is_told_by_where_it_leads(tree: NodeTree, tmp_path: Path) -> None:
    """So that it can be refused."""
    outside = tree.node("../elsewhere/x", "1:3").resolve()
    tree.link("x", "../elsewhere/x")

    (node,) = tree.reader.read(_globs("/dev/x")).nodes
    (direct,) = tree.reader.read(_globs(f"{tmp_path}/elsewhere/*")).nodes

    assert (node.path, node.links, node.is_outside) == (str(outside), ("/dev/x",), True)
    assert (direct.path, direct.is_outside) == (str(outside), True)


def test_what_is_no_device_node_is_told(tree: NodeTree) -> None:
    """FIFOs, sockets, files, folders, and links to nothing; none of them is opened."""
    os.mkfifo(tree.dev / "fifo")
    (tree.dev / "file").touch()
    (tree.dev / "folder").mkdir()
    tree.link("dangling", "missing")
    tree.link("loop", "loop")

    scan = tree.reader.read(_globs("/dev/*"))

    assert scan.nodes == ()
    assert scan.oddities == (
        Oddity(path="/dev/dangling", found="is a link that leads to nothing"),
        Oddity(path="/dev/fifo", found="is a FIFO"),
        Oddity(path="/dev/file", found="is a regular file"),
        Oddity(path="/dev/folder", found="is a folder"),
        Oddity(path="/dev/loop", found="is a link that leads to nothing"),
    )


def test_name_of_odd_bytes_is_read(tree: NodeTree) -> None:
    """The kernel lets a node be called almost anything."""
    tree.node("a\udcff b\n*", "1:3")

    scan = tree.reader.read(_globs("/dev/a*"))

    assert [node.path for node in scan.nodes] == ["/dev/a\udcff b\n*"]
    assert tree.reader.look_at("/dev/a\udcff b\n*") == scan


def test_one_path_is_looked_at_as_it_is_called(tree: NodeTree) -> None:
    """Its signs mean nothing, a bare name lies in /dev."""
    tree.node("a[1]*", "1:3")
    tree.node("a1b", "1:5")

    assert [node.path for node in tree.reader.look_at("a[1]*").nodes] == ["/dev/a[1]*"]
    assert tree.reader.look_at("/dev/missing").nodes == ()


def test_attributes_are_read_upwards(tree: NodeTree) -> None:
    """The node's own first; only those that are asked for."""
    tree.controller()
    folder = tree.tty("2", 0)
    (folder / "level").write_text("own\n")
    (folder.parent.parent / "level").write_text("port\n")
    (folder / "folder").mkdir()
    wanted = Wanted(usb=True, attributes=("folder", "level", "missing", "serial"))

    (node,) = tree.reader.read(wanted).nodes

    assert node.attributes == {"level": ("own", "port"), "serial": ("A50285BI",)}


def test_part_tells_nodes_of_one_interface_apart(tree: NodeTree) -> None:
    """By their order within it, or the number of their port; never by the kernel's number."""
    tree.controller()
    camera = tree.usb("3", serial="", vendor="046d", product="0825")
    for number in (9, 10):
        tree.device(camera / f"video4linux/video{number}", f"81:{number}", subsystem="video4linux")
    adapter = tree.usb("4", serial="X")
    (adapter / "ttyUSB5/tty").mkdir(parents=True)
    (adapter / "ttyUSB5/port_number").write_text("3\n")
    tree.device(adapter / "ttyUSB5/tty/ttyUSB5", "188:5")

    parts = {node.path: node.part for node in tree.reader.read(Wanted(usb=True)).nodes}

    assert parts == {
        "/dev/ttyUSB5": "ttyUSB.3",
        "/dev/video9": "video",
        "/dev/video10": "video.1",
    }


def test_usb_device_on_no_pci_has_a_place(tree: NodeTree) -> None:
    """As on boards; the node of the whole device has no interface."""
    folder = tree.tree.usb("1.4", on="platform/fd500000.usb", bus=3).parent
    (folder / "idVendor").write_text("1D6B\n")
    (folder / "idProduct").write_text("0002\n")
    tree.device(folder / "node", "189:1", subsystem="usb", name="bus/usb/003/002")

    (node,) = tree.reader.read(Wanted(usb=True)).nodes

    assert node.usb == UsbDevice(
        vendor="1d6b", product="0002", place="platform-fd500000.usb-usb-0:1.4"
    )
    assert node.pci is None


def test_udev_that_does_not_run_gives_no_properties(tree: NodeTree) -> None:
    """That is told, since conditions on them cannot hold then."""
    (tree.udev / "control").unlink()
    tree.node("x", "1:3")

    scan = tree.reader.read(_globs("/dev/x"))

    assert not scan.udev
    assert scan.nodes[0].properties == {}


def test_file_of_udev_with_odd_bytes_is_read(tree: NodeTree) -> None:
    """A serial number is what a device's maker wrote."""
    tree.node("x", "1:3")
    (tree.udev / "data/c1:3").write_bytes(b"E:ID_SERIAL=a\xff=b\nE:\nE:X\nG:systemd\n\0E:Y=1\n")

    (node,) = tree.reader.read(_globs("/dev/x")).nodes

    assert node.properties == {"ID_SERIAL": "a\ufffd=b"}


@pytest.mark.parametrize("limit", ["NODES_LIMIT", "ENTRIES_LIMIT"])
def test_look_is_bounded(tree: NodeTree, monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    """A machine with too many nodes is looked at in part, and that is told."""
    monkeypatch.setattr(devnodes, limit, 2)
    for number in range(3):
        tree.node(f"x{number}", f"1:{number}")

    scan = tree.reader.read(_globs("/dev/x*"))

    assert len(scan.nodes) == 2
    assert scan.cut


def test_no_node_is_opened(tree: NodeTree) -> None:
    """To open one may wait for a carrier, wind a tape, or ring a modem."""
    tree.controller()
    tree.tty("2", 0)
    os.mkfifo(tree.dev / "ttyUSB9")
    tree.link("serial/by-id/x", "ttyUSB0")
    wanted = Wanted(globs=(PathGlob("/dev/*"),), everything=True, attributes=("serial", "dev"))

    with _opened() as opened:
        tree.reader.read(wanted)

    assert opened
    assert [path for path in opened if path.startswith(str(tree.dev))] == []


@contextmanager
def _opened() -> Iterator[list[str]]:
    """Paths of files that are opened meanwhile, as Python's audit tells them."""
    opened: list[str] = []
    listening = True

    def hear(event: str, arguments: tuple[object, ...]) -> None:
        if listening and event == "open":
            opened.append(str(arguments[0]))

    sys.addaudithook(hear)
    yield opened
    listening = False
