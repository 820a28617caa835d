"""Is it so with devices that stay where they are? Slices, kubelet's counts, nodes and records.

Slices are read at the API server, counts at kubelet, nodes on the host and in the container,
records in their folder. What the daemon says of itself is compared with these.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs
import trio

from berth.control import ControlClient
from berth.errors import HostError, RemoteProtocolError
from berth.health.taints import TELLS
from berth.model.edits import DeviceNode
from berth.rehearsal.cdiedits import node_of_host
from berth.rehearsal.checks import attribute, holds
from berth.rehearsal.pods import Pod
from berth.rehearsal.stage import Stage
from berth.runtime.threads import run_in_thread

FREED_LIMIT_S: Final = 40.0
"""How long the daemon may take to see that nobody has what the plugin gave."""

_DOORS: Final = {"dra": "by claims", "plugin": "as {0}", "both": "by claims and as {0}"}


NO_NODES: Final[Mapping[str, str]] = {}


@attrs.frozen(kw_only=True)
class Offer:
    """A device as the daemon tells of it, and its node as the host has it.

    Attributes:
        type: Of the device, which is also the first part of its class's name.
        path: Of its node on the host.
        door: ``dra``, ``plugin`` or ``both``.
        resource: As which it is asked for by limits; empty where it is not.
        slots: How many may have it at once.
        numbers: Type, major and minor of the node.
    """

    name: str
    type: str
    group: str
    path: str
    door: str
    resource: str
    slots: int
    numbers: tuple[str, int, int]

    @property
    def opens_dra(self) -> bool:
        """Whether claims get it."""
        return self.door != "plugin"

    @property
    def opens_plugin(self) -> bool:
        """Whether limits get it."""
        return self.door != "dra"

    def __str__(self) -> str:
        how = "one container" if self.slots == 1 else f"{self.slots} containers"
        doors = _DOORS[self.door].format(self.resource)
        group = f"group {self.group}, " if self.group else ""
        return f"{self.path} is {self.name}, {group}for {how}, {doors}"


async def offers(
    told: Iterable[Mapping[str, Any]], groups: Sequence[str], nodes: Mapping[str, str] = NO_NODES
) -> tuple[Offer, ...]:
    """The devices of groups that the daemon offers, in the groups' order.

    Args:
        told: What the daemon says of its devices.
        groups: Their names; that of GPUs which are in none is empty.
        nodes: The nodes of those that are known by other paths.

    Raises:
        HostError: One has no node on the host.
    """
    found = [
        await _offer(entry, nodes.get(entry["path"], entry["path"]))
        for entry in told
        if entry["group"] in groups and entry["offered"]
    ]
    return tuple(sorted(found, key=lambda one: groups.index(one.group)))


async def _offer(entry: Mapping[str, Any], path: str) -> Offer:
    try:
        node = await run_in_thread("files", node_of_host, path, path)
    except RemoteProtocolError as error:
        raise HostError(f"device {entry['name']}", f"is no node of the host: {error}") from error
    return Offer(
        name=entry["name"],
        type=entry["kind"],
        group=entry["group"],
        path=path,
        door=entry["door"],
        resource=entry["resource"],
        slots=entry["slots"],
        numbers=numbers_of(node),
    )


async def published(stage: Stage, offered: Sequence[Offer]) -> tuple[str, ...]:
    """Wait until slices and kubelet's counts have all devices; gives it in words.

    Raises:
        HostError: One is missing after the limit, or told wrongly.
    """
    by_claims = [one for one in offered if one.opens_dra]
    for one in by_claims:
        await _published(stage, one)
    units = units_of(offered)
    for resource, count in units.items():
        await allocatable(stage, resource, count)
    counts = [f"{count} {resource}" for resource, count in units.items()]
    names = ", ".join(one.name for one in by_claims)
    lines = [f"in the pool {stage.cluster.node}: {names}"] if names else []
    return (*lines, f"kubelet may give {', '.join(counts)}") if counts else tuple(lines)


async def _published(stage: Stage, offer: Offer) -> None:
    async def there() -> bool:
        await trio.lowlevel.checkpoint()
        return offer.name in stage.cluster.devices()

    where = f"group {offer.group!r}, device {offer.name}"
    if not await holds(there):
        raise HostError(where, "is in no slice on the API server")
    device = stage.cluster.devices()[offer.name]
    wanted = {"type": offer.type, "group": offer.group}
    if offer.type == "generic":
        wanted["node"] = offer.path
    for name, value in wanted.items():
        said = attribute(device, name)
        if said != value:
            raise HostError(where, f"is told with {name} {said}", rule=f"it is {value}")


def units_of(offered: Iterable[Offer]) -> Mapping[str, int]:
    """How many units of which resource there are when nobody has any."""
    units: Counter[str] = Counter()
    for one in offered:
        if one.opens_plugin:
            units[one.resource] += one.slots
    return units


async def allocatable(stage: Stage, resource: str, count: int) -> None:
    """Wait until kubelet may give so many of a resource.

    Raises:
        HostError: It may give another number after the limit.
    """

    async def so_many() -> bool:
        await trio.lowlevel.checkpoint()
        return stage.devices.allocatable(resource) == count

    if not await holds(so_many):
        found = f"may be given {stage.devices.allocatable(resource)} times"
        raise HostError(f"resource {resource}, at kubelet", found, rule=f"it is to be {count}")


def given(pod: Pod, offered: Sequence[Offer]) -> tuple[Offer, DeviceNode]:
    """See which of some devices the pod's container has, and that the node is the host's.

    Raises:
        HostError: It has none of them, or more than one.
    """
    nodes = [node for box in pod.containers for node in box.edits.nodes]
    found = [(one, node) for one in offered for node in nodes if numbers_of(node) == one.numbers]
    if len(found) != 1:
        has = ", ".join(map(node_text, nodes)) or "no node"
        names = ", ".join(one.name for one in offered)
        raise HostError(f"container of pod {pod}", f"has {has}", rule=f"it gets one of {names}")
    return found[0]


def numbers_of(node: DeviceNode) -> tuple[str, int, int]:
    """What says which device a node is."""
    return node.type.value, node.major, node.minor


def node_text(node: DeviceNode) -> str:
    """A node for people."""
    return f"{node.path} ({node.type.value} {node.major}:{node.minor}, {node.permissions})"


async def recorded(stage: Stage, count: int, limit_s: float = FREED_LIMIT_S) -> None:
    """Wait until the daemon has a record of so many answers of the plugin.

    Raises:
        HostError: There are others after the limit.
    """
    folder = stage.world.state / "ledger"

    async def so_many() -> bool:
        return len(await run_in_thread("files", _records, folder)) == count

    if not await holds(so_many, limit_s):
        names = ", ".join(await run_in_thread("files", _records, folder)) or "nothing"
        raise HostError(str(folder), f"holds {names}", rule=f"{count} records are to be there")


def _records(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.json"))


async def held(stage: Stage, pod: Pod, offer: Offer) -> str:
    """Wait until the daemon knows which container has a device; gives it in words.

    Raises:
        HostError: It does not after the limit.
    """
    wanted = f"pod {pod.name}, container {pod.spec['containers'][0]['name']}"
    said: list[str] = []

    async def known() -> bool:
        answer = await run_in_thread("control", ask, stage.world.runtime, "holds")
        said[:] = [one["holder"] for one in answer["holds"] if one["device"] == offer.name]
        return wanted in said

    if not await holds(known):
        found = f"is said to be held by {', '.join(said) or 'nobody'}"
        raise HostError(f"device {offer.name}", found, rule=f"{wanted} has it")
    return f"{wanted} has {offer.name}: berthd found it in kubelet's list"


def ask(folder: Path, verb: str) -> Mapping[str, Any]:
    """What the daemon answers to the operator's command. Blocks.

    Raises:
        HostError: It does not answer.
    """
    client = ControlClient(folder)
    try:
        return client.ask(verb)
    finally:
        client.close()


async def kept_from_claims(stage: Stage, offer: Offer, *, kept: bool) -> None:
    """Wait until the scheduler gives a device to no claim, by its taint, or gives it again.

    Raises:
        HostError: It is not so after the limit.
    """

    async def is_kept() -> bool:
        await trio.lowlevel.checkpoint()
        device = stage.cluster.devices().get(offer.name)
        # Others only tell how the device is.
        closing = device is not None and any(
            taint["effect"] != TELLS for taint in device.get("taints") or ()
        )
        return device is not None and closing is kept

    if not await holds(is_kept):
        found = "is offered to claims" if kept else "is kept from claims"
        rule = "another door gave it" if kept else "nobody has it"
        raise HostError(f"device {offer.name}, in its slice", found, rule=rule)
