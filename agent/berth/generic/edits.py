"""What a container gets of a generic device: nodes with their numbers, mounts, environment.

Source: GH §4.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import attrs

from berth.config.generic import GenericGroup
from berth.config.template import Template
from berth.generic.identity import lasting_link
from berth.generic.matching import Fit, refusal
from berth.host.nodefacts import DevNode
from berth.model.device import Exclusion
from berth.model.edits import DeviceNode, Edits, Mount

_READ_ONLY: Final = ("ro", "nosuid", "nodev", "rbind", "rprivate")
_WRITABLE: Final = ("rw", "nosuid", "nodev", "rbind", "rprivate")


@attrs.frozen(kw_only=True)
class Subject:
    """A node that a group's conditions fit, and what it is called.

    Attributes:
        index: Its number in the group.
    """

    node: DevNode
    group: GenericGroup
    fit: Fit
    identity: str = ""
    name: str = ""
    index: int = 0

    @property
    def values(self) -> Mapping[str, str]:
        """What is filled into the places of templates."""
        wildcards = {str(number): text for number, text in enumerate(self.fit.taken, start=1)}
        return {
            "node": self.fit.name,
            "name": self.name,
            "id": self.name.removeprefix(f"{self.group.name}-"),
            "index": str(self.index),
            **wildcards,
        }


@attrs.frozen(kw_only=True)
class Given:
    """A node that goes into the container.

    Attributes:
        path: Where it is in the container unless it is renamed.
        own: It belongs to this device alone; others are the system's, such as a sound timer.
    """

    node: DevNode
    path: str
    own: bool


def given(subject: Subject, by_name: Mapping[str, DevNode]) -> tuple[Given, ...] | Exclusion:
    """The nodes of a device, the one that matched among them if it is given.

    Args:
        by_name: Every node by each of its names.

    Returns:
        Why it is not offered, where a node is missing or not to be handed out.
    """
    found: dict[str, Given] = {}
    for template, optional in _asked(subject.group):
        path = template.filled(subject.values)
        own = bool(template.places)
        node = subject.node if path == subject.fit.name else by_name.get(path)
        if node is None:
            if optional:
                continue
            return Exclusion(reason="nodes-missing", detail=f"{path} is not there")
        reason = refusal(node, subject.group)
        if reason is not None:
            return reason
        found.setdefault(node.number, Given(node=node, path=path, own=own))
    return tuple(found.values())


def _asked(group: GenericGroup) -> Iterator[tuple[Template, bool]]:
    yield from ((template, False) for template in group.nodes)
    yield from ((beside.path, beside.optional) for beside in group.beside)


def edits(subject: Subject, nodes: tuple[Given, ...]) -> Edits | Exclusion:
    """All that a container gets of a device.

    Returns:
        Why it is not offered, where what the wildcards took makes no sound path or text.
    """
    group, values = subject.group, subject.values
    made = Edits(
        env=tuple(f"{name}={value.filled(values)}" for name, value in group.env.items()),
        nodes=tuple(_device_node(subject, each) for each in nodes),
        mounts=tuple(
            Mount(
                host_path=mount.host.filled(values),
                container_path=mount.inside.filled(values),
                options=_READ_ONLY if mount.read_only else _WRITABLE,
            )
            for mount in group.mounts
        ),
    )
    fault = _fault(made)
    return Exclusion(reason="unsound-edits", detail=fault) if fault else made


def admin_edits(made: Edits, group: GenericGroup) -> Edits:
    """What a claim with admin access gets: the nodes alone, with lesser rights (GH §10.1)."""
    rights = group.admin_permissions
    return Edits(nodes=tuple(attrs.evolve(node, permissions=rights) for node in made.nodes))


def _device_node(subject: Subject, each: Given) -> DeviceNode:
    node = each.node
    return DeviceNode(
        path=_renamed(subject, each),
        host_path=node.path,
        type=node.type,
        major=node.major,
        minor=node.minor,
        permissions=subject.group.permissions,
        file_mode=node.mode,
        uid=node.uid,
        gid=node.gid,
        link=lasting_link(node, subject.identity if node is subject.node else ""),
    )


def _renamed(subject: Subject, each: Given) -> str:
    rename = subject.group.rename.filled(subject.values)
    if rename.endswith("/"):
        return rename + each.path.rpartition("/")[2]
    return rename if rename and each.node is subject.node else each.path


def _fault(made: Edits) -> str:
    """What is wrong with the edits; a node's name may hold almost any bytes."""
    paths = [path for node in made.nodes for path in (node.path, node.host_path)]
    paths += [path for mount in made.mounts for path in (mount.host_path, mount.container_path)]
    for path in paths:
        if not path.isprintable() or not {".", ".."}.isdisjoint(path.split("/")):
            return f"{path!a} is no path that a container could get"
    for entry in made.env:
        if not entry.isprintable():
            return f"{entry!a} is no text that a variable could hold"
    inside = [node.path for node in made.nodes]
    twice = next((path for path in inside if inside.count(path) > 1), "")
    return f"two of its nodes would be {twice} in the container" if twice else ""
