"""Configurations for tests that try many: anything, and what is read without fault."""

from __future__ import annotations

import json
from typing import Any, Final

from hypothesis import strategies as st

from berth.nic.config.fields import FIELDS, MEMBERS
from berth.nic.config.values import RouteScope

_NAMES: Final = sorted({name for members in MEMBERS.values() for name in members})

_VALUES: Final = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-2, 70000),
    st.floats(),
    st.text(max_size=20),
    st.sampled_from(
        [
            *("10.0.0.5/24", "10.0.0.1", "fd00::5/64", "fe80::1", "10.1.0.0/16", "::/0", "default"),
            *(
                "main",
                "move",
                "macvlan",
                "bridge",
                "passthru",
                "link",
                "auto",
                "routes",
                "addresses",
            ),
            *("net1", "eth0", "02:00:00:00:00:01", "NicConfig", "berth.dev/v1alpha1"),
        ]
    ),
)

_KEYS: Final = st.one_of(st.sampled_from([*_NAMES, "apiVersion", "kind"]), st.text(max_size=8))

ANYTHING: Final = st.recursive(
    _VALUES,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(_KEYS, inner, max_size=5)),
    max_leaves=25,
)
"""Any JSON, with a liking for the names and values that mean something."""


def _shaped(path: str) -> st.SearchStrategy[Any]:
    """An object with the members that belong there, and anything in them."""
    members = {}
    for name, field in MEMBERS[path].items():
        inner = f"{path}.{name}" if path else name
        if field is None:
            members[name] = _shaped(inner)
        elif f"{inner}[]" in MEMBERS:
            members[name] = st.lists(_shaped(f"{inner}[]"), max_size=3)
        else:
            members[name] = _VALUES
    return st.fixed_dictionaries({}, optional=members)


SHAPED: Final = _shaped("")
"""Configurations of the right shape, with anything in their fields."""


def _macs() -> st.SearchStrategy[str]:
    octets = st.binary(min_size=5, max_size=5)
    return octets.map(lambda rest: (b"\x02" + rest).hex(":"))


def _addresses() -> st.SearchStrategy[Any]:
    v4 = st.integers(1, 254).map(lambda n: f"10.{n}.0.7/24")
    v6 = st.integers(1, 0xFFFF).map(lambda n: f"fd00:{n:x}::7/64")
    flags = {"noPrefixRoute": st.booleans()}
    one = st.one_of(
        st.fixed_dictionaries({"address": v4}, optional=flags),
        st.fixed_dictionaries({"address": v6}, optional={**flags, "noDAD": st.booleans()}),
        st.fixed_dictionaries({"address": v4}, optional={"peer": st.just("10.255.0.1")}),
    )
    return st.lists(one, max_size=16, unique_by=lambda item: item["address"])


def _routes() -> st.SearchStrategy[Any]:
    more = {
        "table": st.integers(1, 252),
        "mtu": st.integers(1280, 1500),
        "metric": st.integers(0, 2**32 - 1),
    }
    v4 = st.integers(1, 254).map(lambda n: f"172.{n}.0.0/16")
    v6 = st.integers(1, 0xFFFF).map(lambda n: f"fd77:{n:x}::/32" if n < 2 else f"fd77:{n:x}::/64")
    one = st.one_of(
        st.fixed_dictionaries(
            {"to": v4},
            optional={**more, "scope": st.sampled_from([scope.value for scope in RouteScope])},
        ),
        st.fixed_dictionaries({"to": v4, "via": st.just("10.0.0.1")}, optional=more),
        st.fixed_dictionaries(
            {"to": v6, "via": st.just("fe80::1")}, optional={**more, "onLink": st.booleans()}
        ),
        st.fixed_dictionaries(
            {"to": st.just("default"), "source": st.just("10.1.0.7")}, optional=more
        ),
    )
    return st.lists(one, max_size=10, unique_by=lambda item: item["to"])


def _rules() -> st.SearchStrategy[Any]:
    one = st.fixed_dictionaries(
        {"priority": st.integers(1, 32765), "table": st.integers(1, 252)},
        optional={
            "from": st.just("10.0.0.0/8"),
            "to": st.just("172.16.0.0/12"),
            "iif": st.sampled_from(["lo", "net1"]),
            "fwmark": st.integers(1, 2**32 - 1),
        },
    )
    return st.lists(one, max_size=5, unique_by=lambda item: item["priority"])


def _neighbors() -> st.SearchStrategy[Any]:
    one = st.fixed_dictionaries(
        {"address": st.integers(1, 254).map(lambda n: f"10.0.0.{n}"), "hardwareAddr": _macs()}
    )
    return st.lists(one, max_size=5, unique_by=lambda item: item["address"])


def _sysctls(family: str) -> st.SearchStrategy[Any]:
    head = f"sysctls.{family}."
    names = [field.name for field in FIELDS if field.path.startswith(head)]
    return st.fixed_dictionaries({}, optional={name: st.integers(0, 1) for name in names})


def _interfaces() -> st.SearchStrategy[Any]:
    sizes = st.integers(512, 524280)
    return st.fixed_dictionaries(
        {},
        optional={
            "name": st.from_regex(r"\A[a-z][a-z0-9_.-]{0,14}\Z").filter(
                lambda name: name not in {"lo", "all", "default"}
            ),
            "mtu": st.integers(68, 65535),
            "hardwareAddr": _macs(),
            "gsoMaxSize": sizes,
            "groMaxSize": sizes,
            "gsoIPv4MaxSize": sizes,
            "groIPv4MaxSize": sizes,
            "txQueueLen": st.integers(0, 100000),
            **{name: st.booleans() for name in ("up", "promiscuous", "allmulticast")},
        },
    )


def _switches() -> st.SearchStrategy[Any]:
    return st.dictionaries(st.from_regex(r"\A[!-~]{1,31}\Z"), st.booleans(), max_size=5)


READABLE: Final = st.fixed_dictionaries(
    {},
    optional={
        "mode": st.sampled_from(["move", "macvlan", "ipvlan", "vlan"]),
        "interface": _interfaces(),
        "macvlan": st.fixed_dictionaries(
            {"mode": st.sampled_from(["bridge", "private", "vepa", "passthru"])}
        ),
        "ipvlan": st.fixed_dictionaries(
            {},
            optional={
                "mode": st.sampled_from(["l2", "l3", "l3s"]),
                "flag": st.sampled_from(["bridge", "private", "vepa"]),
            },
        ),
        "vlan": st.fixed_dictionaries(
            {"id": st.integers(1, 4094)},
            optional={"protocol": st.sampled_from(["802.1Q", "802.1ad"])},
        ),
        "vf": st.fixed_dictionaries(
            {},
            optional={
                "vlan": st.integers(0, 4094),
                "vlanQoS": st.integers(0, 7),
                "vlanProtocol": st.sampled_from(["802.1Q", "802.1ad"]),
                "linkState": st.sampled_from(["auto", "enable", "disable"]),
                "minTxMbps": st.integers(0, 1000),
                "maxTxMbps": st.integers(0, 1000),
                **{name: st.booleans() for name in ("spoofCheck", "trust", "adminMAC")},
            },
        ),
        "vrf": st.fixed_dictionaries(
            {"name": st.sampled_from(["blue", "red"])}, optional={"table": st.integers(1000, 2000)}
        ),
        "ethtool": st.fixed_dictionaries(
            {}, optional={name: _switches() for name in ("features", "privateFlags")}
        ),
        "addresses": _addresses(),
        "routes": _routes(),
        "rules": _rules(),
        "neighbors": _neighbors(),
        "sysctls": st.fixed_dictionaries(
            {}, optional={"ipv4": _sysctls("ipv4"), "ipv6": _sysctls("ipv6")}
        ),
        "rdma": st.sampled_from(["auto", "none"]),
        "announce": st.booleans(),
        "inherit": st.lists(
            st.sampled_from(["addresses", "routes", "neighbors"]), unique=True, max_size=3
        ),
    },
)
"""Configurations in which every field is read without fault; together they may make no sense."""


def copied(document: Any) -> Any:
    """A document as it comes out of a file."""
    return json.loads(json.dumps(document))
