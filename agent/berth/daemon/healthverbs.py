"""What the operator's command may ask of health: how devices are, and what a person knows better.

Source: gpu-and-health.md §6.1; daemon.md §2.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any, Final

import trio

from berth.control import Event, Verb
from berth.daemon.healthwork import HealthWork
from berth.errors import ConfigError, printable
from berth.health.finding import CODE_LIMIT, MESSAGE_LIMIT, cut
from berth.health.verdict import Verdict
from berth.model.device import Nic
from berth.model.inventory import Inventory
from berth.model.names import is_dns_label, slug
from berth.model.peripheral import Peripheral
from berth.node.views import health_view, verdict_entry
from berth.runtime.latest import Latest
from berth.runtime.logs import get_log

_SHOWN: Final = 12
# How many devices an error names.

_log = get_log(__name__)


class HealthVerbs:
    """Answers the verbs of health."""

    def __init__(self, care: HealthWork, inventory: Latest[Inventory]) -> None:
        self._care = care
        self._health = care.health
        self._inventory = inventory

    def verbs(self) -> Mapping[str, Verb]:
        """What may be asked."""
        return {
            "health.clear": self._clear,
            "health.list": self._list,
            "health.set": self._set,
        }

    async def _list(self, request: Mapping[str, Any], _tell: Event) -> Mapping[str, Any]:
        """Tell of every device, or of the one that is asked about.

        Raises:
            ConfigError: No device is so called.
        """
        await trio.lowlevel.checkpoint()
        view = health_view(
            self._health.state.get(),
            self._inventory.get(),
            self._health.courses_of,
            warnings=self._care.remarks(),
        )
        if not request.get("device"):
            return view
        name = self._device(request)
        return {**view, "devices": [one for one in view["devices"] if one["name"] == name]}

    async def _set(self, request: Mapping[str, Any], _tell: Event) -> Mapping[str, Any]:
        """Take a device out of service by a person's word.

        Raises:
            ConfigError: No device is so called, or the reason is no reason.
            HostError: The disk refused; nothing has changed.
        """
        name, reason = self._device(request), _reason(request)
        message = request.get("message") or _unsaid(name, reason)
        if not isinstance(message, str) or len(message.encode()) > MESSAGE_LIMIT:
            raise ConfigError(
                "--message", "is no text of its length", rule=f"at most {MESSAGE_LIMIT} bytes"
            )
        await self._health.set_by_operator(name, reason, cut(printable(message)))
        _log.info("device set unhealthy by the operator", device=name, reason=reason)
        until = "until the next boot, or until you clear it"
        if self._outlives_boots(name):
            until = "until you clear it, over reboots too"
        return self._done(f"{name} is {reason} {until}", name)

    async def _clear(self, request: Mapping[str, Any], _tell: Event) -> Mapping[str, Any]:
        """Take back a person's word, or drop every cause of one reason; the device is asked anew.

        Raises:
            ConfigError: No device is so called, or nothing of it is to be cleared.
            HostError: The disk refused; nothing has changed.
        """
        name = self._device(request)
        reason = _reason(request) if request.get("reason") else ""
        dropped = await self._health.clear(name, reason)
        if not dropped:
            raise self._nothing(name, reason)
        _log.info("device cleared by the operator", device=name, reasons=",".join(dropped))
        await self._health.probe_now(name)
        return self._done(f"{name}: {', '.join(dropped)} cleared", name)

    def _done(self, done: str, name: str) -> Mapping[str, Any]:
        verdict: Verdict = self._health.verdict(name)
        return {"done": done, "name": name, "verdict": verdict_entry(verdict)}

    def _outlives_boots(self, name: str) -> bool:
        """Whether a next boot knows the device again: a link without hardware is another then."""
        nic = self._inventory.get().nic_by_name.get(name)
        return nic is None or not nic.identity.startswith("link:")

    def _nothing(self, name: str, reason: str) -> ConfigError:
        """Nothing is to be cleared of a device; what is of its whole is cleared there."""
        identities = {one.identity: one.name for one in self._inventory.get().every}
        codes: dict[str, set[str]] = {}
        for subject, course in self._health.courses_of(name):
            owner = codes.setdefault(identities.get(subject, name), set())
            owner.update(cause.finding.code for cause in course.causes)
        places = [
            f"{', '.join(sorted(found))}{f' of {owner}' if owner != name else ''}"
            for owner, found in codes.items()
            if found
        ]
        what = f"has no cause {reason}" if reason else "has no cause that an operator set"
        mend = f"name one: {'; '.join(places)}" if places else "nothing speaks against it"
        return ConfigError(f"device {name}", what, mend=mend)

    def _device(self, request: Mapping[str, Any]) -> str:
        """The slice name of the device that is meant."""
        asked = request.get("device")
        if not isinstance(asked, str) or not asked:
            raise ConfigError("DEVICE", "is missing", rule="health is of one device")
        inventory = self._inventory.get()
        found = [one.name for one in inventory.every if asked in _called(one)]
        if len(found) == 1:
            return found[0]
        if found:
            raise ConfigError(
                f"device {asked}", f"is {' and '.join(found)}", rule="it must be one: name it so"
            )
        names = [one.name for one in inventory.every]
        raise ConfigError(
            f"device {asked}",
            "is not known here",
            rule=_choice(asked, names),
            mend="`berth devices` shows what there is",
        )


def _called(one: Peripheral | Nic) -> Iterator[str]:
    """Every name by which a person may mean the device."""
    yield from (one.name, one.identity)
    if isinstance(one, Nic):
        yield from filter(None, (one.ifname, one.pci, one.mac))
    elif one.path:
        yield one.path


def _reason(request: Mapping[str, Any]) -> str:
    reason = request.get("reason")
    if not isinstance(reason, str) or not reason:
        raise ConfigError(
            "REASON", "is missing", rule="it is a word for what is wrong", mend="such as fan-broken"
        )
    if not is_dns_label(reason):
        raise ConfigError(
            "REASON",
            f"is {reason!r}",
            rule=f"it is the value of a taint: at most {CODE_LIMIT} of a-z, 0-9 and -",
            mend=f"such as {slug(reason)[:CODE_LIMIT].strip('-')}",
        )
    return reason


def _unsaid(name: str, reason: str) -> str:
    return f"an operator took it out of service; `berth health clear {name} {reason}` puts it back"


def _choice(asked: str, names: list[str]) -> str:
    near = difflib.get_close_matches(asked, names, n=3)
    if near:
        return f"do you mean {' or '.join(near)}?"
    if not names:
        return "no device was found on this node"
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"devices are {', '.join(names[:_SHOWN])}{more}"
