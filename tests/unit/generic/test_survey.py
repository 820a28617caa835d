"""From nodes and groups to devices: doors, hotplug, and all that keeps one away."""

from __future__ import annotations

import json
from random import Random

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.generic import survey as surveys
from berth.generic.identity import Memory
from berth.host.nodefacts import DevNode, NodeScan, Oddity
from berth.model.device import Capacity, Exclusion
from berth.model.edits import DeviceNode, Edits, NodeType
from berth.model.names import is_dns_label
from berth.model.nodecost import NodeCost
from berth.model.peripheral import Door
from berth.model.structure import from_json, to_json
from tests.unit.generic.nodes import DRIVER, MODEM, group, kvm, node, only, sound, surveyed, tty

KVM = group("kvm", 'match.path = "/dev/kvm"\ncount = 100')
CAPTURE = group(
    "capture",
    'match.path = "/dev/snd/pcmC*D0c"\n'
    'with = [{ path = "/dev/snd/controlC{1}" }, { path = "/dev/snd/timer", optional = true }]',
)


def test_device_is_offered_to_claims() -> None:
    """With its identity, name, keys, place in the machine and node."""
    device = only(surveyed([tty(0)], MODEM))

    assert device.exclusion is None
    assert (device.identity, device.name, device.path) == (
        "usb:0403:6001:A5:00/ttyUSB",
        "modem-usb-0403-6001-a5-00-ttyusb",
        "/dev/ttyUSB0",
    )
    assert (device.kind, device.type, device.group) == ("generic", "generic", "modem")
    assert device.keys == ("gen:usb:0403:6001:A5:00/ttyUSB", "chr:188:0")
    assert (device.door, device.resource, device.ids) == (Door.DRA, "", ())
    assert (device.slots, device.capacity) == (1, {})
    assert (device.numa, device.pcie_root) == ((1,), "pci0000:00")
    assert device.edits == Edits(
        nodes=(
            DeviceNode(
                path="/dev/ttyUSB0",
                host_path="/dev/ttyUSB0",
                type=NodeType.CHAR,
                major=188,
                minor=0,
                permissions="rw",
                file_mode=0o600,
            ),
        )
    )


def test_node_has_the_link_that_lasts() -> None:
    """By it the device is found again when its number is another one's."""
    links = ("/dev/serial/by-id/usb-A5", "/dev/serial/by-path/p")

    (made,) = only(surveyed([tty(0, links=links)], MODEM)).edits.nodes

    assert (made.host_path, made.link) == ("/dev/ttyUSB0", links[0])


def test_device_for_many_has_slots_and_ids() -> None:
    """One capacity for claims, an id for each holder at the other door."""
    both = attrs.evolve(
        KVM, door=group("x", 'match.path = "/x"\nallow_outside_dev = true\ndoor = "both"').door
    )
    device = only(surveyed([kvm()], both))

    assert device.door is Door.BOTH
    assert device.resource == f"{DRIVER}/kvm"
    assert (device.ids[0], device.ids[-1], len(device.ids)) == ("kvm-kvm::0", "kvm-kvm::99", 100)
    assert device.slots == 100
    assert device.capacity == {"slots": Capacity(value=100, default=1, values=(1,))}


@pytest.mark.parametrize(
    ("door", "auto", "ids"),
    [
        ("dra", Door.PLUGIN, ()),
        ("plugin", Door.DRA, ("x-x",)),
        ("auto", Door.PLUGIN, ("x-x",)),
        ("auto", Door.DRA, ()),
    ],
)
def test_door_decides_about_ids(door: str, auto: Door, ids: tuple[str, ...]) -> None:
    """``auto`` comes decided; a resource may have another name."""
    text = f'match.path = "/dev/x"\ndoor = "{door}"\nresource = "lab.example/x"'
    device = only(surveyed([node("/dev/x", "1:3")], group("x", text), auto=auto))

    assert (device.ids, device.resource) == (ids, "lab.example/x" if ids else "")


def test_replug_under_another_number_is_the_same_device() -> None:
    """Same identity, name, id and number in its group; new numbers of the kernel."""
    rename = group("modem", 'match.subsystem = "tty"\nrename = "/dev/m{index}"\ndoor = "plugin"')
    before = surveyed([tty(0, "A"), tty(1, "B", port="3")], rename)
    after = surveyed([tty(4, "A", port="5")], rename, memory=before.memory)

    first, again = before.peripherals[0], only(after)
    same = ("identity", "name", "ids", "group")
    assert [getattr(first, key) for key in same] == [getattr(again, key) for key in same]
    assert first.edits.nodes[0].path == again.edits.nodes[0].path == "/dev/m0"
    assert (first.edits.nodes[0].minor, again.edits.nodes[0].minor) == (0, 4)


def test_another_device_under_the_same_number_is_another() -> None:
    """It takes nobody's place; the ledger knows it by the number that somebody may still open."""
    first = only(surveyed([tty(0, "A")], MODEM))
    other = only(surveyed([tty(0, "B")], MODEM))

    assert first.identity != other.identity
    assert set(first.keys) & set(other.keys) == {"chr:188:0"}


def test_equal_serials_keep_both_devices_apart() -> None:
    """One warning; the one that is held keeps its number as a key; nothing is forgotten."""
    alone = surveyed([tty(0, port="2")], MODEM)
    both = surveyed([tty(0, port="2"), tty(1, port="3")], MODEM, memory=alone.memory)
    left = surveyed([tty(1, port="3")], MODEM, memory=both.memory)

    assert both.warnings == (
        (
            "2 devices are usb:0403:6001:A5:00/ttyUSB: they are told apart by "
            "where they are plugged in, pci-0000:00:14.0-usb-0:2:1.0 "
            "and pci-0000:00:14.0-usb-0:3:1.0"
        ),
    )
    assert [each.exclusion for each in both.peripherals] == [None, None]
    assert set(only(alone).keys) & set(both.peripherals[0].keys) == {"chr:188:0"}
    assert not set(only(alone).keys) & set(both.peripherals[1].keys)
    assert only(left).identity == both.peripherals[1].identity
    assert left.warnings == ()


def test_nodes_that_nothing_tells_apart_are_not_offered() -> None:
    """Two of one interface that are parts alike."""
    found = surveyed([tty(0), tty(1)], MODEM)

    assert only(found).exclusion == Exclusion(
        reason="ambiguous",
        detail="/dev/ttyUSB0 and /dev/ttyUSB1 are all usb:0403:6001:A5:00/ttyUSB, "
        "and nothing tells them apart",
    )


def test_device_of_several_nodes_is_one() -> None:
    """What the path took leads to the nodes that go with it; the shared one is no key."""
    nodes = [
        sound("pcmC1D0c", 24),
        sound("controlC1", 32),
        sound("timer", 33),
        sound("pcmC1D0p", 16),
    ]
    device = only(surveyed(nodes, CAPTURE))

    assert [each.path for each in device.edits.nodes] == [
        "/dev/snd/pcmC1D0c",
        "/dev/snd/controlC1",
        "/dev/snd/timer",
    ]
    assert device.keys == (
        "gen:path:pci-0000:00:1f.3/pcmCD0c",
        "chr:116:24",
        "chr:116:32",
    )


def test_node_that_may_lack_is_left_out() -> None:
    """One absent node hides nothing (row 23)."""
    device = only(surveyed([sound("pcmC1D0c", 24), sound("controlC1", 32)], CAPTURE))

    assert device.exclusion is None
    assert len(device.edits.nodes) == 2


def test_device_that_lacks_a_node_says_so() -> None:
    """It alone, and not its group."""
    nodes = [sound("pcmC1D0c", 24), tty(0)]
    found = surveyed(nodes, CAPTURE, MODEM)

    assert [each.exclusion for each in found.peripherals] == [
        Exclusion(reason="nodes-missing", detail="/dev/snd/controlC1 is not there"),
        None,
    ]
    assert not found.peripherals[0].edits


def test_node_of_two_groups_is_nobodys() -> None:
    """Both are named."""
    found = surveyed([tty(0)], MODEM, group("all", 'match.subsystem = "tty"'))

    assert only(found).exclusion == Exclusion(
        reason="overlap", detail='groups "modem" and "all" all select it'
    )
    assert found.warnings == (
        '/dev/ttyUSB0 is selected by groups "modem" and "all": no one gets it',
    )


def test_devices_that_share_a_node_are_told() -> None:
    """They are offered, and the ledger lets one be held at a time."""
    nodes = [sound("pcmC1D0c", 24), sound("pcmC1D1c", 25), sound("controlC1", 32)]
    text = 'match.path = "/dev/snd/pcmC*D*c"\nwith = [{ path = "/dev/snd/controlC{1}" }]'
    found = surveyed(nodes, group("c", text))

    assert found.warnings == (
        (
            "c-path-pci-0000-00-1f-3-pcmcd0c and c-path-pci-0000-00-1f-3-pcmcd1c "
            "have the node 116:32 in common: only one can be held"
        ),
    )


def test_group_that_matches_nothing_is_told() -> None:
    """With what lies at its path, where it names one."""
    oddities = (Oddity(path="/dev/kvm", found="is a FIFO"), Oddity(path="/dev/x", found="is odd"))
    scan = NodeScan(oddities=oddities)
    found = surveys.survey(scan, [KVM, MODEM], driver=DRIVER)

    assert found.warnings == (
        'group "kvm" matches no device node: /dev/kvm is a FIFO',
        'group "modem" matches no device node',
    )


def test_condition_on_udev_without_udev_is_told() -> None:
    """It cannot hold; and a look that was cut says so."""
    text = 'match = { path = "/dev/kvm", properties = { X = "y" } }'
    warnings = surveyed([kvm()], group("g", text), udev=False).warnings
    cut = surveys.survey(NodeScan(nodes=(kvm(),), cut=True), [KVM], driver=DRIVER).warnings

    assert warnings == (
        'group "g" matches no device node',
        'group "g" asks for properties of udev, which does not run: it matches nothing',
    )
    assert cut == (
        "there are more device nodes than are looked at: narrow the conditions of the groups",
    )


def test_block_device_is_listed_with_its_reason() -> None:
    """And offered with leave; it has keys of its own kind."""
    disk = DevNode(path="/dev/sda", type=NodeType.BLOCK, major=8, minor=0)
    text = 'match.path = "/dev/sda"'
    refused = only(surveyed([disk], group("d", text)))
    offered = only(surveyed([disk], group("d", f"{text}\nallow_block = true")))

    assert refused.exclusion is not None
    assert refused.exclusion.reason == "block-device"
    assert not refused.edits
    assert (offered.exclusion, offered.keys[1]) == (None, "blk:8:0")


def test_list_of_a_resource_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """What does not fit is not offered, and says why; claims are not concerned."""
    monkeypatch.setattr(surveys, "LIST_LIMIT", 1500)
    nodes = [node(f"/dev/x{number}", f"1:{number}") for number in range(3)]
    text = 'match.path = "/dev/x*"\ncount = 10'
    plugin = surveyed(nodes, group("g", f'{text}\ndoor = "plugin"')).peripherals
    claims = surveyed(nodes, group("g", text)).peripherals

    assert [each.exclusion is None for each in plugin] == [True, True, False]
    assert str(plugin[2].exclusion) == (
        "list-too-long: the list of berth.dev/g would be longer than 3 MiB; lower count"
    )
    assert all(each.exclusion is None for each in claims)


def test_absent_device_keeps_what_it_is_and_gives_nothing() -> None:
    """Its numbers may be another device's by now."""
    device = only(surveyed([tty(0)], MODEM))
    gone = attrs.evolve(device, exclusion=Exclusion(reason="nodes-missing")).absent()

    assert (gone.unhealthy, gone.exclusion, gone.edits) == ("absent", None, Edits())
    assert (gone.name, gone.identity, gone.keys) == (device.name, device.identity, device.keys)


def test_keys_that_outlive_a_reboot_are_identities() -> None:
    """Numbers are dealt anew then."""
    device = only(surveyed([tty(0)], MODEM))

    assert device.after_reboot().keys == ("gen:usb:0403:6001:A5:00/ttyUSB",)


def test_memory_can_be_written_down() -> None:
    """It outlives the daemon, else numbers and names would change with a restart."""
    memory = surveyed([tty(0, port="2"), tty(1, port="3")], MODEM).memory

    assert memory.twins == ("usb:0403:6001:A5:00/ttyUSB",)
    assert sorted(memory.indexes.values()) == [0, 1]
    assert from_json(Memory, json.loads(json.dumps(to_json(memory))), where="x") == memory


def test_without_groups_there_is_nothing() -> None:
    """And nothing to say."""
    found = surveyed([tty(0), kvm()])

    assert (found.peripherals, found.warnings, found.memory) == ((), (), Memory())


@given(
    st.lists(
        st.tuples(st.text(min_size=1, max_size=20), st.sampled_from("1234")),
        max_size=6,
        unique=True,
    ),
    st.randoms(),
)
def test_devices_do_not_depend_on_order(plugged: list[tuple[str, str]], random: Random) -> None:
    """Whatever serial numbers say: names are labels, differ, and hold no number of the kernel."""
    nodes = [tty(n, serial, port) for n, (serial, port) in enumerate(plugged)]
    renumbered = [tty(9 - n, serial, port) for n, (serial, port) in enumerate(plugged)]
    random.shuffle(renumbered)
    ours = surveyed(nodes, MODEM).peripherals
    theirs = surveyed(renumbered, MODEM).peripherals

    assert {(each.name, each.identity) for each in ours} == {
        (each.name, each.identity) for each in theirs
    }
    assert all(is_dns_label(each.name) for each in ours)
    assert len({each.name for each in ours}) == len(ours)


def test_survey_tells_what_each_device_costs() -> None:
    """Of groups that say so, by what the device is."""
    dear = group("kvm", 'match.path = "/dev/kvm"\nnode_cost = { cpu = { pod = "500m" } }')
    found = surveyed([kvm(), tty(0)], dear, MODEM)

    (device,) = (each for each in found.peripherals if each.group == "kvm")
    assert found.costs == {device.identity: {"cpu": NodeCost(pod_milli=500)}}
