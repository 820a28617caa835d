"""Links that stand in for the NICs of a configuration."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from berth.config.doors import Door
from berth.config.match import LinkType, NicMatch, PciPattern, PfPattern
from berth.config.nicgroup import NicGroup
from berth.model.device import NicKind, NicMode
from berth.rehearsal.standins import StandIn, cast


def group(match: NicMatch, name: str = "g", mode: NicMode = NicMode.EXCLUSIVE) -> NicGroup:
    """A group."""
    return NicGroup(name=name, mode=mode, match=match)


def test_each_named_link_gets_a_stand_in() -> None:
    """Names are alternatives: every one of them may be there, so every one is."""

    found = cast([group(NicMatch(name=("x0", "x1")), name="a", mode=NicMode.SHARED)])

    assert found.links == (
        StandIn(name="x0", group="a", mode=NicMode.SHARED),
        StandIn(name="x1", group="a", mode=NicMode.SHARED),
    )
    assert found.unplayed == ()


def test_links_known_otherwise_get_names_of_the_rehearsals_own() -> None:
    """An other name or an address selects a link, whatever its name is."""

    found = cast(
        [group(NicMatch(altname=("enp1s0",))), group(NicMatch(mac=("02:00:00:00:00:01",)))]
    )

    assert [(link.name, link.altnames, link.mac) for link in found.links] == [
        ("rehearsal0", ("enp1s0",), ""),
        ("rehearsal1", (), "02:00:00:00:00:01"),
    ]


def test_names_of_the_rehearsals_own_are_no_others() -> None:
    """A group may call a link as the rehearsal would."""

    found = cast(
        [group(NicMatch(altname=("a0", "a1"))), group(NicMatch(name=("rehearsal1", "rehearsal0")))]
    )

    names = [link.name for link in found.links]
    assert names == ["rehearsal2", "rehearsal3", "rehearsal1", "rehearsal0"]


def test_each_stand_in_meets_every_condition() -> None:
    """With a name and an address asked for, only a link that has both is of use."""

    match = NicMatch(name=("x0", "x1"), mac=("02:00:00:00:00:01",))

    found = cast([group(match)])

    assert [(link.name, link.mac) for link in found.links] == [("x0", "02:00:00:00:00:01")]


@pytest.mark.parametrize("name", ["lo", "all", "default"])
def test_name_that_no_link_can_have_is_not_played(name: str) -> None:
    """The loopback is in every namespace, and nothing can be plugged in under its name."""

    found = cast([group(NicMatch(name=("x0", name)), name="a")])

    assert found.links == ()
    assert found.unplayed == (("a", f"no link can be made that is called {name}"),)


@pytest.mark.parametrize(
    ("condition", "asked"),
    [
        ({"pci": (PciPattern("0000:41:*"),)}, "pci"),
        ({"pf": (PfPattern("ens1f0"),)}, "pf"),
        ({"vendor": ("15b3",)}, "vendor"),
        ({"numa": (0,)}, "numa"),
        ({"acpi_index": (1,)}, "acpi_index"),
        ({"rdma": True}, "rdma"),
        ({"driver": ("mlx5_core",)}, "driver"),
        ({"kind": (NicKind.VF,)}, "kind"),
        ({"link_type": (LinkType.INFINIBAND,)}, "link_type"),
    ],
)
def test_hardware_is_not_played_and_the_condition_is_named(
    condition: dict[str, Any], asked: str
) -> None:
    """What no link can be is told, also where a name is given beside it."""

    found = cast([group(NicMatch(name=("x0",), **condition), name="hard")])

    assert found.links == ()
    assert found.unplayed == (("hard", f"it asks for hardware by {asked}"),)


@pytest.mark.parametrize(
    "condition",
    [
        {"rdma": False},
        {"driver": ("veth", "mlx5_core")},
        {"kind": (NicKind.VIRTUAL,)},
        {"link_type": (LinkType.ETHER,)},
    ],
)
def test_conditions_that_a_link_meets_are_no_hindrance(condition: dict[str, Any]) -> None:
    """A stand-in is a virtual Ethernet link without RDMA, and is taken as one."""

    found = cast([group(NicMatch(name=("x0",), **condition))])

    assert [link.name for link in found.links] == ["x0"]


def test_group_that_names_no_link_is_not_played() -> None:
    """A condition on kinds alone selects no virtual link: one must be named."""

    found = cast([group(NicMatch(kind=(NicKind.VIRTUAL,)))])

    assert found.unplayed == (("g", "it names no link"),)


def test_group_that_no_claim_gets_is_not_played() -> None:
    """What is shown are claims; with both doors open there is one."""

    by_limits = attrs.evolve(group(NicMatch(name=("x0",)), name="old"), door=Door.PLUGIN)
    both = attrs.evolve(group(NicMatch(name=("x1",)), name="new"), door=Door.BOTH)
    found = cast([by_limits, both])

    assert [link.name for link in found.links] == ["x1"]
    ((name, reason),) = found.unplayed
    assert name == "old"
    assert "by limits alone" in reason
