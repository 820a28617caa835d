"""Which links the host's network managers are told to leave alone: a file's name for each. Pure.

What is marked is berth's to lend out: NICs of groups that move them or bind them to vfio-pci. Not
marked is what the host needs itself, shared parents among them: its manager may go on there.

A PCI function is marked by its address, which it has before any link and after every move. What has
none is marked by its link's index, and so is a function with a port that is none of ours.

Nothing is marked anew as long as no uplink is known: at boot any NIC may be the one that its
manager is about to configure, and the node would be cut off. What was marked before stays so.

Source: network.md §8.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from berth.model.device import Nic, NicMode
from berth.model.inventory import Inventory

_HOSTS: Final = frozenset(
    {
        "ambiguous",
        "enslaved",
        "has-children",
        "has-vfs",
        "in-use-by-host",
        "loopback",
        "netns-immovable",
        "not-selected",
        "overlap",
        "unsupported",
        "uplink",
        "wireless",
    }
)
# Reasons for which a NIC that nobody holds stays with the host.

_BY_INDEX: Final = "ifindex-"


def is_lent(nic: Nic) -> bool:
    """Whether a NIC is berth's to lend out, at home or away."""
    if nic.mode is NicMode.SHARED or not nic.group:
        return False
    return bool(nic.held_by) or nic.exclusion is None or nic.exclusion.reason not in _HOSTS


def mark_of_index(index: int) -> str:
    """The mark of a link that no PCI function stands for."""
    return f"{_BY_INDEX}{index}"


def index_of(mark: str) -> int | None:
    """The index that a mark names; ``None`` for one that names a function, and lasts."""
    index = mark.removeprefix(_BY_INDEX)
    return int(index) if index != mark and index.isdigit() else None


def marks(inventory: Inventory, standing: Collection[str]) -> frozenset[str]:
    """The marks that are due.

    Args:
        standing: Those that are there.
    """
    due = frozenset(_marks(inventory))
    if not inventory.has_uplink:
        due &= frozenset(standing)
    # A function that is not in the machine now, as a VF before its PF has it made, may come yet.
    seen = {nic.pci for nic in inventory.nics}
    return due | {mark for mark in standing if index_of(mark) is None and mark not in seen}


def _marks(inventory: Inventory) -> Iterator[str]:
    hosts = {nic.pci for nic in inventory.nics if not is_lent(nic)}
    for nic in inventory.nics:
        if not is_lent(nic):
            continue
        if nic.pci and nic.pci not in hosts:
            yield nic.pci
        elif index := _index(nic):
            yield mark_of_index(index)


def _index(nic: Nic) -> int:
    """Index of the link at home; of a virtual one also while it is away."""
    kind, _, rest = nic.identity.partition(":")
    kept = rest.rpartition(":")[2]
    return int(kept) if kind == "link" and kept.isdigit() else nic.ifindex
