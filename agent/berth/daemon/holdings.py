"""What changes on the node, and who owns it: records, ledger, NICs, and what the machine has."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from berth.config.schema import Config
from berth.host.sysfs import Sysfs
from berth.node.allotments import Allotments, given_shelf
from berth.node.discovery import Discovery
from berth.node.ledger import Ledger
from berth.node.nics import Nics
from berth.node.records import Records
from berth.node.stock import Stock


class Holdings:
    """The owners of changing state.

    Args:
        boot_id: Of this boot.
        noticed: Called with a claim's UID when more is known of its NIC in the pod.
        toward: Addresses whose way out must stay.
        own_addresses: Addresses by which the node is reached.
    """

    def __init__(
        self,
        config: Config,
        *,
        boot_id: str,
        noticed: Callable[[str], None],
        toward: Callable[[], Iterable[str]],
        own_addresses: Callable[[], Iterable[str]],
    ) -> None:
        sysfs = Sysfs()
        self.ledger = Ledger()
        self.records = Records(config.node.state_dir / "claims")
        self.given = given_shelf(config.node.state_dir / "ledger")
        self.stock = Stock(config.generic, driver=config.dra.driver, folder=config.node.state_dir)
        self.nics = Nics(
            self.records,
            exists=lambda identity: _exists(sysfs, identity),
            renumbered=self.ledger.rekey,
            noticed=noticed,
            names=config.node.state_dir / "names",
        )
        self.discovery = Discovery(
            self.records,
            table=config.nic,
            sysfs=sysfs,
            toward=toward,
            own_addresses=own_addresses,
            stirred=self.nics.look_again,
            driver=config.dra.driver,
            stock=self.stock,
            given=self.given,
        )
        self.allotments = Allotments(
            self.given,
            ledger=self.ledger,
            inventory=self.discovery.inventory,
            boot_id=boot_id,
        )


def _exists(sysfs: Sysfs, identity: str) -> bool:
    """Whether a device is still in the machine; of what is no PCI function nobody can say so."""
    kind, _, rest = identity.partition(":")
    return kind != "pci" or sysfs.has_function(rest.partition("/")[0])
