"""Ethtool's and RDMA's tables over blocking sockets: for worker threads, as `rtnl`.

Both families may be missing from a kernel: opening one then raises HostError with EPROTONOSUPPORT
(no RDMA) or ENOENT (no ethtool netlink, before 5.6).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from berth.errors import RemoteProtocolError
from berth.host.netlink import generic, rdma
from berth.host.netlink.socket import NETLINK_GENERIC, NETLINK_RDMA, Netlink, Sender, send_now

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from typing_extensions import Self

    from berth.host.netlink.message import Message, Request


class _Family:
    """A socket of a family, closed with its block."""

    def __init__(self, netlink: Netlink) -> None:
        self.netlink = netlink

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.netlink.close()

    def _one(self, request: Request) -> Message:
        answers = self.netlink.request(request)
        if not answers:
            raise RemoteProtocolError(
                f"{self.netlink.where}: {request.label}", "acknowledged without an answer"
            )
        return answers[0]


class Ethtool(_Family):
    """Speed, features and private flags of links, by interface index.

    Every method blocks, and raises HostError when the kernel or the driver refuses.

    Args:
        netlink: A `NETLINK_GENERIC` socket; closed with this.
    """

    def __init__(self, netlink: Netlink) -> None:
        super().__init__(netlink)
        self._family = generic.parse_family(self._one(generic.get_family(generic.ETHTOOL)))

    @classmethod
    def home(cls, *, send: Sender = send_now) -> Self:
        """Open ethtool for the links of the calling thread's namespace."""
        return cls(Netlink(NETLINK_GENERIC, where="host", send=send))

    def link_modes(self, index: int) -> generic.LinkModes:
        """Give a link's speed and the like."""
        return generic.parse_link_modes(self._one(generic.get_link_modes(self._family, index)))

    def features(self, index: int) -> generic.Features:
        """Give a link's features."""
        return generic.parse_features(self._one(generic.get_features(self._family, index)))

    def set_features(self, index: int, wanted: Mapping[str, bool]) -> frozenset[str]:
        """Switch features, and give those that the device did not switch."""
        request = generic.set_features(self._family, index, wanted)
        answers = self.netlink.request(request)
        return frozenset().union(*map(generic.parse_refused_features, answers))

    def private_flags(self, index: int) -> dict[str, bool]:
        """Give the flags that a link's driver invented."""
        request = generic.get_private_flags(self._family, index)
        return generic.parse_private_flags(self._one(request))

    def set_private_flags(self, index: int, wanted: Mapping[str, bool]) -> None:
        """Switch a driver's own flags."""
        self.netlink.request(generic.set_private_flags(self._family, index, wanted))


class Rdma(_Family):
    """RDMA devices, their ports and namespaces.

    Args:
        netlink: A `NETLINK_RDMA` socket; closed with this.
    """

    @classmethod
    def home(cls, *, send: Sender = send_now) -> Self:
        """Open RDMA's tables for the calling thread's namespace."""
        return cls(Netlink(NETLINK_RDMA, where="host", send=send))

    def devices(self) -> tuple[rdma.RdmaDevice, ...]:
        """Give all devices that this namespace sees."""
        return tuple(map(rdma.parse_device, self.netlink.dump(rdma.dump_devices())))

    def port(self, device: int, port: int) -> rdma.RdmaPort:
        """Give one port, numbered from 1."""
        return rdma.parse_port(self._one(rdma.get_port(device, port)))

    def shared(self) -> bool:
        """Tell whether all namespaces share the devices."""
        return rdma.parse_shared(self._one(rdma.get_system()))

    def move(self, device: int, netns_fd: int) -> None:
        """Move a device to the namespace behind a descriptor."""
        self.netlink.request(rdma.move_device(device, netns_fd))

    def character_device(self, device: int, kind: str, *, port: int = 0) -> rdma.CharacterDevice:
        """Give a device's node of a kind."""
        request = rdma.get_character_device(device, kind, port=port)
        return rdma.parse_character_device(self._one(request))
