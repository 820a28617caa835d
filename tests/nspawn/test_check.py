"""What `berth check` reads of systemd's units, against what systemd itself says of them."""

from __future__ import annotations

import json

from berth.cli.checks.machine import Machine
from berth.cli.checks.unitfile import is_enabled, read_unit
from berth.config.schema import Config
from tests.nspawn.node import SERVICE, SOCKET, Node

PATHS = "/srv/berth /srv/prom"


def units(node: Node) -> dict[str, str]:
    """What the operator is told of the units: the level of each text."""
    told = json.loads(node.attempt("berth", "check", "--json").stdout)
    return {one["text"]: one["level"] for one in told["lines"] if one["topic"] == "units"}


def test_packaged_units_are_well(node: Node) -> None:
    """As they were installed, with a NIC to move."""

    node.configure('[[nic.group]]\nname = "fast"\nmatch = { name = ["nic0"] }\n')

    assert units(node) == {
        "berthd.service is started at boot": "ok",
        "berthd.socket is started at boot": "ok",
        "the sandbox of berthd.service lets through what these settings need": "ok",
    }


def test_units_are_read_as_systemd_reads_them(node: Node) -> None:
    """Lists of several lines, emptied and added to by drop-ins, and what is enabled."""

    node.drop_in(f"[Service]\nReadWritePaths=\nReadWritePaths={PATHS}\nProtectHome=tmpfs\n")
    node.run("systemctl", "disable", "--quiet", SOCKET)
    machine = Machine(config=Config(), root=node.path("/"))
    service, socket = read_unit(machine, SERVICE), read_unit(machine, SOCKET)

    assert service is not None
    assert socket is not None
    for key in ("ReadWritePaths", "ReadOnlyPaths", "StateDirectory", "RuntimeDirectory"):
        assert list(service.words("Service", key)) == node.show(key).split()
    for key in ("ProtectSystem", "ProtectHome"):
        assert service.value("Service", key) == node.show(key)
    listening = node.show("Listen", SOCKET)
    assert all(path in listening for path in socket.values("Socket", "ListenStream"))
    for name in (SERVICE, SOCKET):
        enabled = node.attempt("systemctl", "is-enabled", name).stdout.strip() == "enabled"
        assert is_enabled(machine, name) is enabled


def test_units_that_do_not_fit_are_told(node: Node) -> None:
    """A sandbox that is too narrow, and units that nobody starts."""

    node.drop_in(f"[Service]\nReadWritePaths=\nReadWritePaths={PATHS}\n")
    node.run("systemctl", "disable", "--quiet", SOCKET)
    node.run("systemctl", "mask", "--quiet", SERVICE)
    masked = units(node)
    node.run("systemctl", "unmask", "--quiet", SERVICE)
    narrow = units(node)

    assert [level for text, level in masked.items() if "is masked by /etc" in text] == ["fault"]
    assert [level for text, level in narrow.items() if "is not enabled" in text] == ["warning"]
    (fault,) = [text for text, level in narrow.items() if level == "fault"]
    assert fault.startswith("berthd.service may not write /var/lib/kubelet and /run/cdi: ")
