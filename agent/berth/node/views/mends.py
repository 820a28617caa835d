"""What an operator can do about a NIC that is not offered, by the reason that is told for it.

Source: network.md §1.2 for the reasons.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from berth.model.device import Nic

_MENDS: Final[Mapping[str, str]] = {
    "uplink": "leave it to the node; if the node can do without it, "
    'write [nic] uplink_ok = ["{identity}"], and take_configured = true in its group',
    "enslaved": 'take it out of its master, or offer the master with mode = "shared"',
    "has-children": 'remove the links over it, or offer it with mode = "shared"',
    "has-vfs": 'offer its VFs instead: match = {{ pf = ["{ifname}"] }}, '
    "or let it stand beside them: beside_vfs = true",
    "in-use-by-host": "free it of the host's configuration, "
    "or write take_configured = true in its group",
    "not-selected": "write a [[nic.group]] whose match holds for it, "
    "such as match = {{ {matcher} }}",
    "overlap": "narrow the match of all these groups but one, "
    'or write except = ["FIRST"] in the others',
    "ambiguous": "match it by pci or name, not by mac",
    "link-elsewhere": "bring its link into the host's network namespace; "
    "another program has moved it",
    "no-driver": "bind a network driver to it",
    "foreign-driver": "bind its network driver instead",
    "iommu-group": "bind what is in the way to vfio-pci or to no driver; where there is no IOMMU, "
    "switch it on",
    "not-connected": "switch NRI on in the container runtime; `berth check` names file and key",
    "restore-failed": "it is tried again by itself; see the fault, and the journal of berthd",
    "unpublishable": "see the API server's words; it is tried again when the device changes",
}


def mend_for(nic: Nic) -> str:
    """What to do so that the NIC is offered; empty when nothing can be done, or need be."""
    if nic.exclusion is None:
        return ""
    matcher = f'pci = ["{nic.pci}"]' if nic.pci else f'name = ["{nic.ifname}"]'
    text = _MENDS.get(nic.exclusion.reason, "")
    return text.format(identity=nic.identity, ifname=nic.ifname, matcher=matcher)
