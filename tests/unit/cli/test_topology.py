"""``berth topology``: what is told of a node, and its picture."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import attrs
import pytest

from berth.cli.picture.drawing import draw
from berth.errors import ConfigError
from berth.model.provision import UnitBlock
from berth.node.views import topology_view
from tests.unit.cli.conftest import Berth, Serve, golden
from tests.unit.node.views.fourroots import INVENTORY, PODS, container, layout, pod

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(name="answer")
def _answer(tmp_path: Path) -> dict[str, Any]:
    """What the daemon tells of the machine with four roots."""
    return topology_view(layout(tmp_path / "sys", *PODS, warnings=("kubelet is slow",)))


def texts(picture: str) -> list[str]:
    """Every line that is written in a picture."""
    return [
        "".join((one.text or "", *(tip.tail or "" for tip in one)))
        for one in parsed(picture).iter(f"{SVG}text")
    ]


def parsed(picture: str) -> ET.Element:
    """The picture as XML, which is our own."""
    return ET.fromstring(picture)  # noqa: S314 - nobody else has written it


def test_node_is_shown_with_everybody_who_has_something(
    berth: Berth, daemon: Serve, answer: dict[str, Any]
) -> None:
    """Pods without anything are counted."""

    asked = daemon({"topology": answer})
    ran = berth("topology")

    assert asked[0]["pod"] == ""
    assert (ran.code, ran.out) == (0, golden("topology.txt", ran.out))
    assert ran.err == "warning: kubelet is slow\n"


def test_one_pod_is_shown_alone_and_with_all_of_its_containers(
    berth: Berth, daemon: Serve, tmp_path: Path
) -> None:
    """Also the one that has nothing."""

    view = topology_view(layout(tmp_path / "sys", *PODS), "default/near")
    asked = daemon({"topology": view})
    ran = berth("topology", "default/near")

    assert asked[0]["pod"] == "default/near"
    assert (ran.code, ran.out) == (0, golden("topology-pod.txt", ran.out))


def test_answer_for_programs_is_the_daemons(
    berth: Berth, daemon: Serve, answer: dict[str, Any]
) -> None:
    """As it came."""

    daemon({"topology": answer})

    assert berth("topology", "--json").json == answer


def test_picture_is_written_and_shows_what_the_golden_one_shows(
    berth: Berth, daemon: Serve, answer: dict[str, Any], tmp_path: Path
) -> None:
    """Everybody may read it; nothing else is said unless that is asked for too."""

    daemon({"topology": answer})
    file = tmp_path / "node.svg"
    ran = berth("topology", "--svg", file)
    drawn = file.read_text()

    assert (ran.code, ran.out, file.stat().st_mode & 0o777) == (0, "", 0o644)
    assert drawn == golden("topology.svg", drawn)
    assert berth("topology", "--svg", file, "--json").json == answer


def test_picture_that_cannot_be_written_is_a_finding(
    berth: Berth, daemon: Serve, answer: dict[str, Any], tmp_path: Path
) -> None:
    """The file is named."""

    daemon({"topology": answer})
    ran = berth("topology", "--svg", tmp_path / "none/node.svg")

    assert (ran.code, "none/node.svg: cannot write" in ran.err) == (1, True)


def test_pod_that_is_not_here_and_no_daemon_end_as_they_do_elsewhere(
    berth: Berth, daemon: Serve
) -> None:
    """1 for a refusal; 3, since nobody else may ask kubelet."""

    assert berth("topology").code == 3
    daemon({"topology": ConfigError("pod x", "is none of this node's active pods")})
    ran = berth("topology", "x")
    assert (ran.code, ran.err) == (1, "berth: pod x: is none of this node's active pods\n")


def test_picture_keeps_within_its_borders_and_tells_every_owner(answer: dict[str, Any]) -> None:
    """Each shape lies within the picture; each device that somebody has bears its number."""

    root = parsed(draw(answer))
    width, height = int(root.attrib["width"]), int(root.attrib["height"])

    for shape in root.iter(f"{SVG}rect"):
        x, y = int(shape.get("x", 0)), int(shape.get("y", 0))
        assert 0 <= x <= x + int(shape.attrib["width"]) <= width
        assert 0 <= y <= y + int(shape.attrib["height"]) <= height
    written = texts(draw(answer))
    for pod_ in answer["pods"]:
        for each in pod_["containers"]:
            name = f"{pod_['namespace']}/{pod_['name']}/{each['name']}"
            assert (name in written) == bool(each["cpus"] or each["memory"] or each["devices"])


def test_names_from_outside_stay_words(tmp_path: Path) -> None:
    """Nothing that a device is called is markup, or ends the file."""

    odd = "<script>&\"'\x1b]]>"
    nic, *others = INVENTORY.nics
    inventory = attrs.evolve(INVENTORY, nics=(attrs.evolve(nic, ifname=odd), *others))

    drawn = draw(topology_view(layout(tmp_path / "sys", *PODS, inventory=inventory)))

    assert any("<script>&\"'\\x1b]]>" in text for text in texts(drawn))
    assert "<script" not in drawn


def test_names_from_outside_begin_no_line_and_steer_no_terminal(
    berth: Berth, daemon: Serve, tmp_path: Path
) -> None:
    """A device of another plugin is called as a verdict, and its resource by a control sequence."""

    forged = UnitBlock(resource="x/\x9b31m\u202e\U000e0001", ids=("q\n  main: aligned",))
    view = topology_view(
        layout(tmp_path / "sys", pod("odd", container("odd", "c", units=(forged,))))
    )
    daemon({"topology": view})
    told, programs = berth("topology"), berth("topology", "--json")

    assert "where q\\n  main: aligned is" in told.out
    assert not any(line.startswith("  main: aligned") for line in told.out.splitlines())
    assert all(line.isprintable() for line in programs.out.splitlines())
    assert programs.json == view


def test_free_devices_are_drawn_up_to_a_number(tmp_path: Path) -> None:
    """Of hundreds of VFs nobody reads each: those that somebody has are all there."""

    first = INVENTORY.nics[0]
    many = [
        attrs.evolve(first, name=f"vf-{number}", identity=f"vf:{number}", held_by=())
        for number in range(64)
    ]
    inventory = attrs.evolve(INVENTORY, nics=(*INVENTORY.nics, *many))

    written = texts(draw(topology_view(layout(tmp_path / "sys", *PODS, inventory=inventory))))

    assert "and 59 devices more that nobody has" in written
    assert len([text for text in written if text.startswith("vf-")]) == 5
    assert first.name in written


def test_many_ids_of_many_containers_are_told_soon(berth: Berth, daemon: Serve) -> None:
    """The time grows with what is told, and not with containers times devices."""

    places = {"pcie_root": "", "pci": "", "numa": [0], "ifname": "", "path": "", "held_by": []}
    devices = [
        {"name": f"id-{n}", "kind": "x.com/y", "containers": [f"a/p{n % 2000}/main"], **places}
        for n in range(10_000)
    ]
    verdict = {"verdict": "none", "nodes": [], "roots": [], "unknown": [], "says": ""}
    nothing = {"memory": [], "devices": [], "cpus_of": "node", "numa": verdict, "pcie": verdict}
    pods = [
        {
            "namespace": "a",
            "name": f"p{n}",
            "containers": [{"name": "main", "cpus": [n], **nothing}],
        }
        for n in range(2000)
    ]
    node = {"id": 0, "cpus": list(range(2000)), "memory_bytes": 0}
    answer = {"node": "n", "numa": [node], "devices": devices, "pods": pods, "warnings": []}
    daemon({"topology": answer})

    began = time.process_time()
    drawn = draw(answer)
    drawn_s = time.process_time() - began
    ran = berth("topology")
    ran_s = time.process_time() - began - drawn_s

    assert drawn.count("id-9999") == 2
    assert "a/p1999/main" in ran.out
    # Seen: 0.2 s and 0.5 s; more than the limits when each container was compared with each device,
    # and rich drew the table.
    assert (drawn_s < 3, ran_s < 5) == (True, True)


def test_empty_node_is_drawn_too(tmp_path: Path) -> None:
    """One NUMA node without anything, as right after the daemon's start."""

    bare = layout(tmp_path / "sys", pod("idle", container("idle", "main")), numa=(), node="")
    written = texts(draw(topology_view(attrs.evolve(bare, inventory=type(INVENTORY)()))))

    assert written[0] == "This node"
    assert "0 containers with something of their own" in written[1]
