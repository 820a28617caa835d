"""Addresses, networks and names: one way to write each, and words for what is wrong."""

from __future__ import annotations

import contextlib
import ipaddress
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.nic.config import notation
from berth.nic.config.notation import Refusal


@pytest.mark.parametrize(
    "text",
    [
        *(
            "10.0.0.5/24",
            "10.0.0.1/1",
            "10.0.0.4/31",
            "10.0.0.5/31",
            "10.0.0.0/32",
            "10.0.0.255/32",
        ),
        *("169.254.1.1/16", "240.0.0.1/8", "fd00::5/64", "fd00::/127", "fd00::/128", "fe80::1/10"),
        *("fd00::ffff/112", "fd00::1.2.3.4/64"),
    ],
)
def test_host_address_when_usable(text: str) -> None:
    """An address with its prefix is read as it stands."""

    assert notation.host_address(text) == ipaddress.ip_interface(text)


@pytest.mark.parametrize(
    ("text", "found", "mend"),
    [
        ("10.0.0.5", "has no prefix", "write 10.0.0.5/24"),
        ("fd00::5", "has no prefix", "write fd00::5/64"),
        ("10.0.0.0/24", "is the address of the network itself", ""),
        ("10.0.0.0/30", "is the address of the network itself", ""),
        ("fd00::/126", "is the address of the network itself", ""),
        ("10.0.0.255/24", "is the network's broadcast address", ""),
        ("10.0.0.3/30", "is the network's broadcast address", ""),
        ("10.0.0.5/0", "has the prefix 0, which would take every destination", ""),
        ("fd00::5/0", "has the prefix 0, which would take every destination", ""),
        ("0.0.0.0/8", "is no address", ""),
        ("::/64", "is no address", ""),
        ("0.1.2.3/8", "lies in 0.0.0.0/8, which no host has", ""),
        ("127.0.0.1/8", "is a loopback address", ""),
        ("::1/128", "is a loopback address", ""),
        ("224.0.0.1/24", "is a group address", ""),
        ("ff02::1/64", "is a group address", ""),
        ("255.255.255.255/32", "is the broadcast address", ""),
        ("::ffff:10.0.0.1/128", "is IPv4 inside IPv6", ""),
        ("::ffff:127.0.0.1/128", "is IPv4 inside IPv6", ""),
        *((text, "", "") for text in ("", "/", "x", "10.0.0.5/", "10.0.0.5/33", "10.0.0.5/024")),
        *((text, "", "") for text in ("fd00::5/129", "10.0.0.5/255.255.255.0", "10.0.0.5/-1")),
        *((text, "", "") for text in ("fe80::1%eth0/64", " 10.0.0.5/24", "10.0.0.5/24\n", "1/8")),
        *((text, "", "") for text in ("010.0.0.5/24", "10.0.0/24", f"fd00::5/64{' ' * 64}")),
        *((text, "", "") for text in ("\u0661.0.0.5/24", "10.0.0.5/\u0662", "10.0.0.5//24")),
    ],
)
def test_host_address_when_refused(text: str, found: str, mend: str) -> None:
    """An address that no host can have is refused in words."""

    assert notation.host_address(text) == Refusal(found, mend)


@pytest.mark.parametrize("text", ["10.0.0.1", "fe80::1", "fd00::", "240.0.0.1"])
def test_ip_when_usable(text: str) -> None:
    """An address is read as it stands."""

    assert notation.ip(text) == ipaddress.ip_address(text)


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("10.0.0.1/24", Refusal(mend="write 10.0.0.1")),
        ("10.0.0.1/99", Refusal()),
        ("nonsense", Refusal()),
        ("224.0.0.9", Refusal("is a group address")),
        ("::ffff:10.0.0.1", Refusal("is IPv4 inside IPv6")),
        ("fe80::1%net1", Refusal()),
    ],
)
def test_ip_when_refused(text: str, refusal: Refusal) -> None:
    """A prefix, a zone or an address that no host has is refused."""

    assert notation.ip(text) == refusal


@pytest.mark.parametrize("text", ["0.0.0.0/0", "10.0.0.0/8", "10.0.0.1/32", "224.0.0.0/4", "::/0"])
def test_destination_when_a_network(text: str) -> None:
    """A network without bits behind its prefix is read as it stands."""

    assert notation.destination(text) == ipaddress.ip_network(text)


def test_destination_when_default() -> None:
    """The word for a default route is kept until its family is known."""

    assert notation.destination("default") == "default"


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("10.0.0.1/24", Refusal("has bits behind its prefix", "write 10.0.0.0/24")),
        ("fd00::1/64", Refusal("has bits behind its prefix", "write fd00::/64")),
        ("10.0.0.1", Refusal("has no prefix", "write 10.0.0.1/32")),
        ("fd00::1", Refusal("has no prefix", "write fd00::1/128")),
        ("::ffff:10.0.0.0/104", Refusal("is IPv4 inside IPv6")),
        ("default/0", Refusal()),
        ("Default", Refusal()),
    ],
)
def test_destination_when_refused(text: str, refusal: Refusal) -> None:
    """What is no network is refused, with the network that was probably meant."""

    assert notation.destination(text) == refusal


@pytest.mark.parametrize("text", ["02:00:00:00:00:01", "FE:dc:BA:98:76:54"])
def test_hardware_address_when_unicast(text: str) -> None:
    """A hardware address is read in lower case."""

    assert notation.hardware_address(text) == text.lower()


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("01:00:5e:00:00:01", Refusal("is a group address")),
        ("ff:ff:ff:ff:ff:ff", Refusal("is a group address")),
        ("00:00:00:00:00:00", Refusal("is zero")),
        ("02:00:00:00:00", Refusal("has 5 octets")),
        (
            ":".join(["80"] * 20),
            Refusal("has 20 octets", "an InfiniBand address cannot be set"),
        ),
        *((text, Refusal()) for text in ("", "02-00-00-00-00-01", "0200.0000.0001", "2:0:0:0:0:1")),
        *(
            (text, Refusal())
            for text in ("02:00:00:00:00:01:", "02:00:00:00:00:0g", "02" + ":02" * 30)
        ),
    ],
)
def test_hardware_address_when_refused(text: str, refusal: Refusal) -> None:
    """Group addresses, zero and other lengths are refused."""

    assert notation.hardware_address(text) == refusal


@pytest.mark.parametrize("text", ["net1", "eth0", "a", "A.b_c-9", "...", "x" * 15, "-"])
def test_interface_name_when_allowed(text: str) -> None:
    """Letters, digits and three signs, up to 15 bytes."""

    assert notation.interface_name(text) == text


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "has 0 bytes"),
        ("x" * 16, "has 16 bytes"),
        ("é" * 8, "has 16 bytes"),
        ("\ud800" * 8, "has 24 bytes"),
        ("é", ""),
        ("a/b", ""),
        ("net%d", ""),
        ("a b", ""),
        ("net1\n", ""),
        ("lo", "is the pod's loopback"),
        ("all", "means every interface in the kernel's settings"),
        ("default", "means future interfaces in the kernel's settings"),
        (".", "is the folder itself in /proc and /sys"),
        ("..", "is the folder above in /proc and /sys"),
    ],
)
def test_interface_name_when_refused(text: str, found: str) -> None:
    """Names that the kernel or its files take otherwise are refused (case 12)."""

    assert notation.interface_name(text) == Refusal(found)


def test_incoming_interface_when_loopback() -> None:
    """A rule may speak of packets that the pod itself sends, which come in by ``lo``."""

    assert notation.incoming_interface("lo") == "lo"
    assert notation.incoming_interface("net1") == "net1"
    assert notation.incoming_interface("all") != "all"


READERS: list[Callable[[str], object]] = [
    notation.ip,
    notation.host_address,
    notation.network,
    notation.destination,
    notation.hardware_address,
    notation.interface_name,
    notation.incoming_interface,
]


@pytest.mark.parametrize("reader", READERS)
@given(text=st.one_of(st.text(), st.text("0123456789abcdef.:/%")))
def test_reader_when_given_any_text(reader: Callable[[str], object], text: str) -> None:
    """Whatever the text, there is a value or a refusal, and a value is written one way only."""

    value = reader(text)

    if not isinstance(value, Refusal):
        assert reader(str(value)) == value


@given(text=st.one_of(st.ip_addresses().map(str), st.text("0123456789.:/")))
def test_ip_when_compared_with_the_library(text: str) -> None:
    """Nothing is taken for an address that Python's own reader refuses."""

    value = notation.ip(text)

    known: object = None
    with contextlib.suppress(ValueError):
        known = ipaddress.ip_address(text)
    assert isinstance(value, Refusal) or value == known
