"""What must hold among the NICs of one pod, of whichever claims they are (case 12)."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from berth.model.claim import ClaimRef, ConfigSource
from berth.nic.config import ResolvedNic
from berth.nic.config.pod import assign_names
from tests.unit.nic.config.claims import entry, faults, nic_result, resolved

CLASS = ConfigSource.CLASS
TWO = (nic_result("a", "nic-1"), nic_result("b", "nic-2"))
A, B = 'nic-1 (claim team/claim, request "a")', 'nic-2 (claim team/claim, request "b")'
OTHER = 'nic-9 (claim team/other, request "x")'
RULE = "in a pod it can be of one NIC only"


def _two(first: dict[str, Any], second: dict[str, Any], **more: Any) -> list[str]:
    """The faults of a claim on two NICs, each with its own entry."""
    return faults(
        entry(first, requests=["a"], source=CLASS),
        entry(second, requests=["b"], source=CLASS, index=1),
        results=TWO,
        **more,
    )


def _other(**parameters: Any) -> ResolvedNic:
    """A NIC of another claim of the pod."""
    nic = resolved(entry(parameters, source=CLASS), results=[nic_result("x", "nic-9")])[0]
    return attrs.evolve(nic, claim=ClaimRef(namespace="team", name="other", uid="u"))


@pytest.mark.parametrize(
    ("given", "taken", "names"),
    [
        (["", "", ""], [], ("net1", "net2", "net3")),
        (["", "net1", ""], [], ("net2", "net1", "net3")),
        (["net3", "", "", ""], ["net1"], ("net3", "net2", "net4", "net5")),
        (["same", "same"], ["same"], ("same", "same")),
        ([], ["net1"], ()),
    ],
)
def test_names_when_assigned(given: list[str], taken: list[str], names: tuple[str, ...]) -> None:
    """Names that are given or taken are passed over."""

    assert assign_names(given, taken) == names


def test_names_when_several_claims_ask() -> None:
    """Names of prepared claims, and those that other claims will ask for, are passed over."""

    nics = resolved(results=TWO, others=[_other()], skip_names=["net2"])

    assert [nic.name for nic in nics] == ["net3", "net4"]


def test_name_when_two_nics_ask_for_it() -> None:
    """The later of the two is refused, naming both."""

    name = {"interface": {"name": "data"}}

    assert _two(name, name) == [
        f'config[1].opaque.parameters.interface.name: "data" is the name of {B} and of {A}: {RULE}'
    ]


def test_name_when_one_entry_gives_it_to_two_nics() -> None:
    """An entry for two NICs cannot name them."""

    assert faults(entry({"interface": {"name": "data"}}), results=TWO) == [
        f'config[0].opaque.parameters.interface.name: "data" is the name of {B} and of {A}: {RULE}'
    ]


def test_name_when_another_claim_has_it() -> None:
    """The names of the pod's other claims are taken, assigned ones too."""

    found = faults(entry({"interface": {"name": "net1"}}), others=[_other()])

    assert found == [
        (
            'config[0].opaque.parameters.interface.name: "net1" is the name of '
            f'nic-0000-41-00-0 (claim team/claim, request "nic") and of {OTHER}: {RULE}'
        )
    ]


def test_hardware_address_when_two_nics_ask_for_it() -> None:
    """Two NICs of a pod differ in it."""

    mac = {"interface": {"hardwareAddr": "02:00:00:00:00:01"}}

    assert _two(mac, mac) == [
        (
            "config[1].opaque.parameters.interface.hardwareAddr: "
            f"02:00:00:00:00:01 is the hardware address of {B} and of {A}: {RULE}"
        )
    ]


def test_address_when_two_nics_ask_for_it() -> None:
    """An address is of one interface, whatever the prefix."""

    first = {"addresses": [{"address": "10.0.0.5/24"}]}
    second = {"addresses": [{"address": "10.8.0.5/24"}, {"address": "10.0.0.5/16"}]}

    assert _two(first, second) == [
        (
            "config[1].opaque.parameters.addresses[1].address: "
            f"10.0.0.5 is an address of {B} and of {A}: {RULE}"
        )
    ]


def test_address_when_in_the_network_of_another() -> None:
    """Two NICs in one network are allowed."""

    first = {"addresses": [{"address": "10.0.0.5/24"}, {"address": "fd00::5/64"}]}
    second = {"addresses": [{"address": "10.0.0.6/24"}, {"address": "fd00::6/64"}]}

    assert _two(first, second) == []


def test_route_when_two_nics_ask_for_it() -> None:
    """The kernel tells routes apart by destination, table and metric."""

    first = {"routes": [{"to": "10.1.0.0/16"}]}

    assert _two(first, {"routes": [{"to": "10.2.0.0/16"}, {"to": "10.1.0.0/16"}]}) == [
        (
            "config[1].opaque.parameters.routes[1].to: "
            f"the route to 10.1.0.0/16, table main, metric 0 is one of {B} and of {A}: {RULE}"
        )
    ]
    assert _two(first, {"routes": [{"to": "10.1.0.0/16", "metric": 5}]}) == []
    assert _two(first, {"routes": [{"to": "10.1.0.0/16", "table": 5}]}) == []


def test_route_when_the_address_of_another_nic_brings_it() -> None:
    """A route that the kernel makes for one NIC's address is refused to another, either way."""

    address, route = (
        {"addresses": [{"address": "10.0.0.5/24"}]},
        {"routes": [{"to": "10.0.0.0/24"}]},
    )

    assert _two(address, route) == [
        (
            "config[1].opaque.parameters.routes[0].to: "
            f"the route to 10.0.0.0/24, table main, metric 0 is one of {B} and of {A}: {RULE}"
        )
    ]
    assert _two(route, address) == [
        (
            "config[1].opaque.parameters.addresses[0].address: "
            "the route to its network (10.0.0.0/24, table main, metric 0) is one "
            f"of {B} and of {A}: {RULE}"
        )
    ]


def test_clash_when_with_another_claim() -> None:
    """Addresses and routes of the pod's other claims count."""

    other = _other(
        interface={"name": "other0"},
        addresses=[{"address": "10.0.0.5/24"}],
        routes=[{"to": "10.1.0.0/16"}],
    )
    mine = {
        "addresses": [{"address": "10.0.0.5/32"}],
        "routes": [{"to": "10.1.0.0/16"}, {"to": "10.0.0.0/24"}],
    }

    found = faults(entry(mine), others=[other])

    assert [fault.split(": ")[0].rpartition("parameters.")[2] for fault in found] == [
        "addresses[0].address",
        "routes[0].to",
        "routes[1].to",
    ]
    assert all(OTHER in fault for fault in found)


def test_clash_when_among_three() -> None:
    """Each pair is told once."""

    three = (*TWO, nic_result("c", "nic-3"))
    found = faults(entry({"interface": {"name": "data"}}), results=three)

    assert len(found) == 3


def test_vrf_when_two_nics_ask_for_it() -> None:
    """A VRF is of one interface: neither its name nor its table is another's."""

    one = {"vrf": {"name": "blue", "table": 1001}}
    place = "config[1].opaque.parameters.vrf"

    assert _two(one, one) == [
        f'{place}.name: "blue" is the name of {B} and of {A}: {RULE}',
        f"{place}.table: 1001 is the table of the VRF of {B} and of {A}: {RULE}",
    ]
    assert _two(one, {"interface": {"name": "blue"}}) == [
        (
            'config[1].opaque.parameters.interface.name: "blue" is the name of '
            f"{B} and of {A}: {RULE}"
        )
    ]
    assert _two(one, {"vrf": {"name": "red"}}) == []


def test_vrf_when_its_name_would_be_assigned() -> None:
    """An interface without a name gets none that a VRF of the pod has."""

    nics = resolved(entry({"vrf": {"name": "net1"}}, requests=["a"]), results=TWO)

    assert [nic.name for nic in nics] == ["net2", "net3"]
    assert [nic.name for nic in resolved(others=[_other(vrf={"name": "net2"})])] == ["net3"]


def test_route_when_one_of_two_nics_has_a_vrf() -> None:
    """Tables of their own have routes of their own."""

    route = {"routes": [{"to": "10.1.0.0/16"}]}

    assert _two(route, {**route, "vrf": {"name": "blue"}}) == []
