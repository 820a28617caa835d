"""Which GPUs are near to each other by NVLink, and by how many links.

A link leads to another GPU, or to a switch. What is no GPU of this machine is taken for a switch,
and GPUs that lead to the same one are near to each other by as many links as the one with fewer has
to it. So all that hang on the same switches are equally near, and of bridged cards the partners
alone are.

A GPU that did not tell its links is near to those that told of it. A divided GPU has no links,
since the driver turns them off in MIG mode; neither has one that is passed through.

Source: GH §1.1 (calls), §5.1 (what it is for). That an address which no bus can have stands for a
switch outside of the machine is taken from the form of such systems and was not seen; it is left
out, as nothing says which GPUs share that switch.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

import attrs

from berth.model.peripheral import Peripheral

_ADDRESS: Final = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:([0-9a-f]{2})\.[0-7]")


def linked(
    peripherals: Iterable[Peripheral], remotes: Mapping[str, Iterable[str]]
) -> tuple[Peripheral, ...]:
    """Give the peripherals with what is known of the links between whole GPUs.

    Args:
        remotes: PCI addresses at the other ends of a GPU's links, one for each, by its own address.
    """
    peripherals = tuple(peripherals)
    names = {one.path: one.name for one in peripherals if _is_whole(one)}
    if not remotes or len(names) < 2:
        return peripherals
    between = links_between(remotes, names, others={one.path for one in peripherals})
    return tuple(
        attrs.evolve(one, links={names[to]: count for to, count in between[one.path].items()})
        if _is_whole(one) and between[one.path]
        else one
        for one in peripherals
    )


def links_between(
    remotes: Mapping[str, Iterable[str]], gpus: Collection[str], *, others: Collection[str] = ()
) -> Mapping[str, Mapping[str, int]]:
    """Give how many links each GPU has with each other, by their addresses.

    Args:
        remotes: Addresses at the other ends of a GPU's links, one for each, by its own address.
        gpus: Addresses of the GPUs that it is about; links of others count for nothing.
        others: Addresses of more that are no switches.
    """
    ends = {gpu: Counter(remotes.get(gpu, ())) for gpu in sorted(gpus)}
    known = {*remotes, *gpus, *others}
    return {
        gpu: {
            other: count
            for other in ends
            if other != gpu and (count := _count(gpu, other, ends, known))
        }
        for gpu in ends
    }


def _count(gpu: str, other: str, ends: Mapping[str, Counter[str]], known: Collection[str]) -> int:
    direct = max(ends[gpu][other], ends[other][gpu])
    return direct + sum(min(ends[gpu][hub], ends[other][hub]) for hub in _hubs(ends[gpu], known))


def _hubs(ends: Iterable[str], known: Collection[str]) -> Iterator[str]:
    return (end for end in ends if end not in known and _is_address(end))


def _is_address(address: str) -> bool:
    """Whether a bus can have it: there are 32 devices on one, and the first is the host's own."""
    found = _ADDRESS.fullmatch(address)
    return found is not None and int(found[1], 16) < 32 and not address.endswith(":00:00.0")


def _is_whole(one: Peripheral) -> bool:
    return one.type == "gpu" and one.exclusion is None
