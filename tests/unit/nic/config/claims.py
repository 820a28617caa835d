"""Claims on NICs as the tests of this folder need them, and what becomes of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from berth.errors import Faults
from berth.model import jsontext
from berth.model.claim import Claim, ClaimRef, ConfigSource, DeviceResult, OpaqueConfig
from berth.model.device import NicKind
from berth.nic.config import (
    AttachMode,
    DeviceFacts,
    GroupPolicy,
    HostFacts,
    ResolvedNic,
    Target,
    resolve,
)

DRIVER = "nics.example.org"
HEAD = {"apiVersion": "berth.dev/v1alpha1", "kind": "NicConfig"}
ROOT = "config[0].opaque.parameters"

FAST = GroupPolicy(name="fast", modes=(AttachMode.MOVE,), root='[[nic.group]] 1 "fast"')
PARENT = GroupPolicy(
    name="parent", modes=(AttachMode.MACVLAN,), root='[[nic.group]] 2 "parent"', slots=4
)

NIC = DeviceFacts(
    identity="pci:0000:41:00.0",
    type="nic",
    kind=NicKind.PCI,
    group="fast",
    mtu=1500,
    min_mtu=68,
    max_mtu=9216,
)
SHARED = attrs.evolve(NIC, identity="pci:0000:42:00.0", type="nic-shared", group="parent")


def nic_result(request: str = "nic", device: str = "nic-0000-41-00-0", **more: Any) -> DeviceResult:
    """A result for one of our NICs."""
    return DeviceResult(request=request, pool="node-1/nic", device=device, **more)


def entry(
    parameters: object,
    *,
    index: int = 0,
    requests: Sequence[str] = (),
    source: ConfigSource = ConfigSource.CLAIM,
) -> OpaqueConfig:
    """A configuration entry; text is read as JSON, an object gets its head when it has none."""
    if isinstance(parameters, str):
        parameters = jsontext.loads(parameters)
    elif isinstance(parameters, Mapping):
        parameters = jsontext.loads(json.dumps({**HEAD, **parameters}))
    return OpaqueConfig(index=index, source=source, requests=tuple(requests), parameters=parameters)


def claim_of(
    *configs: OpaqueConfig, results: Sequence[DeviceResult] = (), name: str = "claim"
) -> Claim:
    """A claim on one NIC, or on what ``results`` say."""
    return Claim(
        ref=ClaimRef(namespace="team", name=name, uid=f"uid-of-{name}"),
        results=tuple(results) or (nic_result(),),
        configs=configs,
    )


def targets_of(claim: Claim, *facts: DeviceFacts) -> tuple[Target, ...]:
    """The claim's results as NICs, with the facts in turn; the last ones serve all others."""
    known = [*facts] or [NIC]
    known += [known[-1]] * len(claim.results)
    return tuple(
        Target(result=result, facts=each)
        for result, each in zip(claim.results, known, strict=False)
    )


def resolved(
    *configs: OpaqueConfig,
    facts: DeviceFacts = NIC,
    policy: GroupPolicy | None = None,
    results: Sequence[DeviceResult] = (),
    host: HostFacts | None = None,
    **more: Any,
) -> tuple[ResolvedNic, ...]:
    """What becomes of a claim whose NICs all have the same facts and group."""
    claim = claim_of(*configs, results=results)
    if policy is None:
        policy = PARENT if facts.type == "nic-shared" else FAST
    return resolve(
        claim,
        targets=targets_of(claim, facts),
        policies={facts.group: policy},
        driver=DRIVER,
        host=host or HostFacts(),
        **more,
    )


def faults(*configs: OpaqueConfig, **more: Any) -> list[str]:
    """The faults of a claim, as they are told; see `resolved` for the arguments."""
    try:
        resolved(*configs, **more)
    except Faults as found:
        return [str(fault) for fault in found.faults]
    return []


def class_faults(parameters: Mapping[str, Any], **more: Any) -> list[str]:
    """The faults of one entry of a DeviceClass, which may set guarded fields; without its root."""
    found = faults(entry(parameters, source=ConfigSource.CLASS), **more)
    return [fault.removeprefix(f"{ROOT}.") for fault in found]
