"""Fields that a later version will read: known, and refused by their names until then.

An author who copies a manifest for a newer node learns that this one cannot do it yet, instead of
being told that the field is a misspelling. Contract: network.md §0 (stages), §3.1.
"""

from __future__ import annotations

from typing import Final

from berth.nic.config.field import Field
from berth.nic.config.kinds import Later

LATER_FIELDS: Final = (
    Field(path="dhcp.ipv4", form=Later("true or false"), meaning="Get an IPv4 lease."),
)
"""Every such field, in the order of the reference page."""
