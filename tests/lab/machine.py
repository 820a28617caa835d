"""The emulated machine: two NUMA nodes, an IOMMU, two PCIe roots with a NIC of 7 VFs behind each.

    pcie.0       disk, the link by which the node is managed
    px0 (0x20)   node 0: ens1, an igb with 7 VFs; an empty port
    px1 (0x40)   node 1: ens2, the same; a conventional bridge with two NICs in one IOMMU group

Only bridges may sit on a `pxb-pcie`, so each NIC has a root port of its own.
Source: docs/pcie.txt of qemu 10.0, and what its `-device help` lists.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from berth.errors import HostError
from tests.cluster.boxes import LIMIT_S, Box, Daemon
from tests.cluster.controlplane import ADDRESS as OUTSIDE
from tests.lab import emulator
from tests.lab.channel import Guest
from tests.lab.image import Image
from tests.lab.qmp import Qmp

ADDRESS = "10.98.0.200"
MANAGEMENT = "lab"
"""The link out here by which the node is managed."""
NICS = {"ens1": "02:be:00:01:00:00", "ens2": "02:be:00:02:00:00"}
"""The two functions with VFs, and their MAC addresses."""
EMPTY_PORT = "rp3"
READY = "ready"
"""The name of a snapshot within a disk."""
TUN = "/dev/net/tun"
"""Makes the links out here that the machine is wired to."""
_COMMAND_LINE = "root=/dev/vda rw console=ttyS0 quiet intel_iommu=on mitigations=off"
_CPUS, _MEMORY_MIB = 4, 3072


def _numa() -> list[str]:
    half = _MEMORY_MIB // 2
    arguments = ["-smp", str(_CPUS), "-m", f"{_MEMORY_MIB}M"]
    for node in (0, 1):
        cpus = f"{node * _CPUS // 2}-{(node + 1) * _CPUS // 2 - 1}"
        arguments += ["-object", f"memory-backend-ram,id=mem{node},size={half}M"]
        arguments += ["-numa", f"node,nodeid={node},cpus={cpus},memdev=mem{node}"]
    return arguments


def _roots() -> list[str]:
    devices = [
        "intel-iommu",
        "pxb-pcie,id=px0,bus_nr=32,bus=pcie.0,numa_node=0",
        "pxb-pcie,id=px1,bus_nr=64,bus=pcie.0,numa_node=1",
        "pcie-root-port,id=rp0,bus=px0,chassis=1,slot=1",
        "pcie-root-port,id=rp1,bus=px1,chassis=2,slot=2",
        "pcie-root-port,id=rp2,bus=px1,chassis=3,slot=3",
        f"pcie-root-port,id={EMPTY_PORT},bus=px0,chassis=4,slot=4",
        "pcie-pci-bridge,id=br2,bus=rp2",
        "e1000,bus=br2,addr=1,mac=02:be:00:03:00:01",
        "e1000,bus=br2,addr=2,mac=02:be:00:03:00:02",
    ]
    return [part for each in devices for part in ("-device", each)]


def _nics() -> list[str]:
    arguments = [*_tap("management", MANAGEMENT), "-device"]
    arguments += ["virtio-net-pci,netdev=management,mac=02:be:00:00:00:01,bus=pcie.0"]
    for number, (name, mac) in enumerate(NICS.items()):
        arguments += _tap(name, peer(name))
        arguments += ["-device", f"igb,id={name},netdev={name},mac={mac},bus=rp{number}"]
    return arguments


def _tap(number: str, link: str) -> list[str]:
    return ["-netdev", f"tap,id={number},ifname={link},script=no,downscript=no"]


def peer(nic: str) -> str:
    """The other end of a function's wire, in the network outside."""
    return f"{MANAGEMENT}-{nic}"


def hardware() -> list[str]:
    """The machine without what differs from run to run; a snapshot fits this and no other."""
    machine = ["-machine", "q35,kernel-irqchip=split", *accelerator(), "-display", "none"]
    return [*machine, *_numa(), *_roots(), *_nics()]


def key() -> str:
    """Changes with the hardware."""
    return hashlib.sha256(repr((hardware(), _COMMAND_LINE)).encode()).hexdigest()[:8]


def missing() -> list[str]:
    """What this machine lacks for an emulated one, beside what a cluster needs; empty if nothing.

    A node of that name may be there and its driver not, or not for us.
    """
    try:
        os.close(os.open(TUN, os.O_RDWR | os.O_CLOEXEC))
    except OSError as error:
        return [f"{TUN} ({os.strerror(error.errno or 0)})"]
    return []


def accelerator() -> list[str]:
    """Software emulation: KVM, where it is, was seen to hang guests on machines like ours."""
    return ["-accel", "tcg,thread=multi", "-cpu", "max"]


class Machine:
    """One machine, on or off.

    Args:
        box: In whose network it is wired: its management link to the bridge, each NIC to a link
            of its own.
        folder: Where its console's log and its sockets lie.
        image: What it boots from.
        disk: Its own disk over the image's.
    """

    def __init__(self, box: Box, folder: Path, image: Image, disk: Path) -> None:
        self.box = box
        self.guest = Guest(box, ADDRESS)
        self._image = image
        self._disk = disk
        self._switch = folder / "qmp.sock"
        self._console = folder / "log" / "console.log"
        self._console.parent.mkdir(parents=True, exist_ok=True)
        self._daemon: Daemon | None = None

    def start(self, *, snapshot: str = "") -> None:
        """Switch it on, or have it go on from a snapshot; returns when its agent serves."""
        for link in (MANAGEMENT, *map(peer, NICS)):
            self._wire(link)
        self.box.run("ip", "link", "set", MANAGEMENT, "master", "br0")
        command = ["nice", "-n", "5", *emulator.system(), *hardware(), *self._own()]
        self._daemon = self.box.spawn(
            "qemu", [*command, *(("-loadvm", snapshot) if snapshot else ())]
        )
        self._wait_switch()
        self.guest.wait_serving()
        if snapshot:
            # It goes on at the time of the snapshot.
            self.guest.run("date", "--set", f"@{time.time():.2f}")

    def qmp(self) -> Qmp:
        """A new connection to its switchboard; there can be one at a time."""
        return Qmp(self._switch)

    def plug_in(self, name: str) -> None:
        """Plug a NIC into the empty port, wired to a link of its own out here."""
        self._wire(peer(name))
        with contextlib.closing(self.qmp()) as qmp:
            wire = {"type": "tap", "ifname": peer(name), "script": "no", "downscript": "no"}
            qmp.ask("netdev_add", id=name, **wire)
            qmp.ask("device_add", driver="e1000e", id=name, netdev=name, bus=EMPTY_PORT)

    def pull_out(self, name: str) -> None:
        """Pull it out again; returns when it is out. One that is out already is no error."""
        with contextlib.closing(self.qmp()) as qmp:
            devices = qmp.ask("qom-list", path="/machine/peripheral")
            if name not in {each["name"] for each in devices}:
                return
            qmp.ask("device_del", id=name)
            qmp.wait_event("DEVICE_DELETED", device=name)
            qmp.ask("netdev_del", id=name)
        self.box.run("ip", "link", "delete", peer(name), check=False)

    def save(self, snapshot: str) -> None:
        """Keep its whole state in its disk, and end it."""
        qmp = self.qmp()
        qmp.ask("stop")
        qmp.monitor(f"savevm {snapshot}")
        # It closes its disk: what was written there is all there.
        qmp.ask("quit")
        qmp.close()
        assert self._daemon is not None
        self._daemon.wait()
        self.stop()

    def cut_power(self) -> None:
        """Have it boot again with what it had written; returns when its agent serves."""
        before = self.guest.read("/proc/sys/kernel/random/boot_id")
        qmp = self.qmp()
        qmp.ask("system_reset")
        qmp.close()
        end = time.monotonic() + LIMIT_S
        while True:
            self.guest.wait_serving()
            if self.guest.read("/proc/sys/kernel/random/boot_id") != before:
                return
            if time.monotonic() > end:
                raise HostError("lab", "did not boot again")

    def stop(self) -> None:
        """End it, whatever it does."""
        if self._daemon is None:
            return
        self._daemon.kill()
        self._daemon = None
        for link in (MANAGEMENT, *map(peer, NICS)):
            self.box.run("ip", "link", "delete", link, check=False)

    def _wire(self, link: str) -> None:
        self.box.run("ip", "tuntap", "add", link, "mode", "tap")
        self.box.run("ip", "link", "set", link, "up")

    def _own(self) -> list[str]:
        drive = f"if=none,id=disk,file={self._disk},format=qcow2,cache=unsafe,discard=unmap"
        return [
            *("-kernel", str(self._image.kernel), "-initrd", str(self._image.initrd)),
            *("-append", _COMMAND_LINE),
            *("-drive", drive, "-device", "virtio-blk-pci,drive=disk,bus=pcie.0"),
            *("-chardev", f"file,id=console,path={self._console},append=on"),
            *("-serial", "chardev:console"),
            *("-qmp", f"unix:{self._switch},server=on,wait=off"),
        ]

    def _wait_switch(self) -> None:
        end = time.monotonic() + LIMIT_S
        while not self._switch.is_socket():
            if self._daemon is None or not self._daemon.alive or time.monotonic() > end:
                said = self._daemon.log_text()[-2000:] if self._daemon else ""
                raise HostError("lab", "its emulator does not start", rule=said)
            time.sleep(0.05)


@contextlib.contextmanager
def on(box: Box, folder: Path, image: Image, disk: Path) -> Iterator[Machine]:
    """A machine in a network of its own, without a cluster; its box ends with the block."""
    box.start()
    try:
        box.run("ip", "link", "add", "br0", "type", "bridge", "forward_delay", "0")
        box.run("ip", "address", "add", f"{OUTSIDE}/24", "dev", "br0")
        box.run("ip", "link", "set", "br0", "up")
        yield Machine(box, folder, image, disk)
    finally:
        box.kill()


def copy_disk(source: Path, target: Path) -> None:
    """Copy a disk of which most was never written."""
    command = ["cp", "--sparse=always", "--reflink=auto", str(source), str(target)]
    subprocess.run(command, check=True)
