"""NetworkManager: whether it has NICs that are lent, and which setting of its makes it.

It heeds a mark when a link appears, and not when the mark comes to a link that it has already.

Source: NetworkManager.conf(5) (``[device*]``, ``managed``, ``match-device``); seen on 1.52.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final

from berth.cli.checks.line import Level, Line
from berth.cli.checks.machine import Machine
from berth.cli.checks.managers.lent import TOPIC, ini, is_marked, lent, mend_in, named
from berth.model.device import Nic

MAIN: Final = "/etc/NetworkManager/NetworkManager.conf"
FOLDERS: Final = (
    "/usr/lib/NetworkManager/conf.d",
    "/run/NetworkManager/conf.d",
    "/etc/NetworkManager/conf.d",
)
PROFILES: Final = (
    "/etc/NetworkManager/system-connections",
    "/run/NetworkManager/system-connections",
    "/usr/lib/NetworkManager/system-connections",
)

_RUNS: Final = "/run/NetworkManager"
_YES: Final = frozenset({"1", "true", "yes", "on"})
_LEFT: Final = frozenset({"unmanaged", "connected (externally)"})
# States of what it only looks at.


def check_networkmanager(machine: Machine) -> Iterator[Line]:
    """What NetworkManager does with NICs that are lent; nothing is said where it does not run."""
    nics = lent(machine)
    if not nics or not machine.at(_RUNS).is_dir():
        return
    stronger = [line for nic in nics for line in _stronger(machine, nic)]
    yield from stronger
    states = machine.network_manager
    had = [nic for nic in nics if nic.ifname in states and states[nic.ifname] not in _LEFT]
    for nic in had:
        yield _had_line(machine, nic, is_told=not stronger)
    if machine.network_manager and not had and not stronger:
        text = f"NetworkManager leaves {named(nics)} alone"
        yield Line(topic=TOPIC, level=Level.OK, text=text)
    yield from _profile_lines(machine, nics)


def _had_line(machine: Machine, nic: Nic, *, is_told: bool) -> Line:
    text = f"NetworkManager has {nic.ifname} ({machine.network_manager[nic.ifname]})"
    mend = f"nmcli device set {nic.ifname} managed no"
    if is_marked(machine, nic):
        text += ", which it had before berthd marked it" if is_told else ", although it is marked"
        return Line(topic=TOPIC, level=Level.WARNING, text=text, mend=mend)
    text += ", and keeps it until it is told otherwise"
    return Line(topic=TOPIC, level=Level.WARNING, text=text, mend=mend)


def _stronger(machine: Machine, nic: Nic) -> Iterator[Line]:
    """Settings that go over what udev says."""
    for path in _files(machine):
        sections: dict[str, dict[str, str]] = {}
        for section, key, value in ini(machine.read(path) or ""):
            sections.setdefault(section, {})[key.rstrip("+-")] = value
        for section, keys in sections.items():
            is_device = section.split("-")[0] == "device"
            if is_device and keys.get("managed", "").lower() in _YES and _means(keys, nic):
                yield Line(
                    topic=TOPIC,
                    level=Level.WARNING,
                    text=f"{path}: [{section}] managed={keys['managed']} goes over the mark, so "
                    f"NetworkManager configures {nic.ifname} when it comes home",
                    mend=f"add except:interface-name:{nic.ifname} to its match-device, "
                    "then systemctl reload NetworkManager",
                )


def _means(keys: Mapping[str, str], nic: Nic) -> bool:
    """Whether ``match-device`` means a NIC; what is not known of it counts as fitting."""
    words = [word.strip() for word in keys.get("match-device", "*").replace(",", ";").split(";")]
    words = [word for word in words if word]
    excepted = [word.removeprefix("except:") for word in words if word.startswith("except:")]
    positive = [word for word in words if not word.startswith("except:")]
    if any(_is_meant(word, nic) for word in excepted):
        return False
    return not positive or any(_is_meant(word, nic) for word in positive)


def _is_meant(word: str, nic: Nic) -> bool:
    kind, mark, rest = word.partition(":")
    if not mark or kind not in {"interface-name", "mac", "driver", "type"}:
        # A bare word is a name, or an address in any form.
        return fnmatchcase(nic.ifname, word) or word.lower() == nic.mac
    if kind == "mac":
        return rest.lower() == nic.mac
    if kind == "driver":
        return fnmatchcase(nic.driver, rest.partition("/")[0])
    return rest == "ethernet" if kind == "type" else fnmatchcase(nic.ifname, rest.lstrip("=~"))


def _profile_lines(machine: Machine, nics: Sequence[Nic]) -> Iterator[Line]:
    """Profiles that were written for one NIC."""
    for folder in PROFILES:
        for path in machine.files(folder, "*"):
            keys = {(section, key): v for section, key, v in ini(machine.read(path) or "")}
            name = keys.get(("connection", "interface-name"), "")
            mac = keys.get(("ethernet", "mac-address"), "").lower()
            meant = [n for n in nics if n.ifname == name or (mac and n.mac == mac)]
            if meant:
                text = f"{path} is a profile for {named(meant)}, which berth lends out: "
                text += "it has no effect while it is marked"
                mend = mend_in(path, f"remove {path}, then nmcli connection reload")
                yield Line(topic=TOPIC, level=Level.NOTE, text=text, mend=mend)


def _files(machine: Machine) -> list[str]:
    """Its files in the order of reading; one of a later folder stands for that of its name."""
    found: dict[str, str] = {}
    for folder in FOLDERS:
        for path in machine.files(folder, "*.conf"):
            found[path.rpartition("/")[2]] = path
    return [MAIN, *(found[name] for name in sorted(found))]
