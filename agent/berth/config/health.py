"""How devices are watched: ``[health]``, ``[[health.device]]`` and the ``health`` of groups.

Times are said of a kind, of a group and of one device; what is nearer to the device holds, and 0
leaves it to what is farther. So a value is whole only when they are folded.

Contract: GH §6.1, §6.4, §6.5; network.md §7.
"""

from __future__ import annotations

import re
from enum import Enum
from itertools import combinations
from typing import Final

import attrs

from berth.config.command import check_program, command_form
from berth.config.decode import Written, key, table, tables
from berth.config.finding import Cursor
from berth.config.forms import Choice, Flag, Several, Text, Whole
from berth.config.match import DNS_LABEL
from berth.config.template import WORDS, Template
from berth.config.xid import XidTable

INTERVAL_LIMIT_S: Final = 3600
DEADLINE_LIMIT_S: Final = 600
TIMEOUT_LIMIT_S: Final = 86400

COMMAND_TIMEOUT_S: Final = 30
"""Least timeout of a device that a command speaks for, unless one is given (GH §6.1)."""

REASON_LIMIT: Final = 63
"""Most bytes of a reason: it is the value of a taint, which is a label value."""


def _interval(default: int, zero: str = "") -> int:
    return key(
        Whole(least=0 if zero else 1, most=INTERVAL_LIMIT_S),
        default,
        f"From one look at a device to the next.{zero}",
        unit="seconds",
    )


def _deadline(default: int, zero: str = "") -> int:
    return key(
        Whole(least=0 if zero else 1, most=DEADLINE_LIMIT_S),
        default,
        "Longest that a device may take to answer; then it is unhealthy (`no-answer`; "
        f"of a command `probe-failed`).{zero}",
        unit="seconds",
    )


def _timeout(default: int, zero: str = "") -> int:
    return key(
        Whole(least=0 if zero else 1, most=TIMEOUT_LIMIT_S),
        default,
        "How long after its last answer a device counts as what it was; then it is unknown. "
        f"At least twice the interval and deadline together.{zero}",
        unit="seconds",
    )


_OUTER: Final = " 0: as `[health]` says for the kind."
_AROUND: Final = " 0: as the device's group or kind says."


@attrs.frozen(kw_only=True)
class Times:
    """health of a group: the times of its devices, in seconds; 0 where the kind's hold."""

    interval_s: int = _interval(0, _OUTER)
    deadline_s: int = _deadline(0, _OUTER)
    timeout_s: int = _timeout(0, _OUTER)

    def over(self, farther: Times) -> Times:
        """These times, with those of ``farther`` where these are 0."""
        return Times(
            interval_s=self.interval_s or farther.interval_s,
            deadline_s=self.deadline_s or farther.deadline_s,
            timeout_s=self.timeout_s or farther.timeout_s,
        )

    def whole(self) -> Times:
        """These times, with a timeout made of the others where there is none."""
        least = max(COMMAND_TIMEOUT_S, 3 * self.interval_s, self.least_timeout_s)
        return attrs.evolve(self, timeout_s=self.timeout_s or least)

    @property
    def least_timeout_s(self) -> int:
        """Least timeout: a verdict has to outlive one probe that is lost."""
        return 2 * (self.interval_s + self.deadline_s)


def check_times(times: Times, cursor: Cursor) -> None:
    """Refuse a timeout that would end with one probe that is lost.

    Args:
        times: What the place comes to.
    """
    least = times.least_timeout_s
    if times.timeout_s < least:
        cursor.say(
            f"comes to timeout_s = {times.timeout_s} with interval_s = {times.interval_s} "
            f"and deadline_s = {times.deadline_s}",
            rule="the timeout must be at least twice the other two together",
            mend=f"write timeout_s = {least}, or look more often",
        )


@attrs.frozen(kw_only=True)
class GpuTimes(Times):
    """[health.gpu]: GPUs and their MIG parts."""

    interval_s: int = _interval(5)
    deadline_s: int = _deadline(4)
    timeout_s: int = _timeout(30)


@attrs.frozen(kw_only=True)
class VfioTimes(Times):
    """[health.vfio]: GPUs for virtual machines."""

    interval_s: int = _interval(15)
    deadline_s: int = _deadline(2)
    timeout_s: int = _timeout(60)


@attrs.frozen(kw_only=True)
class GenericTimes(Times):
    """[health.generic]: device nodes."""

    interval_s: int = _interval(30)
    deadline_s: int = _deadline(2)
    timeout_s: int = _timeout(90)


@attrs.frozen(kw_only=True)
class CommandTimes(Times):
    """[health.command]: device nodes whose group has a command that is run."""

    interval_s: int = _interval(60)
    deadline_s: int = _deadline(10)
    timeout_s: int = _timeout(0, " 0: three intervals, and at least 30.")


@attrs.frozen(kw_only=True)
class NicTimes(Times):
    """[health.nic]: network devices."""

    interval_s: int = _interval(15)
    deadline_s: int = _deadline(2)
    timeout_s: int = _timeout(60)


class CarrierSeverity(Enum):
    """How bad a lost carrier is."""

    DEGRADED = "degraded"
    FAULT = "fault"


@attrs.frozen(kw_only=True)
class NicHealth(Times):
    """health of a group of NICs."""

    carrier: CarrierSeverity = key(
        Choice(kind=CarrierSeverity),
        CarrierSeverity.DEGRADED,
        "How bad a lost carrier is. `degraded`: pods still get the NIC. `fault`: they do not.",
    )
    carrier_when_free: bool = key(
        Flag(),
        False,
        "Whether it counts while nobody has the NIC, too; never of one that is set down.",
    )


@attrs.frozen(kw_only=True)
class GenericHealth(Times):
    """health of a group of device nodes."""

    command: tuple[Template, ...] = key(
        command_form(WORDS),
        (),
        "Program that is asked how a device is, and its arguments; no shell reads them. "
        "It exits with 0 for well, 1 for not well, 2 for unknown, and prints why; where it prints "
        "nothing, the last line of its error output is told. "
        "Without one only the nodes are looked at.",
    )

    def check(self, cursor: Cursor, written: Written) -> None:
        """The program is one file."""
        if not self.command or "command" in written.at_fault:
            return
        check_program(
            self.command, cursor.at("command"), example='["/usr/local/lib/modem-ok", "{node}"]'
        )


@attrs.frozen(kw_only=True)
class DeviceTimes(Times):
    """[[health.device]]: one device that is watched otherwise than its group and kind."""

    name: str = key(
        DNS_LABEL, "", "Name of the device in slices, as `berth devices` shows it.", required=True
    )
    interval_s: int = _interval(0, _AROUND)
    deadline_s: int = _deadline(0, _AROUND)
    timeout_s: int = _timeout(
        0, " 0: as the device's group or kind says, lengthened where that is too short."
    )

    def check(self, cursor: Cursor, written: Written) -> None:
        """The timeout is long enough, as far as can be told without the device."""
        if self.timeout_s and written.at_fault.isdisjoint(written.given):
            check_times(self, cursor)


def _check_devices(devices: tuple[DeviceTimes, ...], cursor: Cursor) -> None:
    for (first, one), (second, other) in combinations(enumerate(devices, start=1), 2):
        if one.name and one.name == other.name:
            cursor.at(second - 1, "name").say(
                f'is "{other.name}", as is that of entry {first}', mend="join the two"
            )


class UnknownEffect(Enum):
    """What a taint on a device that nobody could ask keeps away."""

    NONE = "None"
    NO_SCHEDULE = "NoSchedule"


def _reason(text: str) -> str | None:
    whole = re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", text)
    return text if whole and len(text) <= REASON_LIMIT else None


@attrs.frozen(kw_only=True)
class HealthTable:
    """[health]: how devices are watched, and what comes of it."""

    recover_after_s: int = key(
        Whole(least=1, most=3600),
        30,
        "How long everything must be well before an unhealthy device is healthy again. "
        "Device nodes without a command take 2 seconds.",
        unit="seconds",
    )
    unknown_effect: UnknownEffect = key(
        Choice(kind=UnknownEffect),
        UnknownEffect.NONE,
        "Whether the scheduler gives devices that nobody could ask lately: `None`: it does. "
        "`NoSchedule`: it does not, so that a daemon that cannot ask empties its node.",
    )
    evict: tuple[str, ...] = key(
        Several(
            item=Text(what='a reason such as "xid-79" or "lost"', parse=_reason),
        ),
        (),
        "Reasons for which pods that have the device are ended too (taint effect `NoExecute`); "
        "for others only new pods are kept away.",
    )
    gpu: GpuTimes = table(GpuTimes, "GPUs and their MIG parts.")
    vfio: VfioTimes = table(VfioTimes, "GPUs for virtual machines.")
    generic: GenericTimes = table(GenericTimes, "Device nodes.")
    command: CommandTimes = table(CommandTimes, "Device nodes whose group has a command.")
    nic: NicTimes = table(NicTimes, "Network devices.")
    xid: XidTable = table(XidTable, "What XIDs, the driver's numbers of faults, say of a GPU.")
    devices: tuple[DeviceTimes, ...] = tables(
        DeviceTimes,
        "Devices that are watched otherwise than their group and kind.",
        name="device",
        check=_check_devices,
    )

    def check(self, cursor: Cursor, written: Written) -> None:
        """The timeouts are long enough."""
        for kind in ("gpu", "vfio", "generic", "command", "nic"):
            if kind not in written.at_fault:
                times: Times = getattr(self, kind)
                check_times(times.whole(), cursor.at(kind))
