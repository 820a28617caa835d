"""A device plugin's document to a configuration of ours, or to all that stands in the way.

It is all or nothing: were a resource left out, the ones after it would take its NICs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from berth.convert import rdma, sriov
from berth.convert.draft import Draft
from berth.convert.findings import FAULTS_LIMIT, Findings, Place
from berth.convert.writing import text_of
from berth.errors import ConfigError, Faults


@attrs.frozen(kw_only=True)
class Conversion:
    """What came of a document.

    Attributes:
        text: The configuration.
        remarks: What will be another way than it was, one sentence each. Those that concern a
            group stand in the text too.
    """

    text: str
    remarks: tuple[str, ...]


def convert(document: Any, *, where: str, prefix: str = "") -> Conversion:
    """Turn the JSON document of a device plugin.

    Args:
        where: What the document was read from, for messages.
        prefix: Domain of resources that name none; empty for that plugin's own.

    Raises:
        Faults: Something in it cannot be turned; each such thing is told with its place.
    """
    findings = Findings(where=where)
    groups = _groups(Place(path="", value=document, findings=findings), prefix)
    faults = findings.faults
    if findings.is_full:
        faults = [*faults, ConfigError(where, f"may have more than these {FAULTS_LIMIT} faults")]
    if faults:
        raise Faults(where, faults)
    return Conversion(text=text_of(groups, source=where), remarks=tuple(findings.remarks))


def _groups(top: Place, prefix: str) -> tuple[Draft, ...]:
    names = {name.lower() for name in top.value} if isinstance(top.value, Mapping) else set()
    lists = [key for key in (sriov.KEY, rdma.KEY) if key.lower() in names]
    if len(lists) != 1:
        found = "has both" if lists else "has neither"
        top.say(
            f"{found} {sriov.KEY} {'and' if lists else 'nor'} {rdma.KEY}",
            rule="it must be the file of the SR-IOV network device plugin, which has the one, "
            "or of the shared RDMA device plugin, which has the other",
        )
        return ()
    (key,) = lists
    given = top.members((key, rdma.INTERVAL) if key == rdma.KEY else (key,))
    if rdma.INTERVAL in given:
        rdma.check_interval(given[rdma.INTERVAL])
    if key not in given or given[key].value == []:
        top.say(f"has an empty {key}", rule="there is nothing to turn")
        return ()
    if key == rdma.KEY:
        return rdma.groups(given[key], prefix=prefix or rdma.PREFIX)
    return sriov.groups(given[key], prefix=prefix or sriov.PREFIX)
