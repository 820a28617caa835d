"""The shipped examples of GPUs and generic devices find what they ask for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import attrs
import pytest
import yaml

from berth.config.load import load
from berth.gpu.survey import GpuSurvey
from berth.kube.quantity import parse_quantity
from berth.kube.slices import device_json
from berth.model.device import Device
from berth.model.peripheral import Peripheral
from berth.rehearsal.apiserver.slicerules import check_slice
from berth.rehearsal.cel import selects
from berth.rehearsal.manifests import read_manifests
from tests.unit.gpu.machine import divided, function, gpu, look, part

CONFIGS: Final = Path(__file__).parents[3] / "configs"
MANIFESTS: Final = CONFIGS / "kubernetes"
EXAMPLES: Final = sorted(
    path for folder in ("gpu", "generic") for path in (MANIFESTS / "examples" / folder).glob("*")
)
DRIVER: Final = "berth.dev"


def machine() -> GpuSurvey:
    """A machine of many cards, by the groups of a shipped configuration that claims can reach."""
    names = ("NVIDIA H200", "NVIDIA A100 80GB PCIe", "NVIDIA A100-SXM4-80GB", "NVIDIA H100")
    cards = [gpu(number, name=name) for number, name in enumerate(names)]
    cards += [gpu(4, address="0000:d8:00.0"), divided(5, part(1, "1g.10gb", 0, gi_id=7))]
    functions = [
        *(function(number) for number in range(6)),
        function(4, address="0000:d8:00.0"),
        function(6, driver="vfio-pci"),
    ]
    table = load(CONFIGS / "gpu-node.toml").gpu
    groups = tuple(group for group in table.groups if group.door is None)
    return look(cards, functions, table=attrs.evolve(table, groups=groups))


def published(each: Peripheral) -> dict[str, Any]:
    """A device as a slice has it."""
    return device_json(
        Device(
            name=each.name,
            identity=each.identity,
            type=each.type,
            group=each.group,
            attributes=each.attributes,
            capacity=each.capacity,
            shared=each.slots > 1,
        )
    )


def devices() -> list[dict[str, Any]]:
    """All that a node offers to claims, a modem and a NIC among it."""
    found = [each for each in machine().peripherals if each.exclusion is None]
    modem = Device(
        name="modem-1",
        identity="usb:1",
        type="generic",
        group="modem",
        attributes={"type": "generic", "group": "modem"},
    )
    nic = Device(
        name="nic-0000-41-00-0",
        identity="pci:0000:41:00.0",
        type="nic",
        group="fast",
        attributes={"type": "nic", "group": "fast", "rdma": True},
    )
    return [*map(published, found), device_json(modem), device_json(nic)]


def classes() -> dict[str, str]:
    """The shipped classes and what each selects."""
    files = (MANIFESTS / "deviceclasses.yaml", MANIFESTS / "deviceclass-extended.yaml")
    return {
        item["metadata"]["name"]: item["spec"]["selectors"][0]["cel"]["expression"]
        for file in files
        for item in yaml.safe_load_all(file.read_text(encoding="utf-8"))
    }


def asked(file: Path) -> Iterator[dict[str, Any]]:
    """The requests of an example, each choice of one by itself."""
    for item in yaml.safe_load_all(file.read_text(encoding="utf-8")):
        if item["kind"] == "ResourceClaimTemplate":
            for request in item["spec"]["spec"]["devices"]["requests"]:
                yield from request.get("firstAvailable", [request.get("exactly")])


def test_examples_are_those_that_are_promised() -> None:
    """Each way to ask for a GPU, and one for another device."""

    assert [file.stem for file in EXAMPLES] == [
        "modem",
        "admin",
        "mig",
        "one-gpu",
        "prioritized-list",
        "same-root",
        "shared",
        "toleration",
        "virtual-machine",
        "with-nic",
    ]


def test_devices_are_taken_by_an_api_server() -> None:
    """Names, attributes, capacities and request policies are valid in a slice."""

    spec = {
        "driver": DRIVER,
        "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1},
        "nodeName": "n",
        "devices": devices(),
    }

    assert check_slice(spec, None) == []


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_example_finds_devices(file: Path) -> None:
    """Every request is of a shipped class, and something on the machine is what it asks for."""

    known, offered = classes(), devices()
    for request in asked(file):
        selectors = [item["cel"]["expression"] for item in request.get("selectors", ())]
        expressions = [known[request["deviceClassName"]], *selectors]
        found = offered
        for expression in expressions:
            found = [each for each in found if selects(expression, each, driver=DRIVER)]
        assert len(found) >= request.get("count", 1)
        wanted = request.get("capacity", {}).get("requests", {})
        for name, amount in wanted.items():
            value = found[0]["capacity"][name]["value"]
            assert parse_quantity(amount) <= parse_quantity(value)


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_example_has_pods_that_use_it(file: Path) -> None:
    """Nothing of it is left out or made up."""

    found = read_manifests(file)

    assert found.pods
    assert found.notes == ()


def test_each_class_selects_its_own_type() -> None:
    """No device is of two classes, but for the one that serves resource limits."""

    taken = {
        name: {
            each["attributes"]["type"]["string"]
            for each in devices()
            if selects(expression, each, driver=DRIVER)
        }
        for name, expression in classes().items()
        if not name.startswith(("nic", "rdma"))
    }

    assert taken == {
        "gpu.berth.dev": {"gpu"},
        "gpu-extended.berth.dev": {"gpu"},
        "mig.berth.dev": {"mig"},
        "vfio.berth.dev": {"vfio"},
        "generic.berth.dev": {"generic"},
    }
