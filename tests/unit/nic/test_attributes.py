"""Which attributes devices of a type carry, and what each says."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from berth.config.attributes import RESERVED
from berth.config.nic import OWN_ATTRIBUTES_LIMIT, AliasSet, NicTable
from berth.config.nicgroup import NicGroup
from berth.host.netlink.vf import Vf
from berth.model.device import Attribute, NicMode, Version
from berth.model.names import is_qualified_name
from berth.nic.attributes import KEYS_LIMIT, PUBLISHED, VOLATILE, Attributes, Subject, keys_of
from berth.nic.survey import Found, survey
from tests.sysfs_tree import INFINIBAND
from tests.unit.nic.machine import Machine, group

PF = "0000:41:00.0"
VF = "0000:41:10.2"
CORE = (
    *("type", "group", "kind", "ifName", "driver", "linkType", "vendorID", "deviceID"),
    *("productName", "mac", "mtu", "speedMbps", "sriov", "totalVFs", "pfName", "pfPciBusID"),
    *("vfIndex", "rdma", "rdmaDevice", "iommuGroup"),
)
"""As network.md §2.1 lists them."""

EXTRA = (
    *("portName", "subsystemID", "maxMTU", "numVFs", "pfDeviceID", "switchID", "rdmaNetns"),
    "ptp",
)
STANDARD = tuple(f"resource.kubernetes.io/{name}" for name in ("pciBusID", "pcieRoot", "numaNode"))
SRIOV = "sriovnetwork.k8snetworkplumbingwg.io"


def _find(machine: Machine, name: str, *groups: NicGroup) -> Found:
    return next(
        found
        for found in survey(machine.topology(), groups)
        if found.link is not None and found.link.name == name
    )


def _values(machine: Machine, name: str, table: NicTable | None = None, **facts: Any) -> Attributes:
    """The attributes of a link in the first group of the table."""
    table = table or NicTable(groups=(group(vendor=("15b3",)),))
    first = table.groups[0]
    subject = Subject(found=_find(machine, name, first), group=first, **facts)
    return keys_of(subject.type, table).values(subject)


def test_pf_tells_all_that_is_known(machine: Machine) -> None:
    """Every own attribute, and the standard ones."""

    machine.tree.function(
        PF, numa_node=1, iommu_group=12, total_vfs=8, rdma=("mlx5_0",), device="1019", ptp=True
    )
    machine.nic(
        "ens1f0",
        PF,
        mtu=9000,
        max_mtu=9978,
        speed=25000,
        carrier=True,
        mac="02:00:5e:10:00:01",
        port_name="p0",
        switch_id="0c42a1",
    )

    assert _values(machine, "ens1f0", product="ConnectX-5", rdma_netns="shared") == {
        "type": "nic",
        "group": "fast",
        "kind": "pf",
        "ifName": "ens1f0",
        "driver": "mlx5_core",
        "linkType": "ether",
        "vendorID": "15b3",
        "deviceID": "1019",
        "productName": "ConnectX-5",
        "mac": "02:00:5e:10:00:01",
        "mtu": 9000,
        "speedMbps": 25000,
        "sriov": True,
        "totalVFs": 8,
        "pfName": "",
        "pfPciBusID": "",
        "vfIndex": -1,
        "rdma": True,
        "rdmaDevice": "mlx5_0",
        "iommuGroup": 12,
        "portName": "p0",
        "subsystemID": "15b3:0069",
        "maxMTU": 9978,
        "numVFs": 0,
        "pfDeviceID": "",
        "switchID": "0c42a1",
        "rdmaNetns": "shared",
        "ptp": True,
        "resource.kubernetes.io/pciBusID": PF,
        "resource.kubernetes.io/pcieRoot": "pci0000:40",
        "resource.kubernetes.io/numaNode": 1,
    }


def test_virtual_link_tells_neutral_values(machine: Machine) -> None:
    """Nothing of hardware is known of it, and each own key is there all the same."""

    machine.link("v0", kind="veth", mac="02:00:5e:10:00:01")
    table = NicTable(groups=(group("lab", name=("v0",)),))

    assert _values(machine, "v0", table) == {
        "type": "nic",
        "group": "lab",
        "kind": "virtual",
        "ifName": "v0",
        "driver": "veth",
        "linkType": "ether",
        "vendorID": "",
        "deviceID": "",
        "productName": "",
        "mac": "02:00:5e:10:00:01",
        "mtu": 1500,
        "speedMbps": 0,
        "sriov": False,
        "totalVFs": 0,
        "pfName": "",
        "pfPciBusID": "",
        "vfIndex": -1,
        "rdma": False,
        "rdmaDevice": "",
        "iommuGroup": -1,
        "portName": "",
        "subsystemID": "",
        "maxMTU": 0,
        "numVFs": 0,
        "pfDeviceID": "",
        "switchID": "",
        "rdmaNetns": "",
        "ptp": False,
    }


def _make_vf(machine: Machine, *vfs: Vf) -> None:
    machine.tree.function(PF, total_vfs=8, device="1019")
    machine.nic("ens1f0", PF, vfs=vfs)
    machine.tree.vf(VF, pf=PF, number=1, device="101a", driver="mlx5_core")
    machine.nic("ens1f0v1", VF, mac="02:00:5e:10:00:01")


def test_vf_tells_its_pf(machine: Machine) -> None:
    """Name, place and model of the PF, its own number and place."""

    _make_vf(machine)
    values = _values(machine, "ens1f0v1")

    assert (values["kind"], values["pfName"], values["pfPciBusID"]) == ("vf", "ens1f0", PF)
    assert (values["vfIndex"], values["deviceID"], values["pfDeviceID"]) == (1, "101a", "1019")
    assert values["resource.kubernetes.io/pciBusID"] == VF


@pytest.mark.parametrize(
    ("vfs", "mac"),
    [
        ((), ""),
        ((Vf(number=1, mac="00:00:00:00:00:00"),), ""),
        ((Vf(number=0, mac="02:00:5e:10:00:aa"),), ""),
        ((Vf(number=0), Vf(number=1, mac="02:00:5e:10:00:bb")), "02:00:5e:10:00:bb"),
    ],
)
def test_vf_tells_an_address_that_an_administrator_set(
    machine: Machine, vfs: tuple[Vf, ...], mac: str
) -> None:
    """Its own is new after each bind of its driver, so nobody could select by it."""

    _make_vf(machine, *vfs)

    assert _values(machine, "ens1f0v1")["mac"] == mac


@pytest.mark.parametrize(
    ("carrier", "speed", "remembered", "told"),
    [(True, 25000, 10000, 25000), (False, 25000, 10000, 10000), (True, None, 0, 0)],
)
def test_speed_without_carrier_is_the_last_known(
    machine: Machine, carrier: bool, speed: int | None, remembered: int, told: int
) -> None:
    """A cable that is pulled must not re-sort devices."""

    machine.nic("ens1f0", PF, carrier=carrier, speed=speed)

    assert _values(machine, "ens1f0", speed_mbps=remembered)["speedMbps"] == told


def test_standard_attributes_are_left_out_when_unknown(machine: Machine) -> None:
    """Two unknowns must not match each other; own ones are there with neutral values."""

    machine.nic("ens1f0", PF)
    machine.nic("ens2f0", "10000:01:00.0")
    machine.tree.function("0000:42:00.0", under="platform/x", numa_node=0)
    machine.nic("ens3f0", "0000:42:00.0")

    def standard(name: str) -> set[str]:
        return {key.partition("/")[2] for key in _values(machine, name) if "/" in key}

    assert standard("ens1f0") == {"pciBusID", "pcieRoot"}
    assert standard("ens2f0") == set()
    assert standard("ens3f0") == {"pciBusID", "numaNode"}


def test_infiniband_link_says_so(machine: Machine) -> None:
    """Selectors tell the two networks apart."""

    machine.tree.function(PF, class_code=INFINIBAND)
    machine.nic("ib0", PF, hardware_type=32)

    assert _values(machine, "ib0")["linkType"] == "infiniband"


def test_volatile_ones_are_published_on_request(machine: Machine) -> None:
    """As far as there is room beside the extra ones: for one of the four."""

    machine.nic("ens1f0", PF, carrier=True)
    table = NicTable(groups=(group(vendor=("15b3",)),), publish_volatile=True)

    assert _values(machine, "ens1f0", table)["carrier"] is True
    assert keys_of("nic", table).dropped == ("operState", "ipv4", "ipv6")
    assert not {*VOLATILE} & {*_values(machine, "ens1f0")}


def test_volatile_ones_say_what_is_now(machine: Machine) -> None:
    """State and addresses; those of a family are one text."""

    machine.nic("ens1f0", PF, carrier=True, operstate="up")
    addresses = ("192.0.2.7/24", "2001:db8::7/64", "198.51.100.7/24")
    subject = Subject(found=_find(machine, "ens1f0"), group=group(), addresses=addresses)

    assert {name: make(subject) for name, make in VOLATILE.items()} == {
        "carrier": True,
        "operState": "up",
        "ipv4": "192.0.2.7/24,198.51.100.7/24",
        "ipv6": "2001:db8::7/64",
    }


# Aliases


def test_aliases_of_dra_net_are_its_names(machine: Machine) -> None:
    """Those that are called as ours are not told twice."""

    machine.tree.function(PF, total_vfs=8)
    machine.nic("ens1f0", PF)
    machine.vf("ens1f0v0", VF, pf=PF, number=0)
    table = NicTable(
        groups=(group(vendor=("15b3",)),),
        aliases=(AliasSet.DRA_NET,),
    )
    pf, vf = (_values(machine, name, table) for name in ("ens1f0", "ens1f0v0"))

    assert (pf["pciAddress"], pf["numaNode"], pf["encapsulation"]) == (PF, -1, "ether")
    assert (pf["virtual"], pf["sriovVfs"], pf["isSriovVf"]) == (False, 1, False)
    assert (vf["pciAddress"], vf["sriovVfs"], vf["isSriovVf"]) == (VF, 0, True)


def test_aliases_of_sriov_are_its_names(machine: Machine) -> None:
    """All in the domain of that driver."""

    _make_vf(machine)
    table = NicTable(groups=(group(vendor=("15b3",)),), aliases=(AliasSet.SRIOV,))
    values = _values(machine, "ens1f0v1", table)
    told = {key.partition("/")[2]: values[key] for key in values if key.startswith(SRIOV)}

    assert told == {
        "pciAddress": VF,
        "PFName": "ens1f0",
        "pfPciAddress": PF,
        "vendor": "15b3",
        "deviceID": "101a",
        "pfDeviceID": "1019",
        "vfID": 1,
        "linkType": "ether",
        "rdmaCapable": False,
    }


def test_aliases_of_multus_are_its_names(machine: Machine) -> None:
    """Device and resource."""

    machine.nic("ens1f0", PF)
    table = NicTable(groups=(group(vendor=("15b3",)),), aliases=(AliasSet.MULTUS,))
    values = _values(machine, "ens1f0", table)

    assert values["k8s.cni.cncf.io/deviceID"] == PF
    assert values["k8s.cni.cncf.io/resourceName"] == "fast"


# Keys


def _keys(*groups: NicGroup, mode: str = "nic", **facts: Any) -> tuple[set[str], tuple[str, ...]]:
    keys = keys_of(mode, NicTable(groups=groups, **facts))
    return {*keys.neutral}, keys.dropped


def test_keys_without_wishes_are_core_and_extra() -> None:
    """The two lists of network.md §2.1, and nothing else."""

    assert _keys(group()) == ({*CORE, *EXTRA}, ())


def test_keys_do_not_depend_on_which_nics_are_there() -> None:
    """A group without a NIC gives its attributes to those of the others.

    Else a selector that reads `rail` would stop all allocation while no NIC of that group is here.
    """

    fast, slow = group("fast", attributes={"rail": 3}), group("slow")
    keys = keys_of("nic", NicTable(groups=(fast, slow)))

    assert keys.neutral["rail"] == 0


@pytest.mark.parametrize(
    ("value", "neutral"),
    [(3, 0), ("b7", ""), (True, False), (Version("1.2.3"), Version("0.0.0"))],
)
def test_own_attribute_has_the_neutral_value_of_its_kind(
    machine: Machine, value: Attribute, neutral: Attribute
) -> None:
    """On the devices of groups that do not set it."""

    machine.nic("ens1f0", PF)
    slow = group("slow", vendor=("15b3",))
    table = NicTable(groups=(slow, group("fast", attributes={"rail": value})))

    assert _values(machine, "ens1f0", table)["rail"] == neutral
    swapped = attrs.evolve(table, groups=(attrs.evolve(slow, attributes={"rail": value}),))
    assert _values(machine, "ens1f0", swapped)["rail"] == value


def test_own_attributes_of_another_type_do_not_count() -> None:
    """Parents and dedicated NICs are two types."""

    shared = group("lan", mode=NicMode.SHARED, attributes={"rack": "b7"})
    keys, _ = _keys(group(attributes={"rail": 3}), shared)

    assert "rail" in keys
    assert "rack" not in keys
    assert "rack" in _keys(shared, mode="nic-shared")[0]


@pytest.mark.parametrize("mode", [NicMode.EXCLUSIVE, NicMode.SHARED])
@pytest.mark.parametrize("own", [0, 1, 5])
@pytest.mark.parametrize("volatile", [False, True])
@pytest.mark.parametrize("aliases", [(), (AliasSet.SRIOV,), (*AliasSet,)])
def test_no_device_has_more_than_32_keys(
    mode: NicMode, own: int, volatile: bool, aliases: tuple[AliasSet, ...]
) -> None:
    """Case 10: with capacities and all standard ones; the API would refuse the whole slice."""

    own_attributes = {f"a{number}": number for number in range(own)}
    table = NicTable(
        groups=(group(mode=mode, attributes=own_attributes),),
        publish_volatile=volatile,
        aliases=aliases,
    )
    shared = mode is NicMode.SHARED
    keys = keys_of("nic-shared" if shared else "nic", table)
    wanted = len(CORE) + len(EXTRA) + own + len(VOLATILE) * volatile
    wanted += sum({"dra.net": 6, "sriov": 10, "multus": 2}[a.value] for a in aliases)

    assert len(keys.neutral) + len(STANDARD) + shared <= KEYS_LIMIT
    assert len(keys.neutral) + len(keys.dropped) == wanted
    assert keys.neutral.keys() >= {*CORE, *own_attributes}


def test_33rd_attribute_is_dropped_in_the_stated_order() -> None:
    """Volatile first, then extra ones from the bottom, then aliases from the last set."""

    own = {f"a{number}": number for number in range(3)}
    everything = group(attributes=own)
    keys, dropped = _keys(
        everything, publish_volatile=True, aliases=(AliasSet.MULTUS, AliasSet.DRA_NET)
    )

    assert dropped == ("sriovVfs", "isSriovVf", *EXTRA, *VOLATILE)
    assert {"k8s.cni.cncf.io/deviceID", "encapsulation"} <= keys


def test_bandwidth_takes_one_place() -> None:
    """Capacities count as attributes do; one group with it is enough."""

    lan = group("lan", mode=NicMode.SHARED, attributes={"a": 1})
    fast = attrs.evolve(lan, name="fast", shared=attrs.evolve(lan.shared, bandwidth=10**9))

    assert _keys(lan, mode="nic-shared")[1] == ("ptp",)
    assert _keys(lan, fast, mode="nic-shared")[1] == ("rdmaNetns", "ptp")


def test_most_own_attributes_that_a_file_may_have_fit() -> None:
    """The limit of the configuration is the room that is left beside core and standard ones."""

    for mode, type_ in ((NicMode.EXCLUSIVE, "nic"), (NicMode.SHARED, "nic-shared")):
        most = OWN_ATTRIBUTES_LIMIT[mode]
        full = group(mode=mode, attributes={f"a{number}": number for number in range(most)})
        bandwidth = attrs.evolve(full.shared, bandwidth=10**9)
        table = NicTable(groups=(attrs.evolve(full, shared=bandwidth),))
        capacities = 2 if mode is NicMode.SHARED else 0

        assert len(keys_of(type_, table).neutral) + len(STANDARD) + capacities == KEYS_LIMIT


def test_published_bare_names_are_all_reserved() -> None:
    """Else an operator could give one of them another meaning; names of capacities are too."""

    bare = {name for name in PUBLISHED if "/" not in name}

    assert bare | {"slots", "bandwidth"} == RESERVED


def test_published_names_are_names() -> None:
    """As the API server takes them."""

    assert all(is_qualified_name(name) for name in PUBLISHED)


# Held devices


def test_held_device_keeps_what_it_said(machine: Machine) -> None:
    """NW §2.1: what was seen at home stays."""

    machine.nic("ens1f0", PF, mtu=9000)
    table = NicTable(groups=(group(vendor=("15b3",), attributes={"rail": 3}),))
    values = _values(machine, "ens1f0", table)

    assert keys_of("nic", table).kept(values) == values


def test_held_device_has_the_keys_of_now(machine: Machine) -> None:
    """Settings changed while it is away: new keys are neutral, those that are gone go.

    Else a selector that reads a new key would stop at the held device.
    """

    machine.nic("ens1f0", PF)
    then = NicTable(groups=(group(vendor=("15b3",), attributes={"rail": 3, "rack": "b7"}),))
    now = NicTable(
        groups=(group(attributes={"rack": "b8", "spine": True}),), aliases=(AliasSet.DRA_NET,)
    )
    kept = keys_of("nic", now).kept(_values(machine, "ens1f0", then))

    assert "rail" not in kept
    assert (kept["rack"], kept["spine"], kept["pciAddress"]) == ("b7", False, "")
    assert (kept["numaNode"], kept["virtual"]) == (-1, False)
    assert kept["resource.kubernetes.io/pciBusID"] == PF


def test_held_device_of_another_kind_of_value_is_neutral(machine: Machine) -> None:
    """A number where all others say text would break selectors as a missing key does."""

    machine.nic("ens1f0", PF)
    then = NicTable(groups=(group(vendor=("15b3",), attributes={"rail": 3}),))
    now = NicTable(groups=(group(attributes={"rail": "three"}),))

    assert keys_of("nic", now).kept(_values(machine, "ens1f0", then))["rail"] == ""


def test_held_device_tells_nothing_that_changes_by_itself(machine: Machine) -> None:
    """Its carrier and its addresses are the pod's."""

    machine.nic("ens1f0", PF, carrier=True)
    table = NicTable(groups=(group(vendor=("15b3",)),), publish_volatile=True)
    values = _values(machine, "ens1f0", table)

    assert values["carrier"] is True
    assert keys_of("nic", table).kept(values)["carrier"] is False


def test_soft_rdma_device_is_told_of_a_parent_alone(machine: Machine) -> None:
    """It is the pod's while the link stays at home, and vanishes when that moves."""

    machine.nic("ens1f0", PF)
    machine.soft_rdma = {"ens1f0": ("rxe0",)}
    parents = NicTable(groups=(group(vendor=("15b3",), mode=NicMode.SHARED),))
    shared = _values(machine, "ens1f0", parents, rdma_netns="shared")
    alone = _values(machine, "ens1f0", rdma_netns="shared")

    assert (shared["rdma"], shared["rdmaDevice"], shared["rdmaNetns"]) == (True, "rxe0", "shared")
    assert (alone["rdma"], alone["rdmaDevice"], alone["rdmaNetns"]) == (False, "", "")
