"""Every part of the daemon that keeps state: made once from the settings, wired to the others."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import attrs

from berth.cdi.store import CdiStore
from berth.config.schema import Config
from berth.dra.plugin import DraPlugin
from berth.dra.publisher import Publisher
from berth.dra.registration import Places
from berth.host.scan import read_boot_id
from berth.host.sysfs import Sysfs
from berth.metadata.store import MetadataStore
from berth.model.pod import Sandbox
from berth.nic.config.group import policies_of
from berth.node.arrivals import Arrivals
from berth.node.claims import Claims
from berth.node.claimstatus import ClaimStatus
from berth.node.discovery import Discovery
from berth.node.drafting import Settings
from berth.node.ending import Ending
from berth.node.gateway import Gateway
from berth.node.handout import Handout
from berth.node.ledger import Ledger
from berth.node.nics import Nics
from berth.node.records import Records
from berth.node.recovery import Recovery
from berth.node.reservation import Reservation
from berth.node.views import Troubles
from berth.nri.hooks import PodHooks
from berth.nri.plugin import CONNECTING, PluginState
from berth.runtime.asyncthread import AsyncioThread
from berth.runtime.latest import Latest


class Parts:
    """What outlives the runs of plugins.

    Args:
        config: The settings in force at start.
        runtime: Folder of the daemon's own sockets.
        inherited: Listening sockets handed in, by path.
        thread: The loop on which grpcio runs.
    """

    def __init__(
        self,
        config: Config,
        *,
        runtime: Path,
        inherited: Mapping[Path, socket.socket],
        thread: AsyncioThread,
    ) -> None:
        driver = config.dra.driver
        boot_id = read_boot_id()
        sysfs = Sysfs()
        self.config = config
        self.node_addresses: tuple[str, ...] = ()
        self.gateway = Gateway()
        self.nri: Latest[PluginState] = Latest(CONNECTING)
        self.closed: Latest[str] = Latest(CONNECTING.reason)
        self.publisher: Latest[Publisher | None] = Latest(None)
        self.troubles = Troubles()
        self.ledger = Ledger()
        self.records = Records(config.node.state_dir / "claims")
        self.nics = Nics(
            self.records,
            exists=lambda identity: _exists(sysfs, identity),
            renumbered=self.ledger.rekey,
            noticed=self._noticed,
            names=config.node.state_dir / "names",
        )
        self.discovery = Discovery(
            self.records,
            table=config.nic,
            sysfs=sysfs,
            toward=self._toward,
            own_addresses=self._own_addresses,
            stirred=self.nics.look_again,
        )
        self.cdi = CdiStore(driver)
        self.handout = Handout(self.cdi, MetadataStore(driver, config.kubelet.root))
        self.status = ClaimStatus(
            self.gateway, driver=driver, manager=f"berthd-{socket.gethostname()}"[:128]
        )
        self.ending = Ending(
            records=self.records,
            ledger=self.ledger,
            nics=self.nics,
            remains=self.handout,
            status=self.status,
        )
        self.claims = Claims(
            Settings(driver=driver, boot_id=boot_id, policies=policies_of(config.nic.groups)),
            api=self.gateway,
            records=self.records,
            ledger=self.ledger,
            nics=self.nics,
            reservation=Reservation(
                driver,
                api=self.gateway,
                records=self.records,
                ledger=self.ledger,
                discovery=self.discovery,
                closed=self.closed,
                troubles=self.troubles,
                end=self.ending.end,
            ),
            ending=self.ending,
            papers=self.handout,
            status=self.status,
            troubles=self.troubles,
        )
        self.arrivals = Arrivals(
            records=self.records, nics=self.nics, notes=self.handout, status=self.status
        )
        self.recovery = Recovery(
            driver=driver,
            boot_id=boot_id,
            records=self.records,
            ledger=self.ledger,
            nics=self.nics,
            handout=self.handout,
        )
        self.hooks = PodHooks(
            self.claims,
            arrivals=self.arrivals,
            vm_handlers=config.nic.vm_handlers,
            troubles=self.troubles,
            is_ending=self._is_ending,
        )
        self.dra = DraPlugin(
            thread=thread,
            places=Places(root=config.kubelet.root, driver=driver),
            claims=self.claims,
            private=runtime,
            inherited=inherited,
            versions=[version.value for version in config.dra.versions],
        )

    def reload(self, config: Config) -> None:
        """Take the ``[nic]`` table of other settings; the rest waits for the next start."""
        self.config = attrs.evolve(self.config, nic=config.nic)
        self.claims.reload(policies_of(config.nic.groups))
        self.discovery.reload(config.nic)

    def tell_nri(self, state: PluginState) -> None:
        """The NRI connection is like this now."""
        self.nri.set(state)
        self.closed.set("" if state.synchronized else state.reason)

    def _noticed(self, uid: str) -> None:
        self.arrivals.tell_status(uid)

    def _toward(self) -> Iterable[str]:
        """Addresses whose way out must stay: the API server's, where it is given as one."""
        server = self.gateway.identity.server
        return _hosts(server)

    def _own_addresses(self) -> Iterable[str]:
        return (*self.gateway.local_endpoints(), *self.node_addresses)

    async def _is_ending(self, sandbox: Sandbox) -> bool:
        return await self.gateway.pod_is_ending(sandbox.namespace, sandbox.name, uid=sandbox.uid)


def _exists(sysfs: Sysfs, identity: str) -> bool:
    """Whether a device is still in the machine; of what is no PCI function nobody can say so."""
    kind, _, rest = identity.partition(":")
    return kind != "pci" or sysfs.has_function(rest.partition("/")[0])


def _hosts(server: str) -> tuple[str, ...]:
    host = urlsplit(server).hostname
    return (host,) if host else ()
