"""Rules by which an administrator taints devices from beside their slices.

The slices do not show what they do: the scheduler puts both together.

Source: KC §9.1; ``k8s.io/api/resource/v1/types.go`` of 1.37.2, ``DeviceTaintRuleSpec``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from berth.kube import fields

PATHS: Final = tuple(
    f"/apis/resource.k8s.io/{version}/devicetaintrules" for version in ("v1", "v1beta2")
)
"""Where rules are, the newest form first; 1.37 has the first, 1.36 the last if it is turned on."""


@attrs.frozen(kw_only=True)
class TaintRule:
    """One rule, for the devices of which all that it says is true.

    Attributes:
        driver: Empty for any, as `pool` and `device` are.
        taint: As a slice has it.
    """

    name: str
    taint: Mapping[str, Any]
    driver: str = ""
    pool: str = ""
    device: str = ""

    def hits(self, driver: str, pool: str, device: str) -> bool:
        """Whether the rule is for this device."""
        pairs = ((self.driver, driver), (self.pool, pool), (self.device, device))
        return all(wanted in {"", found} for wanted, found in pairs)


def taint_rule_from_json(value: Any) -> TaintRule | None:
    """A rule; ``None`` for one that selects nothing, so that its writer sees what it would do.

    Raises:
        RemoteProtocolError: It is none.
    """
    spec = fields.mapping(value, "spec")
    if spec.get("deviceSelector") is None:
        return None
    selector = fields.mapping(spec, "deviceSelector")
    return TaintRule(
        name=fields.text(fields.mapping(value, "metadata"), "name"),
        taint=fields.mapping(spec, "taint"),
        driver=fields.text(selector, "driver"),
        pool=fields.text(selector, "pool"),
        device=fields.text(selector, "device"),
    )
