"""What the packaged unit lets the daemon do, and what not: each wish tried inside its sandbox."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping

import pytest

from tests.nspawn.container import poll
from tests.nspawn.node import SERVICE, SOCKET, Node
from tests.nspawn.probe import GO, STARTED, VERDICT, WISHES

THRESHOLD = 26
"""Highest exposure, in tenths; containerd and node-exporter as packaged have 96 and 92."""
REFUSED = {
    "namespace by process number": {"ENOENT", "EACCES"},
    "namespace by pidfd": {"EPERM", "ESRCH"},
    "load a module": {"EPERM"},
    "bpf": {"EPERM"},
    "make a device node": {"EPERM"},
    "mount": {"EPERM"},
    "change owner": {"EPERM"},
    "set-user-id": {"EPERM"},
    # By a system call's filter, from systemd 254 on by the kernel.
    "writable code": {"EPERM", "EACCES"},
    "user namespace": {"EPERM"},
    "packet socket": {"EAFNOSUPPORT"},
    # In a container systemd filters no devices (seen); a VM is to refuse it.
    "block device": {"EPERM", ""},
    "host name": {"EPERM"},
    "clock": {"EPERM"},
    "priority": {"EPERM"},
    "/etc": {"EROFS"},
    "/usr": {"EROFS"},
    "/home": {"EACCES"},
    "kernel setting": {"EROFS"},
    "control group": {"EROFS"},
    "other sysfs": {"EROFS"},
}


def probe(node: Node) -> Mapping[str, str]:
    """What became of each wish; links and namespaces are those of a node with pods."""
    node.run("systemctl", "stop", SOCKET)
    node.run("sh", "-c", "mknod -m 0600 /dev/berth-block b 7 0; mkdir -p /dev/net")
    node.run("sh", "-c", "[ -e /dev/net/tun ] || mknod -m 0600 /dev/net/tun c 10 200")
    node.run("ip", "link", "add", "nic0", "type", "veth", "peer", "far0")
    node.run("ip", "netns", "add", "early")
    node.replace("probe.py", settings="Type=exec\nRestart=no\nWatchdogSec=0")
    node.run("systemctl", "start", SERVICE)
    poll(node.path(str(STARTED)).exists, bool, what="the probe's start")
    node.run("ip", "netns", "add", "late")
    node.path(str(GO)).touch()
    poll(node.path(str(VERDICT)).exists, bool, what="its verdict")
    verdict: Mapping[str, str] = json.loads(node.path(str(VERDICT)).read_text(encoding="utf-8"))
    return verdict


def surprises(
    verdict: Mapping[str, str], refused: Mapping[str, Collection[str]] = REFUSED
) -> dict[str, str]:
    """What was refused that is needed, granted that is not, or refused for another reason."""
    return {
        name: reason for name, reason in verdict.items() if reason not in refused.get(name, {""})
    }


def test_sandbox_grants_what_is_needed_and_nothing_else(node: Node) -> None:
    """Each wish of the daemon's is granted under the packaged settings, each other is refused."""

    verdict = probe(node)

    assert verdict.keys() == WISHES.keys()
    assert surprises(verdict) == {}


@pytest.mark.parametrize("unit", [SERVICE, SOCKET])
def test_units_are_well_written(node: Node, unit: str) -> None:
    """This release's systemd knows every line of them."""

    done = node.attempt("systemd-analyze", "verify", "--man=no", unit)

    assert (done.returncode, done.stderr) == (0, "")


def test_exposure_is_below_the_threshold(node: Node) -> None:
    """`systemd-analyze security` has little to say."""

    node.run("systemd-analyze", "security", "--offline=true", f"--threshold={THRESHOLD}", SERVICE)
