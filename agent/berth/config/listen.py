"""Where something is served on the network: an address and a port, as the operator writes them."""

from __future__ import annotations

from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Final

import attrs

from berth.config.forms import Text

LOCALHOST: Final = "localhost"


@attrs.frozen(kw_only=True)
class Listen:
    """An address of this machine and a TCP port.

    Attributes:
        host: An IPv4 address, an IPv6 address without brackets, or `LOCALHOST`: a name that has to
            be asked for may not be known yet when the machine starts.
    """

    host: str
    port: int

    @property
    def addresses(self) -> tuple[str, ...]:
        """What is listened on; of several it is enough when the machine has one."""
        return ("127.0.0.1", "::1") if self.host == LOCALHOST else (self.host,)

    @property
    def is_loopback(self) -> bool:
        """Whether nobody but this machine's own processes can reach it."""
        if self.host == LOCALHOST:
            return True
        kind = IPv6Address if ":" in self.host else IPv4Address
        return kind(self.host).is_loopback

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def parse_listen(text: str) -> Listen | None:
    """Read ``127.0.0.1:9471``, ``[::1]:9471`` or ``localhost:9471``; ``None`` for all else."""
    host, colon, digits = text.rpartition(":")
    if not colon or not (digits.isascii() and digits.isdecimal()) or len(digits) > 5:
        return None
    port = int(digits)
    found = _host(host)
    return Listen(host=found, port=port) if found and 0 < port < 1 << 16 else None


def _host(text: str) -> str:
    """The address that is written; empty when it is none."""
    if text == LOCALHOST:
        return text
    try:
        if text.startswith("[") and text.endswith("]"):
            # One with a zone would name a link that may have another index at the next start.
            address = IPv6Address(text[1:-1])
            return "" if address.scope_id else str(address)
        return str(IPv4Address(text))
    except AddressValueError:
        return ""


def _mend(text: str) -> str:
    """A port alone says nothing of who may read."""
    port = text.removeprefix(":")
    return f'write "127.0.0.1:{port}"' if port.isascii() and port.isdecimal() else ""


LISTEN: Final = Text(
    what='an address and a port such as "127.0.0.1:9471", "[::1]:9471" or "localhost:9471"',
    parse=parse_listen,
    hint=_mend,
    number_hint=lambda written: f'write "127.0.0.1:{written}"',
)
