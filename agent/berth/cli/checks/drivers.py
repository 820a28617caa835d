"""Versions of the drivers whose devices are offered, and parts of one driver that do not fit.

Source: Linux ``Documentation/ABI/testing/sysfs-module`` (``version``, of modules that tell one);
NVIDIA's ``/proc/driver/nvidia/version``, as of 580.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from berth.cli.checks.line import Level, Line
from berth.cli.checks.machine import Machine
from berth.cli.wording import counted

TOPIC: Final = "drivers"

NVIDIA_VERSION: Final = "/proc/driver/nvidia/version"

_LIBRARIES: Final = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64")
_NUMBER: Final = re.compile(r"\b(\d{3,}\.\d+(?:\.\d+)?)\b")


def check_nvidia(machine: Machine) -> Iterator[Line]:
    """NVIDIA's driver, and whether the library that asks it is of the same version."""
    found = _NUMBER.search(machine.read(NVIDIA_VERSION) or "")
    if found is None or not machine.config.gpu.enabled:
        return
    loaded, libraries = found[1], _libraries(machine)
    if libraries and loaded not in libraries:
        yield Line(
            topic=TOPIC,
            level=Level.FAULT,
            text=f"NVIDIA's kernel module is {loaded}, its library {' and '.join(libraries)}: "
            "the driver answers no question, and no GPU is offered",
            mend="load the new module, by rmmod and modprobe nvidia or a reboot",
        )
        return
    text = f"nvidia {loaded}" + ("" if libraries else "; its library was not found")
    yield Line(topic=TOPIC, level=Level.OK, text=text)


def check_nics(machine: Machine) -> Iterator[Line]:
    """The drivers of the NICs that groups take; those of the kernel's own tell no version."""
    nics = [nic for nic in machine.inventory.nics if nic.group and nic.pci and nic.driver]
    for driver in sorted({nic.driver for nic in nics}):
        count = counted(sum(nic.driver == driver for nic in nics), "NIC")
        version = (machine.read(f"/sys/module/{driver}/version") or "").strip()
        said = version or f"of kernel {machine.kernel}"
        yield Line(topic=TOPIC, level=Level.OK, text=f"{driver} {said}: {count}")


def _libraries(machine: Machine) -> list[str]:
    """Versions of the library by which the driver is asked, by the names of its files."""
    files = [f for folder in _LIBRARIES for f in machine.files(folder, "libnvidia-ml.so.*.*")]
    return sorted({match[1] for file in files if (match := _NUMBER.search(file))})
