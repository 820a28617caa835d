"""The outside of `players.py`: a node with NICs on cables, kubelet and runtime played in there."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import attrs

from berth.errors import HostError
from berth.host.netlink.namespace import run_in_netns
from tests.nspawn.container import LIMIT_S, poll
from tests.nspawn.node import HERE, SERVICE, Node
from tests.nspawn.players import KUBECONFIG, NODE, SOCKET, SUBNET

SWITCH = "switch"
"""Network namespace with the far ends of the cables, all on one bridge."""
EVERY_S = 0.005
"""Between two packets."""
PORT = 9000
_UNIT = """
[Service]
Type=exec
Environment=PYTHONPATH=/usr/lib/berthd:/usr/lib/berthd/vendor
ExecStart=/usr/bin/python3 -S /opt/players.py
"""
_CONFIG = f"""
[node]
name = "{NODE}"
[kubernetes]
credentials = "kubeconfig"
kubeconfig = "{KUBECONFIG}"
[[nic.group]]
name = "lab"
match = {{ name = %s }}
"""


class Troupe:
    """Everything around berthd on one node.

    Args:
        node: Its berthd is restarted with a configuration that names the NICs.
        nics: How many are plugged in: ``nic0`` and so on.
    """

    def __init__(self, node: Node, *, nics: int) -> None:
        self.node = node
        names = [f"nic{number}" for number in range(nics)]
        self._cable(names)
        node.write("/opt/players.py", (HERE / "players.py").read_text(encoding="utf-8"))
        node.write("/run/systemd/system/probe-players.service", _UNIT)
        node.run("systemctl", "daemon-reload")
        node.run("systemctl", "start", "probe-players.service")
        poll(node.path(SOCKET).is_socket, bool, what="the players")
        node.configure(_CONFIG % json.dumps(names))
        node.run("systemctl", "restart", SERVICE)
        self._before: Counter[str] = Counter()
        self._before = self.wait_ready(nics)

    def _cable(self, names: Sequence[str]) -> None:
        ip = self.node.run
        ip("ip", "netns", "add", SWITCH)
        ip("ip", "-n", SWITCH, "link", "add", "br0", "type", "bridge")
        ip("ip", "-n", SWITCH, "link", "set", "br0", "up")
        ip("ip", "-n", SWITCH, "address", "add", f"{SUBNET}.1/24", "dev", "br0")
        for name in names:
            far = ("type", "veth", "peer", "name", name, "netns", SWITCH)
            ip("ip", "link", "add", name, *far)
            ip("ip", "-n", SWITCH, "link", "set", name, "master", "br0", "up")
            ip("ip", "link", "set", name, "up")

    def ask(self, verb: str, *names: str) -> Counter[str]:
        """Have the players do something; gives what kubelet did so far, by name.

        Raises:
            HostError: It failed, in the words of kubelet's event.
        """
        return Counter(self._ask(verb, *names))

    def _ask(self, verb: str, *names: str) -> Any:
        heard = b""
        with socket.socket(socket.AF_UNIX) as players:
            players.settimeout(LIMIT_S)
            players.connect(str(self.node.path(SOCKET)))
            players.sendall(json.dumps([verb, *names]).encode() + b"\n")
            while data := players.recv(65536):
                heard += data
        answer = json.loads(heard or '{"error": "they died"}')
        if "error" in answer:
            raise HostError(f"{verb} {' '.join(names)}", answer["error"])
        return answer

    def wait_ready(self, devices: int) -> Counter[str]:
        """Wait until kubelet, runtime and server know berthd and its devices.

        Gives what kubelet did since the beginning, by name.
        """
        return self.ask("ready", str(devices)) - self._before

    def stop(self, *pods: str) -> Counter[str]:
        """Stop pods one after the other; gives what kubelet did since the beginning, by name."""
        return self.ask("stop", *pods) - self._before

    def start(self, *pods: str) -> Mapping[str, str]:
        """Start pods, all at once; gives the names of their network namespaces."""
        names: Mapping[str, str] = self._ask("start", *pods)
        return names

    def links(self, netns: str) -> Mapping[str, Mapping[str, Any]]:
        """The links in a namespace as iproute2 tells them, by name."""
        rows = json.loads(self.node.run("ip", "-n", netns, "-json", "address"))
        return {row["ifname"]: row for row in rows}

    @contextmanager
    def traffic(self, netns: str, address: str) -> Iterator[Traffic]:
        """Send packets from the switch into a pod for the time of the block, and count them."""
        sender, receiver = (self._socket(name) for name in (SWITCH, netns))
        receiver.bind((address, PORT))
        receiver.settimeout(1)
        traffic = Traffic(sender, receiver, (address, PORT))
        threads = [threading.Thread(target=one) for one in (traffic.send, traffic.receive)]
        for thread in threads:
            thread.start()
        try:
            yield traffic
        finally:
            traffic.ending.set()
            for thread in threads:
                thread.join()
            sender.close()
            receiver.close()

    def _socket(self, netns: str) -> socket.socket:
        path = self.node.path(f"/run/netns/{netns}")
        return run_in_netns(path, lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))


@attrs.define
class Traffic:
    """Packets with numbers, one each `EVERY_S`.

    Attributes:
        sent: How many went out.
        seen: The numbers that came in.
    """

    _sender: socket.socket
    _receiver: socket.socket
    _to: tuple[str, int]
    ending: threading.Event = attrs.field(factory=threading.Event)
    sent: int = 0
    seen: set[int] = attrs.field(factory=set)

    @property
    def lost(self) -> list[int]:
        """The numbers of the packets that did not come in."""
        return sorted(set(range(self.sent)) - self.seen)

    def send(self) -> None:
        """Send until the end."""
        while not self.ending.is_set():
            self._sender.sendto(str(self.sent).encode(), self._to)
            self.sent += 1
            time.sleep(EVERY_S)

    def receive(self) -> None:
        """Receive until nothing has come for a second after the end."""
        while True:
            try:
                self.seen.add(int(self._receiver.recv(64)))
            except TimeoutError:
                if self.ending.is_set():
                    return
