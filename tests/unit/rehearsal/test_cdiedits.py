"""Container edits as a runtime checks and applies them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.cdi.document import CdiDevice, edits_json, render
from berth.errors import RemoteProtocolError
from berth.model.edits import DeviceNode, Edits, Hook, Mount, NodeType
from berth.rehearsal.cdiedits import applied, edits_of, faults_of, least_version, node_of_host
from berth.rehearsal.cdispecs import resolve

FULL = DeviceNode(
    path="/dev/berth/full",
    host_path="/dev/full",
    type=NodeType.CHAR,
    major=1,
    minor=7,
    permissions="rwm",
    file_mode=0o600,
    uid=7,
    gid=8,
)
HOOK = Hook(name="createContainer", path="/bin/tool", args=("tool", "x"), env=("A=1",))


def test_our_own_edits_are_read_back(tmp_path: Path) -> None:
    """Nodes, hooks, groups and the file's common edits come through as they were written."""

    edits = Edits(env=("X=1",), nodes=(FULL,), hooks=(HOOK,), gids=(44,))
    (tmp_path / "f.json").write_bytes(
        render("berth.dev/gpu", [CdiDevice(name="a", edits=edits)], Edits(env=("ALL=1",)))
    )

    assert resolve(["berth.dev/gpu=a"], [tmp_path]) == Edits(
        env=("ALL=1", "X=1"), nodes=(FULL,), hooks=(HOOK,), gids=(44,)
    )


@pytest.mark.parametrize(
    ("member", "entry", "found"),
    [
        ("env", "A", "invalid environment variable 'A'"),
        ("env", "=1", "invalid environment variable '=1'"),
        ("deviceNodes", {}, "empty"),
        ("deviceNodes", {"path": "/dev/x", "type": "z"}, "invalid type 'z'"),
        ("deviceNodes", {"path": "/dev/x", "type": "p"}, "FIFO"),
        ("deviceNodes", {"path": "/dev/x", "permissions": "rx"}, "invalid permissions 'rx'"),
        ("deviceNodes", {"path": "/dev/x", "major": "1"}, "major '1'"),
        ("deviceNodes", {"path": "/dev/x", "minor": True}, "minor True"),
        ("deviceNodes", {"path": "/dev/x", "mode": 1}, "does not know: mode"),
        ("deviceNodes", "/dev/x", "no object"),
        ("mounts", {"hostPath": "/a"}, "containerPath is empty"),
        ("hooks", {"hookName": "later", "path": "/a"}, "invalid name 'later'"),
        ("hooks", {"hookName": "prestart"}, "empty path"),
        ("hooks", {"hookName": "prestart", "path": "/a", "env": ["B"]}, "'B'"),
        ("additionalGids", -1, "group -1"),
        ("intelRdt", "x", "does not carry out: intelRdt"),
    ],
)
def test_fault_of_an_edit_is_told(member: str, entry: Any, found: str) -> None:
    """What the library refuses is refused, by name."""

    (fault,) = faults_of({member: [entry]})

    assert found in fault


@pytest.mark.parametrize(
    ("edits", "version"),
    [
        ({"env": ["A=1"]}, "0.3.0"),
        ({"mounts": [{"type": "bind"}]}, "0.4.0"),
        ({"deviceNodes": [{"hostPath": "/dev/x"}]}, "0.5.0"),
        ({"additionalGids": [1]}, "0.7.0"),
    ],
)
def test_file_of_a_version_that_is_too_low_is_refused(
    tmp_path: Path, edits: dict[str, Any], version: str
) -> None:
    """A runtime's library compares what stands in a file with the version that it tells."""

    whole = {
        "deviceNodes": [{"path": "/dev/x", **one} for one in edits.get("deviceNodes", ())],
        "mounts": [{"hostPath": "/a", "containerPath": "/b", **m} for m in edits.get("mounts", ())],
    }
    document = {
        "cdiVersion": "0.3.0",
        "kind": "berth.dev/gpu",
        "devices": [{"name": "a", "containerEdits": {**edits, **whole}}],
    }
    (tmp_path / "f.json").write_text(json.dumps(document), encoding="utf-8")

    assert least_version(edits) == version
    if version != "0.3.0":
        with pytest.raises(RemoteProtocolError, match=f"only version {version} has"):
            resolve(["berth.dev/gpu=a"], [tmp_path])


def test_what_a_node_leaves_out_is_the_hosts(tmp_path: Path) -> None:
    """Numbers, owner and mode; a name that leads to a node stands for it."""

    link = tmp_path / "link"
    link.symlink_to("/dev/null")
    seen = Path("/dev/null").stat()

    (node,) = edits_of({"deviceNodes": [{"path": "/dev/x", "hostPath": str(link)}]}).nodes

    assert (node.type, node.major, node.minor) == (NodeType.CHAR, 1, 3)
    assert (node.path, node.host_path, node.permissions) == ("/dev/x", str(link), "rwm")
    assert (node.uid, node.gid) == (seen.st_uid, seen.st_gid)


@pytest.mark.parametrize(
    ("node", "found"),
    [
        ({"path": "/dev/berth-has-no-such"}, "No such file"),
        ({"path": "/dev"}, "not a device node"),
        ({"path": "/dev/null", "type": "b"}, "host type mismatch"),
    ],
)
def test_node_that_the_host_lacks_fails_its_container(
    tmp_path: Path, node: dict[str, Any], found: str
) -> None:
    """Not the file: other devices in it are as good as before."""

    devices = [
        {"name": "bad", "containerEdits": {"deviceNodes": [node]}},
        {"name": "good", "containerEdits": {"env": ["A=1"]}},
    ]
    document = {"cdiVersion": "0.5.0", "kind": "berth.dev/x", "devices": devices}
    (tmp_path / "f.json").write_text(json.dumps(document), encoding="utf-8")

    with pytest.raises(RemoteProtocolError, match=found) as refused:
        resolve(["berth.dev/x=bad"], [tmp_path])

    assert refused.value.where == "CDI device injection failed"
    assert resolve(["berth.dev/x=good"], [tmp_path]).env == ("A=1",)


def test_later_edit_of_a_place_stays() -> None:
    """Of two nodes at one path, and of two values of one variable."""

    other = node_of_host("/dev/berth/full", "/dev/null")
    mount = Mount(host_path="/a", container_path="/b", options=())
    first = Edits(env=("A=1", "B=1"), nodes=(FULL,), mounts=(mount,), gids=(1, 2))

    both = applied([first, Edits(env=("A=2",), nodes=(other,), gids=(2, 3))])

    assert both == Edits(
        env=("A=2", "B=1"), nodes=(other,), mounts=(mount,), hooks=(), gids=(1, 2, 3)
    )


def test_group_of_root_is_left_out() -> None:
    """As the library does, without a word."""

    assert edits_of({"additionalGids": [0, 5]}).gids == (5,)


NODES = st.builds(
    DeviceNode,
    path=st.from_regex(r"/dev/[a-z]{1,8}", fullmatch=True),
    host_path=st.from_regex(r"/dev/[a-z]{1,8}", fullmatch=True),
    type=st.sampled_from(NodeType),
    major=st.integers(1, 4095),
    minor=st.integers(0, 1048575),
    permissions=st.sampled_from(["r", "rw", "rwm"]),
    file_mode=st.integers(0, 0o777),
    uid=st.integers(0, 65535),
    gid=st.integers(0, 65535),
)


@given(st.lists(NODES, unique_by=lambda node: node.path))
def test_nodes_come_through_as_written(nodes: list[DeviceNode]) -> None:
    """Whatever a node says of itself, the host is not asked for it."""

    value = edits_json(Edits(nodes=tuple(nodes)))

    assert list(faults_of(value)) == []
    assert edits_of(value).nodes == tuple(nodes)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["path", "type", "env", "hookName"]), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(
    st.dictionaries(
        st.sampled_from(["env", "deviceNodes", "mounts", "hooks", "additionalGids"]),
        st.lists(JSON, max_size=2),
    )
)
def test_garbage_gives_faults_and_nothing_else(value: dict[str, Any]) -> None:
    """Entries of any form are judged without a fall."""

    assert all(isinstance(fault, str) for fault in faults_of(value))


def test_node_of_a_host_is_told_with_its_mode() -> None:
    """Mode and owner come from the file."""

    seen = Path("/dev/full").stat()

    node = node_of_host("/dev/a", "/dev/full", "r")

    assert node.permissions == "r"
    assert node.file_mode == seen.st_mode & 0o7777
    assert (node.major, node.minor) == (os.major(seen.st_rdev), os.minor(seen.st_rdev))
