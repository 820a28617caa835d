"""From a claim to its NICs, or every fault at once."""

from __future__ import annotations

import time
from ipaddress import ip_address, ip_interface, ip_network
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.errors import ClaimError, Faults
from berth.model import jsontext
from berth.model.claim import ConfigSource, DeviceResult, OpaqueConfig
from berth.nic.config import (
    AddressConfig,
    AttachMode,
    GroupPolicy,
    HostFacts,
    InterfaceConfig,
    NicConfig,
    ResolvedNic,
    RouteConfig,
    RouteScope,
    SysctlConfig,
    from_document,
    resolve,
    to_document,
    wished_names,
)
from berth.nic.config.report import FAULT_LIMIT
from berth.vfio.wayin import WayIn
from tests.unit.nic.config.claims import (
    DRIVER,
    FAST,
    NIC,
    PARENT,
    SHARED,
    claim_of,
    entry,
    faults,
    nic_result,
    resolved,
    targets_of,
)
from tests.unit.nic.config.strategies import ANYTHING, READABLE, SHAPED

GOLDEN = Path(__file__).parent.parent / "golden"
POLICIES = {"fast": FAST, "parent": PARENT}
OURS = SysctlConfig(ipv4={"arp_notify": 1}, ipv6={"accept_ra": 0, "ndisc_notify": 1})


def test_claim_when_it_says_nothing() -> None:
    """The NIC itself, under a name of ours, with the settings that berth makes itself (row 26)."""

    assert resolved() == (
        ResolvedNic(
            claim=claim_of().ref,
            request="nic",
            pool="node-1/nic",
            device="nic-0000-41-00-0",
            config=NicConfig(
                mode=AttachMode.MOVE, interface=InterfaceConfig(name="net1"), sysctls=OURS
            ),
        ),
    )


def test_claim_when_it_says_something() -> None:
    """What an author writes becomes values."""

    parameters = {
        "interface": {"name": "storage0", "mtu": 9000},
        "addresses": [{"address": "10.40.0.7/24"}],
        "routes": [{"to": "10.41.0.0/16", "via": "10.40.0.1"}],
    }

    assert resolved(entry(parameters))[0].config == NicConfig(
        interface=InterfaceConfig(name="storage0", mtu=9000),
        addresses=(AddressConfig(address=ip_interface("10.40.0.7/24")),),
        routes=(
            RouteConfig(
                to=ip_network("10.41.0.0/16"),
                via=ip_address("10.40.0.1"),
                scope=RouteScope.GLOBAL,
                metric=0,
            ),
        ),
        sysctls=OURS,
    )


def test_claim_when_it_has_several_nics() -> None:
    """Each NIC gets what its entries say, in the order of the results."""

    results = [
        nic_result("a", "nic-1"),
        nic_result("b/fast", "nic-2"),
        nic_result("c", "parent-3", share_id="share-1"),
    ]
    claim = claim_of(
        entry({"interface": {"mtu": 1400}}),
        entry({"interface": {"name": "data"}}, requests=["b"], index=1),
        entry({"macvlan": {"mode": "vepa"}}, requests=["c"], index=2),
        results=results,
    )
    nics = resolve(
        claim, targets=targets_of(claim, NIC, NIC, SHARED), policies=POLICIES, driver=DRIVER
    )

    assert [(nic.name, nic.mode.value, nic.device) for nic in nics] == [
        ("net1", "move", "nic-1"),
        ("data", "move", "nic-2"),
        ("net2", "macvlan", "parent-3"),
    ]
    assert {nic.config.interface.mtu for nic in nics} == {1400}
    assert [nic.share_id for nic in nics] == [None, None, "share-1"]
    assert str(nics[1]) == 'nic-2 (claim team/claim, request "b/fast")'


def test_claim_when_some_of_it_is_for_admin_access() -> None:
    """Nothing is done with a NIC that is only looked at, so it has no name either."""

    results = [nic_result("look", "nic-1", admin_access=True), nic_result("use", "nic-2")]

    assert [(nic.request, nic.name) for nic in resolved(results=results)] == [("use", "net1")]


def test_claim_when_resolved_again() -> None:
    """The same claim has the same outcome, derived addresses included."""

    results = [nic_result(device="parent-3", share_id="share-1")]

    assert resolved(facts=SHARED, results=results) == resolved(facts=SHARED, results=results)


def test_child_when_its_derived_address_is_used() -> None:
    """An address that is derived gives way to one that is used."""

    first = resolved(facts=SHARED)[0].config.interface.hardware_addr
    host = HostFacts(hardware_addrs={str(first): "a record of claim team/other"})
    second = resolved(facts=SHARED, host=host)[0].config.interface.hardware_addr

    assert first != second


def test_group_when_it_is_gone() -> None:
    """A device whose group left the settings cannot be prepared, and the other one is checked."""

    results = [nic_result("a", "nic-1"), nic_result("b", "nic-2")]
    claim = claim_of(entry({"interface": {"mtu": 20}}), results=results)
    targets = targets_of(claim, attrs.evolve(NIC, group="old"), NIC)

    with pytest.raises(Faults) as caught:
        resolve(claim, targets=targets, policies=POLICIES, driver=DRIVER)

    assert str(caught.value).splitlines() == [
        "config[0].opaque.parameters.interface.mtu: 20: it must be a whole number from 68 to 65535",
        'nic-1 (request "a"): its group "old" is not configured any more',
    ]


def test_faults_when_raised() -> None:
    """They are the claim's fault, and say which claim it is."""

    with pytest.raises(ClaimError) as caught:
        resolved(entry({"mtu": 5}))

    assert isinstance(caught.value, Faults)
    assert caught.value.where == "claim team/claim"
    assert {type(fault) for fault in caught.value.faults} == {ClaimError}


@pytest.mark.parametrize("name", ["eth0", "lo", "a-very-long-name", "a/b", "", "net%d"])
def test_name_when_impossible(name: str) -> None:
    """Impossible names are refused here, with the value and the rule, not in the hook (case 12)."""

    found = faults(entry({"interface": {"name": name}}))

    assert len(found) == 1
    assert "interface.name: " in found[0]
    assert name in found[0]


def test_names_when_another_claim_asks_first() -> None:
    """The names that a claim asks for are known before it is prepared, faulty or not."""

    results = [nic_result("a", "nic-1"), nic_result("b", "nic-2"), nic_result("c", "nic-3")]
    claim = claim_of(
        entry({"interface": {"name": "net1"}, "zzz": 1}, requests=["a"]),
        entry({"interface": {"name": "a/b"}}, requests=["b"], index=1),
        results=results,
    )
    targets = targets_of(claim, NIC, NIC, attrs.evolve(NIC, group="old"))
    names = wished_names(claim, targets=targets, policies=POLICIES, driver=DRIVER)

    assert names == ("net1", "")
    assert resolved(skip_names=names)[0].name == "net2"


def _golden_claim() -> Any:
    """A claim on two NICs and a GPU with some forty faults in five entries."""
    entries = jsontext.loads((GOLDEN / "forty-faults.json").read_text())
    gpu = DeviceResult(request="gpu", pool="node-1", device="gpu-0")
    return claim_of(
        *(
            attrs.evolve(
                entry({}, index=number, requests=each["requests"]),
                source=ConfigSource(each["source"]),
                parameters=each["parameters"],
            )
            for number, each in enumerate(entries)
        ),
        results=[nic_result("a", "nic-1"), nic_result("b", "nic-2"), gpu],
    )


def test_faults_when_there_are_forty() -> None:
    """Every fault of every entry is told in one answer, at its place (row 32)."""

    claim = _golden_claim()
    policy = attrs.evolve(
        FAST,
        defaults={"routes": [{"to": "172.16.0.0/12", "via": "10.77.0.1"}]},
        claims_deny=("neighbors",),
    )
    host = HostFacts(hardware_addrs={"02:00:00:00:00:07": "pci:0000:55:00.0"})

    with pytest.raises(Faults) as caught:
        resolve(
            claim,
            targets=targets_of(claim)[:2],
            policies={"fast": policy},
            driver=DRIVER,
            host=host,
        )

    assert len(caught.value.faults) >= 40
    assert str(caught.value) == (GOLDEN / "forty-faults.txt").read_text().rstrip("\n")


def test_faults_when_an_entry_is_made_of_them() -> None:
    """The largest claim of nothing but unknown fields is refused quickly, in a short answer."""

    names = {f"{number:x}": 0 for number in range(1300)}
    configs = [entry(names, index=number) for number in range(64)]
    begin = time.process_time()

    found = faults(*configs)

    assert time.process_time() - begin < 5
    assert len(found) == FAULT_LIMIT + 1
    assert found[-1] == f"and {64 * 1300 - FAULT_LIMIT} more, not shown"
    assert sum(map(len, found)) < 64 * 1024


def _try(parameters: object) -> None:
    """Resolve a claim with an entry of each source; only faults may come out of it."""
    configs = [
        attrs.evolve(entry({}, index=number, source=source), parameters=parameters)
        for number, source in enumerate(ConfigSource)
    ]
    for facts in (NIC, SHARED):
        told: list[str] = []
        try:
            nics = resolved(*configs, facts=facts)
        except Faults as found:
            told = [str(fault) for fault in found.faults]
            nics = ()
        assert len(told) <= FAULT_LIMIT + 1
        assert all(len(text) < 2000 and text.isprintable() for text in told)
        for nic in nics:
            assert from_document(to_document(nic.config), where="x") == nic.config


@given(parameters=ANYTHING)
def test_entry_when_any_json(parameters: object) -> None:
    """Whatever an entry holds, there is an outcome or a list of faults."""

    _try(parameters)


@given(parameters=st.one_of(ANYTHING, SHAPED, READABLE))
def test_entry_when_nearly_right(parameters: Any) -> None:
    """The same for entries of our kind, of the right shape and with readable fields."""

    head = {"apiVersion": "berth.dev/v1alpha1", "kind": "NicConfig"}
    _try({**parameters, **head} if isinstance(parameters, dict) else parameters)


@given(text=st.binary(max_size=60))
def test_entry_when_cut_anywhere(text: bytes) -> None:
    """Bytes that are JSON by chance, or no more by a cut, never get further than a fault."""

    whole = b'{"apiVersion":"berth.dev/v1alpha1","kind":"NicConfig","announce":' + text
    for raw in (text, whole, whole + b"}"):
        try:
            parameters = jsontext.loads(raw)
        except ValueError:
            continue
        _try(parameters)


FUNCTION = attrs.evolve(NIC, identity="pci:0000:43:00.0", type="nic-vfio", group="vm")
MACHINES = GroupPolicy(name="vm", modes=(AttachMode.VFIO,), root='[[nic.group]] 3 "vm"')


def of_machine(*entries: OpaqueConfig) -> tuple[ResolvedNic, ...]:
    """What a claim on a moved NIC and on a function comes to."""
    claim = claim_of(*entries, results=(nic_result("vm", "nic-vm"), nic_result("nic")))
    return resolve(
        claim,
        targets=targets_of(claim, FUNCTION, NIC),
        policies={"fast": FAST, "vm": MACHINES},
        driver=DRIVER,
    )


def test_function_has_its_way_in_and_no_interface() -> None:
    """It takes no name in the pod, so the NIC beside it is the first one."""

    moved, function = of_machine(entry({"vfio": {"iommufd": True, "vhost": True}}, requests=["vm"]))

    assert (moved.device, moved.name) == ("nic-0000-41-00-0", "net1")
    assert (function.device, function.mode, function.name) == ("nic-vm", AttachMode.VFIO, "")
    assert function.config.vfio == WayIn(iommufd=True, vhost=True)


@pytest.mark.parametrize(
    "parameters",
    [
        {"interface": {"name": "net7"}},
        {"addresses": [{"address": "192.0.2.1/24"}]},
        {"announce": False},
    ],
)
def test_what_speaks_of_an_interface_is_refused_for_a_function(parameters: Any) -> None:
    """The pod has none of it."""

    with pytest.raises(Faults) as caught:
        of_machine(entry(parameters, requests=["vm"]))

    assert "without effect in mode vfio" in str(caught.value)


def test_way_into_a_machine_is_refused_for_a_moved_nic() -> None:
    """It has no nodes."""

    with pytest.raises(Faults, match="without effect in mode move: it belongs to mode vfio"):
        of_machine(entry({"vfio": {"vhost": True}}, requests=["nic"]))
