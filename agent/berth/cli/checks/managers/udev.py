"""What tells managers at all: a rule of udev's, a file of networkd's, a folder and its marks.

Source: network.md §8; udev(7) (order of folders); cloud-init's ``cc_install_hotplug``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from berth.cli.checks.line import Level, Line
from berth.cli.checks.machine import Machine
from berth.cli.checks.managers.lent import TOPIC, is_marked, lent, named
from berth.node.nics.nicmarks import FOLDER

RULE: Final = "79-berth.rules"
FOLDERS: Final = (
    "/etc/udev/rules.d",
    "/run/udev/rules.d",
    "/usr/local/lib/udev/rules.d",
    "/usr/lib/udev/rules.d",
    "/lib/udev/rules.d",
)

_HOTPLUG: Final = "*cloud-init-hook-hotplug.rules"
_MEND: Final = (
    f"install the package, or copy systemd/{RULE} and systemd/05-berth.network to where "
    "udev and networkd read them; then udevadm control --reload"
)


def check_marks(machine: Machine) -> Iterator[Line]:
    """Whether managers are told of what is lent."""
    nics = lent(machine)
    if not nics or not _has_listeners(machine):
        return
    rule = next((p for folder in FOLDERS for p in machine.files(folder, RULE)), None)
    if rule is None or "berth-nics" not in (machine.read(rule) or ""):
        where = f"{rule} has another's content" if rule else f"udev has no rule {RULE}"
        yield Line(
            topic=TOPIC,
            level=Level.WARNING,
            text=f"{where}: a manager may configure {named(nics)} when it comes home",
            mend=_MEND if rule is None else f"remove {rule}, then udevadm control --reload",
        )
    elif not machine.at(FOLDER).is_dir():
        text = f"{FOLDER} is missing, so nothing is marked there"
        mend = "systemd-tmpfiles --create berthd.conf, then systemctl restart berthd"
        yield Line(topic=TOPIC, level=Level.WARNING, text=text, mend=mend)
    elif unmarked := [nic for nic in nics if not is_marked(machine, nic)]:
        yield _unmarked_line(machine, named(unmarked))
    else:
        text = f"{named(nics)} marked in {FOLDER} as lent"
        yield Line(topic=TOPIC, level=Level.OK, text=text)


def check_hotplug(machine: Machine) -> Iterator[Line]:
    """Whether cloud-init configures what appears."""
    nics = lent(machine)
    for folder in FOLDERS if nics else ():
        for path in machine.files(folder, _HOTPLUG):
            yield Line(
                topic=TOPIC,
                level=Level.WARNING,
                text=f"{path}: cloud-init writes the network's configuration anew when "
                f"{named(nics)} comes home",
                mend="take hotplug out of updates: network: when: in what cloud-init is given, "
                f"and remove {path}",
            )


def _has_listeners(machine: Machine) -> bool:
    """Whether a manager runs that heeds marks."""
    networkd = machine.files("/run/systemd/netif/links", "*")
    return bool(networkd) or machine.at("/run/NetworkManager").is_dir()


def _unmarked_line(machine: Machine, names: str) -> Line:
    if machine.status is None:
        text = f"{names} not marked as lent yet: berthd does so while it runs"
        return Line(topic=TOPIC, level=Level.NOTE, text=text)
    return Line(
        topic=TOPIC,
        level=Level.WARNING,
        text=f"berthd has not marked {names} in {FOLDER}: by these settings it lends them, and "
        "its own are others, or it knows no uplink yet",
        mend="berth reload; journalctl -u berthd tells more",
    )
