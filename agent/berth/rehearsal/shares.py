"""How much of a shared device's capacity a request consumes.

Source: KC §9.4; ``dynamic-resource-allocation/structured/internal`` of Kubernetes 1.37.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from berth.kube.quantity import parse_quantity


def consumed_by(capacity: Mapping[str, Any], wanted: str | None) -> Fraction | None:
    """How much of a capacity a request consumes; ``None`` when no valid amount is enough."""
    whole = Fraction(parse_quantity(capacity["value"]))
    policy = capacity.get("requestPolicy")
    if policy is None:
        return whole if wanted is None else Fraction(parse_quantity(wanted))
    amount = Fraction(parse_quantity(policy["default"] if wanted is None else wanted))
    options = [Fraction(parse_quantity(value)) for value in policy.get("validValues") or ()]
    if options:
        return min((option for option in options if option >= amount), default=None)
    bounds = policy.get("validRange")
    if bounds is None:
        return amount
    least = Fraction(parse_quantity(bounds["min"]))
    most = Fraction(parse_quantity(bounds["max"])) if bounds.get("max") else whole
    if amount > least and bounds.get("step"):
        step = Fraction(parse_quantity(bounds["step"]))
        amount = least - (-(amount - least) // step) * step
    amount = max(amount, least)
    return amount if amount <= most else None
