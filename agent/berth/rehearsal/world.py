"""The world in which a rehearsal plays: a host with NICs, a switch that they are cabled to.

`furnish` turns a process with namespaces of its own (`berth.rehearsal.enter`) into that host: empty
``/run``, a ``/sys`` that shows its own links and no hardware, another boot id, and nothing at the
paths where this machine may have a kubelet or a berth of its own. A `World` then makes the NICs:
veth pairs, one end of each on the host, the other in the network namespace ``switch``.

Nothing is taken down by hand: it all ends with the first process of the world.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from berth.errors import HostError
from berth.host.scan import BOOT_ID
from berth.rehearsal.iproute import LinkFacts, ip, ip_batch, ip_json, link_facts
from berth.rehearsal.mounts import MS_NODEV, MS_NOEXEC, MS_NOSUID, bind, mount
from berth.runtime.threads import run_in_thread

ROOT: Final = Path("/run/rehearsal")
"""Where everything of the rehearsal's own lies: it stays over a reboot."""

NODE: Final = "rehearsal"
"""Host name, and name of the Node."""

SWITCH: Final = "switch"
"""Network namespace with the far ends of the NICs' cables."""

NETNS: Final = Path("/run/netns")

_PCI: Final = Path("/sys/bus/pci/devices")
_OTHERS: Final = ("/etc/berth", "/etc/cdi", "/var/lib/berth", "/var/lib/kubelet")
_PLAIN: Final = MS_NOSUID | MS_NODEV | MS_NOEXEC


def furnish() -> None:
    """Make this process's namespaces a host of their own. Blocks.

    Raises:
        HostError: The kernel refused a mount.
    """
    mount("proc", Path("/proc"), flags=_PLAIN)
    with contextlib.suppress(HostError):
        # Where it may not be mounted the links are seen by netlink all the same.
        mount("sysfs", Path("/sys"), flags=_PLAIN)
    if _PCI.is_dir():
        mount("tmpfs", _PCI, flags=_PLAIN)
    for folder in map(Path, _OTHERS):
        if folder.is_dir():
            mount("tmpfs", folder, flags=_PLAIN)
    for folder in (Path("/run"), Path("/var/run")):
        if not (folder / ROOT.name).is_dir():
            mount("tmpfs", folder, flags=MS_NOSUID | MS_NODEV, options="mode=755")
            (folder / ROOT.name).mkdir()
    socket.sethostname(NODE)
    boot_id = ROOT / "boot_id"
    _write_boot_id(boot_id)
    bind(boot_id, BOOT_ID)


class World:
    """The host's folders and links.

    Attributes:
        kubelet: Kubelet's root folder.
        state: The daemon's state folder.
        runtime: The daemon's runtime folder.
    """

    kubelet: Final = ROOT / "kubelet"
    state: Final = ROOT / "state"
    runtime: Final = Path("/run/berth")

    async def open(self) -> None:
        """Make the folders and the switch.

        Raises:
            HostError: ``ip`` is missing, or the kernel refused.
        """
        for folder in (self.kubelet, self.state):
            folder.mkdir(mode=0o700, exist_ok=True)
        await ip("link", "set", "lo", "up")
        await ip("netns", "add", SWITCH)

    async def add_nic(
        self,
        name: str,
        *,
        mac: str = "",
        mtu: int = 1500,
        altnames: Sequence[str] = (),
        up: bool = True,
    ) -> LinkFacts:
        """Plug in a NIC and give how it is. Its cable's other end has its name, in the switch.

        Raises:
            HostError: The kernel does not make it so.
        """
        address = f"address {mac}" if mac else ""
        far = f"peer name {name} netns {SWITCH} mtu {mtu}"
        lines = [f"link add {name} mtu {mtu} {address} type veth {far}"]
        lines += [f"link property add dev {name} altname {altname}" for altname in altnames]
        if up:
            lines.append(f"link set {name} up")
        await ip_batch(lines)
        await ip("link", "set", name, "up", netns=SWITCH)
        facts = await link_facts(name)
        if facts is None:
            raise HostError("host", f"has no link {name} after it was made")
        return facts

    async def remove_nic(self, name: str) -> None:
        """Pull a NIC out, wherever it is: its cable goes, and with it the NIC.

        Raises:
            HostError: There is none of that name.
        """
        await ip("link", "delete", name, netns=SWITCH)

    async def reboot(self) -> None:
        """Forget what a reboot forgets: ``/run``, every namespace, the boot id. Ends no process.

        NICs are as their driver makes them: plug them in anew.

        Raises:
            HostError: The kernel refused.
        """
        for name in await run_in_thread("files", os.listdir, NETNS):
            await ip("netns", "delete", name)
        for row in await ip_json("link", "show"):
            if row["ifname"] != "lo":
                # A namespace dies in its own time, and its ends of cables with it.
                with contextlib.suppress(HostError):
                    await ip("link", "delete", row["ifname"])
        await run_in_thread("files", _forget)
        await ip("netns", "add", SWITCH)


def _forget() -> None:
    for path in Path("/run").iterdir():
        if path not in {ROOT, NETNS}:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    _write_boot_id(ROOT / "boot_id")


def _write_boot_id(path: Path) -> None:
    path.write_text(f"{uuid.uuid4()}\n", encoding="ascii")
