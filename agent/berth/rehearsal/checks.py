"""Is it so on the node? What the daemon did to slices, links and files, seen from outside.

Slices are read at the API server, links by iproute2, files in their folders. A check that fails
raises, with what was found, what was expected and what to look at. What is in pods, see
`berth.rehearsal.podchecks`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import trio

from berth.cdi.store import FOLDER as CDI_FOLDER
from berth.errors import HostError
from berth.rehearsal.iproute import LinkFacts, link_facts
from berth.rehearsal.pods import Pod
from berth.rehearsal.sandbox import PodName
from berth.rehearsal.stage import Stage
from berth.rehearsal.standins import StandIn
from berth.runtime.threads import run_in_thread

LIMIT_S: Final = 15.0
"""How long what the daemon does in the background may take."""

_POLL_S: Final = 0.02


async def holds(condition: Callable[[], Awaitable[bool]], limit_s: float = LIMIT_S) -> bool:
    """Wait until a condition outside holds, and say whether it does; nothing tells of it."""
    with trio.move_on_after(limit_s):
        while True:
            if await condition():
                return True
            await trio.sleep(_POLL_S)
    return False


async def bound(stage: Stage, pod: PodName) -> None:
    """Wait until a scheduled pod is bound: at once, unless its devices are waited for.

    Raises:
        HostError: It is not within the limit.
        ClaimError: Its claim was given up, and no other device is there for it.
    """

    async def is_bound() -> bool:
        await trio.lowlevel.checkpoint()
        return stage.cluster.bind(pod)

    if not await holds(is_bound):
        raise HostError(
            f"pod {pod}",
            f"was not bound within {LIMIT_S:.0f} s, since its devices are not ready",
            mend="stand-ins are ready when what `bind` of their group waits for holds of them",
        )


async def published(stage: Stage, links: Sequence[StandIn]) -> Mapping[str, Mapping[str, Any]]:
    """Wait until every stand-in is in a slice as it is on the host; gives the devices by link.

    Raises:
        HostError: One is missing after the limit, or told wrongly.
    """
    wanted = {link.name for link in links}
    found: dict[str, Mapping[str, Any]] = {}

    async def all_there() -> bool:
        devices = stage.cluster.devices().values()
        found.update({attribute(device, "ifName"): device for device in devices})
        await trio.lowlevel.checkpoint()
        return wanted <= found.keys()

    await holds(all_there)
    for link in links:
        device = found.get(link.name)
        if device is None:
            raise HostError(
                f"group {link.group!r}, link {link.name}",
                "is in no slice on the API server",
                mend="`berth devices` says why a NIC is not offered; so does the log below",
            )
        facts = await _require_home(link.name)
        told = {"mac": facts.mac, "mtu": facts.mtu, "group": link.group}
        for name, value in told.items():
            said = attribute(device, name)
            if said != value:
                where = f"device {device['name']}"
                raise HostError(where, f"is told with {name} {said}", rule=f"it is {value}")
    return found


async def prepared(stage: Stage, pod: Pod) -> int:
    """See that kubelet's answer is the allocation, and its CDI names can be resolved.

    Returns:
        How many CDI names there are.

    Raises:
        HostError: A device is missing in the answer, or a file on the disk.
    """
    count = 0
    for ref in pod.claims.values():
        answer = {(d.pool, d.device, d.share_id) for d in pod.prepared[ref.uid]}
        results = stage.cluster.results(ref)
        wanted = {(r["pool"], r["device"], r.get("shareID")) for r in results}
        if answer != wanted:
            raise HostError(f"claim {ref}", f"was answered with {answer}", rule=f"not {wanted}")
        count += sum(len(device.cdi_ids) for device in pod.prepared[ref.uid])
        if not await _files_of(CDI_FOLDER, ref.uid):
            raise HostError(str(CDI_FOLDER), f"has no file of claim {ref}")
    return count


async def told(stage: Stage, pod: Pod) -> tuple[str, ...]:
    """Wait until kubelet was told how each device of the pod's claims is; gives it in words.

    Raises:
        HostError: It was not told of one after the limit.
    """
    driver = stage.cluster.driver
    devices = [device for ref in pod.claims.values() for device in pod.prepared[ref.uid]]
    wanted = {(driver, device.pool, device.device) for device in devices}
    statuses = stage.kubelet.health.statuses
    with trio.move_on_after(LIMIT_S):
        await statuses.wait_value(lambda now: wanted <= now.keys())
    said = statuses.get()
    missing = sorted(device for _, _, device in wanted - said.keys())
    if missing:
        raise HostError("kubelet", f"is not told how {', '.join(missing)} is")
    return tuple(f"the pod's status says of {key[2]}: {said[key]}" for key in sorted(wanted))


async def returned(facts: Mapping[str, LinkFacts]) -> None:
    """Wait until each NIC is home, exactly as it was.

    Raises:
        HostError: One is not.
    """
    for name, before in facts.items():

        async def as_before(name: str = name, before: LinkFacts = before) -> bool:
            return await link_facts(name) == before

        if not await holds(as_before):
            after = await link_facts(name)
            raise HostError(f"NIC {name}", f"is home as {after}", rule=f"it was {before}")


async def undone(stage: Stage, pod: Pod) -> None:
    """See that nothing of the pod's claims is left on the machine.

    Raises:
        HostError: A file is.
    """
    metadata = stage.places.dra_socket.parent / "dra-device-metadata"
    for ref in pod.claims.values():
        for folder in (CDI_FOLDER, stage.world.state / "claims", metadata):

            async def empty(folder: Path = folder, uid: str = ref.uid) -> bool:
                return not await _files_of(folder, uid)

            if not await holds(empty):
                left = ", ".join(await _files_of(folder, ref.uid))
                raise HostError(f"claim {ref}", f"left {left} in {folder}")


async def _require_home(name: str) -> LinkFacts:
    facts = await link_facts(name)
    if facts is None:
        raise HostError(f"NIC {name}", "is not on the host")
    return facts


async def _files_of(folder: Path, uid: str) -> tuple[str, ...]:
    return await run_in_thread("files", _names_with, folder, uid)


def _names_with(folder: Path, uid: str) -> tuple[str, ...]:
    try:
        return tuple(sorted(path.name for path in folder.iterdir() if uid in path.name))
    except FileNotFoundError:
        return ()


def attribute(device: Mapping[str, Any], name: str) -> Any:
    """The value of a device's attribute; ``None`` when it has none of that name."""
    value = device["attributes"].get(name)
    return None if value is None else next(iter(value.values()))
