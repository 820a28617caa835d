"""What is made of the API server's answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from berth.cli.checks.apiserver import check_api, look_api
from berth.cli.checks.machine import ApiLook, Machine
from berth.config.nic import NicTable
from berth.config.schema import Config
from berth.kube.sources import CredentialSettings
from berth.model.device import NicMode
from tests.unit.cli.checks.tree import told
from tests.unit.nic.machine import group

GROUPS = Config(nic=NicTable(groups=(group("lan", name=("a",), mode=NicMode.SHARED),)))
WELL = ApiLook(
    version="v1.37.2",
    major=1,
    minor=37,
    node="worker-7",
    classes={"nic.berth.dev": 'device.driver == "berth.dev"'},
)


@pytest.mark.parametrize(
    ("look", "lines"),
    [
        (None, []),
        (
            ApiLook(fault="connection refused"),
            [("fault", "it was asked in vain: connection refused")],
        ),
        (WELL, [("ok", "it answers, version v1.37.2"), ("ok", "it knows node worker-7")]),
    ],
)
def test_api_as_it_answered(look: ApiLook | None, lines: list[tuple[str, str]]) -> None:
    """An answer is well, silence a fault, and what was not asked is not told."""

    assert told(check_api(Machine(config=GROUPS, api=look))) == lines


def test_api_when_it_lacks_the_node() -> None:
    """Case 9: a name that the server does not know is a fault in the publisher's own words."""

    look = ApiLook(version="v1.37.2", minor=37, node_fault="there is no Node 'x'")

    assert ("fault", "there is no Node 'x'") in told(check_api(Machine(config=Config(), api=look)))


def test_api_when_no_class_is_ours() -> None:
    """Without a class no claim can ask for a device."""

    look = ApiLook(major=1, minor=37, classes={"gpu": 'device.driver == "gpu.example.org"'})
    line = list(check_api(Machine(config=GROUPS, api=look)))[-1]

    assert line.text == "no DeviceClass speaks of berth.dev, so no claim can ask for its devices"
    assert line.mend == "kubectl apply -f configs/kubernetes/deviceclasses.yaml"


def test_api_without_credentials() -> None:
    """Nobody is asked without credentials."""

    settings = CredentialSettings(kubelet_kubeconfigs=())

    assert look_api(settings, configured="", host_name="x", driver="berth.dev") is None


def test_api_when_the_credentials_cannot_be_read(tmp_path: Path) -> None:
    """A kubeconfig that is not there is told with the credentials, and not a second time here."""

    settings = CredentialSettings(kubeconfig=str(tmp_path / "nowhere"))

    assert look_api(settings, configured="", host_name="x", driver="berth.dev") is None
