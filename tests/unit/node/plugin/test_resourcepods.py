"""Which pod has the NICs that were asked for as resources."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import attrs
import pytest
import trio

from berth.errors import BerthError, ClaimError, HostError
from berth.model.claim import ClaimRef, Consumer
from berth.model.pod import Container, ContainerState, Sandbox
from berth.model.resource import ClaimUsage, ContainerRef, PodUsages, Usage
from berth.nic.config.values import InterfaceConfig, NicConfig
from berth.nic.record import NicRecord, SandboxRef, Stage
from berth.node.holders.nicholders import NicHolders
from berth.node.plugin.allotments import given_shelf
from berth.node.plugin.resourcepods import ASK_S, ResourcePods
from berth.node.plugin.running import mark, mark_name
from berth.node.records.given import Given
from berth.node.records.record import ClaimRecord
from berth.node.records.records import Records
from tests.unit.node.machine import BOOT
from tests.unit.node.peripherals import given, modem
from tests.unit.node.views.scenes import claim_record, nic_record

RESOURCE = "berth.dev/modem"
POD = Sandbox(id="s1", name="user", namespace="team", uid="uid-of-user")
OTHER = Sandbox(id="s2", name="other", namespace="team", uid="uid-of-other")
USER = ContainerRef(namespace="team", pod="user", container="main")


TEAM = Consumer(resource="podgroups", name="team", uid="uid-of-team")
WEB = Consumer(resource="pods", name="web", uid="uid-of-web")


def claim_of(namespace: str, user: Consumer) -> ClaimRecord:
    """A prepared claim whose NIC is to be ``net1``."""
    ref = ClaimRef(namespace=namespace, name="uplink", uid=f"uid-in-{namespace}")
    return claim_record(nic_record(), claim=ref, consumers=(user,))


class Kubelet:
    """Kubelet's PodResources.

    Attributes:
        pods: What each pod has, by its name.
        fault: What every answer is.
        hangs: Whether none comes.
    """

    def __init__(self) -> None:
        self.pods: dict[str, PodUsages] = {}
        self.fault: BerthError | None = None
        self.hangs = False
        self.asked: list[str] = []

    async def get_pod(self, namespace: str, name: str) -> PodUsages | None:
        """Say it."""
        self.asked.append(f"{namespace}/{name}")
        if self.hangs:
            await trio.sleep_forever()
        await trio.lowlevel.checkpoint()
        if self.fault is not None:
            raise self.fault
        return self.pods.get(name)


class Bench:
    """What was given, and who asks."""

    def __init__(self, folder: Path) -> None:
        self.given = given_shelf(folder / "ledger")
        self.kubelet = Kubelet()
        self.claims = Records(folder / "claims")
        holders = NicHolders(self.claims, self.given)
        self.moved: set[tuple[str, str]] = set()
        self.pods = ResourcePods(
            self.given, holders=holders, kubelet=self.kubelet, moved=lambda: self.moved
        )

    async def give(self, number: int = 0, *, stage: Stage = Stage.STAGED, name: str = "") -> None:
        """Let a NIC be given."""
        one = given(modem(number), uid=f"g{number}")
        nic = NicRecord(
            identity=one.devices[0].peripheral.identity,
            device=f"modem-{number}",
            group="fast",
            config=NicConfig(interface=InterfaceConfig(name=name)),
            boot_id=BOOT,
            stage=stage,
        )
        self.moved.add((RESOURCE, f"modem-{number}"))
        await self.given.put(one.with_nic(0, nic))

    def has(self, pod: str, *ids: str, claims: Sequence[str] = ()) -> None:
        """Let kubelet know that a pod has ids, and refers to claims."""
        usage = Usage(container=USER, resource=RESOURCE, ids=ids)
        used = [
            ClaimUsage(
                container=USER, namespace="team", name=name, driver="berth.dev", pool="", device=""
            )
            for name in claims
        ]
        self.kubelet.pods[pod] = PodUsages(usages=(usage,), claims=tuple(used))

    def names(self, pod: Sandbox = POD) -> list[str]:
        """Of the pod's NICs."""
        found = [nic for one in self.pods.of_pod(pod.uid) for nic in one.nics if nic is not None]
        return [nic.config.interface.name for nic in found]


@pytest.fixture(name="bench")
async def _bench(tmp_path: Path) -> Bench:
    bench = Bench(tmp_path)
    await bench.given.load()
    await bench.claims.load()
    return bench


async def test_pod_has_what_kubelet_says(bench: Bench) -> None:
    """Under names that are numbered through all that it asked for."""

    await bench.give(0)
    await bench.give(1)
    await bench.give(2)
    bench.has("user", "modem-0", "modem-2")
    await bench.pods.learn(POD)

    assert [one.uid for one in bench.pods.of_pod(POD.uid)] == ["g0", "g2"]
    assert bench.names() == ["net1", "net2"]
    assert bench.pods.of_pod(OTHER.uid) == ()


@pytest.mark.parametrize("name", ["", "lan"])
async def test_pod_that_is_asked_about_twice_at_once_keeps_the_names_of_its_nics(
    bench: Bench, name: str
) -> None:
    """By its container's hook, and by the task that asks late: it is in its own way nowhere."""

    await bench.give(0, name=name)
    await bench.give(1)
    bench.has("user", "modem-0", "modem-1")
    async with trio.open_nursery() as both:
        for _ in range(2):
            both.start_soon(bench.pods.mark, POD, [marked(POD, "modem-0", "modem-1")])

    assert bench.names() == (["lan", "net1"] if name else ["net1", "net2"])


async def test_nic_that_waits_is_not_the_nic_of_a_pod_without_a_uid(bench: Bench) -> None:
    """A runtime may know no more of a sandbox than its id."""

    await bench.give(0)
    assert bench.pods.of_pod("") == ()


async def test_kubelet_is_asked_only_while_a_nic_waits_for_its_pod(bench: Bench) -> None:
    """Every other pod starts without waiting for anybody."""

    await bench.pods.learn(POD)
    await bench.give(0, stage=Stage.LENT)
    await bench.pods.learn(POD)
    assert bench.kubelet.asked == []

    await bench.give(1)
    await bench.pods.learn(OTHER)
    assert bench.kubelet.asked == ["team/other"]
    bench.has("user", "modem-1")
    await bench.pods.learn(POD)
    await bench.pods.learn(OTHER)
    assert bench.kubelet.asked == ["team/other", "team/user"]


def marked(pod: Sandbox, *ids: str) -> Container:
    """A container that says that it was given ids."""
    name, _, value = mark(RESOURCE, ids).partition("=")
    state = ContainerState.CREATED
    return Container(id="c", sandbox_id=pod.id, name="main", state=state, env={name: value})


@pytest.mark.parametrize("hangs", [False, True])
async def test_silent_kubelet_keeps_only_a_pod_with_a_nic_from_starting(
    bench: Bench, autojump_clock: trio.testing.MockClock, *, hangs: bool
) -> None:
    """Its container is refused until kubelet says whose the NIC is."""

    await bench.give(0)
    bench.kubelet.fault, bench.kubelet.hangs = HostError("kubelet.sock", "no answer"), hangs
    began = trio.current_time()
    await bench.pods.learn(POD)
    assert trio.current_time() - began <= ASK_S
    await bench.pods.mark(OTHER, [Container(id="c", sandbox_id="s2", env={"PATH": "/bin"})])
    with pytest.raises(ClaimError, match="kubelet does not say which"):
        await bench.pods.mark(POD, [marked(POD, "modem-0")])
    assert bench.pods.of_pod(POD.uid) == ()

    bench.kubelet.fault, bench.kubelet.hangs = None, False
    bench.has("user", "modem-0")
    await bench.pods.mark(POD, [marked(POD, "modem-0")])
    assert bench.names() == ["net1"]


async def test_container_says_by_its_mark_what_it_was_given(bench: Bench) -> None:
    """Of any kind, moved or not; what is being undone is nobody's."""

    await bench.given.put(given(modem(0), uid="g0"))
    await bench.given.put(attrs.evolve(given(modem(1), uid="g1"), revoked=True))

    asked = bench.pods.asked_by(marked(POD, "modem-0", "modem-1"))

    assert [one.uid for one in asked] == ["g0"]
    assert bench.pods.asked_by(Container(id="c", sandbox_id="s1")) == ()


async def test_mark_that_somebody_wrote_into_a_pod_gives_nothing(bench: Bench) -> None:
    """Kubelet has the word: an environment is its author's."""

    await bench.give(0)
    bench.has("user", "modem-0")
    with pytest.raises(
        ClaimError, match=r"says that it has modem-0 of .* no pod sets BERTH_PLUGIN_"
    ):
        await bench.pods.mark(OTHER, [marked(OTHER, "modem-0")])
    assert bench.pods.of_pod(OTHER.uid) == ()

    await bench.pods.learn(POD)
    assert bench.names() == ["net1"]
    await bench.pods.mark(OTHER, [marked(OTHER, "modem-0")])
    assert bench.pods.of_pod(OTHER.uid) == ()


@pytest.mark.parametrize("value", ["", "hidden", f"{RESOURCE}:modem-1", "other.dev/modem:modem-0"])
async def test_mark_that_a_pod_hides_shows_by_its_name(bench: Bench, value: str) -> None:
    """A value of the author's goes over kubelet's, and the pod has its NIC all the same."""

    await bench.give(0)
    await bench.give(1)
    bench.has("other", "modem-1")
    await bench.pods.learn(OTHER)
    bench.kubelet.fault = HostError("kubelet.sock", "no answer")
    await bench.pods.learn(POD)
    hidden = Container(id="c", sandbox_id=POD.id, name="main", env={mark_name(RESOURCE): value})
    with pytest.raises(ClaimError, match="kubelet does not say which"):
        await bench.pods.mark(POD, [hidden])

    bench.kubelet.fault = None
    bench.has("user", "modem-0")
    await bench.pods.mark(POD, [hidden])
    assert [one.uid for one in bench.pods.of_pod(POD.uid)] == ["g0"]
    assert [one.uid for one in bench.pods.of_pod(OTHER.uid)] == ["g1"]


async def test_container_of_a_pod_that_has_its_nic_asks_nobody(bench: Bench) -> None:
    """It starts again though kubelet is silent, and another NIC of the resource waits."""

    await bench.give(0)
    await bench.give(1)
    bench.has("user", "modem-0")
    await bench.pods.learn(POD)
    bench.kubelet.hangs = True
    bench.kubelet.asked.clear()

    await bench.pods.mark(POD, [marked(POD, "modem-0")])
    assert bench.kubelet.asked == []


@pytest.mark.parametrize(
    "value",
    ["", "hidden", f"{RESOURCE}:modem-0,modem-1", f"{RESOURCE}:modem-9", "other.dev/fax:modem-0"],
)
async def test_mark_that_says_more_than_the_pod_is_known_to_have_is_a_question(
    bench: Bench, value: str
) -> None:
    """What a pod's author writes proves nothing."""

    await bench.give(0)
    await bench.give(1)
    bench.has("user", "modem-0")
    await bench.pods.learn(POD)
    bench.kubelet.fault = HostError("kubelet.sock", "no answer")
    asking = Container(id="c", sandbox_id=POD.id, name="main", env={mark_name(RESOURCE): value})

    with pytest.raises(ClaimError, match="kubelet does not say which"):
        await bench.pods.mark(POD, [marked(POD, "modem-0"), asking])


async def test_container_that_kubelet_does_not_show_is_refused_its_nic(bench: Bench) -> None:
    """An init container that ends: whose NIC it is, nobody tells, and it must not start without."""

    await bench.give(0)
    bench.kubelet.pods["user"] = PodUsages()

    with pytest.raises(ClaimError, match=r"modem-0 of .*of init containers kubelet shows those"):
        await bench.pods.mark(POD, [marked(POD, "modem-0")])
    assert bench.pods.of_pod(POD.uid) == ()


async def test_init_container_with_more_nics_than_run_on_is_refused_what_kubelet_never_shows(
    bench: Bench,
) -> None:
    """Also when nothing tells any more that it was given: it must not start without."""

    await bench.give(0)
    await bench.give(1)
    bench.has("user", "modem-0")
    first, main = marked(POD, "modem-0", "modem-1"), marked(POD, "modem-0")
    told = r"says that it has modem-1 of .*as many of it, together, as each init container that end"

    for _ in range(2):
        with pytest.raises(ClaimError, match=told):
            await bench.pods.mark(POD, [first])
        await bench.given.delete("g1")
    await bench.pods.mark(POD, [main])
    assert [one.uid for one in bench.pods.of_pod(POD.uid)] == ["g0"]


async def test_container_whose_record_is_lost_waits_for_it(bench: Bench) -> None:
    """Kubelet shows that it has the NIC; the books are made anew by that soon."""

    await bench.give(0)
    await bench.given.delete("g0")
    bench.has("user", "modem-0")
    with pytest.raises(ClaimError, match=r"has modem-0 of .*, not ready yet"):
        await bench.pods.mark(POD, [marked(POD, "modem-0")])

    await bench.give(0)
    await bench.pods.mark(POD, [marked(POD, "modem-0")])
    assert bench.names() == ["net1"]


async def test_unknown_device_that_is_not_moved_asks_nobody(bench: Bench) -> None:
    """A container has that by kubelet alone."""

    await bench.pods.mark(POD, [marked(POD, "modem-0")])
    assert bench.kubelet.asked == []


async def test_name_of_the_group_is_taken_and_the_next_is_numbered(bench: Bench) -> None:
    """A free one beside it."""

    await bench.give(0, name="fast0")
    await bench.give(1)
    bench.has("user", "modem-0", "modem-1")
    await bench.pods.learn(POD)

    assert bench.names() == ["fast0", "net1"]


async def test_name_of_the_group_may_be_a_number(bench: Bench) -> None:
    """Whatever order kubelet asked in, and again in the next pod."""

    await bench.give(0)
    await bench.give(1, name="net1")
    await bench.give(2, name="net7")
    bench.has("user", "modem-0", "modem-1", "modem-2")
    await bench.pods.learn(POD)
    assert bench.names() == ["net2", "net1", "net7"]

    again = attrs.evolve(POD, id="s9", uid="uid-of-successor")
    container = marked(again, "modem-0", "modem-1", "modem-2")
    await bench.pods.mark(again, [container])
    assert bench.names(again) == ["net2", "net1", "net7"]


async def test_two_nics_of_one_name_are_refused(bench: Bench) -> None:
    """By name, and with what to do."""

    await bench.give(0, name="fast0")
    await bench.give(1, name="fast0")
    bench.has("user", "modem-0", "modem-1")

    with pytest.raises(
        ClaimError, match=r'is to be "fast0" in pod team/user.*drop interface\.name'
    ):
        await bench.pods.learn(POD)


@pytest.mark.parametrize(
    ("user", "refers", "names"),
    [
        (TEAM, False, ["net2", "data0"]),
        (WEB, True, ["net2", "data0"]),
        (WEB, False, ["net1", "data0"]),
    ],
)
async def test_name_of_a_claim_that_the_pod_has_too_is_left_to_it(
    bench: Bench, user: Consumer, names: list[str], *, refers: bool
) -> None:
    """It names another pod, or a group: kubelet tells of containers that refer to it."""

    await bench.claims.put(claim_of("team", user))
    await bench.claims.put(claim_of("elsewhere", TEAM))
    await bench.give(0)
    await bench.give(1, name="data0")
    bench.has("user", "modem-0", "modem-1", claims=["uplink"] if refers else [])
    await bench.pods.learn(POD)

    assert bench.names() == names


async def test_wished_name_of_a_claim_that_the_pod_refers_to_is_refused(bench: Bench) -> None:
    """Another one of a group, which may be of other pods, is no fault."""

    await bench.claims.put(claim_of("team", TEAM))
    await bench.give(0, name="net1")
    bench.has("user", "modem-0", claims=["uplink"])
    with pytest.raises(ClaimError, match=r'is to be "net1" in pod team/user'):
        await bench.pods.learn(POD)

    bench.has("user", "modem-0")
    await bench.pods.learn(POD)
    assert bench.names() == ["net1"]


async def test_nic_that_is_in_another_pod_yet_is_refused(bench: Bench) -> None:
    """Kubelet asks again by itself."""

    await bench.give(0)
    bench.has("user", "modem-0")
    await bench.pods.learn(POD)
    (one,) = bench.pods.of_pod(POD.uid)
    await bench.given.put(_away(one))
    await bench.give(1)
    bench.has("other", "modem-0")

    with pytest.raises(ClaimError, match="is still in pod team/user"):
        await bench.pods.learn(OTHER)


async def test_what_has_ended_is_no_pods(bench: Bench) -> None:
    """A late sandbox of it gets nothing."""

    await bench.give(0)
    bench.has("user", "modem-0")
    await bench.pods.learn(POD)
    (one,) = bench.pods.of_pod(POD.uid)
    await bench.given.put(attrs.evolve(one, revoked=True))

    assert bench.pods.of_pod(POD.uid) == ()


def _away(one: Given) -> Given:
    nic = one.nics[0]
    assert nic is not None
    place = SandboxRef(
        id="s1", pod_uid=POD.uid, pod="team/user", netns_path="/run/netns/a", netns_inode=1
    )
    return one.with_nic(0, attrs.evolve(nic, stage=Stage.ATTACHED, sandbox=place))


async def test_container_of_a_pod_whose_nic_is_not_ready_is_refused(bench: Bench) -> None:
    """It would start without."""

    await bench.give(0)
    bench.has("user", "modem-0")
    (one,) = bench.given.all()
    await bench.given.put(attrs.evolve(one, prepared=False))

    with pytest.raises(ClaimError, match=r"has modem-0 of .*, not ready yet"):
        await bench.pods.mark(POD, [marked(POD, "modem-0")])
