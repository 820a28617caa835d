"""What a claim's author may say of a device, and what only an administrator may.

A claim's author is a tenant of the node; a hardware address, forwarding or a whole parent reach
other tenants. Contract: network.md §3.2.
"""

from __future__ import annotations

from enum import Enum

import attrs

from berth.nic.config.field import Guard
from berth.nic.config.fields import BY_PATH
from berth.nic.config.group import GroupPolicy
from berth.nic.config.report import Place, shown


@attrs.frozen(kw_only=True)
class Rights:
    """The rights of claims on one device.

    Attributes:
        policy: Of the device's group.
        foreign_link: The device is a VF or a shared parent, whose hardware address reaches others.
    """

    policy: GroupPolicy
    foreign_link: bool

    def check(self, path: str, value: object, place: Place) -> None:
        """Note that a claim had no right to set a field, or to take back what it was set to."""
        rule = f'a DeviceClass or the defaults of group "{self.policy.name}" may'
        if self.policy.denies_claims(path):
            place.say(f"a claim may not set {path} here", rule=rule, mend="drop it")
            return
        field = BY_PATH[path]
        what, needed = path, ""
        if field.guard is Guard.ALWAYS or (self.foreign_link and field.guard is not Guard.NONE):
            needed = path
        for guarded, right in field.guarded_values:
            if guarded == value:
                word = guarded.value if isinstance(guarded, Enum) else guarded
                what, needed = f"{path} to {shown(word)}", right
        if needed and not self.policy.lets_claims_set(needed):
            mend = f'claims_may = ["{needed}"] in that group allows it'
            place.say(f"a claim may not set {what} here", rule=rule, mend=mend)
