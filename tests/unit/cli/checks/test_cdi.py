"""Who depends on CDI, and what is said where it is off."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from berth.cli.checks.machine import Machine
from berth.cli.checks.nri import check_runtime
from berth.cli.outlook import Gear
from berth.config.load import load
from berth.config.schema import Config
from berth.host.hardware import PciFunction
from tests.unit.cli.checks.tree import plant, told

FILE = "/etc/containerd/config.toml"
TABLE = '[plugins."io.containerd.cri.v1.runtime"]'
OFF = {FILE: f"version = 3\n{TABLE}\nenable_cdi = false\n", "/etc/cdi/": "", "/var/run/cdi/": ""}
AWAY = {FILE: f'version = 3\n{TABLE}\ncdi_spec_dirs = ["/etc/cdi"]\n', "/etc/cdi/": ""}
GPU = PciFunction(address="0000:3b:00.0", class_code=0x030200, vendor="10de", driver="nvidia")
MODEM = '[[generic]]\nname = "modem"\nmatch = { path = "/dev/ttyUSB*" }\n'
NIC = '[[nic.group]]\nname = "lab"\nmatch = { name = ["nic0"] }\n'
NO_CLAIMS = "[dra]\nenabled = false\n"
TOOL = {"/usr/local/bin/nvidia-ctk": ""}
GROUP = '[[gpu.group]]\nname = "g"\nmatch = { pci = ["0000:3b:00.0"] }\n'


def machine_with(root: Path, text: str, files: dict[str, str], *, gpus: bool) -> Machine:
    """A machine whose runtime is configured so."""
    gear = Gear(functions=(GPU,) if gpus else ())
    plant(root, files | {"/agent.toml": text})
    return Machine(config=load(root / "agent.toml"), root=root, gear=gear)


@pytest.mark.parametrize(
    ("text", "gpus", "users"),
    [
        ("", True, "[gpu]"),
        (NIC, False, "[[nic.group]]"),
        (MODEM, False, '[[generic]] 1 "modem"'),
        (f"{MODEM}door = 'both'\n{NIC}", True, '[[nic.group]], [gpu], [[generic]] 1 "modem"'),
        (f"{MODEM}door = 'plugin'\ninject = 'cdi'\n", False, '[[generic]] 1 "modem"'),
        (f"[gpu]\ndoor = 'plugin'\n{GROUP}door = 'dra'\n", True, "[gpu]"),
        (f"[gpu]\ndoor = 'plugin'\n{GROUP}inject = 'cdi'\n", True, "[gpu]"),
        (f"{NO_CLAIMS}[gpu]\ndoor = 'both'\n{GROUP}inject = 'cdi'\n", True, "[gpu]"),
    ],
)
def test_tables_that_depend_on_cdi_are_named(
    tmp_path: Path, text: str, gpus: bool, users: str
) -> None:
    """With file and key, whichever of the two things is wrong."""

    off = machine_with(tmp_path / "off", text, OFF, gpus=gpus)
    away = machine_with(tmp_path / "away", text, AWAY, gpus=gpus)

    assert told(check_runtime(off))[0] == (
        "fault",
        f"{FILE}: {TABLE} enable_cdi is false: containers start without the devices of {users}",
    )
    assert told(check_runtime(away)) == [
        (
            "fault",
            (
                f"{FILE}: {TABLE} cdi_spec_dirs lacks /var/run/cdi, "
                f"where the files for {users} are written"
            ),
        )
    ]


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        ("", False),
        ("[gpu]\nenabled = false\n", True),
        ("[gpu]\ndoor = 'plugin'\n", True),
        (f"{MODEM}door = 'plugin'\n", False),
        (f"{NO_CLAIMS}{NIC}{MODEM}", True),
    ],
)
def test_off_is_no_fault_where_no_device_needs_it(tmp_path: Path, text: str, gpus: bool) -> None:
    """Device specs of the device plugin do without; it is said all the same."""

    off = machine_with(tmp_path / "off", text, OFF, gpus=gpus)
    away = machine_with(tmp_path / "away", text, AWAY, gpus=gpus)

    (level, said), *_ = told(check_runtime(off))
    assert (level, said.partition(": no ")[2]) == ("note", "device that is configured needs it")
    assert [level for level, _ in told(check_runtime(away))] == ["note"]


@pytest.mark.parametrize(("source", "level"), [("auto", "fault"), ("builtin", "note")])
def test_hooks_of_nvidias_tool_need_cdi(tmp_path: Path, source: str, level: str) -> None:
    """Where it is installed and used, the device plugin gives GPUs by CDI too."""

    text = f"[gpu]\ndoor = 'plugin'\ncdi = {{ source = '{source}' }}\n"
    machine = machine_with(tmp_path, text, OFF | TOOL, gpus=True)

    assert told(check_runtime(machine))[0][0] == level


def test_gpus_that_nobody_could_look_for_may_be_there(tmp_path: Path) -> None:
    """Rather a word too much than a pod without its GPU."""

    machine = attrs.evolve(
        Machine(config=Config(), root=plant(tmp_path, OFF)), gear=None, gear_fault="x"
    )

    assert told(check_runtime(machine))[0][0] == "fault"
