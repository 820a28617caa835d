"""CDI files as runtimes accept them."""

from __future__ import annotations

import json

import pytest

from berth.cdi.document import CdiDevice, Mount, environment_of, qualified, render
from berth.errors import LocalProtocolError

KIND = "berth.dev/nic"


def rendered(*devices: CdiDevice) -> dict[str, object]:
    document: dict[str, object] = json.loads(render(KIND, devices))
    return document


def test_render_gives_what_the_schema_asks_for() -> None:
    """A file holds kind and devices, each with its edits and nothing that is empty."""

    mount = Mount(host_path="/h/metadata.json", container_path="/c/m.json", options=("ro", "bind"))

    assert rendered(CdiDevice(name="uid_nic", env=("A=b",), mounts=(mount,))) == {
        "cdiVersion": "0.3.0",
        "kind": "berth.dev/nic",
        "devices": [
            {
                "name": "uid_nic",
                "containerEdits": {
                    "env": ["A=b"],
                    "mounts": [
                        {
                            "hostPath": "/h/metadata.json",
                            "containerPath": "/c/m.json",
                            "options": ["ro", "bind"],
                        }
                    ],
                },
            }
        ],
    }


@pytest.mark.parametrize(("name", "version"), [("5b0c_nic", "0.5.0"), ("b50c_nic", "0.3.0")])
def test_render_declares_the_lowest_version_that_holds_the_name(name: str, version: str) -> None:
    """A device name that begins with a digit needs 0.5.0; older runtimes refuse newer files."""

    assert rendered(CdiDevice(name=name, env=("A=b",)))["cdiVersion"] == version


@pytest.mark.parametrize(
    "devices",
    [
        (),
        (CdiDevice(name="empty"),),
        (CdiDevice(name="twice", env=("A=b",)), CdiDevice(name="twice", env=("A=c",))),
    ],
)
def test_render_refuses_what_a_runtime_would_refuse(devices: tuple[CdiDevice, ...]) -> None:
    """A file that a runtime refuses as a whole is never written."""

    with pytest.raises(LocalProtocolError):
        render(KIND, devices)


def test_qualified_names_vendor_class_and_device() -> None:
    """Kubelet is told names that the runtime finds."""

    assert qualified(KIND, "uid_nic") == "berth.dev/nic=uid_nic"


def test_environment_of_reads_back_what_was_rendered() -> None:
    """The marker of a claim is found again in its file, once for all its devices."""

    devices = (CdiDevice(name="a", env=("M=x,y",)), CdiDevice(name="b", env=("M=x,y",)))

    assert environment_of(render(KIND, devices)) == ("M=x,y",)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b'{"devices": 3}', b'{"devices": [{"containerEdits": 1}]}', b"\xff"],
)
def test_environment_of_gives_nothing_for_other_content(content: bytes) -> None:
    """A damaged file is no evidence of anything, and no fault either."""

    assert environment_of(content) == ()
