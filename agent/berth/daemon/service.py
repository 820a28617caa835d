"""The daemon: the one place that wires. Settings in, parts made and started in order, signals.

Order at start: lock, state recovered, first look at the machine, then the plugins: the node's own
tasks, the API connection, NRI, DRA, slices; READY once each serves or waits for its peer. At stop
the other way round: no new connection is let in, running steps end, DRA before NRI.

Source: daemon.md §5; style-models.md, Supervision.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import trio

from berth import __version__
from berth.config.schema import Config
from berth.control import ControlServer
from berth.daemon.configfile import ConfigFile
from berth.daemon.offering import Offering
from berth.daemon.operator import Operator
from berth.daemon.parts import Parts
from berth.daemon.publishing import Publishing
from berth.errors import KubeError
from berth.kube.server import open_server
from berth.kube.sources import CredentialSettings
from berth.metrics.api import MeteredApi
from berth.model.inventory import Inventory
from berth.model.peripheral import Door
from berth.node.ledger import Hold
from berth.nri.plugin import Plugin as NriPlugin
from berth.runtime.asyncthread import AsyncioThread
from berth.runtime.inotify import Inotify
from berth.runtime.listeners import sweep_private_sockets
from berth.runtime.logs import get_log
from berth.runtime.supervisor import Plugin, Supervisor
from berth.runtime.systemd import Systemd, keep_alive, keep_starting, listen_fds
from berth.runtime.threads import end_waits_at, probe_threads

if TYPE_CHECKING:
    from berth.daemon.monitoring import Monitoring

DRAIN_S: Final = 15.0
"""How long running work may take at a stop; the unit allows 20 s in all."""

LEAVE_S: Final = 1.5
"""How long after that anybody waits for a thread: a disk that hangs keeps no process."""

AUTO_S: Final = 60.0
"""How long kubelet may take to know us before ``door = "auto"`` means the device plugin."""

NRI_NAME: Final = "berth"
NRI_INDEX: Final = "10"

_LOOK_S: Final = 5.0
# A node may join its cluster long after it booted.

_log = get_log(__name__)


class Daemon:
    """Every part of the daemon, made once and wired to the others.

    Args:
        file: The configuration in force at start.
        environ: The environment; inherited sockets are taken out of it.
        runtime: Folder of the daemon's own sockets.
        thread: The loop on which grpcio runs.
        inotify: Tells of changes in folders.
    """

    def __init__(
        self,
        file: ConfigFile,
        *,
        environ: dict[str, str],
        runtime: Path,
        thread: AsyncioThread,
        inotify: Inotify,
    ) -> None:
        self._thread = thread
        self._inotify = inotify
        self._systemd = Systemd(environ)
        self._runtime = runtime
        self._parts = Parts(
            file.config,
            runtime=runtime,
            inherited=listen_fds(environ).sockets,
            thread=thread,
            inotify=inotify,
        )
        self._offering = Offering(self._parts.nri, self._parts.held.discovery)
        self._publishing = Publishing(self._parts, self._offering)
        self._supervisor = Supervisor(self._plugins())
        self._operator = Operator(
            self._parts, file, supervisor=self._supervisor, systemd=self._systemd
        )
        self._is_ready = False
        self._monitoring = self._monitoring_if_wanted()

    async def run(self) -> None:
        """Serve until told to stop.

        Raises:
            BerthError: State, settings or the machine do not allow the start.
        """
        async with trio.open_nursery() as nursery:
            starting = await nursery.start(self._keep_starting)
            await self._recover()
            nursery.start_soon(self._follow_signals, nursery.cancel_scope)
            control = ControlServer(self._runtime, self._operator.verbs(), inotify=self._inotify)
            await nursery.start(control.run)
            nursery.start_soon(self._keep_alive)
            nursery.start_soon(self._offering.run)
            await nursery.start(self._supervisor.run)
            starting.cancel()
            self._systemd.ready(str(self._supervisor.statistics()))
            self._is_ready = True
            _log.info("ready", version=__version__, plugins=self._supervisor.statistics())
            nursery.start_soon(self._tell_status)
            nursery.start_soon(self._end_for_renewal, nursery.cancel_scope)

    async def _recover(self) -> None:
        sweep_private_sockets(self._runtime)
        await self._parts.work.cdi.open()
        await self._parts.work.recovery.load()
        await self._parts.work.skipped.load()
        await self._parts.work.waits.load()
        self._parts.want_claims()
        await self._parts.allotments.load()
        await self._parts.work.recovery.finish()
        await self._parts.care.recall()

    def _plugins(self) -> tuple[Plugin, ...]:
        config = self._parts.config
        plugins = [
            Plugin(name="node", run=self._run_node),
            # After the inventory, and before anybody who gives devices away.
            Plugin(name="health", run=self._parts.care.run),
            Plugin(name="api", run=self._run_api),
        ]
        if config.nic.enabled:
            nri = NriPlugin(
                socket=config.nri.socket,
                inotify=self._inotify,
                name=NRI_NAME,
                index=NRI_INDEX,
                timeout_s=config.nri.timeout_s,
                hooks=self._parts.metered_hooks,
                tell=self._parts.tell_nri,
            )
            plugins.append(Plugin(name="nri", run=nri.run))
        if config.dra.enabled:
            plugins.append(Plugin(name="dra", run=self._parts.dra.run, drain=self._parts.dra.drain))
            plugins.append(Plugin(name="slices", run=self._publishing.run))
        plugins += self._parts.door.plugins()
        if config.metrics.is_wanted:
            plugins.append(Plugin(name="metrics", run=self._run_metrics))
        return tuple(plugins)

    async def _run_node(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        async with trio.open_nursery() as nursery:
            # First what the inventory is made of, so that its first edition lacks nothing.
            await nursery.start(self._parts.held.stock.run)
            if self._parts.held.gpus is not None:
                await nursery.start(self._parts.held.gpus.run)
            await nursery.start(self._parts.held.discovery.run)
            await self._hold_orphans()
            await self._parts.work.claims.renew()
            await self._parts.allotments.renew()
            await nursery.start(self._parts.allotments.run)
            await nursery.start(self._parts.books.run)
            await nursery.start(self._parts.held.nics.run)
            await nursery.start(self._parts.held.bindings.run)
            await nursery.start(self._parts.held.lent.run)
            await nursery.start(self._parts.work.ending.run)
            await nursery.start(self._parts.work.skipped.run)
            await nursery.start(self._parts.work.status.run)
            await nursery.start(self._parts.work.readiness.run)
            await nursery.start(self._parts.work.waits.run)
            await nursery.start(self._parts.hooks.run)
            nursery.start_soon(self._parts.held.marks.run)
            nursery.start_soon(self._settle_door)
            task_status.started()

    async def _run_metrics(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        if self._monitoring is not None:
            await self._monitoring.run(task_status=task_status)

    def _monitoring_if_wanted(self) -> Monitoring | None:
        if not self._parts.config.metrics.is_wanted:
            return None
        # Imported here: a node that nobody monitors does not pay for the page of figures.
        from berth.daemon.monitoring import Monitoring

        return Monitoring(
            self._parts,
            supervisor=self._supervisor,
            operator=self._operator,
            is_ready=lambda: self._is_ready,
        )

    async def _settle_door(self) -> None:
        """Decide what ``door = "auto"`` means, by whether kubelet takes our registration in time.

        Slices wait for that registration and for the API server anyway, so until it is decided
        nobody is promised anything. What is held keeps its door until it is free.
        """
        if self._parts.config.dra.enabled:
            with trio.move_on_after(AUTO_S):
                await self._parts.dra.wait_kubelet()
                await self._parts.publisher.wait_value(lambda made: made is not None)
                return
        _log.info("devices with door auto are asked for as resources", waited_s=AUTO_S)
        self._parts.held.decide(Door.PLUGIN)

    async def _run_api(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Keep a connection to the API server, as soon as there are credentials for one."""
        task_status.started()
        said = ""
        while True:
            try:
                async with open_server(_credentials(self._parts.config)) as server:
                    self._parts.gateway.connect(MeteredApi(server, self._parts.traffic))
                    _log.info(
                        "API server known", server=server.identity.server, by=server.identity.source
                    )
                    try:
                        await self._parts.allocations.run(self._publishing.claims())
                    finally:
                        self._parts.gateway.disconnect("closed")
            except KubeError as error:
                if str(error) != said:
                    _log.warning("no credentials yet, looking again", every_s=_LOOK_S, reason=error)
                said = str(error)
                self._parts.gateway.disconnect(said)
            await trio.sleep(_LOOK_S)

    async def _hold_orphans(self) -> None:
        """Devices that files of ours speak of and no record does count as held until unprepare."""
        keys = _keys(self._parts.held.discovery.inventory.get())
        for ref in await self._parts.work.recovery.orphans():
            names = [
                name for name in await self._parts.work.handout.devices(ref.uid) if name in keys
            ]
            if names:
                _log.warning("record lost, its devices count as held", claim=ref, devices=names)
            self._parts.held.ledger.restore(
                Hold(key=key, device=name, holder=ref) for name in names for key in keys[name]
            )

    async def _follow_signals(self, scope: trio.CancelScope) -> None:
        """SIGTERM drains, a second one ends at once; SIGHUP reads the settings again."""
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
            stopping = False
            async with trio.open_nursery() as nursery:
                async for number in signals:
                    if number == signal.SIGHUP:
                        nursery.start_soon(self._operator.reload_by_signal)
                    elif stopping:
                        end_waits_at(trio.current_time() + LEAVE_S)
                        scope.cancel()
                    else:
                        stopping = True
                        nursery.start_soon(self._stop, scope)

    async def _end_for_renewal(self, scope: trio.CancelScope) -> None:
        """End for the next process, which can load what this one cannot; GH §2.3."""
        gpus = self._parts.held.gpus
        if gpus is None:
            return
        found = await gpus.renewal.due.wait_value(bool)
        if self._systemd.is_there:
            _log.warning("ending, so that a new process loads the driver's new library", of=found)
            await self._stop(scope)
        else:
            _log.warning("GPUs are offered again once berthd is started anew", library=found)

    async def _stop(self, scope: trio.CancelScope) -> None:
        self._is_ready = False
        self._systemd.stopping("draining")
        _log.info("stopping", grace_s=DRAIN_S)
        end_waits_at(trio.current_time() + DRAIN_S + LEAVE_S)
        await self._supervisor.stop(grace_s=DRAIN_S)
        self._parts.dra.close()
        scope.cancel()

    async def _keep_starting(self, *, task_status: trio.TaskStatus[trio.CancelScope]) -> None:
        self._systemd.status("recovering what was given to pods")
        with trio.CancelScope() as scope:
            task_status.started(scope)
            await keep_starting(self._systemd)

    async def _keep_alive(self) -> None:
        """Prove that kubelet can be served: hung devices, disks and peers are their health's."""
        probes = {
            "grpcio": self._thread.probe,
            "dra": self._parts.dra.probe,
            "resources": self._parts.door.probe,
            "threads": probe_threads,
        }
        await keep_alive(self._systemd, probes)

    async def _tell_status(self) -> None:
        async for state in self._supervisor.state.changes():
            self._systemd.status(str(state))


def _keys(inventory: Inventory) -> Mapping[str, tuple[str, ...]]:
    """What each device is in the ledger, by its name."""
    return {
        **{nic.name: (nic.identity,) for nic in inventory.nics},
        **{one.name: one.keys for one in inventory.peripherals},
    }


def _credentials(config: Config) -> CredentialSettings:
    table = config.kubernetes
    return CredentialSettings(
        credentials=table.credentials.value,
        kubeconfig=str(table.kubeconfig or ""),
        server=table.server,
        token_file=str(table.token_file or ""),
        ca_file=str(table.ca_file or ""),
    )
