"""The kernel's per-interface settings that a claim may ask for.

Only names that exist for each interface, and of these only the ones that a pod can have use for;
what reaches beyond the pod's own interface is guarded. Bounds are the documented values: the kernel
itself takes any number for most of them (tried on Linux 6.18).
Source: Linux ``Documentation/networking/ip-sysctl.rst``.
"""

from __future__ import annotations

from typing import Final

from berth.config.forms import Whole
from berth.nic.config.field import Field, Guard
from berth.nic.config.kinds import Numbers

_FLAG: Final = Numbers((0, 1))

SYSCTL_FIELDS: Final = (
    Field(
        path="sysctls.ipv4.arp_ignore",
        form=Numbers((0, 1, 2, 3, 8)),
        meaning="Which requests for addresses are answered.",
    ),
    Field(
        path="sysctls.ipv4.arp_announce",
        form=Numbers((0, 1, 2)),
        meaning="Which of its addresses the pod names in requests of its own.",
    ),
    Field(
        path="sysctls.ipv4.arp_notify",
        form=_FLAG,
        meaning="Announce addresses when the interface comes up.",
        default="as `announce`",
    ),
    Field(
        path="sysctls.ipv4.arp_filter",
        form=_FLAG,
        meaning="Answer a request only by the interface that the answer's route uses.",
    ),
    Field(
        path="sysctls.ipv4.arp_accept",
        form=Numbers((0, 1, 2)),
        meaning="Whether unasked announcements make neighbors known: never, always, "
        "or only those of the same network.",
    ),
    Field(
        path="sysctls.ipv4.rp_filter",
        form=Numbers((0, 1, 2)),
        meaning="Check of the source address: none, strict, loose.",
    ),
    Field(
        path="sysctls.ipv4.promote_secondaries",
        form=_FLAG,
        meaning="Keep further addresses of a network when its first one is removed.",
    ),
    Field(
        path="sysctls.ipv4.ignore_routes_with_linkdown",
        form=_FLAG,
        meaning="Pass over routes while the interface has no carrier.",
    ),
    Field(
        path="sysctls.ipv4.src_valid_mark",
        form=_FLAG,
        meaning="Heed the packet's mark in the check of the source address.",
    ),
    Field(
        path="sysctls.ipv4.forwarding",
        form=_FLAG,
        meaning="Forward packets that came by this interface.",
        guard=Guard.ALWAYS,
    ),
    Field(
        path="sysctls.ipv4.proxy_arp",
        form=_FLAG,
        meaning="Answer requests for addresses of others.",
        guard=Guard.ALWAYS,
    ),
    Field(
        path="sysctls.ipv4.accept_local",
        form=_FLAG,
        meaning="Take packets that carry an own address as source.",
        guard=Guard.ALWAYS,
    ),
    Field(
        path="sysctls.ipv4.route_localnet",
        form=_FLAG,
        meaning="Route 127.0.0.0/8 as any other network.",
        guard=Guard.ALWAYS,
    ),
    Field(
        path="sysctls.ipv4.accept_redirects",
        form=_FLAG,
        meaning="Follow redirects of gateways.",
        guard=Guard.ALWAYS,
    ),
    Field(
        path="sysctls.ipv4.send_redirects",
        form=_FLAG,
        meaning="Send redirects.",
        guard=Guard.ALWAYS,
    ),
    Field(
        path="sysctls.ipv6.accept_ra",
        form=Numbers((0, 1, 2)),
        meaning="Whether a router's advertisements are heeded: never, unless forwarding, always. "
        "They may take the pod's default route.",
        default="0",
    ),
    Field(
        path="sysctls.ipv6.autoconf",
        form=_FLAG,
        meaning="Make addresses from advertised prefixes.",
    ),
    Field(
        path="sysctls.ipv6.accept_ra_defrtr",
        form=_FLAG,
        meaning="Take a default route from advertisements.",
    ),
    Field(
        path="sysctls.ipv6.accept_ra_pinfo",
        form=_FLAG,
        meaning="Take prefixes from advertisements.",
    ),
    Field(
        path="sysctls.ipv6.disable_ipv6",
        form=_FLAG,
        meaning="No IPv6 on this interface.",
    ),
    Field(
        path="sysctls.ipv6.accept_dad",
        form=Numbers((0, 1, 2)),
        meaning="Search for duplicates of addresses: never, as usual, "
        "or disable IPv6 if that of the link has one.",
    ),
    Field(
        path="sysctls.ipv6.dad_transmits",
        form=Whole(least=0, most=10),
        meaning="How often a duplicate is searched for.",
    ),
    Field(
        path="sysctls.ipv6.optimistic_dad",
        form=_FLAG,
        meaning="Use addresses while a duplicate is still searched for.",
    ),
    Field(
        path="sysctls.ipv6.addr_gen_mode",
        form=Numbers((0, 1, 3)),
        meaning="How the link-local address is made: from the hardware address, not at all, "
        "or at random. (The kernel's 2 needs a secret that a claim cannot give.)",
    ),
    Field(
        path="sysctls.ipv6.ndisc_notify",
        form=_FLAG,
        meaning="Announce a change of the hardware address.",
        default="as `announce`",
    ),
    Field(
        path="sysctls.ipv6.use_tempaddr",
        form=Numbers((-1, 0, 1, 2)),
        meaning="Temporary addresses: none, none, made, preferred.",
    ),
    Field(
        path="sysctls.ipv6.router_solicitations",
        form=Whole(least=-1, most=100),
        meaning="How often routers are asked for; -1 is without end.",
    ),
    Field(
        path="sysctls.ipv6.keep_addr_on_down",
        form=Numbers((-1, 0, 1)),
        meaning="Keep addresses while the interface is down: never, as the namespace says, always.",
    ),
    Field(
        path="sysctls.ipv6.forwarding",
        form=_FLAG,
        meaning="Forward packets that came by this interface.",
        guard=Guard.ALWAYS,
    ),
    Field(
        path="sysctls.ipv6.proxy_ndp",
        form=_FLAG,
        meaning="Answer for addresses of others.",
        guard=Guard.ALWAYS,
    ),
    Field(
        path="sysctls.ipv6.accept_redirects",
        form=_FLAG,
        meaning="Follow redirects of gateways.",
        guard=Guard.ALWAYS,
    ),
)
"""Every setting, in the order of the reference page."""
