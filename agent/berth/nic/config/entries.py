"""The configuration entries of a claim: which are for NICs, for which, and what they say."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

from berth.model.claim import Claim, ConfigSource, DeviceResult, OpaqueConfig
from berth.nic.config.decode import Layer, decode
from berth.nic.config.devicefacts import Target
from berth.nic.config.report import Place, Report, shown

KIND: Final = "NicConfig"
"""The kind that is ours."""

HOME_DRIVER: Final = "berth.dev"
"""The driver's own name, which manifests may use although a node's driver has another."""

VERSION: Final = "v1alpha1"
"""The only version of the kind."""

SIZE_LIMIT: Final = 10 * 1024
"""Longest entry, in bytes of compact JSON. Source: ``resource.k8s.io/v1``, opaque parameters."""

DEPTH_LIMIT: Final = 16
"""Deepest nesting of an entry; the fields need 4."""

_BESIDE: Final = ("apiVersion", "kind")


@attrs.frozen(kw_only=True)
class Entry:
    """An entry that is for NICs."""

    config: OpaqueConfig
    layer: Layer


def read_entries(
    claim: Claim, targets: Sequence[Target], *, driver: str, report: Report
) -> tuple[Entry, ...]:
    """Read the entries that are for NICs, in their order.

    An entry of another kind is for other devices; where it applies to NICs alone it is a fault,
    because nobody would heed it.
    """
    return tuple(_entries(claim, targets, driver, report))


def _entries(
    claim: Claim, targets: Sequence[Target], driver: str, report: Report
) -> Iterator[Entry]:
    nics = [target.result for target in targets]
    others = [result for result in claim.results if result not in nics]
    for config in claim.configs:
        entry = Place(report=report, root=f"config[{config.index}]", rank=config.index)
        place = entry.at("opaque", "parameters")
        raw = config.parameters
        if not isinstance(raw, Mapping):
            place.refuse(raw, rule="it must be an object with apiVersion and kind")
        elif not _bounded(raw, place):
            continue
        elif raw.get("kind") == KIND:
            _check_version(raw.get("apiVersion"), place.at("apiVersion"), driver)
            _check_requests(config, nics, others, entry)
            of_claim = config.source is ConfigSource.CLAIM
            layer = decode(raw, place, of_claim=of_claim, beside=_BESIDE)
            yield Entry(config=config, layer=layer)
        elif "kind" not in raw or not any(config.applies_to(other) for other in others):
            _say_kind(raw, place)


def _bounded(raw: Mapping[str, Any], place: Place) -> bool:
    level: list[object] = [raw]
    for _ in range(DEPTH_LIMIT + 1):
        level = [child for each in level for child in _children(each)]
    if level:
        place.say(f"is nested more than {DEPTH_LIMIT} deep")
        return False
    text = json.dumps(raw, ensure_ascii=False, separators=(",", ":"), default=str)
    size = len(text.encode(errors="surrogatepass"))
    if size > SIZE_LIMIT:
        place.say(f"{size} bytes", rule=f"at most {SIZE_LIMIT} are allowed")
    return size <= SIZE_LIMIT


def _children(value: object) -> Sequence[object]:
    if isinstance(value, Mapping):
        return list(value.values())
    return value if isinstance(value, list) else ()


def _say_kind(raw: Mapping[str, Any], place: Place) -> None:
    if "kind" not in raw:
        place.say("lacks kind", rule=f'a NIC takes "{KIND}"')
        return
    kind = raw["kind"]
    near = isinstance(kind, str) and difflib.get_close_matches(kind[:40], [KIND], cutoff=0.8)
    place.at("kind").say(
        f"{shown(kind)} is no kind that a NIC takes, and the entry applies to no other device",
        rule=f'it must be "{KIND}"',
        mend=f"did you mean {KIND}?" if near else "",
    )


def _check_version(found: object, place: Place, driver: str) -> None:
    allowed = list(dict.fromkeys(f"{name}/{VERSION}" for name in (driver, HOME_DRIVER)))
    if found not in allowed:
        rule = " or ".join(f'"{each}"' for each in allowed)
        place.refuse(found, rule=f"it must be {rule}")


def _check_requests(
    config: OpaqueConfig,
    nics: Sequence[DeviceResult],
    others: Sequence[DeviceResult],
    place: Place,
) -> None:
    known = {nic.base_request for nic in nics}
    before = place.report.count
    for number, name in enumerate(config.requests):
        if name.partition("/")[0] in known:
            continue
        bases = {other.base_request for other in others}
        devices = "other devices" if name.partition("/")[0] in bases else "no device of this driver"
        place.at("requests", number).say(
            f"{shown(name)} has {devices}", rule=f"{KIND} is for NICs", mend="drop the name"
        )
    if place.report.count == before and not any(config.applies_to(nic) for nic in nics):
        place.say("applies to no NIC of this claim", mend="drop the entry, or mend its requests")
