"""Matchers: every way to write one, every way to get it wrong."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.config.match import VF_LIMIT, LinkType, NicMatch, PciPattern, PfPattern
from berth.model.device import NicKind
from tests.unit.config.reading import read_table


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ('pci = "0000:41:00.0"', NicMatch(pci=(PciPattern("0000:41:00.0"),))),
        (
            'pci = ["0000:C1:00.A", "0000:C1:*"]'.replace("A", "1"),
            NicMatch(pci=(PciPattern("0000:c1:00.1"), PciPattern("0000:c1:*"))),
        ),
        ('pci = "10000:e1:00.0"', NicMatch(pci=(PciPattern("10000:e1:00.0"),))),
        ('pf = "ens1f0"', NicMatch(pf=(PfPattern("ens1f0"),))),
        ('pf = ["ens1f0#9,0-7"]', NicMatch(pf=(PfPattern("ens1f0", ((0, 7), (9, 9))),))),
        ('pf = "0000:41:00.0#3"', NicMatch(pf=(PfPattern("0000:41:00.0", ((3, 3),)),))),
        ('vendor = "15B3"', NicMatch(vendor=("15b3",))),
        ('device = ["1019", "101e"]', NicMatch(device=("1019", "101e"))),
        ('subsystem = "0069"', NicMatch(subsystem=("0069",))),
        ('driver = "mlx5_core"', NicMatch(driver=("mlx5_core",))),
        ('kind = ["vf", "pf"]', NicMatch(kind=(NicKind.VF, NicKind.PF))),
        ('name = "ens1f0"', NicMatch(name=("ens1f0",))),
        (f'altname = "{"x" * 127}"', NicMatch(altname=("x" * 127,))),
        ('mac = "02-00-5E-10-00-01"', NicMatch(mac=("02:00:5e:10:00:01",))),
        ('port_name = "p0"', NicMatch(port_name=("p0",))),
        ('link_type = "infiniband"', NicMatch(link_type=(LinkType.INFINIBAND,))),
        ("numa = [0, 1]", NicMatch(numa=(0, 1))),
        ('pcie_root = "pci0000:40"', NicMatch(pcie_root=("pci0000:40",))),
        ("acpi_index = 1", NicMatch(acpi_index=(1,))),
        ("rdma = false", NicMatch(rdma=False)),
    ],
)
def test_matcher_is_read_and_normalised(text: str, match: NicMatch) -> None:
    """One value or a list; addresses in lower case, ranges in order."""

    assert (match, []) == read_table(NicMatch, text)


PF_RULE = (
    "it must be the interface name or PCI address of a physical function, "
    'which # and VF numbers may follow: "ens1f0#0-7,9"'
)
HEX_RULE = 'it must be 4 hex digits in quotes, such as "15b3"'
WILD = "; wildcards work in match.pci only; name each one"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("vendor = 8086", f'vendor is the number 8086: {HEX_RULE}; write "8086"'),
        ("vendor = 0x403", f'vendor is the number 0x403: {HEX_RULE}; write "0403"'),
        ("vendor = 403", f'vendor is the number 403: {HEX_RULE}; write "0403"'),
        ("vendor = 32902", f"vendor is the number 32902: {HEX_RULE}"),
        ('vendor = "0x15b3"', f'vendor is "0x15b3": {HEX_RULE}; write "15b3"'),
        ('vendor = "15b"', f'vendor is "15b": {HEX_RULE}; write "015b"'),
        ('vendor = "Mellanox"', f'vendor is "Mellanox": {HEX_RULE}'),
        (
            'pci = "41:00.0"',
            (
                'pci is "41:00.0": it must be a PCI address such as "0000:41:00.0", '
                'or a pattern of them; write "0000:41:00.0"'
            ),
        ),
        (
            'pci = "ens1f0"',
            (
                'pci is "ens1f0": it must be a PCI address such as "0000:41:00.0", '
                "or a pattern of them"
            ),
        ),
        ('pf = "ens*"', f'pf is "ens*": {PF_RULE}{WILD}'),
        ('pf = "ens1f0#"', f'pf is "ens1f0#": {PF_RULE}'),
        ('pf = "ens1f0#7-0"', f'pf is "ens1f0#7-0": {PF_RULE}'),
        ('pf = "ens1f0#0-3,2"', f'pf is "ens1f0#0-3,2": {PF_RULE}'),
        ('pf = "ens1f0#65536"', f'pf is "ens1f0#65536": {PF_RULE}'),
        ('pf = "#1"', f'pf is "#1": {PF_RULE}'),
        (
            'name = "eth?"',
            f'name is "eth?": it must be an interface name of at most 15 bytes{WILD}',
        ),
        (
            'name = "sixteen-letters1"',
            'name is "sixteen-letters1": it must be an interface name of at most 15 bytes',
        ),
        ('name = "a/b"', 'name is "a/b": it must be an interface name of at most 15 bytes'),
        ('name = ".."', 'name is "..": it must be an interface name of at most 15 bytes'),
        (
            'driver = "mlx5_*"',
            f'driver is "mlx5_*": it must be the name of a kernel driver{WILD}',
        ),
        (
            'mac = "02:00:5e:10:00"',
            'mac is "02:00:5e:10:00": it must be an address such as "02:00:5e:10:00:01"',
        ),
        (
            'pcie_root = "0000:40"',
            'pcie_root is "0000:40": it must be a PCIe root complex such as "pci0000:40"',
        ),
        ("numa = -1", "numa is -1: it must be a whole number from 0 to 1023"),
        (
            'kind = "bond"',
            'kind is "bond": it must be "pf", "vf", "pci", "usb", "virtual" or "rdma"',
        ),
        ("vendor = []", "vendor is []: it must name at least one; or drop the line"),
        (
            'pci = ["0000:41:00.0", "0000:41:00.0"]',
            'pci holds "0000:41:00.0" twice; drop one of the two',
        ),
        (
            'mac = ["02:00:5e:10:00:01", "02-00-5E-10-00-01"]',
            'mac holds "02-00-5E-10-00-01" twice; drop one of the two',
        ),
        ("", "has no condition: it would select every NIC; give at least one"),
    ],
)
def test_matcher_is_refused_with_the_way_out(text: str, words: str) -> None:
    """One message for each mistake, with what to write where that can be known."""

    assert [words] == read_table(NicMatch, text)[1]


@pytest.mark.parametrize(
    ("foreign", "ours"),
    [
        ("pfName", "pf"),
        ("pfNames", "pf"),
        ("rootDevices", "pf"),
        ("vendors", "vendor"),
        ("pciAddresses", "pci"),
        ("linkTypes", "link_type"),
        ("acpiIndexes", "acpi_index"),
        ("isRdma", "rdma"),
        ("ifName", "name"),
        ("drivers_", "driver"),
    ],
)
def test_unknown_matcher_names_the_nearest(foreign: str, ours: str) -> None:
    """Selectors of other drivers lead to ours, and no second fault says that none is given."""
    (said,) = read_table(NicMatch, f'{foreign} = "x"')[1]

    assert (f"{foreign} is unknown", f"; nearest is {ours}") == (
        said.partition(":")[0],
        said[-len(f"; nearest is {ours}") :],
    )


def test_match_is_told_as_it_may_be_written() -> None:
    """A warning that it selects nothing shows the conditions, and only those given."""
    text = '{ pci = ["0000:41:*"], pf = ["ens1f0#0-7,9", "ens1f1"], kind = ["vf"], rdma = false }'
    group, said = read_table(NicMatch, text[2:-2].replace("], ", "]\n"))

    assert (text, []) == (str(group), said)


@pytest.mark.parametrize(
    ("pattern", "address", "fits"),
    [
        ("0000:41:*", "0000:41:00.0", True),
        ("0000:41:00.?", "0000:41:00.7", True),
        ("0000:4[12]:*", "0000:43:00.0", False),
        ("0000:41:00.0", "0000:41:00.0", True),
        ("0000:41:00.0", "0000:41:00.1", False),
    ],
)
def test_pci_pattern_fits_addresses(pattern: str, address: str, fits: bool) -> None:
    """Shell patterns; one without wildcards fits itself alone."""

    assert fits == PciPattern(pattern).fits(address)


@given(st.sets(st.integers(0, 40)), st.sets(st.integers(0, 40), min_size=1))
def test_vf_ranges_hold_the_numbers_they_were_written_for(
    other: set[int], numbers: set[int]
) -> None:
    """Membership and overlap agree with plain sets of numbers."""
    mine = PfPattern("p", tuple((number, number) for number in sorted(numbers)))
    theirs = PfPattern("p", tuple((number, number) for number in sorted(other)))
    everything = set(range(VF_LIMIT + 1))

    assert numbers == {number for number in range(50) if mine.has(number)}
    assert bool(numbers & (other or everything)) == mine.meets(theirs)
    assert not mine.meets(PfPattern("q"))
