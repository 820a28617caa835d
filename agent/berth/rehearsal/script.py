"""What is played: the daemon's configuration, the NICs for it, and the claims and pods.

Devices of ``[[generic]]`` groups are those that this machine has; their claims and pods are made as
they are found (`berth.rehearsal.deviceacts`).

Without an operator's files it is a small embedded play that every example claim of
``configs/kubernetes/examples`` fits into as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from berth.config import document
from berth.config.load import Report, check
from berth.config.schema import Config
from berth.errors import ConfigError, Faults
from berth.model.device import NicMode
from berth.nic.config.group import check_groups
from berth.rehearsal.manifests import Manifests, pod_using, read_manifests
from berth.rehearsal.standins import Cast, StandIn, cast

CONFIG: Final = """\
# Two NICs that move into one pod at a time, and one that many pods share.
[[nic.group]]
name = "spare"
match = { name = ["nic0", "nic1"] }

[[nic.group]]
name = "lan"
match = { name = "nic2" }
mode = "shared"
shared = { slots = 8, bandwidth = "10G" }

# A device node of this machine that two containers may have, by claims and as a resource.
[[generic]]
name = "null"
match = { path = "/dev/null" }
count = 2
door = "both"

# GPUs, by claims and as a resource.
[gpu]
door = "both"
"""

CLAIM: Final[Mapping[str, Any]] = {
    "kind": "ResourceClaim",
    "metadata": {"name": "uplink", "namespace": "default"},
    "spec": {
        "devices": {
            "requests": [{"name": "nic", "exactly": {"deviceClassName": "nic.berth.dev"}}],
            "config": [
                {
                    "requests": ["nic"],
                    "opaque": {
                        "driver": "berth.dev",
                        "parameters": {
                            "addresses": [{"address": "192.0.2.10/24"}],
                            "apiVersion": "berth.dev/v1alpha1",
                            "interface": {"name": "net1", "mtu": 9000},
                            "kind": "NicConfig",
                            "routes": [{"to": "198.51.100.0/24", "via": "192.0.2.1"}],
                        },
                    },
                }
            ],
        }
    },
}

UNPLAYED_GROUP: Final[Mapping[str, Any]] = {
    "name": "rehearsal",
    "match": {"name": ["rehearsal0"]},
}
"""Added where a configuration has no group that can be played."""


@attrs.frozen(kw_only=True)
class Script:
    """One play.

    Attributes:
        title: Where the configuration comes from.
        config: As TOML's values.
        groups: Names of the generic groups.
        nodes: Nodes of GPUs that were plugged in, by PCI address.
        with_gpus: GPUs are to be played as well.
        with_groups: Their devices get pods of their own; not where claims are given.
        warnings: What should be said before the play.
        notes: What should be known of it, one sentence each.
    """

    title: str
    config: Mapping[str, Any]
    driver: str
    cast: Cast
    manifests: Manifests
    groups: tuple[str, ...] = ()
    nodes: Mapping[str, str] = attrs.field(factory=dict)
    with_gpus: bool = False
    with_groups: bool = True
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The embedded configuration as it is shown; empty for an operator's file."""
        return CONFIG if self.title == _EMBEDDED else ""

    def having_gpus(self, library: Path, nodes: Mapping[str, str]) -> Script:
        """The play with GPUs that a library shows."""
        gpu = {**self.config["gpu"], "library": str(library), "cdi": {"source": "builtin"}}
        config = {**self.config, "gpu": gpu}
        return attrs.evolve(self, config=config, nodes=nodes, groups=(*self.groups, ""))

    def lacking_gpus(self, reason: str) -> Script:
        """The play without GPUs, which says so."""
        config = {**self.config, "gpu": {"enabled": False}}
        notes = (*self.notes, f"GPUs are NOT rehearsed: {reason}")
        return attrs.evolve(self, config=config, notes=notes)


_EMBEDDED: Final = "the embedded configuration"


def write_script(*, config: Path | None, claim: Path | None) -> Script:
    """Put a play together. Blocks on the disk.

    Raises:
        ConfigError: A file cannot be used; of a configuration all faults are told.
    """
    script = _embedded() if config is None else _of_file(config)
    if claim is None:
        return script
    # What is asked is how these claims fare.
    return attrs.evolve(script, manifests=read_manifests(claim), with_groups=False)


def _embedded() -> Script:
    values = document.parse(CONFIG)
    links = tuple(
        StandIn(name=name, group=group, mode=mode, mac=f"02:00:5e:10:00:0{number}")
        for number, (name, group, mode) in enumerate(
            (
                ("nic0", "spare", NicMode.EXCLUSIVE),
                ("nic1", "spare", NicMode.EXCLUSIVE),
                ("nic2", "lan", NicMode.SHARED),
            )
        )
    )
    pod = pod_using("one-nic", {"resourceClaimName": "uplink"})
    return Script(
        title=_EMBEDDED,
        config=values,
        driver="berth.dev",
        cast=Cast(links=links),
        manifests=Manifests(claims=(CLAIM,), pods=(pod,)),
        groups=tuple(group["name"] for group in values["generic"]),
        with_gpus=True,
    )


def _of_file(path: Path) -> Script:
    report = check(path, also=(check_groups,))
    config = _usable(report)
    values = document.parsed(str(path), document.decoded(str(path), path.read_bytes()))
    players = cast(config.nic.groups)
    notes = [f"group {name!r} is NOT rehearsed: {why}" for name, why in players.unplayed]
    if "gpu" in values and config.gpu.enabled:
        notes.append("GPUs are NOT rehearsed")
    if not players.links:
        missing = "in their place" if notes else "since the file has none"
        notes.append(f"a group of the rehearsal's own is played {missing}, on one link")
        values, players = _with_group(values, players)
    return Script(
        title=str(path),
        config=values,
        driver=config.dra.driver,
        cast=players,
        manifests=_claims_for(players.links, config.dra.driver),
        groups=tuple(group.name for group in config.generic),
        warnings=report.warnings,
        notes=tuple(notes),
    )


def _usable(report: Report) -> Config:
    if report.config is None:
        raise Faults(str(report.path), report.faults)
    for table, enabled in (("dra", report.config.dra.enabled), ("nic", report.config.nic.enabled)):
        if not enabled:
            raise ConfigError(
                f"{report.path}: [{table}] enabled", "is false", rule="there is nothing to rehearse"
            )
    return report.config


def _with_group(values: Mapping[str, Any], players: Cast) -> tuple[dict[str, Any], Cast]:
    nic = values.get("nic") or {}
    groups = [*(nic.get("group") or ()), UNPLAYED_GROUP]
    link = StandIn(name="rehearsal0", group="rehearsal", mode=NicMode.EXCLUSIVE)
    return {**values, "nic": {**nic, "group": groups}}, attrs.evolve(players, links=(link,))


def _claims_for(links: Sequence[StandIn], driver: str) -> Manifests:
    """A claim and a pod for each group that is played; they ask for nothing but its NIC."""
    claims, pods = [], []
    for group, mode in dict.fromkeys((link.group, link.mode) for link in links):
        kind = "nic-shared" if mode is NicMode.SHARED else "nic"
        expression = f'device.attributes["{driver}"].group == "{group}"'
        exactly = {
            "deviceClassName": f"{kind}.{driver}",
            "selectors": [{"cel": {"expression": expression}}],
        }
        claims.append(
            {
                "kind": "ResourceClaim",
                "metadata": {"name": group, "namespace": "default"},
                "spec": {"devices": {"requests": [{"name": "nic", "exactly": exactly}]}},
            }
        )
        pods.append(pod_using(f"pod-{group}"[:63], {"resourceClaimName": group}))
    return Manifests(claims=tuple(claims), pods=tuple(pods))
