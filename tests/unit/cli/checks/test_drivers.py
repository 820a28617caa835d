"""Versions of drivers; NVIDIA's file as driver 580 writes it."""

from __future__ import annotations

from pathlib import Path

from berth.cli.checks.drivers import NVIDIA_VERSION, check_nics, check_nvidia
from berth.cli.checks.machine import Machine
from berth.config.gpu import GpuTable
from berth.config.nic import NicTable
from berth.config.schema import Config
from tests.unit.cli.checks.tree import plant, told
from tests.unit.nic.machine import Machine as Host
from tests.unit.nic.machine import group

NVRM = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build  "
    "(dvs-builder@U22-I3-AM24-02-1)  Sun Jul 27 07:07:24 UTC 2025\n"
    "GCC version:  gcc version 12.3.0 (Ubuntu 12.3.0-1ubuntu1~22.04)\n"
)
LIBRARY = "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so"


def test_nvidia_whose_parts_fit(tmp_path: Path) -> None:
    """One version of both parts is well."""

    files = {NVIDIA_VERSION: NVRM, f"{LIBRARY}.580.65.06": "", f"{LIBRARY}.1": ""}

    assert told(check_nvidia(Machine(config=Config(), root=plant(tmp_path, files)))) == [
        ("ok", "nvidia 580.65.06")
    ]


def test_nvidia_after_an_upgrade_without_a_reboot(tmp_path: Path) -> None:
    """The new library does not speak to the old module."""

    files = {NVIDIA_VERSION: NVRM, f"{LIBRARY}.590.44.01": ""}
    (line,) = check_nvidia(Machine(config=Config(), root=plant(tmp_path, files)))

    assert line.level.value == "fault"
    assert line.text.startswith("NVIDIA's kernel module is 580.65.06, its library 590.44.01: ")


def test_nvidia_without_library_or_module(tmp_path: Path) -> None:
    """A library in a place of its own is no fault; without the module there is nothing to say."""

    root = plant(tmp_path, {NVIDIA_VERSION: NVRM})

    assert told(check_nvidia(Machine(config=Config(), root=root))) == [
        ("ok", "nvidia 580.65.06; its library was not found")
    ]
    assert told(check_nvidia(Machine(config=Config(), root=tmp_path / "none"))) == []
    off = Config(gpu=GpuTable(enabled=False))
    assert told(check_nvidia(Machine(config=off, root=root))) == []


def test_drivers_of_nics(tmp_path: Path) -> None:
    """A driver from elsewhere tells its version, one of the kernel has the kernel's."""

    host = Host(tmp_path / "host")
    host.tree.function("0000:42:00.0", driver="igb")
    for name, address in (("a0", "0000:41:00.0"), ("a1", "0000:41:00.1"), ("b0", "0000:42:00.0")):
        host.nic(name, address)
    config = Config(nic=NicTable(groups=(group("fast", driver=("mlx5_core", "igb")),)))
    root = plant(tmp_path / "root", {"/sys/module/mlx5_core/version": "24.10-0.7.0\n"})
    machine = Machine(config=config, scan=host.scan(), root=root, kernel="6.12.0")

    assert told(check_nics(machine)) == [
        ("ok", "igb of kernel 6.12.0: 1 NIC"),
        ("ok", "mlx5_core 24.10-0.7.0: 2 NICs"),
    ]
