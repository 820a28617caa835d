"""The file of the SR-IOV network device plugin, key by key: what is refused, and what is taken."""

from __future__ import annotations

import json
from typing import Any

import pytest

from berth.convert.conversion import convert
from berth.convert.draft import LEAVE_OUT
from tests.unit.convert.test_conversion import faults_of, groups_in


def _document(selector: Any, **more: Any) -> str:
    resource = {"resourceName": "r", "selectors": [selector], **more}
    return json.dumps({"resourceList": [resource]})


def _group(selector: Any, **more: Any) -> dict[str, Any]:
    (group,) = groups_in(convert(json.loads(_document(selector, **more)), where="f").text)
    return group


SELECTOR = "resourceList[0].selectors[0]"

SPARSE = f"ens1f0#{','.join(str(number) for number in range(0, 2 * 257, 2))}"
"""Functions in one range more than are taken."""


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("ddpProfiles", ["GTPv1-C/U"], "does not read which package a NIC's pipeline has loaded"),
        ("pKeys", ["0x1"], "does not select by InfiniBand partitions"),
        ("vdpaType", "vhost", "hands out no vDPA devices"),
        ("auxTypes", ["sf"], "hands out no auxiliary devices such as sub-functions"),
    ],
)
def test_selector_without_counterpart_is_refused_with_its_place(
    key: str, value: Any, why: str
) -> None:
    """Dropped in silence it would widen what the resource takes."""
    (said,) = faults_of(_document({"vendors": ["15b3"], key: value}))

    assert said == f"{SELECTOR}.{key} has no counterpart: berth {why}; {LEAVE_OUT}"


@pytest.mark.parametrize("empty", [None, [], ""])
def test_selector_without_counterpart_that_says_nothing_is_let_be(empty: Any) -> None:
    """Programs write keys that they do not use."""

    assert _group({"vendors": ["15b3"], "ddpProfiles": empty})["match"] == {"vendor": ["15b3"]}


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (
            {"deviceType": "accelerator"},
            'deviceType is "accelerator": only NICs are turned; [[generic]] groups offer',
        ),
        (
            {"deviceType": "auxNetDevice"},
            'deviceType is "auxNetDevice": berth hands out no auxiliary devices such as',
        ),
        (
            {"deviceType": "netdevice"},
            'deviceType is "netdevice": it must be "netDevice", "accelerator" or "auxNetDevice"',
        ),
        ({"deviceType": []}, "deviceType is a list: it must be"),
        ({"additionalInfo": {"*": {"token": "t"}}}, "additionalInfo cannot be kept"),
        ({"excludeTopology": "yes"}, 'excludeTopology is "yes": it must be true or false'),
        ({"SelectorObj": {}}, "SelectorObj is an object: the plugin itself fills it in"),
        ({"resourceName": "a.b/c"}, 'resourceName is "a.b/c": it must be letters, digits'),
        ({"resourceName": 7}, "resourceName is 7: it must be letters"),
        ({"resourceName": None}, " lacks resourceName: a resource must have a name"),
        ({"resourcePrefix": "k8s.kubernetes.io"}, 'resourcePrefix is "k8s.kubernetes.io"'),
        ({"resourcePrefix": "a_b"}, 'resourcePrefix is "a_b": it must be a domain'),
        ({"selectors": None}, " lacks selectors: the plugin makes nothing"),
        ({"selectors": []}, "selectors is empty"),
        ({"selectors": [None]}, "selectors[0] is null: it must be an object"),
        ({"selectors": "all"}, 'selectors is "all": it must be an object'),
        ({"excludeTopolgy": True}, "excludeTopolgy is unknown: the keys here are"),
        ({"odd\nkey": True}, '["odd\\nkey"] is unknown'),
    ],
)
def test_key_of_a_resource_is_refused_with_its_place(more: dict[str, Any], told: str) -> None:
    """Each with what is allowed."""
    (said,) = faults_of(_document({"vendors": ["15b3"]}, **more))
    dot = "" if told.startswith((" ", "[")) else "."

    assert said.startswith(f"resourceList[0]{dot}{told}")


@pytest.mark.parametrize(
    ("selector", "told"),
    [
        ({"vendors": ["0x15b3"]}, '.vendors[0] is "0x15b3": it must be 4 hex digits'),
        ({"vendors": ["8086", 8086]}, ".vendors[1] is 8086: it must be 4 hex digits"),
        ({"vendors": "8086"}, '.vendors is "8086": it must be a list'),
        ({"devices": ["154"]}, '.devices[0] is "154"'),
        ({"drivers": ["vfio pci"]}, '.drivers[0] is "vfio pci": it must be the name of a kernel'),
        ({"pciAddresses": ["0000:41:*"]}, '.pciAddresses[0] is "0000:41:*": it must be the PCI'),
        ({"pciAddresses": ["41:00.0"]}, '.pciAddresses[0] is "41:00.0"'),
        ({"acpiIndexes": [101]}, ".acpiIndexes[0] is 101: it must be a whole number in quotes"),
        ({"acpiIndexes": ["007"]}, '.acpiIndexes[0] is "007"'),
        ({"linkTypes": ["loopback"]}, '.linkTypes[0] is "loopback": it must be "ether" or'),
        ({"pfNames": ["0000:41:00.0"]}, '.pfNames[0] is "0000:41:00.0": it must be the interface'),
        ({"pfNames": ["ens1f0#"]}, '.pfNames[0] is "ens1f0#"'),
        ({"pfNames": ["ens1f0#5-3"]}, '.pfNames[0] is "ens1f0#5-3"'),
        ({"pfNames": ["ens1f0#0, 2"]}, '.pfNames[0] is "ens1f0#0, 2"'),
        ({"pfNames": ["ens1f0#0#1"]}, '.pfNames[0] is "ens1f0#0#1"'),
        ({"pfNames": [SPARSE]}, f'.pfNames[0] is "{SPARSE[:58]}…: it must be the interface'),
        ({"rootDevices": ["ens1f0"]}, '.rootDevices[0] is "ens1f0": it must be the PCI address'),
        ({"isRdma": "true"}, '.isRdma is "true": it must be true or false'),
        ({"needVhostNet": 1}, ".needVhostNet is 1: it must be true or false"),
        ({"pfName": ["ens1f0"]}, ".pfName is unknown"),
        ({"isRdma": True, "ISRDMA": True}, f".ISRDMA is given as {SELECTOR}.isRdma as well"),
        (
            {"pfNames": ["ens1f0#0-3", "ens1f0#5"]},
            ".pfNames names ens1f0 twice: the plugin reads the first of the two only",
        ),
        (
            {"pfNames": ["ens1f0"], "rootDevices": ["0000:41:00.0"]},
            f".rootDevices is given beside {SELECTOR}.pfNames: the plugin wants both",
        ),
        (
            {"drivers": ["vfio-pci", "iavf"]},
            " has vfio-pci among other drivers: NICs of one resource have one mode here",
        ),
        ({"vendors": ["x" * 2000]}, f'.vendors[0] is "{"x" * 58}…: it must be 4'),
        ({"vendors": ["8086"] * 1025}, ".vendors has 1025 items: at most 1024 are taken"),
    ],
)
def test_key_of_a_selector_is_refused_with_its_place(selector: dict[str, Any], told: str) -> None:
    """Each with what is allowed."""
    (said,) = faults_of(_document(selector))

    assert said.startswith(f"{SELECTOR}{told}")


def test_key_that_is_given_twice_is_refused() -> None:
    """Readers of JSON take the last in silence."""
    text = '{"resourceList": [{"resourceName": "r", "resourceName": "s", "selectors": {}}]}'

    assert faults_of(text) == ["resourceList[0].resourceName is given more than once; keep one"]


def test_all_faults_are_told_at_once() -> None:
    """In the order of the file."""
    text = json.dumps(
        {
            "resourceList": [
                {"resourceName": "r", "selectors": [{"vendors": ["x"]}, {"pKeys": ["0x1"]}]},
                {"resourceName": "r", "selectors": {"devices": [1]}, "deviceType": "accelerator"},
            ]
        }
    )

    assert [each.split(" ")[0] for each in faults_of(text)] == [
        "resourceList[0].selectors[0].vendors[0]",
        "resourceList[0].selectors[1].pKeys",
        "resourceList[1].deviceType",
        "resourceList[1].resourceName",
        "resourceList[1].selectors.devices[0]",
    ]


def test_two_resources_of_one_name_are_refused() -> None:
    """The plugin does not start with them."""
    resource = {"resourceName": "r", "selectors": {}}
    (said,) = faults_of(json.dumps({"resourceList": [resource, resource]}))

    assert said == (
        "resourceList[1].resourceName makes intel.com/r, as does resourceList[0].resourceName; "
        "choose another name"
    )


def test_resource_with_nics_of_both_modes_is_refused() -> None:
    """Its groups would be."""
    selectors = [{"drivers": ["vfio-pci"]}, {"drivers": ["iavf"]}]
    (said,) = faults_of(_document({}, selectors=selectors))

    assert said.startswith("resourceList[0] has selectors with drivers such as vfio-pci and")


def test_numbers_of_functions_may_overlap_and_be_in_any_order() -> None:
    """With the plugin they may; here they are put in order."""

    assert _group({"pfNames": ["p#9,0-3,2-5,6"]})["match"] == {"pf": ["p#0-6,9"]}


def test_kernel_drivers_make_a_group_that_a_cni_plugin_serves() -> None:
    """The NIC has a link."""
    group = _group({"drivers": ["iavf", "ice"], "vendors": ["8086"]}, excludeTopology=True)

    assert group == {
        "name": "r",
        "match": {"vendor": ["8086"], "driver": ["iavf", "ice"]},
        "mode": "exclusive",
        "door": "plugin",
        "resource": "intel.com/r",
        "exclude_topology": True,
        "attach": "cni",
    }


@pytest.mark.parametrize("driver", ["vfio-pci", "mlx5_vfio_pci", "igb_uio", "uio_pci_generic"])
def test_drivers_without_link_make_a_group_of_mode_vfio(driver: str) -> None:
    """There is no link for a CNI plugin to move."""
    group = _group({"drivers": [driver], "vendors": ["8086"], "needVhostNet": True})

    assert group == {
        "name": "r",
        "match": {"vendor": ["8086"], "driver": [driver]},
        "mode": "vfio",
        "door": "plugin",
        "resource": "intel.com/r",
        "vhost": True,
    }


@pytest.mark.parametrize("selector", [{}, {"linkTypes": ["ether"]}, {"drivers": ["r8169"]}])
def test_selector_that_others_than_pci_devices_meet_is_narrowed(selector: dict[str, Any]) -> None:
    """The plugin looks at the PCI bus only."""

    assert _group(selector)["match"]["kind"] == ["pf", "vf", "pci"]


@pytest.mark.parametrize(
    ("selector", "remark"),
    [
        ({"drivers": ["igb_uio"]}, f"{SELECTOR} names igb_uio: a NIC that is bound to it is not"),
        ({"vendors": ["8086"]}, f"{SELECTOR} names no driver: the plugin offered NICs"),
        (
            {"devices": ["101E"], "drivers": ["iavf"]},
            f'{SELECTOR}.devices[0] is "101E": the plugin compared it',
        ),
    ],
)
def test_what_is_another_way_is_remarked(selector: dict[str, Any], remark: str) -> None:
    """It is no fault, and nobody should find out by a pod that waits."""
    (said,) = convert(json.loads(_document(selector)), where="f").remarks

    assert said.startswith(remark)


@pytest.mark.parametrize(
    "selector",
    [
        {"vendors": ["8086"], "drivers": ["iavf"]},
        {"vendors": ["15b3"], "isRdma": True},
        {"rootDevices": ["0000:AF:00.0"], "drivers": ["ice"]},
    ],
)
def test_what_is_as_it_was_is_not_remarked(selector: dict[str, Any]) -> None:
    """The plugin compares the address of a PF in any case."""

    assert convert(json.loads(_document(selector)), where="f").remarks == ()
