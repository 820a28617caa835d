"""Whether each extended resource is of one sort: a pod that asks for it cannot say which it means.

Names may be written or follow from a group's, so two groups can come to one name without saying so.

Contract: GH §5.1; network.md §9.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import attrs

from berth.config.doors import Door
from berth.config.finding import Cursor, Steps
from berth.config.generic import GenericGroup
from berth.config.gpu import GpuGroup, GpuTable
from berth.config.gpumatch import GpuType
from berth.config.nicgroup import NicGroup
from berth.model.device import NicMode


@attrs.frozen(kw_only=True)
class _Offer:
    """What one group gives under a resource.

    Attributes:
        steps: The group's place.
        sort: What its devices are, in words.
        written: Whether the name stands in the group.
    """

    resource: str
    steps: Steps
    title: str
    sort: str
    written: bool


def check_resources(
    nics: Iterable[NicGroup],
    generic: Iterable[GenericGroup],
    gpus: GpuTable,
    cursor: Cursor,
    *,
    driver: str,
) -> None:
    """Note each resource under which groups give what a pod has to tell apart.

    Args:
        driver: Our driver's name, of which resources are made that no group names.
    """
    first: dict[str, _Offer] = {}
    for offer in (*_nics(nics, driver), *_generic(generic, driver), *_gpus(gpus)):
        known = first.setdefault(offer.resource, offer)
        if known.sort != offer.sort:
            place = cursor.at(*offer.steps, "resource" if offer.written else "name")
            place.say(
                f'makes the resource "{offer.resource}", as does {known.title}',
                rule=f"it would be of {known.sort} and of {offer.sort}",
                mend="choose another resource",
            )


def _nics(groups: Iterable[NicGroup], driver: str) -> Iterator[_Offer]:
    for number, group in enumerate(groups):
        if group.door is not Door.DRA and group.name:
            sort = f'NICs of mode "{group.mode.value}"'
            if group.mode is NicMode.EXCLUSIVE:
                sort += f' with attach "{group.attach.value}"'
            yield _Offer(
                resource=group.resource or f"{driver}/{group.name}",
                steps=("nic", "group", number),
                title=f'[[nic.group]] "{group.name}"',
                sort=sort,
                written=bool(group.resource),
            )


def _generic(groups: Iterable[GenericGroup], driver: str) -> Iterator[_Offer]:
    for number, group in enumerate(groups):
        if group.door is not Door.DRA and group.name:
            yield _Offer(
                resource=group.resource or f"{driver}/{group.name}",
                steps=("generic", number),
                title=f'[[generic]] "{group.name}"',
                sort="generic devices",
                written=bool(group.resource),
            )


def _gpus(table: GpuTable) -> Iterator[_Offer]:
    for number, group in enumerate(table.groups):
        if group.resource and (group.door or table.door) is not Door.DRA:
            yield _Offer(
                resource=group.resource,
                steps=("gpu", "group", number),
                title=f'[[gpu.group]] "{group.name}"',
                sort=_sort(group),
                written=True,
            )


def _sort(group: GpuGroup) -> str:
    """Whole GPUs and parts may be mixed by intent; functions of vfio-pci are no such GPUs."""
    return "GPUs of vfio-pci" if group.match.types == (GpuType.VFIO,) else "GPUs of NVIDIA's driver"
