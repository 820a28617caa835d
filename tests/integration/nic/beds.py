"""A scratch namespace as home, scratch namespaces as pods, and a look at links by other eyes.

The code under test takes its process's own namespace for the host's. So while a `Bed` is open the
main thread of the tests stands in a scratch namespace, and with it every thread made there.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
from trio._core import _thread_cache

from berth.host.netlink.link import Link
from berth.host.netlink.rtnl import Rtnl
from berth.model.claim import ConfigSource, Consumer
from berth.nic import attach
from berth.nic.attach import Budget
from berth.nic.config import DeviceFacts
from berth.nic.config.values import NicConfig
from berth.nic.record import NicRecord, SandboxRef
from berth.runtime.threads import Decision
from tests.netns import ScratchNetns, need_root, scratch_netns
from tests.unit.nic.config.claims import NIC, SHARED, entry, resolved

BOOT = "boot-of-the-test"
_CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)

# What of a link is the kernel's finding, not anybody's wish.
_FINDINGS = {"operstate", "qdisc", "link_index", "link_netnsid", "link", "flags", "promiscuity"}
_KEPT_FLAGS = {"UP", "PROMISC", "ALLMULTI", "NOARP", "MULTICAST"}
_ADDRESS_KEYS = {"family", "local", "prefixlen", "broadcast", "scope", "label", "address", "peer"}


def _enter(fd: int) -> None:
    if _libc.setns(fd, _CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


class Bed:
    """A host with its pods, for one test.

    Attributes:
        home: The namespace that stands for the host's.
    """

    def __init__(self, home: ScratchNetns, pods: contextlib.ExitStack) -> None:
        self.home = home
        self._pods = pods
        self._count = 0

    def pod(self, name: str = "", *, again: Pod | None = None) -> Pod:
        """A new pod, with nothing but its loopback.

        Args:
            again: The pod whose next sandbox it is instead.
        """
        self._count += 1
        name = name or f"pod-{self._count}"
        netns = self._pods.enter_context(scratch_netns(name))
        return Pod(name=again.name if again is not None else name, netns=netns, number=self._count)

    def veth(self, name: str, *, peer: str = "", mac: str = "") -> Link:
        """A veth pair at home, both ends up; gives the end of the name."""
        address = ("address", mac) if mac else ()
        peer = peer or f"{name}p"
        self.home.ip("link", "add", name, *address, "type", "veth", "peer", "name", peer)
        self.home.ip("link", "set", peer, "up")
        self.home.ip("link", "set", name, "up")
        return self.link(name)

    def link(self, name: str) -> Link:
        """A link at home, as our own code reads it."""
        with Rtnl.home() as tables:
            found = tables.link(name=name)
        assert found is not None, name
        return found

    def forget(self, name: str) -> None:
        """Remove a link at home and the pair it was made with, as far as they are still there.

        The kernel takes a dead pod's links down some time after the pod's end, so the peer may
        still be at home; who removes one end has removed both, wherever the other one is.
        """
        for end in (name, f"{name}p"):
            try:
                self.home.ip("link", "del", end)
            except AssertionError:
                if end in self.names():
                    raise

    def names(self) -> set[str]:
        """The links at home but the loopback."""
        return {row["ifname"] for row in self.home.ip_json("link")} - {"lo"}

    def seen(self, name: str) -> dict[str, Any]:
        """A link at home with all that hangs on it, as ``ip`` and ``/proc/sys`` tell it."""
        return look(self.home, name)


@attrs.frozen(kw_only=True)
class Pod:
    """A pod's sandbox.

    Attributes:
        number: Tells a pod's sandboxes apart.
    """

    name: str
    netns: ScratchNetns
    number: int = 0

    @property
    def sandbox(self) -> SandboxRef:
        """As the hook knows it."""
        return SandboxRef(
            id=f"sandbox-{self.number}-of-{self.name}",
            pod_uid=f"uid-of-{self.name}",
            pod=f"team/{self.name}",
            netns_path=str(self.netns.path),
            netns_inode=self.netns.inode,
        )

    @property
    def consumer(self) -> Consumer:
        """As a claim names the pod."""
        return Consumer(resource="pods", name=self.name, uid=self.sandbox.pod_uid)

    def link(self, name: str) -> Link:
        """A link in the pod, as our own code reads it."""
        found = self.find(name)
        assert found is not None, name
        return found

    def find(self, name: str) -> Link | None:
        """The same, or ``None``."""
        with Rtnl.of(self.netns.fd) as tables:
            return tables.link(name=name)

    def names(self) -> set[str]:
        """The links in the pod but its loopback."""
        return {row["ifname"] for row in self.netns.ip_json("link")} - {"lo"}

    def ips(self, name: str) -> list[str]:
        """The addresses of a link in the pod that somebody set."""
        rows = self.netns.ip_json("addr", "show", "dev", name, "scope", "global")
        return [f"{a['local']}/{a['prefixlen']}" for row in rows for a in row["addr_info"] if a]


@contextlib.contextmanager
def open_bed() -> Iterator[Bed]:
    """Stand in a scratch namespace for the block; skips where that is not allowed."""
    need_root()
    own = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    cache = _thread_cache.THREAD_CACHE
    try:
        with scratch_netns("home") as home, contextlib.ExitStack() as pods:
            assert threading.current_thread() is threading.main_thread()
            _enter(home.fd)
            # Idle threads of trio's stand in another namespace.
            _thread_cache.THREAD_CACHE = _thread_cache.ThreadCache()
            try:
                assert Path("/proc/self/ns/net").stat().st_ino == home.inode != os.fstat(own).st_ino
                yield Bed(home, pods)
            finally:
                _enter(own)
    finally:
        _thread_cache.THREAD_CACHE = cache
        os.close(own)


def look(namespace: ScratchNetns, name: str) -> dict[str, Any]:
    """A link with all that hangs on it, in the words of ``ip`` and of ``/proc/sys``."""
    (link,) = namespace.ip_json("link", "show", "dev", name)
    link["altnames"] = sorted(link.get("altnames", []))
    (addresses,) = namespace.ip_json("address", "show", "dev", name)
    return {
        "link": {key: value for key, value in link.items() if key not in _FINDINGS},
        "flags": sorted(set(link["flags"]) & _KEPT_FLAGS),
        "addresses": [
            {key: value for key, value in row.items() if key in _ADDRESS_KEYS}
            for row in addresses["addr_info"]
            if row["scope"] != "link" or row["family"] == "inet"
        ],
        "routes": sorted(
            line.strip()
            for family in ("-4", "-6")
            for line in namespace.ip(family, "route", "show", "table", "all").splitlines()
            if f"dev {name} " in line and "proto kernel" not in line
        ),
        "neighbors": sorted(
            line
            for line in namespace.ip("neigh", "show", "dev", name).splitlines()
            if "PERMANENT" in line
        ),
        "sysctls": _sysctls(namespace, name),
    }


def setting(namespace: ScratchNetns, path: str) -> str:
    """What a file under ``/proc/sys/net`` says in a namespace."""
    return namespace.run(lambda: Path("/proc/sys/net", path).read_text()).strip()


def put_setting(namespace: ScratchNetns, path: str, value: int) -> None:
    """Write a file under ``/proc/sys/net`` in a namespace."""
    namespace.run(lambda: Path("/proc/sys/net", path).write_text(f"{value}\n"))


def _sysctls(namespace: ScratchNetns, name: str) -> Mapping[str, str]:
    script = f"cd /proc/sys/net && grep -s . ipv4/conf/{name}/* ipv6/conf/{name}/*"
    done = subprocess.run(
        ["nsenter", f"--net={namespace.path}", "sh", "-c", script],
        capture_output=True,
        text=True,
        check=False,
        timeout=20,
    )
    found = dict(line.split(":", 1) for line in done.stdout.splitlines())
    return {key.replace(f"/{name}/", "/"): v for key, v in found.items() if "secret" not in key}


def config_of(name: str = "net1", **parameters: Any) -> NicConfig:
    """What becomes of a configuration on a NIC that is moved, every default in it."""
    return _config(NIC, name, parameters)


def child_config_of(name: str = "net1", **parameters: Any) -> NicConfig:
    """The same for a child of a shared parent."""
    return _config(SHARED, name, parameters)


def _config(facts: DeviceFacts, name: str, parameters: dict[str, Any]) -> NicConfig:
    interface = {"name": name, **parameters.pop("interface", {})}
    wish = entry({"interface": interface, **parameters}, source=ConfigSource.CLASS)
    return resolved(wish, facts=facts)[0].config


def reserved(link: Link, config: NicConfig | None = None, *, driver: str = "") -> NicRecord:
    """The record of a virtual link before anything was done, its originals read."""
    record = NicRecord(
        identity=f"link:{BOOT}:{link.index}",
        device=f"nic-{link.name}",
        group="test",
        config=config or config_of(),
        boot_id=BOOT,
    )
    return attach.read_originals(record, link.index, driver=driver)


def staged(link: Link, config: NicConfig | None = None) -> NicRecord:
    """The record of a virtual link that is ready to move."""
    return attach.stage(reserved(link, config))


def child_of(parent: Link, config: NicConfig | None = None) -> NicRecord:
    """The record of a child to be made over a link."""
    record = NicRecord(
        identity=f"link:{BOOT}:{parent.index}",
        device=f"parent-{parent.name}",
        group="shared",
        config=config or child_config_of(),
        boot_id=BOOT,
        parent_index=parent.index,
    )
    return attach.stage(record)


def attached(pod: Pod, *records: NicRecord, limit_s: float = 60.0) -> tuple[NicRecord, ...]:
    """Bring NICs into a pod with all the time in the world."""
    budget = Budget(ends_at=0.0)
    budget = attrs.evolve(budget, ends_at=budget.clock() + limit_s)
    return attach.attach(records, pod.sandbox, budget=budget, decision=Decision())
