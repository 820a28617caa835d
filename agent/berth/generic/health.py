"""What is found against device nodes, by what lies at their paths and what a command says of them.

Source: GH §4 (hotplug), §6.2.
"""

from __future__ import annotations

import codecs
import signal
from collections.abc import Mapping
from typing import Final

import attrs

from berth.errors import printable
from berth.health.finding import Finding, Severity, cut
from berth.host.nodefacts import AtPath
from berth.model.edits import DeviceNode, NodeType
from berth.model.peripheral import ABSENT, Peripheral

PROBE_FAILED: Final = "probe-failed"
"""Code of the finding that a command says a device is not well, or says nothing of use."""

_WELL, _NOT_WELL, _UNKNOWN = 0, 1, 2
# Exit statuses of a command.

_SORTS: Final = {NodeType.CHAR: "character", NodeType.BLOCK: "block"}


def is_watched(one: Peripheral) -> bool:
    """Whether a device is watched: it is offered, or somebody has it."""
    return one.kind == "generic" and (one.exclusion is None or bool(one.held_by))


def node_findings(one: Peripheral, seen: Mapping[str, AtPath]) -> tuple[Finding, ...]:
    """What is found against a device by its nodes: nothing, or that it is absent.

    Args:
        seen: What lies at the path of each of its nodes.
    """
    if one.unhealthy == ABSENT:
        return (_absent(f"{one.path} is not seen on this node"),)
    if one.exclusion is not None and one.exclusion.reason == "nodes-missing":
        return (_absent(one.exclusion.detail),)
    faults = (_fault(node, seen[node.host_path]) for node in one.edits.nodes)
    told = next((fault for fault in faults if fault), "")
    return (_absent(told),) if told else ()


def _absent(told: str) -> Finding:
    message = f"{told}: plug it in again, or delete the pod that has it"
    return Finding(code=ABSENT, severity=Severity.LOST, message=cut(message))


def _fault(node: DeviceNode, at: AtPath) -> str:
    """What is wrong with what lies at a node's path, in words; empty if nothing is."""
    path = printable(node.host_path)
    if not at.exists:
        return f"{path} is not there"
    if at.type is None:
        return f"{path} is no device node any more"
    if (at.type, at.major, at.minor) == (node.type, node.major, node.minor):
        return ""
    found = f"{_SORTS[at.type]} device {at.major}:{at.minor}"
    return f"{path} is {found} now, and was {node.major}:{node.minor}"


@attrs.frozen(kw_only=True)
class Answer:
    """How a command ended.

    Attributes:
        status: Its exit status, negative for a signal.
        late_s: The deadline at which it was ended; ``None`` if it ended by itself.
        said: The beginning of what it printed.
        complained: The end of its error output.
    """

    status: int
    late_s: float | None = None
    said: bytes = b""
    complained: bytes = b""


def command_findings(
    program: str, answer: Answer, *, well: str = "well"
) -> tuple[Finding, ...] | str:
    """What a command's answer comes to: findings, or why it does not know.

    One that prints nothing may have put its reason into the last line of its error output.

    Args:
        well: What it is asked about.
    """
    said = _words(answer.said) or _words(answer.complained.strip().rpartition(b"\n")[2])
    if answer.late_s is not None:
        told = f"{program} had not ended after {answer.late_s:g} s and was killed"
    elif answer.status == _WELL:
        return ()
    elif answer.status == _UNKNOWN:
        return said or f"{program} says that it does not know"
    elif answer.status == _NOT_WELL:
        told = said or f"{program} says that it is not {well}"
        said = ""
    elif answer.status < 0:
        told = f"{program} was ended by signal {_signal(-answer.status)}"
    else:
        told = f"{program} ended with status {answer.status}, which is neither 0, 1 nor 2"
    message = cut(f"{told}: {said}" if said else told)
    return (Finding(code=PROBE_FAILED, severity=Severity.FAULT, message=message),)


def _words(said: bytes) -> str:
    """What a command printed, in one line that can be shown."""
    # Not final: where it was cut within a sign, that sign is left out.
    text = codecs.getincrementaldecoder("utf-8")("backslashreplace").decode(said)
    return printable(" ".join(text.split()))


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)
