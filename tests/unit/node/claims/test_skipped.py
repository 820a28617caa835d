"""Claims for which kubelet does not call: what they hold, over restarts, and until when."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import attrs
import pytest
import trio

from berth.errors import ClaimError, HostError, StateError
from berth.model.allocation import AllocatedClaim, AllocatedDevice
from berth.model.claim import ClaimRef
from berth.model.inventory import Inventory
from berth.model.peripheral import Door, Peripheral
from berth.node.claims.allocations import AllocatedClaims
from berth.node.claims.skipped import PREPARE, UNPREPARE, Skipped, skips
from berth.node.ledger import Hold, Ledger
from berth.node.plugin import units
from berth.node.plugin.allotments import Allotments, given_shelf
from berth.node.records.records import Records
from berth.node.views import holds_view
from berth.runtime.latest import Latest
from tests.unit.node.machine import BOOT
from tests.unit.node.peripherals import RESOURCE, kvm, modem

FREE = modem(0, door=Door.DRA)
"""What is only counted; the other door has another device on the same hardware."""

TWIN = attrs.evolve(
    modem(1, door=Door.PLUGIN), keys=(*modem(1).keys, *FREE.keys), resource=RESOURCE
)


def device(name: str, *words: str, share_id: str | None = None) -> AllocatedDevice:
    """A device of a claim."""
    return AllocatedDevice(request="r", pool="n", device=name, skips=words, share_id=share_id)


def claim(uid: str, *devices: AllocatedDevice) -> AllocatedClaim:
    """A claim that was given these."""
    ref = ClaimRef(namespace="team", name=f"claim-{uid}", uid=uid)
    return AllocatedClaim(ref=ref, devices=devices)


def known(*claims: AllocatedClaim) -> AllocatedClaims:
    """What the API server has allocated."""
    return {one.ref.uid: one for one in claims}


class Files:
    """CDI files of nobody."""

    async def write(self, _: object) -> None:
        """Write none."""
        await trio.lowlevel.checkpoint()

    def id(self, one: Peripheral, id_: str) -> str:
        """A name."""
        return f"{one.kind}={id_}"


class Bench:
    """One life of the node."""

    def __init__(
        self, folder: Path, *peripherals: Peripheral, boot: str = BOOT, driver: str = "berth.dev"
    ) -> None:
        self.ledger = Ledger()
        self.records = Records(folder / "skipped")
        self.prepared = Records(folder / "claims")
        self.claims: Latest[AllocatedClaims | None] = Latest(None)
        self.inventory = Latest(Inventory(peripherals=peripherals))
        self.ended: list[str] = []
        self.refuse: HostError | None = None
        self.refused = 0
        self.settled: list[int] = []
        self.skipped = Skipped(
            records=self.records,
            prepared=self.prepared,
            ledger=self.ledger,
            claims=self.claims,
            inventory=self.inventory,
            end=self.end,
            settled=self.count,
            driver=driver,
            boot_id=boot,
        )

    def count(self) -> None:
        """The records may be others."""
        self.settled.append(len(self.records.all()))

    async def end(self, uid: str) -> bool:
        """End a claim as unprepare does."""
        await trio.lowlevel.checkpoint()
        if self.refuse is not None:
            self.refused += 1
            raise self.refuse
        self.ended.append(uid)
        self.ledger.release(uid)
        return True

    async def tell(self, *claims: AllocatedClaim) -> None:
        """The API server has these; gives it time to be on disk."""
        self.claims.set(known(*claims))
        await self.wait(lambda: {one.uid for one in self.records.all()} == self.noted())

    def noted(self) -> set[str]:
        """Claims of which there shall be a record."""
        claims = self.claims.get() or {}
        return {uid for uid, one in claims.items() if skips(one, UNPREPARE)}

    async def wait(self, condition: Callable[[], object]) -> None:
        """Wait for what a thread has to do with the disk."""
        with trio.fail_after(20):
            for _ in range(2000):
                if condition():
                    return
                await trio.sleep(0.01)

    def held(self) -> Mapping[str, list[str]]:
        """The devices of each claim."""
        found: dict[str, list[str]] = {}
        for hold in self.ledger.holds():
            found.setdefault(hold.holder.uid, []).append(hold.device)
        return found


@pytest.mark.parametrize(
    ("words", "prepare", "unprepare"),
    [
        ((("*",),), True, True),
        (((UNPREPARE,),), False, True),
        (((PREPARE, UNPREPARE),), True, True),
        ((("*", "FoldTheTent"),), True, True),
        ((("FoldTheTent",),), False, False),
        (((),), False, False),
        ((("*",), ()), False, False),
        ((("*",), (UNPREPARE,)), False, True),
    ],
)
def test_call_is_left_out_if_every_device_says_so(
    words: tuple[tuple[str, ...], ...], prepare: bool, unprepare: bool
) -> None:
    """As kubelet decides it; what it does not know is no reason."""

    one = claim("1", *(device("d", *each) for each in words))

    assert (skips(one, PREPARE), skips(one, UNPREPARE)) == (prepare, unprepare)


async def test_claim_holds_its_device_from_when_it_is_seen_until_it_is_gone(
    tmp_path: Path, nursery: trio.Nursery
) -> None:
    """And the view tells who has it; claims that kubelet asks for are left to kubelet."""

    bench = Bench(tmp_path, FREE, kvm())
    await bench.skipped.load()
    await nursery.start(bench.skipped.run)

    shared = device("kvm-dev-kvm", "*", share_id="0d2d1f5a-1c53-4bd3-8b2a-5c4f3a2b1c0d")
    await bench.tell(
        claim("1", device("modem-0", "*")), claim("2", device("x")), claim("3", shared)
    )

    assert bench.held() == {"1": ["modem-0"], "3": ["kvm-dev-kvm"]}
    view = holds_view([], bench.ledger.holds(), skipped=bench.records.all())
    assert [(one["holder"], one["state"], one["slot_limit"]) for one in view["holds"]] == [
        ("claim team/claim-3", "skipped", 3),
        ("claim team/claim-1", "skipped", 1),
    ]
    await bench.tell()
    assert (bench.held(), bench.records.all(), bench.ended) == ({}, (), ["1", "3"])
    await bench.wait(lambda: bench.settled[-1] == 0)


async def test_device_that_comes_later_is_held_then(tmp_path: Path, nursery: trio.Nursery) -> None:
    """And one that goes stays held, under the name that it had."""

    bench = Bench(tmp_path)
    await bench.skipped.load()
    await nursery.start(bench.skipped.run)
    await bench.tell(claim("1", device("modem-0", "*")))
    assert bench.held() == {}

    for peripherals in ((FREE,), ()):
        bench.inventory.set(Inventory(peripherals=peripherals))

        await bench.wait(lambda: bench.held() == {"1": ["modem-0"]})


async def test_hold_is_there_before_the_server_is_asked_in_the_next_life(
    tmp_path: Path, nursery: trio.Nursery
) -> None:
    """An end in between is found as soon as the server answers; in another boot keys are others."""

    first = Bench(tmp_path, FREE)
    await first.skipped.load()
    await nursery.start(first.skipped.run)
    await first.tell(claim("1", device("modem-0", "*")), claim("2", device("modem-9", UNPREPARE)))

    moved = attrs.evolve(FREE, keys=(*FREE.keys, "chr:188:7"))
    second = Bench(tmp_path, moved, boot="boot-2")
    await second.skipped.load()
    assert second.held() == {"1": ["modem-0"]}
    await nursery.start(second.skipped.run)
    await second.tell(claim("1", device("modem-0", "*")))

    assert second.ended == ["2"]
    assert [hold.key for hold in second.ledger.holds()] == ["chr:188:7", *FREE.keys]


async def test_other_driver_name_is_refused_while_claims_have_devices(
    tmp_path: Path, nursery: trio.Nursery
) -> None:
    """The server would tell nothing of them, and their devices be free."""

    first = Bench(tmp_path, FREE)
    await first.skipped.load()
    await nursery.start(first.skipped.run)
    await first.tell(claim("1", device("modem-0", "*")))

    with pytest.raises(StateError, match=r"team/claim-1 has devices under berth.dev"):
        await Bench(tmp_path, driver="other.dev").skipped.load()


async def test_prepared_claim_is_ended_when_it_has_its_device_no_more(
    tmp_path: Path, nursery: trio.Nursery
) -> None:
    """Its holds are those of its own record; a disk that refuses is tried again."""

    bench = Bench(tmp_path, FREE)
    await bench.skipped.load()
    await nursery.start(bench.skipped.run)
    await bench.tell(claim("1", device("modem-0", UNPREPARE)))
    assert (bench.held(), len(bench.records.all())) == ({}, 1)

    bench.refuse = HostError("/var/lib/berth", "No space left on device")
    bench.claims.set({})
    await bench.wait(lambda: bench.refused)
    assert (bench.ended, len(bench.records.all())) == ([], 1)
    bench.refuse = None

    await bench.wait(lambda: not bench.records.all())
    assert bench.ended == ["1"]


async def test_other_door_refuses_what_a_skipped_claim_holds(
    tmp_path: Path, nursery: trio.Nursery
) -> None:
    """With the holder's name; kubelet is told that it is unhealthy, until the claim is gone."""

    bench = Bench(tmp_path, FREE, TWIN)
    await bench.skipped.load()
    await nursery.start(bench.skipped.run)
    allotments = Allotments(
        given_shelf(tmp_path / "ledger"),
        ledger=bench.ledger,
        inventory=bench.inventory,
        files=Files(),
        boot_id=BOOT,
    )
    await allotments.load()
    await bench.tell(claim("1", device("modem-0", "*")))

    (resource,) = units.resources(bench.inventory.get(), bench.ledger)
    assert [unit.healthy for unit in resource.units] == [False]
    with pytest.raises(ClaimError, match=r"modem-1.*held by claim team/claim-1 \(1\)"):
        await allotments.allocate(RESOURCE, ["modem-1"])
    await bench.tell()

    await allotments.allocate(RESOURCE, ["modem-1"])


async def test_claim_gets_what_the_other_door_has_given_and_that_is_told(
    tmp_path: Path,
    nursery: trio.Nursery,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The scheduler has decided and nobody was asked: both are shown as holders from then on."""

    bench = Bench(tmp_path, FREE, TWIN)
    await bench.skipped.load()
    other = ClaimRef(namespace="team", name="first", uid="9")
    bench.ledger.restore([Hold(key=FREE.keys[0], device="modem-1", holder=other)])
    await nursery.start(bench.skipped.run)

    await bench.tell(claim("1", device("modem-0", "*")))

    assert bench.held() == {"9": ["modem-1"], "1": ["modem-0"]}
    assert "device is disputed" in caplog.text
