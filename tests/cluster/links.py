"""A link described so that two descriptions are equal exactly when nothing a user sees differs."""

from __future__ import annotations

import json
from collections.abc import Callable

from tests.cluster.api import Object

Run = Callable[..., str]

# What changes without anybody's doing: numbers that the kernel gives, states that follow the peer.
_PASSING = frozenset({"ifindex", "link_index", "operstate", "link_netnsid", "link", "addr_info"})
_PASSING_FLAGS = frozenset({"LOWER_UP", "NO-CARRIER"})
# Counted by the kernel, or of one moment.
_PASSING_ADDRESS = frozenset({"tentative", "valid_life_time", "preferred_life_time"})


def describe(run: Run, name: str) -> Object:
    """A link's settings, addresses, routes, permanent neighbors and sysctls.

    Args:
        run: Runs a command where the link is, and gives what it wrote.
        name: Of the link.
    """
    (link,) = json.loads(run("ip", "-j", "-d", "address", "show", "dev", name))
    flags = sorted(set(link.pop("flags")) - _PASSING_FLAGS)
    addresses = [
        {key: value for key, value in each.items() if key not in _PASSING_ADDRESS}
        for each in link["addr_info"]
    ]
    return {
        **{key: value for key, value in link.items() if key not in _PASSING},
        "flags": flags,
        "addresses": addresses,
        "routes": _routes(run, name),
        "neighbors": _listed(run, "neighbor", "show", "dev", name, "nud", "permanent"),
        "sysctls": _sysctls(run, name),
    }


def _routes(run: Run, name: str) -> list[Object]:
    return [
        each
        for family in ("-4", "-6")
        for each in _listed(run, family, "route", "show", "table", "all", "dev", name)
        # The kernel's own follow the addresses, those of link-local ones with some delay.
        if each.get("protocol") != "kernel"
    ]


def _listed(run: Run, *arguments: str) -> list[Object]:
    found: list[Object] = json.loads(run("ip", "-j", *arguments) or "[]")
    return sorted(found, key=json.dumps)


def _sysctls(run: Run, name: str) -> dict[str, str]:
    folders = [
        f"/proc/sys/net/{family}/{part}/{name}"
        for family in ("ipv4", "ipv6")
        for part in ("conf", "neigh")
    ]
    told = run("sh", "-c", f"cd / && grep -rs . {' '.join(folders)} || true")
    pairs = (line.partition(":") for line in told.splitlines())
    return {file.removeprefix("/proc/sys/net/"): value for file, _, value in pairs}
