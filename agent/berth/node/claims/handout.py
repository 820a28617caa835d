"""What a prepared claim hands to its containers and to kubelet: CDI ids, files, the answer.

All of it follows from the record alone, so a lost file is written again as it was, and a repeated
prepare gives an equal answer.
"""

from __future__ import annotations

from collections.abc import Iterator

from berth.cdi.document import CdiDevice
from berth.cdi.store import CdiStore
from berth.metadata.document import DeviceEntry, RequestMetadata
from berth.metadata.store import MetadataStore
from berth.model.claim import PreparedClaim, PreparedDevice
from berth.model.edits import Edits, Mount, joined
from berth.node.records.record import ClaimRecord, HeldDevice

NIC = "nic"
METADATA = "metadata"

_MARKER = "BERTH_CLAIM_"
_LOOKING = "DRA_ADMIN_ACCESS=true"


def marker(record: ClaimRecord) -> str:
    """The environment entry by which a container is known to use this claim.

    One name per claim, since a second entry of the same name would replace the first.
    """
    devices = ",".join(d.result.device for d in record.devices if d.keys)
    return f"{_MARKER}{record.claim.uid.replace('-', '')}={devices}"


def marked_claims(names: Iterator[str]) -> frozenset[str]:
    """Claim UIDs, without their hyphens, that a container's environment names speak of."""
    return frozenset(name.removeprefix(_MARKER) for name in names if name.startswith(_MARKER))


class Handout:
    """Writes and removes what `answer` promises.

    Args:
        cdi: The driver's CDI files.
        metadata: The driver's metadata files.
    """

    def __init__(self, cdi: CdiStore, metadata: MetadataStore) -> None:
        self._cdi = cdi
        self._metadata = metadata

    def answer(self, record: ClaimRecord) -> PreparedClaim:
        """What kubelet is told of the claim."""
        seen: set[str] = set()
        devices = []
        for device in record.devices:
            request = device.result.base_request
            ids = []
            if _edits(record, device):
                ids.append(self._cdi.id(_kind(device), _name(record, device)))
            if request not in seen:
                ids.append(self._cdi.id(METADATA, _request_name(record, request)))
            seen.add(request)
            devices.append(
                PreparedDevice(
                    requests=(request,),
                    pool=device.result.pool,
                    device=device.result.device,
                    cdi_ids=tuple(ids),
                    share_id=device.result.share_id,
                )
            )
        return PreparedClaim(ref=record.claim, devices=tuple(devices))

    async def write(self, record: ClaimRecord) -> None:
        """Write every file of the claim, metadata before the CDI file that mounts it.

        Raises:
            HostError: A folder is missing, full or read-only.
        """
        await self.write_metadata(record)
        uid = record.claim.uid
        for kind in dict.fromkeys((NIC, *map(_kind, record.devices))):
            await self._cdi.write(kind, uid, _devices(record, kind), _common(record, kind))
        await self._cdi.write(METADATA, uid, self._metadata_devices(record))

    async def write_metadata(self, record: ClaimRecord) -> None:
        """Write the metadata files alone: a NIC has arrived, the rest stands.

        Raises:
            HostError: The folder is missing, full or read-only.
        """
        for metadata in request_metadata(record):
            await self._metadata.write(metadata)

    async def remove(self, claim_uid: str) -> None:
        """Take away every file of the claim; what is not there is no fault.

        Raises:
            HostError: A file is there and cannot be removed.
        """
        await self._cdi.remove(claim_uid)
        await self._metadata.remove(claim_uid)

    async def claims(self) -> frozenset[str]:
        """UIDs of all claims that have files of ours."""
        return await self._cdi.claims() | await self._metadata.claims()

    async def devices(self, claim_uid: str) -> tuple[str, ...]:
        """Devices that the claim's CDI files name: evidence when its record is lost."""
        names: list[str] = []
        for entry in await self._cdi.environment(claim_uid):
            name, _, value = entry.partition("=")
            if name.startswith(_MARKER):
                names.extend(value.split(","))
        return tuple(dict.fromkeys(names))

    def _metadata_devices(self, record: ClaimRecord) -> list[CdiDevice]:
        return [
            CdiDevice(
                name=_request_name(record, metadata.base_request),
                edits=Edits(mounts=(self._mount(metadata),)),
            )
            for metadata in request_metadata(record)
        ]

    def _mount(self, metadata: RequestMetadata) -> Mount:
        return Mount(
            host_path=self._metadata.path(metadata),
            container_path=self._metadata.container_path(metadata),
            options=("ro", "bind"),
        )


def request_metadata(record: ClaimRecord) -> tuple[RequestMetadata, ...]:
    """The metadata files of the claim, one per base request, in the allocation's order."""
    requests = dict.fromkeys(device.result.base_request for device in record.devices)
    return tuple(
        RequestMetadata(
            claim=record.claim,
            pod_claim_name=record.pod_claim_name,
            generation=record.generation,
            devices=tuple(
                _entry(device) for device in record.devices if device.result.base_request == request
            ),
        )
        for request in requests
    )


def _entry(device: HeldDevice) -> DeviceEntry:
    return DeviceEntry(
        request=device.result.request,
        pool=device.result.pool,
        device=device.result.device,
        attributes=device.attributes,
        network=device.told,
    )


def _kind(device: HeldDevice) -> str:
    """The file that a device stands in: containers get what is common to all of a file."""
    return device.peripheral.kind if device.peripheral is not None else NIC


def _devices(record: ClaimRecord, kind: str) -> list[CdiDevice]:
    return [
        CdiDevice(name=_name(record, device), edits=edits)
        for device in record.devices
        if _kind(device) == kind and (edits := _edits(record, device))
    ]


def _edits(record: ClaimRecord, device: HeldDevice) -> Edits:
    """What a container gets of one device; of a NIC that is only looked at, nothing."""
    one = device.peripheral
    if one is not None and device.result.admin_access:
        return joined((Edits(env=(_LOOKING,)), one.admin))
    return joined((Edits(env=(marker(record),)), device.edits)) if device.keys else device.edits


def _common(record: ClaimRecord, kind: str) -> Edits:
    return joined(
        device.peripheral.common
        for device in record.devices
        if device.peripheral is not None and device.peripheral.kind == kind
    )


def _name(record: ClaimRecord, device: HeldDevice) -> str:
    share = f"_{device.result.share_id[:8]}" if device.result.share_id else ""
    return f"{record.claim.uid}_{device.result.device}{share}"


def _request_name(record: ClaimRecord, request: str) -> str:
    return f"{record.claim.uid}_{request}"
