"""A site: a node with NICs and our daemon on it, and a namespace for a test's claims and pods.

What a test wants to know it asks from outside: the other end of the NIC, the pod's own namespace,
the files that its container sees, the API, the journal.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, Protocol

from typing_extensions import TypeVar

from berth.errors import HostError
from tests.cluster import claimforms
from tests.cluster.api import Api, Object
from tests.cluster.bed import AUTHORIZER_LAGS, Cluster
from tests.cluster.berthd import DRIVER
from tests.cluster.links import describe
from tests.cluster.node import SLICES, Node
from tests.cluster.pods import pod, pod_path

MANIFESTS = Path(__file__).parents[2] / "configs" / "kubernetes"
LAB = """
[[nic.group]]
name = "lab"
match = { name = ["nic0", "nic1", "nic2"] }
"""
"""Settings that offer every NIC of up to three, each for one pod."""
METADATA = "/var/run/kubernetes.io/dra-device-attributes"
LIMIT_S = 30.0
PING_S = 60.0
"""An emulated VF was seen to need 7 s to its carrier, once its PF had come home."""


class Daemon(Protocol):
    """Our daemon, however it was started."""

    def wait_ready(self) -> object:
        """Wait until it serves."""

    def log_text(self) -> str:
        """What it has said so far."""


class Host(Protocol):
    """What a site wants of its node, which may lie in a box or in a virtual machine."""

    @property
    def name(self) -> str:
        """Of its Node object."""

    @property
    def nics(self) -> Mapping[str, str]:
        """The NICs that tests may have, from name to MAC address."""

    @property
    def berthd(self) -> Daemon:
        """Our daemon, as it was last started."""

    def run(self, *command: str) -> str:
        """Run a command there; gives what it wrote to stdout."""

    def ctr(self, *arguments: str) -> str:
        """Ask the runtime by its own program, about the containers of pods."""

    def berth(self, *arguments: str) -> str:
        """Run the operator's command."""

    def add_nic(self, name: str) -> str:
        """Plug a NIC in; gives the name of its other end."""

    def peer(self, nic: str) -> str:
        """The other end of a NIC, in the control plane's network."""

    def start_berthd(self, config: str) -> Daemon:
        """Start our daemon with these settings."""


HostT = TypeVar("HostT", bound=Host, default=Node)


class PodView:
    """A pod seen from its own inside.

    Args:
        site: Where it runs.
        name: What it is called.
    """

    def __init__(self, site: Site[Any], name: str) -> None:
        self._site = site
        self.name = name
        self.path = pod_path(site.namespace, name)

    @property
    def now(self) -> Object:
        """The pod as the API has it."""
        found: Object = self._site.api.get(self.path)
        return found

    def run(self, *command: str, container: str = "main") -> str:
        """Run a command in a container, as kubectl does."""
        where = ("-n", self._site.namespace, self.name, "-c", container)
        return self._site.cluster.kubectl("exec", *where, "--", *command)

    def ip(self, *arguments: str) -> list[Object]:
        """What iproute2 tells in the pod's network namespace; the image's own `ip` tells less."""
        told = self.enter("ip", "-j", *arguments)
        found: list[Object] = json.loads(told or "[]")
        return found

    def enter(self, *command: str) -> str:
        """Run a program of the node in the pod's network, with all that the node's root may do."""
        told: str = self._site.node.run("nsenter", f"--net={self._netns()}", *command)
        return told

    def link(self, name: str) -> Object:
        """A link of the pod with its addresses, as `describe` tells it."""
        return describe(self.enter, name)

    def links(self) -> set[str]:
        """The names of its links."""
        return {each["ifname"] for each in self.ip("link")}

    def sysctl(self, name: str) -> str:
        """A setting below `net`, with slashes."""
        return self.run("cat", f"/proc/sys/net/{name}").strip()

    def metadata(self, path: str, *, container: str = "main") -> list[Object]:
        """The objects of a metadata file below the folder that containers find them in."""
        text = self.run("cat", f"{METADATA}/{path}/{DRIVER}-metadata.json", container=container)
        return list(_stream(text))

    def wait(self, ready: Callable[[Object], object], *, what: str) -> Object:
        """Wait until the pod is as wished."""
        return self._site.api.wait(
            self.path, ready, what=f"{self.name} {what}", limit_s=self._site.limit_s
        )

    def wait_refused(self) -> str:
        """Wait until our daemon refused a claim of the pod; gives its words."""
        told = self.wait_event("FailedPrepareDynamicResources", "NodePrepareResources failed for")
        return told.partition(" failed for ResourceClaim ")[2].partition(": ")[2]

    def nudge(self) -> None:
        """Have kubelet look at it again now, rather than a minute later."""
        self._site.cluster.nudge(self._site.namespace, self.name)

    def wait_said(self, words: str, *, container: str = "main") -> str:
        """Wait until a container's log has these words; it lags behind the container."""
        logs = ("logs", "-n", self._site.namespace, self.name, "-c", container)

        def look() -> bool:
            return words in self._site.cluster.kubectl(*logs)

        self._site.wait_same(f"log of {self.name}", look, True, limit_s=self._site.limit_s)
        return self._site.cluster.kubectl(*logs)

    def wait_event(self, reason: str, words: str = "") -> str:
        """Wait for a warning about the pod of that reason with these words; gives its message."""

        def told(events: Mapping[str, Object]) -> list[str]:
            found = [each["message"] for each in events.values() if each["reason"] == reason]
            if any(AUTHORIZER_LAGS in each for each in found):
                self.nudge()
            return [each for each in found if words in each]

        events = self._site.api.wait_all(
            f"/api/v1/namespaces/{self._site.namespace}/events",
            told,
            what=f"{reason} of {self.name}",
            limit_s=self._site.limit_s,
            fieldSelector=f"involvedObject.name={self.name}",
        )
        return told(events)[-1]

    def events(self) -> list[str]:
        """What was told about it, oldest first."""
        return self._site.cluster.pod_events(self._site.namespace, self.name)

    def delete(self, *, grace_s: int | None = None) -> None:
        """Delete it and wait until it is gone."""
        self._site.api.delete(self.path, grace_s=grace_s)
        self._site.api.wait_gone(self.path, limit_s=self._site.limit_s)

    def _netns(self) -> str:
        status = self.now["status"]
        known = [*status.get("containerStatuses", ()), *status.get("initContainerStatuses", ())]
        number = known[0]["containerID"].rpartition("/")[2]
        told = self._site.node.ctr("containers", "info", number)
        spaces = json.loads(told)["Spec"]["linux"]["namespaces"]
        return next(str(each["path"]) for each in spaces if each["type"] == "network")


class Peer:
    """The other end of a NIC, in the control plane's network: what the pod's neighbors are.

    Args:
        cluster: Whose control plane.
        link: Its name there.
    """

    def __init__(self, cluster: Cluster, link: str) -> None:
        self._run = cluster.control.box.run
        self.link = link

    def set_address(self, *addresses: str) -> Peer:
        """Give it addresses with prefixes."""
        for each in addresses:
            extra = ("nodad",) if ":" in each else ()
            self._run("ip", "address", "add", each, "dev", self.link, *extra)
        return self

    def ping(self, address: str) -> None:
        """Reach an address through this link; either end may come up only now.

        One packet after the other: what is sent before is lost, and nobody sends it again.
        """
        end = time.monotonic() + PING_S
        while True:
            try:
                self._run("busybox", "ping", "-I", self.link, "-c", "1", "-W", "1", address)
            except HostError:
                if time.monotonic() >= end:
                    raise
            else:
                return

    def remember(self, address: str, mac: str) -> None:
        """Know an address as that MAC's, as a neighbor does that has spoken with it."""
        known = ("lladdr", mac, "nud", "stale")
        self._run("ip", "neighbor", "replace", address, "dev", self.link, *known)

    def remembered(self, address: str) -> str:
        """The MAC that it knows an address as; empty when it knows none."""
        told = json.loads(self._run("ip", "-j", "neighbor", "show", address, "dev", self.link))
        return "".join(each.get("lladdr", "") for each in told)

    def who_has(self, address: str) -> set[str]:
        """The MAC addresses that answer for an address; none when nobody does within 3 s."""
        told = self._run(
            *("busybox", "arping", "-I", self.link, "-f", "-w", "3", address), check=False
        )
        return {word.strip("[]") for word in told.split() if word.count(":") == 5}


class Site(Generic[HostT]):
    """One node, our daemon, one namespace.

    Args:
        cluster: Of the node.
        node: With no NIC and no daemon yet.
        namespace: Of the test's own.
    """

    limit_s = LIMIT_S
    """How long anything may take that a test waits for."""

    def __init__(self, cluster: Cluster, node: HostT, namespace: str) -> None:
        self.cluster = cluster
        self.node = node
        self.namespace = namespace

    @property
    def api(self) -> Api:
        """The API server, asked as an administrator."""
        return self.cluster.api

    def open(
        self,
        config: str = LAB,
        *,
        nics: Sequence[str] = ("nic0",),
        offers: Collection[str] | None = None,
    ) -> Daemon:
        """Plug NICs in, start the daemon with these settings, and wait for its slices.

        Args:
            config: The contents of its file.
            nics: Names of the NICs; those that are plugged in already stay.
            offers: The devices to wait for; those of `LAB` when not given.
        """
        # The first pod's network turns it on; a NIC's settings shall not change with that.
        self.node.run("sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
        for name in nics:
            if name not in self.node.nics:
                self.node.add_nic(name)
        berthd = self.node.start_berthd(config)
        berthd.wait_ready()
        self.wait_offered([device(name) for name in nics] if offers is None else offers)
        return berthd

    def wait_offered(self, names: Collection[str]) -> dict[str, Object]:
        """Wait until the node's slices hold exactly these devices; gives them by name."""
        found: dict[str, Object] = {}

        def ready(slices: Mapping[str, Object]) -> bool:
            nonlocal found
            found = {
                each["name"]: each
                for item in slices.values()
                for each in item["spec"].get("devices") or ()
            }
            return found.keys() == set(names)

        self.api.wait_all(
            SLICES,
            ready,
            what=f"slices with {sorted(names)}",
            limit_s=self.limit_s,
            fieldSelector=f"spec.nodeName={self.node.name}",
        )
        return found

    def counter_sets(self) -> list[Object]:
        """What the node's devices may draw on, from slices that hold nothing else."""
        slices = self.api.items(SLICES, fieldSelector=f"spec.nodeName={self.node.name}")
        found = [item["spec"] for item in slices if "sharedCounters" in item["spec"]]
        assert not any("devices" in spec for spec in found)
        return [one for spec in found for one in spec["sharedCounters"]]

    def kill_sandbox(self, pod: PodView) -> None:
        """End the process that holds a pod's sandbox, as a crash would."""
        uid = pod.now["metadata"]["uid"]
        of_pod = f'labels."io.kubernetes.pod.uid"=={uid},'
        kind = 'labels."io.cri-containerd.kind"==sandbox'
        told = self.node.ctr("containers", "list", "-q", of_pod + kind)
        self.node.ctr("tasks", "kill", "-s", "SIGKILL", told.strip())

    def peer(self, nic: str) -> Peer:
        """The other end of a NIC."""
        return Peer(self.cluster, self.node.peer(nic))

    def claim(
        self, name: str, *requests: Object, config: Sequence[Object] = (), **more: object
    ) -> str:
        """Make a claim, by default for one NIC; gives its path."""
        asked = claimforms.spec(*requests, config=config, **more)
        self.api.create(claimforms.claim(self.namespace, name, asked))
        return self.claim_path(name)

    def template(self, name: str, *requests: Object, config: Sequence[Object] = ()) -> None:
        """Make a template, by default for one NIC."""
        asked = claimforms.spec(*requests, config=config)
        self.api.create(claimforms.template(self.namespace, name, asked))

    def claim_path(self, name: str = "") -> str:
        """Where a claim lies, or all of them."""
        return (
            f"/apis/{claimforms.RESOURCE}/namespaces/{self.namespace}/resourceclaims/{name}"
        ).rstrip("/")

    def create(
        self, name: str, *claims: str, templates: Sequence[str] = (), **more: Any
    ) -> PodView:
        """Create a pod that uses claims and templates, each under its own name.

        Args:
            name: Of the pod.
            claims: Names of claims.
            templates: Names of templates.
            more: Further arguments of `pods.pod`.
        """
        sources = {each: {"resourceClaimName": each} for each in claims}
        sources |= {each: {"resourceClaimTemplateName": each} for each in templates}
        self.api.create(pod(self.namespace, name, node=self.node.name, claims=sources, **more))
        return PodView(self, name)

    def run(self, name: str, *claims: str, templates: Sequence[str] = (), **more: Any) -> PodView:
        """The same, and wait until it runs."""
        made = self.create(name, *claims, templates=templates, **more)
        self.cluster.wait_running(made.now, limit_s=self.limit_s)
        return made

    def home(self, nic: str) -> Object:
        """A NIC on the node, as `describe` tells it."""
        return describe(self.node.run, nic)

    def home_mac(self, nic: str) -> str:
        """The MAC address that the bed gave a NIC, wherever it is now."""
        return self.node.nics[nic]

    def wait_home(self, nic: str, as_it_was: Object, *, limit_s: float = 5) -> None:
        """Wait until the NIC is on the node exactly as it was.

        Raises:
            HostError: It is not within the limit; what differs is told.
        """
        self.wait_same(f"home of {nic}", lambda: self.home(nic), as_it_was, limit_s=limit_s)

    def wait_same(
        self, what: str, look: Callable[[], object], wished: object, *, limit_s: float = 5
    ) -> None:
        """Look again and again until what is seen is as wished: the kernel tells nobody out here.

        Raises:
            HostError: It was not within the limit.
        """
        end = time.monotonic() + limit_s
        while (seen := _look(look)) != wished:
            if time.monotonic() > end:
                raise HostError(what, _difference(seen, wished))
            time.sleep(0.05)

    def berth(self, *arguments: str) -> str:
        """Run the operator's command on the node, as its administrator does."""
        return self.node.berth(*arguments)

    def warnings(self) -> list[str]:
        """What pods of the namespace were warned of, as `pod: reason: message`.

        Without what kubelet says of every driver while the authorizer lags behind.
        """
        found = self.api.items(
            f"/api/v1/namespaces/{self.namespace}/events",
            fieldSelector="type=Warning,involvedObject.kind=Pod",
        )
        told = [(e["involvedObject"]["name"], e["reason"], e.get("message", "")) for e in found]
        return [": ".join(each) for each in told if AUTHORIZER_LAGS not in each[-1]]

    def listed(self, what: str) -> list[Object]:
        """What the command of that name tells as JSON."""
        found: list[Object] = json.loads(self.berth(what, "--json"))[what]
        return found

    def wait_registered(self) -> None:
        """Wait until kubelet has registered a daemon whose sockets are new, though a parent's.

        Until then it may speak by an earlier registration, which it is about to end: a pod that
        starts in between waits more than a minute for its claim (KC §1.4).
        """
        self.wait_log("registered with kubelet")

    def wait_log(self, *words: str, limit_s: float = 20) -> None:
        """Wait for a line of the journal with all of these words."""
        what = f"line with {words}"
        self.wait_same(what, lambda: bool(self.log_lines(*words)), True, limit_s=limit_s)

    def log_lines(self, *words: str) -> list[str]:
        """The journal's lines of our daemon that hold all of these words."""
        lines = self.node.berthd.log_text().splitlines()
        return [line for line in lines if all(word in line for word in words)]


def device(nic: str, group: str = "lab") -> str:
    """The device that a NIC of that name is published as."""
    return f"nic-{group}-{nic}"


def entries(claim: Object) -> list[Object]:
    """What our daemon wrote into a claim's status, in the order of the devices' names."""
    told = claim.get("status", {}).get("devices", ())
    return sorted((each for each in told if each["driver"] == DRIVER), key=lambda e: e["device"])


def _look(look: Callable[[], object]) -> object:
    try:
        return look()
    except HostError as error:
        return str(error)


def _difference(seen: object, wished: object, where: str = "") -> str:
    """What differs, one line each."""
    if isinstance(seen, dict) and isinstance(wished, dict):
        keys = sorted({*seen, *wished})
        parts = (_difference(seen.get(k), wished.get(k), f"{where}{k}: ") for k in keys)
        return "\n".join(part for part in parts if part)
    return "" if seen == wished else f"{where}{seen!r} instead of {wished!r}"


def _stream(text: str) -> list[Object]:
    decoder, place, found = json.JSONDecoder(), 0, []
    while place < len(text):
        value, place = decoder.raw_decode(text, place)
        found.append(value)
        while place < len(text) and text[place].isspace():
            place += 1
    return found
