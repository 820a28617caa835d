"""From a claim to what shall be done with each of its NICs, or every fault at once."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import attrs

from berth.errors import ClaimError, Faults
from berth.model.claim import Claim
from berth.nic.config.build import build
from berth.nic.config.check import check
from berth.nic.config.devicefacts import UNKNOWN_HOST, HostFacts, Target
from berth.nic.config.entries import Entry, read_entries
from berth.nic.config.fit import check_fit, derived_hardware_addr, is_foreign_link
from berth.nic.config.group import GroupPolicy, check_function
from berth.nic.config.inherit import take_over
from berth.nic.config.merge import Draft, merge
from berth.nic.config.pod import assign_names, check_pod
from berth.nic.config.report import Place, Report
from berth.nic.config.rights import Rights
from berth.nic.config.values import (
    AttachMode,
    InterfaceConfig,
    MacvlanMode,
    NicConfig,
    ResolvedNic,
    SysctlConfig,
)

_LAST = 1000
"""Rank of faults that stand in no entry; an allocation has at most 64 entries."""


def resolve(
    claim: Claim,
    *,
    targets: Sequence[Target],
    policies: Mapping[str, GroupPolicy],
    driver: str,
    host: HostFacts = UNKNOWN_HOST,
    others: Sequence[ResolvedNic] = (),
    skip_names: Collection[str] = (),
) -> tuple[ResolvedNic, ...]:
    """Decide what shall be done with each NIC of a claim.

    Args:
        claim: With its entries and all results of ours.
        targets: Its NICs in the order of its results; those with admin access are passed over,
            since nothing is done to them.
        policies: Of all groups, by name.
        driver: Our driver's name.
        host: What concerns all devices of the node.
        others: NICs of the same pod's other claims, as far as they are prepared.
        skip_names: Names that are left to claims of the pod which are not prepared yet.

    Returns:
        One for each target without admin access: interfaces in their order, then functions that
        are given without one.

    Raises:
        Faults: Something in the claim's configuration cannot be done; it holds every fault.
    """
    report = Report()
    entries = read_entries(claim, targets, driver=driver, report=report)
    drafts: list[tuple[Target, Draft, NicConfig]] = []
    functions: list[ResolvedNic] = []
    for target in _wanted(targets):
        policy = policies.get(target.facts.group)
        home = Place(report=report, root=str(target), rank=_LAST)
        if policy is None:
            home.say(f'its group "{target.facts.group}" is not configured any more')
            continue
        draft = _draft(target, entries, policy, home)
        config = _configure(draft, policy)
        check(config, draft)
        check_fit(config, draft, target=target, policy=policy, host=host)
        if config.mode is AttachMode.VFIO:
            check_function(draft.settings)
            functions.append(_resolved(claim, target, config))
        else:
            drafts.append((target, draft, config))
    of_others = (name for other in others for _, name in other.config.names)
    of_vrfs = (config.vrf.name for _, _, config in drafts)
    taken = {*skip_names, *of_others, *of_vrfs}
    names = assign_names([config.interface.name for _, _, config in drafts], taken)
    nics = [
        (_resolved(claim, target, _complete(claim.ref.uid, target, config, name, host)), draft)
        for (target, draft, config), name in zip(drafts, names, strict=True)
    ]
    check_pod(nics, others)
    if faults := report.faults(ClaimError):
        raise Faults(f"claim {claim.ref}", faults)
    return (*(nic for nic, _ in nics), *functions)


def by_group(target: Target, *, policy: GroupPolicy, host: HostFacts, uid: str) -> NicConfig:
    """Decide what shall be done with a NIC that was asked for as a resource: its group says all.

    Args:
        target: With the resource as its request.
        uid: Of who gets it, for a child's hardware address.

    Returns:
        Its name is empty unless the group gives one: the pod that it goes into is not known yet.

    Raises:
        Faults: The group's defaults cannot be done for this NIC.
    """
    report = Report()
    home = Place(report=report, root=str(target), rank=_LAST)
    draft = _draft(target, (), policy, home)
    config = _configure(draft, policy)
    check(config, draft)
    check_fit(config, draft, target=target, policy=policy, host=host)
    if faults := report.faults(ClaimError):
        raise Faults(str(target), faults)
    return _complete(uid, target, config, config.interface.name, host)


def wished_names(
    claim: Claim, *, targets: Sequence[Target], policies: Mapping[str, GroupPolicy], driver: str
) -> tuple[str, ...]:
    """The interface name that a claim asks for, for each of its NICs; empty where it asks for none.

    Its faults are left for `resolve` to tell.
    """
    report = Report()
    entries = read_entries(claim, targets, driver=driver, report=report)
    names = []
    for target in _wanted(targets):
        policy = policies.get(target.facts.group)
        if policy is not None and policy.modes != (AttachMode.VFIO,):
            home = Place(report=report, root=str(target))
            names.append(_draft(target, entries, policy, home).values().get("interface.name", ""))
    return tuple(names)


def _wanted(targets: Sequence[Target]) -> list[Target]:
    return [target for target in targets if not target.result.admin_access]


def _draft(target: Target, entries: Sequence[Entry], policy: GroupPolicy, home: Place) -> Draft:
    layers = [each.layer for each in entries if each.config.applies_to(target.result)]
    rights = Rights(policy=policy, foreign_link=is_foreign_link(target.facts))
    draft = merge([policy.layer(home.report), *layers], rights=rights, home=home)
    return take_over(draft, target.facts.home)


def _configure(draft: Draft, policy: GroupPolicy) -> NicConfig:
    """The draft as a value, with the settings that berth makes of its own accord.

    A router's advertisement must not take the pod's default route, and peers must learn where the
    addresses are now.
    """
    mode = policy.modes[0] if policy.modes else AttachMode.MOVE
    config = build({"mode": mode, **draft.values()})
    notify = int(config.announce)
    sysctls = SysctlConfig(
        ipv4={"arp_notify": notify, **config.sysctls.ipv4},
        ipv6={"accept_ra": 0, "ndisc_notify": notify, **config.sysctls.ipv6},
    )
    return attrs.evolve(config, sysctls=sysctls)


def _complete(uid: str, target: Target, config: NicConfig, name: str, host: HostFacts) -> NicConfig:
    """The configuration with its name, and with a child's hardware address."""
    interface: InterfaceConfig = attrs.evolve(config.interface, name=name)
    own = config.mode is AttachMode.MACVLAN and config.macvlan.mode is not MacvlanMode.PASSTHRU
    if own and interface.hardware_addr is None:
        result = target.result
        address = derived_hardware_addr(uid, result.device, result.share_id, host.hardware_addrs)
        interface = attrs.evolve(interface, hardware_addr=address)
    return attrs.evolve(config, interface=interface)


def _resolved(claim: Claim, target: Target, config: NicConfig) -> ResolvedNic:
    return ResolvedNic(
        claim=claim.ref,
        request=target.result.request,
        pool=target.result.pool,
        device=target.result.device,
        share_id=target.result.share_id,
        config=config,
    )
