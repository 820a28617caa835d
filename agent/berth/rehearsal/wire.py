"""Traffic over a NIC that is in a pod, seen from the far end of its cable.

Frames prove the cable whatever addresses there are; where there is one, a datagram to it and back
proves address, route and neighbor as well, and who answered for the address is read at the far end.

Blocks: sockets are made in the namespaces by threads that then end, and waited for here.
Source: ``packet(7)``; EtherType 0x88B5 is IEEE's for local experiments.
"""

from __future__ import annotations

import secrets
import socket
import struct
from ipaddress import IPv4Interface, IPv6Interface, ip_interface
from typing import Final, TypeAlias

import attrs

from berth.errors import HostError
from berth.host.netlink.namespace import Netns, run_in_netns

Interface: TypeAlias = IPv4Interface | IPv6Interface

ETHERTYPE: Final = 0x88B5
LIMIT_S: Final = 3.0
"""How long a frame or an answer may take."""

_BROADCAST: Final = b"\xff" * 6
_HEAD: Final = 14
_PORT: Final = 4791


@attrs.frozen(kw_only=True)
class End:
    """One end of a cable.

    Attributes:
        netns: Path of the namespace.
        link: Its name there.
        mac: Its hardware address.
    """

    netns: Netns
    link: str
    mac: str

    def __str__(self) -> str:
        return f"{self.link} ({self.mac})"


def exchange_frames(near: End, far: End) -> None:
    """Send a frame each way between two ends.

    Raises:
        HostError: One did not arrive, or came from another address than its sender's.
    """
    with _packets(near) as here, _packets(far) as there:
        _cross(here, there, near, to=_BROADCAST, toward=far)
        _cross(there, here, far, to=_packed(near.mac), toward=near)


def echo(pod: Netns, address: Interface, far: End, own: Interface) -> None:
    """Ask a program at a pod's address for an answer, from the far end of its NIC's cable.

    Args:
        address: The pod's.
        own: The far end's, which it has already.

    Raises:
        HostError: No answer came.
    """
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    place = (str(address.ip), _PORT)

    def listen() -> socket.socket:
        made = socket.socket(family, socket.SOCK_DGRAM)
        made.bind(place)
        return made

    def call() -> socket.socket:
        made = socket.socket(family, socket.SOCK_DGRAM)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, far.link.encode())
        made.bind((str(own.ip), 0))
        made.connect(place)
        return made

    token = secrets.token_bytes(16)
    try:
        with run_in_netns(pod, listen) as answering, run_in_netns(far.netns, call) as asking:
            for one in (answering, asking):
                one.settimeout(LIMIT_S)
            asking.send(token)
            data, sender = answering.recvfrom(64)
            answering.sendto(data, sender)
            if asking.recv(64) != token:
                raise HostError(str(address), "answered with something else than it was sent")
    except OSError as error:
        raise HostError(
            f"{address.ip}",
            f"no datagram from {own.ip} at the far end of the cable and back: {error}",
            rule=f"it must come and go within {LIMIT_S:.0f} s",
        ) from error


def neighbor_in(address: Interface) -> Interface | None:
    """Another host's address in the same network; ``None`` where the network has no room."""
    for host in address.network.hosts():
        if host != address.ip and not str(host).endswith((".1", "::1")):
            return ip_interface(f"{host}/{address.network.prefixlen}")
    return None


def _cross(
    sender: socket.socket, receiver: socket.socket, source: End, *, to: bytes, toward: End
) -> None:
    token = secrets.token_bytes(46)
    sender.send(to + _packed(source.mac) + struct.pack("!H", ETHERTYPE) + token)
    try:
        while (frame := receiver.recv(2048))[_HEAD:] != token:
            pass
    except TimeoutError as error:
        raise HostError(
            f"cable from {source} to {toward}", f"no frame came through within {LIMIT_S:.0f} s"
        ) from error
    if frame[6:12] != _packed(source.mac):
        raise HostError(
            f"cable from {source} to {toward}", f"a frame came from {frame[6:12].hex(':')}"
        )


def _packets(end: End) -> socket.socket:
    def make() -> socket.socket:
        made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETHERTYPE))
        made.bind((end.link, ETHERTYPE))
        made.settimeout(LIMIT_S)
        return made

    return run_in_netns(end.netns, make)


def _packed(mac: str) -> bytes:
    return bytes.fromhex(mac.replace(":", ""))
