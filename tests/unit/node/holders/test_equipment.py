"""Which peripherals the node has, and which of them claims are offered."""

from __future__ import annotations

import attrs
import pytest

from berth.model.device import Consumption, Exclusion, Taint
from berth.model.nodecost import NodeCost
from berth.model.peripheral import ABSENT, Door, Peripheral
from berth.node.holders.equipment import equip, of_resource, published
from berth.node.records.record import ClaimRecord, HeldDevice
from tests.unit.node.machine import BOOT, DRIVER, claim, result
from tests.unit.node.peripherals import KVM, RESOURCE, given, kvm, modem


def record_of(*numbers: int, admin: bool = False) -> ClaimRecord:
    """A claim that has modems."""
    ref = claim().ref
    return ClaimRecord(
        claim=ref,
        pod_claim_name=None,
        consumers=(),
        driver=DRIVER,
        boot_id=BOOT,
        devices=tuple(
            HeldDevice(
                result=result(f"modem-{number}", admin_access=admin),
                identity=modem(number).identity,
                type="generic",
                attributes={},
                peripheral=modem(number),
            )
            for number in numbers
        ),
    )


def test_seen_and_held_are_told_with_their_holders() -> None:
    """A claim, a container, and nobody."""

    found = equip([modem(2), modem(0), modem(1)], [record_of(0)], [given(modem(1))])

    assert [(one.name, bool(one.held_by)) for one in found] == [
        ("modem-0", True),
        ("modem-1", True),
        ("modem-2", False),
    ]
    assert found[0].held_by == ("default/net",)
    assert "a pod that kubelet has not named yet, through berth.dev/modem" in found[1].held_by[0]


def test_looking_is_no_holding() -> None:
    """A claim with admin access takes nothing from anybody."""

    (found,) = equip([modem()], [record_of(0, admin=True)], [])

    assert found.held_by == ()


def test_held_keeps_its_door_and_names_when_the_settings_turn() -> None:
    """Until it is free it is what it was given as."""

    now = attrs.evolve(modem(door=Door.DRA), name="other", group="other", slots=5)
    (found,) = equip([now], [], [given(modem())])

    assert (found.name, found.group, found.door) == ("modem-0", "modem", Door.BOTH)
    assert (found.resource, found.ids, found.slots) == (RESOURCE, ("modem-0",), 1)


@pytest.mark.parametrize(("before", "after"), [(1, 4), (4, 1), (4, 2)])
def test_count_that_changes_while_held_changes_with_its_end(before: int, after: int) -> None:
    """Slots and the capacity that counts them belong together, or the server refuses the device."""

    (found,) = equip([_counted(after)], [], [given(_counted(before))])
    (device,) = published([found], [], driver=DRIVER)

    assert device.capacity == _counted(before).capacity
    assert device.shared is bool(device.capacity)


def _counted(slots: int) -> Peripheral:
    """A device for so many at once."""
    return kvm(slots) if slots > 1 else attrs.evolve(kvm(1), capacity={})


def test_newcomer_with_the_name_of_a_held_device_is_another_device() -> None:
    """Its serial number reads alike; neither its name nor its id stands there twice."""

    then, now = modem(), attrs.evolve(modem(), identity="usb:0403-6001-0_", keys=("usb:0403_",))
    for seen in ([now], [now, then]):
        found = {one.identity: one for one in equip(seen, [], [given(then)])}

        assert found[then.identity].name == "modem-0"
        assert str(found[now.identity].exclusion).startswith("name-taken: modem-0 is held")
        assert found[now.identity].name == "modem-0-usb-0403-6001-0"
        listed = [*of_resource(tuple(found.values()), RESOURCE)]
        assert [one.identity for one in listed] == [then.identity]
        names = [one.name for one in published(found.values(), [], driver=DRIVER)]
        assert names == ["modem-0"]


def test_held_and_gone_stays_as_absent() -> None:
    """Its holder is told, and it stays in list and slice; a free one leaves both."""

    found = equip([], [record_of(0)], [given(modem(1))])

    assert [(one.name, one.unhealthy) for one in found] == [
        ("modem-0", ABSENT),
        ("modem-1", ABSENT),
    ]
    assert [device.name for device in published(found, [], driver=DRIVER)] == [
        "modem-0",
        "modem-1",
    ]
    assert equip([], [], []) == ()


def test_published_in_the_order_of_types() -> None:
    """GPUs before what was described by hand, then groups and names."""

    gpu = attrs.evolve(modem(7), name="gpu-0", identity="pci:gpu", type="gpu", group="z")
    devices = published([modem(1), kvm(), gpu, modem(0)], [], driver=DRIVER)

    assert [device.name for device in devices] == ["gpu-0", "kvm-dev-kvm", "modem-0", "modem-1"]
    assert [device.shared for device in devices] == [False, True, False, False]


def test_published_draws_on_counters_also_while_it_is_held() -> None:
    """A part that no group selects any more draws what it drew, until its claim ends."""

    draws = (Consumption(counter_set="gpu-0-counters", counters={"memory": 1}),)
    part = attrs.evolve(modem(), consumes=draws)
    unselected = attrs.evolve(modem(), exclusion=Exclusion(reason="no-group"))
    found = equip([unselected], [], [given(part)])

    assert [one.consumes for one in published([part, modem(1)], [], driver=DRIVER)] == [draws, ()]
    assert [one.consumes for one in published(found, [], driver=DRIVER)] == [draws]


def test_other_form_of_what_is_held_is_left_to_counters() -> None:
    """Both stay in the slices; what is no form of it is still kept free of what somebody holds."""

    draws = (Consumption(counter_set="gpu-0-counters", counters={"memory": 1}),)
    whole = attrs.evolve(modem(), name="gpu-0", identity="pci:0", type="gpu", consumes=draws)
    other = attrs.evolve(whole, name="vfio-0", identity="pci:0/vfio", type="vfio")
    form = attrs.evolve(other, only_counted=True)

    for held, free in ((form, whole), (whole, form)):
        found = equip([whole, form], [], [given(held)])
        devices = published(found, [], driver=DRIVER)
        assert [device.name for device in devices] == ["gpu-0", "vfio-0"]
        counted_only = {device.name: device.only_counted for device in devices}
        assert counted_only == {"gpu-0": False, "vfio-0": free is form}
        tainted = published(found, [given(held)], driver=DRIVER)
        assert [len(device.taints) for device in tainted] == [1, 1]
    (kept,) = [one for one in equip([whole, other], [], [given(other)]) if not one.held_by]
    assert str(kept.exclusion).startswith("held: it is vfio-0")


def test_plugin_alone_and_excluded_are_not_published() -> None:
    """The other door's devices and those with a reason against them stay out of the slices."""

    reason = Exclusion(reason="unpublishable", detail="refused")
    out = attrs.evolve(modem(1), exclusion=reason)

    assert published([modem(door=Door.PLUGIN), out], [], driver=DRIVER) == ()
    assert of_resource([modem(door=Door.DRA), out], RESOURCE) == ()


def test_given_by_the_plugin_is_tainted_for_claims() -> None:
    """The scheduler sees what the other door did; what several may hold stays open."""

    both = [given(modem()), given(kvm(), uid="g2")]
    found = {
        d.name: d.taints for d in published(equip([modem(), kvm()], [], both), both, driver=DRIVER)
    }

    assert found == {
        "modem-0": (Taint(key="berth.dev/held", value="device-plugin", effect="NoSchedule"),),
        "kvm-dev-kvm": (),
    }


def test_resource_lists_what_both_doors_offer() -> None:
    """By name of the resource, held ones too."""

    found = equip([modem(), kvm(), modem(1, door=Door.DRA)], [record_of(0)], [])

    assert [one.name for one in of_resource(found, RESOURCE)] == ["modem-0"]
    assert [one.name for one in of_resource(found, KVM)] == ["kvm-dev-kvm"]


def test_free_device_that_is_somebodys_under_another_name_is_not_offered() -> None:
    """A twin was plugged in, or the number was another's: the container may still open it."""

    then = attrs.evolve(modem(), keys=("gen:a", "chr:188:0"))
    now = attrs.evolve(modem(), identity="b", name="modem-b", keys=("gen:b", "chr:188:0"))
    found = {one.name: one for one in equip([now], [], [given(then)])}

    reason = found["modem-b"].exclusion
    assert reason is not None
    assert reason.reason == "held"
    assert "it is modem-0, which a pod" in reason.detail
    assert found["modem-0"].unhealthy == ABSENT


def test_another_boot_deals_numbers_anew() -> None:
    """What is held then is held by what the thing is."""

    one = attrs.evolve(modem(), keys=("gen:a", "chr:188:0", "blk:8:0", "iommu:7"))

    assert one.after_reboot().keys == ("gen:a",)
    after = given(one).after_reboot("boot-2")
    assert (after.boot_id, [hold.key for hold in after.holds]) == ("boot-2", ["gen:a"])


def test_claims_are_told_what_a_device_costs_the_node() -> None:
    """By what it is, whatever it is called."""

    cost = {"cpu": NodeCost(device_milli=2000)}
    dear, cheap = published(
        [modem(0), modem(1)], [], driver=DRIVER, costs={modem(0).identity: cost}
    )

    assert (dear.costs, cheap.costs) == (cost, {})
