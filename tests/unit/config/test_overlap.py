"""What two groups take both, as far as the file alone can tell."""

from __future__ import annotations

import pytest

from berth.config.match import NicMatch
from berth.config.overlap import shared_things
from tests.unit.config.reading import read_table


@pytest.mark.parametrize(
    ("one", "other", "things"),
    [
        ('pci = "0000:41:00.0"', 'pci = "0000:41:00.0"', [("pci", "0000:41:00.0")]),
        (
            'pci = "0000:41:00.0"',
            'pci = "0000:41:00.0"\nkind = "vf"',
            [("pci", "0000:41:00.0")],
        ),
        ('pci = "0000:41:00.0"', 'pci = "0000:41:00.1"', []),
        ('pci = "0000:41:00.0"', 'pci = "0000:41:*"', [("pci", "0000:41:00.0")]),
        ('pci = "0000:41:*"', 'pci = "0000:41:00.0"', [("pci", "0000:41:00.0")]),
        ('pci = "0000:41:*"\nkind = "pf"', 'pci = "0000:41:00.0"\nkind = "vf"', []),
        ('pci = "0000:41:*"', 'pci = "0000:41:*"', [("pci", "0000:41:*")]),
        ('pci = "0000:41:*"\nkind = "pf"', 'pci = "0000:41:*"\nkind = "vf"', []),
        ('name = ["a", "b"]', 'name = ["b", "c"]', [("name", "b")]),
        ('altname = "a"', 'altname = "a"', [("altname", "a")]),
        ('mac = "02:00:5e:10:00:01"', 'mac = "02-00-5e-10-00-01"', [("mac", "02:00:5e:10:00:01")]),
        ('name = "a"', 'altname = "a"', []),
        ('pf = "p#0-3"', 'pf = "p#3-5"', [("pf", "VFs of p")]),
        ('pf = "p#0-3"', 'pf = "p#4-5"', []),
        ('pf = "p#0-3"', 'pf = "q#0-3"', []),
        ('pf = "p"', 'pf = ["q", "p#9"]', [("pf", "VFs of p")]),
        ('pf = "p"\nrdma = true', 'pf = "p"\nrdma = false', []),
        ('vendor = "15b3"', 'vendor = "15b3"', []),
    ],
)
def test_groups_share_what_both_name(one: str, other: str, things: list[tuple[str, str]]) -> None:
    """Exact names count always; patterns and ranges only where nothing else tells them apart."""
    first, second = read_table(NicMatch, one)[0], read_table(NicMatch, other)[0]

    assert first is not None
    assert second is not None
    assert things == list(shared_things(first, second))
