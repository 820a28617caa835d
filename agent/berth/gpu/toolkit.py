"""The answer of nvidia-ctk: read strictly, checked against the machine, taken over or not.

An answer of another form than is known here is not guessed at: berth has a list of its own. What it
names must exist, and its nodes must be those of this boot; a device for which that does not hold is
left out, and common edits for which it does not hold make the whole answer useless.

Source: GH §3.2; CDI SPEC.md 1.1.0.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

import attrs

from berth.errors import RemoteProtocolError
from berth.gpu.edits import HIDDEN, Draft
from berth.host.nvidiafiles import HostNode, NodeFacts
from berth.model.edits import DeviceNode, Edits, Hook, Mount, NodeType, joined
from berth.model.gpu import Gpu

SIZE_LIMIT: Final = 4 * 1024 * 1024
"""Largest answer, in bytes."""

ITEMS_LIMIT: Final = 4096
"""Most entries of one list."""

ALL: Final = "all"
"""Name of the device that stands for every other; older versions cannot leave it out."""

WHERE: Final = "nvidia-ctk"

_EDITS: Final = frozenset(
    {"env", "deviceNodes", "mounts", "hooks", "additionalGids", "additionalGIDs"}
)
_NODE: Final = frozenset(
    {"path", "hostPath", "type", "major", "minor", "fileMode", "permissions", "uid", "gid"}
)
_MOUNT: Final = frozenset({"hostPath", "containerPath", "options", "type"})
_HOOK: Final = frozenset({"hookName", "path", "args", "env", "timeout"})


@attrs.frozen(kw_only=True)
class WantedNode:
    """A device node that the answer names.

    Attributes:
        major: ``None`` where the answer leaves it to the host's node.
        minor: The same.
    """

    path: str
    host_path: str
    permissions: str = "rw"
    major: int | None = None
    minor: int | None = None


@attrs.frozen(kw_only=True)
class Wanted:
    """Edits as the answer has them.

    Attributes:
        plain: All but the nodes.
    """

    plain: Edits = Edits()
    nodes: tuple[WantedNode, ...] = ()


@attrs.frozen(kw_only=True)
class Answer:
    """What nvidia-ctk said.

    Attributes:
        devices: By UUID.
    """

    common: Wanted
    devices: Mapping[str, Wanted]


@attrs.frozen(kw_only=True)
class Toolkit:
    """What of the answer holds on this machine.

    Attributes:
        devices: By UUID.
        refused: Why a device is left out, by UUID.
    """

    common: Edits
    devices: Mapping[str, Edits]
    refused: Mapping[str, str] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class ToolkitKey:
    """What an answer depends on; with another key it is asked for anew.

    Attributes:
        uuids: Of GPUs and parts, with the mode of each GPU.
        stamps: Of the tool's programs.
    """

    boot_id: str
    version: str
    uuids: tuple[str, ...]
    stamps: tuple[object, ...]


def key_of(
    gpus: Collection[Gpu], *, boot_id: str, version: str, stamps: tuple[object, ...]
) -> ToolkitKey:
    """The key for a state of the machine."""
    uuids = [f"{gpu.uuid} {gpu.mig_current}" for gpu in gpus]
    uuids += [mig.uuid for gpu in gpus for mig in gpu.mig_devices]
    return ToolkitKey(boot_id=boot_id, version=version, uuids=tuple(sorted(uuids)), stamps=stamps)


def read_answer(output: bytes) -> Answer:
    """Read what nvidia-ctk printed.

    Raises:
        RemoteProtocolError: It is not one CDI document of a form that is known here.
    """
    if len(output) > SIZE_LIMIT:
        raise _fault("answer", f"has {len(output)} bytes", rule=f"at most {SIZE_LIMIT} are read")
    try:
        document = json.loads(output)
    except (ValueError, RecursionError) as error:
        raise _fault("answer", "is not one JSON document") from error
    document = _mapping(document, "answer")
    common = _wanted(document.get("containerEdits", {}), "containerEdits")
    devices: dict[str, Wanted] = {}
    for number, item in enumerate(_list(document.get("devices"), "devices")):
        place = f"devices[{number}]"
        device = _mapping(item, place)
        name = _text(device.get("name"), f"{place}.name")
        if name in devices:
            raise _fault(place, f"names {name!r} again")
        devices[name] = _wanted(device.get("containerEdits"), f"{place}.containerEdits")
    devices.pop(ALL, None)
    if not devices:
        raise _fault("devices", "holds no device")
    return Answer(common=common, devices=devices)


def paths_of(answer: Answer) -> frozenset[str]:
    """Files of the host that must exist for the answer to be of use."""
    every = (answer.common, *answer.devices.values())
    return frozenset(
        path
        for wanted in every
        for path in (
            *(mount.host_path for mount in wanted.plain.mounts),
            *(hook.path for hook in wanted.plain.hooks),
        )
    )


def checked(answer: Answer, facts: NodeFacts, existing: Collection[str]) -> Toolkit:
    """What of the answer holds.

    Args:
        existing: Those of `paths_of` that exist.

    Raises:
        RemoteProtocolError: The common edits do not hold, or no device does.
    """
    try:
        common = _edits(answer.common, facts, existing)
    except RemoteProtocolError as error:
        raise _fault("containerEdits", error.found) from error
    devices: dict[str, Edits] = {}
    refused: dict[str, str] = {}
    for uuid, wanted in answer.devices.items():
        try:
            devices[uuid] = _edits(wanted, facts, existing)
        except RemoteProtocolError as error:
            refused[uuid] = error.found
    if not devices:
        uuid, found = next(iter(refused.items()))
        raise _fault("devices", f"has none of use: {uuid} {found}")
    hidden = Edits(env=(HIDDEN,))
    env = tuple(entry for entry in common.env if not entry.startswith("NVIDIA_VISIBLE_DEVICES="))
    common = joined((hidden, attrs.evolve(common, env=env)))
    return Toolkit(common=common, devices=devices, refused=refused)


def taken_over(toolkit: Toolkit, uuid: str, draft: Draft) -> Draft:
    """A device's draft by the tool's word; ours where the tool has none for it.

    What our own has of nodes stays: the tool leaves out capabilities of parts that have no node.
    """
    theirs = toolkit.devices.get(uuid)
    if theirs is None:
        return draft
    named = {node.path for edits in (theirs, toolkit.common) for node in edits.nodes}
    rest = tuple(node for node in draft.edits.nodes if node.path not in named)
    return attrs.evolve(draft, edits=joined((theirs, Edits(nodes=rest))), common=toolkit.common)


def _edits(wanted: Wanted, facts: NodeFacts, existing: Collection[str]) -> Edits:
    """The edits with the numbers of this boot."""
    for mount in wanted.plain.mounts:
        if mount.host_path not in existing:
            raise _fault("", f"names {mount.host_path}, which does not exist")
    for hook in wanted.plain.hooks:
        if hook.path not in existing:
            raise _fault("", f"runs {hook.path}, which does not exist")
    nodes = tuple(_node(node, facts) for node in wanted.nodes)
    return attrs.evolve(wanted.plain, nodes=nodes)


def _node(wanted: WantedNode, facts: NodeFacts) -> DeviceNode:
    there = facts.nodes.get(wanted.host_path)
    if there is None:
        raise _fault("", f"needs {wanted.host_path}, which does not exist")
    if not _is_same(wanted, there):
        told = f"{wanted.major}:{wanted.minor}"
        raise _fault("", f"has {wanted.path} as {told}, and it is {there.major}:{there.minor}")
    return DeviceNode(
        path=wanted.path,
        host_path=wanted.host_path,
        type=there.type,
        major=there.major,
        minor=there.minor,
        permissions=wanted.permissions,
        file_mode=there.mode,
        uid=there.uid,
        gid=there.gid,
    )


def _is_same(wanted: WantedNode, there: HostNode) -> bool:
    """Whether numbers agree; zeros stand for none in older versions."""
    if not wanted.major and not wanted.minor:
        return True
    return (wanted.major, wanted.minor or 0) == (there.major, there.minor)


def _wanted(value: object, place: str) -> Wanted:
    edits = _mapping(value, place)
    _known(edits, _EDITS, place)
    nodes = _items(edits, "deviceNodes", place)
    gids = [*_list(edits.get("additionalGids", []), place)]
    gids += _list(edits.get("additionalGIDs", []), place)
    if not all(type(gid) is int and 0 <= gid < 2**32 for gid in gids):
        raise _fault(place, "has a group that is no number")
    plain = Edits(
        env=_texts(edits, "env", place),
        mounts=tuple(_mount(item, where) for item, where in _items(edits, "mounts", place)),
        hooks=tuple(_hook(item, where) for item, where in _items(edits, "hooks", place)),
        gids=tuple(gids),
    )
    return Wanted(plain=plain, nodes=tuple(_wanted_node(item, where) for item, where in nodes))


def _wanted_node(item: Mapping[str, Any], place: str) -> WantedNode:
    _known(item, _NODE, place)
    path = _path(item, "path", place)
    permissions = item.get("permissions", "rw")
    if not isinstance(permissions, str) or not {*permissions} <= {*"rwm"} or not permissions:
        raise _fault(place, f"has the permissions {permissions!r}")
    if item.get("type", "c") != NodeType.CHAR.value:
        raise _fault(place, f"is of type {item['type']!r}", rule="GPUs have character devices")
    return WantedNode(
        path=path,
        host_path=_path(item, "hostPath", place) if "hostPath" in item else path,
        permissions=permissions,
        major=_number(item, "major", place),
        minor=_number(item, "minor", place),
    )


def _mount(item: Mapping[str, Any], place: str) -> Mount:
    _known(item, _MOUNT, place)
    if item.get("type", "bind") not in {"bind", ""}:
        raise _fault(place, f"is of type {item['type']!r}", rule="bind mounts are taken")
    return Mount(
        host_path=_path(item, "hostPath", place),
        container_path=_path(item, "containerPath", place),
        options=_texts(item, "options", place),
    )


def _hook(item: Mapping[str, Any], place: str) -> Hook:
    _known(item, _HOOK, place)
    return Hook(
        name=_text(item.get("hookName"), f"{place}.hookName"),
        path=_path(item, "path", place),
        args=_texts(item, "args", place),
        env=_texts(item, "env", place),
    )


def _items(
    value: Mapping[str, Any], key: str, place: str
) -> Iterator[tuple[Mapping[str, Any], str]]:
    for number, item in enumerate(_list(value.get(key, []), f"{place}.{key}")):
        where = f"{place}.{key}[{number}]"
        yield _mapping(item, where), where


def _texts(value: Mapping[str, Any], key: str, place: str) -> tuple[str, ...]:
    items = _list(value.get(key, []), f"{place}.{key}")
    return tuple(_text(item, f"{place}.{key}[{number}]") for number, item in enumerate(items))


def _path(value: Mapping[str, Any], key: str, place: str) -> str:
    path = _text(value.get(key), f"{place}.{key}")
    if not path.startswith("/") or ".." in path.split("/"):
        raise _fault(f"{place}.{key}", f"is {path!r}", rule="it must be an absolute path")
    return path


def _number(value: Mapping[str, Any], key: str, place: str) -> int | None:
    number = value.get(key)
    if number is None:
        return None
    if type(number) is not int or not 0 <= number < 2**32:
        raise _fault(f"{place}.{key}", f"is {number!r:.40}", rule="it must be a number")
    return number


def _text(value: object, place: str) -> str:
    if isinstance(value, str) and value and "\0" not in value and value.isprintable():
        return value
    raise _fault(place, "is no text")


def _mapping(value: object, place: str) -> Mapping[str, Any]:
    if isinstance(value, dict):
        return value
    raise _fault(place, "is no object")


def _list(value: object, place: str) -> list[Any]:
    if isinstance(value, list) and len(value) <= ITEMS_LIMIT:
        return value
    raise _fault(place, f"is no list of at most {ITEMS_LIMIT} entries")


def _known(value: Mapping[str, Any], names: frozenset[str], place: str) -> None:
    unknown = sorted(value.keys() - names)
    if unknown:
        raise _fault(place, f"holds {unknown[0]!r:.60}, which is not known here")


def _fault(place: str, found: str, *, rule: str = "") -> RemoteProtocolError:
    return RemoteProtocolError(f"{WHERE}: {place}" if place else WHERE, found, rule=rule)
