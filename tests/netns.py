"""Scratch network namespaces for tests: made by a thread of their own, found by path or descriptor.

A namespace lives while its path (a bind mount, as container runtimes make it) or its descriptor
exists; `ScratchNetns.end` gives both up, which is how a pod's namespace dies.
Nothing here touches a link of the namespace that the tests run in.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
import subprocess
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

T = TypeVar("T")

_CLONE_NEWNET = 0x40000000
_MS_BIND = 0x1000
_MNT_DETACH = 2

_libc = ctypes.CDLL(None, use_errno=True)


def _call(result: int, what: str) -> None:
    """Raise the C library's error for a call that answered with one."""
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def _in_fresh_thread(work: Callable[[], T]) -> T:
    """Run work in a thread that then ends, so that no other work meets its namespace."""
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="scratch-netns") as thread:
        return thread.submit(work).result()


class ScratchNetns:
    """A network namespace of the test's own, with its loopback up.

    Attributes:
        path: The bind-mounted file that names it, as a runtime would hand it to a hook.
        fd: A descriptor of it, open until `end`.
        inode: What `stat` of the path tells; two namespaces alive at once never share it.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.path = folder / name
        self.path.touch()
        self.fd = _in_fresh_thread(self._make)
        self.inode = os.fstat(self.fd).st_ino
        self._alive = True
        with contextlib.ExitStack() as undo:
            undo.callback(self.end)
            self.ip("link", "set", "lo", "up")
            undo.pop_all()

    def _make(self) -> int:
        _call(_libc.unshare(_CLONE_NEWNET), "unshare")
        own = f"/proc/self/task/{threading.get_native_id()}/ns/net"
        _call(_libc.mount(own.encode(), bytes(self.path), None, _MS_BIND, None), "mount")
        return os.open(own, os.O_RDONLY | os.O_CLOEXEC)

    def run(self, work: Callable[[], T]) -> T:
        """Give what work gives when it runs in a fresh thread inside the namespace."""

        def inside() -> T:
            _call(_libc.setns(self.fd, _CLONE_NEWNET), "setns")
            return work()

        return _in_fresh_thread(inside)

    def ip(self, *arguments: str) -> str:
        """Give what iproute2's ``ip`` prints in the namespace; a failure raises."""
        command = ["nsenter", f"--net={self.path}", "ip", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
        if done.returncode != 0:
            raise AssertionError(f"{' '.join(command)}: {done.stderr.strip()}")
        return done.stdout

    def ip_json(self, *arguments: str) -> list[dict[str, Any]]:
        """Give what ``ip -json`` tells, less the empty objects that it prints for filtered rows."""
        rows = json.loads(self.ip("-json", "-details", *arguments) or "[]")
        return [row for row in rows if row]

    def end(self) -> None:
        """Give the namespace up: it dies unless something else keeps it. May be called twice."""
        if self._alive:
            self._alive = False
            os.close(self.fd)
            _call(_libc.umount2(bytes(self.path), _MNT_DETACH), "umount")
            self.path.unlink()


@contextlib.contextmanager
def scratch_netns(name: str = "ns") -> Iterator[ScratchNetns]:
    """Make a namespace for the block, and skip the test, loudly, where that is not allowed.

    Args:
        name: The last part of its path; several namespaces of one test may share it.
    """
    need_root()
    folder = Path(tempfile.mkdtemp(prefix="berth-netns-"))
    try:
        namespace = ScratchNetns(folder, name)
        try:
            yield namespace
        finally:
            namespace.end()
    finally:
        shutil.rmtree(folder)


def need_root() -> None:
    """Skip the test unless this process may make namespaces and mounts."""
    if os.geteuid() != 0:
        pytest.skip("SKIPPED FOR WANT OF ROOT: makes network namespaces")


_kinds: dict[str, bool] = {}


def has_kind(kind: str) -> bool:
    """Tell whether this kernel makes links of the kind, by making one in a namespace."""
    if kind not in _kinds:
        with scratch_netns() as namespace:
            _kinds[kind] = _try_kind(namespace, kind)
    return _kinds[kind]


def _try_kind(namespace: ScratchNetns, kind: str) -> bool:
    if kind == "tun":
        return Path("/dev/net/tun").exists()
    base: tuple[str, ...] = ()
    details: tuple[str, ...] = {
        "vlan": ("id", "5"),
        "vxlan": ("id", "5", "dstport", "4789"),
        "vrf": ("table", "5"),
        "veth": ("peer", "name", "probe1"),
    }.get(kind, ())
    if kind in {"macvlan", "ipvlan", "vlan"}:
        namespace.ip("link", "add", "probe-base", "type", "bridge")
        base = ("link", "probe-base")
    try:
        namespace.ip("link", "add", *base, "name", "probe0", "type", kind, *details)
    except AssertionError:
        return False
    return True


def need_kind(*kinds: str) -> None:
    """Skip the test, naming what is missing, unless this kernel makes links of all the kinds."""
    missing = [kind for kind in kinds if not has_kind(kind)]
    if missing:
        pytest.skip(f"SKIPPED FOR WANT OF A KERNEL FEATURE: links of kind {', '.join(missing)}")
