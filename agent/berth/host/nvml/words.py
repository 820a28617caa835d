"""NVML's numbers as words, and its PCI addresses as sysfs writes them.

Source: nvidia-ml-py 13.615.71 (``NVML_ERROR_*``, ``NVML_BRAND_*``, ``NVML_DEVICE_ARCH_*``); the
texts of errors are ours, so that none has to be asked of a library that may hang.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

ERRORS: Final[Mapping[int, str]] = {
    1: "no session is open",
    2: "invalid argument",
    3: "not supported",
    4: "no permission",
    5: "already initialised",
    6: "not found",
    7: "buffer too small",
    8: "not enough external power",
    9: "the driver is not loaded",
    10: "timed out",
    11: "interrupts do not arrive",
    12: "the library is not there",
    13: "the library has no such function",
    14: "the inforom is damaged",
    15: "the GPU is lost",
    16: "the GPU needs a reset",
    17: "the operating system refused",
    18: "library and kernel module are of different drivers",
    19: "in use",
    20: "not enough memory",
    21: "no data",
    22: "ECC is not for virtual GPUs",
    23: "not enough resources",
    24: "no such frequency",
    25: "the library knows no such version of a structure",
    26: "no longer supported",
    27: "not ready",
    28: "the GPU was not found",
    29: "not possible in this state",
    30: "no such kind of reset",
    999: "unknown error",
}

BRANDS: Final[Mapping[int, str]] = {
    1: "Quadro",
    2: "Tesla",
    3: "NVS",
    4: "GRID",
    5: "GeForce",
    6: "Titan",
    7: "NvidiaVApps",
    8: "NvidiaVPC",
    9: "NvidiaVCS",
    10: "NvidiaVWS",
    11: "NvidiaCloudGaming",
    12: "QuadroRTX",
    13: "NvidiaRTX",
    14: "Nvidia",
    15: "GeForceRTX",
    16: "TitanRTX",
}

ARCHITECTURES: Final[Mapping[int, str]] = {
    2: "Kepler",
    3: "Maxwell",
    4: "Pascal",
    5: "Volta",
    6: "Turing",
    7: "Ampere",
    8: "Ada",
    9: "Hopper",
    10: "Blackwell",
    13: "Rubin",
}

ADDRESSING: Final[Mapping[int, str]] = {1: "HMM", 2: "ATS"}


def error_words(code: int) -> str:
    """Give what an error code means, with the code itself."""
    return f"{ERRORS.get(code, 'an error that has no name here')} ({code})"


def pci_address(bus_id: str) -> str:
    """Give NVML's ``00000000:3B:00.0`` as sysfs writes it, ``0000:3b:00.0``.

    A domain above ``ffff`` keeps the digits that it needs.
    """
    domain, _, rest = bus_id.lower().partition(":")
    return f"{domain.lstrip('0').rjust(4, '0')}:{rest}"


def device_id(number: int) -> str:
    """Give the device's four hex digits out of NVML's device << 16 | vendor."""
    return f"{number >> 16 & 0xFFFF:04x}"


def profile_name(name: str) -> str:
    """Give a profile's name without the leading ``MIG``."""
    return name.removeprefix("MIG ").strip()
