"""Every part of the daemon that keeps state: made once from the settings, wired to the others."""

from __future__ import annotations

import socket
import uuid
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import attrs
import trio

from berth.config.schema import Config
from berth.daemon.claimwork import Around, ClaimWork
from berth.daemon.healthwork import HealthWork
from berth.daemon.holdings import Holdings, skips_of
from berth.deviceplugin.plugin import PluginDoor
from berth.deviceplugin.podresources import PodResources
from berth.dra.health import HealthStreams
from berth.dra.healthreport import Place, places_of
from berth.dra.kubeletpods import KubeletPods
from berth.dra.nodename import NodeChoice, choose_node
from berth.dra.origin import pools_of
from berth.dra.plugin import DraPlugin
from berth.dra.publisher import Publisher
from berth.dra.registration import Places
from berth.health.changes import CLAIM, LIST, STREAM
from berth.health.taints import Rules
from berth.host.nearnodes import near_nodes
from berth.host.scan import read_boot_id
from berth.metrics.api import Traffic
from berth.metrics.claims import MeteredClaims
from berth.metrics.hooks import MeteredHooks
from berth.model.pod import Sandbox
from berth.nic.config.group import policies_of
from berth.node.claims.allocations import Allocations
from berth.node.claims.sharers import Sharers
from berth.node.gateway import Gateway
from berth.node.health.inquiry import Inquiry
from berth.node.plugin.allotments import Allotments
from berth.node.plugin.bookkeeping import Bookkeeping
from berth.node.plugin.cdifiles import PluginFiles
from berth.node.plugin.resourcepods import ResourcePods
from berth.node.plugin.running import Running
from berth.node.plugin.units import moved
from berth.node.views import Troubles
from berth.nri.hooks import PodHooks
from berth.nri.isolation import Isolation
from berth.nri.plugin import CONNECTING, PluginState
from berth.readiness.demands import Demands
from berth.runtime.asyncthread import AsyncioThread
from berth.runtime.inotify import Inotify
from berth.runtime.latest import Latest


class Parts:
    """What outlives the runs of plugins.

    Args:
        config: The settings in force at start.
        runtime: Folder of the daemon's own sockets.
        inherited: Listening sockets handed in, by path.
        thread: The loop on which grpcio runs.
        inotify: Tells of changes in folders.
    """

    def __init__(
        self,
        config: Config,
        *,
        runtime: Path,
        inherited: Mapping[Path, socket.socket],
        thread: AsyncioThread,
        inotify: Inotify,
    ) -> None:
        boot_id = read_boot_id()
        self.config = config
        self.node_addresses: tuple[str, ...] = ()
        self.near = near_nodes() if config.dra.lists else None
        self.gateway = Gateway()
        self.allocations = Allocations(self.gateway)
        self.nri: Latest[PluginState] = Latest(CONNECTING)
        self.closed: Latest[str] = Latest(CONNECTING.reason)
        self.publisher: Latest[Publisher | None] = Latest(None)
        self.troubles = Troubles()
        self.held = Holdings(
            config,
            inotify=inotify,
            boot_id=boot_id,
            noticed=self._noticed,
            toward=self._toward,
            own_addresses=self._own_addresses,
        )
        self.care = HealthWork(config, self.held, boot_id=boot_id)
        self.inquiry = Inquiry(self.care.health, _rules(config))
        self.allotments = self._allotments(boot_id)
        self.work = ClaimWork(self._around(boot_id))
        self.traffic = Traffic()
        self.metered = MeteredClaims(self.work.claims, self.held.records.get)
        pods = self.pods = PodResources(thread, root=config.kubelet.root)
        self.running = Running(ended=self._ended, given=self.held.given.all)
        self.books = self._bookkeeping(pods, boot_id)
        self.hooks = self._hooks(pods, KubeletPods(thread, root=config.kubelet.root))
        self.metered_hooks = MeteredHooks(self.hooks)
        self.nri_losses = 0
        self.dra = self._dra_door(thread, inotify, private=runtime, inherited=inherited)
        self.door = self._plugin_door(thread, inotify, private=runtime)

    def choice(self) -> NodeChoice:
        """Which node this is, by the connection of now."""
        return choose_node(
            configured=self.config.node.name,
            identity=self.gateway.identity,
            host_name=socket.gethostname(),
        )

    def own_pools(self) -> frozenset[str]:
        """The pools of this node; none while nobody knows which node it is."""
        publisher = self.publisher.get()
        if publisher is None and self.gateway.server.get() is None:
            return frozenset()
        name = (self.choice() if publisher is None else publisher.choice).name
        return pools_of(name) if name else frozenset()

    def told(self, sink: str) -> Callable[[Iterable[str]], None]:
        """Takes note that a reader of verdicts was told of devices."""
        changes = self.care.health.changes
        return lambda names: changes.told(sink, names, trio.current_time())

    def _around(self, boot_id: str) -> Around:
        """What those who work on claims find around them."""
        return Around(
            config=self.config,
            held=self.held,
            inquiry=self.inquiry,
            told=self.told(CLAIM),
            api=self.gateway,
            allocations=self.allocations,
            settled=self.want_claims,
            closed=self.closed,
            troubles=self.troubles,
            boot_id=boot_id,
            pools=self.own_pools,
        )

    def _dra_door(
        self,
        thread: AsyncioThread,
        inotify: Inotify,
        *,
        private: Path,
        inherited: Mapping[Path, socket.socket],
    ) -> DraPlugin:
        """Who gives devices to those who ask by claims."""
        return DraPlugin(
            thread=thread,
            inotify=inotify,
            places=Places(root=self.config.kubelet.root, driver=self.config.dra.driver),
            claims=self.metered,
            health=self._streams(),
            private=private,
            inherited=inherited,
            versions=[version.value for version in self.config.dra.versions],
        )

    def _plugin_door(self, thread: AsyncioThread, inotify: Inotify, *, private: Path) -> PluginDoor:
        """Who gives devices to those who ask for resources."""
        return PluginDoor(
            thread=thread,
            inotify=inotify,
            driver=self.config.dra.driver,
            counter=self.allotments,
            private=private,
            folder=self.config.plugin.folder,
            pods=self.pods,
            told=self.told(LIST),
        )

    def _streams(self) -> HealthStreams:
        """Who tells kubelet how devices are."""
        return HealthStreams(
            self.care.health.state,
            places=self._judged,
            news=(self.publisher, self.held.discovery.inventory, self.held.records.changes),
            told=self.told(STREAM),
        )

    def _allotments(self, boot_id: str) -> Allotments:
        """Who lists devices, and gives them to containers that ask for resources."""
        return Allotments(
            self.held.given,
            ledger=self.held.ledger,
            inventory=self.held.discovery.inventory,
            files=PluginFiles(self.held.cdi),
            boot_id=boot_id,
            occupancy=self.held.occupancy,
            loans=self.held.loans,
            inquiry=self.inquiry,
        )

    def _bookkeeping(self, pods: PodResources, boot_id: str) -> Bookkeeping:
        """Who learns by kubelet's lists what the device plugin's devices are held by."""
        return Bookkeeping(
            self.allotments,
            given=self.held.given,
            ledger=self.held.ledger,
            inventory=self.held.discovery.inventory,
            lister=pods,
            is_live=self.running.is_live,
            boot_id=boot_id,
            new_uid=lambda: uuid.uuid4().hex,
        )

    def _judged(self) -> tuple[Place, ...]:
        """The devices whose health kubelet is told."""
        publisher = self.publisher.get()
        return places_of(
            publisher.choice.name if publisher is not None else "",
            self.held.discovery.inventory.get().devices,
            (device.result for record in self.held.records.all() for device in record.devices),
        )

    def _hooks(self, pods: PodResources, kubelet: KubeletPods) -> PodHooks:
        """Who answers the runtime when a pod comes and goes."""
        return PodHooks(
            self.work.claims,
            arrivals=self.work.arrivals,
            isolation=Isolation(lambda: self.config.nic.vm_handlers),
            troubles=self.troubles,
            is_ending=self._is_ending,
            running=self.running,
            resources=ResourcePods(
                self.held.given,
                holders=self.held.holders,
                kubelet=pods,
                moved=lambda: moved(self.held.discovery.inventory.get(), self.config.nic.groups),
            ),
            sharers=Sharers(self.held.records.all, kubelet=kubelet, server=self.gateway),
        )

    def reload(self, config: Config) -> None:
        """Take the tables of devices of other settings; the rest waits for the next start."""
        self.config = attrs.evolve(
            self.config,
            nic=config.nic,
            generic=config.generic,
            gpu=config.gpu,
            health=config.health,
        )
        self.work.claims.reload(policies_of(config.nic.groups))
        self.work.demands.set(Demands.of(config))
        self.held.reload(config)
        self.care.reload(self.config)
        self.inquiry.settings.set(_rules(self.config))
        self.want_claims()

    def want_claims(self) -> None:
        """See the claims of the cluster, if a group or a claim of before has calls left out."""
        wanted = skips_of(self.config) or self.held.skipped.all()
        self.allocations.want("skipped", bool(wanted))

    def tell_nri(self, state: PluginState) -> None:
        """The NRI connection is like this now."""
        self.nri_losses += self.nri.get().synchronized and not state.synchronized
        self.nri.set(state)
        self.closed.set("" if state.synchronized else state.reason)

    def _ended(self) -> None:
        self.books.look_again()

    def _noticed(self, uid: str) -> None:
        self.work.arrivals.tell_status(uid)

    def _toward(self) -> Iterable[str]:
        """Addresses whose way out must stay: the API server's, where it is given as one."""
        server = self.gateway.identity.server
        return _hosts(server)

    def _own_addresses(self) -> Iterable[str]:
        return (*self.gateway.local_endpoints(), *self.node_addresses)

    async def _is_ending(self, sandbox: Sandbox) -> bool:
        return await self.gateway.pod_is_ending(sandbox.namespace, sandbox.name, uid=sandbox.uid)


def _rules(config: Config) -> Rules:
    """What verdicts may do."""
    return Rules(
        driver=config.dra.driver,
        unknown_effect=config.health.unknown_effect.value,
        evict=frozenset(config.health.evict),
    )


def _hosts(server: str) -> tuple[str, ...]:
    host = urlsplit(server).hostname
    return (host,) if host else ()
