"""Real network managers beside a real berthd: what they do with links that berth lends out.

Each test has two links that go away and come home alike, as a pod's NIC does: ``nic0``, which
berth lends out, and ``oth0``, which shows what the manager would do. berthd is stopped meanwhile:
it would take a link that is away without a claim for gone, and its marks outlive it in any case.

Source: network.md §8, §10 row 8.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.nspawn.bed import Bed
from tests.nspawn.conftest import RELEASES
from tests.nspawn.container import poll
from tests.nspawn.node import Node

PACKAGES = ("dbus", "ifupdown", "network-manager")
MARKS = "/run/berth-nics"
LEFT_ALONE = ("ok", "systemd-networkd leaves nic0 alone")
LINKS = ("nic0", "oth0")
PORT = "10.9.0.1/24"
CONFIG = """\
[[nic.group]]
name = "wires"
match = { name = ["nic0"] }
take_configured = true
"""
NETWORK = f"""\
[Match]
Name=nic* oth*
[Network]
Address={PORT}
LinkLocalAddressing=no
"""
PROFILE = f"""\
[connection]
id=all
uuid=5a7b43e8-6b0e-4b7e-9d3c-0d5a3f1f0c11
type=ethernet
multi-connect=3
[ipv4]
method=manual
address1={PORT}
[ipv6]
method=disabled
"""
STRONG = "[device-all]\nmatch-device=interface-name:nic*\nmanaged=1\n"
FURNISH = """
ip netns add pod
ip link add up0 type veth peer name up1
ip address add 192.0.2.2/24 dev up0
ip link set up0 up
ip link set up1 up
ip route add default via 192.0.2.1
for link in nic0 oth0; do
  ip link add $link type veth peer name p-$link
  ip link set p-$link up
done
"""
TRIP = """
for link in nic0 oth0; do
  ip address flush dev $link
  ip link set $link netns pod
  udevadm settle
  ip -n pod link set $link netns 1
  udevadm settle
done
"""


@pytest.fixture(scope="module", params=RELEASES)
def managed(request: pytest.FixtureRequest, bed: Bed, package: Path) -> Iterator[Node]:
    """A node with all managers installed and none of them started."""
    node = bed.boot(request.param, PACKAGES)
    # NetworkManager leaves pairs of links alone unless it is told otherwise.
    node.run("ln", "-s", "/dev/null", "/etc/udev/rules.d/85-nm-unmanaged.rules")
    node.run("udevadm", "control", "--reload")
    for manager in ("NetworkManager", "networking", "systemd-networkd"):
        node.attempt("systemctl", "disable", "--now", manager)
    node.provision(package, CONFIG)
    yield node
    bed.end(node)


@pytest.fixture
def host(managed: Node) -> Iterator[Node]:
    """The same with links, an uplink among them, and a berthd that does not run yet."""
    managed.run("systemctl", "stop", "berthd.socket", "berthd.service")
    managed.run("sh", "-eu", given=FURNISH)
    yield managed
    managed.attempt("systemctl", "stop", "NetworkManager", "systemd-networkd.socket")
    managed.attempt("systemctl", "stop", "systemd-networkd")
    for path in (
        "/etc/systemd/network/50-all.network",
        "/etc/NetworkManager/system-connections/all.nmconnection",
        "/etc/NetworkManager/conf.d/strong.conf",
    ):
        managed.run("rm", "-f", path)
    managed.tidy()


def start_networkd(node: Node) -> None:
    """Start networkd with a file that means both links."""
    node.write("/etc/systemd/network/50-all.network", NETWORK)
    node.run("systemctl", "start", "systemd-networkd")


def networkd_version(node: Node) -> int:
    """The version of systemd in there."""
    return int(node.run("networkctl", "--version").split()[1])


def start_networkmanager(node: Node) -> None:
    """Start NetworkManager with a profile that means every link."""
    path = "/etc/NetworkManager/system-connections/all.nmconnection"
    node.write(path, PROFILE)
    node.run("chmod", "0600", path)
    node.write(
        "/etc/NetworkManager/conf.d/test.conf",
        "[main]\nno-auto-default=*\n[device-others]\nmatch-device=interface-name:up*,"
        "interface-name:p-*\nmanaged=0\n",
    )
    node.run("systemctl", "start", "NetworkManager")


def addresses(node: Node, link: str) -> list[str]:
    """The IPv4 addresses of a link."""
    told = json.loads(node.run("ip", "-json", "-4", "address", "show", "dev", link))
    return [
        f"{one['local']}/{one['prefixlen']}" for item in told for one in item.get("addr_info", ())
    ]


def wait_configured(node: Node, *links: str) -> None:
    """Wait until a manager has given each its address."""
    for link in links:
        poll(lambda link=link: addresses(node, link), lambda a: a == [PORT], what=link)  # type: ignore[misc]  # bound early


def wait_marked(node: Node, *, marked: bool = True) -> None:
    """Wait until ``nic0`` is marked, or is not, and udev has judged it by that."""
    index = node.run("cat", "/sys/class/net/nic0/ifindex").strip()
    path = node.path(f"{MARKS}/ifindex-{index}")
    poll(path.exists, lambda there: there is marked, what=str(path))
    poll(
        lambda: node.run("udevadm", "info", "/sys/class/net/nic0"),
        lambda told: ("BERTH_MANAGED=1" in told) is marked,
        what="udev's word of nic0",
    )


def travel(node: Node) -> None:
    """Let both links go into a pod's namespace and come home, the lent one first."""
    node.run("systemctl", "stop", "berthd.socket", "berthd.service")
    node.run("sh", "-eu", given=TRIP)


def lines(node: Node, topic: str = "network managers") -> list[tuple[str, str]]:
    """What the operator is told."""
    told = json.loads(node.attempt("berth", "check", "--json").stdout)
    return [(one["level"], one["text"]) for one in told["lines"] if one["topic"] == topic]


def test_networkd_leaves_alone_what_is_lent(host: Node) -> None:
    """A mark takes no address away, and what comes home is not configured until it is given up.

    Before 256 networkd keeps what it has until it comes home, and the operator is told so.
    """

    is_old = networkd_version(host) < 256
    start_networkd(host)
    wait_configured(host, *LINKS)
    host.run("systemctl", "start", "berthd.service")
    wait_marked(host)
    had = "systemd-networkd has nic0 by /etc/systemd/network/50-all.network (configured)"
    expected = ("warning", f"{had}, although it is marked") if is_old else LEFT_ALONE
    poll(lambda: lines(host), lambda told: expected in told, what="what is told of networkd")
    assert addresses(host, "nic0") == [PORT]

    travel(host)
    wait_configured(host, "oth0")
    assert addresses(host, "nic0") == []
    assert LEFT_ALONE in lines(host)

    host.configure("")
    host.run("systemctl", "start", "berthd.service")
    wait_marked(host, marked=False)
    if is_old:
        host.run("networkctl", "reconfigure", "nic0")
    wait_configured(host, "nic0")


def test_networkd_of_old_needs_our_file_to_come_first(host: Node) -> None:
    """A file with a lower name takes the link before 256, and the operator is told of it."""

    start_networkd(host)
    host.run("systemctl", "start", "berthd.service")
    wait_marked(host)
    first = "/etc/systemd/network/00-first.network"
    host.write(first, NETWORK)
    host.run("networkctl", "reload")
    told = [text for _, text in lines(host) if text.startswith(first)]
    host.run("rm", first)

    assert len(told) == (networkd_version(host) < 256)


def test_networkmanager_leaves_alone_what_comes_home(host: Node) -> None:
    """What it had already it has to be told to let go; what comes home marked it never takes."""

    start_networkmanager(host)
    wait_configured(host, *LINKS)
    host.run("systemctl", "start", "berthd.service")
    wait_marked(host)
    assert addresses(host, "nic0") == [PORT]
    assert (
        "warning",
        "NetworkManager has nic0 (connected), which it had before berthd marked it",
    ) in (lines(host))

    travel(host)
    wait_configured(host, "oth0")
    assert addresses(host, "nic0") == []
    assert ("ok", "NetworkManager leaves nic0 alone") in lines(host)


def test_networkmanager_that_is_told_otherwise(host: Node) -> None:
    """A setting of its own goes over the mark, and the operator is told of it."""

    host.write("/etc/NetworkManager/conf.d/strong.conf", STRONG)
    start_networkmanager(host)
    host.run("systemctl", "start", "berthd.service")
    wait_marked(host)
    travel(host)
    wait_configured(host, "nic0")

    assert [level for level, text in lines(host) if "[device-all] managed=1" in text] == ["warning"]


def test_ifupdown_takes_what_is_written_for_it_alone(host: Node) -> None:
    """A line for a lent link is told, since its hook of udev's heeds no mark."""

    path = "/etc/network/interfaces"
    text = host.path(path).read_text() if host.path(path).exists() else ""
    host.run("systemctl", "start", "berthd.service")
    wait_marked(host)
    before = lines(host)
    host.write(path, f"{text}\nallow-hotplug nic0\niface nic0 inet static\n  address {PORT}\n")
    hotplug = host.run("ifquery", "--allow", "hotplug", "-l", "nic0").split()
    told = lines(host)
    host.run("ifup", "--allow=hotplug", "nic0")
    taken = addresses(host, "nic0")
    host.attempt("ifdown", "nic0")
    host.write(path, text)

    assert {level for level, _ in before} <= {"ok"}
    # What `ifupdown-hotplug` asks, and what it does then.
    assert (hotplug, taken) == (["nic0"], [PORT])
    assert [level for level, said in told if said.startswith(f"{path}: allow-hotplug nic0")] == [
        "warning"
    ]
