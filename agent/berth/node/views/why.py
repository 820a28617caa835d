"""The answer to ``why``: all that the node knows of why a pod does not start, or of a device.

A pod that no record and no trouble tells of is one that kubelet never asked for here: then what is
told is the state of the node, from which it follows why the scheduler may have found nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import attrs

from berth.health.verdict import HealthState, Verdict
from berth.kube.api import Identity
from berth.model.device import Device, Nic, Version
from berth.model.inventory import Inventory
from berth.model.peripheral import ABSENT, Peripheral
from berth.node.records.given import Given, GivenDevice
from berth.node.records.record import ClaimRecord, HeldDevice
from berth.node.views.devices import (
    device_entry,
    nics_summary,
    peripheral_entry,
    peripherals_summary,
)
from berth.node.views.health import verdict_entry
from berth.node.views.holds import (
    SKIPPED,
    claim_state,
    given_entry,
    given_state,
    hold_entry,
    pods_of,
)
from berth.node.views.mends import mend_for
from berth.node.views.status import NriState, Publication, connection_troubles
from berth.node.views.troubles import Trouble
from berth.node.views.words import (
    Word,
    claim_word,
    device_word,
    given_word,
    lost_word,
    said,
    trouble_word,
)

Answer: TypeAlias = dict[str, Any]

_PLUG_IN: Final = "plug it in again, or delete the pod that holds it"


@attrs.frozen(kw_only=True)
class Knowledge:
    """Everything that the node knows.

    Attributes:
        given: What the device plugin gave.
        skipped: Claims that kubelet does not ask for.
        remarks: What of the settings is not in force, and why.
        nri: ``None`` before the first look, or without the plugin.
        publication: ``None`` while nothing is published.
        api: Whom the API server knows the daemon as; ``None`` where none is asked.
        health: How devices are; ``None`` where nobody judges that.
    """

    records: Sequence[ClaimRecord]
    inventory: Inventory
    given: Sequence[Given] = ()
    skipped: Sequence[ClaimRecord] = ()
    troubles: Sequence[Trouble] = ()
    nri: NriState | None = None
    publication: Publication | None = None
    api: Identity | None = None
    health: HealthState | None = None
    remarks: Sequence[str] = ()

    @property
    def every(self) -> Sequence[ClaimRecord]:
        """Every claim that has devices."""
        return (*self.records, *self.skipped)


@attrs.frozen(kw_only=True)
class _Claim:
    """One claim as it is told, and the words from which the verdict comes.

    Attributes:
        words: Each with its subject.
    """

    entry: Answer
    words: tuple[tuple[str, Word], ...]


def why_view(asked: str, known: Knowledge) -> Answer:
    """What is known of a pod, claim or device.

    Args:
        asked: A pod or claim as ``namespace/name``, name or UID; a device by its name in slices,
            interface name, PCI address, identity, hardware address or id at kubelet's door.

    Returns:
        ``found`` holds one entry per thing that is so called; ``node`` what concerns every pod.
    """
    pods: dict[str, str] = {}
    for pod, uid in (*_pods(asked, known), *_guessed_pods(asked, known)):
        pods.setdefault(pod, uid)
    found = [_pod_entry(pod, uid, known) for pod, uid in pods.items()]
    if not found:
        found = [_claim_entry(claim) for claim in _claims(asked, known)]
    asked_ids = {one.name for one in known.inventory.listings if asked in one.ids}
    found += [
        _device_entry(nic, known)
        for nic in known.inventory.nics
        if _is_device(asked, nic) or nic.name in asked_ids
    ]
    found += [
        _peripheral_entry(one, known)
        for one in known.inventory.peripherals
        if asked in {one.name, one.identity, one.path, *one.ids}
    ]
    return {"asked": asked, "found": found, "node": _node(known)}


def _node(known: Knowledge) -> Answer:
    return {
        "troubles": [
            *connection_troubles(known.nri, known.publication, known.api),
            *known.remarks,
        ],
        "nics": nics_summary(known.inventory),
        "peripherals": peripherals_summary(known.inventory),
    }


def _pods(asked: str, known: Knowledge) -> Iterator[tuple[str, str]]:
    """Pods that are so called, with their UID where it is known."""
    for record in known.every:
        for consumer in record.consumers:
            pod = f"{record.claim.namespace}/{consumer.name}"
            if consumer.is_pod and _is_called(asked, pod, consumer.uid):
                yield pod, consumer.uid
    for one in known.given:
        pod = _pod_of(one)
        if pod and _is_called(asked, pod, one.pod_uid):
            yield pod, one.pod_uid
    for trouble in known.troubles:
        if trouble.pod and _is_called(asked, trouble.pod, ""):
            yield trouble.pod, ""


def _pod_of(given: Given) -> str:
    """The pod of a container that kubelet has named."""
    container = given.holder.container
    return f"{container.namespace}/{container.pod}" if container is not None else ""


def _guessed_pods(asked: str, known: Knowledge) -> Iterator[tuple[str, str]]:
    """Pods of which nothing is known but troubles of claims that look like theirs."""
    for trouble in known.troubles:
        if not trouble.pod and _is_of_template(asked, trouble.claim):
            yield f"{trouble.claim.partition('/')[0]}/{asked.rpartition('/')[2]}", ""


def _is_called(asked: str, name: str, uid: str) -> bool:
    return asked in {name, uid or name} or ("/" not in asked and asked == name.rpartition("/")[2])


def _is_of_template(asked: str, claim: str) -> bool:
    """Whether the claim is named as one that was made for the pod from a template.

    Source: ``resourceclaim/controller.go`` of Kubernetes: ``<pod>-<name in the pod>-<suffix>``.
    """
    namespace, _, name = claim.partition("/")
    wanted, _, pod = asked.rpartition("/")
    return wanted in {"", namespace} and name.startswith(f"{pod}-") and name.count("-") >= 2


def _pod_entry(pod: str, uid: str, known: Knowledge) -> Answer:
    namespace, _, name = pod.partition("/")
    records = [
        record
        for record in known.every
        if record.claim.namespace == namespace and name in pods_of(record)
    ]
    claims = [_of_record(record, known) for record in records]
    claims += [_of_given(one, known) for one in known.given if _pod_of(one) == pod]
    have = {str(record.claim) for record in records}
    for trouble in known.troubles:
        guessed = not trouble.pod and _is_of_template(pod, trouble.claim)
        if (trouble.pod == pod or guessed) and trouble.claim not in have:
            claims.append(_of_trouble(trouble))
    return {"kind": "pod", "name": pod, "uid": uid, **_verdict(claims)}


def _claims(asked: str, known: Knowledge) -> Iterator[_Claim]:
    seen = set()
    for record in known.every:
        if _is_called(asked, str(record.claim), record.claim.uid):
            seen.add(str(record.claim))
            yield _of_record(record, known)
    for trouble in known.troubles:
        if trouble.claim not in seen and trouble.claim and _is_called(asked, trouble.claim, ""):
            yield _of_trouble(trouble)


def _claim_entry(claim: _Claim) -> Answer:
    name, uid = claim.entry["claim"], claim.entry["uid"]
    return {"kind": "claim", "name": name, "uid": uid, **_verdict([claim])}


def _verdict(claims: Sequence[_Claim]) -> Answer:
    """The claims, the word that weighs most, and what to do about it."""
    words = [pair for claim in claims for pair in claim.words]
    subject, worst = max(words, key=lambda pair: pair[1].rank)
    return {
        "verdict": f"{subject}: {worst.text}",
        "mend": worst.mend,
        "claims": [claim.entry for claim in claims],
    }


def _of_record(record: ClaimRecord, known: Knowledge) -> _Claim:
    name = str(record.claim)
    trouble = next((t for t in known.troubles if t.claim == name), None)
    word = claim_word(record, trouble)
    devices = [(d, _held_word(record, d, known)) for d in record.devices]
    return _Claim(
        entry={
            "claim": name,
            "uid": record.claim.uid,
            "state": SKIPPED if record in known.skipped else claim_state(record),
            "pods": pods_of(record),
            **said(word),
            "trouble": attrs.asdict(trouble) if trouble else None,
            "devices": [hold_entry(record, d) | said(told) for d, told in devices],
        },
        words=(
            *((f"{d.result.device} (claim {name})", told) for d, told in devices),
            (f"claim {name}", word),
        ),
    )


def _of_given(given: Given, known: Knowledge) -> _Claim:
    """What a container asked for as a resource, told as a claim's devices are."""
    words = [(d, _given_word(given, d, known)) for d in given.devices]
    return _Claim(
        entry={
            "claim": "",
            "uid": given.uid,
            "state": given_state(given),
            "pods": [],
            **said(Word(text="")),
            "trouble": None,
            "devices": [given_entry(given, d) | said(word) for d, word in words],
        },
        words=tuple(
            (f"{d.peripheral.name} (resource {given.holder.resource})", word) for d, word in words
        ),
    )


def _of_trouble(trouble: Trouble) -> _Claim:
    word = trouble_word(trouble)
    subject = f"claim {trouble.claim}" if trouble.claim else f"pod {trouble.pod}"
    return _Claim(
        entry={
            "claim": trouble.claim,
            "uid": "",
            "state": "waiting" if trouble.waiting else "refused",
            "pods": [trouble.pod.rpartition("/")[2]] if trouble.pod else [],
            **said(word),
            "trouble": attrs.asdict(trouble),
            "devices": [],
        },
        words=((subject, word),),
    )


def _is_device(asked: str, nic: Nic) -> bool:
    return asked in {nic.name, nic.identity, nic.ifname or nic.name} or (
        asked.lower() in {nic.pci or nic.name, nic.mac or nic.name}
    )


def _device_entry(nic: Nic, known: Knowledge) -> Answer:
    holders = [
        hold_entry(record, device) | said(_held_word(record, device, known))
        for record in known.every
        for device in record.devices
        if device.identity == nic.identity
    ]
    holders += _plugin_holders(nic.identity, known)
    device = known.inventory.device_by_name.get(nic.name)
    lost = lost_word(_verdict_on(nic.name, known))
    return {
        "kind": "device",
        "name": nic.name,
        "verdict": _device_verdict(nic, holders, lost),
        "mend": _PLUG_IN if lost is not None else mend_for(nic),
        "device": device_entry(nic, known.inventory) | _health(nic.name, known),
        "attributes": _attributes(device),
        "holders": holders,
    }


def _plugin_holders(identity: str, known: Knowledge) -> list[Answer]:
    """Containers that were given a device by the device plugin."""
    return [
        given_entry(one, device) | said(_given_word(one, device, known))
        for one in known.given
        for device in one.devices
        if device.peripheral.identity == identity
    ]


def _device_verdict(nic: Nic, holders: Sequence[Answer], lost: Word | None) -> str:
    if lost is not None:
        holder = f". It was given to {'; '.join(nic.held_by)}" if nic.held_by else ""
        return f"{nic.name} {lost.text}{holder}"
    if nic.exclusion is not None:
        return f"{nic.name} is not offered: {nic.exclusion}"
    if not holders:
        return f"{nic.name} is offered, and free"
    held = "; ".join(f"{holder['holder']}: {holder['says']}" for holder in holders)
    return f"{nic.name} is held. {held}"


def _peripheral_entry(one: Peripheral, known: Knowledge) -> Answer:
    device = known.inventory.device_by_name.get(one.name)
    return {
        "kind": "device",
        "name": one.name,
        "verdict": _peripheral_verdict(one),
        "mend": _PLUG_IN if one.unhealthy == ABSENT else "",
        "device": peripheral_entry(one, known.inventory) | _health(one.name, known),
        "attributes": _attributes(device),
        "holders": [
            hold_entry(record, device) | said(_held_word(record, device, known))
            for record in known.every
            for device in record.devices
            if device.peripheral is not None and device.peripheral.identity == one.identity
        ]
        + _plugin_holders(one.identity, known),
    }


def _peripheral_verdict(one: Peripheral) -> str:
    held = f" It is held by {'; '.join(one.held_by)}." if one.held_by else ""
    if one.unhealthy == ABSENT:
        return f"{one.name} is {ABSENT}: the machine does not show it any more.{held}"
    if one.unhealthy:
        return f"{one.name} is not well: {one.unhealthy}.{held}"
    if one.exclusion is not None:
        return f"{one.name} is not offered: {one.exclusion}.{held}"
    if not one.held_by:
        return f"{one.name} is offered, and free"
    if len(one.held_by) < one.slots:
        return f"{one.name} is offered, {one.slots - len(one.held_by)} of {one.slots} free.{held}"
    return f"{one.name} is held by {'; '.join(one.held_by)}"


def _verdict_on(name: str, known: Knowledge) -> Verdict | None:
    return known.health.of(name) if known.health is not None else None


def _held_word(record: ClaimRecord, device: HeldDevice, known: Knowledge) -> Word:
    lost = lost_word(_verdict_on(device.result.device, known))
    return lost or device_word(record, device, known.nri)


def _given_word(given: Given, device: GivenDevice, known: Knowledge) -> Word:
    lost = lost_word(_verdict_on(device.peripheral.name, known))
    return lost or given_word(given, device, known.nri)


def _health(name: str, known: Knowledge) -> Answer:
    verdict = _verdict_on(name, known)
    return {"verdict": verdict_entry(verdict) if verdict is not None else None}


def _attributes(device: Device | None) -> Mapping[str, Any]:
    values = device.attributes if device is not None else {}
    return {
        name: value.text if isinstance(value, Version) else value
        for name, value in sorted(values.items())
    }
