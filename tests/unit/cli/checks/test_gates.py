"""Versions and feature gates, of kubelet and of the API server."""

from __future__ import annotations

from pathlib import Path

import pytest

from berth.cli.checks.gates import check_gates, check_kubelet_version
from berth.cli.checks.kubeletsettings import command_line, gates, option, setting
from berth.cli.checks.machine import ApiLook, Machine
from berth.config.doors import Door
from berth.config.gpu import GpuGroup, GpuTable, GpuVfio
from berth.config.gpumatch import GpuMatch, GpuType
from berth.config.nic import NicTable
from berth.config.schema import Config, DraTable
from berth.model.device import NicMode
from tests.unit.cli.checks.tree import plant, told
from tests.unit.nic.machine import group

KUBEADM = (
    "/usr/bin/kubelet\0--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf\0"
    "--kubeconfig=/etc/kubernetes/kubelet.conf\0--config=/var/lib/kubelet/config.yaml\0"
)
YAML = """\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: systemd
featureGates:
  DynamicResourceAllocation: false
  ResourceHealthStatus: true
"""
NEW = ApiLook(version="v1.37.2", major=1, minor=37, kubelet_version="v1.37.2")
SHARED = Config(nic=NicTable(groups=(group("lan", name=("a",), mode=NicMode.SHARED),)))
RESOURCE = Config(nic=NicTable(groups=(group("old", name=("a",), door=Door.PLUGIN),)))
REBIND = GpuGroup(name="vm", match=GpuMatch(type=(GpuType.VFIO,)), vfio=GpuVfio(rebind=True))


@pytest.mark.parametrize(
    ("config", "version", "level"),
    [
        (Config(), "v1.34.0", "ok"),
        (Config(), "v1.37.2+k3s1", "ok"),
        (Config(), "v1.33.9", "fault"),
        (Config(dra=DraTable(enabled=False)), "v1.33.9", "ok"),
    ],
)
def test_kubelet_version(config: Config, version: str, level: str) -> None:
    """Claims need 1.34; resources do not."""

    machine = Machine(config=config, api=ApiLook(kubelet_version=version))

    assert [found for found, _ in told(check_kubelet_version(machine))] == [level]


def test_kubelet_version_by_its_program() -> None:
    """Where the API server tells none the program's own word counts; without either nothing."""

    machine = Machine(config=Config(), kubelet_version="Kubernetes v1.36.1")

    assert told(check_kubelet_version(machine)) == [("ok", "version 1.36.1")]
    assert told(check_kubelet_version(Machine(config=Config()))) == []


def test_command_line_of_the_running_kubelet(tmp_path: Path) -> None:
    """Only a process of that name counts; the last of two words of one option does."""

    files = {"/proc/7/cmdline": "vi\0kubelet\0", "/proc/77/cmdline": KUBEADM}
    words = command_line(Machine(config=Config(), root=plant(tmp_path, files)))

    assert option(words, "config") == "/var/lib/kubelet/config.yaml"
    assert option(("kubelet", "--v=1", "-v", "2"), "v") == "2"
    assert option(words, "root-dir") == ""
    assert command_line(Machine(config=Config(), root=tmp_path / "none")) == ()


def test_gates_of_each_place(tmp_path: Path) -> None:
    """Drop-ins go over the file, the command line over both, and each place is remembered."""

    files = {
        "/proc/77/cmdline": KUBEADM
        + "--config-dir=/etc/kubelet.d\0--feature-gates=A=true,B=false\0",
        "/var/lib/kubelet/config.yaml": YAML,
        "/etc/kubelet.d/10-a.conf": "featureGates: {ResourceHealthStatus: false, A: false}\n",
        "/etc/kubelet.d/20-b.conf": "{broken",
    }
    found = gates(Machine(config=Config(), root=plant(tmp_path, files)))

    assert found.states == {
        "DynamicResourceAllocation": False,
        "ResourceHealthStatus": False,
        "A": True,
        "B": False,
    }
    assert found.places["DynamicResourceAllocation"] == "/var/lib/kubelet/config.yaml: featureGates"
    assert found.places["ResourceHealthStatus"] == "/etc/kubelet.d/10-a.conf: featureGates"
    assert found.places["A"] == "kubelet's --feature-gates"


def test_setting_of_kubelet(tmp_path: Path) -> None:
    """What no file has is not known."""

    root = plant(tmp_path, {"/var/lib/kubelet/config.yaml": YAML})
    machine = Machine(config=Config(), root=root)

    assert setting(machine, "cgroupDriver") == "systemd"
    assert setting(machine, "failCgroupV1") is None


def test_gate_that_kubelet_has_off(tmp_path: Path) -> None:
    """The file is named, and what is lost by it."""

    root = plant(tmp_path, {"/var/lib/kubelet/config.yaml": YAML})
    (line,) = check_gates(Machine(config=Config(), root=root))

    assert line.level.value == "fault"
    assert line.text == (
        "/var/lib/kubelet/config.yaml: featureGates has DynamicResourceAllocation off: "
        "no claim is prepared"
    )


@pytest.mark.parametrize(
    ("config", "version", "gates_"),
    [
        (Config(), "v1.37.2", []),
        (Config(), "v1.35.3", ["ResourceHealthStatus", "DRADeviceTaints"]),
        (SHARED, "v1.35.3", ["ResourceHealthStatus", "DRADeviceTaints", "DRAConsumableCapacity"]),
        (Config(dra=DraTable(lists=True)), "v1.37.2", ["DRAListTypeAttributes"]),
        (
            Config(gpu=GpuTable(groups=(REBIND,))),
            "v1.35.3",
            ["ResourceHealthStatus", "DRADeviceTaints", "DRAPartitionableDevices"],
        ),
        (Config(dra=DraTable(enabled=False)), "v1.33.0", []),
    ],
)
def test_gates_that_a_version_has_off(config: Config, version: str, gates_: list[str]) -> None:
    """Each gate that the settings need, and no other, is warned of once."""

    look = ApiLook(version=version, major=1, kubelet_version=version)
    lines = list(check_gates(Machine(config=config, api=look)))

    assert [line.text.split()[2] for line in lines] == gates_
    assert {line.level.value for line in lines} <= {"warning"}


def test_gates_that_the_server_tells() -> None:
    """What its figures say goes over what its version has."""

    features = {"DRADeviceTaints": False, "DRAConsumableCapacity": True}
    look = ApiLook(version="v1.37.2", major=1, features=features)
    old = ApiLook(version="v1.35.0", major=1, features={**features, "DRADeviceTaints": True})

    assert told(check_gates(Machine(config=SHARED, api=look))) == [
        (
            "warning",
            (
                "its feature gate DRADeviceTaints is off: new pods are kept from a sick device "
                "only by taking it out of the slices"
            ),
        )
    ]
    assert told(check_gates(Machine(config=SHARED, api=old))) == []


def test_gate_that_a_write_told_of() -> None:
    """What the running daemon found dropped is told; its other warnings belong elsewhere."""

    dropped = "the API server drops taints: its feature gate DRADeviceTaints is off"
    status = {"warnings": [dropped, 'group "x" selects no NIC']}

    assert told(check_gates(Machine(config=Config(), api=NEW, status=status))) == [
        ("warning", dropped)
    ]


def test_gate_for_resources() -> None:
    """Who offers no claims needs other gates."""

    config = Config(dra=DraTable(enabled=False), nic=RESOURCE.nic)
    old = ApiLook(version="v1.33.0", kubelet_version="v1.33.0")

    assert [line.text.split()[2] for line in check_gates(Machine(config=config, api=old))] == [
        "KubeletPodResourcesGet"
    ]
