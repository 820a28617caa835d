"""Is it so in the pod? NICs, traffic, files and claim status, as whoever uses a pod sees them.

Links are shown by iproute2 in the pod's namespace, traffic comes from the far end of the cable,
files are read where a container has them mounted, claims at the API server.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from ipaddress import ip_interface, ip_network
from typing import Any, Final

import attrs
import trio

from berth.errors import HostError
from berth.model.claim import ClaimRef
from berth.rehearsal.checks import attribute, holds
from berth.rehearsal.iproute import addresses_of, ip, ip_json, link_facts
from berth.rehearsal.pods import Pod
from berth.rehearsal.sandbox import ContainerBox, netns_name
from berth.rehearsal.stage import Stage
from berth.rehearsal.wire import End, echo, exchange_frames, neighbor_in
from berth.rehearsal.world import NETNS, SWITCH
from berth.runtime.threads import run_in_thread

_NOT_OURS: Final = frozenset({"lo", "eth0"})
_VERSIONS: Final = ("v1beta1", "v1alpha1")
_METADATA: Final = "/var/run/kubernetes.io/dra-device-attributes/"
_CLEAR_S: Final = 5.0


@attrs.frozen(kw_only=True)
class Placed:
    """A NIC of a pod, as iproute2 shows it in the pod's namespace.

    Attributes:
        result: The allocation's own words.
        standin: Name of the stand-in that it is, or over which it was made.
        row: Its row of ``ip -json address``.
    """

    claim: ClaimRef
    result: Mapping[str, Any]
    standin: str
    row: Mapping[str, Any]

    @property
    def network(self) -> dict[str, Any]:
        """What metadata and claim status are to say of it."""
        return {
            "interfaceName": self.row["ifname"],
            "ips": list(addresses_of(self.row)),
            "hardwareAddress": self.row["address"],
        }

    def __str__(self) -> str:
        addresses = ", ".join(addresses_of(self.row)) or "no address"
        return f"{self.result['device']} is {self.row['ifname']} in the pod, {addresses}"


async def attached(stage: Stage, pod: Pod) -> tuple[Placed, ...]:
    """See that each NIC of the pod is in its namespace, as claimed, and not on the host.

    Raises:
        HostError: One is not, or lacks a name or an address that the claim gives.
    """
    rows = await ip_json("address", "show", netns=netns_name(pod.running))
    free = [row for row in rows if row["ifname"] not in _NOT_OURS]
    placed = []
    for ref in pod.claims.values():
        for result in stage.cluster.results(ref):
            if result.get("adminAccess"):
                continue
            device = stage.cluster.devices()[result["device"]]
            if attribute(device, "ifName") is None:
                continue
            row = await _find(free, device, _wish(stage, ref, result).get("interface", {}))
            free.remove(row)
            one = Placed(
                claim=ref, result=result, standin=str(attribute(device, "ifName")), row=row
            )
            await _require_as_claimed(pod, one, _wish(stage, ref, result))
            placed.append(one)
    return tuple(placed)


async def traffic(pod: Pod, placed: Sequence[Placed]) -> tuple[str, ...]:
    """Send over each NIC of the pod, from its cable's far end; gives what was seen, in words.

    Raises:
        HostError: Nothing came through.
    """
    seen = []
    for one in placed:
        if pod.running.netns_path is None:
            continue
        netns = pod.running.netns_path
        far_facts = await link_facts(one.standin, netns=SWITCH)
        far = End(
            netns=str(NETNS / SWITCH),
            link=one.standin,
            mac=far_facts.mac if far_facts is not None else "",
        )
        near = End(netns=netns, link=one.row["ifname"], mac=one.row["address"])
        await run_in_thread("wire", exchange_frames, near, far)
        answered = [
            address for address in addresses_of(one.row) if await _answers(netns, address, far, one)
        ]
        told = f"{', '.join(answered)} answers there" if answered else "frames pass both ways"
        seen.append(f"{one.row['ifname']}: far end of the cable reached, {told}")
    return tuple(seen)


async def completed(stage: Stage, pod: Pod, placed: Sequence[Placed]) -> Mapping[str, str]:
    """See that containers read, and the claim's status tells, what iproute2 shows.

    Returns:
        The files by path, as the pod's containers read them.

    Raises:
        HostError: A file is missing, of the first generation, or says something else.
    """
    texts: dict[str, str] = {}
    for box in pod.containers:
        for path in box.files():
            if path.startswith(_METADATA):
                texts[path] = await _read(box, path)
    told = {key: network for text in texts.values() for key, network in _networks(text)}
    for one in placed:
        key = one.claim.uid, one.result["request"], one.result["device"]
        if key not in told:
            raise HostError(f"claim {one.claim}", f"no container reads of {one.result['device']}")
        _require_same(f"metadata of {one.result['device']}", told[key], one.network)
        await _require_status(stage, one)
    return texts


async def shown(pod: Pod) -> str:
    """What ``ip address`` prints in the pod."""
    return await ip("address", "show", netns=netns_name(pod.running))


async def _find(
    rows: Sequence[Mapping[str, Any]], device: Mapping[str, Any], wish: Mapping[str, Any]
) -> Mapping[str, Any]:
    """The row of the pod's link that is a device, or a child of it."""
    standin = str(attribute(device, "ifName"))
    is_child = bool(device.get("allowMultipleAllocations"))
    kind = "macvlan" if is_child else "veth"
    place = "" if is_child else SWITCH
    other = await ip_json("link", "show", "dev", standin, netns=place)
    fitting = [
        row
        for row in rows
        if (row.get("linkinfo") or {}).get("info_kind") == kind
        and row.get("link_index") == other[0]["ifindex"]
    ]
    fitting.sort(key=lambda row: row["ifname"] != wish.get("name", row["ifname"]))
    if not fitting:
        names = ", ".join(row["ifname"] for row in rows) or "none besides eth0"
        raise HostError(f"device {device['name']}", f"is not in the pod; its links: {names}")
    if not is_child and await link_facts(standin) is not None:
        raise HostError(f"device {device['name']}", "is in the pod, and the host has it as well")
    return fitting[0]


def _wish(stage: Stage, ref: ClaimRef, result: Mapping[str, Any]) -> Mapping[str, Any]:
    """What classes and claim say of a NIC, field by field; a later entry wins."""
    wish: dict[str, Any] = {}
    config = stage.cluster.claim(ref)["status"]["allocation"]["devices"]["config"]
    names = {result["request"], result["request"].partition("/")[0]}
    for entry in config:
        opaque = entry.get("opaque") or {}
        applies = not entry.get("requests") or names & set(entry["requests"])
        if applies and opaque.get("driver") == stage.cluster.driver:
            wish.update(opaque["parameters"])
    return wish


async def _require_as_claimed(pod: Pod, one: Placed, wish: Mapping[str, Any]) -> None:
    where = f"device {one.result['device']}"
    name = (wish.get("interface") or {}).get("name")
    if name and one.row["ifname"] != name:
        raise HostError(where, f"is {one.row['ifname']} in the pod", rule=f"the claim says {name}")
    if "UP" not in one.row["flags"]:
        raise HostError(where, "is down in the pod")
    here = {ip_interface(address) for address in addresses_of(one.row)}
    for item in wish.get("addresses") or ():
        if ip_interface(item["address"]) not in here:
            raise HostError(where, f"lacks the address {item['address']}")
    routes = await _routes(pod, one.row["ifname"]) if wish.get("routes") else frozenset()
    for item in wish.get("routes") or ():
        if (ip_network(item["to"]), item.get("via")) not in routes:
            raise HostError(where, f"lacks the route to {item['to']} via {item.get('via')}")


async def _routes(pod: Pod, link: str) -> frozenset[tuple[Any, str | None]]:
    """Destination and gateway of every route by a link of the pod, of all tables."""
    found = set()
    for family in ("-4", "-6"):
        shown = ("route", "show", "table", "all", "dev", link)
        for row in await ip_json(family, *shown, netns=netns_name(pod.running)):
            everywhere = "0.0.0.0/0" if family == "-4" else "::/0"
            destination = everywhere if row["dst"] == "default" else row["dst"]
            found.add((ip_network(destination), row.get("gateway")))
    return frozenset(found)


async def _answers(netns: str, address: str, far: End, one: Placed) -> bool:
    """Whether a program at the address answers; ``False`` where its network has no other host."""
    local = ip_interface(address)
    own = neighbor_in(local)
    if own is None:
        return False
    nodad = ("nodad",) if own.version == 6 else ()
    await ip("address", "add", str(own), "dev", far.link, *nodad, netns=SWITCH)
    try:
        await run_in_thread("wire", echo, netns, local, far, own)
        rows = await ip_json("neighbor", "show", "dev", far.link, netns=SWITCH)
    finally:
        with trio.move_on_after(_CLEAR_S, shield=True):
            await ip("address", "delete", str(own), "dev", far.link, netns=SWITCH)
    owner = next((row.get("lladdr") for row in rows if row.get("dst") == str(local.ip)), None)
    if owner != one.row["address"]:
        raise HostError(
            f"{local.ip}", f"belongs to {owner} as the far end sees it", rule=one.row["address"]
        )
    return True


async def _read(box: ContainerBox, path: str) -> str:
    return (await run_in_thread("files", box.read, path)).decode()


def _networks(text: str) -> Iterator[tuple[tuple[str, str, str], Any]]:
    """Network data by claim UID, request and device; every version must say the same.

    Raises:
        HostError: The stream is not as it must be.
    """
    documents = list(_stream(text))
    versions = tuple(item["apiVersion"].rpartition("/")[2] for item in documents)
    if versions != _VERSIONS:
        raise HostError("metadata", f"holds the versions {versions}", rule=str(_VERSIONS))
    first, *others = [{**item, "apiVersion": ""} for item in documents]
    if any(other != first for other in others):
        raise HostError("metadata", "says different things in its versions")
    generation = first["metadata"]["generation"]
    for request in first["requests"]:
        for device in request["devices"]:
            if "ifName" not in device["attributes"]:
                # Known from the beginning, so it may never be written again.
                continue
            if generation != 2:
                found = f"is of generation {generation}"
                raise HostError("metadata", found, rule="completed, it is 2")
            key = first["metadata"]["uid"], request["name"], device["name"]
            yield key, device.get("networkData")


def _stream(text: str) -> Iterator[Any]:
    decoder = json.JSONDecoder()
    place = 0
    while text[place:].strip():
        place += len(text[place:]) - len(text[place:].lstrip())
        value, place = decoder.raw_decode(text, place)
        yield value


async def _require_status(stage: Stage, one: Placed) -> None:
    """Wait until the claim's status says that the device is ready, and where."""
    key = {k: one.result[k] for k in ("driver", "pool", "device", "shareID") if k in one.result}
    entry: Mapping[str, Any] = {}

    async def ready() -> bool:
        nonlocal entry
        devices = stage.cluster.claim(one.claim)["status"].get("devices") or ()
        entry = next((d for d in devices if key.items() <= d.items()), {})
        await trio.lowlevel.checkpoint()
        return _is_ready(entry)

    where = f"status of claim {one.claim}"
    if not await holds(ready):
        raise HostError(where, f"says of {one.result['device']}: {entry or 'nothing'}")
    _require_same(where, entry.get("networkData"), one.network)


def _is_ready(entry: Mapping[str, Any]) -> bool:
    conditions = entry.get("conditions") or ()
    return any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)


def _require_same(where: str, said: Any, wanted: Mapping[str, Any]) -> None:
    said = said or {}
    comparable = {**said, "ips": sorted(said.get("ips") or ())}
    if comparable != {**wanted, "ips": sorted(wanted["ips"])}:
        raise HostError(where, f"says {said or 'nothing'}", rule=f"ip shows {wanted}")
