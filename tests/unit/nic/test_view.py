"""What of a look at a link is somebody's wish, and what is to stand again when it is home."""

from __future__ import annotations

from berth.host.netlink.link import IFF_LOWER_UP, IFF_MULTICAST, IFF_RUNNING, IFF_UP, Xdp
from berth.host.netlink.route import RTPROT_KERNEL, RTPROT_RA, RTPROT_REDIRECT
from berth.nic.view import View, take_originals
from tests.unit.nic.links import address_of, link_of, neighbor_of, route_of


def test_originals_are_what_somebody_set() -> None:
    """Not what the kernel found or the network gave: learnt routes, lifetimes, link-local ones."""

    wanted = address_of("192.0.2.1/24"), route_of("198.18.0.0/16", "192.0.2.9")
    neighbor = neighbor_of("192.0.2.9", "02:00:00:00:00:99")
    view = View(
        link=link_of(flags=IFF_UP | IFF_MULTICAST | IFF_RUNNING | IFF_LOWER_UP),
        addresses=(
            wanted[0],
            address_of("fe80::1/64", scope=253),
            address_of("2001:db8::9/64", flags=0),
        ),
        routes=(
            wanted[1],
            *(route_of("10.0.0.0/8", protocol=p) for p in (RTPROT_KERNEL, RTPROT_RA)),
            route_of("10.0.0.1/32", protocol=RTPROT_REDIRECT),
        ),
        neighbors=(neighbor, neighbor_of("192.0.2.8", "02:00:00:00:00:98", state=2)),
        sysctls={"ipv4/rp_filter": 2, "ipv4/arp_ignore": 0, "ipv4/unknown": 1},
        fresh={"ipv4/rp_filter": 0, "ipv4/arp_ignore": 0},
        switches={"feature/rx-gro": False},
    )
    originals = take_originals(view, driver="veth")

    assert originals.addresses == wanted[:1]
    assert originals.routes == wanted[1:]
    assert originals.neighbors == (neighbor,)
    assert originals.flags == IFF_UP | IFF_MULTICAST
    assert originals.sysctls == {"ipv4/rp_filter": 2}
    assert originals.switches == {"feature/rx-gro": False}
    assert (originals.name, originals.driver, originals.xdp_program_id) == ("v0", "veth", 0)


def test_originals_under_the_name_that_a_link_has_by_rights() -> None:
    """A link that is home under a spare name is remembered under its own one."""

    view = View(link=link_of("berth3", altnames=("enp1s0",), xdp=Xdp(mode=1, program_id=4)))
    originals = take_originals(view, name="ens1f0")

    assert (originals.name, originals.altnames) == ("ens1f0", ("enp1s0",))
    assert originals.xdp_program_id == 4
