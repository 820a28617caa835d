"""What is said of a device holds, then what is said of its group, then of its kind."""

from __future__ import annotations

import pytest

from berth.config.schema import Config
from berth.health import terms
from berth.health.terms import Terms
from berth.health.watching import Watching
from berth.model.device import Nic, NicKind
from berth.model.peripheral import Peripheral
from tests.unit.config.reading import read_table


def watching(text: str) -> Watching:
    """By a configuration that has no fault."""
    config, said = read_table(Config, text)
    assert said == []
    assert config is not None
    return Watching.of(config)


def peripheral(kind: str, *, name: str = "dev0", group: str = "") -> Peripheral:
    """A device of a kind."""
    return Peripheral(identity=name, name=name, kind=kind, type=kind, group=group, keys=())


def nic(*, name: str = "nic0", group: str = "") -> Nic:
    """A NIC."""
    return Nic(identity=name, name=name, kind=NicKind.PCI, group=group)


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        ("gpu", terms.GPU),
        ("vfio", terms.VFIO),
        ("generic", terms.GENERIC),
        ("nic", terms.NIC),
    ],
)
def test_terms_are_those_of_the_kind(kind: str, wanted: Terms) -> None:
    """Where nobody says anything."""

    assert watching("").of_peripheral(peripheral(kind)) == wanted


def test_nics_have_terms_of_their_own() -> None:
    """And what the device plugin hands out of one has the same."""
    says = watching(
        '[health]\nnic = { interval_s = 20 }\n[[nic.group]]\nname = "fast"\n'
        'match = { name = "a" }\nhealth = { timeout_s = 90 }'
    )

    wanted = Terms(interval_s=20, deadline_s=2, timeout_s=90)
    assert says.of_nic(nic(group="fast")) == wanted
    assert says.of_peripheral(peripheral("nic", group="fast")) == wanted
    assert says.of_nic(nic()) == Terms(interval_s=20, deadline_s=2, timeout_s=60)


def test_group_goes_before_kind_and_device_before_group() -> None:
    """Each for what it gives; groups of other kinds may be called the same."""
    says = watching(
        "[health]\nrecover_after_s = 60\ngpu = { interval_s = 6 }\n"
        '[[health.device]]\nname = "dev1"\ntimeout_s = 120\n'
        '[[gpu.group]]\nname = "big"\nmatch = { type = "gpu" }\nhealth = { deadline_s = 3 }\n'
        '[[generic]]\nname = "big"\nmatch = { path = "/dev/kvm" }\nhealth = { interval_s = 9 }\n'
    )

    assert says.of_peripheral(peripheral("gpu", group="big")) == Terms(
        interval_s=6, deadline_s=3, timeout_s=30, recover_after_s=60
    )
    assert says.of_peripheral(peripheral("gpu", name="dev1", group="big")) == Terms(
        interval_s=6, deadline_s=3, timeout_s=120, recover_after_s=60
    )
    assert says.of_peripheral(peripheral("vfio", group="big")) == Terms(
        interval_s=15, deadline_s=3, timeout_s=60, recover_after_s=60
    )
    assert says.of_peripheral(peripheral("generic", group="big")) == Terms(
        interval_s=9, deadline_s=2, timeout_s=90, recover_after_s=2
    )


@pytest.mark.parametrize(
    ("health", "wanted"),
    [
        ("", Terms(interval_s=60, deadline_s=10, timeout_s=180)),
        ("interval_s = 5, deadline_s = 2,", Terms(interval_s=5, deadline_s=2, timeout_s=30)),
        ("interval_s = 30,", Terms(interval_s=30, deadline_s=10, timeout_s=90)),
        ("interval_s = 10, deadline_s = 20,", Terms(interval_s=10, deadline_s=20, timeout_s=60)),
        ("timeout_s = 150,", Terms(interval_s=60, deadline_s=10, timeout_s=150)),
    ],
)
def test_command_has_a_timeout_of_three_intervals(health: str, wanted: Terms) -> None:
    """At least 30 s, and enough to outlive a lost probe, unless one is given."""
    says = watching(
        '[[generic]]\nname = "modem"\nmatch = { path = "/dev/ttyUSB*" }\n'
        f'health = {{ {health} command = ["/bin/true"] }}'
    )

    assert says.of_peripheral(peripheral("generic", group="modem")) == wanted


def test_timeout_of_one_device_is_lengthened_where_its_kind_makes_it_too_short() -> None:
    """The file does not say of what kind it is, so this is no fault of the file."""
    says = watching('[[health.device]]\nname = "dev0"\ninterval_s = 60')

    assert says.of_peripheral(peripheral("gpu")).timeout_s == 128
