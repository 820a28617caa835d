"""What is due for a function, from what the kernel shows."""

from __future__ import annotations

from itertools import product

import pytest

from berth.host.driverbind import Bound
from berth.model.structure import from_json, to_json
from berth.vfio.binding import VFIO, Binding, Stage, Step, Verb, back, forth

ADDRESS = "0000:1b:00.0"
NVIDIA = Bound(driver="nvidia")
NAMES = ("", "nvidia", VFIO)


def after(now: Bound, steps: tuple[Step, ...], *, knows: str) -> Bound:
    """What the kernel makes of steps; ``knows`` is the driver that takes it unless overridden."""
    driver, override = now.driver, now.override
    for step in steps:
        if step.verb is Verb.OVERRIDE:
            override = step.driver
        elif step.verb is Verb.UNBIND:
            assert step.driver == driver
            driver = ""
        else:
            driver = driver or override or knows
    return Bound(driver=driver, override=override)


def words(steps: tuple[Step, ...]) -> list[str]:
    """Steps as people read them."""
    return [str(step) for step in steps]


def test_way_forth_keeps_others_from_the_function() -> None:
    """The override is there before the driver is gone, so nobody else can take it between."""

    assert words(forth(NVIDIA)) == ["override vfio-pci", "unbind nvidia", "probe"]


def test_way_back_is_the_same_in_its_order() -> None:
    """The override goes first: the probe then finds the driver that knows the function."""

    away = Bound(driver=VFIO, override=VFIO)

    assert words(back(away, NVIDIA)) == ["override", "unbind vfio-pci", "probe"]


@pytest.mark.parametrize("override", ["", VFIO])
def test_nothing_is_done_to_what_vfio_has(override: str) -> None:
    """An operator's own binding stays as it is, before and after."""

    now = Bound(driver=VFIO, override=override)

    assert forth(now) == ()
    assert back(now, now) == ()


@pytest.mark.parametrize(("driver", "override"), list(product(NAMES, ["", VFIO])))
def test_each_state_leads_to_vfio(driver: str, override: str) -> None:
    """Wherever a crash left it, what is missing is done, and doing it again does nothing."""

    there = after(Bound(driver=driver, override=override), (), knows="nvidia")
    end = after(there, forth(there), knows="nvidia")

    assert end.driver == VFIO
    assert forth(end) == ()


@pytest.mark.parametrize(("driver", "override"), list(product(NAMES, ["", VFIO])))
@pytest.mark.parametrize("former", [NVIDIA, Bound(), Bound(driver="nvidia", override="nvidia")])
def test_each_state_leads_home(driver: str, override: str, former: Bound) -> None:
    """So too on the way back, whatever it was at home."""

    there = Bound(driver=driver, override=override)
    end = after(there, back(there, former), knows="nvidia")

    assert end.override == former.override
    assert end.driver == former.driver or driver == "nvidia"
    assert back(end, former) == ()


def test_driver_of_somebody_else_keeps_the_function() -> None:
    """An operator has bound it elsewhere meanwhile: nobody fights with him, the override goes."""

    now = Bound(driver="nouveau", override=VFIO)

    assert words(back(now, NVIDIA)) == ["override"]
    assert back(Bound(driver="nouveau"), NVIDIA) == ()


@pytest.mark.parametrize("stage", list(Stage))
def test_record_survives_its_file(stage: Stage) -> None:
    """Written and read, and touched exactly while something may be left to undo."""

    binding = Binding(address=ADDRESS, former=NVIDIA, stage=stage, step="probe", fault="x")

    assert from_json(Binding, to_json(binding), where="here") == binding
    assert binding.is_touched is (stage in {Stage.BINDING, Stage.BOUND, Stage.RETURNING})


def test_reboot_brings_everything_home() -> None:
    """Drivers find their functions anew at each boot, and groups have other numbers."""

    keys = ("iommu:40", "pci:0000:41:00.1")
    away = Binding(address=ADDRESS, keys=keys, former=NVIDIA, stage=Stage.BOUND).after_reboot()

    assert (away.stage, away.former, away.keys) == (Stage.HOME, None, ("pci:0000:41:00.1",))
