"""Which group takes a NIC is which selector took it: played on made-up machines.

The plugin's side is told again here as its source says it, with the same NICs for both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.config.decode import Table
from berth.config.finding import Cursor
from berth.config.nic import NicTable
from berth.config.nicgroup import NicGroup
from berth.convert.conversion import convert
from berth.host.hardware import PciFunction
from berth.host.netlink.link import Link
from berth.model.device import NicKind
from berth.nic.survey import Found, groups_of
from tests.unit.convert.test_conversion import groups_in

PFS = {"0000:41:00.0": "ens1f0", "0000:41:00.1": "ens1f1"}
VENDORS = ("15b3", "8086")
DEVICES = ("1018", "154c")
DRIVERS = ("mlx5_core", "iavf")


@attrs.frozen(kw_only=True)
class Nic:
    """What both programs see of a NIC.

    Attributes:
        pf: Address of the PF of a VF; empty for others.
    """

    address: str
    vendor: str
    device: str
    driver: str
    pf: str
    number: int
    acpi_index: int
    rdma: bool


def _some(items: Sequence[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(st.sampled_from(items), min_size=1, max_size=2, unique=True)


RANGES = st.tuples(st.integers(0, 5), st.integers(0, 5)).map(
    lambda pair: f"{min(pair)}-{max(pair)}" if pair[0] != pair[1] else f"{pair[0]}"
)
NUMBERS = st.lists(RANGES, max_size=3).map(lambda ranges: f"#{','.join(ranges)}" if ranges else "")


def _functions(pfs: Sequence[str]) -> st.SearchStrategy[list[str]]:
    """Entries such as ``ens1f0#0-2,4``, each PF once."""
    entries = st.dictionaries(st.sampled_from(pfs), NUMBERS, min_size=1, max_size=2)
    return entries.map(lambda numbers: [f"{pf}{number}" for pf, number in numbers.items()])


CONDITIONS: Mapping[str, st.SearchStrategy[Any]] = {
    "vendors": _some(VENDORS),
    "devices": _some(DEVICES),
    "drivers": _some(DRIVERS),
    "pciAddresses": _some([f"0000:41:02.{number}" for number in range(4)]),
    "acpiIndexes": _some(["1", "2"]),
    "linkTypes": _some(["ether", "infiniband"]),
    "isRdma": st.booleans(),
}
PLACES: st.SearchStrategy[dict[str, list[str]]] = st.one_of(
    st.just({}),
    _functions(list(PFS.values())).map(lambda entries: {"pfNames": entries}),
    _functions(list(PFS)).map(lambda entries: {"rootDevices": entries}),
)
SELECTORS = st.builds(
    lambda conditions, place: {**conditions, **place},
    st.fixed_dictionaries({}, optional=CONDITIONS),
    PLACES,
)
NICS = st.builds(
    Nic,
    address=st.sampled_from([f"0000:41:02.{number}" for number in range(4)]),
    vendor=st.sampled_from(VENDORS),
    device=st.sampled_from(DEVICES),
    driver=st.sampled_from(DRIVERS),
    pf=st.sampled_from(["", *PFS]),
    number=st.integers(0, 5),
    acpi_index=st.sampled_from([1, 2, 3]),
    rdma=st.booleans(),
)


def _plugin_takes(nic: Nic, selector: Mapping[str, Any]) -> bool:
    """Source: ``pkg/netdevice/netDeviceProvider.go``, ``pkg/resources/deviceSelectors.go``."""
    names = {
        "vendors": nic.vendor,
        "devices": nic.device,
        "drivers": nic.driver,
        "pciAddresses": nic.address,
        "acpiIndexes": str(nic.acpi_index),
        "linkTypes": "ether",
    }
    plain = all(value in selector[key] for key, value in names.items() if key in selector)
    in_place = _of(selector.get("pfNames"), PFS.get(nic.pf, ""), nic.number) and _of(
        selector.get("rootDevices"), nic.pf, nic.number
    )
    return plain and in_place and (nic.rdma or not selector.get("isRdma", False))


def _of(entries: Sequence[str] | None, pf: str, number: int) -> bool:
    if entries is None:
        return True
    entry = next((each for each in entries if pf and each.split("#")[0] == pf), None)
    if entry is None:
        return False
    _, mark, ranges = entry.partition("#")
    bounds = [part.split("-") for part in ranges.split(",")] if mark else []
    return not mark or any(int(part[0]) <= number <= int(part[-1]) for part in bounds)


def _found(nic: Nic) -> Found:
    is_vf = bool(nic.pf)
    return Found(
        identity=f"pci:{nic.address}",
        kind=NicKind.VF if is_vf else NicKind.PCI,
        link=Link(index=7, name="eth7"),
        function=PciFunction(
            address=nic.address,
            vendor=nic.vendor,
            device=nic.device,
            driver=nic.driver,
            physfn=nic.pf,
            vf_index=nic.number if is_vf else None,
            acpi_index=nic.acpi_index,
            rdma=("mlx5_7",) if nic.rdma else (),
        ),
        pf=PciFunction(address=nic.pf) if is_vf else None,
        pf_link=Link(index=8, name=PFS[nic.pf]) if is_vf else None,
    )


def _groups(selectors: Sequence[Mapping[str, Any]]) -> tuple[NicGroup, ...]:
    document = {"resourceList": [{"resourceName": "r", "selectors": list(selectors)}]}
    written = groups_in(convert(document, where="f").text)
    kept = ("name", "match", "except")
    known = [{key: each[key] for key in kept if key in each} for each in written]
    cursor = Cursor()
    table = Table(NicTable).read({"group": known}, cursor)
    assert table is not None
    assert cursor.findings == []
    return table.groups


@given(st.lists(SELECTORS, min_size=1, max_size=5), st.lists(NICS, min_size=1, max_size=12))
@settings(max_examples=150)
def test_group_that_takes_a_nic_is_the_first_selector_that_took_it(
    selectors: list[dict[str, Any]], nics: list[Nic]
) -> None:
    """Never two groups, and none where the plugin took none."""
    groups = _groups(selectors)

    for nic in nics:
        first = next((n for n, each in enumerate(selectors) if _plugin_takes(nic, each)), None)
        taking = groups_of(_found(nic), groups)
        assert taking == (() if first is None else (groups[first],))
