"""Whether a pod's NICs are where they belong, from records alone; and how a sandbox is known there.

Source: network.md §4.3, §4.4.
"""

from __future__ import annotations

from collections.abc import Collection

from berth.errors import ClaimError
from berth.model.pod import Sandbox
from berth.nic.execute import inode_of
from berth.nic.record import SandboxRef, Stage
from berth.node.holders.nicholders import NicHolder, nics_of
from berth.node.records.record import ClaimRecord
from berth.runtime.threads import run_in_thread


def is_lacking(record: NicHolder, sandbox_id: str, elsewhere: Collection[str]) -> bool:
    """Whether a NIC has still to come into the sandbox, or its containers to be told of it.

    One that a daemon brought there before it ended may be untold; an attach that is under way is
    late, and will be undone. One that went home from there without a fault was sent by the
    sandbox's end.

    Args:
        elsewhere: Sandboxes in which NICs stay.
    """
    return any(_is_lacking(record, index, sandbox_id, elsewhere) for index, _ in nics_of(record))


def _is_lacking(record: NicHolder, index: int, sandbox_id: str, elsewhere: Collection[str]) -> bool:
    nic = record.nics[index]
    if nic is None or nic.stage is Stage.LENT:
        return False
    if nic.sandbox is None or nic.sandbox.id != sandbox_id:
        return nic.sandbox is None or nic.sandbox.id not in elsewhere
    if nic.stage is Stage.HOME:
        return bool(nic.fault)
    is_told = record.devices[index].is_told
    return nic.stage in {Stage.ATTACHING, Stage.ATTACHED} and not is_told


def users(record: ClaimRecord, sandbox: Sandbox) -> list[str]:
    """Pods that keep this one from using the claim's NICs.

    A claim belongs to the pod that has its NICs: of the pods that it names, or any that it is
    reserved for without naming it. While none has, it is for every pod that it names.
    """
    away = (nic.sandbox for _, nic in nics_of(record) if nic.is_away)
    inside = {ref.pod_uid: ref.pod for ref in away if ref is not None}
    inside.pop(sandbox.uid, None)
    pods = [consumer for consumer in record.consumers if consumer.is_pod]
    if not pods:
        return sorted(set(inside.values()))
    having = [consumer.name for consumer in pods if consumer.uid in inside]
    if having or record.serves_pod(sandbox.uid):
        return having
    return [consumer.name for consumer in pods]


async def reference(sandbox: Sandbox) -> SandboxRef:
    """The sandbox as records know it.

    Raises:
        ClaimError: The pod uses the host's network, so there is nowhere to move a NIC to.
        HostError: Its namespace is gone.
    """
    if sandbox.netns_path is None:
        raise ClaimError(
            f"pod {sandbox}",
            "uses the host's network",
            rule="a NIC is moved into a pod's own network namespace",
            mend="drop hostNetwork, or the NIC",
        )
    inode = await run_in_thread("nics", inode_of, sandbox.netns_path)
    return SandboxRef(
        id=sandbox.id,
        pod_uid=sandbox.uid,
        pod=str(sandbox),
        netns_path=sandbox.netns_path,
        netns_inode=inode,
    )
