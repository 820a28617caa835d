"""The part of a node that moves NICs, on a scratch host: records on disk, and who moves by them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import attrs
import trio

from berth.host.netlink.events import GROUP_LINK, EventSocket
from berth.host.netlink.link import Link
from berth.host.netlink.socket import Sender, send_now
from berth.model.claim import ClaimRef, Consumer, DeviceResult
from berth.model.peripheral import Peripheral
from berth.nic.config.values import NicConfig
from berth.nic.record import NicRecord, Stage
from berth.node.holders.nicholders import NicHolder, NicHolders
from berth.node.ledger import PluginHolder
from berth.node.nics.nics import Nics
from berth.node.records.given import Given, GivenDevice
from berth.node.records.record import ClaimRecord, HeldDevice
from berth.node.records.records import Records
from berth.runtime.threads import Decision
from tests.integration.nic.beds import BOOT, Bed, Pod, config_of

DRIVER = "berth.dev"


def drafted(
    uid: str, nics: Sequence[tuple[Link, NicConfig]], *, pod: Pod, children: bool = False
) -> ClaimRecord:
    """A claim's record before anything is done: one device per link."""
    return ClaimRecord(
        claim=ClaimRef(namespace="team", name=f"claim-{uid}", uid=uid),
        pod_claim_name=None,
        consumers=(pod.consumer,),
        driver=DRIVER,
        boot_id=BOOT,
        devices=tuple(
            _held(f"nic-{number}", link, config, children=children)
            for number, (link, config) in enumerate(nics)
        ),
    )


def asked_for(uid: str, nics: Sequence[tuple[Link, NicConfig]], *, pod: Pod) -> Given:
    """The same of a pod that asked for a resource, once it is known which pod that is."""
    held = [
        _held(f"nic-{n}", link, config, children=False) for n, (link, config) in enumerate(nics)
    ]
    ids = tuple(device.result.device for device in held)
    listings = [
        Peripheral(
            identity=device.identity,
            name=device.result.device,
            kind="nic",
            type="nic",
            group="test",
            keys=(device.identity,),
        )
        for device in held
    ]
    return Given(
        holder=PluginHolder(uid=uid, resource="lab.example/nic", ids=ids, since="today"),
        devices=tuple(
            GivenDevice(id=id_, peripheral=listing, nic=device.nic)
            for id_, listing, device in zip(ids, listings, held, strict=True)
        ),
        boot_id=BOOT,
        prepared=False,
        pod_uid=pod.sandbox.pod_uid,
    )


def _held(name: str, link: Link, config: NicConfig, *, children: bool) -> HeldDevice:
    identity = f"link:{BOOT}:{link.index}"
    return HeldDevice(
        result=DeviceResult(request="nic", pool="node/nic", device=name),
        identity=identity,
        type="nic",
        attributes={},
        nic=NicRecord(
            identity=identity,
            device=name,
            group="test",
            config=config,
            boot_id=BOOT,
            parent_index=link.index if children else 0,
        ),
    )


class Node:
    """One life of the daemon's part that moves NICs; a second one on the same folder is a restart.

    Attributes:
        renumbered: What `Nics` told of changed identities.
        noticed: What it told of claims in their pods.
        gone: Identities whose device is not in the machine.
    """

    def __init__(self, bed: Bed, folder: Path, *, send: Sender = send_now) -> None:
        self.bed = bed
        self.folder = folder
        self.records = Records(folder / "claims")
        self.renumbered: list[tuple[str, str, str]] = []
        self.noticed: list[str] = []
        self.gone: set[str] = set()
        self.nics = Nics(
            NicHolders(self.records),
            exists=lambda identity: identity not in self.gone,
            renumbered=lambda *words: self.renumbered.append(words),
            noticed=self.noticed.append,
            names=folder / "names",
            send=send,
        )

    async def prepare(self, record: ClaimRecord) -> ClaimRecord:
        """Stage a claim as its prepare does, and write it down as prepared."""
        uid = record.claim.uid
        async with self.records.lock(uid):
            homes = [_home(device.nic) for device in record.devices]
            staged = await self.nics.stage(record, homes)
            prepared = attrs.evolve(staged, prepared=True, generation=1)
            await self.records.put(prepared)
        return prepared

    async def prepared(self, uid: str, pod: Pod, *names: str, **parameters: Any) -> ClaimRecord:
        """A prepared claim on veth ends, which are made where they are missing."""
        links = [
            self.bed.link(name) if name in self.bed.names() else self.bed.veth(name)
            for name in names
        ]
        configs = [config_of(f"net-{name}", **parameters) for name in names]
        draft = drafted(uid, list(zip(links, configs, strict=True)), pod=pod)
        return await self.prepare(draft)

    async def attach(self, pod: Pod, *uids: str, limit_s: float = 60.0) -> tuple[NicHolder, ...]:
        """Bring claims' NICs into a pod."""
        return await self.nics.attach(uids, pod.sandbox, limit_s=limit_s, decision=Decision())

    def nic(self, uid: str, index: int = 0) -> NicRecord:
        """A NIC as the record in memory has it."""
        record = self.records.get(uid)
        assert record is not None
        nic = record.devices[index].nic
        assert nic is not None
        return nic

    def stages(self, uid: str) -> list[Stage]:
        """How far the claim's NICs are."""
        record = self.records.get(uid)
        assert record is not None
        return [device.nic.stage for device in record.devices if device.nic is not None]

    async def revoke(self, uid: str) -> None:
        """Note that the claim is to be undone, as its unprepare does first."""
        record = self.records.get(uid)
        assert record is not None
        await self.records.put(attrs.evolve(record, revoked=True))

    async def reserve(self, uid: str, consumer: Consumer) -> None:
        """Note who has the claim from now on."""
        record = self.records.get(uid)
        assert record is not None
        await self.records.put(attrs.evolve(record, consumers=(consumer,)))

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until the records meet a condition; five seconds are what anybody has."""
        with trio.fail_after(5):
            version = self.records.changes.version
            while not condition():
                version = await self.records.changes.wait_changed(version)

    async def wait_stage(self, uid: str, stage: Stage) -> NicRecord:
        """Wait until the claim's first NIC is so far."""
        await self.until(lambda: self.nic(uid).stage is stage)
        return self.nic(uid)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Have the tasks of `Nics` run for the block."""
        async with trio.open_nursery() as nursery:
            await nursery.start(self.nics.run)
            yield
            nursery.cancel_scope.cancel()


async def links_until(condition: Callable[[], bool]) -> None:
    """Wait until the links at home meet a condition; five seconds are what anybody has."""
    with trio.fail_after(5), EventSocket([GROUP_LINK]) as events:
        while not condition():
            await events.receive()


def _home(nic: NicRecord | None) -> int:
    assert nic is not None
    return 0 if nic.is_child else int(nic.identity.rpartition(":")[2])
