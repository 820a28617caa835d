"""Devices that the server does not take."""

import attrs
import pytest

from berth.dra.edition import Edition
from berth.dra.quarantine import Quarantine, dropped_in, refusals_of
from berth.errors import KubeError
from berth.kube.slices import Slice, device_json
from berth.model.device import Consumption
from tests.unit.dra.shelf import ORIGIN, nic, nics

DEVICES = {device.name: device for device in nics(3)}


def sent() -> Slice:
    """Give a slice of the three devices."""
    slots = (tuple(device_json(device) for device in DEVICES.values()),)
    return Edition(pool="p", generation=1, slots=slots).slices(ORIGIN)[0]


@pytest.mark.parametrize(
    ("fields", "text", "names"),
    [
        (["spec.devices[1].attributes[a].string", "spec.devices[1]"], "", ["nic-0001"]),
        (["spec.devices[0]", "spec.devices[2].name"], "", ["nic-0000", "nic-0002"]),
        (["spec.pool.name"], "spec.devices[1]", []),
        (
            [],
            'spec.devices[2].attributes["x"]: Invalid; spec.devices[0].name',
            ["nic-0002", "nic-0000"],
        ),
        (["spec.devices[3]", "spec.devices[99999999999]", "spec.devices", "devices[1]"], "", []),
        ([], "Internal error", []),
    ],
)
def test_refusals_of_names_devices(fields: list[str], text: str, names: list[str]) -> None:
    """The paths of a 422, or else its text, name the devices; anything else names none."""

    error = KubeError("slice", text, status=422, fields=fields)

    assert [r.device.name for r in refusals_of(error, sent(), DEVICES)] == names


def test_quarantine_holds_a_device_until_its_facts_change() -> None:
    """The same device stays out, also when it was away meanwhile; with other facts it is tried."""

    error = KubeError("slice", "bad", status=422, fields=["spec.devices[1]"])
    held = Quarantine().with_refusals(refusals_of(error, sent(), DEVICES))

    assert not held.admits(nic(1))
    assert held.admits(nic(2))
    assert held.admits(nic(1, mtu=9000))
    assert held.revised(nics(1)) is held
    assert held.revised([nic(1)]) is held
    assert held.revised([nic(1, mtu=9000)]).refusals == {}


def test_quarantine_holds_an_unshared_parent_whatever_its_facts() -> None:
    """An MTU that changed turns no gate on; a device that is for one claim now is let in."""

    parent = attrs.evolve(nic(1), shared=True)
    kept = attrs.evolve(nic(2), shared=True)
    devices = {device.name: device for device in (parent, kept)}
    wanted = attrs.evolve(sent(), devices=tuple(map(device_json, devices.values())))
    stored = attrs.evolve(wanted, devices=(device_json(nic(1)), device_json(kept)))
    (refusal,) = dropped_in(wanted, stored, devices)
    held = Quarantine().with_refusals([refusal])

    assert "DRAConsumableCapacity" in refusal.exclusion.detail
    assert not held.admits(attrs.evolve(parent, attributes={"mtu": 1}))
    assert held.admits(nic(1))


def test_quarantine_holds_a_device_whose_conditions_were_dropped() -> None:
    """Where its group forbids to give it to pods before it is ready; another is given as it is."""

    ready, failed = ("berth.dev/ready",), ("berth.dev/failed",)
    strict = attrs.evolve(nic(1), binding=ready, failure=failed, only_awaited=True)
    lenient = attrs.evolve(nic(2), binding=ready, failure=failed)
    devices = {device.name: device for device in (strict, lenient)}
    wanted = attrs.evolve(sent(), devices=tuple(map(device_json, devices.values())))
    stored = attrs.evolve(wanted, devices=(device_json(nic(1)), device_json(nic(2))))

    (refusal,) = dropped_in(wanted, stored, devices)
    held = Quarantine().with_refusals([refusal])

    assert "DRADeviceBindingConditions" in refusal.exclusion.detail
    assert not held.admits(attrs.evolve(strict, attributes={"mtu": 1}))
    assert held.admits(attrs.evolve(strict, only_awaited=False))
    assert dropped_in(wanted, wanted, devices) == ()


def test_quarantine_holds_a_form_whose_counters_were_dropped() -> None:
    """Both forms of a GPU would be given; a part that needs no counters stays."""

    draws = (Consumption(counter_set="a", counters={"memory": 1}),)
    form = attrs.evolve(nic(1), consumes=draws, only_counted=True)
    part = attrs.evolve(nic(2), consumes=draws)
    devices = {device.name: device for device in (form, part)}
    wanted = attrs.evolve(sent(), devices=tuple(map(device_json, devices.values())))
    stored = attrs.evolve(wanted, devices=(device_json(nic(1)), device_json(nic(2))))

    (refusal,) = dropped_in(wanted, stored, devices)
    held = Quarantine().with_refusals([refusal])

    assert "DRAPartitionableDevices" in refusal.exclusion.detail
    assert not held.admits(attrs.evolve(form, attributes={"iommuGroup": 1}))
    assert held.admits(attrs.evolve(form, only_counted=False))
    assert dropped_in(wanted, wanted, devices) == ()
