"""What tests of restarts, crashes and outages share: pods with a furnished NIC, and figures."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import attrs
import grpc

from berth.errors import HostError
from tests.cluster.api import Object
from tests.cluster.berthd import CONFIG as CONFIG_FILE
from tests.cluster.berthd import DRIVER, Berthd
from tests.cluster.boxes import LIMIT_S
from tests.cluster.claimforms import nic_config
from tests.cluster.crashing import FUSE
from tests.cluster.node import CONTAINERD_SOCKET, SLICES
from tests.cluster.site import PodView, Site, device

NICS = tuple(f"nic{number}" for number in range(10))
CONFIG = f"""
[[nic.group]]
name = "lab"
match = {{ name = {json.dumps(NICS)} }}
take_configured = true
"""
FUSED = [sys.executable, str(Path(__file__).with_name("crashing.py")), "--config", CONFIG_FILE]
"""The daemon that dies or stops where it is told to."""
REGISTERED = "registered with kubelet"
ADDRESS = "192.0.2.10/24"
METADATA = f"/var/lib/kubelet/plugins/{DRIVER}/dra-device-metadata"
_T = TypeVar("_T")


def open_furnished(
    site: Site,
    *,
    nics: int = 1,
    activated: bool = False,
    command: Sequence[str] = (),
    config: str = CONFIG,
    offers: Sequence[str] | None = None,
) -> Berthd:
    """Plug NICs in that have settings of a host's, start the daemon, and wait for its slices.

    Args:
        site: With no NIC and no daemon yet.
        nics: How many.
        activated: Whether the daemon's sockets are kept over its restarts.
        command: What is started in the daemon's place.
        config: Its settings.
        offers: The devices to wait for, when it is not all.
    """
    forward_packets(site)
    for nic in NICS[:nics]:
        site.node.add_nic(nic)
        furnish(site, nic)
    berthd = site.node.start_berthd(config, activated=activated, command=command)
    berthd.wait_ready()
    if activated:
        site.wait_registered()
    site.wait_offered([device(nic) for nic in NICS[:nics]] if offers is None else offers)
    return berthd


def arm(site: Site, phase: str, step: int, number: signal.Signals = signal.SIGKILL) -> None:
    """Have the daemon of `FUSED` get a signal at that step of a phase; see `crashing.py`."""
    site.node.path(FUSE).write_text(f"{phase} {step} {number.name}")


def disarm(site: Site) -> bool:
    """Take the fuse away; gives whether it was still there."""
    file = site.node.path(FUSE)
    armed = file.exists()
    file.unlink(missing_ok=True)
    return armed


def forward_packets(site: Site) -> None:
    """What the first pod's network does; a NIC's settings shall not change with that."""
    site.node.run("sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")


def furnish(site: Site, nic: str) -> None:
    """Give a NIC settings that a return must not forget; a reboot takes them."""
    place = NICS.index(nic)
    ip = site.node.ip
    ip("link", "set", nic, "mtu", "1480", "txqueuelen", "500", "alias", f"port of {nic}")
    ip("link", "property", "add", "dev", nic, "altname", f"rack-{nic}")
    ip("address", "add", f"203.0.113.{place}/32", "dev", nic)
    ip("route", "add", f"198.51.100.{place}/32", "dev", nic)


def create(site: Site, name: str, **more: Any) -> PodView:
    """Create a claim for a NIC, `net1` in its pod, and a pod for it, both of that name."""
    interface = nic_config(
        interface={"name": "net1", "mtu": 1400},
        addresses=[{"address": ADDRESS}],
        routes=[{"to": "198.18.0.0/24", "via": "192.0.2.1"}],
    )
    site.claim(name, config=[interface])
    return site.create(name, name, **more)


def create_prepared(site: Site, name: str, **more: Any) -> PodView:
    """The same, and wait until kubelet has the answer to its prepare.

    The runtime is frozen, so that the pod's sandbox is not made before the caller thaws it. What
    the daemon logs of a prepare is not enough: it does so just before it answers, and a daemon that
    is killed in between leaves a failed prepare, which kubelet repeats after 60 to 90 s.
    """
    site.node.containerd.freeze()
    view = create(site, name, **more)
    checkpoint = site.node.path("/var/lib/kubelet/dra_manager_state")
    poll(
        lambda: checkpoint.read_text() if checkpoint.exists() else "",
        # It has the claim before the call, and the devices of the answer behind it.
        lambda text: "CDIDeviceIDs" in text and device(NICS[0]) in text,
        what="kubelet's record of the prepared claim",
    )
    return view


def run(site: Site, name: str, **more: Any) -> PodView:
    """Create both, and wait until the pod runs."""
    made = create(site, name, **more)
    site.cluster.wait_running(made.now, limit_s=60)
    return made


def poke(site: Site, view: PodView) -> None:
    """Have kubelet look at a pod now; after a failed prepare it would in 60 to 90 s."""
    site.api.merge(view.path, {"metadata": {"annotations": {"poke": str(time.monotonic())}}})


def delete(site: Site, view: PodView) -> None:
    """Delete a pod and its claim."""
    view.delete()
    path = site.claim_path(view.name)
    site.api.delete(path)
    site.api.wait_gone(path)


def wait_inside(view: PodView, *, limit_s: float = 10) -> Object:
    """Wait until the pod has its NIC whole; gives it as it is there."""

    def look() -> Object:
        # While its containers change there may be no namespace to look into.
        with contextlib.suppress(HostError):
            return view.link("net1") if "net1" in view.links() else {}
        return {}

    def whole(link: Object) -> bool:
        addresses = [f"{each['local']}/{each['prefixlen']}" for each in link.get("addresses", ())]
        return ADDRESS in addresses and bool(link["routes"])

    return poll(look, whole, what=f"the NIC of {view.name}", limit_s=limit_s)


def wait_told(site: Site, name: str) -> None:
    """Wait until the metadata of a claim tells what its NIC is called in its pod.

    On the node: a container that runs already keeps the file that it was started with.
    """
    uid = site.api.get(site.claim_path(name))["metadata"]["uid"]
    file = site.node.path(f"{METADATA}/{uid}/nic/metadata.json")
    poll(
        file.read_text,
        lambda text: json.JSONDecoder().raw_decode(text)[0]["metadata"]["generation"] == 2,
        what=f"metadata of {name}",
        limit_s=10,
    )


@attrs.frozen(kw_only=True)
class Sandbox:
    """A pod's sandbox in the runtime.

    Attributes:
        id: The runtime's.
        pid: Of its pause process, on the node.
    """

    id: str
    pid: int


def wait_sandbox(site: Site, view: PodView, *, but: Sandbox | None = None) -> Sandbox:
    """Wait until a pod has a living sandbox, another than one that is known; gives it."""
    uid = view.now["metadata"]["uid"]
    of_pod = f'labels."io.kubernetes.pod.uid"=={uid},labels."io.cri-containerd.kind"==sandbox'

    def living() -> list[Sandbox]:
        numbers = site.node.ctr("containers", "list", "-q", of_pod).split()
        tasks = [line.split() for line in site.node.ctr("tasks", "list").splitlines()]
        found = [
            Sandbox(id=number, pid=int(pid))
            for number, pid, state in tasks
            if number in numbers and state == "RUNNING"
        ]
        return [each for each in found if each != but]

    return poll(living, bool, what=f"a sandbox of {view.name}")[0]


def enter(site: Site, view: PodView) -> tuple[str, ...]:
    """The command that runs what follows it in a pod's network, on the node."""
    return ("nsenter", f"--net=/proc/{wait_sandbox(site, view).pid}/ns/net", "--")


def remove_sandbox(site: Site, old: Sandbox) -> None:
    """Have the runtime stop and remove a sandbox, as kubelet does long after its end.

    Source: CRI's runtime.v1, where the sandbox's id is field 1 of both requests.
    """
    server = f"unix:{site.node.path(CONTAINERD_SOCKET)}"
    with grpc.insecure_channel(server) as channel:
        for verb in ("StopPodSandbox", "RemovePodSandbox"):
            call: Callable[..., bytes] = channel.unary_unary(f"/runtime.v1.RuntimeService/{verb}")
            call(b"\x0a" + bytes([len(old.id)]) + old.id.encode(), timeout=LIMIT_S)


def held(site: Site, name: str) -> str:
    """The NIC that a claim was given; empty while it has none."""
    allocation = site.api.get(site.claim_path(name))["status"].get("allocation")
    if not allocation:
        return ""
    (result,) = allocation["devices"]["results"]
    return str(result["device"].rpartition("-")[2])


def slices(site: Site) -> list[Object]:
    """Our slices of the node."""
    own = f"spec.nodeName={site.node.name},spec.driver={DRIVER}"
    return site.api.items(SLICES, fieldSelector=own)


def figures(berthd: Berthd) -> dict[str, int]:
    """How many threads, open files and sockets the daemon has."""
    own = Path(f"/proc/{berthd.pid}")
    files = []
    for each in (own / "fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            files.append(str(each.readlink()))
    return {
        "threads": len(list((own / "task").iterdir())),
        "sockets": sum(target.startswith("socket:") for target in files),
        "files": len(files),
    }


def wait_no_more(berthd: Berthd, before: Mapping[str, int]) -> None:
    """Wait until no figure is above what it was; idle worker threads end after a while.

    Raises:
        HostError: One stays above.
    """
    poll(
        lambda: figures(berthd),
        lambda now: all(now[each] <= before[each] for each in before),
        what=f"no more than {before}",
        limit_s=15,
    )


def wait_log(berthd: Berthd, text: str, *, count: int = 1, limit_s: float = LIMIT_S) -> str:
    """Wait until the daemon has logged a text so many times; gives the whole log."""
    return poll(
        berthd.log_text,
        lambda log: log.count(text) >= count,
        what=f"{text!r} logged {count} times",
        limit_s=limit_s,
    )


def writes(site: Site, resource: str) -> int:
    """How many requests that write a resource the API server has answered, kubelet's wipe apart."""
    pattern = re.compile(
        # What was only shown to it counts as its own series.
        rf'^apiserver_request_total{{(?!.*dry_run="All").*resource="{resource}"'
        r'.*verb="(POST|PUT|PATCH|DELETE)".*} (\S+)$',
        re.MULTILINE,
    )
    return sum(int(float(count)) for _, count in pattern.findall(site.api.get("/metrics")))


def poll(
    look: Callable[[], _T], ready: Callable[[_T], object], *, what: str, limit_s: float = LIMIT_S
) -> _T:
    """Look at what tells nobody of its changes, until it is as wished; gives it.

    Raises:
        HostError: It was not so within the limit.
    """
    end = time.monotonic() + limit_s
    while not ready(seen := look()):
        if time.monotonic() >= end:
            raise HostError(what, f"not so within {limit_s:.0f} s", rule=f"last seen: {seen}")
        time.sleep(0.05)
    return seen
