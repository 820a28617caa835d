"""Messages of a real kernel, kept beside the tests, and how they were taken.

Run as root, ``python -m tests.unit.host.netlink.capture`` makes links and tables in a scratch
namespace of the running kernel and writes them anew. Nothing of the host is in them.
"""

from __future__ import annotations

import json
import platform
from pathlib import Path

from berth.host.netlink import generic, nsid
from berth.host.netlink.address import dump_addresses
from berth.host.netlink.exchange import Exchange
from berth.host.netlink.link import RTM_NEWLINK
from berth.host.netlink.linkrequest import dump_links, new_link
from berth.host.netlink.message import Message, Request, encode_message, parse_messages
from berth.host.netlink.neighbor import dump_neighbors
from berth.host.netlink.nexthop import dump_next_hops
from berth.host.netlink.route import dump_routes
from berth.host.netlink.rule import dump_rules
from berth.host.netlink.socket import NETLINK_GENERIC, Netlink, open_in
from tests.netns import ScratchNetns, scratch_netns

FILE = Path(__file__).parent / "linux-6.18.json"

SCENE = (
    "link add v0 type veth peer name v1",
    "link property add dev v0 altname enp1s0f0 altname slot-one",
    "link set v0 address 02:00:00:00:00:01 alias uplink group 7 txqueuelen 500 mtu 1400 up",
    "link set v1 address 02:00:00:00:00:02 up",
    "link add br0 address 02:00:00:00:00:03 type bridge",
    "link set v1 master br0",
    "link add mv0 link v0 address 02:00:00:00:00:04 type macvlan mode vepa",
    "link add vx0 type vxlan id 42 dev v0 remote 192.0.2.9 local 192.0.2.1 dstport 4790",
    "link add vx6 type vxlan id 43 remote 2001:db8::9 dstport 4789",
    "address add 192.0.2.1/24 brd 192.0.2.255 dev v0",
    "address add 198.51.100.1 peer 198.51.100.2/32 dev v0 noprefixroute",
    "address add 2001:db8::1/64 dev v0 nodad",
    "address add 2001:db8::2/64 dev v0 nodad valid_lft 3600 preferred_lft 1800",
    "route add default via 192.0.2.254 dev v0 mtu 1300 metric 50",
    "route add 203.0.113.0/24 nexthop via 192.0.2.3 weight 2 nexthop via inet6 2001:db8::3 dev v0",
    "route add blackhole 203.0.113.128/25",
    "route add 10.9.0.0/16 via 192.0.2.4 dev v0 onlink table 1000 congctl reno",
    "-6 route add default via 2001:db8::fe dev v0 pref high",
    "-6 route add 2001:db8:9::/48 nexthop via 2001:db8::3 dev v0 nexthop via 2001:db8::4 dev v0",
    "nexthop add id 5 via 192.0.2.7 dev v0",
    "nexthop add id 6 blackhole",
    "nexthop add id 8 via 192.0.2.8 dev v0",
    "nexthop add id 7 group 5/8,3",
    "route add 10.8.0.0/16 nhid 7",
    "rule add from 192.0.2.1 table 1000 priority 100",
    "rule add fwmark 0x3/0xff iif v0 ipproto tcp dport 80-90 table 1001 priority 101",
    "rule add not to 10.0.0.0/8 suppress_prefixlength 0 table main priority 102",
    "-6 rule add uidrange 0-10 oif v1 goto 32766 priority 103",
    "neighbor add 192.0.2.254 lladdr 02:00:00:00:00:fe dev v0 nud permanent",
    "neighbor add 2001:db8::fe lladdr 02:00:00:00:00:fe dev v0 nud permanent",
)


def load() -> dict[str, tuple[Message, ...]]:
    """Give the messages of each table."""
    told = json.loads(FILE.read_text())["tables"]
    return {
        name: tuple(parse_messages(bytes.fromhex(data))[0] for data in messages)
        for name, messages in told.items()
    }


def load_bytes() -> dict[str, tuple[bytes, ...]]:
    """Give the same as bytes."""
    told = json.loads(FILE.read_text())["tables"]
    return {name: tuple(map(bytes.fromhex, messages)) for name, messages in told.items()}


def _dumps(namespace: ScratchNetns) -> dict[str, tuple[Message, ...]]:
    with open_in(namespace.path) as netlink:
        return {
            "link": netlink.dump(dump_links()),
            "address": netlink.dump(dump_addresses()),
            "route": netlink.dump(dump_routes(2)) + netlink.dump(dump_routes(10)),
            "rule": netlink.dump(dump_rules(2)) + netlink.dump(dump_rules(10)),
            "neighbor": netlink.dump(dump_neighbors()),
            "nexthop": netlink.dump(dump_next_hops()),
            "nsid": netlink.request(nsid.get_nsid(namespace.fd)),
            "refusal": (_refusal(netlink, new_link("a-name-that-is-too-long", "veth")),),
        }


def _ethtool(namespace: ScratchNetns, index: int) -> dict[str, tuple[Message, ...]]:
    with open_in(namespace.path, NETLINK_GENERIC) as netlink:
        found = netlink.request(generic.get_family(generic.ETHTOOL))
        family = generic.parse_family(found[0])
        return {
            "family": found,
            "features": netlink.request(generic.get_features(family, index)),
            "linkmodes": netlink.request(generic.get_link_modes(family, index)),
        }


def _refusal(netlink: Netlink, request: Request) -> Message:
    """Give the message by which the kernel refuses a request."""
    exchange = Exchange(request, sequence=1, port=netlink._port)
    netlink._sock.send(exchange.data)
    return parse_messages(netlink._sock.recv(32768))[0]


def main() -> None:
    """Write the file."""
    with scratch_netns() as namespace:
        for line in SCENE:
            namespace.ip(*line.split())
        tables = _dumps(namespace)
        index = next(m.body for m in tables["link"] if b"v0\0" in m.body and m.type == RTM_NEWLINK)
        tables |= _ethtool(namespace, int.from_bytes(index[4:8], "little"))
    texts = {name: [encode_message(m).hex() for m in found] for name, found in tables.items()}
    document = {"kernel": platform.release(), "tables": texts}
    FILE.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
