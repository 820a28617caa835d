"""What containers get of generic devices."""

from __future__ import annotations

import pytest

from berth.generic.edits import admin_edits
from berth.model.edits import Mount
from berth.model.peripheral import Peripheral
from tests.unit.generic.nodes import group, kvm, node, only, surveyed, tty


def _device(text: str, *nodes: str) -> Peripheral:
    """The device of a group over nodes of these paths."""
    made = [
        node(path, f"1:{number}", mode=0o640, uid=5, gid=20) for number, path in enumerate(nodes)
    ]
    return only(surveyed(made, group("g", text)))


def test_places_are_filled_everywhere() -> None:
    """By wildcards, name, id, number and node."""
    text = """
        match.path = "/dev/cam*x?"
        nodes = ["{node}", "/dev/aux{2}"]
        mounts = [
            { host = "/etc/cam/{1}" },
            { host = "/var/{name}", path = "/data/{index}", read_only = false },
        ]
        env = { ID = "{id}", NODE = "{node}", JSON = '{"a": {2}}' }
        permissions = "rwm"
    """
    edits = _device(text, "/dev/cam12x3", "/dev/aux3").edits

    assert [each.path for each in edits.nodes] == ["/dev/cam12x3", "/dev/aux3"]
    assert {(n.permissions, n.file_mode, n.uid, n.gid) for n in edits.nodes} == {
        ("rwm", 0o640, 5, 20)
    }
    assert edits.mounts == (
        Mount(
            host_path="/etc/cam/12",
            container_path="/etc/cam/12",
            options=("ro", "nosuid", "nodev", "rbind", "rprivate"),
        ),
        Mount(
            host_path="/var/g-cam12x3",
            container_path="/data/0",
            options=("rw", "nosuid", "nodev", "rbind", "rprivate"),
        ),
    )
    assert edits.env == ("ID=cam12x3", "NODE=/dev/cam12x3", 'JSON={"a": 3}')


@pytest.mark.parametrize(
    ("rename", "paths"),
    [
        ("", ["/dev/a/x", "/dev/b/y"]),
        ("/dev/modem{index}", ["/dev/modem0", "/dev/b/y"]),
        ("/dev/in/", ["/dev/in/x", "/dev/in/y"]),
        ("/dev/{name}/", ["/dev/g-a-x/x", "/dev/g-a-x/y"]),
    ],
)
def test_rename_moves_the_node_or_all_of_them(rename: str, paths: list[str]) -> None:
    """A path is the matched node's; a folder takes all, each under its own name."""
    text = f'match.path = "/dev/a/x"\nwith = [{{ path = "/dev/b/y" }}]\nrename = "{rename}"'
    edits = _device(text, "/dev/a/x", "/dev/b/y").edits

    assert [each.path for each in edits.nodes] == paths
    assert [each.host_path for each in edits.nodes] == ["/dev/a/x", "/dev/b/y"]


def test_node_found_by_a_link_is_called_as_the_link() -> None:
    """What the operator wrote is what the program opens; the node itself is what it gets."""
    made = tty(3, links=("/dev/serial/by-id/usb-A", "/dev/modem"))
    edits = only(surveyed([made], group("g", 'match.path = "/dev/modem"'))).edits

    assert [(each.path, each.host_path) for each in edits.nodes] == [("/dev/modem", "/dev/ttyUSB3")]


def test_node_that_matched_may_be_left_out() -> None:
    """It marks the device then, and others are given; it is still what is held."""
    text = 'match.path = "/dev/x"\nnodes = ["/dev/y"]'
    device = _device(text, "/dev/x", "/dev/y")

    assert [each.path for each in device.edits.nodes] == ["/dev/y"]
    assert device.keys == ("gen:dev:/dev/x", "chr:1:0")


def test_node_is_given_once() -> None:
    """However often it is named."""
    text = 'match.path = "/dev/x"\nnodes = ["{node}", "/dev/x"]\nwith = [{ path = "/dev/x" }]'

    assert len(_device(text, "/dev/x").edits.nodes) == 1


@pytest.mark.parametrize(
    ("text", "path", "words"),
    [
        ('mounts = [{ host = "/etc/{1}" }]', "/dev/x..", "'/etc/..' is no path"),
        ('mounts = [{ host = "/etc/{1}" }]', "/dev/x\x1b[", "is no path that a container could"),
        ('env = { A = "{1}" }\nrename = "/dev/y"', "/dev/x\udcff", "is no path that a container"),
        ("", "/dev/x\ny", "is no path that a container could get"),
        (
            'with = [{ path = "/dev/a/b" }, { path = "/dev/c/b" }]\nrename = "/d/"',
            "/dev/x",
            "two of",
        ),
    ],
)
def test_name_that_makes_no_sound_path_is_not_offered(text: str, path: str, words: str) -> None:
    """A node may be called almost anything; it gets no say in what is mounted."""
    whole = f'match.path = "/dev/x*"\n{text}'
    device = only(
        surveyed(
            [node(path, "1:3"), node("/dev/a/b", "1:4"), node("/dev/c/b", "1:5")],
            group("g", whole),
        )
    )

    assert device.exclusion is not None
    assert device.exclusion.reason == "unsound-edits"
    assert words in device.exclusion.detail
    assert str(device.exclusion).isprintable()
    assert not device.edits


def test_value_of_odd_bytes_is_not_offered() -> None:
    """A link's name fills a variable, the node's own is sound."""
    made = node("/dev/y", "1:3", links=("/dev/x\udcff",))
    text = 'match.path = "/dev/x*"\nnodes = ["/dev/z"]\nenv = { A = "{1}" }'
    device = only(surveyed([made, node("/dev/z", "1:4")], group("g", text)))

    assert str(device.exclusion) == (
        "unsound-edits: 'A=\\udcff' is no text that a variable could hold"
    )


def test_extra_node_that_must_not_be_handed_out_is_told() -> None:
    """The leave is asked for every node of the device."""
    nodes = [node("/dev/x", "1:3"), node("/opt/y", "1:4", links=("/dev/y",))]
    device = only(
        surveyed(nodes, group("g", 'match.path = "/dev/x"\nwith = [{ path = "/dev/y" }]'))
    )

    assert str(device.exclusion).startswith("outside-dev: /opt/y lies outside /dev")


def test_admin_claim_gets_the_nodes_alone() -> None:
    """With lesser rights unless the operator gives more; no mount, no variable (GH §10.1)."""
    text = 'match.path = "/dev/kvm"\nenv = { A = "b" }\nmounts = [{ host = "/x" }]'
    plain, more = group("g", text), group("g", f'{text}\nadmin_permissions = "rw"')
    edits = only(surveyed([kvm()], plain)).edits

    assert [each.permissions for each in admin_edits(edits, plain).nodes] == ["r"]
    assert [each.permissions for each in admin_edits(edits, more).nodes] == ["rw"]
    assert (admin_edits(edits, plain).env, admin_edits(edits, plain).mounts) == ((), ())
