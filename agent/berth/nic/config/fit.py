"""Whether a configuration fits the device that the claim was given.

The kernel does not check a VF's MTU against its PF, and takes a hardware address that another link
has; an MTU below 1280 takes IPv6 off the interface without a word. Source: network.md §3.1.
"""

from __future__ import annotations

import hashlib
from collections.abc import Container

from berth.model.device import NicKind
from berth.nic.config.children import check_children
from berth.nic.config.devicefacts import DeviceFacts, HostFacts, Target
from berth.nic.config.group import GroupPolicy, check_passthru
from berth.nic.config.items import IPV6_LEAST_MTU
from berth.nic.config.merge import Draft
from berth.nic.config.report import Place
from berth.nic.config.values import AttachMode, MacvlanMode, NicConfig, RdmaUse

OFFERED_TYPES = frozenset({"nic", "nic-shared", "nic-vfio"})
"""Types of device that this version can prepare."""


def check_fit(
    config: NicConfig, draft: Draft, *, target: Target, policy: GroupPolicy, host: HostFacts
) -> None:
    """Note what the device, its group or the node do not allow."""
    facts = target.facts
    if facts.type not in OFFERED_TYPES:
        draft.home.say(f"devices of type {facts.type} are not available in this version")
    if config.mode not in policy.modes:
        modes = " or ".join(mode.value for mode in policy.modes) or "none of this version"
        place = draft.place("mode")
        found = f'"{config.mode.value}" does not fit {target.result.device}'
        place.say(found, rule=f'the mode of group "{policy.name}" is {modes}')
    _check_mtu(config, draft, facts)
    _check_hardware_addr(config, draft, facts, host)
    if config.mode is AttachMode.MACVLAN:
        _check_macvlan(config, draft, facts, policy)
    check_children(config, draft, facts=facts, policy=policy, host=host)
    _check_vf(draft, facts)
    if config.mode is not AttachMode.VFIO:
        _check_rdma(config, draft.place("rdma"), facts)
    if facts.link_type != "ether":
        for number, _ in enumerate(config.neighbors):
            place = draft.item_place("neighbors", number).at("hardwareAddr")
            place.say(f"6 octets on a link of type {facts.link_type}", mend="drop the entry")


def is_foreign_link(facts: DeviceFacts) -> bool:
    """Whether the link's hardware address is also a matter of a PF's or a parent's other users."""
    return facts.kind is NicKind.VF or facts.type == "nic-shared"


def derived_hardware_addr(
    claim_uid: str, device: str, share_id: str | None, taken: Container[str] = ()
) -> str:
    """A child's hardware address: locally administered, the same each time for one share.

    Args:
        claim_uid: Of the claim.
        device: The parent's slice name.
        share_id: The claim's share of it.
        taken: Addresses in use, which are passed over.
    """
    attempt = 0
    while True:
        text = "\0".join((claim_uid, device, share_id or "", str(attempt)))
        octets = b"\x02" + hashlib.sha256(text.encode()).digest()[:5]
        address = octets.hex(":")
        if address not in taken:
            return address
        attempt += 1


def _check_mtu(config: NicConfig, draft: Draft, facts: DeviceFacts) -> None:
    place, wanted = draft.place("interface.mtu"), config.interface.mtu
    if wanted is not None:
        _check_bounds(wanted, place, config, facts)
    mtu = facts.mtu if wanted is None else wanted
    if not mtu:
        return
    if mtu < IPV6_LEAST_MTU and any(a.address.version == 6 for a in config.addresses):
        place.say(
            f"the MTU is {mtu}, and there are IPv6 addresses",
            rule=f"IPv6 needs at least {IPV6_LEAST_MTU}",
        )
    for number, route in enumerate(config.routes):
        if route.mtu is not None and route.mtu > mtu:
            here = draft.item_place("routes", number).at("mtu")
            here.say(f"{route.mtu} is above the interface's MTU", rule=f"that is {mtu}")


def _check_bounds(mtu: int, place: Place, config: NicConfig, facts: DeviceFacts) -> None:
    if mtu < facts.min_mtu:
        place.say(f"{mtu} is too small for the device", rule=f"at least {facts.min_mtu}")
    if facts.max_mtu and mtu > facts.max_mtu:
        place.say(f"{mtu} is too large for the device", rule=f"at most {facts.max_mtu}")
    if facts.pf_mtu and mtu > facts.pf_mtu:
        place.say(f"{mtu} is above the PF's MTU", rule=f"that is {facts.pf_mtu}")
    if config.mode is not AttachMode.MOVE and facts.mtu and mtu > facts.mtu:
        place.say(f"{mtu} is above the parent's MTU", rule=f"that is {facts.mtu}")


def _check_hardware_addr(
    config: NicConfig, draft: Draft, facts: DeviceFacts, host: HostFacts
) -> None:
    wanted = config.interface.hardware_addr
    if wanted is None:
        return
    place = draft.place("interface.hardwareAddr")
    if config.mode is AttachMode.IPVLAN:
        place.say(f"{wanted} on an ipvlan child", rule="it has the parent's", mend="drop it")
    if facts.link_type != "ether":
        place.say(f"the address of a link of type {facts.link_type} cannot be set", mend="drop it")
    holder = host.hardware_addrs.get(wanted)
    own = config.mode is AttachMode.MOVE and holder == facts.identity
    if holder is not None and not own:
        place.say(f"{wanted} is in use", rule=f"{holder} has it", mend="choose another")


def _check_vf(draft: Draft, facts: DeviceFacts) -> None:
    given = [path for path in draft.settings if path.startswith("vf.")]
    for path in given:
        if facts.kind is not NicKind.VF:
            found = f"without effect on a device of kind {facts.kind.value}"
            draft.place(path).say(found, rule="it is set of a VF, through its PF", mend="drop it")
        elif not facts.pf_mtu:
            draft.place(path).say(
                "cannot be set: the link of the VF's PF is not seen on the node",
                rule="it is set through that link",
                mend="bring the PF's link into the node's own network namespace",
            )


def _check_rdma(config: NicConfig, place: Place, facts: DeviceFacts) -> None:
    required = config.rdma is RdmaUse.REQUIRED
    if required and not facts.rdma:
        place.say(
            f'"{config.rdma.value}" of a NIC without an RDMA device', rule="it has to have one"
        )
    elif required and not facts.shares_rdma:
        place.say(
            f"{', '.join(facts.rdma)} would have to move into the pod",
            rule="that is not available in this version",
            mend="`rdma system set netns shared` before any other namespace is made",
        )
    elif config.rdma is not RdmaUse.NONE and facts.shares_rdma and facts.rdma_lacking:
        place.say(
            f"{', '.join(facts.rdma_lacking)} of {', '.join(facts.rdma)} is not there",
            rule="a pod gets all nodes of an RDMA device",
            mend='load ib_uverbs, ib_umad and rdma_ucm, or say rdma = "none"',
        )


def _check_macvlan(
    config: NicConfig, draft: Draft, facts: DeviceFacts, policy: GroupPolicy
) -> None:
    setting = draft.settings.get("macvlan.mode")
    if setting is None or config.macvlan.mode is not MacvlanMode.PASSTHRU:
        return
    check_passthru(setting, policy)
    if facts.uplink:
        setting.place.say('"passthru" over an uplink of the node', rule=facts.uplink)
    if config.interface.hardware_addr is not None:
        place = draft.place("interface.hardwareAddr")
        place.say(
            f'{config.interface.hardware_addr} with macvlan.mode "passthru"',
            rule="the child has the parent's own, and a change of it would change the parent",
            mend="drop it",
        )
