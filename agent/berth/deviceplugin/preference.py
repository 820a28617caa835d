"""Which units a container should get: near to each other, and none that is ill while others are.

Theory. What kubelet insists on comes first. The rest is taken from units that are well, and only
then from those that are held, ill or unknown: a preference is a hint, so a sick device is never a
reason to fail. Of functions that share their IOMMU group one alone is taken, since whoever has one
has the group. Among equals, a NUMA node that has all that is needed is better than two, there a
PCIe root that has it, and of several the one whose devices have most NVLinks with each other and
with what is chosen already, then the one whose devices are shared least (``spread``) or most
(``pack``), then the one with the least to spare. Where several NUMA nodes have all, the one that
has it at the fewest roots is taken. Virtual functions count as shares of their physical function:
they are spread over all of these that are equally near.

Links are no domain: two GPUs may both be linked with a third and not with each other. So they are
weighed whenever there is a choice that costs no further NUMA node or PCIe root: the next is taken
by its links with those before it, the first by the links that it could get.

All of it is counted from the values given: nothing is asked of the machine here.

Source: GH §5.1, §1.7; KC §2.2 (when kubelet asks, and what it makes of the answer).
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import Final, TypeAlias

import attrs

from berth.deviceplugin.links import between, promise, within
from berth.errors import ClaimError
from berth.model.resource import Resource, Unit


@attrs.frozen(kw_only=True)
class Wish:
    """What kubelet asks a preference about.

    Attributes:
        available: Ids to choose from.
        must: Ids that are to be in the answer.
        size: How many ids the answer is to have, those of ``must`` included.
    """

    available: tuple[str, ...]
    must: tuple[str, ...]
    size: int


Domain: TypeAlias = "Callable[[Unit], Hashable]"
"""Gives what a unit is near to; units of the same are near to each other."""

_DOMAINS: Final[tuple[Domain, ...]] = (lambda unit: unit.numa, lambda unit: unit.pcie_root)
"""From the widest to the narrowest."""


def prefer(resource: Resource, wish: Wish) -> tuple[str, ...]:
    """Give exactly as many ids as are wished for, each once; those of ``must`` come first.

    The answer depends on the order of the units in the resource, not on that of the ids.

    Raises:
        ClaimError: So many cannot be given together.
    """
    _check_size(resource, wish)
    known = {unit.id: unit for unit in resource.units}
    must = [_unit(known, name) for name in dict.fromkeys(wish.must)]
    offered = set(wish.available)
    free = [unit for unit in resource.units if unit.id in offered]
    free += [_unit(known, name) for name in sorted(offered - known.keys())]
    left = offered - {unit.id for unit in must}
    choice = _Choice(resource, must, free=offered)
    well = [unit for unit in free if unit.id in left and unit.healthy and not unit.held]
    ill = [unit for unit in free if unit.id in left and not (unit.healthy and not unit.held)]
    for tier in (well, ill):
        choice.add(tier, wish.size - len(choice.units))
    if len(choice.units) < wish.size:
        raise _too_few(resource, wish, len(choice.units))
    return tuple(unit.id for unit in choice.units)


def _unit(known: Mapping[str, Unit], name: str) -> Unit:
    """The unit of an id; one that is not known (any more) is a device of its own, and ill."""
    return known.get(name) or Unit(id=name, device=name, healthy=False)


def _check_size(resource: Resource, wish: Wish) -> None:
    must = len(set(wish.must))
    if not must <= wish.size or wish.size < 1:
        raise ClaimError(
            resource.name,
            f"{wish.size} ids are wanted, {must} of them given",
            rule="at least one, and no fewer than are given",
        )


def _too_few(resource: Resource, wish: Wish, found: int) -> ClaimError:
    bundled = any(unit.bundle for unit in resource.units)
    rule = "" if resource.many else "a container gets one share of a device"
    mend = "" if resource.many else "ask for fewer, or set share.many = true in the group"
    if bundled and not resource.many:
        rule = "a container gets one function of an IOMMU group, which it has with it"
        mend = "ask for fewer"
    return ClaimError(
        resource.name,
        f"{wish.size} ids are wanted, {found} of the {len(set(wish.available))} available ones can"
        " be given together",
        rule=rule,
        mend=mend,
    )


@attrs.frozen(kw_only=True)
class _Last:
    """What the last group has to do.

    Attributes:
        need: How many units it gives.
        narrower: The domains within it.
        had: What is chosen already.
    """

    need: int
    narrower: Sequence[Domain]
    had: Sequence[Unit]


class _Choice:
    """What was chosen so far.

    Args:
        resource: Whose units.
        must: Those that are chosen from the start.
        free: Ids that nobody has.
    """

    def __init__(self, resource: Resource, must: Sequence[Unit], *, free: set[str]) -> None:
        self.units: list[Unit] = []
        self._anchors: dict[Domain, set[Hashable]] = {domain: set() for domain in _DOMAINS}
        self._take(must)
        self._many = resource.many
        self._heaped = resource.many and resource.pack
        # Where shares are heaped on a device, it matters little with which others it is linked.
        self._linked = not self._heaped and any(unit.links for unit in resource.units)
        self._loads = Counter(_bearer(unit) for unit in resource.units if unit.id not in free)
        self._sign = -1 if resource.pack else 1
        devices = dict.fromkeys(unit.device for unit in resource.units)
        self._order = {device: number for number, device in enumerate(devices)}

    def add(self, tier: Sequence[Unit], need: int) -> None:
        """Choose so many of a tier, or as many as it has."""
        if self._heaped:
            self._take(self._near(tier, need, _DOMAINS, had=self.units))
            return
        taken = set() if self._many else {_piece(unit) for unit in self.units}
        layers = _layers(unit for unit in tier if _piece(unit) not in taken)
        for layer in layers if self._many else layers[:1]:
            chosen = self._near(layer, need, _DOMAINS, had=self.units)
            self._take(chosen)
            need -= len(chosen)

    def _take(self, units: Sequence[Unit]) -> None:
        self.units += units
        for domain, keys in self._anchors.items():
            keys.update(map(domain, units))

    def _near(
        self, units: Sequence[Unit], need: int, domains: Sequence[Domain], *, had: Sequence[Unit]
    ) -> list[Unit]:
        """Choose ``need`` of the units, or all, from as few domains as can be.

        Args:
            had: What is chosen already.
        """
        if need <= 0:
            return []
        if not domains:
            return self._closest(units, need, had=had)
        domain, narrower = domains[0], domains[1:]
        groups: dict[Hashable, list[Unit]] = defaultdict(list)
        for unit in units:
            groups[domain(unit)].append(unit)
        anchors = self._anchors[domain]
        near = [group for key, group in groups.items() if _is_near(key, anchors)]
        far = [group for key, group in groups.items() if not _is_near(key, anchors)]
        chosen: list[Unit] = []
        for part in (near, far):
            for group in self._fewest(part, need - len(chosen), narrower, had=[*had, *chosen]):
                more = need - len(chosen)
                chosen += self._near(group, more, narrower, had=[*had, *chosen])
        return chosen

    def _fewest(
        self,
        groups: Iterable[list[Unit]],
        need: int,
        narrower: Sequence[Domain],
        *,
        had: Sequence[Unit],
    ) -> list[list[Unit]]:
        """As few groups as have what is needed, to be emptied in this order."""
        ordered = sorted(groups, key=len, reverse=True)
        taken: list[list[Unit]] = []
        with_taken = list(had)
        while ordered and need > 0:
            if len(ordered[0]) >= need:
                fitting = [group for group in ordered if len(group) >= need]
                last = _Last(need=need, narrower=narrower, had=with_taken)
                rivals = [unit for group in ordered for unit in group]
                return [*taken, min(fitting, key=lambda group: self._rank(group, last, rivals))]
            taken.append(ordered.pop(self._best_linked(ordered, need, had=with_taken)))
            need -= len(taken[-1])
            with_taken += taken[-1]
        return taken

    def _best_linked(
        self, ordered: Sequence[Sequence[Unit]], need: int, *, had: Sequence[Unit]
    ) -> int:
        """Which of the largest groups is to be taken whole; the first unless links tell."""
        if not self._linked:
            return 0
        largest = [group for group in ordered if len(group) == len(ordered[0])]
        pool = [unit for group in ordered for unit in group]
        ranks = [
            (between(group, had) + within(group), promise(group, pool, need - 1))
            for group in largest
        ]
        return ranks.index(max(ranks))

    def _rank(
        self, group: Sequence[Unit], last: _Last, rivals: Sequence[Unit]
    ) -> tuple[tuple[int, ...], int, int, int, int]:
        """The less the better: narrower domains to take from, links that are missed, devices'
        costs, what is to spare, links with what is left.
        """
        pieces = tuple(_pieces(group, last.need, domain) for domain in last.narrower)
        cost = sum(sorted(map(self._cost, group))[: last.need])
        if not self._linked:
            return pieces, 0, cost, len(group), 0
        chosen = self._near(group, last.need, last.narrower, had=last.had)
        got = between(chosen, last.had) + within(chosen)
        return pieces, -got, cost, len(group), between(chosen, rivals) - 2 * within(chosen)

    def _closest(self, units: Sequence[Unit], need: int, *, had: Sequence[Unit]) -> list[Unit]:
        """Choose of units that are near by everything but links."""
        left = sorted(units, key=self._place)
        if not self._linked or need >= len(left):
            return self._spread(left)[:need]
        chosen: list[Unit] = []
        while len(chosen) < need:
            before, more = [*had, *chosen], need - len(chosen) - 1
            ranks = [
                (-between((unit,), before), -promise((unit,), left, more), self._cost(unit))
                for unit in left
            ]
            chosen.append(left.pop(ranks.index(min(ranks))))
        return chosen

    def _spread(self, units: Sequence[Unit]) -> list[Unit]:
        """Of units in their order, the first of each bearer, the second of each, and so on.

        Those of one device are left in a row, for the case that they are heaped.
        """
        loads = Counter(self._loads)
        turns: dict[str, int] = {}
        for unit in units:
            bearer = unit.bearer
            turns[unit.id] = loads[bearer] if bearer else self._cost(unit)
            loads[bearer] += 1
        return sorted(units, key=lambda unit: turns[unit.id])

    def _place(self, unit: Unit) -> tuple[int, int]:
        # All shares of a device in a row, for the case that they are heaped.
        return self._cost(unit), self._order.get(unit.device, len(self._order))

    def _cost(self, unit: Unit) -> int:
        return self._sign * self._loads[_bearer(unit)]


def _bearer(unit: Unit) -> str:
    """What a unit is a share of: the PF of a VF, else the device itself."""
    return unit.bearer or unit.device


def _piece(unit: Unit) -> str:
    """What a container gets once, whichever unit of it is given."""
    return unit.bundle or unit.device


def _pieces(units: Iterable[Unit], need: int, domain: Domain) -> int:
    """Of how many domains units must be taken, at least."""
    sizes = sorted(Counter(map(domain, units)).values(), reverse=True)
    return next((n for n, size in enumerate(itertools.accumulate(sizes), 1) if size >= need), 0)


def _layers(units: Iterable[Unit]) -> list[list[Unit]]:
    """The first unit of each device or bundle, the second of each, and so on."""
    layers: list[list[Unit]] = []
    seen: Counter[str] = Counter()
    for unit in units:
        number = seen[_piece(unit)]
        if number == len(layers):
            layers.append([])
        layers[number].append(unit)
        seen[_piece(unit)] += 1
    return layers


def _is_near(key: Hashable, anchors: Collection[Hashable]) -> bool:
    """Whether a domain is, or touches, one of those that are chosen already; none is near none."""
    if isinstance(key, tuple):
        return any(isinstance(other, tuple) and set(key) & set(other) for other in anchors)
    return bool(key) and key in anchors
