"""Which entries of a claim are for NICs, and for which of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from berth.errors import ClaimError
from berth.model import jsontext
from berth.model.claim import Claim, ConfigSource, DeviceResult, OpaqueConfig
from berth.nic.config.entries import DEPTH_LIMIT, SIZE_LIMIT, read_entries
from berth.nic.config.report import Report
from tests.unit.nic.config.claims import (
    DRIVER,
    HEAD,
    ROOT,
    claim_of,
    entry,
    faults,
    nic_result,
    resolved,
    targets_of,
)

GPU = DeviceResult(request="gpu", pool="node-1", device="gpu-0")
PORT = DeviceResult(request="port/serial", pool="node-1", device="port-0")


def _mixed(*configs: OpaqueConfig) -> list[str]:
    """The faults of a claim on a GPU, a NIC, a NIC of a list, and a port of a list."""
    nics = (nic_result("nic"), nic_result("any/fast", "nic-2"))
    claim = claim_of(*configs, results=[GPU, *nics, PORT])
    report = Report()
    targets = targets_of(claim)[1:3]
    read_entries(claim, targets, driver=DRIVER, report=report)
    return [str(fault) for fault in report.faults(ClaimError)]


@pytest.mark.parametrize("version", ["berth.dev/v1alpha1", "nics.example.org/v1alpha1"])
def test_version_when_of_the_driver_or_of_berth(version: str) -> None:
    """Manifests that name berth itself travel to nodes where the driver has another name."""

    assert faults(entry({"apiVersion": version})) == []


@pytest.mark.parametrize("version", ["berth.dev/v1", "v1alpha1", "gpu.example.org/v1alpha1", 1, []])
def test_version_when_unknown(version: object) -> None:
    """Another version or domain is a fault."""

    shown = "a list" if version == [] else json.dumps(version)
    assert faults(entry({"apiVersion": version})) == [
        (
            f"{ROOT}.apiVersion: {shown}: "
            'it must be "nics.example.org/v1alpha1" or "berth.dev/v1alpha1"'
        )
    ]


def test_version_when_absent() -> None:
    """An entry says its version."""

    assert faults(entry('{"kind": "NicConfig"}')) == [
        f'{ROOT}.apiVersion: null: it must be "nics.example.org/v1alpha1" or "berth.dev/v1alpha1"'
    ]


def test_version_when_the_driver_is_berth() -> None:
    """Under its own name there is one version to name."""

    claim = claim_of(entry({"apiVersion": "x/v1alpha1"}))
    report = Report()
    read_entries(claim, targets_of(claim), driver="berth.dev", report=report)

    assert str(report.faults(ClaimError)[0]).endswith(': it must be "berth.dev/v1alpha1"')


@pytest.mark.parametrize("value", [None, 5, "NicConfig", [], True])
def test_entry_when_no_object(value: Any) -> None:
    """An entry that is no object is a fault, whatever it is for."""

    config = OpaqueConfig(index=3, source=ConfigSource.CLASS, requests=(), parameters=value)

    found = faults(config)

    assert len(found) == 1
    assert found[0].startswith("config[3].opaque.parameters: ")
    assert found[0].endswith(": it must be an object with apiVersion and kind")


def test_entry_when_without_kind() -> None:
    """Without a kind nobody knows whom an entry is for."""

    assert faults(entry('{"apiVersion": "berth.dev/v1alpha1"}')) == [
        f'{ROOT}: lacks kind: a NIC takes "NicConfig"'
    ]
    assert len(_mixed(entry("{}"))) == 1


def test_kind_when_for_other_devices() -> None:
    """An entry of another kind is passed over where it applies to other devices as well."""

    gpu = entry({"kind": "VfioConfig", "iommufd": True}, requests=["gpu"])
    everything = entry({"kind": "VfioConfig", "iommufd": True}, index=1)

    assert _mixed(gpu, everything) == []


@pytest.mark.parametrize(
    ("kind", "mend"),
    [("NicConfg", "; did you mean NicConfig?"), ("VfioConfig", ""), (7, ""), (None, "")],
)
def test_kind_when_nobody_would_heed_it(kind: object, mend: str) -> None:
    """An entry of another kind that applies to NICs alone is a fault, not silence."""

    assert _mixed(entry({"kind": kind}, requests=["nic"])) == [
        (
            f"{ROOT}.kind: {json.dumps(kind)} is no kind that a NIC takes, "
            f'and the entry applies to no other device: it must be "NicConfig"{mend}'
        )
    ]


def test_request_when_named_in_full_or_by_its_base() -> None:
    """An entry applies by the request's name, by the base name, or by no name."""

    for requests in ((), ("nic",), ("any",), ("any/fast",), ("any/fast", "any/slow", "nic")):
        assert _mixed(entry({}, requests=requests)) == []


@pytest.mark.parametrize(
    ("requests", "wrong"),
    [
        (("gpu",), ['config[0].requests[0]: "gpu" has other devices']),
        (("nic", "port"), ['config[0].requests[1]: "port" has other devices']),
        (("port/serial",), ['config[0].requests[0]: "port/serial" has other devices']),
        (("nix",), ['config[0].requests[0]: "nix" has no device of this driver']),
        (
            ("gpu", "nix"),
            [
                'config[0].requests[0]: "gpu" has other devices',
                'config[0].requests[1]: "nix" has no device of this driver',
            ],
        ),
    ],
)
def test_request_when_it_has_no_nic(requests: tuple[str, ...], wrong: list[str]) -> None:
    """Each name without a NIC is told."""

    rest = ": NicConfig is for NICs; drop the name"

    assert _mixed(entry({}, requests=requests)) == [f"{each}{rest}" for each in wrong]


def test_entry_when_it_applies_to_nothing() -> None:
    """An alternative that was not chosen leaves an entry without a NIC."""

    nothing = "config[0]: applies to no NIC of this claim; drop the entry, or mend its requests"

    assert _mixed(entry({}, requests=["any/slow"])) == [nothing]
    report = Report()
    read_entries(claim_of(entry({}), results=[GPU]), (), driver=DRIVER, report=report)
    assert [str(fault) for fault in report.faults(ClaimError)] == [nothing]


def test_entry_when_for_admin_access() -> None:
    """An entry may apply to a NIC that is only looked at; nothing is done with it."""

    look = nic_result("look", "nic-2", admin_access=True)
    nics = resolved(entry({}, requests=["look"]), results=[nic_result(), look])

    assert [nic.request for nic in nics] == ["nic"]


def _sized(size: int) -> dict[str, Any]:
    """An entry of so many bytes as compact JSON."""
    empty = {**HEAD, "interface": {"name": ""}}
    rest = size - len(json.dumps(empty, separators=(",", ":")))
    return {**HEAD, "interface": {"name": "é" * (rest // 2) + "x" * (rest % 2)}}


def test_entry_when_at_the_limit_of_size() -> None:
    """An entry of 10 KiB is read, one byte more is a fault and nothing of it is looked at."""

    fault = f"{ROOT}: {SIZE_LIMIT + 1} bytes: at most {SIZE_LIMIT} are allowed"

    assert [f.split(": ")[0] for f in faults(entry(_sized(SIZE_LIMIT)))] == [
        f"{ROOT}.interface.name"
    ]
    assert faults(entry(_sized(SIZE_LIMIT + 1))) == [fault]


@pytest.mark.parametrize(("left", "right"), [("[", "]"), ('{"a":', "}")])
def test_entry_when_deeply_nested(left: str, right: str) -> None:
    """Depth is bounded before anything walks down."""

    fault = f"{ROOT}: is nested more than {DEPTH_LIMIT} deep"

    def nested(depth: int) -> str:
        inner = left * (depth - 2) + "1" + right * (depth - 2)
        return (
            f'{{"kind": "NicConfig", "apiVersion": "berth.dev/v1alpha1", "vf": {{"x": {inner}}}}}'
        )

    assert [f.split(": ")[0] for f in faults(entry(nested(DEPTH_LIMIT)))] == [f"{ROOT}.vf.x"]
    assert faults(entry(nested(DEPTH_LIMIT + 1))) == [fault]
    assert faults(entry(nested(500))) == [fault]


def test_entry_when_its_text_is_no_unicode() -> None:
    """Half a character was read as U+FFFD, which is a fault of the field like any other."""

    found = faults(entry('{"kind": "NicConfig", "interface": {"name": "\\ud800"}}'))

    assert found[-1].startswith(f'{ROOT}.interface.name: "\\ufffd": ')


def test_entries_when_of_class_and_claim() -> None:
    """The layer of a claim's entry is known as a tenant's."""

    claim: Claim = claim_of(entry({}, source=ConfigSource.CLASS), entry({}, index=1))
    entries = read_entries(claim, targets_of(claim), driver=DRIVER, report=Report())

    assert [each.layer.of_claim for each in entries] == [False, True]
    assert jsontext.duplicates(entries[0].config.parameters) == ()
