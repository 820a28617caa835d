"""The answer to ``topology``: what each container has of CPUs, memory and devices, and where.

Kubelet says who has what, at both doors and from all drivers; `Layout` knows where that is.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar

from berth.errors import ConfigError
from berth.model.device import Nic
from berth.model.inventory import Inventory
from berth.model.peripheral import Peripheral
from berth.model.provision import ContainerProvision, MemoryBlock, PodProvision
from berth.node.views.alignment import (
    Thing,
    cpu_things,
    memory_things,
    numa_verdict,
    pcie_verdict,
)
from berth.node.views.devices import device_entry, peripheral_entry
from berth.node.views.layout import Layout, Place

T = TypeVar("T")

_KEPT: Final = ("name", "kind", "group", "ifname", "path", "pci", "offered", "held_by")


def topology_view(layout: Layout, pod: str = "") -> dict[str, Any]:
    """The whole node, and its pods or the one that is asked about.

    Args:
        pod: ``name`` or ``namespace/name``; empty for all.

    Raises:
        ConfigError: There is no such active pod.
    """
    every = [_pod(one, layout) for one in layout.pods]
    ours = list(_ours(layout, every))
    devices = [*ours, *_others(every, besides={entry["pci"] for entry in ours})]
    # What is below no root comes last.
    devices.sort(key=lambda entry: (entry["pcie_root"] or "~", entry["pci"], entry["name"]))
    shown = [one for one in every if pod in {"", one["name"], f"{one['namespace']}/{one['name']}"}]
    if pod and not shown:
        raise ConfigError(
            f"pod {pod}",
            "is none of this node's active pods",
            mend="`berth topology` shows those that kubelet lists",
        )
    return {
        "node": layout.node,
        "numa": [
            {"id": node.id, "cpus": list(node.cpus), "memory_bytes": node.memory_bytes}
            for node in layout.numa
        ],
        "devices": devices,
        "pods": sorted(shown, key=lambda one: (one["namespace"], one["name"])),
        "warnings": list(layout.warnings),
    }


def _ours(layout: Layout, pods: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """What our inventory has, with the containers that have it, by whomever they were given it.

    Links of no hardware that nobody offers or has are left out: a node has one for each pod.
    """
    holders, others = _holders(pods, _key), _holders(pods, _address)
    for one in layout.inventory.every:
        entry = _entry(one, layout.inventory)
        place = layout.place_of(one.name)
        pci = place.pci or entry["pci"]
        containers = sorted(
            {*holders.get(("", one.name), ()), *(others.get(pci, ()) if pci else ())}
        )
        if pci or entry["offered"] or entry["held_by"] or containers:
            yield {
                **{key: entry[key] for key in _KEPT},
                "pci": pci,
                "numa": list(place.numa),
                "pcie_root": place.root,
                "ours": True,
                "containers": containers,
            }


def _others(
    pods: Iterable[Mapping[str, Any]], *, besides: Container[str]
) -> Iterator[dict[str, Any]]:
    """Devices of other plugins and drivers that a container has; of free ones nobody tells.

    Args:
        besides: PCI addresses of what our inventory has.
    """
    pods = tuple(pods)
    holders = _holders(pods, _key)
    entries = {_key(each): each for _, each in _given(pods) if not each["ours"]}
    for key, each in entries.items():
        if each["pci"] and each["pci"] in besides:
            continue
        yield {
            "name": each["name"],
            "kind": each["kind"],
            "group": "",
            "ifname": "",
            "path": "",
            "pci": each["pci"],
            "offered": False,
            "held_by": [],
            "numa": each["numa"],
            "pcie_root": each["pcie_root"],
            "ours": False,
            "containers": holders[key],
        }


def _given(pods: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for pod in pods:
        for container in pod["containers"]:
            where = f"{pod['namespace']}/{pod['name']}/{container['name']}"
            yield from ((where, device) for device in container["devices"])


def _key(device: Mapping[str, Any]) -> tuple[str, str]:
    """What a device is known by: of ours the name alone, however it was asked for."""
    return "" if device["ours"] else device["kind"], device["name"]


def _address(device: Mapping[str, Any]) -> str:
    """Where another plugin's device is on the PCI bus; empty for others."""
    return "" if device["ours"] else device["pci"]


def _holders(
    pods: Iterable[Mapping[str, Any]], key: Callable[[Mapping[str, Any]], T]
) -> dict[T, list[str]]:
    """Containers by what they have."""
    found: dict[T, set[str]] = {}
    for where, device in _given(pods):
        found.setdefault(key(device), set()).add(where)
    return {each: sorted(names) for each, names in found.items()}


def _entry(one: Peripheral | Nic, inventory: Inventory) -> dict[str, Any]:
    if isinstance(one, Nic):
        return device_entry(one, inventory)
    return peripheral_entry(one, inventory)


def _pod(pod: PodProvision, layout: Layout) -> dict[str, Any]:
    """A pod; what its containers have of it alone is not in the pool that the others share."""
    own = {cpu for container in pod.containers for cpu in container.cpus}
    pool = tuple(sorted(set(pod.cpus) - own))
    containers = [_container(one, pod, pool, layout) for one in pod.containers]
    things = [
        *cpu_things({*pod.cpus, *own}, layout.numa),
        *memory_things(pod.memory or [b for c in pod.containers for b in c.memory]),
        *(_thing(device) for container in containers for device in container["devices"]),
    ]
    return {
        "namespace": pod.namespace,
        "name": pod.name,
        "cpus": list(pod.cpus),
        "memory": _memory(pod.memory),
        "containers": containers,
        **_verdicts(things),
    }


def _container(
    container: ContainerProvision, pod: PodProvision, pool: tuple[int, ...], layout: Layout
) -> dict[str, Any]:
    cpus, memory = container.cpus or pool, container.memory or pod.memory
    devices = [*_units(container, layout), *_claims(container, layout)]
    things = [*cpu_things(cpus, layout.numa), *memory_things(memory), *map(_thing, devices)]
    return {
        "name": container.container.container,
        "cpus": list(cpus),
        "cpus_of": _owner(container.cpus, pool),
        "memory": _memory(memory),
        "memory_of": _owner(container.memory, pod.memory),
        "devices": devices,
        **_verdicts(things),
    }


def _owner(own: tuple[object, ...], pods: tuple[object, ...]) -> str:
    return "container" if own else "pod" if pods else "node"


def _verdicts(things: list[Thing]) -> dict[str, Any]:
    return {"numa": numa_verdict(things), "pcie": pcie_verdict(things)}


def _memory(blocks: Iterable[MemoryBlock]) -> list[dict[str, Any]]:
    return [
        {"type": block.type, "bytes": block.size_bytes, "numa": list(block.numa)}
        for block in blocks
    ]


def _units(container: ContainerProvision, layout: Layout) -> list[dict[str, Any]]:
    """What it has of resources; shares of one device of ours are one entry."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for block in container.units:
        for id_ in block.ids:
            ours = layout.device_by_unit.get((block.resource, id_))
            name = ours or id_
            place = layout.place_of(name) if ours else layout.place_at(id_, numa=block.numa)
            fresh = _device(name, place, ours=bool(ours), resource=block.resource)
            found.setdefault((block.resource, name), fresh)["ids"].append(id_)
    return list(found.values())


def _claims(container: ContainerProvision, layout: Layout) -> Iterator[dict[str, Any]]:
    """What it has of claims; where another driver's devices are, kubelet does not say."""
    for claim in container.claims:
        ours = claim.driver == layout.driver
        name = claim.device if ours else f"{claim.pool}/{claim.device}"
        place = layout.place_of(claim.device) if ours else layout.place_at("")
        entry = _device(name, place, ours=ours, driver=claim.driver)
        yield {**entry, "claim": f"{claim.namespace}/{claim.name}", "share": claim.share_id}


def _device(
    name: str, place: Place, *, ours: bool, resource: str = "", driver: str = ""
) -> dict[str, Any]:
    return {
        "name": name,
        "ours": ours,
        "kind": resource or driver,
        "door": "plugin" if resource else "dra",
        "resource": resource,
        "ids": [],
        "driver": driver,
        "claim": "",
        "share": "",
        "pci": place.pci,
        "numa": list(place.numa),
        "pcie_root": place.root,
    }


def _thing(device: Mapping[str, Any]) -> Thing:
    return Thing(label=device["name"], numa=tuple(device["numa"]), root=device["pcie_root"])
