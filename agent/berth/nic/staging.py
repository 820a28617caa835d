"""What is done to a NIC at home before it moves: all that can fail for reasons of the device.

Whatever is set here survives the move; what only the pod's namespace can have is `berth.nic.plan`.

Source: network.md §4.2.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import attrs

from berth.errors import ClaimError
from berth.host.netlink.link import Link, Offload
from berth.host.netlink.linkrequest import DOWN, LinkChange
from berth.nic.addressing import Held, address_changes
from berth.nic.config.values import InterfaceConfig, NicConfig
from berth.nic.steps import (
    FEATURE,
    FLAG,
    Altnames,
    Change,
    Place,
    PutSwitches,
    SetLink,
    SetVf,
    Step,
)
from berth.nic.vf import VfSeat, vf_changes, wished_values
from berth.nic.view import View


def stage(
    config: NicConfig, view: View, seat: VfSeat | None = None, *, held: bool = False
) -> tuple[Step, ...]:
    """The steps at home that survive the move: the link goes down and gets its values.

    Only for a link that is moved; a child has nothing at home.

    Args:
        view: The link at home, with its switches, and with what its PF shows of a VF.
        seat: Where a VF hangs.
        held: Its PF held the VF to an address before, and shall hold it to another one given.
    """
    changes = [
        *_down(view.link),
        *_of_vf(config, view, seat),
        *_of_link(config, view.link, _held(config, view, seat, held=held)),
        *_of_switches(config, view),
    ]
    return tuple(_step(field, change) for field, change in changes)


def link_steps(config: NicConfig, link: Link) -> tuple[Step, ...]:
    """What a staged link needs again to be down and to have its own values."""
    changes = (*_down(link), *_of_link(config, link, None))
    return tuple(_step(field, change) for field, change in changes)


def differing(config: NicConfig, link: Link) -> tuple[str, ...]:
    """Fields whose values a link that was staged does not show."""
    return tuple(field for field, _ in _of_link(config, link, None))


def require_switches(config: NicConfig, switches: Mapping[str, bool]) -> None:
    """Refuse a switch that the link has not.

    Args:
        switches: Every one that can be turned, by ``feature/<name>`` and ``flag/<name>``.

    Raises:
        ClaimError: The link has none of a name, or it is fixed; every such one is named.
    """
    lacking = [name for name in _switches(config) if name not in switches]
    if lacking:
        raise ClaimError(
            "ethtool",
            f"the device has no {' and no '.join(name.replace('/', ' ') for name in lacking)} "
            "that can be turned",
            mend="drop it; `ethtool -k` and `ethtool --show-priv-flags` list what there is",
        )


def _down(link: Link) -> Iterator[tuple[str, Change]]:
    if link.up:
        yield "interface", SetLink(change=DOWN)


def _of_vf(config: NicConfig, view: View, seat: VfSeat | None) -> Iterator[tuple[str, Change]]:
    """What of a VF is set through its PF, but its address."""
    if seat is not None and view.vf is not None:
        for field, change in vf_changes(view.vf, wished_values(config, view.vf)):
            yield field, SetVf(seat=seat, change=change)


def _held(config: NicConfig, view: View, seat: VfSeat | None, *, held: bool) -> Held | None:
    wanted = config.interface.hardware_addr
    if seat is None or view.vf is None or wanted is None or not (held or config.vf.admin_mac):
        return None
    return Held(seat=seat, shown=view.vf.mac, wanted=wanted)


def _of_switches(config: NicConfig, view: View) -> Iterator[tuple[str, Change]]:
    wanted = _switches(config)
    if any(view.switches.get(name) is not on for name, on in wanted.items()):
        # All of them: what one costs another is told of those that were asked for.
        yield "ethtool", PutSwitches(values=wanted, strictly=True)


def _switches(config: NicConfig) -> Mapping[str, bool]:
    wish = config.ethtool
    return {
        **{f"{FEATURE}{name}": on for name, on in wish.features.items()},
        **{f"{FLAG}{name}": on for name, on in wish.private_flags.items()},
    }


def _of_link(config: NicConfig, link: Link, held: Held | None) -> Iterator[tuple[str, Change]]:
    interface = config.interface
    if interface.mtu is not None and interface.mtu != link.mtu:
        yield "interface.mtu", SetLink(change=LinkChange(mtu=interface.mtu))
    yield from address_changes(
        link.mac, interface.hardware_addr, field="interface.hardwareAddr", held=held
    )
    wanted = offload_of(interface)
    different = Offload(
        **{
            name: value
            for name, value in attrs.asdict(wanted).items()
            if value and value != getattr(link.offload, name)
        }
    )
    if different != Offload():
        yield "interface.gsoMaxSize", SetLink(change=LinkChange(offload=different))
    if interface.tx_queue_len is not None and interface.tx_queue_len != link.txqlen:
        yield "interface.txQueueLen", SetLink(change=LinkChange(txqlen=interface.tx_queue_len))
    if interface.name in link.altnames:
        # The kernel would move the link and only then refuse the name.
        yield "interface.name", Altnames(remove=(interface.name,))


def offload_of(interface: InterfaceConfig) -> Offload:
    """The packet sizes that are wished; 0 leaves what the link has."""
    return Offload(
        gso_max_size=interface.gso_max_size or 0,
        gro_max_size=interface.gro_max_size or 0,
        gso_ipv4_max_size=interface.gso_ipv4_max_size or 0,
        gro_ipv4_max_size=interface.gro_ipv4_max_size or 0,
    )


def _step(field: str, change: Change) -> Step:
    return Step(place=Place.HOME, field=field, change=change)
