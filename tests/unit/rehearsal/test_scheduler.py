"""The small scheduler: devices for requests, in the words of the real one's allocations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import pytest

from berth.errors import ClaimError
from berth.rehearsal.scheduler import allocate
from berth.rehearsal.shares import consumed_by

Json = Mapping[str, Any]


def device(name: str, type_: str = "nic", **more: Any) -> dict[str, Any]:
    """A device in a slice."""
    attributes = {"type": {"string": type_}, **more.pop("attributes", {})}
    return {"name": name, "attributes": attributes, **more}


def parent(name: str = "parent-0", slots: int = 2, bandwidth: str = "10G") -> dict[str, Any]:
    """A shared device, divided as our publication divides it."""
    return device(
        name,
        "nic-shared",
        allowMultipleAllocations=True,
        capacity={
            "slots": {
                "value": str(slots),
                "requestPolicy": {"default": "1", "validValues": ["1"]},
            },
            "bandwidth": {
                "value": bandwidth,
                "requestPolicy": {"default": "5G", "validRange": {"min": "1M", "step": "1M"}},
            },
        },
    )


def pool(*devices: Json, generation: int = 1, count: int = 1, name: str = "s0") -> dict[str, Any]:
    """A slice of the node's pool."""
    return {
        "metadata": {"name": name},
        "spec": {
            "driver": "berth.dev",
            "nodeName": "node",
            "pool": {"name": "p", "generation": generation, "resourceSliceCount": count},
            "devices": list(devices),
        },
    }


def skipped(*operations: str) -> dict[str, Any]:
    """A slice with a NIC for which kubelet leaves calls out."""
    one = pool(device("nic-0"))
    return {**one, "spec": {**one["spec"], "skipNodeOperations": list(operations)}}


def device_class(name: str, type_: str, **spec: Any) -> dict[str, Any]:
    """A class that selects by type."""
    expression = f'device.attributes["berth.dev"].type == "{type_}"'
    return {
        "metadata": {"name": name},
        "spec": {"selectors": [{"cel": {"expression": expression}}], **spec},
    }


CLASSES = (device_class("nic", "nic"), device_class("shared", "nic-shared"))


def claim(*requests: Json, name: str = "c", **devices: Any) -> dict[str, Any]:
    """A claim."""
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"devices": {"requests": list(requests), **devices}},
    }


def exactly(name: str = "r", class_: str = "nic", **more: Any) -> dict[str, Any]:
    """A request."""
    return {"name": name, "exactly": {"deviceClassName": class_, **more}}


def give(
    wanted: Json,
    *slices: Json,
    claims: Sequence[Json] = (),
    classes: Sequence[Json] = CLASSES,
) -> Any:
    """The allocation."""
    return allocate(wanted, classes=classes, slices=slices, claims=claims, node="node").allocation


def taken(*allocations: Json) -> list[Json]:
    """Claims that have these allocations."""
    return [{"status": {"allocation": one}} for one in allocations]


def names(allocation: Json) -> list[tuple[str, str]]:
    """Request and device of each result."""
    return [(r["request"], r["device"]) for r in allocation["devices"]["results"]]


def test_first_fitting_device_is_given_and_bound_to_the_node() -> None:
    """Slices are gone through in the order of their names, devices in that of the slice."""

    later = pool(device("a"), name="s1", count=2)
    first = pool(parent(), device("b"), device("c"), name="s0", count=2)

    allocation = give(claim(exactly()), later, first)

    assert names(allocation) == [("r", "b")]
    assert allocation["devices"]["results"][0] == {
        "request": "r",
        "driver": "berth.dev",
        "pool": "p",
        "device": "b",
    }
    term = allocation["nodeSelector"]["nodeSelectorTerms"][0]["matchFields"][0]
    assert term == {"key": "metadata.name", "operator": "In", "values": ["node"]}


def test_device_of_another_claim_is_passed_over() -> None:
    """An exclusive device is given once."""

    slices = pool(device("a"), device("b"))
    first = give(claim(exactly()), slices)

    second = give(claim(exactly()), slices, claims=taken(first))

    assert names(second) == [("r", "b")]
    with pytest.raises(ClaimError, match="a is in use"):
        give(claim(exactly()), slices, claims=taken(first, second))


def test_admin_access_takes_a_used_device_and_leaves_it_free_for_others() -> None:
    """A look at a device neither needs it free nor takes it."""

    slices = pool(device("a"))
    user = give(claim(exactly()), slices)
    admin = give(claim(exactly(adminAccess=True)), slices, claims=taken(user))

    assert admin["devices"]["results"][0]["adminAccess"] is True
    assert names(give(claim(exactly()), slices, claims=taken(admin))) == [("r", "a")]


def test_device_that_kubelet_skips_is_given_where_the_node_declares_it() -> None:
    """What its slice says is copied, and stays whatever the slice says later."""

    wanted, slices = claim(exactly()), [skipped("NodeUnprepareResources")]
    gate = "DRAOptionalNodeOperations"

    found = allocate(
        wanted, classes=CLASSES, slices=slices, claims=(), node="node", declared={gate}
    )

    (result,) = found.allocation["devices"]["results"]
    assert result["skipNodeOperations"] == ["NodeUnprepareResources"]
    with pytest.raises(ClaimError, match="0 of 0 published devices fit"):
        give(wanted, *slices)


def test_prioritized_list_takes_the_first_that_fits() -> None:
    """Subrequests are tried in their order; the result names the one that was taken."""

    selector = {"cel": {"expression": 'device.attributes["berth.dev"].speed >= 25'}}
    wanted = claim(
        {
            "name": "nic",
            "firstAvailable": [
                {"name": "fast", "deviceClassName": "nic", "selectors": [selector]},
                {"name": "shared", "deviceClassName": "shared"},
            ],
        }
    )
    slow = device("a", attributes={"speed": {"int": 10}})
    fast = device("b", attributes={"speed": {"int": 25}})

    assert names(give(wanted, pool(slow, parent()))) == [("nic/shared", "parent-0")]
    assert names(give(wanted, pool(slow, parent(), fast))) == [("nic/fast", "b")]


def test_shares_of_a_parent_consume_its_capacities() -> None:
    """Each share has an id of its own and what it consumes; the third finds no slot."""

    slices = pool(parent(slots=2))
    wanted = claim(exactly(class_="shared", capacity={"requests": {"bandwidth": "1500k"}}))
    first = give(wanted, slices)
    second = give(wanted, slices, claims=taken(first))

    result = first["devices"]["results"][0]
    assert result["consumedCapacity"] == {"slots": "1", "bandwidth": "2M"}
    assert UUID(result["shareID"]) != UUID(second["devices"]["results"][0]["shareID"])
    with pytest.raises(ClaimError, match="parent-0 is in use"):
        give(wanted, slices, claims=taken(first, second))


def test_bandwidth_that_is_used_up_refuses() -> None:
    """A share without a wish takes the default, and the parent is not overbooked."""

    slices = pool(parent(slots=8, bandwidth="10G"))
    first = give(claim(exactly(class_="shared")), slices)
    wanted = claim(exactly(class_="shared", capacity={"requests": {"bandwidth": "6G"}}))

    assert first["devices"]["results"][0]["consumedCapacity"]["bandwidth"] == "5G"
    with pytest.raises(ClaimError, match="in use"):
        give(wanted, slices, claims=taken(first))


def test_several_devices_for_one_request_are_different_ones() -> None:
    """A count takes as many, and fails when there are fewer."""

    slices = pool(device("a"), device("b"))

    assert names(give(claim(exactly(count=2)), slices)) == [("r", "a"), ("r", "b")]
    with pytest.raises(ClaimError, match="wants 3 of class nic, 2 of 2 published devices fit"):
        give(claim(exactly(count=3)), slices)


def test_all_takes_every_fitting_device() -> None:
    """The mode All takes whatever fits, and at least one."""

    wanted = claim(exactly(allocationMode="All"))

    assert names(give(wanted, pool(device("a"), parent(), device("b")))) == [
        ("r", "a"),
        ("r", "b"),
    ]
    with pytest.raises(ClaimError):
        give(wanted, pool(parent()))


def test_match_attribute_goes_back_until_the_devices_agree() -> None:
    """A constraint over two requests is met by a pair, though not by the first pair."""

    rail = [
        device(name, attributes={"rail": {"int": n}})
        for name, n in zip("abc", (1, 2, 1), strict=True)
    ]
    both = claim(
        exactly("one"),
        exactly("two"),
        constraints=[{"requests": ["one", "two"], "matchAttribute": "berth.dev/rail"}],
    )

    assert names(give(both, pool(*rail))) == [("one", "a"), ("two", "c")]
    with pytest.raises(ClaimError, match=r"no devices have berth\.dev/rail in common"):
        give(both, pool(*rail[:2]))


def test_constraint_on_hardware_is_taken_as_met_and_told() -> None:
    """Stand-ins have no PCIe root: the constraint is not held against them, and is noted."""

    name = "resource.kubernetes.io/pcieRoot"
    both = claim(exactly("one"), exactly("two"), constraints=[{"matchAttribute": name}])

    found = allocate(
        both,
        classes=CLASSES,
        slices=[pool(device("a"), device("b"))],
        claims=(),
        node="node",
    )

    assert names(found.allocation) == [("one", "a"), ("two", "b")]
    assert found.notes == (f"taken as met: constraint on {name}, a thing of hardware",)


def test_selector_that_cannot_be_judged_is_taken_as_met_and_told() -> None:
    """More of CEL than is read here does not stop a rehearsal, and does not go unseen."""

    expression = 'device.attributes["berth.dev"].type.startsWith("n")'
    wanted = claim(exactly(selectors=[{"cel": {"expression": expression}}]))

    found = allocate(wanted, classes=CLASSES, slices=[pool(device("a"))], claims=(), node="node")

    assert names(found.allocation) == [("r", "a")]
    assert "startsWith" in found.notes[0]


def test_tainted_device_needs_a_toleration() -> None:
    """A taint that keeps pods off is respected; a toleration travels into the result."""

    taint = {"key": "sick", "value": "yes", "effect": "NoSchedule"}
    slices = pool(device("a", taints=[taint]))
    toleration = {"key": "sick", "operator": "Exists"}

    allocation = give(claim(exactly(tolerations=[toleration])), slices)

    assert allocation["devices"]["results"][0]["tolerations"] == [toleration]
    with pytest.raises(ClaimError):
        give(claim(exactly()), slices)


def test_incomplete_or_older_pool_offers_nothing() -> None:
    """Only the whole set of the highest generation counts."""

    whole = pool(device("a"), generation=1)
    newer = pool(device("b"), generation=2, count=2, name="s1")

    with pytest.raises(ClaimError, match="0 of 0 published devices fit"):
        give(claim(exactly()), whole, newer)
    other = {**whole, "spec": {**whole["spec"], "nodeName": "elsewhere"}}
    with pytest.raises(ClaimError):
        give(claim(exactly()), other)


def test_configuration_of_classes_comes_before_that_of_the_claim() -> None:
    """Class entries name the request as it was met, claim entries stay as written."""

    opaque = {"opaque": {"driver": "berth.dev", "parameters": {}}}
    classes = (device_class("nic", "nic", config=[opaque]),)
    wanted = claim(exactly("one"), config=[{"requests": ["one"], **opaque}])

    allocation = give(wanted, pool(device("a")), classes=classes)

    assert [(e["source"], e["requests"]) for e in allocation["devices"]["config"]] == [
        ("FromClass", ["one"]),
        ("FromClaim", ["one"]),
    ]


def test_unknown_class_is_named() -> None:
    """A class that is not there is the reason that is told."""

    with pytest.raises(ClaimError, match="there is no DeviceClass gpu"):
        give(claim(exactly(class_="gpu")), pool(device("a")))


@pytest.mark.parametrize(
    ("capacity", "wanted", "expected"),
    [
        ({"value": "10"}, None, 10),
        ({"value": "10"}, "3", 3),
        ({"value": "10", "requestPolicy": {"default": "2"}}, None, 2),
        ({"value": "8", "requestPolicy": {"default": "2", "validValues": ["2", "4"]}}, "3", 4),
        ({"value": "8", "requestPolicy": {"default": "2", "validValues": ["2", "4"]}}, "5", None),
        (
            {"value": "9", "requestPolicy": {"default": "2", "validRange": {"min": "2"}}},
            "1",
            2,
        ),
        (
            {
                "value": "9",
                "requestPolicy": {"default": "2", "validRange": {"min": "2", "step": "3"}},
            },
            "3",
            5,
        ),
        (
            {
                "value": "9",
                "requestPolicy": {"default": "2", "validRange": {"min": "2", "max": "4"}},
            },
            "5",
            None,
        ),
    ],
)
def test_consumed_by_rounds_up_to_a_valid_amount(
    capacity: Json, wanted: str | None, expected: int | None
) -> None:
    """Amounts follow the request policy: default, values, range and step."""

    assert consumed_by(capacity, wanted) == expected


PARTS = (*CLASSES, device_class("mig", "mig"))


def part(name: str, *places: int, of: str = "gpu", **more: Any) -> dict[str, Any]:
    """A part that draws on places of a whole."""
    counters = {f"place-{place}": {"value": "1"} for place in places}
    return device(name, "mig", consumesCounters=[{"counterSet": of, "counters": counters}], **more)


def divided(*parts: Json, of: str = "gpu", places: int = 4) -> tuple[dict[str, Any], ...]:
    """A pool of parts, and the slice with the counters of their whole."""
    first, second = pool(*parts, count=2), pool(count=2, name="s1")
    del second["spec"]["devices"]
    counters = {f"place-{place}": {"value": "1"} for place in range(places)}
    second["spec"]["sharedCounters"] = [{"name": of, "counters": counters}]
    return first, second


def names_of(allocation: Json) -> list[str]:
    """Names of the devices that were given."""
    return [result["device"] for result in allocation["devices"]["results"]]


def given_before(name: str, *, admin: bool = False) -> dict[str, Any]:
    """A claim that has a part."""
    result = {"request": "r", "driver": "berth.dev", "pool": "p", "device": name}
    looks = {"adminAccess": True} if admin else {}
    status = {"allocation": {"devices": {"results": [{**result, **looks}]}}}
    return {**claim(exactly(), name="before"), "status": status}


def test_allocate_gives_no_two_parts_that_overlap() -> None:
    """The second of a claim's two parts is the first that still fits."""

    slices = divided(part("a", 0, 1), part("b", 1, 2), part("c", 2, 3))

    found = give(claim(exactly(class_="mig", count=2)), *slices, classes=PARTS)

    assert names_of(found) == ["a", "c"]


def test_allocate_counts_what_other_claims_draw() -> None:
    """What they have is taken; what they only look at is not."""

    slices = divided(part("a", 0, 1), part("b", 1, 2), part("c", 3))
    wanted = claim(exactly(class_="mig"))

    found = give(wanted, *slices, classes=PARTS, claims=[given_before("b")])
    assert names_of(found) == ["c"]
    looked = give(wanted, *slices, classes=PARTS, claims=[given_before("b", admin=True)])
    assert names_of(looked) == ["a"]


def test_allocate_says_that_counters_stand_in_the_way() -> None:
    """Every part overlaps the one that is given."""

    slices = divided(part("a", 0, 1), part("b", 1, 2))

    with pytest.raises(ClaimError, match="b draws on counters that are in use"):
        give(claim(exactly(class_="mig")), *slices, classes=PARTS, claims=[given_before("a")])


def test_allocate_counts_a_shared_device_once() -> None:
    """Two shares of one part draw what the part draws."""

    slots = {"slots": {"value": "2", "requestPolicy": {"default": "1", "validValues": ["1"]}}}
    slices = divided(part("a", 0, allowMultipleAllocations=True, capacity=slots))

    found = give(claim(exactly(class_="mig", count=2)), *slices, classes=PARTS)

    assert names_of(found) == ["a", "a"]


def test_allocate_lets_a_looker_have_what_is_drawn() -> None:
    """Admin access draws nothing."""

    slices = divided(part("a", 0), part("b", 0))
    looks = exactly("look", class_="mig", adminAccess=True, allocationMode="All")

    found = give(claim(exactly(class_="mig"), looks), *slices, classes=PARTS)

    assert names_of(found) == ["a", "a", "b"]


def test_allocate_passes_over_a_pool_whose_counters_are_not_there() -> None:
    """One device that draws on an unknown set makes the pool invalid."""

    slices = divided(part("a", 0), part("b", 1, of="other"))

    with pytest.raises(ClaimError, match="0 of 0 published devices fit"):
        give(claim(exactly(class_="mig")), *slices, classes=PARTS)
