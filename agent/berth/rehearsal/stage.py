"""Everything on its place: the world, the stand-ins, the daemon's settings, and the daemon.

`Stage.run` plays the API server, kubelet and the runtime until it is cancelled; who directs it
(the story, a test) starts the daemon and lets pods come and go.
"""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import attrs
import trio

from berth.config.finding import toml_text
from berth.dra.registration import Places
from berth.errors import LocalProtocolError
from berth.rehearsal.apiserver.callers import Caller, Role
from berth.rehearsal.apiserver.gates import DECLARED, GATES_1_37
from berth.rehearsal.apiserver.server import ApiServer, kubeconfig_json
from berth.rehearsal.child import Berthd
from berth.rehearsal.cluster import Cluster
from berth.rehearsal.kubelet import Act, Kubelet, KubeletDevices, Note
from berth.rehearsal.pods import Pods
from berth.rehearsal.runtime import NRI_SOCKET, Runtime
from berth.rehearsal.world import NODE, ROOT, World
from berth.runtime.asyncthread import AsyncioThread, open_asyncio_thread
from berth.runtime.files import write_file

T = TypeVar("T")

TOKEN: Final = "rehearsal"  # noqa: S105 - it opens a server that lives for seconds, on loopback
ACCOUNT: Final = "system:serviceaccount:kube-system:berthd"


@attrs.frozen(kw_only=True)
class Setting:
    """What a stage is made for.

    Attributes:
        config: The daemon's configuration as TOML's values; what ties it to this machine is
            replaced, see `tied`.
        driver: Name of the driver that it configures.
        environment: Variables that the daemon gets besides.
        held: The daemon's sockets are held for it, as by ``berthd.socket``.
        runtime: The container runtime.
        gates: Feature gates that are open in the API server and in kubelet.
        kubelet_root: Kubelet's root, where it is not the usual one.
        kubelet_age_s: How long kubelet has been there when it begins; 60 s and more are believed
            that a pod has ended.
        with_kubelet: Kubelet runs from the beginning.
        with_nri: The runtime has NRI switched on from the beginning.
    """

    config: Mapping[str, Any]
    driver: str = "berth.dev"
    environment: Mapping[str, str] = attrs.field(factory=dict)
    held: bool = True
    runtime: Runtime = attrs.field(factory=Runtime)
    gates: frozenset[str] = GATES_1_37
    kubelet_root: Path = World.kubelet
    kubelet_age_s: float = 0.0
    with_kubelet: bool = True
    with_nri: bool = True


class Stage:
    """One node, its control plane, and the daemon under rehearsal.

    Attributes:
        notes: What kubelet did and met, in order.
    """

    def __init__(self, setting: Setting) -> None:
        self.world = World()
        # Its rights are those of rbac.yaml with the driver's name in it, as that file asks for.
        account = Caller(name=ACCOUNT, role=Role.ACCOUNT, node=NODE, driver=setting.driver)
        self.api = ApiServer(gates=setting.gates, tokens={TOKEN: account})
        self.cluster = Cluster(
            self.api, node=NODE, driver=setting.driver, declared=setting.gates & DECLARED
        )
        self.runtime = setting.runtime
        self.pods = Pods(self.cluster, self.runtime)
        self.notes: list[Note] = []
        self.config = ROOT / "agent.toml"
        self.kubeconfig = ROOT / "kubeconfig"
        self._setting = setting
        self._places = Places(root=setting.kubelet_root, driver=setting.driver)
        self._kubelet: Kubelet | None = None
        self._devices: KubeletDevices | None = None
        self._kubelet_life = _Life()
        self._berthd: Berthd | None = None
        self._thread: AsyncioThread | None = None
        self._nursery: trio.Nursery | None = None

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Play until cancelled; started when everything but the daemon is there.

        Raises:
            HostError: The world cannot be made.
        """
        await self.world.open()
        self.cluster.open()
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = listeners[0].socket.getsockname()[1]
        server = f"http://127.0.0.1:{port}"
        write_file(self.kubeconfig, kubeconfig_json(server, token=TOKEN).encode())
        self.configure(self._setting.config)
        self._berthd = self.another_berthd(held=self._setting.held)
        async with open_asyncio_thread() as self._thread, trio.open_nursery() as self._nursery:
            await self._nursery.start(self.api.serve, listeners)
            await self._nursery.start(self._berthd.listen)
            if self._setting.with_nri:
                await self.start_runtime()
            if self._setting.with_kubelet:
                await self.start_kubelet()
            task_status.started()
            await trio.sleep_forever()

    @property
    def berthd(self) -> Berthd:
        """The daemon."""
        return _there(self._berthd)

    @property
    def kubelet(self) -> Kubelet:
        """Kubelet's present life."""
        return _there(self._kubelet)

    @property
    def devices(self) -> KubeletDevices:
        """The device manager of kubelet's present life."""
        return _there(self._devices)

    @property
    def nursery(self) -> trio.Nursery:
        """Where everything plays."""
        return _there(self._nursery)

    @property
    def places(self) -> Places:
        """Where kubelet looks for the driver."""
        return self._places

    def configure(self, config: Mapping[str, Any]) -> None:
        """Write the daemon's configuration file; it is read at its start and at a reload."""
        whole = tied(config, kubelet_root=self._places.root, kubeconfig=self.kubeconfig)
        write_file(self.config, toml_document(whole).encode())

    def another_berthd(
        self, *, name: str = "berthd", held: bool = False, config: Path | None = None
    ) -> Berthd:
        """A daemon that is not started; only one of them can hold the sockets."""
        # Claims first, so that the registration is not heard of before.
        sockets = (self._places.dra_socket, self._places.registration_socket) if held else ()
        return Berthd(
            config or self.config,
            runtime=World.runtime,
            folder=ROOT,
            name=name,
            held=sockets,
            environment=self._setting.environment,
        )

    async def start_runtime(self) -> None:
        """Switch NRI on."""
        await self.nursery.start(self.runtime.serve)

    async def start_kubelet(self) -> None:
        """Begin a new life of kubelet: it knows nothing, and deletes all slices of the node."""
        kubelet = Kubelet(
            _there(self._thread),
            root=self._places.root,
            wipe=self.cluster.wipe,
            report=self.notes.append,
        )
        # Whether a group's door is open or not: every kubelet has it.
        devices = KubeletDevices(
            _there(self._thread),
            root=self._places.root,
            private=ROOT,
            report=self.notes.append,
            age_s=self._setting.kubelet_age_s,
        )
        self._kubelet, self._devices = kubelet, devices
        self._kubelet_life = _Life()
        await self.nursery.start(self._kubelet_life.live, kubelet.run, devices.run)

    async def stop_kubelet(self) -> None:
        """End kubelet's life as a kill does, and wait until it has ended."""
        self._kubelet_life.cancel()
        await self._kubelet_life.ended.wait()

    async def cut_power(self) -> None:
        """Reboot the machine: every process ends at once, ``/run`` is empty, links are gone.

        NICs are to be plugged in again, then `boot` goes on.

        Raises:
            HostError: The world refused.
        """
        if self.berthd.alive:
            await self.berthd.kill()
        await self.stop_kubelet()
        await self.runtime.go_down()
        self.runtime.forget_all()
        await self.world.reboot()
        self.berthd.bind_again()

    async def boot(self) -> None:
        """Start what an init system starts, in its order; all is there when it returns.

        Raises:
            HostError: The daemon does not serve.
        """
        await self.start_runtime()
        await self.berthd.start()
        await self.start_kubelet()
        await self.berthd.wait_ready()
        await self.kubelet.wait_driver(self.cluster.driver)
        await self.runtime.wait_plugins()

    async def start(self) -> None:
        """Start the daemon, and wait until it serves and kubelet and the runtime know it."""
        await self.berthd.start()
        await self.berthd.wait_ready()
        await self.kubelet.wait_driver(self.cluster.driver)
        await self.runtime.wait_plugins()

    async def stop(self) -> int:
        """Stop the daemon politely; gives its exit code."""
        return await self.berthd.terminate()

    def reload(self) -> None:
        """Let the daemon read its configuration anew."""
        self.berthd.signal(signal.SIGHUP)

    def count(self, act: Act) -> int:
        """How often kubelet did something."""
        return sum(note.act is act for note in self.notes)


def tied(config: Mapping[str, Any], *, kubelet_root: Path, kubeconfig: Path) -> dict[str, Any]:
    """A configuration with everything that ties it to a machine replaced by the world's own."""
    return {
        **config,
        "node": {"name": NODE, "state_dir": str(World.state)},
        "kubelet": {"root": str(kubelet_root)},
        "plugin": {"folder": str(kubelet_root / "device-plugins")},
        "kubernetes": {"credentials": "kubeconfig", "kubeconfig": str(kubeconfig)},
        "nri": {**config.get("nri", {}), "socket": str(NRI_SOCKET)},
    }


def toml_document(config: Mapping[str, Any]) -> str:
    """A configuration as TOML: a section per table, its values on one line each."""
    lines = []
    for name, value in config.items():
        several = isinstance(value, list | tuple)
        for table in value if several else (value,):
            lines.append(f"[[{name}]]" if several else f"[{name}]")
            lines += [f"{key} = {toml_text(each)}" for key, each in table.items()]
    return "\n".join(lines) + "\n"


class _Life:
    """Tasks that can be ended by themselves."""

    def __init__(self) -> None:
        self.ended = trio.Event()
        self._scope = trio.CancelScope()

    async def live(
        self,
        *parts: Callable[[], Awaitable[None]],
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        try:
            with self._scope:
                task_status.started()
                async with trio.open_nursery() as nursery:
                    for part in parts:
                        nursery.start_soon(part)
        finally:
            self.ended.set()

    def cancel(self) -> None:
        self._scope.cancel()


def _there(thing: T | None) -> T:
    if thing is None:
        raise LocalProtocolError("stage", "is not set yet")
    return thing
