"""A discovery on real links: what it sees, how soon, and at what cost."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from subprocess import run
from typing import Final

import pytest
import trio

from berth.host.uevents import UDEV_CONTROL
from tests.integration.discovery.conftest import Watcher, watching
from tests.netns import ScratchNetns, scratch_netns

pytestmark = pytest.mark.root

NIC = "nic-lab-v0"
SOON_S = 0.5
"""From an event to the inventory, at best of a few tries on a busy machine."""


async def _ip(namespace: ScratchNetns, *arguments: str) -> None:
    await trio.to_thread.run_sync(lambda: namespace.ip(*arguments))


async def _batch(namespace: ScratchNetns, *lines: str) -> None:
    """Many changes by one ``ip``, which costs no process each."""
    command = ["nsenter", f"--net={namespace.path}", "ip", "-force", "-batch", "-"]
    text = "\n".join(lines) + "\n"
    await trio.to_thread.run_sync(
        lambda: run(command, input=text, text=True, check=True, capture_output=True, timeout=60)
    )


@pytest.mark.slow
async def test_link_is_offered_soon_after_it_appears(home: ScratchNetns, watcher: Watcher) -> None:
    """And is gone as soon as it is removed."""

    took = []
    for _ in range(5):
        began = time.monotonic()
        await _ip(home, "link", "add", "v1", "type", "veth", "peer", "name", "p1")
        told = await watcher.wait_offered(NIC, "nic-lab-v1")
        took.append(told["at"] - began)
        await _ip(home, "link", "del", "v1")
        await watcher.wait_offered(NIC)
        await watcher.wait_quiet()

    assert min(took) < SOON_S


async def test_rename_changes_what_it_is_called_and_nothing_else(
    home: ScratchNetns, watcher: Watcher
) -> None:
    """Device, identity and offer stay."""

    before = watcher.now
    await _ip(home, "link", "set", "v0", "name", "elsewise")
    after = await watcher.wait(lambda now: bool(now["names"] == {NIC: "elsewise"}))

    assert after["devices"] == before["devices"]
    assert after["identities"] == before["identities"]


async def test_default_route_takes_the_nic_out_and_its_end_brings_it_back(
    home: ScratchNetns, watcher: Watcher
) -> None:
    """Case 13: the free device that becomes uplink leaves at once."""

    await _batch(
        home,
        "link set p0 up",
        "link set v0 up",
        "route add default dev v0 scope link table 100",
    )
    reason = await watcher.wait_reason(NIC, "uplink")
    gone = watcher.now["devices"]
    await _ip(home, "route", "del", "default", "table", "100")
    await watcher.wait_offered(NIC)

    assert reason == "uplink: default route (table 100) → v0"
    assert gone == []


_USES: Final = [
    (["address add 192.0.2.7/24 dev v0"], "in-use-by-host: the host has 192.0.2.7/24 on it"),
    (
        [
            "link add vx0 type vxlan id 42 remote 198.51.100.9 dstport 4789",
            "link set v0 up",
            "address add 198.51.100.1/24 dev v0",
            "link set vx0 up",
            "route add default dev vx0",
        ],
        "uplink: default route (table main) → vx0 → v0",
    ),
]
_MORE_USES: Final = [
    (["address add 2001:db8::7/64 dev v0 nodad"], "in-use-by-host: the host has 2001:db8:"),
    (
        ["link set v0 up", "route add 203.0.113.0/24 dev v0"],
        "in-use-by-host: the host's route to 203.0.113.0/24",
    ),
    (
        ["link set v0 up", "nexthop add id 5 dev v0", "route add 203.0.113.0/24 nhid 5"],
        "in-use-by-host: the host's route to 203.0.113.0/24",
    ),
    (
        ["link set v0 up", "route add ::/0 dev v0"],
        "uplink: default route (table main) → v0",
    ),
    (
        ["link set v0 up", "nexthop add id 5 dev v0", "route add default nhid 5"],
        "uplink: default route (table main) → v0",
    ),
    (["link add mv0 link v0 type macvlan"], "has-children: carries mv0"),
    (
        ["link add br0 type bridge", "link set v0 master br0"],
        "enslaved: belongs to br0 (bridge)",
    ),
]


@pytest.mark.parametrize(
    ("lines", "reason"),
    [*_USES, *(pytest.param(*use, marks=pytest.mark.slow) for use in _MORE_USES)],
)
async def test_use_by_the_host_takes_the_nic_out(
    home: ScratchNetns, watcher: Watcher, lines: list[str], reason: str
) -> None:
    """Each way in which a host uses a NIC, as the kernel tells it."""

    await _batch(home, "link set p0 up", *lines)

    assert (await watcher.wait_reason(NIC, reason)).startswith(reason)
    assert watcher.now["devices"] == []


async def test_bridge_is_not_movable(home: ScratchNetns, tmp_path: Path) -> None:
    """As this kernel tells it, or by its kind."""

    config = '[[nic.group]]\nname = "lab"\nmatch = { name = ["br0"] }\n'
    home.ip("link", "add", "br0", "type", "bridge")
    async with watching(home, tmp_path, config=config) as watcher:
        reason = await watcher.wait_reason("nic-lab-br0", "netns-immovable")

    assert reason == "netns-immovable: the kernel moves it to no namespace"


async def test_nic_that_leaves_and_comes_back_is_offered_again(
    home: ScratchNetns, watcher: Watcher
) -> None:
    """To another namespace and back, under its number."""

    identity = watcher.now["identities"][NIC]
    with scratch_netns("pod") as pod:
        await _ip(home, "link", "set", "v0", "netns", str(pod.path))
        await watcher.wait_offered()
        await _ip(pod, "link", "set", "v0", "netns", str(home.path))
        back = await watcher.wait_offered(NIC)

    assert back["identities"][NIC] == identity


@pytest.mark.slow
async def test_idle_discovery_sleeps(home: ScratchNetns, watcher: Watcher) -> None:
    """No look, no word, and no wake-up of its loop."""

    before = await watcher.wait_quiet()
    said, status = len(watcher.said), _switches(watcher)
    # The one thing that is waited for here is that nothing happens.
    await trio.sleep(1)
    woken = _switches(watcher) - status
    after = await watcher.figures()

    assert after["looks"] == before["looks"]
    assert len(watcher.said) == said
    # A page that the kernel has to fetch counts as well; a loop that polls would be woken often.
    assert woken <= 3


def _switches(watcher: Watcher) -> int:
    """How often its loop went to sleep; idle worker threads end by themselves in between."""
    pid = watcher.process.pid
    lines = Path(f"/proc/{pid}/task/{pid}/status").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt"))


@pytest.mark.slow
async def test_burst_of_a_thousand_link_events_costs_few_looks(
    home: ScratchNetns, watcher: Watcher
) -> None:
    """Each of them concerns a NIC of ours."""

    await _batch(home, "link set p0 up", "link set v0 up")
    before = await watcher.wait_quiet()
    began = time.monotonic()
    await _batch(home, *(f"link set v0 alias a{number}" for number in range(1000)))
    took_s = time.monotonic() - began
    await watcher.wait_looked(before["looks"])
    after = await watcher.wait_quiet()
    looks = after["looks"] - before["looks"]

    assert 1 <= looks <= took_s / 0.2 + 3


@pytest.mark.slow
async def test_pods_that_come_and_go_cost_no_look(home: ScratchNetns, watcher: Watcher) -> None:
    """A hundred pairs with addresses and routes, made and removed."""

    before = await watcher.wait_quiet()
    for step in (
        "link add cali{} type veth peer name q{}",
        "link set cali{} up",
        "link set q{} up",
        "address add 10.9.{}.1/32 dev cali{}",
        "route add 10.8.{}.1/32 dev cali{}",
        "link del cali{}",
    ):
        await _batch(home, *(step.format(number, number) for number in range(100)))
    after = await watcher.wait_quiet()

    assert after["looks"] == before["looks"]


@pytest.mark.slow
async def test_steady_churn_never_makes_a_nic_vanish(home: ScratchNetns, watcher: Watcher) -> None:
    """NW §10 row 24: dumps are interrupted again and again; none is taken for the end of a NIC."""

    said = len(watcher.said)
    for _ in range(10):
        churn = [f"link add c{number} type veth peer name d{number}" for number in range(40)]
        churn += [f"link set v0 alias a{number}" for number in range(40)]
        churn += [f"route add 203.0.{number}.0/24 dev lo" for number in range(40)]
        churn += [f"link del c{number}" for number in range(40)]
        churn += [f"route del 203.0.{number}.0/24 dev lo" for number in range(40)]
        await _batch(home, *churn)
    await watcher.wait_quiet()

    assert all(told["devices"] == [NIC] for told in watcher.said[said:])
    assert watcher.now["devices"] == [NIC]


@pytest.mark.slow
async def test_lost_events_are_made_up_for_by_a_look(home: ScratchNetns, watcher: Watcher) -> None:
    """The reader stands still while its queue overflows, and the one event that counts is lost."""

    await _batch(home, "link set p0 up", "link set v0 up")
    await watcher.wait_quiet()
    watcher.process.send_signal(signal.SIGSTOP)
    await _batch(home, *(f"link set v0 alias a{number}" for number in range(5000)))
    await _ip(home, "address", "add", "192.0.2.7/24", "dev", "v0")
    watcher.process.send_signal(signal.SIGCONT)
    await watcher.wait_reason(NIC, "in-use-by-host")
    figures = await watcher.figures()

    assert figures["stirs"] >= 1


async def test_sysfs_of_another_namespace_makes_nothing_of_a_link(
    home: ScratchNetns, tmp_path: Path
) -> None:
    """Case 22: it shows the machine's links, under names and numbers that are taken here too."""

    machine = {path.name: int((path / "ifindex").read_text()) for path in _links_of_the_machine()}
    name, index = next((n, i) for n, i in machine.items() if n != "lo")
    home.ip("link", "del", "v0")
    home.ip("link", "add", name, "index", str(index), "type", "veth", "peer", "name", "p0")
    config = f'[[nic.group]]\nname = "lab"\nmatch = {{ name = ["{name}"] }}\n'
    async with watching(home, tmp_path, config=config, own_sysfs=False) as watcher:
        told = await watcher.wait_offered(f"nic-lab-{name}")

    assert told["identities"][f"nic-lab-{name}"].startswith("link:")
    assert told["identities"][f"nic-lab-{name}"].endswith(f":{index}")


def _links_of_the_machine() -> list[Path]:
    return [path for path in Path("/sys/class/net").iterdir() if (path / "ifindex").exists()]


def _uevent_files() -> list[Path]:
    return sorted(Path("/sys/bus/pci/devices").glob("*/uevent"))


async def test_device_event_is_followed_by_a_look(watcher: Watcher) -> None:
    """The kernel's own, where no udevd runs; a change that means nothing is asked for."""

    if UDEV_CONTROL.exists():
        pytest.skip("SKIPPED FOR WANT OF A QUIET MACHINE: udevd would act on the event")
    functions = _uevent_files()
    if not functions:
        pytest.skip("SKIPPED FOR WANT OF HARDWARE: a PCI function")
    before = await watcher.wait_quiet()
    functions[0].write_text("change")
    await watcher.wait_looked(before["looks"])
    after = await watcher.wait_quiet()

    assert after["looks"] == before["looks"] + 1
    assert after["stirs"] > before["stirs"]
