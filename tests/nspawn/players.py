"""Plays the cluster around a real berthd: API server, kubelet and runtime, on the real paths.

Started inside a container as a unit of its own, with the package's code on its path. It serves
`SOCKET`: each line is a JSON list, a verb and pod names; each answer is one JSON value.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any, Final

import trio

from berth.rehearsal.apiserver.callers import Caller, Role
from berth.rehearsal.apiserver.server import ApiServer, kubeconfig_json
from berth.rehearsal.checks import holds
from berth.rehearsal.cluster import Cluster
from berth.rehearsal.kubelet import Kubelet, Note
from berth.rehearsal.manifests import pod_using
from berth.rehearsal.pods import Pod, Pods
from berth.rehearsal.runtime import Runtime
from berth.rehearsal.sandbox import netns_name
from berth.runtime.asyncthread import AsyncioThread, open_asyncio_thread
from berth.runtime.methods import RpcError

SOCKET: Final = "/run/players.sock"
KUBECONFIG: Final = "/etc/berth/kubeconfig"
NODE: Final = "node"
DRIVER: Final = "berth.dev"
PORT: Final = 6443
TOKEN: Final = "played"
SUBNET: Final = "192.0.2"


class Players:
    """The cluster, its kubelet, and the pods on its one node."""

    def __init__(self, thread: AsyncioThread) -> None:
        account = "system:serviceaccount:kube-system:berthd"
        caller = Caller(name=account, role=Role.ACCOUNT, node=NODE, driver=DRIVER)
        self.api = ApiServer(tokens={TOKEN: caller})
        self.cluster = Cluster(self.api, node=NODE, driver=DRIVER)
        self.runtime = Runtime()
        self.notes: list[Note] = []
        self.kubelet = Kubelet(
            thread, root=Path("/var/lib/kubelet"), wipe=self.cluster.wipe, report=self.notes.append
        )
        self._pods = Pods(self.cluster, self.runtime)
        self._running: dict[str, Pod] = {}

    async def run(self) -> None:
        """Play until cancelled."""
        self.cluster.open()
        listeners = await trio.open_tcp_listeners(PORT, host="127.0.0.1")
        server = f"http://127.0.0.1:{PORT}"
        await trio.Path(KUBECONFIG).write_bytes(kubeconfig_json(server, token=TOKEN).encode())
        async with trio.open_nursery() as nursery:
            await nursery.start(self.api.serve, listeners)
            await nursery.start(self.runtime.serve)
            await nursery.start(self.kubelet.run)
            commands = trio.socket.socket(trio.socket.AF_UNIX)
            await commands.bind(SOCKET)
            commands.listen()
            await trio.serve_listeners(self._serve, [trio.SocketListener(commands)])

    async def _serve(self, client: trio.SocketStream) -> None:
        line = b""
        while not line.endswith(b"\n"):
            line += await client.receive_some()
        verb, *names = json.loads(line)
        try:
            answer = await self._do(verb, names)
        except Exception as error:  # noqa: BLE001 - whatever it is, the test is told
            answer = {"error": repr(error)}
        await client.send_all(json.dumps(answer).encode())

    async def _do(self, verb: str, names: list[str]) -> Any:
        if verb == "ready":
            await self.kubelet.wait_driver(DRIVER)
            await self.runtime.wait_plugins()
            await holds(lambda: self._offers(int(names[0])), limit_s=60)
        elif verb == "start":
            async with trio.open_nursery() as nursery:
                for name in names:
                    nursery.start_soon(self._start, name)
            return {name: netns_name(self._running[name].running) for name in names}
        elif verb == "stop":
            for name in names:
                await self._pods.stop(self._running.pop(name), self.kubelet)
        return Counter(note.act.name for note in self.notes)

    async def _offers(self, count: int) -> bool:
        await trio.lowlevel.checkpoint()
        return len(self.cluster.devices()) == count

    async def _start(self, name: str) -> None:
        config = {
            "apiVersion": "berth.dev/v1alpha1",
            "kind": "NicConfig",
            "interface": {"name": "net1"},
            "addresses": [{"address": f"{SUBNET}.{10 + int(name.removeprefix('pod'))}/24"}],
        }
        device = {"name": "nic", "exactly": {"deviceClassName": f"nic.{DRIVER}"}}
        opaque = {"opaque": {"driver": DRIVER, "parameters": config}}
        self.cluster.add_claim(
            {
                "metadata": {"name": name, "namespace": "default"},
                "spec": {"devices": {"requests": [device], "config": [opaque]}},
            }
        )
        pod, _ = self.cluster.schedule(pod_using(name, {"resourceClaimName": name}))
        found = self._running[name] = self._pods.found(pod)
        await self._pods.prepare(found, self.kubelet)
        await self._pods.run_sandbox(found)
        while not found.containers:
            # Refused while its NIC is not there yet; kubelet tries again.
            with contextlib.suppress(RpcError):
                await self._pods.run_containers(found)
            await trio.sleep(0.2)


async def main() -> None:
    """Play."""
    async with open_asyncio_thread() as thread:
        await Players(thread).run()


if __name__ == "__main__":
    sys.exit(trio.run(main))
