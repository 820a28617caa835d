"""iproute2's ``ip`` as stagehand and witness: it makes links, and says how they are.

The rehearsal proves what our own netlink code did, so the proof does not come from that code.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Mapping
from typing import Any

import attrs
import trio

from berth.errors import HostError


async def ip(*arguments: str, netns: str = "") -> str:
    """What ``ip`` prints.

    Args:
        netns: Name of a namespace below ``/run/netns``; empty for our own.

    Raises:
        HostError: It is not installed, or refused; its own words are in the error.
    """
    return await _ip([*arguments], netns=netns)


async def ip_batch(lines: Iterable[str], *, netns: str = "") -> None:
    """Let ``ip`` do several things in one go, each a line without ``ip`` itself.

    Raises:
        HostError: It is not installed, or refused one of them; those before it were done.
    """
    await _ip(["-batch", "-"], netns=netns, stdin="\n".join(lines) + "\n")


async def ip_json(*arguments: str, netns: str = "") -> list[Mapping[str, Any]]:
    """What ``ip -json -details`` tells, less the empty objects that it prints for filtered rows.

    Raises:
        HostError: As for `ip`.
    """
    rows = json.loads(await _ip(["-json", "-details", *arguments], netns=netns) or "[]")
    return [row for row in rows if row]


@attrs.frozen(kw_only=True)
class LinkFacts:
    """How a link is, as far as it must be the same again when it has come home.

    Attributes:
        flags: Those that somebody sets; what the kernel finds out is left out.
        addresses: With their prefix lengths, without those that the kernel makes itself.
    """

    name: str
    mac: str
    mtu: int
    flags: frozenset[str]
    txqlen: int
    alias: str
    altnames: tuple[str, ...]
    addresses: tuple[str, ...]

    def __str__(self) -> str:
        flags = ",".join(sorted(self.flags)) or "none"
        addresses = ", ".join(self.addresses) or "no address"
        return f"{self.name}: MAC {self.mac}, MTU {self.mtu}, flags {flags}, {addresses}"


_OWN_FLAGS = frozenset({"UP", "PROMISC", "ALLMULTI", "NOARP", "MULTICAST"})


async def link_facts(name: str, *, netns: str = "") -> LinkFacts | None:
    """How a link is now; ``None`` when there is none of that name.

    Raises:
        HostError: As for `ip`.
    """
    rows = await ip_json("address", "show", netns=netns)
    return next((_facts(row) for row in rows if row["ifname"] == name), None)


def _facts(row: Mapping[str, Any]) -> LinkFacts:
    return LinkFacts(
        name=row["ifname"],
        mac=row.get("address", ""),
        mtu=row["mtu"],
        flags=frozenset(row["flags"]) & _OWN_FLAGS,
        txqlen=row.get("txqlen", 0),
        alias=row.get("ifalias", ""),
        altnames=tuple(row.get("altnames", ())),
        addresses=addresses_of(row),
    )


def addresses_of(row: Mapping[str, Any]) -> tuple[str, ...]:
    """The addresses in a row of ``ip -json address``, less those that the kernel makes itself."""
    return tuple(
        f"{item['local']}/{item['prefixlen']}"
        for item in row.get("addr_info", ())
        if "local" in item and item.get("scope") != "link"
    )


async def _ip(arguments: list[str], *, netns: str, stdin: str = "") -> str:
    command = ["ip", *(("-n", netns) if netns else ()), *arguments]
    try:
        done = await trio.run_process(
            command,
            stdin=stdin.encode(),
            capture_stdout=True,
            capture_stderr=True,
            check=False,
        )
    except FileNotFoundError as error:
        raise HostError("ip", "is not installed", mend="install the package iproute2") from error
    if done.returncode != 0:
        raise HostError(" ".join(command), _words(done))
    return done.stdout.decode()


def _words(done: subprocess.CompletedProcess[bytes]) -> str:
    return " ".join(done.stderr.decode(errors="replace").split()) or f"exit {done.returncode}"
