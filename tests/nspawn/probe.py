"""Tries, inside a unit's sandbox, everything that berthd may need to do and must not be able to do.

Started in the place of the daemon, with the package's own code on its path. It leaves one JSON
object in `VERDICT`: for each wish the empty string when it was granted, else the system's reason.

Source of the wishes: packaging.md §2.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pyudev
from google.protobuf.internal import api_implementation

from berth.host.apart import run_apart
from berth.host.netlink.linkrequest import LinkChange, set_link
from berth.host.netlink.namespace import netns_descriptor, run_in_netns
from berth.host.netlink.rtnl import Rtnl
from berth.nic.settings import write_settings

GO = Path("/var/lib/berth/go")
"""Comes when the namespace of that name was made, after this process."""
STARTED = Path("/var/lib/berth/started")
VERDICT = Path("/var/lib/berth/verdict.json")
OTHER_PROCESS = 1

_libc = ctypes.CDLL(None, use_errno=True)
_CLONE_NEWUSER = 0x10000000
_MAP_PRIVATE_ANONYMOUS = 0x22
_PROT_ALL = 0x7
_SYSCALL_BPF, _SYSCALL_FINIT_MODULE, _SYSCALL_PIDFD_OPEN = 321, 313, 434


def call(result: int) -> None:
    """Raise the C library's error for a call that answered with one."""
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def write(path: str) -> None:
    """Make a file and remove it."""
    Path(path).write_text("probe", encoding="ascii")
    Path(path).unlink()


def open_to_write(path: str) -> None:
    """Open a file that is there for writing, and write nothing."""
    os.close(os.open(path, os.O_WRONLY))


def listen(path: str) -> None:
    """Bind a socket, and remove it."""
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(path)
        made.listen()
    Path(path).unlink()


def connect(path: str) -> None:
    """Connect to another's socket."""
    with socket.socket(socket.AF_UNIX) as made:
        made.connect(path)


def netlink(protocol: int) -> None:
    """Open and bind a netlink socket."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol) as made:
        made.bind((0, 0))


def move_there_and_back(name: str, netns: str) -> None:
    """Move a link into a namespace by that one's path, set it there, and bring it home."""
    with Rtnl.home() as home, netns_descriptor(netns) as there:
        with netns_descriptor("/proc/self/ns/net") as here:
            link = home.link(name=name)
            assert link is not None
            home.apply(set_link(link.index, LinkChange(netns_fd=there)))
            run_in_netns(there, lambda: write_settings(name, {"ipv6/accept_ra": 0}))
            with Rtnl.of(there) as pod:
                link = pod.link(name=name)
                assert link is not None
                pod.apply(set_link(link.index, LinkChange(netns_fd=here)))
        link = home.link(name=name)
        assert link is not None


def hear_namespaces() -> None:
    """Listen to the links of every namespace that has a number here."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as made:
        made.setsockopt(270, 8, 1)  # SOL_NETLINK, NETLINK_LISTEN_ALL_NSID


def call_back() -> None:
    """Have C call Python, as NVML's bindings and pyudev do."""
    kind = ctypes.CFUNCTYPE(
        ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int)
    )
    numbers = (ctypes.c_int * 3)(3, 1, 2)
    _libc.qsort(numbers, 3, 4, kind(lambda one, two: one[0] - two[0]))
    assert list(numbers) == [1, 2, 3]


def serve_grpc() -> None:
    """Serve a call, and make it."""
    path = "unix:/run/berth/probe-grpc.sock"
    answer: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_unary_rpc_method_handler(
        lambda request, _context: request
    )
    server = grpc.server(ThreadPoolExecutor(1))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("p", {"Echo": answer}),))
    server.add_insecure_port(path)
    server.start()
    with grpc.insecure_channel(path) as channel:
        echo: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary("/p/Echo")
        assert echo(b"x", timeout=20) == b"x"
    server.stop(None).wait()


def upb() -> None:
    """Whether protobuf runs on its fast implementation."""
    assert api_implementation.Type() == "upb"


def see_udev() -> None:
    """List devices by libudev."""
    assert list(pyudev.Context().list_devices(subsystem="net"))


def enter_pidfd() -> None:
    """Enter another process' network by a descriptor of the process."""
    descriptor = _libc.syscall(_SYSCALL_PIDFD_OPEN, OTHER_PROCESS, 0)
    call(descriptor)
    call(_libc.setns(descriptor, 0x40000000))


def run_program() -> None:
    """Run a program, as health commands are."""
    subprocess.run(["/bin/true"], check=True)


def wait_for_late_namespace() -> None:
    """Use a namespace that was made after the sandbox."""
    STARTED.touch()
    for _ in range(600):
        if GO.exists():
            return move_there_and_back("nic0", "/var/run/netns/late")
        time.sleep(0.1)
    raise TimeoutError


def keep_no_file() -> None:
    """Have a thread that has nothing open: the first thing that it opens has the first number."""
    assert run_apart(lambda: os.open("/dev/null", os.O_RDONLY)) == 0


def make_set_user_id() -> None:
    """Make a file that runs as its owner."""
    path = Path("/var/lib/berth/suid")
    path.touch()
    path.chmod(0o4755)


def change_owner() -> None:
    """Give a file to somebody else."""
    path = Path("/var/lib/berth/owned")
    path.touch()
    os.chown(path, 1, 1)


def thread_in_new_user_namespace() -> None:
    """Make a user namespace."""
    call(_libc.unshare(_CLONE_NEWUSER))


def map_writable_code() -> None:
    """Map memory that can be written and run."""
    _libc.mmap.restype = ctypes.c_void_p
    if (
        _libc.mmap(None, 4096, _PROT_ALL, _MAP_PRIVATE_ANONYMOUS, -1, 0)
        == ctypes.c_void_p(-1).value
    ):
        call(-1)


WISHES: dict[str, Callable[[], Any]] = {
    "state": lambda: write("/var/lib/berth/x"),
    "own sockets": lambda: listen("/run/berth/x.sock"),
    "sockets for kubelet": lambda: listen("/var/lib/kubelet/plugins/x.sock"),
    "CDI files": lambda: write("/var/run/cdi/x.json"),
    "markers": lambda: write("/run/berth-nics/0000:00:00.0"),
    "others' sockets": lambda: connect("/run/systemd/journal/stdout"),
    "netlink route": lambda: netlink(0),
    "netlink uevent": lambda: netlink(15),
    "netlink generic": lambda: netlink(16),
    "other namespaces' events": hear_namespaces,
    "link to a pod and back": lambda: move_there_and_back("nic0", "/var/run/netns/early"),
    "link to a later pod": wait_for_late_namespace,
    "IPv6 setting at home": lambda: write_settings("nic0", {"ipv6/accept_ra": 0}),
    "attribute of a NIC": lambda: open_to_write("/sys/class/net/nic0/mtu"),
    "attribute of a bus": lambda: open_to_write("/sys/bus/pci/drivers_probe"),
    "link in /dev": lambda: write("/dev/berth-probe"),
    "character device": lambda: open_to_write("/dev/net/tun"),
    "udev": see_udev,
    "callback from C": call_back,
    "upb": upb,
    "grpcio": serve_grpc,
    "program": run_program,
    "thread": lambda: threading.Thread(target=int).start(),
    "thread without files": keep_no_file,
    # What must be refused.
    "namespace by process number": lambda: run_in_netns(f"/proc/{OTHER_PROCESS}/ns/net", int),
    "namespace by pidfd": enter_pidfd,
    "load a module": lambda: call(_libc.syscall(_SYSCALL_FINIT_MODULE, 0, b"", 0)),
    "bpf": lambda: call(_libc.syscall(_SYSCALL_BPF, 0, 0, 0)),
    "make a device node": lambda: os.mknod("/dev/berth-null", 0o20600, os.makedev(1, 3)),
    "mount": lambda: call(_libc.mount(b"none", b"/run/berth", b"tmpfs", 0, None)),
    "change owner": change_owner,
    "set-user-id": make_set_user_id,
    "writable code": map_writable_code,
    "user namespace": thread_in_new_user_namespace,
    "packet socket": lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0).close(),
    "block device": lambda: open_to_write("/dev/berth-block"),
    "host name": lambda: socket.sethostname("probe"),
    "clock": lambda: time.clock_settime(time.CLOCK_REALTIME, time.time()),
    "priority": lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)),
    "/etc": lambda: write("/etc/x"),
    "/usr": lambda: write("/usr/lib/berthd/x"),
    "/home": lambda: list(Path("/root").iterdir()),
    "kernel setting": lambda: open_to_write("/proc/sys/kernel/core_pattern"),
    "control group": lambda: open_to_write("/sys/fs/cgroup/cgroup.procs"),
    "other sysfs": lambda: open_to_write("/sys/kernel/profiling"),
}


def attempt(wish: Callable[[], Any]) -> str:
    """Try it; gives the reason why not."""
    try:
        wish()
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, str(error))
    except Exception as error:  # noqa: BLE001 - whatever it raises is the finding
        number = getattr(error, "errno", 0)
        return errno.errorcode.get(number, f"{type(error).__name__}: {error}")
    return ""


if __name__ == "__main__":
    unfinished = VERDICT.with_suffix(".tmp")
    unfinished.write_text(json.dumps({name: attempt(wish) for name, wish in WISHES.items()}))
    unfinished.rename(VERDICT)
