"""The daemon as a service of a real systemd."""

from __future__ import annotations

from tests.nspawn.node import SOCKET, SOCKETS, Node


def test_installed_daemon_is_ready_with_its_sockets_held_by_systemd(node: Node) -> None:
    """After the installation the service is ready, and both sockets are the socket unit's."""

    assert node.is_active()
    assert node.is_active(SOCKET)
    listening = node.show("Listen", SOCKET)
    for path in SOCKETS:
        assert path in listening
        assert node.path(path).is_socket()
