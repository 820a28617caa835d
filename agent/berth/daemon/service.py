"""The daemon: the one place that wires. Settings in, parts made and started in order, signals.

Order at start: lock, state recovered, first look at the machine, then the plugins: the node's own
tasks, the API connection, NRI, DRA, slices; READY once each serves or waits for its peer. At stop
the other way round: no new connection is let in, running steps end, DRA before NRI.

Source: daemon.md §5; style-models.md, Supervision.
"""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import attrs
import trio

from berth import __version__
from berth.cdi.store import CdiStore
from berth.config.schema import Config
from berth.control import ControlServer, Event
from berth.dra.history import NodeHistory
from berth.dra.nodename import choose_node
from berth.dra.plugin import DraPlugin
from berth.dra.publisher import Publisher
from berth.dra.registration import Places
from berth.errors import Faults, KubeError
from berth.host.scan import read_boot_id
from berth.host.sysfs import Sysfs
from berth.kube.gateway import Gateway
from berth.kube.server import open_server
from berth.kube.sources import CredentialSettings
from berth.metadata.store import MetadataStore
from berth.model.device import Exclusion
from berth.model.pod import Sandbox
from berth.nic.config.group import policies_of
from berth.node.admission import CLOSED
from berth.node.claims import Claims
from berth.node.claimstatus import ClaimStatus
from berth.node.discovery import Discovery
from berth.node.drafting import Settings
from berth.node.handout import Handout
from berth.node.ledger import Hold, Ledger
from berth.node.nics import Nics
from berth.node.records import Records
from berth.node.recovery import Recovery
from berth.nri.hooks import PodHooks
from berth.nri.plugin import Plugin as NriPlugin
from berth.nri.plugin import PluginState
from berth.runtime.asyncthread import AsyncioThread
from berth.runtime.files import Folder
from berth.runtime.latest import Latest
from berth.runtime.listeners import sweep_private_sockets
from berth.runtime.logs import get_log
from berth.runtime.supervisor import Plugin, Supervisor
from berth.runtime.systemd import Systemd, keep_alive, listen_fds

DRAIN_S: Final = 15.0
"""How long running work may take at a stop; the unit allows 20 s in all."""

NRI_NAME: Final = "berth"
NRI_INDEX: Final = "10"

_ASK_NODE_S: Final = 10.0
_LOOK_S: Final = 5.0
# A node may join its cluster long after it booted.

_NRI_PATIENCE_S: Final = 5.0
# A runtime that restarts is back within seconds; its NICs need not leave the slices for that.

_log = get_log(__name__)


class Daemon:
    """Every part of the daemon, made once and wired to the others.

    Args:
        config: The settings in force at start.
        path: The file they came from, read again at a reload.
        environ: The environment; inherited sockets are taken out of it.
        runtime: Folder of the daemon's own sockets.
        read: Reads the settings of a file, as they were read at start.
        thread: The loop on which grpcio runs.
    """

    def __init__(
        self,
        config: Config,
        path: Path,
        *,
        environ: dict[str, str],
        runtime: Path,
        read: Callable[[Path], Config],
        thread: AsyncioThread,
    ) -> None:
        self._config = config
        self._path = path
        self._read = read
        self._thread = thread
        self._systemd = Systemd(environ)
        self._runtime = runtime
        self._node_addresses: tuple[str, ...] = ()
        driver = config.dra.driver
        boot_id = read_boot_id()
        sysfs = Sysfs()
        self._gateway = Gateway()
        self._nri: Latest[PluginState] = Latest(PluginState(synchronized=False, reason="starting"))
        self._publisher: Latest[Publisher | None] = Latest(None)
        self._ledger = Ledger()
        self._records = Records(config.node.state_dir / "claims")
        self._nics = Nics(
            self._records,
            exists=lambda identity: _exists(sysfs, identity),
            renumbered=self._ledger.rekey,
        )
        self._discovery = Discovery(
            self._records,
            table=config.nic,
            sysfs=sysfs,
            toward=self._toward,
            own_addresses=self._own_addresses,
            stirred=self._nics.look_again,
        )
        self._cdi = CdiStore(driver)
        self._handout = Handout(self._cdi, MetadataStore(driver, config.kubelet.root))
        self._status = ClaimStatus(
            self._gateway, driver=driver, manager=f"berthd-{socket.gethostname()}"[:128]
        )
        self._claims = Claims(
            Settings(driver=driver, boot_id=boot_id, policies=policies_of(config.nic.groups)),
            api=self._gateway,
            records=self._records,
            ledger=self._ledger,
            nics=self._nics,
            discovery=self._discovery,
            handout=self._handout,
            status=self._status,
        )
        self._recovery = Recovery(
            driver=driver,
            boot_id=boot_id,
            records=self._records,
            ledger=self._ledger,
            nics=self._nics,
            handout=self._handout,
        )
        self._hooks = PodHooks(
            self._claims, vm_handlers=config.nic.vm_handlers, is_ending=self._is_ending
        )
        self._dra = DraPlugin(
            thread=thread,
            places=Places(root=config.kubelet.root, driver=driver),
            claims=self._claims,
            private=self._runtime,
            inherited=listen_fds(environ).sockets,
        )
        self._supervisor = Supervisor(self._plugins())

    async def run(self) -> None:
        """Serve until told to stop.

        Raises:
            BerthError: State, settings or the machine do not allow the start.
        """
        await self._recover()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._follow_signals, nursery.cancel_scope)
            await nursery.start(ControlServer(self._runtime, self._verbs()).run)
            nursery.start_soon(self._keep_alive)
            nursery.start_soon(self._close_while_away)
            await nursery.start(self._supervise, nursery.cancel_scope)
            self._systemd.ready(str(self._supervisor.statistics()))
            _log.info("ready", version=__version__, plugins=self._supervisor.statistics())
            nursery.start_soon(self._tell_status)

    async def _recover(self) -> None:
        sweep_private_sockets(self._runtime)
        await self._cdi.open()
        await self._recovery.load()
        await self._recovery.finish()

    def _plugins(self) -> tuple[Plugin, ...]:
        config = self._config
        plugins = [Plugin(name="node", run=self._run_node), Plugin(name="api", run=self._run_api)]
        if config.nic.enabled:
            plugins.append(Plugin(name="nri", run=self._run_nri))
        if config.dra.enabled:
            plugins.append(Plugin(name="dra", run=self._dra.run, drain=self._dra.drain))
            plugins.append(Plugin(name="slices", run=self._run_slices))
        return tuple(plugins)

    async def _run_node(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        async with trio.open_nursery() as nursery:
            await nursery.start(self._discovery.run)
            await self._hold_orphans()
            await nursery.start(self._nics.run)
            await nursery.start(self._claims.run)
            await nursery.start(self._status.run)
            await nursery.start(self._hooks.run)
            task_status.started()

    async def _run_api(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Keep a connection to the API server, as soon as there are credentials for one."""
        task_status.started()
        said = ""
        while True:
            try:
                async with open_server(_credentials(self._config)) as server:
                    self._gateway.connect(server)
                    _log.info(
                        "API server known", server=server.identity.server, by=server.identity.source
                    )
                    await trio.sleep_forever()
            except KubeError as error:
                if str(error) != said:
                    _log.warning("no credentials yet, looking again", every_s=_LOOK_S, reason=error)
                said = str(error)
                self._gateway.disconnect(said)
            await trio.sleep(_LOOK_S)

    async def _run_nri(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        plugin = NriPlugin(
            socket=self._config.nri.socket,
            name=NRI_NAME,
            index=NRI_INDEX,
            timeout_s=self._config.nri.timeout_s,
            hooks=self._hooks,
            tell=self._nri.set,
        )
        await plugin.run(task_status=task_status)

    async def _run_slices(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Publish, once it is known who we are to the API server."""
        task_status.started()
        await self._gateway.server.wait_value(lambda server: server is not None)
        publisher = Publisher(
            api=self._gateway,
            driver=self._config.dra.driver,
            inventory=self._discovery.inventory,
            choice=choose_node(
                configured=self._config.node.name,
                identity=self._gateway.identity,
                host_name=socket.gethostname(),
            ),
            history=NodeHistory(Folder(self._config.node.state_dir)),
        )
        self._publisher.set(publisher)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._follow_refusals, publisher)
            nursery.start_soon(self._learn_node_addresses, publisher)
            await publisher.run()

    async def _follow_refusals(self, publisher: Publisher) -> None:
        async for refusals in publisher.refusals.changes():
            self._discovery.refuse({name: str(refusal) for name, refusal in refusals.items()})

    async def _learn_node_addresses(self, publisher: Publisher) -> None:
        """The node's own addresses make their links uplinks."""
        name = publisher.choice.name
        while name:
            try:
                node = await self._gateway.get_node(name)
            except KubeError:
                await trio.sleep(_ASK_NODE_S)
                continue
            self._node_addresses = node.addresses
            self._discovery.look_again()
            return

    async def _close_while_away(self) -> None:
        """Offer no free NIC while no hook would move it; a short gap is waited out."""
        async for state in self._nri.changes():
            if state.synchronized:
                self._discovery.close(None)
                continue
            with trio.move_on_after(_NRI_PATIENCE_S if state.runtime is not None else 0.0):
                await self._nri.wait_value(lambda now: now.synchronized)
                continue
            reason = f"NRI is not connected: {self._nri.get().reason}"
            self._discovery.close(Exclusion(reason=CLOSED, detail=reason))

    async def _hold_orphans(self) -> None:
        """Devices that files of ours speak of and no record does count as held until unprepare."""
        nics = self._discovery.inventory.get().nic_by_name
        for ref in await self._recovery.orphans():
            names = [name for name in await self._handout.devices(ref.uid) if name in nics]
            if names:
                _log.warning("record lost, its devices count as held", claim=ref, devices=names)
            self._ledger.restore(
                Hold(key=nics[name].identity, device=name, claim=ref) for name in names
            )

    async def _supervise(
        self,
        scope: trio.CancelScope,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        await self._supervisor.run(task_status=task_status)
        scope.cancel()

    async def _follow_signals(self, scope: trio.CancelScope) -> None:
        """SIGTERM drains, a second one ends at once; SIGHUP reads the settings again."""
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
            stopping = False
            async with trio.open_nursery() as nursery:
                async for number in signals:
                    if number == signal.SIGHUP:
                        nursery.start_soon(self._reload_by_signal)
                    elif stopping:
                        scope.cancel()
                    else:
                        stopping = True
                        nursery.start_soon(self._stop)

    async def _stop(self) -> None:
        self._systemd.stopping("draining")
        _log.info("stopping", grace_s=DRAIN_S)
        await self._supervisor.stop(grace_s=DRAIN_S)

    async def _keep_alive(self) -> None:
        await keep_alive(self._systemd, {"grpcio": self._thread.probe})

    async def _tell_status(self) -> None:
        async for state in self._supervisor.state.changes():
            self._systemd.status(str(state))

    async def _reload_by_signal(self) -> None:
        await self._reload({}, _tell_nobody)

    async def _reload(self, _request: Mapping[str, Any], _tell: Event) -> Mapping[str, Any]:
        """Take the file's devices; a bad file changes nothing.

        Raises:
            Faults: The file is refused; all of it is told.
        """
        self._systemd.reloading()
        try:
            config = await trio.to_thread.run_sync(self._read, self._path)
        except Faults as error:
            _log.error("reload refused, the old settings stay", reason=error)
            raise
        finally:
            self._systemd.ready(str(self._supervisor.statistics()))
        later = _needs_restart(self._config, config)
        self._config = attrs.evolve(self._config, nic=config.nic)
        self._claims.reload(policies_of(config.nic.groups))
        self._discovery.reload(config.nic)
        _log.info("reloaded", groups=len(config.nic.groups), at_next_start=",".join(later) or "-")
        return {"groups": len(config.nic.groups), "at_next_start": list(later)}

    def _verbs(self) -> Mapping[str, Any]:
        return {"reload": self._reload}

    def _toward(self) -> Iterable[str]:
        """Addresses whose way out must stay: the API server's, where it is given as one."""
        server = self._gateway.identity.server
        return _hosts(server)

    def _own_addresses(self) -> Iterable[str]:
        return (*self._gateway.local_endpoints(), *self._node_addresses)

    async def _is_ending(self, sandbox: Sandbox) -> bool:
        return await self._gateway.pod_is_ending(sandbox.namespace, sandbox.name, uid=sandbox.uid)


def _credentials(config: Config) -> CredentialSettings:
    table = config.kubernetes
    return CredentialSettings(
        credentials=table.credentials.value,
        kubeconfig=str(table.kubeconfig or ""),
        server=table.server,
        token_file=str(table.token_file or ""),
        ca_file=str(table.ca_file or ""),
    )


def _exists(sysfs: Sysfs, identity: str) -> bool:
    """Whether a device is still in the machine; of what is no PCI function nobody can say so."""
    kind, _, rest = identity.partition(":")
    return kind != "pci" or sysfs.has_function(rest.partition("/")[0])


def _hosts(server: str) -> tuple[str, ...]:
    host = urlsplit(server).hostname
    return (host,) if host else ()


def _needs_restart(before: Config, after: Config) -> tuple[str, ...]:
    """Tables whose changes hold only from the next start."""
    return tuple(
        field.name
        for field in attrs.fields(Config)
        if field.name != "nic" and getattr(before, field.name) != getattr(after, field.name)
    )


async def _tell_nobody(_event: Mapping[str, Any]) -> None:
    await trio.lowlevel.checkpoint()
