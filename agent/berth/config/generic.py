"""The ``[[generic]]`` tables: device nodes that are offered as devices, by conditions on them.

Contract: GH §4; §5.1 for ``door``, ``resource`` and ``inject``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Final

import attrs
from typing_extensions import override

from berth.config.attributes import OwnAttributes
from berth.config.bind import GenericBind
from berth.config.decode import Written, key, table, tables
from berth.config.doors import Door, Inject, resource
from berth.config.finding import Cursor, toml_text
from berth.config.forms import Choice, Flag, Form, Several, Text, Whole, listed
from berth.config.genericmatch import GenericMatch
from berth.config.health import GenericHealth
from berth.config.match import DNS_LABEL
from berth.config.nodecost import COSTS, MEANING, check_capacities, check_door
from berth.config.skip import Skip, check_skip
from berth.config.template import WORDS, Places, Template, placed
from berth.model.device import Attribute
from berth.model.nodecost import NodeCosts

COUNT_LIMIT: Final = 1024
"""Most holders of one device; each is an id in the list that kubelet gets (GH §4)."""

OWN_ATTRIBUTES_LIMIT: Final = 20
"""Most attributes that operators may add, over all generic groups.

A device takes 32 attributes and capacities together, all devices of a type carry the same keys, and
8 own attributes, 3 standard ones and the capacity ``slots`` are berth's (GH §4).
"""

RESERVED: Final = frozenset(
    {"type", "group", "node", "subsystem", "usbVendor", "usbProduct", "serial", "model", "slots"}
)
"""Bare names that generic devices carry anyway."""

DEFAULT_NODES: Final = (Template("{node}"),)
"""Only what matched."""

_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _permissions(text: str) -> str | None:
    ordered = "".join(letter for letter in "rwm" if letter in text)
    return ordered if text and sorted(ordered) == sorted(text) else None


def _clean(text: str) -> str | None:
    """An absolute path to one thing; no relative ways, nothing that cannot be printed."""
    parts = text.removesuffix("/").split("/")
    clean = parts[0] == "" and len(parts) > 1 and {"", ".", ".."}.isdisjoint(parts[1:])
    return text if clean and text.isprintable() and len(text) < 4096 else None


def _path(text: str) -> str | None:
    return None if text.endswith("/") else _clean(text)


def _node(text: str) -> str | None:
    return text if text == "{node}" else placed(_path)(text)


def _value(text: str) -> str | None:
    return text if "\0" not in text and len(text.encode()) <= 4096 else None


def _wildcard_hint(text: str) -> str:
    if any(sign in text for sign in "*?["):
        return "wildcards are taken in match.path only; write {1} for what the first one took"
    return ""


RESOURCE: Final = resource("lab.example/modem")
PERMISSIONS: Final = Text(what='a subset of "rwm"', parse=_permissions)
_PLAIN_PATH: Final = Text(what="an absolute path without ..", parse=placed(_path))
_TREE_PATH: Final = Places(text=_PLAIN_PATH, words=WORDS)
_NODE: Final = Places(
    text=Text(
        what='"{node}", which is what matched, or the absolute path of another node',
        parse=lambda text: None if _wildcard_hint(text) else _node(text),
        hint=_wildcard_hint,
    ),
    words=("node",),
)
_BESIDE: Final = Places(
    text=Text(
        what="the absolute path of a node",
        parse=lambda text: None if _wildcard_hint(text) else placed(_path)(text),
        hint=_wildcard_hint,
    ),
)
_RENAME: Final = Places(
    text=Text(
        what='an absolute path, which may end with a slash to keep the node\'s own name, or ""',
        parse=lambda text: text if not text else placed(_clean)(text),
    ),
    words=WORDS,
)


@attrs.frozen
class Environment(Form["Mapping[str, Template]"]):
    """A table of environment variables."""

    @property
    @override
    def label(self) -> str:
        return "table of variables and their texts"

    @override
    def read(self, value: object, cursor: Cursor) -> Mapping[str, Template] | None:
        if not isinstance(value, Mapping):
            cursor.refuse(value, rule='it must be a table such as { ALSA_CARD = "{1}" }')
            return None
        form = Places(text=Text(what="text", parse=_value), words=WORDS)
        read: dict[str, Template] = {}
        for name, raw in value.items():
            here = cursor.at(name)
            if not _VARIABLE.fullmatch(name):
                here.say("is no name of a variable", rule="letters, digits and underscores")
            elif name.startswith("BERTH_"):
                here.say("begins with BERTH_", rule="such variables are berth's own")
            template = form.read(raw, here)
            if template is not None:
                read[name] = template
        return read


@attrs.frozen(kw_only=True)
class Beside:
    """An item of with: a node that goes with the one that matched."""

    path: Template = key(
        _BESIDE,
        Template(""),
        "Path of the node; `{1}` and so on stand for what the wildcards of `match.path` took.",
        required=True,
    )
    optional: bool = key(
        Flag(), False, "Whether the device is offered also where this node is absent."
    )


@attrs.frozen(kw_only=True)
class BindMount:
    """An item of mounts: a file or folder of the host."""

    host: Template = key(_TREE_PATH, Template(""), "Path on the host.", required=True)
    path: Template = key(
        _TREE_PATH,
        Template(""),
        "Path in the container; as on the host when it is not given.",
        known_as=("container", "containerPath", "target"),
    )
    read_only: bool = key(Flag(), True, "Whether the container can only read it.")

    @property
    def inside(self) -> Template:
        """Where the container finds it."""
        return self.path if self.path.text else self.host


def _check_mounts(mounts: tuple[BindMount, ...], cursor: Cursor) -> None:
    for (_, one), (second, other) in combinations(enumerate(mounts), 2):
        if one.inside.text and one.inside == other.inside:
            cursor.at(second).say(
                f"lies at {other.inside}, as does another", mend="give it another path"
            )


@attrs.frozen(kw_only=True)
class GenericGroup:
    """[[generic]]: device nodes that are offered alike."""

    name: str = key(
        DNS_LABEL,
        "",
        "Name of the group, published as the attribute `group`; no two are alike.",
        required=True,
    )
    match: GenericMatch = table(
        GenericMatch,
        "Which nodes are devices of the group: all conditions given must hold, "
        "the items of one are alternatives.",
        required=True,
    )
    nodes: tuple[Template, ...] = key(
        Several(item=_NODE, least=1, most=64),
        DEFAULT_NODES,
        "Nodes that the container gets. `{node}` is what matched, "
        "`{1}` and so on are what the wildcards of `match.path` took.",
    )
    beside: tuple[Beside, ...] = tables(
        Beside, "More nodes that belong to the device, which may be optional.", name="with"
    )
    rename: Template = key(
        _RENAME,
        Template(""),
        "Path of the matched node in the container; with a slash at its end all nodes are put "
        "there under their own names. `{index}` is the device's number in its group, "
        "`{name}` its name in slices, `{id}` that name less the group's. "
        "Empty: as on the host.",
    )
    permissions: str = key(
        PERMISSIONS, "rw", "What the container may do: read, write, make the node."
    )
    mounts: tuple[BindMount, ...] = tables(
        BindMount,
        "Files and folders of the host that the container gets too.",
        name="mounts",
        check=_check_mounts,
    )
    env: Mapping[str, Template] = key(
        Environment(),
        {},
        "Environment variables of the container; of two devices of one container "
        "the later one's value holds.",
    )
    count: int = key(
        Whole(least=1, most=COUNT_LIMIT),
        1,
        "How many may hold one device at once. It is not divided: they see each other.",
    )
    allow_block: bool = key(Flag(), False, "Whether block devices, such as disks, are offered.")
    allow_outside_dev: bool = key(
        Flag(), False, "Whether nodes are offered that lie, or lead, outside `/dev`."
    )
    attributes: Mapping[str, Attribute] = key(
        OwnAttributes(reserved=RESERVED),
        {},
        "Own attributes of the devices, for selectors: text, whole numbers, true or false, "
        'or `{ version = "1.2.3" }`.',
    )
    door: Door = key(
        Choice(kind=Door),
        Door.DRA,
        "How the devices are asked for. `dra`: by claims. `plugin`: as a resource. "
        "`both`: either, and the node sees to it that no two get one. "
        "`auto`: by claims where the cluster knows them, else as a resource.",
    )
    resource: str = key(
        RESOURCE,
        "",
        "Name of the resource. Empty: the driver's name, a slash and the group's.",
        known_as=("resourceName",),
    )
    inject: Inject = key(
        Choice(kind=Inject),
        Inject.AUTO,
        "How a device that was asked for as a resource gets into the container. "
        "`specs`: kubelet tells the runtime. `cdi`: the runtime reads it from a file. "
        "`auto`: `specs`, which every runtime takes.",
    )
    admin_permissions: str = key(
        PERMISSIONS, "r", "What a claim with admin access may do with the nodes."
    )
    node_cost: NodeCosts = key(COSTS, {}, MEANING)
    skip_node_operations: Skip = key(
        Choice(kind=Skip),
        Skip.NONE,
        "What kubelet does without asking berth. `none`: nothing. "
        "`unprepare`: it ends a claim; berth finds out and clears up. "
        "`all`: it starts a claim too, so pods start while berth is away, and their containers get "
        "nothing of the device: for what is only counted, or is in the containers anyway. "
        "Alpha in Kubernetes 1.37; without it there berth is asked as ever.",
    )
    health: GenericHealth = table(GenericHealth, "How the devices are watched.")
    bind: GenericBind = table(
        GenericBind, "What the binding of a pod waits for, once it was given a device."
    )

    def check(self, cursor: Cursor, written: Written) -> None:
        """Places that need a wildcard, paths that need leave, keys that go with a door."""
        if "match" not in written.at_fault:
            self._check_wildcards(cursor)
            self._check_outside(cursor)
        if self.bind.is_wanted and self.door is Door.PLUGIN and "door" not in written.at_fault:
            cursor.at("bind").warn(
                'is not used with door "plugin": no scheduler waits for a resource'
            )
        for name in ("resource", "inject"):
            if name in written.given and self.door is Door.DRA and "door" not in written.at_fault:
                cursor.at(name).warn('is not used with door "dra"')
        check_capacities(self.node_cost, ("slots",) if self.count > 1 else (), cursor)
        check_door(self.node_cost, self.door, cursor, written)
        check_skip(self.skip_node_operations, self.door, cursor, written)
        if self.skip_node_operations is Skip.ALL:
            self.bind.check_unprepared(cursor.at("bind"))

    def _check_wildcards(self, cursor: Cursor) -> None:
        paths = self.match.path
        there = min((path.wildcards for path in paths), default=0)
        for steps, template in self._templates():
            if template.wildcards > there:
                told = f"has {there}" if paths else "is not given"
                cursor.at(*steps).say(
                    f"holds {{{template.wildcards}}}",
                    rule=f"it stands for a wildcard of match.path, which {told}",
                    mend="drop it, or add the wildcard",
                )

    def _templates(self) -> Iterator[tuple[tuple[str | int, ...], Template]]:
        yield from ((("nodes", number), node) for number, node in enumerate(self.nodes))
        yield from (
            (("with", number, "path"), item.path) for number, item in enumerate(self.beside)
        )
        yield ("rename",), self.rename
        for number, mount in enumerate(self.mounts):
            yield ("mounts", number, "host"), mount.host
            yield ("mounts", number, "path"), mount.path
        yield from ((("env", name), value) for name, value in self.env.items())
        for number, word in enumerate(self.health.command):
            yield ("health", "command", number), word
        for number, word in enumerate(self.bind.command):
            yield ("bind", "command", number), word

    def _check_outside(self, cursor: Cursor) -> None:
        if self.allow_outside_dev:
            return
        for path in self.match.path:
            if not path.text.startswith("/dev/"):
                cursor.at("match", "path").say(
                    f"holds {toml_text(path)}",
                    rule="nodes lie in /dev",
                    mend="write allow_outside_dev = true if this one does not",
                )


def check_groups(groups: tuple[GenericGroup, ...], cursor: Cursor) -> None:
    """What must hold among groups: names differ, no two ask for the same, attributes fit."""
    for (first, one), (second, other) in combinations(enumerate(groups, start=1), 2):
        here = cursor.at(second - 1)
        if one.name and one.name == other.name:
            here.at("name").say(
                f'is "{other.name}", as is that of group {first}', mend="choose another name"
            )
        if one.match == other.match and not one.match.is_empty:
            named = f' "{one.name}"' if one.name else ""
            here.at("match").say(
                f"is that of group {first}{named}",
                rule="a node belongs to one group",
                mend="drop one of the two, or add a condition that tells them apart",
            )
    _check_attributes(groups, cursor)


def _check_attributes(groups: tuple[GenericGroup, ...], cursor: Cursor) -> None:
    """Generic devices carry the attributes of all groups: of one kind each, and not too many."""
    kinds: dict[str, tuple[type[Attribute], int]] = {}
    for number, group in enumerate(groups):
        before = len(kinds)
        for name, value in group.attributes.items():
            kind, first = kinds.setdefault(name, (type(value), number))
            if kind is not type(value):
                cursor.at(number, "attributes", name).say(
                    f"is of another kind than in group {first + 1}",
                    rule="an attribute is of one kind on all devices",
                    mend="choose another name",
                )
        if before <= OWN_ATTRIBUTES_LIMIT < len(kinds):
            cursor.at(number, "attributes").say(
                f"makes {len(kinds)} own attributes over the generic groups: {listed([*kinds])}",
                rule=f"there is room for {OWN_ATTRIBUTES_LIMIT}, "
                "since all generic devices carry the same",
            )
