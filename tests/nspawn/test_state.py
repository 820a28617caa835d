"""Folders and files that berthd depends on: missing, read-only, full, or of another version."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from berth.control import ControlClient
from tests.nspawn.bed import ROOT
from tests.nspawn.container import poll
from tests.nspawn.node import CODE, GROUP, SERVICE, SOCKET, SOCKETS, Node

OTHER_ROOT = "/data/kubelet"
EXAMPLES = ROOT / "systemd" / "examples"


def test_read_only_kubelet_root_is_told_with_its_mend(node: Node) -> None:
    """Another root without a drop-in: the journal names the folder, and what to add where."""

    node.run("mkdir", "-p", OTHER_ROOT)
    node.configure(f'[kubelet]\nroot = "{OTHER_ROOT}"\n')
    node.run("systemctl", "restart", SERVICE)

    told = node.wait_journal("Read-only file system")
    assert OTHER_ROOT in told
    assert "ReadWritePaths=" in told
    assert node.is_active()


def test_example_drop_ins_move_the_daemon_to_another_kubelet_root(node: Node) -> None:
    """With both, systemd holds the sockets there, and the daemon is asked through them."""

    # The former files go with a stop before the change, as the examples say.
    node.run("systemctl", "stop", SOCKET)
    node.run("mkdir", "-p", OTHER_ROOT)
    node.configure(f'[kubelet]\nroot = "{OTHER_ROOT}"\n')
    for unit in ("service", "socket"):
        text = (EXAMPLES / f"other-kubelet-root.{unit}.conf").read_text(encoding="utf-8")
        node.drop_in(text, f"berthd.{unit}")
    node.run("systemctl", "start", SOCKET, SERVICE)

    moved = [path.replace("/var/lib/kubelet", OTHER_ROOT) for path in SOCKETS]
    assert all(path in node.show("Listen", SOCKET) for path in moved)
    assert node.ask_who(moved[1]) == "berth.dev"
    assert not any(node.path(path).exists() for path in SOCKETS)
    assert "bound anew" not in node.journal()


def remove(node: Node, what: str) -> None:
    """Remove it for good: the daemon makes its folders anew while others are still removed."""
    node.run("sh", "-c", f"until rm -rf {what} 2>/dev/null; do :; done")


def test_emptied_kubelet_folder_gets_its_sockets_again(node: Node) -> None:
    """`kubeadm reset` removes what is in it: the daemon makes folders and sockets anew."""

    remove(node, "/var/lib/kubelet/*")
    node.wait_journal("public socket was removed, bound anew")
    poll(node.path(SOCKETS[1]).is_socket, bool, what="the registration socket")

    assert node.ask_who() == "berth.dev"


def test_kubelet_folder_made_anew_is_told_and_mended_by_a_restart(node: Node) -> None:
    """When the very folder goes, the sandbox has none to write to until the next start."""

    remove(node, "/var/lib/kubelet")
    node.run("mkdir", "-m", "0750", "/var/lib/kubelet")
    told = node.wait_journal("Read-only file system")
    assert "/var/lib/kubelet" in told
    assert "`systemctl restart berthd` if the folder was made anew" in told

    node.run("systemctl", "restart", SERVICE)
    poll(node.is_active, bool, what="berthd ready")
    assert node.ask_who() == "berth.dev"


def test_another_version_beside_the_service_refuses(node: Node) -> None:
    """Two at once never share the state; the one that was there first goes on."""

    node.run("cp", "-r", "/usr/lib/berthd", "/opt/newer")
    node.run(
        "sed", "-i", 's/^__version__ = .*/__version__ = "99.0"/', "/opt/newer/berth/__init__.py"
    )
    run = ["env", f"PYTHONPATH={CODE.replace('/usr/lib/berthd', '/opt/newer')}"]
    newer = [*run, "python3", "-S", "-m", "berth.daemon"]
    assert "99.0" in node.run(*newer, "--version")
    done = node.attempt(*newer, limit_s=30)
    node.run("rm", "-r", "/opt/newer")

    assert done.returncode == 1
    assert str(node.pid) in done.stdout + done.stderr
    assert node.ask_who() == "berth.dev"


def test_state_of_a_newer_version_is_refused_and_left_alone(node: Node) -> None:
    """The journal names the file and what it has; the file is as it was; without it all is well."""

    node.run("systemctl", "stop", SOCKET)
    record = "/var/lib/berth/claims/0b0e5d5c-0000-4000-8000-000000000000.json"
    text = json.dumps({"schema": 99, "record": {}})
    node.write(record, text)
    node.run("systemctl", "start", "--no-block", SERVICE)
    told = node.wait_journal("has schema 99")

    assert record in told
    assert not node.is_active()
    assert node.path(record).read_text(encoding="utf-8") == text
    node.path(record).unlink()
    poll(node.is_active, bool, what="berthd ready")


@contextmanager
def small_disk(node: Node) -> Iterator[None]:
    """Have the state on a file system of its own, of 64 kB."""
    node.run("systemctl", "stop", SOCKET)
    node.run("mount", "-t", "tmpfs", "-o", "size=64k,mode=0700", "tmpfs", "/var/lib/berth")
    try:
        yield
    finally:
        node.run("systemctl", "stop", SOCKET, SERVICE)
        node.run("umount", "/var/lib/berth")


def test_full_disk_does_not_keep_it_from_starting(node: Node) -> None:
    """It is ready and answers; what needs the disk says so, and works once there is space."""

    with small_disk(node):
        node.run("sh", "-c", "cat /dev/zero >/var/lib/berth/filler || true")
        node.run("systemctl", "start", SOCKET, SERVICE)
        assert node.is_active()
        assert node.ask_who() == "berth.dev"

        node.run("rm", "/var/lib/berth/filler")
        node.run("systemctl", "restart", SERVICE)
        assert node.is_active()


@contextmanager
def no_files(node: Node) -> Iterator[None]:
    """Take the package's code and Python's library away, as an upgrade of both may."""
    (library,) = node.run("sh", "-c", "ls -d /usr/lib/python3.*").split()
    places = ["/usr/lib/berthd", library]
    try:
        for place in places:
            node.run("mv", place, f"{place}.away")
        yield
    finally:
        for place in places:
            node.run("mv", f"{place}.away", place)


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_running_daemon_needs_no_file_of_its_own(node: Node) -> None:
    """Everything was loaded before READY: it reloads, refuses, answers and stops without files."""

    with no_files(node):
        client = ControlClient(node.path("/run/berth"))
        node.add_nic("nic0")
        node.configure(GROUP)
        assert client.ask("reload")["applied"]
        node.configure("[nic]\nenabeld = true\n")
        refused = client.ask("reload")
        assert not refused["ok"]
        assert "enabeld" in str(refused)
        for verb in ("status", "devices", "holds", "health.list"):
            client.ask(verb)
        client.ask("why", what="nic0")
        client.close()
        assert node.ask_who() == "berth.dev"
        node.run("systemctl", "stop", SOCKET)

    assert node.show("Result") == "success"
    journal = node.journal()
    assert "Traceback" not in journal
    assert "No module" not in journal
