"""The device plugin door: which endpoints are due, and how they are told of."""

from __future__ import annotations

from berth.deviceplugin.plugin import Due, PluginDoorStatistics, ResourceStatistics, due
from berth.deviceplugin.registration import RegistrationState
from berth.deviceplugin.service import ServiceStatistics
from berth.model.resource import Resource, Unit


def resource(name: str, count: int = 1) -> Resource:
    """Give a resource of so many units."""
    units = tuple(Unit(id=f"u{number}", device=f"d{number}") for number in range(count))
    return Resource(name=name, units=units)


def test_due_follows_the_names_of_the_resources() -> None:
    """New names begin, known ones are told of, and those that are no more end."""

    steps = due(["a/x", "a/z", "a/y"], [resource("a/y", 3), resource("a/w")])

    assert steps == Due(begin=(resource("a/w"),), change=(resource("a/y", 3),), end=("a/x", "a/z"))


def test_due_keeps_a_resource_without_units() -> None:
    """A resource that lost all its units keeps its endpoint."""

    assert due(["a/x"], [resource("a/x", 0)]) == Due(begin=(), change=(resource("a/x", 0),), end=())


def test_due_takes_the_first_of_two_resources_with_one_name() -> None:
    """Two servers for one name would fight for it."""

    assert due([], [resource("a/x", 1), resource("a/x", 2)]).begin == (resource("a/x", 1),)


def test_statistics_tell_each_resource_in_a_line() -> None:
    """Operators see what is registered, why not, and how many units are well."""

    one = ResourceStatistics(
        name="a/x",
        units=8,
        healthy=7,
        state=RegistrationState(registered=True, times=2),
        service=ServiceStatistics(),
    )
    other = ResourceStatistics(
        name="a/y",
        units=0,
        healthy=0,
        state=RegistrationState(reason="kubelet is away"),
        service=ServiceStatistics(),
    )

    assert str(PluginDoorStatistics(resources=(one, other))) == (
        "a/x registered, 7 of 8 healthy; a/y not registered, kubelet is away, 0 of 0 healthy"
    )
    assert str(PluginDoorStatistics(resources=())) == "no resources"
