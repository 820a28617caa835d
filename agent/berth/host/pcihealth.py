"""How a PCI function is: whether it is there and answers, what has it, and the errors of its link.

Everything is read from sysfs and blocks: for worker threads. No driver is asked, but the first
bytes of the configuration space come from the function itself.

A function that sleeps is not woken for that: the kernel would power it up at each look. A virtual
function reads ``ffff`` as its vendor at all times, so only a head that is ``ff`` throughout says
that nothing answers.

Source: Linux ``Documentation/ABI/testing/sysfs-bus-pci-devices-aer_stats``,
``Documentation/power/runtime_pm.rst`` (``runtime_status``), ``drivers/pci/pci-sysfs.c``
(``pci_read_config``), ``Documentation/ABI/stable/sysfs-class-infiniband`` (``ports/<n>/state``),
``fs/kernfs`` (inode numbers); PCI Express Base 6.0 §9.3.4.1.1 for virtual functions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import attrs

from berth.host.sysfiles import link_name, names, text

HEAD_BYTES: Final = 64
"""What anybody may read of a configuration space; the rest needs CAP_SYS_ADMIN."""

_SILENCE: Final = b"\xff" * HEAD_BYTES
_ASLEEP: Final = frozenset({"suspended", "suspending"})
_TOTAL: Final = re.compile(r"^TOTAL_ERR_\w+ (\d+)$", re.MULTILINE)
_STATE: Final = re.compile(r"\d+: ([A-Z_]+)")


@attrs.frozen(kw_only=True)
class FunctionSight:
    """One function at one moment.

    Attributes:
        present: The kernel lists it.
        answers: Something answers for it; true too where it sleeps or may not be asked.
        driver: What has it; empty for none.
        binding: Differs from one bind of a driver to the next; 0 without a driver.
        fatal: Uncorrectable errors that broke its link, since it appeared; ``None`` where the
            kernel does not count them.
        nonfatal: The same of those that the link survived.
        physfn: Address of the PF that it is a VF of; empty for others.
        ports: State of each port of the RDMA devices on it, as ``ACTIVE``, by device and number.
    """

    present: bool = True
    answers: bool = True
    driver: str = ""
    binding: int = 0
    fatal: int | None = None
    nonfatal: int | None = None
    physfn: str = ""
    ports: Mapping[str, str] = attrs.field(factory=dict)

    @property
    def is_gone(self) -> bool:
        """Nobody is there who could answer."""
        return not (self.present and self.answers)

    @property
    def rdma(self) -> frozenset[str]:
        """Names of the RDMA devices on it."""
        return frozenset(port.partition("/")[0] for port in self.ports)


ABSENT: Final = FunctionSight(present=False, answers=False)
"""A function that is not in the machine."""


class PciHealth:
    """Reads the functions of one sysfs tree.

    Args:
        root: Where it is mounted; tests give a tree of files.
    """

    def __init__(self, root: Path = Path("/sys")) -> None:
        self._pci = root / "bus/pci/devices"

    def look(self, address: str) -> FunctionSight:
        """Look at one function; what cannot be read of one that is there is not known."""
        folder = self._pci / address
        if not folder.exists():
            return ABSENT
        return FunctionSight(
            answers=_answers(folder),
            driver=link_name(folder / "driver"),
            binding=_inode(folder / "driver"),
            fatal=_count(folder / "aer_dev_fatal"),
            nonfatal=_count(folder / "aer_dev_nonfatal"),
            physfn=link_name(folder / "physfn"),
            ports=_ports(folder / "infiniband"),
        )

    def physfn(self, address: str) -> str:
        """Address of the PF of a virtual function; empty for others."""
        return link_name(self._pci / address / "physfn")


def _answers(folder: Path) -> bool:
    if text(folder / "power/runtime_status") in _ASLEEP:
        return True
    try:
        with (folder / "config").open("rb", buffering=0) as config:
            head = config.read(HEAD_BYTES) or b""
    except OSError:
        return True
    return head != _SILENCE


def _count(path: Path) -> int | None:
    found = _TOTAL.search(text(path))
    return int(found[1]) if found is not None else None


def _ports(folder: Path) -> dict[str, str]:
    """The state of each port; a device without any is told as one port without a state."""
    states: dict[str, str] = {}
    for device in sorted(names(folder)):
        numbers = sorted(names(folder / device / "ports"))
        for number in numbers or ["0"]:
            found = _STATE.match(text(folder / device / "ports" / number / "state"))
            states[f"{device}/{number}"] = found[1] if found is not None else ""
    return states


def _inode(path: Path) -> int:
    try:
        return path.lstat().st_ino
    except OSError:
        return 0
