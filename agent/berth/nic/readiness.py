"""What a NIC's link says of whether a pod that was given it may be bound.

A link that is set down is not set up for this. Up at home it would be the host's: the host takes
addresses and routes from router advertisements on it, and whoever manages the host's network asks
for more. What of that is left would go with the NIC, and be put back as the host's own.
"""

from __future__ import annotations

from berth.host.netlink.link import Link
from berth.model.readiness import Answer
from berth.nic.health.sight import has_carrier


def link_answer(link: Link | None) -> Answer:
    """What a link at home says.

    Args:
        link: ``None`` when it is not there.
    """
    if link is None:
        return Answer(ready=False, reason="LinkElsewhere", message="its link is not on the host")
    if not link.up:
        told = f"{link.name} is set down on the host, which somebody has to change"
        return Answer(ready=False, reason="LinkDown", message=told)
    if not has_carrier(link):
        return Answer(ready=False, reason="NoCarrier", message=f"{link.name} has no carrier")
    return Answer(ready=True, reason="LinkUp", message=f"{link.name} has carrier")
