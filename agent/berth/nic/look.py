"""Looks at links with all that hangs on them, at home and in a pod; blocks, for worker threads."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import attrs

from berth.host.netlink.link import Link
from berth.host.netlink.namespace import run_in_netns
from berth.host.netlink.rtnl import Rtnl
from berth.nic.execute import Namespaces
from berth.nic.settings import read_all, read_settings
from berth.nic.switches import read_switches
from berth.nic.view import View


def look(tables: Rtnl, link: Link) -> View:
    """The link with all that hangs on it now, but its settings."""
    return View(
        link=link,
        addresses=tables.addresses(index=link.index),
        routes=tables.routes(index=link.index),
        neighbors=tables.neighbors(index=link.index),
    )


def look_home(spaces: Namespaces, link: Link) -> View:
    """The same at home, with all its settings and switches."""
    return attrs.evolve(
        look(spaces.home, link),
        sysctls=read_all(link.name),
        fresh=read_all("default"),
        switches=read_switches(link.index, send=spaces.send),
    )


def look_in_pod(spaces: Namespaces, link: Link, settings: Collection[str] = ()) -> View:
    """The same in the pod, with the settings asked for."""
    values: Mapping[str, int] = {}
    if settings:
        values = run_in_netns(spaces.pod_fd, lambda: read_settings(link.name, settings))
    return attrs.evolve(look(spaces.pod, link), sysctls=values)


def names_taken(links: Sequence[Link], *, but: int = 0) -> dict[str, str]:
    """Every name and altname that finds a link, with that link's name.

    Args:
        but: Index of a link whose names do not count.
    """
    return {name: link.name for link in links if link.index != but for name in link.names}


def find_taken(tables: Rtnl, names: Iterable[str], *, but: int = 0) -> frozenset[str]:
    """Those of some names that find a link; on a host with many links cheaper than all of them.

    Args:
        but: Index of a link whose names do not count.
    """
    found = {name: tables.link(name=name) for name in names if name}
    return frozenset(n for n, link in found.items() if link is not None and link.index != but)
