"""What changes on the node, and who owns it: records, ledger, NICs, and what the machine has."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping

from berth.cdi.store import CdiStore
from berth.config.gpu import Session
from berth.config.schema import Config
from berth.host.sysfs import Sysfs
from berth.metrics.machine import Counted
from berth.model.peripheral import Door
from berth.node.gpus.gpus import Gpus
from berth.node.gpus.nvml import Nvml
from berth.node.gpus.occupancy import Occupancy
from berth.node.holders.nicholders import NicHolders
from berth.node.inventory.discovery import Discovery
from berth.node.inventory.stock import Stock
from berth.node.ledger import Ledger
from berth.node.nics.lent import Lent
from berth.node.nics.nicmarks import KEPT, NicMarks
from berth.node.nics.nics import Nics
from berth.node.plugin.allotments import given_shelf
from berth.node.plugin.deviceinfofiles import DeviceInfoFiles
from berth.node.plugin.nicloans import NicLoans
from berth.node.records.records import Records
from berth.node.vfio.bindings import Bindings
from berth.runtime.inotify import Inotify
from berth.runtime.pathwatch import watch_paths


class Holdings:
    """The owners of changing state.

    Args:
        inotify: Tells of device nodes that come and go.
        boot_id: Of this boot.
        noticed: Called with a claim's UID when more is known of its NIC in the pod.
        toward: Addresses whose way out must stay.
        own_addresses: Addresses by which the node is reached.

    Attributes:
        nvml: The owner of the session with the GPUs' driver, once it was made, for its figures.
    """

    def __init__(
        self,
        config: Config,
        *,
        inotify: Inotify,
        boot_id: str,
        noticed: Callable[[str], None],
        toward: Callable[[], Iterable[str]],
        own_addresses: Callable[[], Iterable[str]],
    ) -> None:
        sysfs = Sysfs()
        # One store for both doors, so that its figures are of all files.
        self.cdi = CdiStore(config.dra.driver)
        self.ledger = Ledger()
        self.records = Records(config.node.state_dir / "claims")
        self.given = given_shelf(config.node.state_dir / "ledger")
        self.skipped = Records(config.node.state_dir / "skipped")
        self.stock = _stock(config, inotify)
        self.nvml: Counted | None = None
        self.gpus = self._gpus(config)
        self.holders = NicHolders(self.records, self.given)
        self.nics = Nics(
            self.holders,
            exists=lambda identity: _exists(sysfs, identity),
            renumbered=self.ledger.rekey,
            noticed=noticed,
            names=config.node.state_dir / "names",
        )
        self.bindings = Bindings(
            self.records,
            grip=self.gpus.grip if self.gpus is not None else None,
            links=self.nics,
            changed=self._look_at_gpus,
        )
        self.discovery = Discovery(
            self.records,
            table=config.nic,
            sysfs=sysfs,
            toward=toward,
            own_addresses=own_addresses,
            stirred=self.nics.look_again,
            driver=config.dra.driver,
            stocks=(self.stock, *((self.gpus,) if self.gpus is not None else ())),
            counters=self.gpus.counters if self.gpus is not None else None,
            given=self.given,
            skipped=self.skipped,
        )
        self.discovery.skip(skips_of(config))
        self.marks = NicMarks(self.discovery.inventory, kept=config.node.state_dir / KEPT)
        self.lent = Lent(self.given, inventory=self.discovery.inventory, nics=self.nics)
        self.occupancy = Occupancy(self.gpus, self.ledger)
        self.loans = NicLoans(
            self.given,
            nics=self.nics,
            eyes=self.discovery,
            groups=config.nic.groups,
            boot_id=boot_id,
            files=DeviceInfoFiles(config.plugin.device_info),
        )

    def decide(self, auto: Door) -> None:
        """Settle what ``door = "auto"`` comes to."""
        self.stock.decide(auto)
        self.discovery.decide(auto)
        if self.gpus is not None:
            self.gpus.decide(auto)

    def reload(self, config: Config) -> None:
        """Take the tables of devices of other settings."""
        self.stock.reload(config.generic)
        if self.gpus is not None:
            self.gpus.reload(config.gpu)
        self.loans.reload(config.nic.groups)
        self.discovery.reload(config.nic)
        self.discovery.skip(skips_of(config))

    def _gpus(self, config: Config) -> Gpus | None:
        if not config.gpu.enabled:
            return None

        def open_nvml() -> Nvml:
            # Imported here: it loads NVIDIA's bindings, which a node without GPUs does not pay for.
            from berth.host.nvml.owner import Nvml as Owner

            owner = Owner(
                library=str(config.gpu.library or ""), hold=config.gpu.session is Session.HOLD
            )
            self.nvml = owner
            return owner

        return Gpus(config.gpu, open_nvml=open_nvml, folder=config.node.state_dir, lent=self._lent)

    def _lent(self) -> Mapping[str, str]:
        return self.bindings.lent()

    def _look_at_gpus(self) -> None:
        if self.gpus is not None:
            self.gpus.look_again()


def skips_of(config: Config) -> Mapping[str, tuple[str, ...]]:
    """What kubelet need not ask for, by generic group; groups that let nothing be left out lack."""
    operations = {each.name: each.skip_node_operations.operations for each in config.generic}
    return {name: words for name, words in operations.items() if words}


def _stock(config: Config, inotify: Inotify) -> Stock:
    return Stock(
        config.generic,
        driver=config.dra.driver,
        folder=config.node.state_dir,
        watch=functools.partial(watch_paths, inotify),
    )


def _exists(sysfs: Sysfs, identity: str) -> bool:
    """Whether a device is still in the machine; of what is no PCI function nobody can say so."""
    kind, _, rest = identity.partition(":")
    return kind != "pci" or sysfs.has_function(rest.partition("/")[0])
