"""Whatever the document: a configuration that can be read, or faults that name places."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from berth.config.decode import Table
from berth.config.document import parse
from berth.config.finding import Cursor
from berth.config.nic import NicTable
from berth.convert.conversion import convert
from berth.errors import Faults
from berth.model import jsontext

KEYS = (
    *("resourceList", "configList", "periodicUpdateInterval", "resourceName", "resourcePrefix"),
    *("deviceType", "excludeTopology", "selectors", "additionalInfo", "SelectorObj", "rdmaHcaMax"),
    *("devices", "vendors", "deviceIDs", "drivers", "ifNames", "linkTypes", "pciAddresses"),
    *("acpiIndexes", "pfNames", "rootDevices", "isRdma", "IsRdma", "needVhostNet", "vdpaType"),
    *("ddpProfiles", "pKeys", "auxTypes", "NEEDVHOSTNET", "Vendors", "other", "\u212aeys", ""),
)
WORDS = st.one_of(
    st.sampled_from(["8086", "15b3", "15B3", "vfio-pci", "iavf", "ens1f0#0,2-7", "ens1f0#2-1"]),
    st.sampled_from(["0000:41:00.0", "0000:41:00.0#1", "infiniband", "ether", "101", "a_b", "a.b"]),
    st.text(max_size=8),
)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), WORDS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.one_of(st.sampled_from(KEYS), st.text(max_size=4)), inner, max_size=4),
    ),
    max_leaves=12,
)
LISTS = st.lists(WORDS, max_size=3)
SELECTORS = st.dictionaries(
    st.sampled_from(KEYS), st.one_of(LISTS, st.booleans(), VALUES), max_size=4
)
RESOURCES = st.dictionaries(
    st.sampled_from(KEYS),
    st.one_of(WORDS, SELECTORS, st.lists(SELECTORS, max_size=2), LISTS, st.integers(0, 9), VALUES),
    max_size=6,
)
GOOD = st.fixed_dictionaries(
    {
        "resourceName": st.from_regex(r"[a-z]{1,3}", fullmatch=True),
        "selectors": st.lists(SELECTORS, min_size=1, max_size=3),
    }
)
DOCUMENTS = st.one_of(
    VALUES,
    st.dictionaries(
        st.sampled_from(["resourceList", "configList", "RESOURCELIST"]),
        st.lists(st.one_of(RESOURCES, GOOD), max_size=4),
        min_size=1,
        max_size=1,
    ),
)


@given(DOCUMENTS)
@example({"resourceList": [{"resourceName": "r", "selectors": {"vendors": [float("inf")]}}]})
@example({"resourceList": [{"resourceName": "\ud800", "selectors": {}}]})
def test_any_document_ends_in_a_configuration_or_in_faults_with_places(document: Any) -> None:
    """Never in anything else."""
    written = jsontext.loads(json.dumps(document).replace("Infinity", "1e999"))

    try:
        made = convert(written, where="f")
    except Faults as faults:
        for fault in faults.faults:
            assert fault.where == "f"
            assert fault.found
            assert "\n" not in str(fault)
    else:
        groups = parse(made.text)["nic"]["group"]
        names = ("name", "match", "except")
        known = [{key: each[key] for key in names if key in each} for each in groups]
        cursor = Cursor()
        Table(NicTable).read({"group": known}, cursor)
        assert cursor.findings == []
