"""Every table and key of the configuration: its default, its unit, what it means.

The class is the table. The reference page and the check of ``configs/agent.toml`` are made from
what stands here, so a key is described once. Tables about devices have a module each.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Final

import attrs

from berth.config.decode import Written, key, table, tables
from berth.config.doors import Door
from berth.config.finding import Cursor, Steps, toml_text
from berth.config.forms import (
    PATH,
    Choice,
    Flag,
    Number,
    OnlyDefault,
    OrEmpty,
    Several,
    Text,
)
from berth.config.generic import GenericGroup, check_groups
from berth.config.gpu import GpuTable
from berth.config.gpumatch import GpuType
from berth.config.health import HealthTable, Times, check_times
from berth.config.listen import LISTEN, Listen
from berth.config.nic import NicTable
from berth.config.resourcenames import check_resources
from berth.model.device import Attribute
from berth.model.names import is_dns_subdomain

_ADDRESS: Final = re.compile(
    r"https://(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?(?:/[^\s?#@]*)?"
)


class Credentials(Enum):
    """How the agent proves to the API server who it is."""

    AUTO = "auto"
    KUBECONFIG = "kubeconfig"
    TOKEN = "token"  # noqa: S105 - a word of the configuration, no secret
    KUBELET = "kubelet"


class DraVersion(Enum):
    """Versions of kubelet's interface to drivers."""

    V1 = "v1"
    V1BETA1 = "v1beta1"


def _node_name(text: str) -> str | None:
    return text if not text or is_dns_subdomain(text, limit=253) else None


def _driver(text: str) -> str | None:
    return text if "." in text and is_dns_subdomain(text) else None


def _server(text: str) -> str | None:
    whole = _ADDRESS.fullmatch(text) if text else True
    return text.rstrip("/") if whole else None


@attrs.frozen(kw_only=True)
class NodeTable:
    """[node]: this machine."""

    name: str = key(
        Text(what='the name of a Node object, or ""', parse=_node_name),
        "",
        "Name of this machine's Node object. "
        "Empty: taken from kubelet's certificate, else the host name, checked against the API.",
    )
    state_dir: Path = key(
        PATH,
        Path("/var/lib/berth"),
        "Folder of records that outlive restarts and reboots.",
    )


@attrs.frozen(kw_only=True)
class KubeletTable:
    """[kubelet]: where kubelet keeps its files."""

    root: Path = key(
        PATH,
        Path("/var/lib/kubelet"),
        "Kubelet's root directory, as its `--root-dir` says. It is never created.",
    )


@attrs.frozen(kw_only=True)
class KubernetesTable:
    """[kubernetes]: how the API server is reached."""

    credentials: Credentials = key(
        Choice(kind=Credentials),
        Credentials.AUTO,
        "Whose credentials are used. `auto` takes the first that is given or found: "
        "the operator's kubeconfig, a service account's token, kubelet's own kubeconfig.",
    )
    kubeconfig: Path | None = key(
        OrEmpty(PATH),
        None,
        "A kubeconfig file of the operator's.",
    )
    server: str = key(
        Text(what='an address such as "https://10.0.0.1:6443", or ""', parse=_server),
        "",
        "Address of the API server, used with `token_file`.",
    )
    token_file: Path | None = key(
        OrEmpty(PATH),
        None,
        "File with a service account's token; it is read again when it changes.",
    )
    ca_file: Path | None = key(
        OrEmpty(PATH),
        None,
        "File with the certificates that the API server's certificate is checked against. "
        "Used with `token_file`; the system's own when empty.",
    )

    def check(self, cursor: Cursor, written: Written) -> None:
        """Keys that need each other, and keys that the others leave unused."""
        needs = {Credentials.KUBECONFIG: "kubeconfig", Credentials.TOKEN: "token_file"}
        needed = needs.get(self.credentials)
        if needed and getattr(self, needed) is None and needed not in written.at_fault:
            cursor.at("credentials").say(
                f"is {toml_text(self.credentials)}",
                rule=f"{needed} must then name a file",
                mend=f"give {needed}, or drop the line",
            )
        if self.token_file and not self.server and "server" not in written.at_fault:
            cursor.at("token_file").say(
                "is given without server", rule="a token does not say which server it is for"
            )
        if not self.token_file and "token_file" not in written.at_fault:
            self._refuse_unused(cursor)
        self._warn_of_unused(cursor)

    def _refuse_unused(self, cursor: Cursor) -> None:
        for name in ("server", "ca_file"):
            if getattr(self, name):
                cursor.at(name).say(
                    "is given without token_file",
                    rule="it goes with a token; a kubeconfig brings its own",
                )

    def _warn_of_unused(self, cursor: Cursor) -> None:
        chosen = {Credentials.KUBECONFIG: "kubeconfig", Credentials.TOKEN: "token_file"}
        if self.credentials is Credentials.AUTO:
            return
        for name in ("kubeconfig", "token_file"):
            if getattr(self, name) and chosen.get(self.credentials) != name:
                cursor.at(name).warn(f'is not used with credentials "{self.credentials.value}"')


@attrs.frozen(kw_only=True)
class DraTable:
    """[dra]: the door to kubelet for claims (dynamic resource allocation)."""

    enabled: bool = key(Flag(), True, "Whether claims are served and devices published.")
    driver: str = key(
        Text(what="a DNS name with a dot, in lower case, at most 63 bytes", parse=_driver),
        "berth.dev",
        "Name of the driver in DeviceClasses, slices and claims. "
        "A change is refused while claims are prepared.",
    )
    lists: bool = key(
        Flag(),
        False,
        "Whether the standard attributes `numaNode` and `pcieRoot` are published as lists. "
        "The feature gate `DRAListTypeAttributes` (alpha in 1.37) must be on in API server and "
        "scheduler: a server without it refuses lists, and single values are published instead.",
    )
    versions: tuple[DraVersion, ...] = key(
        Several(item=Choice(kind=DraVersion), least=1),
        tuple(DraVersion),
        "Versions of kubelet's interface that are offered; kubelet takes the newest that it knows. "
        "Leave one out only to see whether a fault lies in it.",
    )


@attrs.frozen(kw_only=True)
class NriTable:
    """[nri]: the door to the container runtime."""

    socket: Path = key(
        PATH, Path("/var/run/nri/nri.sock"), "Socket on which the runtime serves NRI."
    )
    timeout_s: float = key(
        Number(above=0, most=60),
        1.5,
        "Longest that a hook may take before it is answered by an error and undone. "
        "The runtime's own limit less half a second is used where that is shorter.",
        unit="seconds",
    )


@attrs.frozen(kw_only=True)
class PluginTable:
    """[plugin]: the door to kubelet's older device plugin interface."""

    enabled: bool = key(
        OnlyDefault(Flag(), False, mend='drop it: a group with door = "plugin" opens the door'),
        False,
        "Whether the door is open though no group asks for it. It opens by itself as soon as a "
        "group's `door` does.",
    )
    folder: Path = key(
        PATH,
        Path("/var/lib/kubelet/device-plugins"),
        "Kubelet's folder of device plugins. It lies there whatever `--root-dir` says.",
    )
    device_info: Path = key(
        PATH,
        Path("/run/k8s.cni.cncf.io/devinfo/dp"),
        "Folder in which CNI plugins look up what a NIC is that was asked for as a resource.",
    )


@attrs.frozen(kw_only=True)
class MetricsTable:
    """[metrics]: figures for a monitoring system."""

    listen: Listen | None = key(
        OrEmpty(LISTEN),
        None,
        "Where figures are served by HTTP, at `/metrics`, without a password. "
        "Empty: they are not served.",
    )
    textfile: Path | None = key(
        OrEmpty(PATH),
        None,
        "File that the figures are written to every 15 seconds, for the textfile collector of "
        "node_exporter. Its folder must be there. Empty: none is written.",
    )

    @property
    def is_wanted(self) -> bool:
        """Whether anybody is to be told figures."""
        return self.listen is not None or self.textfile is not None

    def check(
        self,
        cursor: Cursor,
        written: Written,  # noqa: ARG002 - the form of `Checked`
    ) -> None:
        """What others on the network may read, and a file that nobody would."""
        if self.listen is not None and not self.listen.is_loopback:
            cursor.at("listen").warn(
                f"is {toml_text(self.listen)}: everybody who reaches this machine may read the "
                "figures",
                mend=f'listen on "127.0.0.1:{self.listen.port}", or see to it by a firewall',
            )
        if self.textfile is not None and self.textfile.suffix != ".prom":
            cursor.at("textfile").warn(
                f"is {toml_text(self.textfile)}",
                rule="node_exporter reads files in .prom alone",
            )


@attrs.frozen(kw_only=True)
class Config:
    """The whole configuration; each attribute is a table."""

    node: NodeTable = table(NodeTable, "This machine.")
    kubelet: KubeletTable = table(KubeletTable, "Where kubelet keeps its files.")
    kubernetes: KubernetesTable = table(KubernetesTable, "How the API server is reached.")
    dra: DraTable = table(DraTable, "The door to kubelet for claims.")
    nri: NriTable = table(NriTable, "The door to the container runtime.")
    plugin: PluginTable = table(PluginTable, "The door to kubelet's older device plugin interface.")
    metrics: MetricsTable = table(MetricsTable, "Figures for a monitoring system.")
    nic: NicTable = table(NicTable, "Network devices.")
    generic: tuple[GenericGroup, ...] = tables(
        GenericGroup,
        "Devices that are used through device nodes.",
        name="generic",
        check=check_groups,
    )
    gpu: GpuTable = table(GpuTable, "NVIDIA GPUs.")
    health: HealthTable = table(HealthTable, "How devices are watched, and what comes of it.")

    def check(self, cursor: Cursor, written: Written) -> None:
        """What concerns several tables."""
        self._refuse_driver_domain(cursor, written)
        if self.nic.groups and not self.nic.enabled:
            cursor.at("nic", "enabled").warn("is false, so no group of NICs offers anything")
        self._warn_of_closed_door(cursor)
        if "dra" not in written.at_fault:
            check_resources(self.nic, self.generic, self.gpu, cursor, driver=self.dra.driver)
        if self.gpu.groups and not self.gpu.enabled:
            cursor.at("gpu", "enabled").warn("is false, so no group of GPUs offers anything")
        if "health" not in written.at_fault:
            self._check_times(cursor)

    def _check_times(self, cursor: Cursor) -> None:
        """Times of groups, which are whole only over those of their kind."""
        for steps, several in self._group_times():
            here = cursor.at(*steps, "health")
            short = [each for each in several if each.timeout_s < each.least_timeout_s]
            if short and not any(here.at_fault()):
                check_times(short[0], here)

    def _group_times(self) -> Iterator[tuple[Steps, list[Times]]]:
        kinds = self.health
        for number, nics in enumerate(self.nic.groups):
            yield ("nic", "group", number), [nics.health.over(kinds.nic).whole()]
        for number, nodes in enumerate(self.generic):
            kind = kinds.command if nodes.health.command else kinds.generic
            yield ("generic", number), [nodes.health.over(kind).whole()]
        for number, gpus in enumerate(self.gpu.groups):
            several = [
                kinds.vfio if each is GpuType.VFIO else kinds.gpu for each in gpus.match.types
            ]
            yield ("gpu", "group", number), [gpus.health.over(each).whole() for each in several]

    def _warn_of_closed_door(self, cursor: Cursor) -> None:
        """Groups that are for claims, where none is served."""
        if self.dra.enabled:
            return
        doors: list[tuple[Steps, Door]]
        doors = [(("nic", "group", n), each.door) for n, each in enumerate(self.nic.groups)]
        doors += [(("generic", n), each.door) for n, each in enumerate(self.generic)]
        for steps, door in doors:
            if door in {Door.DRA, Door.BOTH}:
                cursor.at(*steps, "door").warn(
                    f"is {toml_text(door)}, and [dra] enabled is false: no claim gets it"
                )

    def _refuse_driver_domain(self, cursor: Cursor, written: Written) -> None:
        """A name in the driver's own domain is the bare name, written in another way."""
        if "dra" in written.at_fault:
            return
        own: list[tuple[Steps, Mapping[str, Attribute]]]
        own = [(("nic", "group", n), each.attributes) for n, each in enumerate(self.nic.groups)]
        own += [(("generic", n), each.attributes) for n, each in enumerate(self.generic)]
        for steps, attributes in own:
            for name in attributes:
                domain, slash, bare = name.rpartition("/")
                if slash and domain == self.dra.driver:
                    cursor.at(*steps, "attributes", name).say(
                        f"lies in {domain}, the driver's own domain", mend=f"write {bare}"
                    )
