"""Verdicts as taints on an API server: sent at once, taken, put back, and left alone."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from berth.dra.history import node_history
from berth.dra.nodename import NodeChoice
from berth.dra.publisher import Publisher
from berth.health.taints import Rules
from berth.kube.client import KubeClient
from berth.kube.credentials import Credentials
from berth.kube.server import KubeServer
from berth.kube.sources import Choice
from berth.model.inventory import Inventory
from berth.node.health.offered import Offered
from berth.rehearsal.apiserver.gates import GATES_1_34, GATES_1_37, TAINTS
from berth.rehearsal.apiserver.resources import NODES, SLICES
from berth.rehearsal.apiserver.server import ApiServer, kubeconfig_json
from berth.runtime.files import Folder
from berth.runtime.latest import Latest
from tests.unit.dra.shelf import nics
from tests.unit.node.verdicts import DEGRADED, SICK, UNASKED, WELL, Judge

LIMIT_S = 20.0
FOREIGN = {"key": "ops.example/repair", "value": "tuesday", "effect": "NoSchedule"}
EVICTING = Rules(driver="berth.dev", evict=frozenset({"xid-79"}))


@attrs.define
class Scene:
    """A server, and what publishes on it."""

    server: ApiServer
    judge: Judge

    @property
    def taints(self) -> dict[str, list[tuple[str, str, str]]]:
        """Key, value and effect of each taint, by device."""
        return {
            device["name"]: [
                (taint["key"], taint.get("value", ""), taint["effect"])
                for taint in device["taints"]
            ]
            for device in self._devices()
            if device.get("taints")
        }

    @property
    def taints_of_all(self) -> dict[str, list[tuple[str, str, str]]]:
        """The same, with the devices that have none."""
        return {device["name"]: self.taints.get(device["name"], []) for device in self._devices()}

    @property
    def times(self) -> dict[str, str]:
        """When each taint was added, by its value."""
        return {
            taint["value"]: taint["timeAdded"]
            for device in self._devices()
            for taint in device.get("taints", ())
        }

    @property
    def writes(self) -> list[str]:
        """Verbs of the writes of slices so far."""
        return [one.method for one in self.server.seen if one.is_write]

    async def wait(self, condition: Callable[[Scene], bool]) -> None:
        """Wait until the server is like this."""
        while True:
            if condition(self):
                return
            await trio.sleep(0.01)

    def edit(self, name: str, *taints: Mapping[str, str]) -> None:
        """Let another hand give a device these taints, in the place of what it has."""
        (item,) = self.server.objects(SLICES)
        devices = [
            {**one, "taints": list(taints)} if one["name"] == name else one
            for one in item["spec"]["devices"]
        ]
        self.server.patch(SLICES, item["metadata"]["name"], {"spec": {"devices": devices}})

    def _devices(self) -> list[dict[str, Any]]:
        return [one for item in self.server.objects(SLICES) for one in item["spec"]["devices"]]


@asynccontextmanager
async def publishing(
    path: Path, judge: Judge, *, rules: Rules = EVICTING, **server: Any
) -> AsyncIterator[Scene]:
    """A node that publishes two devices on a server of this kind."""
    made = ApiServer(**server)
    made.put(NODES, {"metadata": {"name": "worker-7"}})
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    address = f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}"
    (path / "kubeconfig").write_text(kubeconfig_json(address))
    choice = Choice(kind="kubeconfig", path=str(path / "kubeconfig"))
    client = KubeClient(Credentials(choice, environment={}))
    await client.credentials.login()
    offered = Offered(Latest(Inventory(devices=nics(2))), judge.inquiry(rules))
    publisher = Publisher(
        api=KubeServer(client),
        driver="berth.dev",
        inventory=offered.inventory,
        choice=NodeChoice(name="worker-7"),
        history=node_history(Folder(path)),
    )
    scene = Scene(server=made, judge=judge)
    async with trio.open_nursery() as nursery:
        await nursery.start(made.serve, listeners)
        nursery.start_soon(offered.run)
        nursery.start_soon(publisher.run)
        with trio.fail_after(LIMIT_S):
            await scene.wait(lambda now: bool(now.server.objects(SLICES)))
            yield scene
            await client.aclose()
        nursery.cancel_scope.cancel()


async def test_verdict_comes_and_goes_as_a_taint(tmp_path: Path) -> None:
    """Each change is one write of one slice; what was asked again is none."""

    judge = Judge(nic_0000=WELL, nic_0001=WELL)
    async with publishing(tmp_path, judge) as scene:
        judge.tell({"nic-0000": SICK, "nic-0001": DEGRADED})
        await scene.wait(lambda now: len(now.taints) == 2)
        assert scene.taints == {
            "nic-0000": [("berth.dev/fault", "xid-79", "NoExecute")],
            "nic-0001": [("berth.dev/degraded", "xid-63", "None")],
        }
        added = scene.times
        judge.tell({"nic-0000": attrs.evolve(SICK, observed_s=7, message="still"), "x": WELL})
        judge.tell({"nic-0001": UNASKED})
        await scene.wait(lambda now: "unasked" in now.times)
        assert scene.times["xid-79"] == added["xid-79"]
        judge.tell({"nic-0000": WELL, "nic-0001": WELL})
        await scene.wait(lambda now: not now.taints)
        assert scene.writes == ["POST", "PUT", "PUT", "PUT"]


async def test_taints_of_ours_come_back_and_others_are_left_alone(tmp_path: Path) -> None:
    """Whoever takes ours away gets them again; nobody fights over his own."""

    judge = Judge(nic_0000=SICK, nic_0001=WELL)
    async with publishing(tmp_path, judge) as scene:
        ours = ("berth.dev/fault", "xid-79", "NoExecute")
        foreign = tuple(FOREIGN.values())
        assert scene.taints == {"nic-0000": [ours]}
        scene.edit("nic-0001", FOREIGN)
        scene.edit("nic-0000")
        await scene.wait(lambda now: "nic-0000" in now.taints)
        assert scene.taints == {"nic-0000": [ours], "nic-0001": [foreign]}

        judge.tell({"nic-0001": SICK})
        await scene.wait(lambda now: len(now.taints["nic-0001"]) == 2)
        assert scene.taints["nic-0001"] == [ours, foreign]
        assert scene.writes == ["POST", "PUT", "PUT"]


@pytest.mark.parametrize(
    ("gates", "version", "told"),
    [
        (GATES_1_34, "1.34.4", {"nic-0001": []}),
        (
            frozenset({*GATES_1_34, TAINTS}),
            "1.34.4",
            {"nic-0000": [("berth.dev/fault", "xid-79", "NoExecute")], "nic-0001": []},
        ),
        (GATES_1_37 - {TAINTS}, "1.37.2", {"nic-0001": []}),
    ],
)
async def test_server_that_takes_less_is_sent_nothing_in_vain(
    tmp_path: Path, gates: frozenset[str], version: str, told: dict[str, Any]
) -> None:
    """Effect ``None`` is not sent where it is refused; what no taint can guard leaves the slice."""

    judge = Judge(nic_0000=WELL, nic_0001=WELL)
    async with publishing(tmp_path, judge, gates=gates, version=version) as scene:
        judge.tell({"nic-0000": SICK, "nic-0001": DEGRADED})
        await scene.wait(lambda now: now.taints_of_all == told)
        writes = list(scene.writes)
        assert len(writes) <= 3
        judge.tell({"nic-0001": UNASKED})
        await trio.sleep(0.2)

        assert (scene.taints_of_all, scene.writes) == (told, writes)
