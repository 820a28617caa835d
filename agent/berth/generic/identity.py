"""What a generic device is, physically, and what it is called by that.

The kernel's numbers tell nothing: the next device that is plugged in gets them. So a device is
known by the first of these that it has (GH §4): the serial number of its USB device with the
interface; its place, as udev's ``ID_PATH`` or, without udev, as the ports say; a link in ``by-id``
or ``by-path``; its folder in sysfs, for what hangs from something real; its path, for nodes that
are always there, such as ``/dev/kvm``. Which of several nodes of one interface or place it is, its
part tells.

Two devices with one serial number are known by number and place, both of them and from then on, as
long as `Memory` is kept: to whom the number alone belonged is then no longer known.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import attrs

from berth.errors import printable
from berth.host.nodefacts import DEV, DevNode
from berth.model.names import LABEL_LIMIT, device_name

INDEXES_LIMIT: Final = 4096
"""Most devices whose number in their group is remembered; those that are there always are."""

_DIGITS: Final = 8


@attrs.frozen(kw_only=True)
class Memory:
    """What one survey leaves to the next, over restarts too: `model.structure` writes it down.

    Attributes:
        twins: Serial identities that two devices had at once.
        alike: Names that two devices would have had at once.
        indexes: Number of a device in its group, by ``<group>/<identity>``.
    """

    twins: tuple[str, ...] = ()
    alike: tuple[str, ...] = ()
    indexes: Mapping[str, int] = attrs.field(factory=dict)


def place(node: DevNode) -> str:
    """Where a device is plugged in; empty when nobody tells."""
    told = node.properties.get("ID_PATH", "")
    return told or (node.usb.place if node.usb is not None else "")


def serial_identity(node: DevNode) -> str:
    """Identity by serial number; empty for what has none."""
    usb = node.usb
    if usb is None or not usb.serial:
        return ""
    interface = f":{usb.interface}" if usb.interface else ""
    return f"usb:{usb.vendor}:{usb.product}:{usb.serial}{interface}/{node.part}"


def twins(nodes: Iterable[DevNode]) -> frozenset[str]:
    """Serial identities that nodes at different places have."""
    places: dict[str, set[str]] = {}
    for node in nodes:
        places.setdefault(serial_identity(node), set()).add(place(node))
    return frozenset(text for text, found in places.items() if text and len(found) > 1)


def identity(node: DevNode, known_twins: frozenset[str]) -> str:
    """What a node is, by the first thing that tells.

    Args:
        known_twins: Serial identities that do not tell.

    Returns:
        Text that can be shown and written down: what cannot is escaped.
    """
    return printable(_identity(node, known_twins))


def lasting_link(node: DevNode, known_as: str) -> str:
    """The link that leads to a device whatever its number, as its identity does; empty if none.

    Args:
        known_as: The identity; what is known by its place is not found by a serial number.
    """
    if known_as.startswith("link:"):
        kinds: tuple[str, ...] = ("/by-id/", "/by-path/")
    elif known_as == printable(serial_identity(node)):
        kinds = ("/by-id/",)
    else:
        kinds = ("/by-path/",)
    links = (link for kind in kinds for link in node.links if kind in link)
    return next((link for link in links if link.isprintable()), "")


def _identity(node: DevNode, known_twins: frozenset[str]) -> str:
    serial, where = serial_identity(node), place(node)
    if serial:
        return f"{serial}@{where}" if serial in known_twins else serial
    if where:
        return f"path:{where}/{node.part}"
    for kind in ("/by-id/", "/by-path/"):
        for link in node.links:
            if kind in link:
                return f"link:{link.removeprefix(DEV)}"
    if node.way and not node.way.startswith("virtual/"):
        return f"sys:{node.way}"
    return f"dev:{node.path}"


def names(owned: Sequence[tuple[str, str]], alike: frozenset[str]) -> dict[tuple[str, str], str]:
    """Slice names of devices.

    Where two would have one name, both get a hash of their identity, since which of them came
    first would be forgotten.

    Args:
        owned: Group and identity of each device.
        alike: Names that were too few before.
    """
    plain = {each: _name(*each) for each in owned}
    shared = alike_names(owned) | alike
    return {
        each: _with_hash(name, each[1]) if name in shared else name for each, name in plain.items()
    }


def alike_names(owned: Sequence[tuple[str, str]]) -> frozenset[str]:
    """Names that two devices would have."""
    count = Counter(_name(*each) for each in dict.fromkeys(owned))
    return frozenset(name for name, number in count.items() if number > 1)


def ids(name: str, count: int) -> tuple[str, ...]:
    """Ids at the plugin door: the name, or one for each holder, at most 63 bytes each."""
    if count == 1:
        return (name,)
    room = LABEL_LIMIT - len(f"::{count - 1}")
    stem = name if len(name) <= room else _cut(name, name, room)
    return tuple(f"{stem}::{number}" for number in range(count))


def indexes(owned: Sequence[tuple[str, str]], known: Mapping[str, int]) -> dict[str, int]:
    """Numbers of devices in their groups.

    A device keeps the one that it has; a new one gets the lowest that is free.
    """
    here = [f"{group}/{text}" for group, text in owned]
    kept = dict(known) if len(known) < INDEXES_LIMIT else {k: known[k] for k in here if k in known}
    taken: dict[str, set[int]] = {}
    for key, number in kept.items():
        taken.setdefault(key.partition("/")[0], set()).add(number)
    for key in here:
        if key not in kept:
            used = taken.setdefault(key.partition("/")[0], set())
            kept[key] = next(n for n in range(len(used) + 1) if n not in used)
            used.add(kept[key])
    return kept


def forgotten(memory: Memory, name: str) -> Memory:
    """The memory without a device that is not there, by its slice name.

    What told it apart from its likes goes with the last of them.
    """
    owned = [_owned(key) for key in memory.indexes]
    gone = {each for each in owned if _called(each, memory.alike) == name}
    kept = [each for each in owned if each not in gone]
    over = _twin_names(gone, memory.twins) - _twin_names(kept, memory.twins)
    plain = {_name(*each) for each in gone} - {_name(*each) for each in kept}
    return Memory(
        twins=tuple(text for text in memory.twins if text not in over),
        alike=tuple(text for text in memory.alike if text not in plain),
        indexes={key: n for key, n in memory.indexes.items() if _owned(key) not in gone},
    )


def owner(key: str) -> str:
    """The identity of the device that has a number, by the number's key in the memory."""
    return _owned(key)[1]


def _owned(key: str) -> tuple[str, str]:
    group, _, text = key.partition("/")
    return group, text


def _called(each: tuple[str, str], alike: Iterable[str]) -> str:
    name = _name(*each)
    return _with_hash(name, each[1]) if name in alike else name


def _twin_names(owned: Iterable[tuple[str, str]], known: Iterable[str]) -> set[str]:
    """Serial identities of twins that devices are told apart from."""
    texts = [text for _, text in owned]
    return {twin for twin in known if any(text.startswith(f"{printable(twin)}@") for text in texts)}


def _name(group: str, text: str) -> str:
    return device_name(group, text.removeprefix(f"dev:{DEV}"))


def _with_hash(name: str, text: str) -> str:
    return _cut(name, text, LABEL_LIMIT)


def _cut(name: str, text: str, room: int) -> str:
    """A name within its room, told apart by a hash."""
    digest = hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:_DIGITS]
    return f"{name[: room - _DIGITS - 1].rstrip('-')}-{digest}"
