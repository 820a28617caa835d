"""A small scheduler: gives the devices in the slices to the requests of one claim, first fit.

It follows the real one in what an allocation looks like (shares, consumed capacity, subrequests,
configuration of classes before that of the claim), in the order in which it tries, and in what the
counters of a pool (`berth.rehearsal.counting`) let it give together. It knows one
node, reads as much of CEL as `berth.rehearsal.cel` does, and takes a selector or constraint that it
cannot judge as met, with a note.

Source: KC §7.1, §9.3, §9.4; ``dynamic-resource-allocation/structured`` of Kubernetes 1.37 for the
order.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final, TypeAlias
from uuid import uuid4

import attrs

from berth.errors import ClaimError
from berth.kube.quantity import format_quantity, parse_quantity
from berth.rehearsal.apiserver.gates import OPTIONAL_OPERATIONS
from berth.rehearsal.cel import Unread, selects
from berth.rehearsal.counting import Amounts, covers, is_valid, less, stock_of
from berth.rehearsal.shares import consumed_by

Json: TypeAlias = "Mapping[str, Any]"

_STANDARD: Final = "resource.kubernetes.io/"
_EFFECTS: Final = frozenset({"NoSchedule", "NoExecute"})


@attrs.frozen(kw_only=True)
class Allocated:
    """An allocation, and what could not be judged on the way to it."""

    allocation: Json
    notes: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class _Offer:
    """One device in the slices.

    Attributes:
        skips: What its slice says that kubelet leaves out.
    """

    driver: str
    pool: str
    device: Json
    skips: Sequence[str] = ()

    @property
    def key(self) -> tuple[str, str, str]:
        return self.driver, self.pool, self.device["name"]

    @property
    def place(self) -> tuple[str, str]:
        return self.driver, self.pool

    @property
    def is_shared(self) -> bool:
        return bool(self.device.get("allowMultipleAllocations"))


@attrs.frozen(kw_only=True)
class _Ask:
    """One request or subrequest that wants devices.

    Attributes:
        name: As in results: ``request`` or ``request/subrequest``.
    """

    name: str
    body: Json

    @property
    def is_admin(self) -> bool:
        return bool(self.body.get("adminAccess"))


@attrs.frozen(kw_only=True)
class _Grant:
    """One device for one request."""

    ask: _Ask
    offer: _Offer
    consumed: Mapping[str, Fraction] = attrs.field(factory=dict)


def allocate(
    claim: Json,
    *,
    classes: Iterable[Json],
    slices: Iterable[Json],
    claims: Iterable[Json],
    node: str,
    declared: Container[str] = (),
) -> Allocated:
    """Give devices to a claim.

    Args:
        claim: The ResourceClaim.
        classes: All DeviceClasses.
        slices: All ResourceSlices.
        claims: All ResourceClaims; what they were given is taken.
        node: The node on which the pod is to run.
        declared: What the node declares; without it devices that kubelet would skip are no offer.

    Raises:
        ClaimError: Some request finds no device; the text says which, and what stood in the way.
    """
    pools = _pools(slices, node)
    search = _Search(
        offers=tuple(
            offer for offer in _offers(pools) if not offer.skips or OPTIONAL_OPERATIONS in declared
        ),
        stocks={place: stock_of(found) for place, found in pools.items()},
        classes={item["metadata"]["name"]: item for item in classes},
        used=tuple(_used(claims)),
        constraints=claim["spec"]["devices"].get("constraints") or (),
    )
    requests = claim["spec"]["devices"].get("requests") or ()
    grants = search.find(tuple(requests), ())
    if grants is None:
        metadata = claim["metadata"]
        reasons = "; ".join(dict.fromkeys(search.reasons)) or "it has no request"
        raise ClaimError(
            f"claim {metadata.get('namespace', 'default')}/{metadata['name']}",
            f"cannot be allocated on node {node}",
            rule=reasons,
        )
    return Allocated(
        allocation={
            "devices": {
                "results": [_result(grant) for grant in grants],
                "config": list(_config(claim, grants, search.classes)),
            },
            "nodeSelector": _only_on(node),
        },
        notes=tuple(dict.fromkeys(search.notes)),
    )


class _Search:
    """Tries devices in the order of the slices, and goes back when a constraint is not met."""

    def __init__(
        self,
        *,
        offers: Sequence[_Offer],
        stocks: Mapping[tuple[str, str], Amounts],
        classes: Mapping[str, Json],
        used: Sequence[Json],
        constraints: Sequence[Json],
    ) -> None:
        self.classes = classes
        self.reasons: list[str] = []
        self.notes: list[str] = []
        self._offers = offers
        self._used = used
        self._constraints = constraints
        given = {_key(result) for result in used}
        self._left = {
            place: less(stock, (o.device for o in offers if o.place == place and o.key in given))
            for place, stock in stocks.items()
        }

    def find(
        self, requests: Sequence[Json], granted: tuple[_Grant, ...]
    ) -> tuple[_Grant, ...] | None:
        """Grants for all requests; ``None`` when there are none."""
        if not requests:
            return granted
        for ask in _asks(requests[0]):
            fitting = [offer for offer in self._offers if self._fits(ask, offer)]
            every = ask.body.get("allocationMode") == "All"
            count = len(fitting) if every else ask.body.get("count", 1)
            if len(fitting) < count or (every and not fitting):
                self.reasons.append(self._lacking(ask, count, len(fitting)))
            found = self._grant(ask, fitting, count, requests[1:], granted) if count else None
            if found is not None:
                return found
        return None

    def _grant(
        self,
        ask: _Ask,
        offers: Sequence[_Offer],
        count: int,
        later: Sequence[Json],
        granted: tuple[_Grant, ...],
    ) -> tuple[_Grant, ...] | None:
        if count == 0:
            return self.find(later, granted)
        for place, offer in enumerate(offers):
            if not self._covers(ask, offer, granted):
                self.reasons.append(f"{offer.device['name']} draws on counters that are in use")
                continue
            grant = self._take(ask, offer, granted)
            if grant is None:
                self.reasons.append(f"{offer.device['name']} is in use")
                continue
            if not self._meets((*granted, grant)):
                continue
            rest = offers[place:] if offer.is_shared else offers[place + 1 :]
            found = self._grant(ask, rest, count - 1, later, (*granted, grant))
            if found is not None:
                return found
        return None

    def _covers(self, ask: _Ask, offer: _Offer, granted: Sequence[_Grant]) -> bool:
        """Whether the counters of its pool let a device be given beside what is given already."""
        now = {
            grant.offer.key: grant.offer.device
            for grant in granted
            if grant.offer.place == offer.place and not grant.ask.is_admin
        }
        if ask.is_admin or offer.key in now or any(_key(one) == offer.key for one in self._used):
            return True
        return covers(less(self._left[offer.place], now.values()), offer.device)

    def _take(self, ask: _Ask, offer: _Offer, granted: Sequence[_Grant]) -> _Grant | None:
        """The device for the request, unless it or too much of it is taken."""
        if ask.is_admin:
            return _Grant(ask=ask, offer=offer)
        before = [used for used in self._used if _key(used) == offer.key]
        now = [g for g in granted if g.offer.key == offer.key and not g.ask.is_admin]
        if not offer.is_shared:
            return None if before or now else _Grant(ask=ask, offer=offer)
        wanted = (ask.body.get("capacity") or {}).get("requests") or {}
        consumed = {}
        for name, capacity in (offer.device.get("capacity") or {}).items():
            amount = consumed_by(capacity, wanted.get(name))
            taken = sum((_consumed(used, name) for used in before), Fraction())
            taken += sum((grant.consumed[name] for grant in now), Fraction())
            if amount is None or taken + amount > parse_quantity(capacity["value"]):
                return None
            consumed[name] = amount
        return _Grant(ask=ask, offer=offer, consumed=consumed)

    def _fits(self, ask: _Ask, offer: _Offer) -> bool:
        name = ask.body["deviceClassName"]
        found = self.classes.get(name)
        if found is None:
            self.reasons.append(f"there is no DeviceClass {name}")
            return False
        selectors = (*(found["spec"].get("selectors") or ()), *(ask.body.get("selectors") or ()))
        return _tolerated(ask, offer) and all(self._selected(one, offer) for one in selectors)

    def _selected(self, selector: Json, offer: _Offer) -> bool:
        expression = (selector.get("cel") or {}).get("expression", "")
        try:
            return selects(expression, offer.device, driver=offer.driver)
        except Unread as error:
            self.notes.append(f"taken as met: {error.found}")
            return True

    def _meets(self, grants: Sequence[_Grant]) -> bool:
        for constraint in self._constraints:
            attribute = constraint.get("matchAttribute", "")
            named = constraint.get("requests") or ()
            values = [
                (grant.offer.device.get("attributes") or {}).get(_local(attribute, grant.offer))
                for grant in grants
                if not named or grant.ask.name in named or grant.ask.name.split("/")[0] in named
            ]
            if attribute.startswith(_STANDARD) and not any(values):
                # What the firmware says of hardware, no stand-in link can have.
                self.notes.append(f"taken as met: constraint on {attribute}, a thing of hardware")
            elif None in values or any(value != values[0] for value in values):
                self.reasons.append(f"no devices have {attribute} in common")
                return False
        return True

    def _lacking(self, ask: _Ask, count: int, found: int) -> str:
        return (
            f"request {ask.name} wants {count} of class {ask.body['deviceClassName']}, "
            f"{found} of {len(self._offers)} published devices fit"
        )


def _asks(request: Json) -> Iterator[_Ask]:
    """What a request may be met by, in its own order of preference."""
    for sub in request.get("firstAvailable") or ():
        yield _Ask(name=f"{request['name']}/{sub['name']}", body=sub)
    if "exactly" in request:
        yield _Ask(name=request["name"], body=request["exactly"])


def _pools(slices: Iterable[Json], node: str) -> Mapping[tuple[str, str], Sequence[Json]]:
    """Complete and valid pools by driver and name: the slices of their highest generation only."""
    pools: dict[tuple[str, str], list[Json]] = {}
    for item in slices:
        spec = item["spec"]
        if spec.get("nodeName") == node:
            pools.setdefault((spec["driver"], spec["pool"]["name"]), []).append(item)
    whole = {}
    for place, found in pools.items():
        newest = max(item["spec"]["pool"]["generation"] for item in found)
        current = [item for item in found if item["spec"]["pool"]["generation"] == newest]
        if len(current) == current[0]["spec"]["pool"]["resourceSliceCount"] and is_valid(current):
            whole[place] = sorted(current, key=lambda one: str(one["metadata"]["name"]))
    return whole


def _offers(pools: Mapping[tuple[str, str], Sequence[Json]]) -> Iterator[_Offer]:
    for (driver, pool), found in pools.items():
        for item in found:
            for device in item["spec"].get("devices") or ():
                skips = item["spec"].get("skipNodeOperations") or ()
                yield _Offer(driver=driver, pool=pool, device=device, skips=skips)


def _used(claims: Iterable[Json]) -> Iterator[Json]:
    for claim in claims:
        allocation = (claim.get("status") or {}).get("allocation") or {}
        for result in (allocation.get("devices") or {}).get("results") or ():
            if not result.get("adminAccess"):
                yield result


def _consumed(result: Json, capacity: str) -> Fraction:
    return parse_quantity((result.get("consumedCapacity") or {}).get(capacity, "0"))


def _key(result: Json) -> tuple[str, str, str]:
    return result["driver"], result["pool"], result["device"]


def _tolerated(ask: _Ask, offer: _Offer) -> bool:
    tolerations = ask.body.get("tolerations") or ()
    return all(
        any(_tolerates(one, taint) for one in tolerations)
        for taint in offer.device.get("taints") or ()
        if taint.get("effect") in _EFFECTS
    )


def _tolerates(toleration: Json, taint: Json) -> bool:
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    exists = toleration.get("operator") == "Exists"
    return exists or toleration.get("value", "") == taint.get("value", "")


def _local(attribute: str, offer: _Offer) -> str:
    """An attribute as its device writes it: the driver's own stand there without a domain."""
    return attribute.removeprefix(f"{offer.driver}/")


def _result(grant: _Grant) -> dict[str, Any]:
    ask, offer = grant.ask, grant.offer
    result: dict[str, Any] = {
        "request": ask.name,
        "driver": offer.driver,
        "pool": offer.pool,
        "device": offer.device["name"],
    }
    if ask.is_admin:
        result["adminAccess"] = True
    elif offer.is_shared:
        result["shareID"] = str(uuid4())
        result["consumedCapacity"] = {
            name: format_quantity(int(amount)) for name, amount in grant.consumed.items()
        }
    if offer.skips:
        result["skipNodeOperations"] = list(offer.skips)
    if ask.body.get("tolerations"):
        result["tolerations"] = ask.body["tolerations"]
    for key in ("bindingConditions", "bindingFailureConditions"):
        if offer.device.get(key):
            result[key] = offer.device[key]
    return result


def _config(
    claim: Json, grants: Sequence[_Grant], classes: Mapping[str, Json]
) -> Iterator[dict[str, Any]]:
    for ask in {grant.ask.name: grant.ask for grant in grants}.values():
        for entry in classes[ask.body["deviceClassName"]]["spec"].get("config") or ():
            yield {"source": "FromClass", "requests": [ask.name], **entry}
    for entry in claim["spec"]["devices"].get("config") or ():
        yield {"source": "FromClaim", **entry}


def _only_on(node: str) -> dict[str, Any]:
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    return {"nodeSelectorTerms": [{"matchFields": [field]}]}
