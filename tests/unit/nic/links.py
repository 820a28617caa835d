"""Links, records and steps as the tests of this folder need them."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_address, ip_interface, ip_network
from pathlib import Path
from typing import Any

import attrs

from berth.host.netlink.address import IFA_F_PERMANENT, Address
from berth.host.netlink.kinds import Macvlan
from berth.host.netlink.link import IFF_MULTICAST, IFF_UP, Link, Offload
from berth.host.netlink.neighbor import Neighbor
from berth.host.netlink.route import Hop, Route
from berth.model.claim import ConfigSource
from berth.nic.config import AttachMode, DeviceFacts, GroupPolicy
from berth.nic.config.values import NicConfig
from berth.nic.record import NicRecord, Originals, SandboxRef, Stage
from berth.nic.steps import Step
from berth.nic.view import View, take_originals
from tests.unit.nic.config.claims import NIC, PARENT, SHARED, entry, resolved

MAC = "02:00:00:00:00:01"
GOLDEN = Path(__file__).parent / "golden" / "plan"
OTHERS = attrs.evolve(PARENT, modes=(AttachMode.IPVLAN, AttachMode.VLAN))
"""A group whose parents carry other children than macvlan."""

SIZES = Offload(
    gso_max_size=65536, gro_max_size=65536, gso_ipv4_max_size=65536, gro_ipv4_max_size=65536
)
SANDBOX = SandboxRef(
    id="sandbox", pod_uid="pod-uid", pod="team/pod", netns_path="/run/netns/x", netns_inode=7
)


def link_of(name: str = "v0", **more: Any) -> Link:
    """A veth end at home, up, as somebody set it."""
    values = {
        "index": 3,
        "kind": "veth",
        "mac": MAC,
        "broadcast": "ff:ff:ff:ff:ff:ff",
        "mtu": 1500,
        "txqlen": 1000,
        "flags": IFF_UP | IFF_MULTICAST,
        "offload": SIZES,
    }
    return Link(name=name, **{**values, **more})


def child_link_of(name: str = "net1", **more: Any) -> Link:
    """A macvlan child in a pod, over the parent with index 3 at home."""
    values = {"index": 5, "kind": "macvlan", "kind_data": Macvlan(mode="bridge")}
    return link_of(name, **{**values, "parent": 3, "parent_netnsid": 0, **more})


def config_of(
    name: str = "net1",
    facts: DeviceFacts = NIC,
    policy: GroupPolicy | None = None,
    **parameters: Any,
) -> NicConfig:
    """What becomes of a configuration, every default in it."""
    interface = {"name": name, **parameters.pop("interface", {})}
    wish = entry({"interface": interface, **parameters}, source=ConfigSource.CLASS)
    return resolved(wish, facts=facts, policy=policy)[0].config


def child_config_of(name: str = "net1", **parameters: Any) -> NicConfig:
    """The same for a child of a shared parent."""
    return config_of(name, facts=SHARED, **parameters)


def originals_of(link: Link, **more: Any) -> Originals:
    """How a link was, with nothing on it but what is given."""
    return attrs.evolve(take_originals(View(link=link)), **more)


def record_of(link: Link | None = None, **more: Any) -> NicRecord:
    """The record of a virtual link."""
    values = {
        "identity": "link:boot:3",
        "device": "nic-test-v0",
        "group": "test",
        "config": config_of(),
        "boot_id": "boot",
        "originals": originals_of(link) if link is not None else None,
        "stage": Stage.STAGED,
    }
    return NicRecord(**{**values, **more})


def address_of(text: str, **more: Any) -> Address:
    """A permanent address."""
    return Address(index=3, ip=ip_interface(text), **{"flags": IFA_F_PERMANENT, **more})


def route_of(to: str, via: str | None = None, **more: Any) -> Route:
    """A route out by the link."""
    hop = Hop(index=3, gateway=ip_address(via) if via else None)
    return Route(destination=ip_network(to), hops=(hop,), **more)


def neighbor_of(ip: str, mac: str, **more: Any) -> Neighbor:
    """A permanent neighbor."""
    return Neighbor(index=3, ip=ip_address(ip), mac=mac, **more)


def golden(name: str) -> list[str]:
    """The lines of a golden plan, made by hand from network.md §4.2 and §4.3."""
    return (GOLDEN / f"{name}.txt").read_text().splitlines()


def told(steps: Sequence[Step]) -> list[str]:
    """Steps in words, a line each: place, field, what changes, and what takes it back."""
    return [
        f"{step.place.value} {step.field}: {_words(step.change)}"
        + "".join(f" / undo {_words(change)}" for change in step.undo)
        for step in steps
    ]


def _words(value: Any) -> str:
    said = [
        f"{field.name}={_value(getattr(value, field.name))}"
        for field in attrs.fields(type(value))
        if getattr(value, field.name) != _default(field)
    ]
    return f"{type(value).__name__}({', '.join(said)})"


def _value(value: Any) -> str:
    if attrs.has(type(value)):
        return _words(value)
    if isinstance(value, dict):
        return str(dict(sorted(value.items())))
    if isinstance(value, tuple):
        return f"[{', '.join(map(_value, value))}]"
    return str(value)


def _default(field: Any) -> Any:
    default = field.default
    return default.factory() if isinstance(default, attrs.Factory) else default  # type: ignore[arg-type] # Factory is a function to mypy and a class at run time
