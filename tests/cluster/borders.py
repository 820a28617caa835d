"""Slices at the borders of what an API server takes: just within, just beyond, and mixed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from hypothesis import strategies as st

from tests.cluster.apistage import DRIVER
from tests.cluster.slicecases import TAINT, amounts, slice_of

Fields = Mapping[str, Any]
Strategy = st.SearchStrategy[Fields]

_AMOUNTS: Final = ("0", "1", "2", "3", "10", "12")
# Whole ones: berth offers no others, and of fractions the rules are those of another gate.


def _around(limit: int, *others: int) -> st.SearchStrategy[int]:
    """A number at a limit, one below, one above, or one of the others."""
    return st.sampled_from([limit - 1, limit, limit + 1, *others])


def _texts(limit: int) -> st.SearchStrategy[str]:
    """Texts of about so many bytes, in ASCII and not."""
    return st.one_of(
        _around(limit, 0).map(lambda count: "x" * count),
        st.sampled_from([limit // 2, limit // 2 + 1]).map(lambda count: "é" * count),
    )


def _labels() -> st.SearchStrategy[str]:
    """Names as counters and their sets have them, most of them good."""
    good = st.sampled_from(["a", "memory", "slice-0", "x" * 63])
    return st.one_of(good, good, st.sampled_from(["", "A", "a_b", "-a", "x" * 64, "a.b"]))


def _qualified() -> st.SearchStrategy[str]:
    good = st.sampled_from(["ready", "berth.dev/ready", "example.com/A_b.c", "x" * 63])
    bad = st.sampled_from(["", "a b", "/a", "a/", "A!/b", "x" * 64, "a/b/c"])
    return st.one_of(good, good, bad)


def _several(
    items: st.SearchStrategy[Any], limit: int, *, unique: bool = False
) -> st.SearchStrategy[list[Any]]:
    """As many as may be, fewer, or one too many."""
    return st.lists(items, max_size=limit + 1, unique=unique)


def _attributes(count: int, values: int) -> Fields:
    """That many attributes with that many values in all, as lists where these are more."""
    found: dict[str, Any] = {f"a{index}": {"int": index} for index in range(count)}
    if count and values > count:
        found["a0"] = {"ints": list(range(values - count + 1))}
    return found


def _odd_attribute() -> st.SearchStrategy[Fields]:
    text = _texts(64)
    version = st.sampled_from(["1.2.3", "1.2", "v1.2.3", "1.0.0-" + "a" * 58, "1.0.0-" + "a" * 59])
    lists = st.one_of(
        st.fixed_dictionaries({"ints": st.lists(st.integers(-(2**63), 2**63 - 1), max_size=3)}),
        st.fixed_dictionaries({"bools": st.lists(st.booleans(), max_size=3)}),
        st.fixed_dictionaries({"strings": st.lists(text, max_size=3)}),
        st.fixed_dictionaries({"versions": st.lists(version, max_size=3)}),
    )
    single = st.one_of(
        st.fixed_dictionaries({"string": text}), st.fixed_dictionaries({"version": version})
    )
    both = st.builds(lambda one, other: {**one, **other}, single, lists)
    return st.one_of(lists, single, both, st.just({}))


def _keys() -> st.SearchStrategy[Fields]:
    """Attributes and capacities about as many as may be."""
    return st.builds(
        lambda count, capacities, values: {
            "attributes": _attributes(count - capacities, values),
            "capacity": {f"c{index}": {"value": "1"} for index in range(capacities)},
        },
        _around(32, 1),
        st.sampled_from([0, 1]),
        _around(48, 1),
    )


def _attribute() -> st.SearchStrategy[Fields]:
    name = st.sampled_from(
        ["a", "x" * 32, "x" * 33, f"{DRIVER}/a", "d" * 63 + "/a", "d" * 64 + "/a"]
    )
    return st.builds(lambda key, value: {"attributes": {key: value}}, name, _odd_attribute())


def _taints() -> Strategy:
    one = st.builds(
        lambda key, value, effect: {**TAINT, "key": key, "value": value, "effect": effect},
        _qualified(),
        st.sampled_from(["", "x", "x" * 63, "x" * 64, "a b"]),
        st.sampled_from(["NoSchedule", "NoExecute", "None", "None", "", "Other"]),
    )
    many = _around(16).map(lambda count: [{**TAINT, "key": f"k{index}"} for index in range(count)])
    return st.one_of(st.lists(one, max_size=2), many).map(lambda taints: {"taints": taints})


def _counters() -> Strategy:
    named = _labels().map(lambda name: {name: {"value": "1"}})
    return st.one_of(_around(32, 0, 1).map(amounts), named)


def _consumption() -> Strategy:
    one = st.builds(
        lambda name, counters, groups: {
            "counterSet": name,
            "counters": counters,
            **({"compatibilityGroups": groups} if groups is not None else {}),
        },
        _labels(),
        _counters(),
        st.one_of(st.none(), _several(_labels(), 2)),
    )
    return _several(one, 2).map(lambda drawn: {"consumesCounters": drawn})


def _conditions() -> Strategy:
    names = st.one_of(_qualified(), st.sampled_from(["a", "b", "c", "d", "e", "f"]))
    return st.fixed_dictionaries(
        {},
        optional={
            "bindingConditions": _several(names, 4),
            "bindingFailureConditions": _several(names, 4),
        },
    )


def _policy() -> Strategy:
    amount = st.sampled_from(_AMOUNTS)
    bounds = st.fixed_dictionaries({}, optional={"min": amount, "max": amount, "step": amount})
    policy = st.fixed_dictionaries(
        {},
        optional={
            "default": amount,
            "validValues": st.one_of(
                _several(amount, 3),
                _around(10).map(lambda count: [str(each) for each in range(1, count + 1)]),
            ),
            "validRange": bounds,
        },
    )
    return st.builds(
        lambda value, found, shared: {
            "capacity": {"slots": {"value": value, "requestPolicy": found}},
            **({"allowMultipleAllocations": shared} if shared is not None else {}),
        },
        st.sampled_from(["10", "20", "1", "0"]),
        policy,
        st.sampled_from([True, True, False, None]),
    )


def _costs() -> Strategy:
    amount = st.sampled_from(["1", "1500m", "0", "-1"])
    mapping = st.fixed_dictionaries(
        {},
        optional={
            "capacityKey": st.sampled_from(["c", "d", ""]),
            "capacityMultiplier": amount,
            "deviceMultiplier": amount,
        },
    )
    overhead = st.fixed_dictionaries({}, optional={"perPod": amount, "perContainer": amount})
    cost = st.fixed_dictionaries({}, optional={"mapping": mapping, "overhead": overhead})
    good = ("cpu", "memory", "hugepages-2Mi")
    names = st.sampled_from([*good, "hugepages-", "ephemeral-storage", "pods", "a.b/c"])
    return st.dictionaries(names, cost, max_size=2).map(
        lambda costs: {"nodeAllocatableResources": costs, "capacity": {"c": {"value": "4"}}}
    )


PARTS: Final[Mapping[str, Callable[[], Strategy]]] = {
    "keys": _keys,
    "attribute": _attribute,
    "taints": _taints,
    "consumption": _consumption,
    "conditions": _conditions,
    "policy": _policy,
    "costs": _costs,
}
"""What a device has beside its name."""


def _sets() -> st.SearchStrategy[Sequence[Fields]]:
    one = st.builds(
        lambda name, counters: {"name": name, "counters": counters},
        _labels(),
        _counters(),
    )
    many = _around(8).map(
        lambda count: [{"name": f"s{index}", "counters": amounts()} for index in range(count)]
    )
    return st.one_of(st.lists(one, max_size=3), many)


@st.composite
def bordered(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a slice: of counter sets, or of as many devices as may be, the last one odd."""
    if draw(st.integers(0, 4)) == 0:
        return slice_of(devices=None, sharedCounters=draw(_sets()))
    count = draw(st.sampled_from([1, 1, 1, 64, 65, 128, 129]))
    odd: dict[str, Any] = {}
    for part in draw(st.lists(st.sampled_from(sorted(PARTS)), max_size=3, unique=True)):
        odd = {**odd, **draw(PARTS[part]())}
    devices: list[dict[str, Any]] = [{"name": f"d{index}"} for index in range(count)]
    everywhere = draw(st.booleans()) and count < 66
    for device in devices if everywhere else devices[-1:]:
        device.update(odd)
    more: dict[str, Any] = draw(
        st.fixed_dictionaries(
            {},
            optional={
                "skipNodeOperations": _several(
                    st.sampled_from(["NodePrepareResources", "NodeUnprepareResources", "*", "?"]), 2
                ),
                "partitionTypeAttribute": st.sampled_from(
                    [f"{DRIVER}/a", f"{DRIVER}/a0", "a", f"{DRIVER}/", "example.com/b", ""]
                ),
            },
        )
    )
    return slice_of(devices=devices, **more)
