"""What a person may ask of health, and have done to a device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from berth.daemon.healthverbs import HealthVerbs
from berth.daemon.operator import Operator
from berth.daemon.parts import Parts
from berth.errors import ConfigError
from berth.health.finding import Finding, Severity
from berth.health.verdict import Status
from berth.model.device import Nic, NicKind
from berth.model.inventory import Inventory
from berth.runtime.supervisor import Supervisor
from berth.runtime.systemd import Systemd
from tests.unit.node.peripherals import modem

MODEM = attrs.evolve(modem(), path="/dev/ttyUSB0")
NIC = Nic(
    identity="pci:0000:41:00.0",
    name="nic-0000-41-00-0",
    kind=NicKind.PF,
    group="fast",
    ifname="ens1f0",
    pci="0000:41:00.0",
    mac="52:54:00:00:00:02",
)
SICK = Finding(code="no-answer", severity=Severity.FAULT, message="it does not answer")


@pytest.fixture
async def node(parts: Parts, nursery: trio.Nursery) -> Parts:
    """A node with a modem and a NIC, the health of which is judged; nobody looks at either."""
    parts.held.discovery.inventory.set(Inventory(peripherals=(MODEM,), nics=(NIC,)))
    await nursery.start(parts.care.health.run)
    return parts


async def ask(node: Parts, verb: str, **request: Any) -> Mapping[str, Any]:
    """Ask as the command does."""

    async def tell(_event: Mapping[str, Any]) -> None:
        await trio.lowlevel.checkpoint()

    verbs = HealthVerbs(node.care, node.held.discovery.inventory)
    return await verbs.verbs()[verb](request, tell)


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ("modem-0", "modem-0"),
        (MODEM.identity, "modem-0"),
        ("/dev/ttyUSB0", "modem-0"),
        ("ens1f0", NIC.name),
        ("0000:41:00.0", NIC.name),
        ("52:54:00:00:00:02", NIC.name),
    ],
)
async def test_device_is_set_by_any_name_of_it(node: Parts, asked: str, name: str) -> None:
    """When that is answered its verdict is another one, which says how to take it back."""

    told = await ask(node, "health.set", device=asked, reason="loose-cable")

    assert told["name"] == name
    assert told["done"].startswith(f"{name} is loose-cable until you clear it")
    assert (told["verdict"]["status"], told["verdict"]["reason"]) == ("unhealthy", "loose-cable")
    assert (
        f"`berth health clear {name} loose-cable` puts it back (since "
        in (told["verdict"]["message"])
    )
    (finding,) = (await ask(node, "health.list", device=asked))["devices"][0]["findings"]
    assert (finding["source"], finding["severity"]) == ("operator", "fault")


async def test_own_message_is_told(node: Parts) -> None:
    """In the person's words."""

    told = await ask(
        node, "health.set", device="modem-0", reason="odd", message="seen to on Friday"
    )
    assert told["verdict"]["message"].startswith("seen to on Friday (since ")


async def test_clear_takes_back_what_was_set(node: Parts) -> None:
    """Of a device that nobody has asked yet, nothing is known then."""

    await ask(node, "health.set", device="modem-0", reason="odd")
    told = await ask(node, "health.clear", device="modem-0")

    assert told["done"] == "modem-0: odd cleared"
    assert told["verdict"]["status"] == "unknown"


async def test_clear_with_a_reason_asks_the_device_anew(node: Parts) -> None:
    """What is still wrong is back when that is answered."""

    health = node.care.health

    class Source:
        async def probe_now(self, subject: str) -> None:
            await trio.lowlevel.checkpoint()
            if subject == MODEM.identity:
                health.report(subject, "probe", (SICK,))

    health.add_prober(Source())
    health.report(MODEM.identity, "probe", (SICK, attrs.evolve(SICK, code="other")))
    told = await ask(node, "health.clear", device="modem-0", reason="no-answer")

    assert told["done"] == "modem-0: no-answer cleared"
    assert (told["verdict"]["status"], told["verdict"]["reason"]) == ("unhealthy", "other")
    assert told["verdict"]["causes"] == 2


async def test_clear_of_a_part_leaves_what_is_of_the_whole(node: Parts) -> None:
    """Other parts would get it back by that; the refusal says where it is cleared."""

    part = attrs.evolve(MODEM, identity=f"{MODEM.identity}/1", name="modem-0-1", path="")
    node.held.discovery.inventory.set(Inventory(peripherals=(MODEM, part)))
    await wait_all_tasks_blocked()
    for device, reason in (("modem-0", "smell"), ("modem-0-1", "odd")):
        await ask(node, "health.set", device=device, reason=reason)

    told = await ask(node, "health.clear", device="modem-0-1")
    assert (told["done"], told["verdict"]["reason"]) == ("modem-0-1: odd cleared", "smell")

    with pytest.raises(ConfigError, match="has no cause smell; name one: smell of modem-0"):
        await ask(node, "health.clear", device="modem-0-1", reason="smell")
    assert node.care.health.verdict("modem-0").reason == "smell"


async def test_what_no_device_is_the_whole_of_is_cleared_by_its_parts(node: Parts) -> None:
    """Two ports of a NIC have one function, which has no name of its own."""

    port = attrs.evolve(NIC, identity=f"{NIC.identity}/0")
    node.held.discovery.inventory.set(Inventory(nics=(port,)))
    await wait_all_tasks_blocked()
    node.care.health.report(NIC.identity, "probe", (SICK,))

    told = await ask(node, "health.clear", device=port.name, reason="no-answer")

    assert told["done"] == f"{port.name}: no-answer cleared"


@pytest.mark.parametrize(
    ("verb", "request_", "words"),
    [
        ("health.set", {}, "DEVICE: is missing"),
        ("health.set", {"device": 7, "reason": "x"}, "DEVICE: is missing"),
        ("health.set", {"device": "modem-0"}, "REASON: is missing.* such as fan-broken"),
        (
            "health.set",
            {"device": "modem-0", "reason": "Fan broken!"},
            "REASON: is 'Fan broken!': .* such as fan-broken",
        ),
        ("health.set", {"device": "modem-0", "reason": "x" * 64}, "at most 63 of a-z"),
        (
            "health.set",
            {"device": "modem-0", "reason": "x", "message": "é" * 251},
            "--message: .*at most 500 bytes",
        ),
        ("health.set", {"device": "modem-1", "reason": "x"}, "do you mean modem-0?"),
        (
            "health.list",
            {"device": "zzz"},
            "device zzz: is not known here: devices are modem-0, nic-0000-41-00-0",
        ),
        ("health.clear", {"device": "modem-0"}, "has no cause that an operator set; nothing"),
        (
            "health.clear",
            {"device": NIC.name, "reason": "odd"},
            "has no cause odd; name one: no-answer",
        ),
    ],
)
async def test_odd_request_is_refused_with_what_is_there(
    node: Parts, verb: str, request_: Mapping[str, Any], words: str
) -> None:
    """A person sees at once what to write instead."""

    node.care.health.report(NIC.identity, "probe", (SICK,))

    with pytest.raises(ConfigError, match=words):
        await ask(node, verb, **request_)


async def test_name_of_two_devices_is_refused(node: Parts) -> None:
    """It is said which they are."""

    nics = (attrs.evolve(NIC, identity=f"{NIC.identity}/{n}", name=f"nic-{n}") for n in (0, 1))
    node.held.discovery.inventory.set(Inventory(nics=tuple(nics)))

    with pytest.raises(ConfigError, match="is nic-0 and nic-1: it must be one"):
        await ask(node, "health.set", device="ens1f0", reason="odd")


async def test_node_without_devices_says_so(parts: Parts) -> None:
    """Nothing is suggested there."""

    with pytest.raises(ConfigError, match="no device was found on this node"):
        await ask(parts, "health.set", device="modem-0", reason="odd")
    assert (await ask(parts, "health.list"))["devices"] == []


async def test_verdicts_stand_in_devices_and_why(node: Parts, file: Any) -> None:
    """The operator's verbs are all there, and tell the same."""

    async def tell(_event: Mapping[str, Any]) -> None:
        await trio.lowlevel.checkpoint()

    verbs = Operator(node, file, supervisor=Supervisor(()), systemd=Systemd({})).verbs()
    await verbs["health.set"]({"device": "modem-0", "reason": "odd"}, tell)
    await node.care.health.state.wait_value(lambda s: s.of("modem-0").status is Status.UNHEALTHY)

    listed = (await verbs["devices"]({}, tell))["devices"]
    assert [device["verdict"]["status"] for device in listed] == ["unhealthy", "unknown"]
    (found,) = (await verbs["why"]({"what": "modem-0"}, tell))["found"]
    assert found["device"]["verdict"] == listed[0]["verdict"]


async def test_words_of_a_person_cannot_command_a_terminal(node: Parts) -> None:
    """They are shown in one line, wherever they are."""

    answer = await ask(
        node, "health.set", device="modem-0", reason="odd", message="it\nis \x1b[31mred"
    )

    assert answer["verdict"]["message"].startswith("it\\nis \\x1b[31mred (since ")


@pytest.mark.parametrize(
    ("identity", "words"),
    [
        ("pci:0000:41:00.0", "until you clear it, over reboots too"),
        ("link:this-boot:7", "until the next boot, or until you clear it"),
    ],
)
async def test_it_is_said_for_how_long_a_word_holds(node: Parts, identity: str, words: str) -> None:
    """A bond of the next boot is not known to be the one of this."""

    bond = attrs.evolve(NIC, identity=identity, name="nic-lan-bond0")
    node.held.discovery.inventory.set(Inventory(nics=(bond,)))
    await node.care.health.state.wait_value(lambda state: "nic-lan-bond0" in state.verdicts)

    answer = await ask(node, "health.set", device="nic-lan-bond0", reason="odd")

    assert answer["done"] == f"nic-lan-bond0 is odd {words}"
