"""VfioConfig: what a claim or a class may say of a GPU for virtual machines.

Reading is strict: another kind, an unknown field or a value of another type fails that claim, with
all faults at once. What the class says comes first, the claim's own goes over it.

Source: GH §1.6.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from berth.errors import ClaimError, Faults
from berth.model.claim import Claim, DeviceResult, OpaqueConfig
from berth.vfio.wayin import WayIn

KIND: Final = "VfioConfig"
NIC_KIND: Final = "NicConfig"

_FIELDS: Final = {"iommufd": "iommufd", "apiDevice": "api_device"}
_BESIDE: Final = frozenset({"apiVersion", "kind"})


Place: TypeAlias = "tuple[str, str]"
"""Request and device of a result."""


def ways_in(
    claim: Claim, functions: Sequence[DeviceResult], *, driver: str
) -> Mapping[Place, WayIn]:
    """How each function of a claim comes into its machine.

    Entries of the NICs' kind are judged with those; any other has to be of this kind, and for a
    function, since nobody else would heed it.

    Args:
        functions: The claim's results that are functions for virtual machines.

    Raises:
        Faults: Some entry is not as it should be; tells all that is wrong with the first device.
    """
    entries = [entry for entry in claim.configs if _kind(entry) != NIC_KIND]
    stray = [entry for entry in entries if not any(entry.applies_to(each) for each in functions)]
    if stray:
        raise Faults(f"claim {claim.ref}", [_stray(entry) for entry in stray])
    return {
        (result.request, result.device): read_configs(
            [entry.parameters for entry in entries if entry.applies_to(result)],
            driver=driver,
            where=f"claim {claim.ref}: {result.request}",
        )
        for result in functions
    }


def read_configs(parameters: Sequence[Mapping[str, Any]], *, driver: str, where: str) -> WayIn:
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
    way = WayIn(**given)
    if way.iommufd and given.get("api_device"):
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
    return way


def _kind(entry: OpaqueConfig) -> object:
    found = entry.parameters
    return found.get("kind") if isinstance(found, Mapping) else None


def _stray(entry: OpaqueConfig) -> ClaimError:
    return ClaimError(
        f"config[{entry.index}].opaque.parameters",
        f"applies to no GPU for virtual machines: its kind is {_kind(entry)!r:.80}",
        rule="other devices than those and NICs take no configuration",
        mend="drop the entry, or mend its requests",
    )


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
