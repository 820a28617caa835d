"""systemd-networkd: whether it has NICs that are lent, and by which file.

Source: systemd.network(5); networkd's own word of each link, in ``/run/systemd/netif/links``, seen
on 252 and 257. From 256 on ``ID_NET_MANAGED_BY`` goes over every file; before, the first file whose
conditions hold counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from berth.cli.checks.line import Level, Line
from berth.cli.checks.machine import Machine
from berth.cli.checks.managers.lent import TOPIC, ini, is_marked, lent, mend_in, named
from berth.cli.checks.managers.matching import Conditions, conditions, may_match, names_one
from berth.model.device import Nic

OWN: Final = "05-berth.network"
FOLDERS: Final = (
    "/etc/systemd/network",
    "/run/systemd/network",
    "/usr/local/lib/systemd/network",
    "/usr/lib/systemd/network",
    "/lib/systemd/network",
)
OWNERSHIP_SINCE: Final = 256
"""The first systemd whose networkd knows ``ID_NET_MANAGED_BY``."""

_STATES: Final = "/run/systemd/netif/links"


def check_networkd(machine: Machine) -> Iterator[Line]:
    """What networkd does with NICs that are lent; nothing is said where it does not run."""
    nics = lent(machine)
    if not nics or not machine.files(_STATES, "*"):
        return
    had = [nic for nic in nics if _state(machine, nic).get("ADMIN_STATE") != "unmanaged"]
    for nic in had:
        yield _had_line(machine, nic)
    if not had:
        text = f"systemd-networkd leaves {named(nics)} alone"
        yield Line(topic=TOPIC, level=Level.OK, text=text)
    yield from _file_lines(machine, nics)


def systemd_version(machine: Machine) -> int | None:
    """The version of systemd, by the name of the library that its programs share."""
    for folder in ("/usr/lib/systemd", "/usr/lib/*/systemd", "/lib/systemd"):
        for path in sorted(machine.root.glob(f"{folder.lstrip('/')}/libsystemd-shared-*.so")):
            if found := re.search(r"-(\d+)", path.name):
                return int(found[1])
    return None


def network_files(machine: Machine, suffix: str) -> list[str]:
    """Files of one sort in the order in which they are tried; a name counts once."""
    found: dict[str, str] = {}
    for folder in reversed(FOLDERS):
        for path in machine.files(folder, f"*{suffix}"):
            found[path.rpartition("/")[2]] = path
    return [found[name] for name in sorted(found)]


def _had_line(machine: Machine, nic: Nic) -> Line:
    state = _state(machine, nic)
    file = state.get("NETWORK_FILE", "")
    by = f" by {file}" if file else ""
    text = f"systemd-networkd has {nic.ifname}{by} ({state.get('ADMIN_STATE', 'unknown')})"
    if not is_marked(machine, nic):
        mend = mend_in(file, f"take it out of {file}" if file else "")
        return Line(topic=TOPIC, level=Level.NOTE, text=f"{text}, until it is marked", mend=mend)
    mend = f"networkctl reload; networkctl reconfigure {nic.ifname}"
    return Line(topic=TOPIC, level=Level.WARNING, text=f"{text}, although it is marked", mend=mend)


def _file_lines(machine: Machine, nics: Sequence[Nic]) -> Iterator[Line]:
    version = systemd_version(machine)
    by_order = version is None or version < OWNERSHIP_SINCE
    files = network_files(machine, ".network")
    own = next((path for path in files if path.endswith(f"/{OWN}")), None)
    if by_order and (own is None or "BERTH_MANAGED" not in (machine.read(own) or "")):
        yield Line(
            topic=TOPIC,
            level=Level.WARNING,
            text=f"{OWN} is not in force, and systemd {version or 'of unknown version'} needs it "
            "to leave marked NICs alone",
            mend=f"copy systemd/{OWN} to {FOLDERS[0]}; networkctl reload",
        )
    for path in files:
        name = path.rpartition("/")[2]
        found = conditions(ini(machine.read(path) or ""))
        taken = [nic for nic in nics if name != OWN and may_match(found, nic)]
        if taken and by_order and name < OWN:
            yield _before_line(path, found, taken)
        elif single := [nic for nic in taken if names_one(found, nic)]:
            text = f"{path}: [Match] {found.text} configures {named(single)}, which berth lends "
            text += "out: it has no effect while it is marked"
            mend = mend_in(path, f"remove {path}, then networkctl reload")
            yield Line(topic=TOPIC, level=Level.NOTE, text=text, mend=mend)


def _before_line(path: str, found: Conditions, nics: Sequence[Nic]) -> Line:
    text = f"{path}: [Match] {found.text} takes {named(nics)} before {OWN} is read"
    mend = f"rename it to a name behind {OWN}, such as 10-…; then networkctl reload"
    return Line(topic=TOPIC, level=Level.WARNING, text=text, mend=mend_in(path, mend))


def _state(machine: Machine, nic: Nic) -> dict[str, str]:
    """What networkd says of a link; one that it does not know it does not have."""
    text = machine.read(f"{_STATES}/{nic.ifindex}")
    if text is None:
        return {"ADMIN_STATE": "unmanaged"}
    return {key: value for _, key, value in ini(text)}
