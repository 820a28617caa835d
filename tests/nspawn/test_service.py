"""The daemon as a service of a real systemd: ready, reloaded, hung, killed, stopped."""

from __future__ import annotations

import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.nspawn.container import poll
from tests.nspawn.node import GROUP, SERVICE, SOCKET, SOCKETS, Node

WATCHDOG_S = 3


def identities(node: Node) -> list[tuple[int, int]]:
    """Which files the sockets are: others after they were made anew."""
    found = [node.path(path).stat() for path in SOCKETS]
    return [(each.st_ino, each.st_mtime_ns) for each in found]


def arm(
    node: Node, setting: str = f"WatchdogSec={WATCHDOG_S}", *, seconds: str = "", wait: bool = True
) -> None:
    """Run the daemon with a fuse, with a setting of its unit changed, its recovery slowed down."""
    node.replace("fuse.py", seconds, settings=setting)
    node.run("systemctl", "restart", *(() if wait else ("--no-block",)), SERVICE)


def test_installed_daemon_is_ready_with_its_sockets_held_by_systemd(node: Node) -> None:
    """After the installation the service is ready, and both sockets are the socket unit's."""

    assert node.is_active()
    assert node.is_active(SOCKET)
    listening = node.show("Listen", SOCKET)
    for path in SOCKETS:
        assert path in listening
        assert node.path(path).is_socket()
    assert node.ask_who() == "berth.dev"
    assert "bound anew" not in node.journal()


def test_nothing_is_done_until_devices_are_named(node: Node) -> None:
    """Links stay as they are, nothing is offered, and no file is written for containers."""

    node.add_nic("nic0")
    before = node.run("ip", "-d", "address", "show", "dev", "nic0")
    node.run("systemctl", "restart", SERVICE)

    assert not any(device["group"] for device in node.ask("devices")["devices"])
    assert node.run("ip", "-d", "address", "show", "dev", "nic0") == before
    assert list(node.path("/run/cdi").iterdir()) == []
    assert list(node.path("/run/berth-nics").iterdir()) == []


def test_reload_of_a_good_file_takes_effect(node: Node) -> None:
    """`systemctl reload` returns when the new devices are known."""

    node.add_nic("nic0")
    pid = node.pid
    node.configure(GROUP)
    node.run("systemctl", "reload", SERVICE)

    assert "nic.group" in node.journal()
    assert (node.is_active(), node.pid) == (True, pid)


def test_reload_of_a_bad_file_fails_with_the_reason_and_serves_on(node: Node) -> None:
    """The command ends with 1, the journal has file and key, the daemon stays as it was."""

    pid = node.pid
    node.configure("[nic]\nenabeld = true\n")
    done = node.attempt("systemctl", "reload", SERVICE)

    assert done.returncode == 1
    journal = node.journal()
    assert "/etc/berth/agent.toml" in journal
    assert "enabeld" in journal
    assert (node.show("ActiveState"), node.show("SubState")) == ("active", "running")
    assert node.pid == pid
    assert node.ask_who() == "berth.dev"


@pytest.mark.parametrize(
    ("number", "culprit"), [(signal.SIGUSR1, "hang_trio"), (signal.SIGUSR2, "")]
)
def test_hung_loop_is_ended_by_the_watchdog_with_stacks_and_started_again(
    node: Node, number: signal.Signals, culprit: str
) -> None:
    """Each of the two loops: Python's stacks stand in the journal, and a new process serves."""

    arm(node)
    pid = node.pid
    node.kill(number)
    node.wait_other(pid, limit_s=60)

    journal = node.journal()
    assert "Watchdog timeout" in journal
    assert "Fatal Python error: Aborted" in journal
    assert "most recent call first" in journal
    assert f"in {culprit}" in journal
    assert node.ask_who() == "berth.dev"


def test_wiped_runtime_folder_is_mended_by_the_watchdog(node: Node) -> None:
    """Without its private sockets it takes connections and serves none; it is started anew."""

    node.drop_in(f"[Service]\nWatchdogSec={WATCHDOG_S}\n")
    node.run("systemctl", "restart", SERVICE)
    pid = node.pid
    node.run("sh", "-c", "rm /run/berth/*.sock")
    node.wait_other(pid, limit_s=60)

    assert "watchdog gets no ping of=dra" in node.journal()
    assert node.ask_who() == "berth.dev"


def test_killed_daemon_is_back_and_who_asks_meanwhile_waits(node: Node) -> None:
    """Its sockets are never gone: a call made while nobody serves is answered by the next one."""

    pid, before = node.pid, identities(node)
    node.kill(signal.SIGKILL)
    began = time.monotonic()
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(node.ask_who)
        while not answer.done():
            assert identities(node) == before
            time.sleep(0.02)
        assert answer.result() == "berth.dev"
    waited_s = time.monotonic() - began

    # RestartSec=2: no sooner was there anybody to answer.
    assert waited_s > 1
    assert node.wait_other(pid) != pid
    assert identities(node) == before


def test_stopped_service_is_started_by_the_next_call(node: Node) -> None:
    """While the sockets stay, a stop lasts until kubelet asks."""

    node.run("systemctl", "stop", SERVICE)
    assert not node.is_active()

    assert node.ask_who() == "berth.dev"
    assert node.is_active()


@pytest.mark.parametrize(
    "words",
    [
        ("stop", SOCKET),
        ("stop", SOCKET, SERVICE),
        ("stop", SERVICE, SOCKET),
        ("disable", "--now", SERVICE, SOCKET),
    ],
)
def test_stopping_the_sockets_too_takes_them_away(node: Node, words: tuple[str, ...]) -> None:
    """Kubelet then sees that the driver has gone; the stop is orderly and within its time."""

    began = time.monotonic()
    node.run("systemctl", *words)
    took_s = time.monotonic() - began

    assert not any(node.path(path).exists() for path in SOCKETS)
    assert not node.is_active()
    assert node.show("Result") == "success"
    assert took_s < 20
    assert "stopping" in node.journal()
    assert node.path("/var/lib/berth").is_dir()


def test_second_daemon_refuses_and_names_the_first(node: Node) -> None:
    """Started by hand beside the service it ends at once; the sockets go on serving."""

    done = node.attempt("/usr/sbin/berthd", limit_s=30)

    assert done.returncode == 1
    assert str(node.pid) in done.stdout + done.stderr
    assert node.ask_who() == "berth.dev"


def test_sockets_are_there_before_kubelet_may_start(node: Node) -> None:
    """Both units are ordered before kubelet's, and the daemon waits for the runtime's."""

    assert "kubelet.service" in node.show("Before", SOCKET)
    assert "kubelet.service" in node.show("Before", SERVICE)
    after = node.show("After", SERVICE)
    assert all(unit in after for unit in (SOCKET, "containerd.service", "crio.service"))


def test_ready_is_said_after_recovery(node: Node) -> None:
    """A start that takes longer than the unit allows asks for more time, and is not ended."""

    node.run("systemctl", "stop", SOCKET)
    began = time.monotonic()
    arm(node, "TimeoutStartSec=8", seconds="13")
    took_s = time.monotonic() - began

    assert took_s > 13
    assert node.is_active()
    assert "timed out" not in node.journal()


def test_status_tells_of_a_recovery_under_way(node: Node) -> None:
    """Until then the unit is starting, and says with what."""

    arm(node, seconds="4", wait=False)
    poll(lambda: node.show("StatusText"), lambda text: "recovering" in text, what="recovering")

    assert node.show("ActiveState") == "activating"
    poll(node.is_active, bool, what="berthd ready")
