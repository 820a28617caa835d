"""CDI files as runtimes accept them."""

from __future__ import annotations

import json

import pytest

from berth.cdi.document import CdiDevice, environment_of, qualified, render
from berth.errors import LocalProtocolError
from berth.model.edits import DeviceNode, Edits, Hook, Mount, NodeType

KIND = "berth.dev/nic"


def rendered(*devices: CdiDevice, kind: str = KIND, common: Edits = Edits()) -> dict[str, object]:
    document: dict[str, object] = json.loads(render(kind, devices, common))
    return document


def node(path: str, host_path: str) -> DeviceNode:
    """A character device as GPUs have them."""
    return DeviceNode(
        path=path, host_path=host_path, type=NodeType.CHAR, major=195, minor=0, gid=44
    )


def test_render_gives_what_the_schema_asks_for() -> None:
    """A file holds kind and devices, each with its edits and nothing that is empty."""

    mount = Mount(host_path="/h/metadata.json", container_path="/c/m.json", options=("ro", "bind"))

    assert rendered(CdiDevice(name="uid_nic", edits=Edits(env=("A=b",), mounts=(mount,)))) == {
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

    assert rendered(CdiDevice(name=name, edits=Edits(env=("A=b",))))["cdiVersion"] == version


def test_render_gives_nodes_with_numbers_and_owner() -> None:
    """With type and numbers a runtime does not look at the host's node; owner 0 is an owner too."""

    edits = Edits(nodes=(node("/dev/nvidia0", "/dev/nvidia0"),))

    assert rendered(CdiDevice(name="a", edits=edits))["devices"] == [
        {
            "name": "a",
            "containerEdits": {
                "deviceNodes": [
                    {
                        "path": "/dev/nvidia0",
                        "type": "c",
                        "major": 195,
                        "minor": 0,
                        "permissions": "rw",
                        "fileMode": 0o660,
                        "uid": 0,
                        "gid": 44,
                    }
                ]
            },
        }
    ]


def test_render_gives_common_edits_once_for_the_file() -> None:
    """What every user of the file gets stands beside its devices."""

    device = CdiDevice(name="a", edits=Edits(env=("A=b",)))

    document = rendered(device, common=Edits(env=("ALL=1",)))
    assert document["containerEdits"] == {"env": ["ALL=1"]}
    assert "containerEdits" not in rendered(device)


def test_render_gives_hooks_and_groups() -> None:
    """What another tool wants run is kept as it is; groups need 0.7.0."""

    hook = Hook(name="createContainer", path="/usr/bin/hook", args=("hook", "x"))
    document = rendered(CdiDevice(name="a", edits=Edits(hooks=(hook,), gids=(44,))))

    assert document["cdiVersion"] == "0.7.0"
    assert document["devices"] == [
        {
            "name": "a",
            "containerEdits": {
                "hooks": [
                    {"hookName": "createContainer", "path": "/usr/bin/hook", "args": ["hook", "x"]}
                ],
                "additionalGids": [44],
            },
        }
    ]


@pytest.mark.parametrize(
    ("kind", "path", "common", "version"),
    [
        ("berth.dev/gpu", "/dev/x", "/dev/x", "0.3.0"),
        ("berth.dev/gpu", "/dev/modem0", "/dev/x", "0.5.0"),
        ("berth.dev/gpu", "/dev/x", "/dev/modem0", "0.5.0"),
        ("berth.dev/gpu.new", "/dev/x", "/dev/x", "0.6.0"),
        ("gpu.berth.dev/gpu", "/dev/x", "/dev/x", "0.3.0"),
    ],
)
def test_render_declares_the_lowest_version_that_holds_the_contents(
    kind: str, path: str, common: str, version: str
) -> None:
    """A node under another name needs 0.5.0 wherever it stands, a class with a dot 0.6.0."""

    device = CdiDevice(name="a", edits=Edits(nodes=(node(path, "/dev/x"),)))
    document = rendered(device, kind=kind, common=Edits(nodes=(node(common, "/dev/x"),)))

    assert document["cdiVersion"] == version


@pytest.mark.parametrize(
    "devices",
    [
        (),
        (CdiDevice(name="empty"),),
        (
            CdiDevice(name="twice", edits=Edits(env=("A=b",))),
            CdiDevice(name="twice", edits=Edits(env=("A=c",))),
        ),
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

    devices = (
        CdiDevice(name="a", edits=Edits(env=("M=x,y",))),
        CdiDevice(name="b", edits=Edits(env=("M=x,y",))),
    )

    assert environment_of(render(KIND, devices)) == ("M=x,y",)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b'{"devices": 3}', b'{"devices": [{"containerEdits": 1}]}', b"\xff"],
)
def test_environment_of_gives_nothing_for_other_content(content: bytes) -> None:
    """A damaged file is no evidence of anything, and no fault either."""

    assert environment_of(content) == ()
