"""Files of the NVIDIA driver, in trees like those of machines."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from berth.host.nvidiafiles import FunctionFiles, HostNode, Library, NodeFacts, NvidiaFiles
from berth.model.edits import NodeType

VERSION = "580.65.06"
ADDRESS = "0000:3b:00.0"


def write(path: Path, text: str = "") -> None:
    """A file, with its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def link(path: Path, target: str) -> None:
    """A symbolic link, with its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)


def status(path: Path) -> os.stat_result:
    """What the kernel would say if files that begin with ``node`` were device nodes."""
    real = path.stat()
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    if not text.startswith("node "):
        return real
    _, kind, major, minor = text.split()
    values = list(real)
    values[0] = {"c": stat.S_IFCHR, "b": stat.S_IFBLK}[kind] | 0o666
    return os.stat_result(values, {"st_rdev": os.makedev(int(major), int(minor))})


def read(root: Path, *addresses: str, version: str = VERSION) -> NodeFacts:
    """The facts of a tree."""
    files = NvidiaFiles(root, status=status, machine="x86_64")
    return files.read(version=version, addresses=addresses)


def test_empty_tree_says_nothing(tmp_path: Path) -> None:
    """A machine without the driver is no fault."""

    facts = read(tmp_path, ADDRESS)

    assert facts == NodeFacts(multiarch="x86_64-linux-gnu", functions={ADDRESS: FunctionFiles()})


def test_numbers_are_read_as_they_are_now(tmp_path: Path) -> None:
    """Majors of character devices alone, nodes by stat, capabilities by the files that are."""

    write(
        tmp_path / "proc/devices",
        "Character devices:\n  1 mem\n195 nvidia\n509 nvidia-caps\n511 nvidia-uvm\n\n"
        "Block devices:\n511 nvidia-uvm-no\n",
    )
    write(tmp_path / "sys/module/nvidia/version", "580.65.06\n")
    write(tmp_path / "dev/nvidia0", "node c 195 0")
    write(tmp_path / "dev/nvidia-caps/nvidia-cap2", "node c 509 2")
    write(tmp_path / "dev/nvidiactl", "no node")
    caps = tmp_path / "proc/driver/nvidia"
    write(
        tmp_path / "proc/driver/nvidia-caps/mig-minors", "config 1\nmonitor 2\ngpu0/gi0/access 3\n"
    )
    write(caps / "capabilities/gpu0/mig/gi0/access", "DeviceFileMinor: 30\nDeviceFileMode: 292\n")
    write(caps / "capabilities/gpu0/mig/gi0/ci0/access", "DeviceFileMinor: 31\n")

    facts = read(tmp_path)

    assert facts.module == VERSION
    assert facts.majors == {"mem": 1, "nvidia": 195, "nvidia-caps": 509, "nvidia-uvm": 511}
    assert facts.nodes["/dev/nvidia0"] == HostNode(
        path="/dev/nvidia0",
        type=NodeType.CHAR,
        major=195,
        minor=0,
        mode=0o666,
        uid=os.getuid(),
        gid=os.getgid(),
    )
    assert facts.nodes.keys() == {"/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap2"}
    assert facts.capabilities == {
        "config": 1,
        "monitor": 2,
        "gpu0/gi0/access": 30,
        "gpu0/gi0/ci0/access": 31,
    }


def debian(root: Path) -> str:
    """Libraries behind alternatives, as Debian's own packages lay them."""
    folder = "/usr/lib/x86_64-linux-gnu/nvidia/current"
    link(root / "usr/lib/x86_64-linux-gnu/libcuda.so.1", "/etc/alternatives/glx--libcuda.so.1")
    link(root / "etc/alternatives/glx--libcuda.so.1", f"{folder}/libcuda.so.1")
    return folder


def fedora(root: Path) -> str:
    """Libraries right in the folder of 64 bits."""
    return "/usr/lib64"


@pytest.mark.parametrize("layout", [debian, fedora])
def test_libraries_of_the_driver_are_found(tmp_path: Path, layout: Callable[[Path], str]) -> None:
    """Those of its version, beside the one that ``libcuda.so.1`` leads to, with their links."""

    folder = layout(tmp_path)
    here = tmp_path / folder.lstrip("/")
    for name in (
        f"libcuda.so.{VERSION}",
        f"libnvidia-ml.so.{VERSION}",
        "libc.so.6",
        "libcuda.so.5",
    ):
        write(here / name)
    link(here / "libcuda.so.1", f"libcuda.so.{VERSION}")
    link(here / "libcuda.so", "libcuda.so.1")
    link(here / "libother.so.1", "libc.so.6")
    link(here / "libloop.so.1", "libloop.so.1")
    write(tmp_path / "usr/bin/nvidia-smi")

    facts = read(tmp_path)

    assert facts.libraries == (
        Library(
            path=f"{folder}/libcuda.so.{VERSION}",
            names=(f"libcuda.so.{VERSION}", "libcuda.so", "libcuda.so.1"),
        ),
        Library(path=f"{folder}/libnvidia-ml.so.{VERSION}", names=(f"libnvidia-ml.so.{VERSION}",)),
    )
    assert facts.extras == ("/usr/bin/nvidia-smi",)
    assert read(tmp_path, version="").libraries == ()


def test_files_of_a_function_are_read(tmp_path: Path) -> None:
    """Its largest prefetchable region, its name for VFIO and its nodes for graphics."""

    folder = tmp_path / f"sys/bus/pci/devices/{ADDRESS}"
    write(
        folder / "resource",
        "0x00000000f0000000 0x00000000f0ffffff 0x0000000000040200\n"
        "0x0000380000000000 0x0000381fffffffff 0x000000000014220c\n"
        "0x0000382000000000 0x0000382001ffffff 0x000000000014220c\nrubbish\n",
    )
    (folder / "vfio-dev/vfio3").mkdir(parents=True)
    for name in ("card1", "renderD128", "version"):
        (folder / "drm" / name).mkdir(parents=True)

    assert read(tmp_path, ADDRESS).functions[ADDRESS] == FunctionFiles(
        bar_bytes=2**37, vfio="vfio3", drm=("/dev/dri/card1", "/dev/dri/renderD128")
    )


def test_existing_paths_are_told(tmp_path: Path) -> None:
    """A link that leads nowhere is nothing."""

    write(tmp_path / "usr/bin/hook")
    link(tmp_path / "usr/bin/there", "/usr/bin/hook")
    link(tmp_path / "usr/bin/gone", "/usr/bin/nothing")

    files = NvidiaFiles(tmp_path)
    assert files.existing(["/usr/bin/hook", "/usr/bin/there", "/usr/bin/gone", "/x"]) == {
        "/usr/bin/hook",
        "/usr/bin/there",
    }


def test_real_nodes_are_read() -> None:
    """The kernel's own null device has the numbers that it has everywhere."""

    found = NvidiaFiles().node("/dev/null")

    assert found is not None
    assert (found.type, found.major, found.minor) == (NodeType.CHAR, 1, 3)
    assert NvidiaFiles().node("/dev") is None
