"""The VRF that a NIC may have of its own in its pod: its table, and what makes it.

It is found by its name and kind: before the NIC's first way into a sandbox nothing there has the
name, so what has it later was made for the NIC.

Source: Linux ``Documentation/networking/vrf.rst``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count
from typing import Final

from berth.errors import ClaimError
from berth.host.netlink.kinds import Vrf
from berth.host.netlink.link import Link
from berth.host.netlink.route import Route
from berth.nic.config.values import NicConfig
from berth.nic.steps import Change, DropVrf, JoinVrf, MakeVrf, Place, Step
from berth.nic.view import View

FIRST_TABLE: Final = 1000
"""From here on a free table is looked for."""

_FIELD: Final = "vrf"


def table_for(config: NicConfig, links: Sequence[Link], routes: Iterable[Route]) -> int:
    """The table of the configuration's VRF in a pod: that of the one which is there, or a free one.

    Args:
        links: All of the pod.
        routes: All of the pod.

    Raises:
        ClaimError: The table that is asked for is in use.
    """
    vrfs = {link.name: link.kind_data.table for link in links if isinstance(link.kind_data, Vrf)}
    if config.vrf.name in vrfs:
        return vrfs[config.vrf.name]
    used = {**dict.fromkeys((route.table for route in routes), "a route")}
    used |= {table: f"the VRF {name}" for name, table in vrfs.items()}
    wanted = config.vrf.table
    if wanted is None:
        return next(table for table in count(FIRST_TABLE) if table not in used)
    if wanted in used:
        raise ClaimError(
            "vrf.table",
            f"{wanted} is in use in the pod, by {used[wanted]}",
            mend="drop it, so that a free one is taken",
        )
    return wanted


def join(config: NicConfig, view: View | None) -> tuple[Step, ...]:
    """The steps that put a link into its VRF, before it has addresses; none when it is there.

    Args:
        config: With the table that was found for it.
        view: The link in the pod; ``None`` for one that has just arrived.
    """
    name, table = config.vrf.name, config.vrf.table
    if not name or table is None or (view is not None and is_joined(config, view)):
        return ()
    return (
        _step(MakeVrf(name=name, table=table)),
        _step(JoinVrf(name=name)),
    )


def is_joined(config: NicConfig, view: View) -> bool:
    """Whether a link in the pod is in the VRF of its configuration, if that has one."""
    if not config.vrf.name:
        return True
    master = view.master
    return master is not None and master.kind_data == Vrf(table=config.vrf.table or 0)


def leave(config: NicConfig) -> tuple[Change, ...]:
    """What takes the VRF out of the pod again; it does not go with the link."""
    return (DropVrf(name=config.vrf.name),) if config.vrf.name else ()


def _step(change: Change) -> Step:
    return Step(place=Place.POD, field=_FIELD, change=change)
