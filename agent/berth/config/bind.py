"""When the pod of a device is bound: ``bind`` of groups.

A device may be allocated before it is of any use: its link comes up, or a fabric attaches it, only
when somebody is to have it. The scheduler then waits with the pod until the daemon says that the
device is ready, and looks for another when it says that it will not be.

Contract: KC §9.2.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

import attrs

from berth.config.command import check_program, command_form
from berth.config.decode import Written, key
from berth.config.finding import Cursor
from berth.config.forms import Choice, Whole
from berth.config.template import WORDS, Template

WITHIN_LIMIT_S: Final = 3600
"""Longest that a device may take; the scheduler itself gives up after 600 s unless it is told
otherwise (KC §9.2)."""

REST_LIMIT_S: Final = 86400
"""Longest that a device is kept from claims after it was given up."""

NIC_WORDS: Final = ("name", "ifname", "pci")
"""Places in the command of a group of NICs: the slice name, the link's name, the PCI address."""


class BindWhen(Enum):
    """What a pod's binding waits for."""

    AT_ONCE = "at-once"
    LINK_UP = "link-up"
    COMMAND = "command"


class Ungated(Enum):
    """What comes of a group where nobody lets the scheduler wait."""

    PREPARE = "prepare"
    LEAVE_OUT = "leave-out"


@attrs.frozen(kw_only=True)
class Bind:
    """bind of a group: when the pods of its devices are bound."""

    when: BindWhen = key(
        Choice(kind=BindWhen),
        BindWhen.AT_ONCE,
        "What is waited for between the allocation of a device and the binding of its pod. "
        "`at-once`: nothing. `link-up`: the NIC has carrier; one that is set down is not set up "
        "for that, so keep it up, by its `.network` file for instance. "
        "`command`: the command says so.",
    )
    within_s: int = key(
        Whole(least=1, most=WITHIN_LIMIT_S),
        60,
        "How long a device may take, or be not ready again; then its claim is given up, and the "
        "scheduler looks for another device.",
        unit="seconds",
    )
    rest_s: int = key(
        Whole(least=1, most=REST_LIMIT_S),
        300,
        "How long a device that was given up for that is kept from claims, unless it is ready "
        "before.",
        unit="seconds",
    )
    interval_s: int = key(
        Whole(least=1, most=600), 5, "From one run of the command to the next.", unit="seconds"
    )
    deadline_s: int = key(
        Whole(least=1, most=600),
        10,
        "Longest that the command may take; then it is ended, and the device is not ready.",
        unit="seconds",
    )
    ungated: Ungated = key(
        Choice(kind=Ungated),
        Ungated.PREPARE,
        "What is done where the API server drops binding conditions, or the daemon may not write "
        "claim statuses. `prepare`: pods are bound at once, and wait on the node, without another "
        "device to go to. `leave-out`: the devices are not offered.",
    )

    @property
    def is_wanted(self) -> bool:
        """Whether anything is waited for."""
        return self.when is not BindWhen.AT_ONCE

    def check_command(
        self, command: tuple[Template, ...], cursor: Cursor, written: Written
    ) -> None:
        """A command goes with ``when = "command"``, and that with a command that can answer."""
        self._check_deadline(cursor, written)
        if written.at_fault & {"when", "command"}:
            return
        if not self.is_wanted and not command and written.given - {"when"}:
            cursor.warn('waits for nothing: when is "at-once"')
        if command:
            check_program(command, cursor.at("command"), example=_EXAMPLE)
            if self.when is not BindWhen.COMMAND:
                cursor.at("command").say(
                    f'is given with when = "{self.when.value}"', mend='write when = "command"'
                )
        elif self.when is BindWhen.COMMAND:
            cursor.at("when").say(
                'is "command", and no command is given', mend=f"write command = {_EXAMPLE}"
            )

    def _check_deadline(self, cursor: Cursor, written: Written) -> None:
        """A device must not be given up before its command has had its time."""
        if self.when is not BindWhen.COMMAND or written.at_fault & {"when", *_TIMES}:
            return
        if self.deadline_s > self.within_s:
            cursor.say(
                f"comes to deadline_s = {self.deadline_s} with within_s = {self.within_s}",
                rule="the command must be allowed no longer than its device",
                mend=f"write deadline_s = {self.within_s} or less, or a larger within_s",
            )


_TIMES: Final = ("deadline_s", "within_s")
_EXAMPLE: Final = '["/usr/local/lib/attached", "{name}"]'
_SAYS: Final = (
    "Program that is asked whether a device is ready, and its arguments; no shell reads them. "
    "It exits with 0 for ready, 1 for not ready yet, 2 for unknown, and prints why. "
)


@attrs.frozen(kw_only=True)
class NicBind(Bind):
    """bind of a group of NICs."""

    command: tuple[Template, ...] = key(command_form(NIC_WORDS, wildcards=False), (), _SAYS.strip())

    def check(self, cursor: Cursor, written: Written) -> None:
        """What is waited for can be asked."""
        self.check_command(self.command, cursor, written)


@attrs.frozen(kw_only=True)
class GenericBind(Bind):
    """bind of a group of device nodes."""

    command: tuple[Template, ...] = key(command_form(WORDS), (), _SAYS.strip())

    def check(self, cursor: Cursor, written: Written) -> None:
        """What is waited for can be asked; device nodes have no link."""
        self.check_command(self.command, cursor, written)
        if self.when is BindWhen.LINK_UP and "when" not in written.at_fault:
            cursor.at("when").say(
                'is "link-up"', rule="device nodes have no link", mend='write when = "command"'
            )

    def check_unprepared(self, cursor: Cursor) -> None:
        """Where kubelet prepares nothing, no pod can wait for it on the node."""
        if self.is_wanted and self.ungated is Ungated.PREPARE:
            cursor.at("ungated").say(
                'is "prepare" with skip_node_operations "all"',
                rule="a pod whose claim nobody prepares cannot wait on the node",
                mend='write ungated = "leave-out", or skip_node_operations = "unprepare"',
            )
