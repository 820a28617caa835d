"""The publisher by the clock of the test: what is written, how often, and what is left alone."""

import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import attrs
import pytest
import trio
from trio.testing import MockClock

from berth.dra.nodename import NodeChoice, choose_node
from berth.dra.publication import PoolState
from berth.dra.publisher import Publisher
from berth.dra.quarantine import SHARING
from berth.errors import KubeError
from berth.kube.api import Node
from berth.kube.slices import Slice
from berth.model.device import RETURNING, Capacity, Device, Exclusion, Nic, NicKind
from berth.model.inventory import Inventory
from berth.runtime.latest import Latest
from tests.unit.dra.fakeapi import FakeApi
from tests.unit.dra.shelf import nic, nics
from tests.unit.memoryfile import MemoryFile

NODE = "worker-7"
POOL = f"{NODE}/nic"


@attrs.define
class Scene:
    """A publisher at work, its server and its inventory."""

    api: FakeApi
    inventory: Latest[Inventory | None]
    publisher: Publisher
    history: MemoryFile[frozenset[str]]

    def show(self, *devices: Device) -> None:
        """Put another inventory there."""
        self.inventory.set(Inventory(devices=devices))

    def verbs(self) -> list[str]:
        """Give the verbs of all writes so far."""
        return [verb for verb, _ in self.api.requests]

    @property
    def state(self) -> str:
        """What the publisher says of itself."""
        return self.publisher.statistics().state


Open = Callable[..., AbstractAsyncContextManager[Scene]]


@pytest.fixture
def scene() -> Open:
    """Give a way to start publishers of one machine; the server may be that of an earlier one."""
    history: MemoryFile[frozenset[str]] = MemoryFile()

    @asynccontextmanager
    async def begin(
        *devices: Device,
        api: FakeApi | None = None,
        choice: NodeChoice | None = None,
        near: Mapping[int, tuple[int, ...]] | None = None,
    ) -> AsyncIterator[Scene]:
        api = FakeApi(Node(name=NODE, uid="node-uid")) if api is None else api
        choice = NodeChoice(name=NODE, source="test", host_name=NODE) if choice is None else choice
        inventory: Latest[Inventory | None] = Latest(Inventory(devices=devices))
        publisher = Publisher(
            api=api,
            driver="berth.dev",
            inventory=inventory,
            choice=choice,
            history=history,
            near=near,
            chance=lambda: 0.0,
        )
        async with trio.open_nursery() as nursery:
            await nursery.start(publisher.run)
            await trio.sleep(1)
            yield Scene(api=api, inventory=inventory, publisher=publisher, history=history)
            nursery.cancel_scope.cancel()

    return begin


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Give what was logged as a warning or worse, with its reason."""
    return [
        f"{record.getMessage()} {getattr(record, 'berth_fields', {}).get('reason', '')}"
        for record in caplog.records
        if record.levelno >= logging.WARNING
    ]


async def test_run_publishes_and_then_is_silent(autojump_clock: MockClock, scene: Open) -> None:
    """129 devices make three slices; an hour later not one request more was sent."""

    async with scene(*nics(129)) as it:
        reads = it.api.reads
        await trio.sleep(3600)

        assert it.verbs() == ["create"] * 3
        assert reads == it.api.reads
        assert it.state == "published"
        assert {POOL: PoolState(generation=1, slices=3, devices=129)} == (
            it.publisher.statistics().pools
        )


async def test_run_writes_nothing_when_the_server_has_it_all(
    autojump_clock: MockClock, scene: Open
) -> None:
    """A restart over unchanged devices is unseen by the server."""

    async with scene(*nics(129)) as it:
        api = it.api
    async with scene(*nics(129), api=api) as again:
        assert again.verbs() == ["create"] * 3
        assert again.state == "published"


async def test_attribute_that_only_changes_its_kind_is_written(
    autojump_clock: MockClock, scene: Open
) -> None:
    """Python takes 1 for ``True``; a selector that asks for the one finds no other."""

    async with scene(nic(0, port=1)) as it:
        it.show(nic(0, port=True))
        await trio.sleep(1)

        (item,) = it.api.owned()
        assert item.devices[0]["attributes"]["port"] == {"bool": True}
        assert it.verbs() == ["create", "update"]


async def test_run_waits_for_the_first_scan(autojump_clock: MockClock, scene: Open) -> None:
    """Slices of before stay while the inventory is unknown."""

    async with scene(*nics(3)) as it:
        api = it.api
    publisher_inventory: Latest[Inventory | None] = Latest(None)
    publisher = Publisher(
        api=api,
        driver="berth.dev",
        inventory=publisher_inventory,
        choice=NodeChoice(name=NODE),
        history=it.history,
    )
    async with trio.open_nursery() as nursery:
        await nursery.start(publisher.run)
        await trio.sleep(60)

        assert len(api.owned()) == 1
        assert publisher.statistics().state == "waiting for the first scan"

        publisher_inventory.set(Inventory(devices=nics(2)))
        await trio.sleep(1)

        assert api.devices() == ["nic-0000", "nic-0001"]
        nursery.cancel_scope.cancel()


async def test_run_sends_the_first_write_at_once_and_gathers_what_follows(
    autojump_clock: MockClock, scene: Open
) -> None:
    """Ten changes in 40 ms make one write, 50 ms after the first."""

    async with scene(*nics(1)) as it:
        began = autojump_clock.current_time()
        for mtu in range(10):
            it.show(nic(0, mtu=mtu))
            await trio.sleep(0.004)
        await trio.sleep(1)

        ((_, created), (verb, at)) = it.api.requests
        assert created < began
        assert verb == "update"
        assert pytest.approx(at - began) == 0.05
        assert it.api.owned()[0].devices[0]["attributes"]["mtu"] == {"int": 9}


async def test_run_writes_nothing_for_a_pod_that_ends(
    autojump_clock: MockClock, scene: Open
) -> None:
    """A NIC that comes home is not taken out and put in again; one that does not come is."""

    home = Exclusion(reason=RETURNING, detail="from default/net")
    away = Nic(identity="pci:a", name="nic-0001", kind=NicKind.PCI, exclusion=home)
    async with scene(*nics(2)) as there:
        written = len(there.verbs())
        rest = tuple(each for each in nics(2) if each.name != "nic-0001")
        there.inventory.set(Inventory(nics=(away,), devices=rest))
        await trio.sleep(1)
        there.show(*nics(2))
        await trio.sleep(10)
        assert len(there.verbs()) == written

        there.inventory.set(Inventory(nics=(away,), devices=rest))
        await trio.sleep(10)

        assert len(there.verbs()) == written + 1
        assert there.publisher.statistics().pools[POOL].devices == 1


async def test_run_keeps_to_twenty_rounds_a_minute(autojump_clock: MockClock, scene: Open) -> None:
    """A device that changes for ever is written at most 20 times in any minute, and truly last."""

    async with scene(*nics(1)) as it:
        for mtu in range(3000):
            it.show(nic(0, mtu=mtu))
            await trio.sleep(0.1)
        assert f"pool {POOL} waits: it was written too often" == it.state
        await trio.sleep(10)

        times = [at for _, at in it.api.requests]
        assert max(sum(start <= at < start + 60 for at in times) for start in times) <= 20
        assert len(times) > 60
        assert it.api.owned()[0].devices[0]["attributes"]["mtu"] == {"int": 2999}
        assert it.state == "published"


async def test_run_lets_one_pool_wait_alone(autojump_clock: MockClock, scene: Open) -> None:
    """NICs that change all the time do not hold up a GPU."""

    gpu = attrs.evolve(nic(900), type="gpu")
    async with scene(gpu, *nics(1)) as it:
        for mtu in range(60):
            it.show(gpu, nic(0, mtu=mtu))
            await trio.sleep(0.1)
        it.show(attrs.evolve(gpu, attributes={"mtu": 1}), nic(0, mtu=100))
        await trio.sleep(0.2)

        assert it.api.owned()[0].devices[0]["attributes"]["mtu"] == {"int": 1}
        assert f"pool {POOL} waits: it was written too often" == it.state


@pytest.mark.parametrize("after_s", [1, 29, 61])
async def test_run_heals_after_deletion(
    autojump_clock: MockClock, scene: Open, after_s: float
) -> None:
    """All slices deleted, as kubelet does: the whole set is back within a second."""

    async with scene(*nics(129)) as it:
        await trio.sleep(after_s)
        before = it.api.devices()
        for item in it.api.owned():
            it.api.drop(item.name)
        await trio.sleep(1)

        assert before == it.api.devices()
        assert it.publisher.statistics().restored == {(POOL,): 3}
        assert {(1, 3)} == {(s.generation, s.slice_count) for s in it.api.owned()}
        assert it.verbs() == ["create"] * 6


async def test_run_heals_after_an_edit(autojump_clock: MockClock, scene: Open) -> None:
    """A slice edited by hand is put right by one write."""

    async with scene(*nics(129)) as it:
        mine = it.api.owned()[1]
        it.api.put(attrs.evolve(mine, devices=mine.devices[3:], others={"skipNodeOperations": []}))
        await trio.sleep(1)

        assert mine.devices == it.api.owned()[1].devices
        assert it.verbs() == ["create"] * 3 + ["update"]
        assert it.publisher.statistics().restored == {(POOL,): 1}


async def test_run_heals_when_the_watch_was_cut(
    autojump_clock: MockClock, scene: Open, caplog: pytest.LogCaptureFixture
) -> None:
    """What is deleted unseen comes back when the watch does; the cut is told once."""

    async with scene(*nics(65)) as it:
        it.api.cut_watches()
        for item in it.api.owned():
            it.api.drop(item.name)
        await trio.sleep(120)
        assert it.api.owned() == []
        it.api.mend_watches()
        await trio.sleep(1)

        assert len(it.api.owned()) == 2
        assert warnings(caplog) == ["slices are not watched watch: connection reset"]


async def test_run_recovers_from_writes_of_others_that_were_not_seen(
    autojump_clock: MockClock, scene: Open
) -> None:
    """A conflict and a slice that is gone are looked up, and the newest state wins."""

    async with scene(*nics(129)) as it:
        it.api.cut_watches()
        first, second, _ = it.api.owned()
        it.api.put(attrs.evolve(first, devices=()))
        it.api.drop(second.name)
        it.show(nic(0, mtu=1), *nics(129)[1:])
        await trio.sleep(1)

        assert [device.name for device in nics(129)] == it.api.devices()
        assert it.api.owned()[0].devices[0]["attributes"]["mtu"] == {"int": 1}
        assert it.state == "published"


async def test_run_retries_with_growing_pauses_and_tells_once(
    autojump_clock: MockClock, scene: Open, caplog: pytest.LogCaptureFixture
) -> None:
    """A server that fails for ten minutes is asked ever less often, and gets the newest state."""

    async with scene(*nics(1)) as it:
        it.api.fail = KubeError("slices", "the server is down")
        it.show(nic(0, mtu=1))
        began = it.api.reads + len(it.api.requests)
        await trio.sleep(600)
        asked = it.api.reads + len(it.api.requests) - began

        assert 20 <= asked <= 30
        assert "the server is down" in it.state
        assert len(warnings(caplog)) <= 2

        it.api.fail = None
        it.show(nic(0, mtu=2))
        await trio.sleep(31)

        assert it.api.owned()[0].devices[0]["attributes"]["mtu"] == {"int": 2}
        assert it.state == "published"
        assert it.publisher.statistics().failures == 0


async def test_run_makes_no_second_slice_when_an_answer_was_lost(
    autojump_clock: MockClock, scene: Open
) -> None:
    """A create that was carried out but not answered is found before it is repeated."""

    async with scene() as it:
        it.api.cut_watches()
        lost = True

        def refuse(verb: str, item: Slice) -> None:
            nonlocal lost
            if verb == "create" and lost:
                lost = False
                it.api.put(attrs.evolve(item, name=f"{item.generate_name}lost1", uid="lost"))
                raise KubeError("slices", "no answer")

        it.api.refuse = refuse
        it.show(*nics(3))
        await trio.sleep(5)

        assert [item.uid for item in it.api.owned()] == ["lost"]
        assert it.verbs() == ["create"]


async def test_run_leaves_out_a_device_that_the_server_refuses(
    autojump_clock: MockClock, scene: Open, caplog: pytest.LogCaptureFixture
) -> None:
    """One bad device of 70 costs nobody else; it is tried again when its facts change."""

    bad = nic(33, productName="x" * 65)

    def refuse(_verb: str, item: Slice) -> None:
        for index, device in enumerate(item.devices):
            if len(device.get("attributes", {}).get("productName", {}).get("string", "")) > 64:
                path = f"spec.devices[{index}].attributes[productName].string"
                raise KubeError("slice", "Too long", status=422, fields=[path])

    api = FakeApi(Node(name=NODE, uid="node-uid"))
    api.refuse = refuse
    devices = [device if device.name != bad.name else bad for device in nics(70)]
    async with scene(*devices, api=api) as it:
        await trio.sleep(600)

        assert [device.name for device in nics(70) if device.name != bad.name] == api.devices()
        assert (bad.name,) == it.publisher.statistics().refused
        assert it.verbs() == ["create", "create", "create"]
        assert "productName" in it.publisher.refusals.get()[bad.name].exclusion.detail
        assert len(warnings(caplog)) == 1

        it.show(*(device for device in devices if device is not bad))
        await trio.sleep(1)
        it.show(*devices)
        await trio.sleep(1)
        assert len(it.verbs()) == 3

        it.show(*nics(70))
        await trio.sleep(1)
        assert sorted(device.name for device in nics(70)) == sorted(api.devices())
        assert it.publisher.refusals.get() == {}


@pytest.mark.parametrize(("hooked", "verbs"), [(False, ["create"]), (True, ["create", "update"])])
async def test_run_withholds_a_shared_parent_that_would_not_be_shared(
    autojump_clock: MockClock,
    scene: Open,
    caplog: pytest.LogCaptureFixture,
    hooked: bool,
    verbs: list[str],
) -> None:
    """A server that drops the field must not offer the whole parent to one pod, not for a moment.

    Where nothing can be tried for show it is seen from the write.
    """

    def store(item: Slice) -> Slice:
        kept = tuple({k: v for k, v in d.items() if k != SHARING} for d in item.devices)
        return attrs.evolve(item, devices=kept)

    api = FakeApi(Node(name=NODE, uid="node-uid"))
    api.store = store
    api.hooked = hooked
    parent = Device(
        name="parent-1",
        identity="pci:p",
        type="nic-shared",
        group="g",
        attributes={},
        capacity={"slots": Capacity(value=4, default=1, values=(1,))},
        shared=True,
    )
    async with scene(*nics(1), parent, api=api) as it:
        await trio.sleep(600)

        assert api.devices() == ["nic-0000"]
        assert it.verbs() == verbs
        assert it.publisher.statistics().refused == ("parent-1",)
        assert len(warnings(caplog)) == 1

        it.show(*nics(1), attrs.evolve(parent, attributes={"mtu": 9000}))
        await trio.sleep(1)
        assert api.devices() == ["nic-0000"]


async def test_run_accepts_a_field_that_the_server_drops(
    autojump_clock: MockClock, scene: Open, caplog: pytest.LogCaptureFixture
) -> None:
    """A dropped field is told once and not sent for ever; other changes still go through."""

    def store(item: Slice) -> Slice:
        def kept(device: object) -> dict[str, object]:
            assert isinstance(device, dict)
            attributes = {k: v for k, v in device.get("attributes", {}).items() if k != "lists"}
            return {**device, "attributes": attributes}

        return attrs.evolve(item, devices=tuple(map(kept, item.devices)))

    api = FakeApi(Node(name=NODE, uid="node-uid"))
    api.store = store
    async with scene(nic(0, lists=1), nic(1), api=api) as it:
        await trio.sleep(600)
        assert it.verbs() == ["create"]
        assert len(warnings(caplog)) == 1
        dropped = {"spec.devices[].attributes.lists": 1}
        assert it.publisher.statistics().dropped == dropped

        it.show(nic(0, lists=1), nic(1, mtu=5))
        await trio.sleep(600)
        assert it.verbs() == ["create", "update"]
        assert it.state == "published"


async def test_run_publishes_for_no_node_that_does_not_exist(
    autojump_clock: MockClock, scene: Open, caplog: pytest.LogCaptureFixture
) -> None:
    """A name that is no Node: nothing is written, both names are told once, then it appears."""

    api = FakeApi()
    choice = choose_node(configured="worker-7", identity=api.identity, host_name="10-0-130-70")
    async with scene(*nics(1), api=api, choice=choice) as it:
        await trio.sleep(600)

        assert it.verbs() == []
        (warning,) = warnings(caplog)
        assert "'worker-7'" in warning
        assert "'10-0-130-70'" in warning
        assert it.publisher.statistics().node == ""

        api.nodes[NODE] = Node(name=NODE, uid="late")
        await trio.sleep(31)

        assert [item.owner.uid for item in api.owned() if item.owner] == ["late"]
        assert it.publisher.statistics().node == NODE


async def test_run_publishes_nothing_when_two_names_contradict(
    autojump_clock: MockClock, scene: Open, caplog: pytest.LogCaptureFixture
) -> None:
    """A configured name that the credentials belie is told with both names, and not guessed at."""

    api = FakeApi(Node(name="other", uid="o"), Node(name=NODE, uid="n"), node_name=NODE)
    choice = choose_node(configured="other", identity=api.identity, host_name="h")
    async with scene(*nics(1), api=api, choice=choice) as it:
        await trio.sleep(600)

        assert api.reads + len(it.verbs()) == 0
        (warning,) = warnings(caplog)
        assert "'other'" in warning
        assert f"'{NODE}'" in warning
        assert it.state in warning


async def test_run_takes_the_uid_of_a_node_that_was_made_anew(
    autojump_clock: MockClock, scene: Open
) -> None:
    """The garbage collector took the slices of the old object; the new ones name the new owner."""

    async with scene(*nics(1)) as it:
        it.api.nodes[NODE] = Node(name=NODE, uid="second")
        for item in it.api.owned():
            it.api.drop(item.name)
        await trio.sleep(1)

        assert [item.owner.uid for item in it.api.owned() if item.owner] == ["second"]


async def test_run_writes_nothing_while_its_node_is_deleted(
    autojump_clock: MockClock, scene: Open
) -> None:
    """Without the Node object a slice would be collected at once, again and again."""

    async with scene(*nics(1)) as it:
        node = it.api.nodes.pop(NODE)
        it.api.drop(it.api.owned()[0].name)
        await trio.sleep(600)

        assert it.verbs() == ["create"]
        assert "there is no Node 'worker-7'" in it.state

        it.api.nodes[NODE] = node
        await trio.sleep(31)
        assert it.api.devices() == ["nic-0000"]


async def test_run_removes_the_slices_of_a_renamed_node(
    autojump_clock: MockClock, scene: Open
) -> None:
    """After a rename nothing names the old node any more; other nodes' slices are left alone."""

    api = FakeApi(Node(name=NODE, uid="n"), Node(name="renamed", uid="r"))
    async with scene(*nics(2), api=api) as it:
        await trio.sleep(1)
        mine = api.owned()[0]
        api.put(attrs.evolve(mine, name="00000-berth.dev-other-x", uid="x", node_name="other"))
    async with scene(*nics(2), api=api, choice=NodeChoice(name="renamed", source="t")):
        await trio.sleep(1)

        assert {"renamed", "other"} == {item.node_name for item in api.owned()}
        assert it.history.value == frozenset({"renamed"})


async def test_run_warns_once_when_the_former_node_is_out_of_reach(
    autojump_clock: MockClock, scene: Open, caplog: pytest.LogCaptureFixture
) -> None:
    """Kubelet's credentials may not touch another node: one warning lists the slices."""

    api = FakeApi(Node(name=NODE, uid="n"), Node(name="renamed", uid="r"))
    async with scene(*nics(2), api=api):
        pass
    (mine,) = api.owned()

    def refuse(verb: str, item: Slice) -> None:
        if verb == "delete":
            raise KubeError(item.name, "not yours", status=403)

    api.refuse = refuse
    async with scene(*nics(2), api=api, choice=NodeChoice(name="renamed", source="t")) as it:
        await trio.sleep(600)

        assert mine in api.owned()
        assert len(warnings(caplog)) == 1
        assert mine.name in str([getattr(r, "berth_fields", {}) for r in caplog.records])
        assert it.history.value == frozenset({"renamed", NODE})


async def test_run_cleans_up_after_a_former_node_when_the_server_is_back(
    autojump_clock: MockClock, scene: Open, caplog: pytest.LogCaptureFixture
) -> None:
    """A server that fails meanwhile only delays the removal."""

    api = FakeApi(Node(name=NODE, uid="n"), Node(name="renamed", uid="r"))
    async with scene(*nics(2), api=api):
        pass
    failures = [KubeError("slices", "down")] * 3

    def refuse(verb: str, _item: Slice) -> None:
        if verb == "delete" and failures:
            raise failures.pop()

    api.refuse = refuse
    async with scene(*nics(2), api=api, choice=NodeChoice(name="renamed", source="t")) as it:
        await trio.sleep(10)

        assert {item.node_name for item in api.owned()} == {"renamed"}
        assert it.history.value == frozenset({"renamed"})
    async with scene(*nics(2), api=api, choice=NodeChoice(name="renamed", source="t")):
        assert len(warnings(caplog)) == 3


async def test_run_deletes_a_second_slice_of_the_same_place(
    autojump_clock: MockClock, scene: Open
) -> None:
    """A copy of ours is deleted, and our own delete is no news afterwards."""

    async with scene(*nics(2)) as it:
        mine = it.api.owned()[0]
        it.api.put(attrs.evolve(mine, name=f"{mine.name}x", uid="copy"))
        await trio.sleep(10)

        assert it.api.owned() == [mine]
        assert it.verbs() == ["create", "delete"]
        assert it.publisher.statistics().writes == 2


async def test_run_publishes_a_name_that_comes_twice_once(
    autojump_clock: MockClock, scene: Open
) -> None:
    """Two devices of one name would make the whole pool invalid; the first one counts."""

    async with scene(nic(0, mtu=1), nic(1), nic(0, mtu=2)) as it:
        assert it.api.devices() == ["nic-0000", "nic-0001"]
        assert it.api.owned()[0].devices[0]["attributes"]["mtu"] == {"int": 1}


async def test_run_leaves_a_refusal_alone_that_names_no_device(
    autojump_clock: MockClock, scene: Open, caplog: pytest.LogCaptureFixture
) -> None:
    """A 422 about the pool itself is waited out; no device is blamed for it."""

    def refuse(_verb: str, _item: Slice) -> None:
        raise KubeError("slice", "bad pool", status=422, fields=["spec.pool.name"])

    api = FakeApi(Node(name=NODE, uid="node-uid"))
    api.refuse = refuse
    async with scene(*nics(2), api=api) as it:
        await trio.sleep(600)

        assert len(it.verbs()) < 30
        assert it.publisher.statistics().refused == ()
        assert it.state == f"cannot write pool {POOL}: slice: bad pool"
        assert len(warnings(caplog)) == 1


async def test_run_does_not_repeat_a_delete_that_the_watch_has_not_shown(
    autojump_clock: MockClock, scene: Open
) -> None:
    """Our own requests are known at once, however far the watch lags behind."""

    async with scene(*nics(2)) as it:
        mine = it.api.owned()[0]
        it.api.put(attrs.evolve(mine, name=f"{mine.name}x", uid="copy"))
        it.api.cut_watches()
        await trio.sleep(1)
        it.show(nic(0, mtu=1), nic(1))
        await trio.sleep(1)

        assert it.verbs() == ["create", "delete", "update"]


async def test_run_goes_on_with_a_round_that_was_cut_short(
    autojump_clock: MockClock, scene: Open
) -> None:
    """What a failed round had written stays, and the rest joins it in the same generation."""

    api = FakeApi(Node(name=NODE, uid="node-uid"))

    def refuse(_verb: str, _item: Slice) -> None:
        if len(api.requests) == 2:
            raise KubeError("slices", "down")

    api.refuse = refuse
    async with scene(*nics(129), api=api) as it:
        await trio.sleep(5)

        assert it.verbs() == ["create"] * 4
        assert {(s.generation, s.slice_count) for s in api.owned()} == {(1, 3)}
