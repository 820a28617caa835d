"""What a GPU says of itself when it is asked, and by events that name an error: as findings.

Source: gpu-and-health.md §6.2; numbers of fields, recovery actions and event types after
nvidia-ml-py 13.615.71.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from berth.health.finding import Finding, Severity
from berth.host.nvml.session import Session, SessionState
from berth.host.nvml.values import Probe, Refusal

ACTION: Final = 230
"""Field: which recovery the GPU needs."""

REMAP_FAILURE: Final = 145
"""Field: rows of its memory could not be remapped."""

LOST: Final = 15
RESET_REQUIRED: Final = 16
UNLISTED: Final = 28

PATIENCE: Final = 3
"""So many times in a row an error has to be answered that is none of those with a meaning."""

RESETS: Final = frozenset({1, 4, 6})
"""Recovery actions that a reset of the GPU is."""

_RELEASE: Final = "drain the node's pods that have it, `berth gpu release`"

_ACTIONS: Final[Mapping[int, Finding]] = {
    **{
        number: Finding(
            code="reset-required",
            severity=Severity.FAULT,
            message=f"the driver asks for {what}: {_RELEASE}, then `nvidia-smi --gpu-reset`",
        )
        for number, what in (
            (1, "a reset of the GPU"),
            (4, "a reset after all work on it has ended"),
            (6, "a reset of its bus"),
        )
    },
    2: Finding(
        code="reboot-required",
        severity=Severity.FAULT,
        message="the driver asks for a reboot of the node: drain it and boot",
    ),
    7: Finding(
        code="reboot-required",
        severity=Severity.FAULT,
        message="the driver asks for a reboot of the whole system: drain the node, switch it off "
        "and on",
    ),
    3: Finding(
        code="drain-p2p",
        severity=Severity.DEGRADED,
        message="the driver asks that work over NVLink and peer access ends: jobs on several GPUs "
        "should move away",
    ),
    5: Finding(
        code="imex",
        severity=Severity.DEGRADED,
        message="the driver asks that its IMEX domain is recovered: see the service nvidia-imex",
    ),
}

_FAILED_REMAP: Final = Finding(
    code="remap-failure",
    severity=Severity.FAULT,
    permanent=True,
    message="memory that failed could not be replaced by spare rows: have the card replaced, then "
    "`berth health clear`",
)

_PENDING: Final[Mapping[int, Finding]] = {
    144: Finding(
        code="remap-pending",
        severity=Severity.DEGRADED,
        message="memory rows will be remapped by the next reset; running work is not affected",
    ),
    31: Finding(
        code="retired-pages-pending",
        severity=Severity.DEGRADED,
        message="memory pages will be retired by the next reset; running work is not affected",
    ),
    307: Finding(
        code="bank-remap-pending",
        severity=Severity.DEGRADED,
        message="a memory bank will be remapped by the next reset; running work is not affected",
    ),
}

_HEALS: Final = (
    "it heals by itself once the driver asks for no recovery; where the driver cannot say so, by a "
    "new binding of the driver, a boot, or `berth health clear`"
)

_EVENTS: Final[Mapping[int, Finding]] = {
    0x4000: Finding(
        code="gpu-unavailable",
        severity=Severity.FAULT,
        message=f"the driver told that the GPU cannot be used; {_HEALS}",
    ),
    0x2000: Finding(
        code="poison",
        severity=Severity.FAULT,
        message=f"work used memory that is known to be wrong, and the error is fatal; {_HEALS}",
    ),
    0x800: Finding(
        code="retirement-failure",
        severity=Severity.FAULT,
        message=f"memory that failed could not be retired; {_HEALS}",
    ),
    0x200: Finding(
        code="ecc-storm",
        severity=Severity.DEGRADED,
        message="many single-bit ECC errors: watch the card, and have it replaced if they stay",
    ),
    0x400: Finding(
        code="retirement-pending",
        severity=Severity.DEGRADED,
        message="failed memory is retired by the next reset: reset the GPU when it is free",
    ),
    0x1000: Finding(
        code="poison-contained",
        severity=Severity.DEGRADED,
        message="a job used memory that is known to be wrong and was ended; others are not "
        "affected: reset the GPU when it is free",
    ),
}

EVENT_CODES: Final = frozenset(finding.code for finding in _EVENTS.values())
"""What `event_finding` gives findings of."""

LOST_NOW: Final = Finding(
    code="lost",
    severity=Severity.LOST,
    message="NVML says that the GPU is lost: drain the node and boot; if it stays away, switch the "
    "node off and on, then see to the card",
)

_UNLISTED_NOW: Final = Finding(
    code="lost",
    severity=Severity.LOST,
    message="the PCI bus has the GPU and NVML does not list it: see `journalctl -k --grep NVRM`, "
    "then drain the node and boot",
)

OFF_THE_BUS: Final = Finding(
    code="lost",
    severity=Severity.LOST,
    message="its PCI function is gone, or reads as nothing but ones: drain the node, switch it off "
    "and on, then see to the card and its power",
)


def event_finding(event_type: int) -> Finding | None:
    """What an event of NVML other than an XID speaks against the GPU, if anything."""
    return _EVENTS.get(event_type)


def action_finding(number: int) -> Finding | None:
    """What a recovery action speaks against the GPU; nothing where none is needed."""
    if number == 0:
        return None
    return _ACTIONS.get(number) or Finding(
        code=f"recovery-{number}",
        severity=Severity.FAULT,
        message=f"the driver asks for a recovery that berth does not know, {number}: look it up "
        "for this version of the driver (nvmlDeviceGpuRecoveryAction_t)",
    )


def field_findings(fields: Mapping[int, int]) -> Iterator[Finding]:
    """What the fields of a GPU speak against it."""
    action = action_finding(fields.get(ACTION, 0))
    if action is not None:
        yield action
    if fields.get(REMAP_FAILURE):
        yield _FAILED_REMAP
    for number, finding in _PENDING.items():
        if fields.get(number):
            yield finding


def plain_refusal(answer: Probe | Refusal) -> Refusal | None:
    """Why a GPU answered nothing of use: as a whole, or in a field that says why for all."""
    if isinstance(answer, Refusal):
        return answer
    telling = (LOST, RESET_REQUIRED)
    return next((each for each in answer.refused.values() if each.code in telling), None)


def refusal_finding(refusal: Refusal, times: int) -> Finding | None:
    """What an error speaks against the GPU that answers it.

    Args:
        times: How often in a row.
    """
    if refusal.code == LOST:
        return LOST_NOW
    if refusal.code == RESET_REQUIRED:
        return Finding(
            code="reset-required",
            severity=Severity.FAULT,
            message=f"NVML says that the GPU needs a reset: {_RELEASE}, then "
            "`nvidia-smi --gpu-reset`",
        )
    if times < PATIENCE:
        return None
    if refusal.code == UNLISTED:
        return _UNLISTED_NOW
    return Finding(
        code=f"nvml-{refusal.code}",
        severity=Severity.FAULT,
        message=f"NVML answers nothing but an error for it, {PATIENCE} times and more: "
        f"{refusal.text}; see `journalctl -k --grep NVRM`",
    )


_SESSIONS: Final[Mapping[SessionState, tuple[str, str, str]]] = {
    SessionState.MISMATCH: (
        "driver-mismatch",
        "the driver's library and its kernel module are of different versions",
        "pods that run keep their GPUs; drain the node, then load the module anew or boot",
    ),
    SessionState.DRIVER_ABSENT: (
        "driver-absent",
        "the driver's kernel module is not loaded",
        "`modprobe nvidia`, and see `journalctl -k --grep NVRM`",
    ),
    SessionState.LIBRARY_ABSENT: (
        "library-absent",
        "the driver's library libnvidia-ml.so.1 cannot be loaded",
        "install the driver, or name the library in `[gpu] library`",
    ),
    SessionState.FAILED: (
        "nvml-failed",
        "NVML refuses a session",
        "see `journalctl -k --grep NVRM`; it is tried again every minute",
    ),
}


def session_finding(session: Session) -> Finding | None:
    """What a session that is down speaks against every GPU; nothing where it is our own doing."""
    if session.state not in _SESSIONS:
        return None
    code, what, mend = _SESSIONS[session.state]
    detail = f" ({session.detail})" if session.detail else ""
    return Finding(code=code, severity=Severity.FAULT, message=f"{what}{detail}: {mend}")


def silence_finding(deadline_s: float) -> Finding:
    """What is said of a GPU that does not answer.

    How long it is silent is not said: a text that changes with each look would be news each time.
    """
    return Finding(
        code="no-answer",
        severity=Severity.FAULT,
        message=f"NVML did not answer for it within {deadline_s:g} s, and the call is still out; "
        "it heals when the call returns and the next one is answered. If it does not: drain the "
        "node and boot",
    )
