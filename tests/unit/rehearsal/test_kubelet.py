"""The stand-in for kubelet: what it decides, by the clock of the test and without a socket."""

import os
import socket
from pathlib import Path
from typing import Any, cast

import attrs
import pytest
import trio
from trio.testing import MockClock

from berth.errors import KubeError, RemoteProtocolError
from berth.model.claim import ClaimRef
from berth.pb import dra_v1_pb2, dra_v1beta1_pb2
from berth.pb import pluginregistration_pb2 as pb
from berth.rehearsal.kubelet import Act, Kubelet, Note
from berth.rehearsal.kubelet.calls import TOKENS, call_driver, devices_of
from berth.rehearsal.kubelet.registry import Instance, find_sockets, judge
from berth.runtime.grpcbridge import GrpcChannel
from berth.runtime.methods import RpcError, Status

DRIVER = "berth.dev"
CLAIM = ClaimRef(namespace="ns", name="claim", uid="uid-1")


class Channel:
    """Answers a call as it is told to, and remembers what it was asked."""

    def __init__(self, answer: object = None) -> None:
        self.answer = answer
        self.asked: list[tuple[str, Any]] = []
        self.left_s = 0.0

    async def unary(self, method: str, request: Any, reply: type[Any]) -> Any:
        """Answer."""
        await trio.lowlevel.checkpoint()
        self.asked.append((method, request))
        self.left_s = trio.current_effective_deadline() - trio.current_time()
        if self.answer is None:
            await trio.sleep_forever()
        if isinstance(self.answer, Exception):
            raise self.answer
        assert isinstance(self.answer, reply)
        return self.answer


def instance(channel: Channel, *, endpoint: str = "/e", connected: bool = True) -> Instance:
    """Give a registered plugin."""
    return Instance(
        driver=DRIVER,
        endpoint=endpoint,
        token="v1.DRAPlugin",
        channel=cast("GrpcChannel", channel),
        connected=connected,
    )


def prepared(**errors: str) -> dra_v1_pb2.NodePrepareResourcesResponse:
    """Give an answer with these entries, empty texts for success."""
    entries = {uid: dra_v1_pb2.NodePrepareResourceResponse(error=e) for uid, e in errors.items()}
    return dra_v1_pb2.NodePrepareResourcesResponse(claims=entries)


@attrs.define
class Life:
    """A kubelet without sockets."""

    kubelet: Kubelet
    notes: list[Note]
    wipes: list[tuple[str | None, float]]

    def set_instances(self, *instances: Instance) -> None:
        """Put other instances there, as the registry would."""
        self.kubelet._registry.instances[:] = instances
        self.kubelet._look_at(DRIVER)


def life(tmp_path: Path, *failures: KubeError) -> Life:
    """Give a life of kubelet whose first wipes fail as told."""
    notes: list[Note] = []
    wipes: list[tuple[str | None, float]] = []
    left = list(failures)

    async def wipe(driver: str | None) -> None:
        await trio.lowlevel.checkpoint()
        wipes.append((driver, trio.current_time()))
        if left:
            raise left.pop(0)

    kubelet = Kubelet(cast("Any", None), root=tmp_path, wipe=wipe, report=notes.append)
    return Life(kubelet=kubelet, notes=notes, wipes=wipes)


async def test_run_deletes_all_slices_at_its_start_and_tries_again(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    """Every driver's slices go when kubelet starts, however often that fails before."""

    it = life(tmp_path, KubeError("slices", "down"), KubeError("slices", "down"))
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        await nursery.start(it.kubelet.run)
        await trio.sleep(60)
        nursery.cancel_scope.cancel()

    assert [(driver, round(at - began)) for driver, at in it.wipes] == [
        (None, 0),
        (None, 1),
        (None, 3),
    ]
    assert [note.act for note in it.notes] == [Act.WIPE_FAILED, Act.WIPE_FAILED, Act.WIPED]


@pytest.mark.parametrize(("away_s", "wiped"), [(29, 0), (31, 1), (300, 1)])
async def test_driver_that_stays_away_loses_its_slices(
    autojump_clock: MockClock, tmp_path: Path, away_s: float, wiped: int
) -> None:
    """After 30 s without a connected instance the slices go, once; before that none does."""

    it = life(tmp_path)
    plugin = instance(Channel())
    async with trio.open_nursery() as nursery:
        await nursery.start(it.kubelet.run)
        it.set_instances(plugin)
        await trio.sleep(100)
        plugin.connected = False
        it.set_instances(plugin)
        await trio.sleep(away_s)
        plugin.connected = True
        it.set_instances(plugin)
        await trio.sleep(100)
        nursery.cancel_scope.cancel()

    assert [driver for driver, _ in it.wipes] == [None, *[DRIVER] * wiped]


async def test_prepare_calls_the_newest_connected_instance(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    """Of several instances the newest that is connected is called, else the newest."""

    first, second = Channel(prepared(**{"uid-1": ""})), Channel(prepared(**{"uid-1": ""}))
    it = life(tmp_path)
    it.set_instances(instance(first), instance(second, connected=False))
    await it.kubelet.prepare(DRIVER, [CLAIM])
    it.set_instances(instance(first, connected=False), instance(second, connected=False))
    await it.kubelet.prepare(DRIVER, [CLAIM])

    assert (len(first.asked), len(second.asked)) == (1, 1)
    assert first.left_s == pytest.approx(45.0)
    assert first.asked[0][0] == "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/NodePrepareResources"
    assert first.asked[0][1].claims[0] == dra_v1_pb2.Claim(
        namespace="ns", name="claim", uid="uid-1"
    )


async def test_prepare_refuses_a_successor_until_the_old_claim_is_gone(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    """A claim of the same name and another UID waits for the unprepare of the first."""

    successor = attrs.evolve(CLAIM, uid="uid-2")
    channel = Channel(prepared(**{"uid-1": ""}))
    it = life(tmp_path)
    it.set_instances(instance(channel))
    await it.kubelet.prepare(DRIVER, [CLAIM])
    with pytest.raises(RemoteProtocolError, match="an old claim ns/claim"):
        await it.kubelet.prepare(DRIVER, [successor])

    channel.answer = dra_v1_pb2.NodeUnprepareResourcesResponse(
        claims={"uid-1": dra_v1_pb2.NodeUnprepareResourceResponse()}
    )
    await it.kubelet.unprepare(DRIVER, [CLAIM])
    channel.answer = prepared(**{"uid-2": ""})
    assert await it.kubelet.prepare(DRIVER, [successor]) == {"uid-2": ()}


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (prepared(**{"uid-1": "no such NIC"}), "failed for ResourceClaim claim: no such NIC"),
        (prepared(), "skipped 1 ResourceClaims"),
        (prepared(**{"uid-1": "", "uid-9": ""}), "not asked for: uid-9"),
        (
            RpcError("m", "socket closed", code=Status.UNAVAILABLE),
            "rpc error: code = UNAVAILABLE desc = socket closed",
        ),
        (None, "rpc error: code = DEADLINE_EXCEEDED"),
    ],
)
async def test_call_fails_in_kubelets_words(
    autojump_clock: MockClock, tmp_path: Path, answer: object, text: str
) -> None:
    """Whatever is wrong with an answer fails the whole call, and is reported."""

    it = life(tmp_path)
    it.set_instances(instance(Channel(answer)))
    began = trio.current_time()
    with pytest.raises(RemoteProtocolError, match=text):
        await it.kubelet.prepare(DRIVER, [CLAIM])

    assert trio.current_time() - began == pytest.approx(0 if answer else 45)
    assert [note.act for note in it.notes] == [Act.CALL_FAILED]


async def test_call_speaks_the_version_that_was_advertised() -> None:
    """A driver registered by v1beta1 is called by it, and has no shares."""

    device = dra_v1beta1_pb2.Device(pool_name="p", device_name="d", request_names=["r"])
    entry = dra_v1beta1_pb2.NodePrepareResourceResponse(devices=[device])
    reply = dra_v1beta1_pb2.NodePrepareResourcesResponse(claims={"uid-1": entry})
    channel = Channel(reply)
    entries = await call_driver(
        cast("GrpcChannel", channel), "v1beta1.DRAPlugin", "NodePrepareResources", [CLAIM]
    )

    assert channel.asked[0][0].startswith("/k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin/")
    assert [(d.requests, d.share_id) for d in devices_of(entries["uid-1"])] == [(("r",), None)]
    assert list(TOKENS) == ["v1.DRAPlugin", "v1beta1.DRAPlugin"]


@pytest.mark.parametrize(
    ("info", "fault"),
    [
        (pb.PluginInfo(type="DRAPlugin", name=DRIVER, supported_versions=["v1.DRAPlugin"]), ""),
        (
            pb.PluginInfo(
                type="DRAPlugin", name=DRIVER, supported_versions=["v9.X", "v1beta1.DRAPlugin"]
            ),
            "",
        ),
        (pb.PluginInfo(type="CSIPlugin", name=DRIVER), "no handler registered"),
        (pb.PluginInfo(type="DRAPlugin", supported_versions=["v1.DRAPlugin"]), "no name"),
        (pb.PluginInfo(type="DRAPlugin", name=DRIVER, supported_versions=["v1"]), "no supported"),
    ],
)
def test_judge_takes_what_kubelet_takes(info: pb.PluginInfo, fault: str) -> None:
    """Type, name and one known version are what it needs."""

    assert fault in judge(info, "/e", [])
    assert bool(judge(info, "/e", [])) is bool(fault)


def test_judge_refuses_an_endpoint_twice() -> None:
    """One endpoint of a driver is registered once; another one beside it is welcome."""

    info = pb.PluginInfo(type="DRAPlugin", name=DRIVER, supported_versions=["v1.DRAPlugin"])

    assert "already registered" in judge(info, "/e", [instance(Channel())])
    assert judge(info, "/other", [instance(Channel())]) == ""


def test_find_sockets_sees_what_kubelet_sees(tmp_path: Path) -> None:
    """Sockets, also in folders below; no hidden names, no other files; one made anew is another."""

    def bind(name: str) -> None:
        before = Path.cwd()
        os.chdir(tmp_path)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(name)
        os.chdir(before)

    (tmp_path / "sub").mkdir()
    (tmp_path / ".hidden").mkdir()
    (tmp_path / "file").touch()
    for name in ("a.sock", "sub/b.sock", ".c.sock", ".hidden/d.sock"):
        bind(name)
    # The kernel's clock for files is coarse, and the new file may get the old one's inode.
    os.utime(tmp_path / "a.sock", ns=(1, 1))
    found = find_sockets(tmp_path)
    (tmp_path / "a.sock").unlink()
    bind("a.sock")

    assert set(found) == {tmp_path / "a.sock", tmp_path / "sub" / "b.sock"}
    assert find_sockets(tmp_path)[tmp_path / "a.sock"] != found[tmp_path / "a.sock"]
    assert find_sockets(tmp_path / "missing") == {}
