"""VfioConfig: what a claim or a class may say of a GPU for virtual machines.

Reading is strict: another kind, an unknown field or a value of another type fails that claim, with
all faults at once. What the class says comes first, the claim's own goes over it.

Source: GH §1.6.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

from berth.errors import ClaimError, Faults

KIND: Final = "VfioConfig"

_FIELDS: Final = {"iommufd": "iommufd", "apiDevice": "api_device"}
_BESIDE: Final = frozenset({"apiVersion", "kind"})


@attrs.frozen(kw_only=True)
class VfioConfig:
    """How a function comes into its machine.

    Attributes:
        iommufd: By its own node instead of that of its IOMMU group.
        api_device: Whether the node of the VFIO interface is given with the group's.
    """

    iommufd: bool = False
    api_device: bool = True


def read_configs(parameters: Sequence[Mapping[str, Any]], *, driver: str, where: str) -> VfioConfig:
    """The configuration that several texts come to, a later one over an earlier one.

    Args:
        parameters: Opaque parameters in the order of the allocation: of classes, then of claims.
        driver: Name of the DRA driver, whose API group they are of.
        where: The claim and request, for messages.

    Raises:
        Faults: Some text is not as it should be; tells all that is wrong.
    """
    faults = [fault for each in parameters for fault in _faults(each, driver, where)]
    if faults:
        raise Faults(where, faults)
    given: dict[str, bool] = {}
    for each in parameters:
        given |= {_FIELDS[name]: each[name] for name in _FIELDS if name in each}
    config = VfioConfig(**given)
    if config.iommufd and given.get("api_device"):
        raise Faults(
            where,
            [
                ClaimError(
                    f"{where}: apiDevice",
                    "is true with iommufd",
                    rule="the node of the VFIO interface goes with groups",
                    mend="drop one of the two",
                )
            ],
        )
    return config


def _faults(parameters: Mapping[str, Any], driver: str, where: str) -> Iterator[ClaimError]:
    expected = {"apiVersion": f"{driver}/v1alpha1", "kind": KIND}
    for name, value in expected.items():
        found = parameters.get(name)
        if found != value:
            told = f"is {found!r:.80}" if name in parameters else "is missing"
            yield ClaimError(f"{where}: {name}", told, rule=f'it must be "{value}"')
    for name, value in parameters.items():
        if name in _BESIDE:
            continue
        if name not in _FIELDS:
            rule = f"the fields are {' and '.join(_FIELDS)}"
            yield ClaimError(f"{where}: {name:.80}", "is unknown", rule=rule)
        elif not isinstance(value, bool):
            rule = "it must be true or false"
            yield ClaimError(f"{where}: {name}", f"is {value!r:.80}", rule=rule)
