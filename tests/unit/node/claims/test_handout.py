"""What a prepared claim hands out: ids for kubelet, files for containers."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import attrs
import pytest

from berth.cdi.store import CdiStore
from berth.errors import HostError
from berth.metadata.store import MetadataStore
from berth.model.claim import NetworkData
from berth.nic.config.values import NicConfig
from berth.nic.record import NicRecord, Stage
from berth.node.claims.handout import Handout, marked_claims, marker
from berth.node.records.record import ClaimRecord, HeldDevice
from tests.unit.node.machine import BOOT, DRIVER, FAST, OTHER, PARENT, claim, result, share

UID = "11111111-2222-3333-4444-555555555555"
SEEN = NetworkData(interface_name="net1", ips=("192.0.2.7/24",), hardware_address="02:00::1")


def record(*devices: HeldDevice, template: str | None = None) -> ClaimRecord:
    """A prepared claim."""
    return ClaimRecord(
        claim=attrs.evolve(claim().ref, uid=UID),
        pod_claim_name=template,
        consumers=(),
        driver=DRIVER,
        boot_id=BOOT,
        devices=devices,
        generation=1,
        prepared=True,
    )


def nic(device: str, request: str = "nic") -> HeldDevice:
    """A NIC of it."""
    return _held(device, request, parent_index=0)


def child(number: int) -> HeldDevice:
    """A child of the parent."""
    return attrs.evolve(_held(PARENT, "child", parent_index=4), result=share(number))


def observed(device: str, request: str = "look") -> HeldDevice:
    """A device that it may look at."""
    return attrs.evolve(nic(device, request), nic=None)


def _held(device: str, request: str, *, parent_index: int) -> HeldDevice:
    return HeldDevice(
        result=result(device, request),
        identity=f"pci:{device}",
        type="nic",
        attributes={"type": "nic"},
        nic=NicRecord(
            identity=f"pci:{device}",
            device=device,
            group="fast",
            config=NicConfig(),
            boot_id=BOOT,
            stage=Stage.STAGED,
            parent_index=parent_index,
        ),
    )


class Folders:
    """Where the files lie."""

    def __init__(self, path: Path) -> None:
        self.cdi = path / "cdi"
        self.kubelet = path / "kubelet"
        self.cdi.mkdir()
        self.kubelet.mkdir()
        self.handout = Handout(CdiStore(DRIVER, self.cdi), MetadataStore(DRIVER, self.kubelet))

    def files(self) -> dict[str, bytes]:
        """All files, by their place below the two folders."""
        return {
            str(path.relative_to(self.cdi.parent)): path.read_bytes()
            for path in sorted(self.cdi.parent.rglob("*"))
            if path.is_file()
        }

    def has(self, path: str) -> bool:
        """Whether a file is there."""
        return Path(path).is_file()

    def lose_cdi_files(self) -> None:
        """Remove all of them, as a reboot does."""
        for path in self.cdi.iterdir():
            path.unlink()

    def cdi_file(self, kind: str) -> dict[str, object]:
        """The CDI file of one kind."""
        found: dict[str, object] = json.loads(
            (self.cdi / f"{DRIVER}-{kind}_{UID}.json").read_text()
        )
        return found


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    """Empty ones."""
    return Folders(tmp_path)


def test_marker_names_claim_and_nics() -> None:
    """One variable per claim, by which a container is known to use it."""

    made = record(nic(FAST), nic(OTHER, "second"), observed(PARENT))

    assert marker(made) == f"BERTH_CLAIM_11111111222233334444555555555555={FAST},{OTHER}"
    name = marker(made).partition("=")[0]
    assert marked_claims(iter([name, "PATH", "BERTH_CLAIM"])) == {UID.replace("-", "")}


def test_answer_names_devices_before_metadata(folders: Folders) -> None:
    """Kubelet shows the first id as the device's own; each request's metadata is given once."""

    made = record(nic(FAST, "a"), nic(OTHER, "a"), child(1), observed(FAST, "look"))

    answer = folders.handout.answer(made)

    assert [(each.requests, each.device, each.cdi_ids) for each in answer.devices] == [
        (
            ("a",),
            FAST,
            (f"{DRIVER}/nic={UID}_{FAST}", f"{DRIVER}/metadata={UID}_a"),
        ),
        (("a",), OTHER, (f"{DRIVER}/nic={UID}_{OTHER}",)),
        (
            ("child",),
            PARENT,
            (f"{DRIVER}/nic={UID}_{PARENT}_00000001", f"{DRIVER}/metadata={UID}_child"),
        ),
        (("look",), FAST, (f"{DRIVER}/metadata={UID}_look",)),
    ]
    assert [each.share_id for each in answer.devices][2] == share(1).share_id


def test_answer_names_base_requests(folders: Folders) -> None:
    """Kubelet knows a prioritized list by its own name, not by the choice that was taken."""

    answer = folders.handout.answer(record(nic(FAST, "uplink/fast")))

    assert answer.devices[0].requests == ("uplink",)
    assert answer.devices[0].cdi_ids[1] == f"{DRIVER}/metadata={UID}_uplink"


async def test_every_promised_id_is_in_a_file(folders: Folders) -> None:
    """A runtime that finds no device of an id refuses the container."""

    made = record(nic(FAST, "a"), nic(OTHER, "b/c"), child(1), child(2), observed(FAST, "look"))

    await folders.handout.write(made)

    found = set()
    for kind in ("nic", "metadata"):
        document = folders.cdi_file(kind)
        devices = document["devices"]
        assert isinstance(devices, list)
        found |= {f"{document['kind']}={each['name']}" for each in devices}
    promised = [i for each in folders.handout.answer(made).devices for i in each.cdi_ids]
    assert sorted(promised) == sorted(found)
    assert len(promised) == len(set(promised))


async def test_metadata_files_are_mounted_where_containers_look(folders: Folders) -> None:
    """Each request's file exists on the host before the CDI file that mounts it."""

    await folders.handout.write(record(nic(FAST, "a"), nic(OTHER, "b"), template="net"))

    devices = folders.cdi_file("metadata")["devices"]
    assert isinstance(devices, list)
    for each, request in zip(devices, "ab", strict=True):
        (mount,) = each["containerEdits"]["mounts"]
        assert folders.has(mount["hostPath"])
        assert mount["options"] == ["ro", "bind"]
        assert mount["containerPath"] == (
            "/var/run/kubernetes.io/dra-device-attributes/resourceclaimtemplates/net/"
            f"{request}/{DRIVER}-metadata.json"
        )


async def test_write_gives_the_same_bytes_again(folders: Folders) -> None:
    """A lost file is written again as it was."""

    made = record(nic(FAST))
    await folders.handout.write(made)
    before = folders.files()
    folders.lose_cdi_files()

    await folders.handout.write(made)

    assert folders.files() == before


async def test_metadata_alone_leaves_cdi_files(folders: Folders) -> None:
    """A NIC that arrived changes what containers read, and nothing that a runtime has cached."""

    made = record(nic(FAST))
    await folders.handout.write(made)
    before = folders.files()
    told = attrs.evolve(made, generation=2, devices=(attrs.evolve(nic(FAST), told=SEEN),))

    await folders.handout.write_metadata(told)

    after = folders.files()
    changed = [name for name in after if after[name] != before[name]]
    assert [name.split("/")[0] for name in changed] == ["kubelet"]
    assert b'"interfaceName": "net1"' in after[changed[0]]
    assert b'"generation": 2' in after[changed[0]]


async def test_observer_has_no_file_of_nics(folders: Folders) -> None:
    """A CDI file without a device would be refused as a whole."""

    await folders.handout.write(record(observed(FAST)))

    assert [path.name for path in folders.cdi.iterdir()] == [f"{DRIVER}-metadata_{UID}.json"]


async def test_remove_leaves_other_claims(folders: Folders) -> None:
    """Everything of one claim goes, nothing of another; twice is no fault."""

    other = record(nic(OTHER))
    other = attrs.evolve(other, claim=attrs.evolve(other.claim, uid=UID.replace("1", "9")))
    await folders.handout.write(other)
    before = folders.files()
    await folders.handout.write(record(nic(FAST)))
    assert await folders.handout.claims() == {UID, other.claim.uid}

    await folders.handout.remove(UID)
    await folders.handout.remove(UID)

    assert folders.files() == before
    assert await folders.handout.claims() == {other.claim.uid}


async def test_devices_are_found_when_the_record_is_lost(folders: Folders) -> None:
    """The marker in the CDI file is evidence of what a claim holds."""

    await folders.handout.write(record(nic(FAST, "a"), nic(OTHER, "b"), observed(PARENT)))

    assert await folders.handout.devices(UID) == (FAST, OTHER)
    assert await folders.handout.devices("unknown") == ()


@pytest.mark.parametrize("folder", ["cdi", "kubelet"])
async def test_write_names_the_folder_that_refuses(folders: Folders, folder: str) -> None:
    """A file lies where a folder belongs."""

    path = getattr(folders, folder)
    path.rmdir()
    path.touch()

    with pytest.raises(HostError, match=str(path)) as error:
        await folders.handout.write(record(nic(FAST)))

    assert error.value.errno == errno.ENOTDIR
