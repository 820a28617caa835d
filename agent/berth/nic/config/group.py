"""What a group of NICs says of the claims on it: defaults, rights and kinds of children."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

from berth.config.finding import Finding, toml_text
from berth.config.nicgroup import NicGroup, Scrub
from berth.config.schema import Config
from berth.model.device import NicMode
from berth.nic.config.decode import RESET, Layer, Setting, decode
from berth.nic.config.field import Field, Guard
from berth.nic.config.fields import BY_PATH, MEMBERS
from berth.nic.config.nearest import nearest
from berth.nic.config.notation import OWN_NAME
from berth.nic.config.report import Place, Report
from berth.nic.config.values import AttachMode, MacvlanMode
from berth.nic.config.vffields import VF_FIELDS

_BEFORE_ENTRIES: Final = -1
"""Rank of faults in a group's defaults: they are told before those of a claim's entries."""


@attrs.frozen(kw_only=True)
class GroupPolicy:
    """A group, as far as claims on its devices are concerned.

    Attributes:
        modes: How its devices reach pods; the first is taken unless a text says otherwise.
        defaults: As they are written.
        root: How the group is called in messages.
        claims_may: Guarded fields, or objects with some in them, that claims may set.
        claims_deny: Fields and objects that claims may not set.
        slots: Most claims that use one of its devices at once.
        allow_noiommu: Its devices may be bound to vfio-pci without an IOMMU.
        scrub: What is done to its devices when they come home.
    """

    name: str
    modes: tuple[AttachMode, ...]
    defaults: Mapping[str, Any] = attrs.field(factory=dict)
    root: str = ""
    claims_may: tuple[str, ...] = ()
    claims_deny: tuple[str, ...] = ()
    slots: int = 1
    allow_noiommu: bool = False
    scrub: Scrub = Scrub.RESTORE

    def layer(self, report: Report) -> Layer:
        """Read the defaults; faults in them, now or later, go to ``report``."""
        place = Place(report=report, root=self.root, joint=": ", rank=_BEFORE_ENTRIES)
        return decode(self.defaults, place.at("defaults"))

    def lets_claims_set(self, path: str) -> bool:
        """Whether claims may set a guarded field."""
        return covered(path, self.claims_may)

    def denies_claims(self, path: str) -> bool:
        """Whether claims may not set a field that is not guarded."""
        return covered(path, self.claims_deny)


def covered(path: str, names: Iterable[str]) -> bool:
    """Whether ``path`` is one of ``names`` or lies in an object that is."""
    return any(path == name or path.startswith(f"{name}.") for name in names)


def policies_of(groups: Sequence[NicGroup]) -> Mapping[str, GroupPolicy]:
    """What groups say of claims, by the group's name; `check_groups` finds no fault in them.

    Args:
        groups: From the node's settings, in their order.
    """
    roots = (f"[[nic.group]] {n + 1} {toml_text(group.name)}" for n, group in enumerate(groups))
    return {group.name: _policy(group, root) for group, root in zip(groups, roots, strict=True)}


def check_groups(config: Config) -> Iterator[Finding]:
    """Check what groups say of claims as the claims themselves are checked.

    A further check of the node's settings: see `berth.config.load`.
    """
    for number, group in enumerate(config.nic.groups):
        report = Report()
        policy = _policy(group, "")
        _check_rights(policy, Place(report=report, root=""))
        _check_defaults(policy, policy.layer(report).settings)
        yield from report.findings("nic", "group", number)


def _policy(group: NicGroup, root: str) -> GroupPolicy:
    return GroupPolicy(
        name=group.name,
        modes=_modes(group),
        defaults=group.defaults,
        root=root,
        claims_may=group.claims_may,
        claims_deny=group.claims_deny,
        slots=group.shared.slots if group.mode is NicMode.SHARED else 1,
        allow_noiommu=group.allow_noiommu,
        scrub=group.scrub,
    )


def _modes(group: NicGroup) -> tuple[AttachMode, ...]:
    if group.mode is NicMode.SHARED:
        return tuple(AttachMode(child.value) for child in group.shared.children)
    return (AttachMode.VFIO if group.mode is NicMode.VFIO else AttachMode.MOVE,)


def _check_rights(policy: GroupPolicy, place: Place) -> None:
    for key, names in (("claims_may", policy.claims_may), ("claims_deny", policy.claims_deny)):
        for number, name in enumerate(names):
            here = place.at(key, number)
            if name not in _RIGHTS:
                here.say(f'"{name}" is no field of NicConfig', mend=_meant(name))
            elif key == "claims_may" and not _RIGHTS[name]:
                here.say(
                    f'"{name}" is not guarded', rule="claims may set it anyway", mend="drop it"
                )
            elif key == "claims_deny" and name in policy.claims_may:
                here.say(f'"{name}" stands in claims_may too', mend="drop it from one of the two")


def _meant(name: str) -> str:
    close = difflib.get_close_matches(name, _RIGHTS, n=1)
    near = close[0] if close else nearest(name.rpartition(".")[2], "")
    return f"did you mean {near}?" if near in _RIGHTS else ""


def _rights() -> Iterator[tuple[str, bool]]:
    """What rights may be about, and whether claims need one for it."""
    yield OWN_NAME, True
    for path in MEMBERS:
        if path and not path.endswith("[]"):
            yield path, any(_guarded(f) for p, f in BY_PATH.items() if covered(p, [path]))
    for path, field in BY_PATH.items():
        if "[]" not in path:
            yield path, _guarded(field)


def _guarded(field: Field) -> bool:
    if field.guard is not Guard.NONE:
        return True
    return any(right == field.path for _, right in field.guarded_values)


_RIGHTS: Final = dict(_rights())


def _check_defaults(policy: GroupPolicy, settings: Mapping[str, Setting]) -> None:
    """Note what can hold for no claim on the group."""
    mode = settings.get("mode")
    if mode is not None and mode.value is not RESET and mode.value not in policy.modes:
        mode.place.say(
            f'"{mode.value.value}" does not fit the group',
            rule=f"its devices reach pods by {_words(policy.modes)}",
        )
    if policy.modes == (AttachMode.VFIO,):
        check_function(settings)
    for path, needed in NEEDED_MODE.items():
        if path in settings and needed not in policy.modes:
            settings[path].place.say(
                f"needs mode {needed.value}", rule="the group does not hand devices out that way"
            )
    passthru = settings.get("macvlan.mode")
    if passthru is not None:
        check_passthru(passthru, policy)


def check_function(settings: Mapping[str, Setting]) -> None:
    """Note what speaks of a link, of which a function without one has none."""
    for path, setting in settings.items():
        if path != "mode" and path not in NEEDED_MODE and setting.value is not RESET:
            setting.place.say(
                f"without effect in mode {AttachMode.VFIO.value}",
                rule="a function that vfio-pci has is no interface of the pod",
                mend="drop it",
            )


def check_passthru(setting: Setting, policy: GroupPolicy) -> None:
    """Note a child that takes the whole parent, of which the group promises several.

    Source: Linux refuses any child beside it with EINVAL (network.md §3.1, tried on 6.18).
    """
    if setting.value is MacvlanMode.PASSTHRU and policy.slots > 1:
        setting.place.say(
            f'"passthru" with {policy.slots} slots in group "{policy.name}"',
            rule="it takes the whole parent",
            mend="shared.slots = 1 in that group allows it",
        )


NEEDED_MODE: Final[Mapping[str, AttachMode]] = {
    "macvlan.mode": AttachMode.MACVLAN,
    "ipvlan.mode": AttachMode.IPVLAN,
    "ipvlan.flag": AttachMode.IPVLAN,
    "vlan.id": AttachMode.VLAN,
    "vlan.protocol": AttachMode.VLAN,
    "inherit": AttachMode.MOVE,
    "vfio.iommufd": AttachMode.VFIO,
    "vfio.apiDevice": AttachMode.VFIO,
    "vfio.vhost": AttachMode.VFIO,
    **{field.path: AttachMode.MOVE for field in VF_FIELDS},
    "ethtool.features": AttachMode.MOVE,
    "ethtool.privateFlags": AttachMode.MOVE,
}
"""Fields that mean something in one mode only."""


def _words(modes: Sequence[AttachMode]) -> str:
    return " or ".join(mode.value for mode in modes) or "no way of this version"
