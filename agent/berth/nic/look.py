"""Looks at links with all that hangs on them, at home and in a pod; blocks, for worker threads."""

from __future__ import annotations

import errno
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs

from berth.errors import HostError
from berth.host.netlink.link import Link
from berth.host.netlink.namespace import run_in_netns
from berth.host.netlink.rtnl import Rtnl
from berth.host.netlink.vf import Vf
from berth.host.sysfiles import link_name, text
from berth.nic.execute import Namespaces, find_pf
from berth.nic.settings import read_all, read_settings
from berth.nic.switches import read_switches
from berth.nic.vf import VfSeat
from berth.nic.view import View

_LINKS: Final = Path("/sys/class/net")


def look(tables: Rtnl, link: Link) -> View:
    """The link with all that hangs on it now, but its settings."""
    return View(
        link=link,
        addresses=tables.addresses(index=link.index),
        routes=tables.routes(index=link.index),
        neighbors=tables.neighbors(index=link.index),
    )


def look_home(spaces: Namespaces, link: Link, seat: VfSeat | None = None) -> View:
    """The same at home, with all its settings and switches.

    Args:
        seat: Where a VF hangs, whose values are wanted too.

    Raises:
        HostError: The kernel refused, or the VF's PF is not at home.
    """
    return attrs.evolve(
        look(spaces.home, link),
        sysctls=read_all(link.name),
        fresh=read_all("default"),
        switches=read_switches(link.index, send=spaces.send),
        vf=look_at_vf(spaces, seat) if seat is not None else None,
    )


def look_at_vf(spaces: Namespaces, seat: VfSeat) -> Vf:
    """What the PF shows of one of its VFs.

    Raises:
        HostError: The PF is not at home, or has no such VF.
    """
    pf = find_pf(spaces.home, seat, vfs=True)
    found = next((vf for vf in pf.vfs if vf.number == seat.number), None)
    if found is None:
        raise HostError(f"PF {pf.name}", f"has no VF {seat.number} any more", errno=errno.ENODEV)
    return found


def has_made_up_address(name: str) -> bool:
    """Whether the driver of a link at home made up its hardware address, and nobody set another.

    Source: Linux ``Documentation/ABI/testing/sysfs-class-net``, ``addr_assign_type``.
    """
    return text(_LINKS / name / "addr_assign_type") == "1"


def driver_of(name: str) -> str:
    """The kernel driver of the device that carries a link at home; empty for a virtual one."""
    return link_name(_LINKS / name / "device" / "driver")


def look_in_pod(spaces: Namespaces, link: Link, settings: Collection[str] = ()) -> View:
    """The same in the pod, with the settings asked for."""
    values: Mapping[str, int] = {}
    if settings:
        values = run_in_netns(spaces.pod_fd, lambda: read_settings(link.name, settings))
    master = spaces.pod.link(index=link.master) if link.master else None
    return attrs.evolve(look(spaces.pod, link), sysctls=values, master=master)


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
