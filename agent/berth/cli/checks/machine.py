"""What the checks look at: a configuration, and the machine under a root folder."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import attrs

from berth.cli.outlook import Gear
from berth.config.schema import Config
from berth.features.states import Fate
from berth.host.scan import HostScan
from berth.kube.sources import CredentialSettings
from berth.model.inventory import Inventory
from berth.node.inventory.sighting import Memory, Outlook
from berth.node.inventory.snapshot import judge


@attrs.frozen(kw_only=True)
class ApiLook:
    """What the API server said.

    Attributes:
        version: Its own, whole; `major` and `minor` are its numbers.
        fault: Why it could not be asked; empty when it answered.
        node: This node's name, where the server has its Node object.
        node_fault: Why there is no such name.
        kubelet_version: The version of kubelet that the Node object tells; empty when unknown.
        classes: What each DeviceClass selects, as text; ``None`` when that may not be read.
        rights: What we may do, by what was asked; ``None`` where the server did not say.
        features: Which of the server's feature gates are on; ``None`` when that may not be read.
        declared: What the Node declares of its kubelet; ``None`` when there is no Node.
        fates: What the server keeps of a slice that it does not store; ``None`` when that may not
            be seen.
    """

    version: str = ""
    major: int = 0
    minor: int = 0
    fault: str = ""
    node: str = ""
    node_fault: str = ""
    kubelet_version: str = ""
    classes: Mapping[str, str] | None = None
    rights: Mapping[str, bool] | None = None
    features: Mapping[str, bool] | None = None
    declared: frozenset[str] | None = None
    fates: Mapping[str, Fate] | None = None


@attrs.frozen(kw_only=True, slots=False)
class Machine:
    """One machine with a configuration for it.

    Attributes:
        credentials: Where they are looked for.
        api: What the API server said; ``None`` when it was not asked.
        root: What stands for ``/``; tests give a tree of files.
        scan: One look at its network devices; ``None`` when it could not be had.
        scan_fault: Why not.
        gear: What lies beside NICs; ``None`` when it could not be read.
        gear_fault: Why not.
        status: What the running daemon says of itself; ``None`` without one.
        runtime_version: What the container runtime's program says; empty when unknown.
        kubelet_version: What kubelet's program says; empty when unknown.
        network_manager: The state of each link by NetworkManager's own word; empty without it.
        host_name: The kernel's word.
        kernel: Its release.
        user_id: Whose rights the checks have.
    """

    config: Config
    credentials: CredentialSettings = attrs.field(factory=CredentialSettings)
    api: ApiLook | None = None
    root: Path = Path("/")
    scan: HostScan | None = None
    scan_fault: str = ""
    gear: Gear | None = None
    gear_fault: str = ""
    status: Mapping[str, Any] | None = None
    runtime_version: str = ""
    kubelet_version: str = ""
    network_manager: Mapping[str, str] = attrs.field(factory=dict)
    host_name: str = ""
    kernel: str = ""
    user_id: int = 0

    def at(self, path: Path | str) -> Path:
        """Where an absolute path of the machine is found."""
        return self.root / str(path).lstrip("/")

    def read(self, path: Path | str) -> str | None:
        """The text of a small file; ``None`` when there is none that can be read."""
        try:
            return self.at(path).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None

    def files(self, folder: Path | str, pattern: str) -> list[str]:
        """Absolute paths of what fits a pattern in a folder of the machine, by name."""
        return [f"{folder}/{path.name}" for path in sorted(self.at(folder).glob(pattern))]

    @cached_property
    def inventory(self) -> Inventory:
        """The NICs that a daemon would find; none when the machine could not be looked at."""
        if self.scan is None:
            return Inventory()
        return judge(self.scan, Outlook(table=self.config.nic), Memory()).inventory

    @property
    def nri(self) -> Mapping[str, Any]:
        """What the running daemon says of NRI; empty without one."""
        found = (self.status or {}).get("nri")
        return found if isinstance(found, Mapping) else {}
