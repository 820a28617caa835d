"""Which capacities and request policies of a device the API server takes.

Source: ``pkg/apis/resource/validation/validation.go`` of 1.37.2, ``validateRequestPolicy*``
(KC §9.4).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any, Final

from berth.kube.quantity import parse_quantity
from berth.rehearsal.apiserver.problems import (
    DUPLICATE,
    FORBIDDEN,
    INVALID,
    REQUIRED,
    TOO_MANY,
    Problem,
)

OPTIONS_LIMIT: Final = 10


def check_capacity(entry: Mapping[str, Any], path: str, *, shared: bool) -> Iterator[Problem]:
    """The faults of one capacity.

    Args:
        entry: ``{value, requestPolicy}``, quantities in any form.
        path: Where it is.
        shared: The device may be allocated several times.
    """
    policy = entry.get("requestPolicy")
    if policy is None:
        return
    path = f"{path}.requestPolicy"
    if not shared:
        yield Problem(path, FORBIDDEN, "allowMultipleAllocations must be true")
        return
    values, bounds = policy.get("validValues") or [], policy.get("validRange")
    if values and bounds is not None:
        yield Problem(path, FORBIDDEN, "exactly one policy can be specified")
    elif (values or bounds is not None) and policy.get("default") is None:
        yield Problem(f"{path}.default", REQUIRED, "required when a policy is defined")
    elif values:
        whole, default = parse_quantity(entry.get("value", "0")), parse_quantity(policy["default"])
        options = [parse_quantity(value) for value in values]
        yield from _check_options(options, whole, default, f"{path}.validValues")
    elif bounds is not None:
        whole, default = parse_quantity(entry.get("value", "0")), parse_quantity(policy["default"])
        yield from _check_range(bounds, whole, default, f"{path}.validRange")


def _check_options(
    options: list[Fraction], whole: Fraction, default: Fraction, path: str
) -> Iterator[Problem]:
    for index in range(1, len(options)):
        if options[index - 1] > options[index]:
            place = f"{path}[{index}]"
            yield Problem(place, INVALID, "values must be sorted in ascending order")
    if len(options) > OPTIONS_LIMIT:
        rule = f"must have at most {OPTIONS_LIMIT} items"
        yield Problem(path, TOO_MANY, rule, len(options))
    else:
        for index, option in enumerate(options):
            if option > whole:
                yield Problem(f"{path}[{index}]", INVALID, "option is larger than the capacity")
            if option in options[:index]:
                yield Problem(f"{path}[{index}]", DUPLICATE, "", str(option))
    if default not in options or len(options) > OPTIONS_LIMIT:
        yield Problem(path, INVALID, "default value is not valid according to the requestPolicy")


def _check_range(
    bounds: Mapping[str, Any], whole: Fraction, default: Fraction, path: str
) -> Iterator[Problem]:
    low, high, step = (
        parse_quantity(bounds[key]) if bounds.get(key) is not None else None
        for key in ("min", "max", "step")
    )
    if low is None:
        yield Problem(f"{path}.min", REQUIRED, "required when validRange is defined")
        return
    if low > whole:
        yield Problem(f"{path}.min", INVALID, "min is larger than the capacity")
    if default < low:
        yield Problem(f"{path}.default", INVALID, "default is less than min")
    if high is not None:
        yield from _check_maximum(low, high, whole, default, path)
    if step is not None:
        marks = [default] if high is None else [default, high]
        yield from _check_step(step, low, whole, marks, f"{path}.step")


def _check_maximum(
    low: Fraction, high: Fraction, whole: Fraction, default: Fraction, path: str
) -> Iterator[Problem]:
    if not low <= high <= whole:
        yield Problem(f"{path}.max", INVALID, "max is outside of min and the capacity")
    if default > high:
        yield Problem(f"{path}.default", INVALID, "default is more than max")


def _check_step(
    step: Fraction, low: Fraction, whole: Fraction, marks: list[Fraction], path: str
) -> Iterator[Problem]:
    if step <= 0:
        yield Problem(path, INVALID, "must be greater than zero")
        return
    if low + step > whole:
        yield Problem(path, INVALID, "one step is larger than the capacity")
    for mark in marks:
        if (mark - low) % step:
            yield Problem(path, INVALID, "value is not a multiple of the step from min", str(mark))
