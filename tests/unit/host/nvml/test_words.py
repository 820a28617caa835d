"""NVML's numbers and addresses in words."""

from __future__ import annotations

import pynvml
import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.host.nvml import calls, values, words


@pytest.mark.parametrize(
    ("bus_id", "address"),
    [
        ("00000000:3B:00.0", "0000:3b:00.0"),
        ("0000FFFF:AF:1F.7", "ffff:af:1f.7"),
        ("00010000:AF:00.0", "10000:af:00.0"),
    ],
)
def test_bus_id_is_written_as_in_sysfs(bus_id: str, address: str) -> None:
    """Four digits of domain, unless it needs more."""

    assert words.pci_address(bus_id) == address


@given(st.integers(0, 0xFFFFFFFF), st.integers(0, 255), st.integers(0, 31), st.integers(0, 7))
def test_address_is_the_kernels(domain: int, bus: int, slot: int, function: int) -> None:
    """Whatever the numbers, it is what the kernel's %04x:%02x:%02x.%d gives."""

    bus_id = f"{domain:08X}:{bus:02X}:{slot:02X}.{function:X}"

    assert words.pci_address(bus_id) == f"{domain:04x}:{bus:02x}:{slot:02x}.{function:d}"


def test_device_id_is_cut_out_of_the_number() -> None:
    """The vendor's half is left."""

    assert words.device_id(0x233010DE) == "2330"


def test_profile_name_has_no_prefix() -> None:
    """What NVML writes before it is not part of it."""

    assert [words.profile_name(name) for name in ("MIG 1g.10gb+me", "")] == ["1g.10gb+me", ""]


def test_every_error_of_pynvml_has_words() -> None:
    """So that none has to be asked of the library."""

    codes = {
        value
        for name, value in vars(pynvml).items()
        if name.startswith("NVML_ERROR_") and isinstance(value, int)
    }

    assert codes <= words.ERRORS.keys()
    assert words.error_words(4711) == "an error that has no name here (4711)"


def test_every_brand_of_pynvml_that_a_gpu_may_have_has_a_word() -> None:
    """Unknown, and what is no GPU, have none."""

    brands = {
        value
        for name, value in vars(pynvml).items()
        if name.startswith("NVML_BRAND_") and isinstance(value, int)
    }

    assert brands - words.BRANDS.keys() == {0, 17, 18, 19, 20}


def test_wanted_events_are_those_of_pynvml_that_speak_of_health() -> None:
    """All but clocks, performance states and power."""

    unwanted = (
        pynvml.nvmlEventTypePState
        | pynvml.nvmlEventTypeClock
        | pynvml.nvmlEventTypePowerSourceChange
    )

    assert pynvml.nvmlEventTypeAll & ~unwanted == values.WANTED


def test_no_symbol_changes_a_gpu() -> None:
    """Nothing that sets, creates, destroys, resets or clears is reached; sets of events aside."""

    changing = ("DeviceSet", "Reset", "Clear", "Destroy", "CreateGpu", "CreateCompute", "Modify")

    assert not [name for name in calls.SYMBOLS for word in changing if word in name]
