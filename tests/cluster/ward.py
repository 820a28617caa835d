"""A ward: a node whose devices fall ill, pods that have them, and what each place tells of it.

GPUs are the stand-in's, device nodes lie in the daemon's own `/dev`, NICs are ends of veth pairs.
How long each place took is logged; `--log-cli-level=INFO` shows it.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import attrs

from tests.cluster.api import Object
from tests.cluster.claimforms import request
from tests.cluster.gpumachine import GpuMachine
from tests.cluster.pods import is_running
from tests.cluster.site import LIMIT_S, PodView, Site
from tests.cluster.test_taints import taints, wait_healthy

DRIVER_FAULT = "berth.dev/fault"
UNASKED = "unasked"
PROMPT_S = 10.0
"""Within it a pod's status tells a change; kubelet makes one by itself only each 60 to 90 s."""

_log = logging.getLogger(__name__)


@attrs.frozen
class Illness:
    """What is wrong with a device, as it is told everywhere.

    Attributes:
        device: Its name in slices.
        reason: In one word.
        words: Of the message.
        pod: Who has it; empty when nobody has.
        is_fault: Whether pods are kept from it.
    """

    device: str
    reason: str
    words: str = ""
    pod: str = ""
    is_fault: bool = True

    @property
    def taint(self) -> tuple[str, str, str]:
        """Key, value and effect of the taint in the slice."""
        if self.is_fault:
            return DRIVER_FAULT, self.reason, "NoSchedule"
        return "berth.dev/degraded", self.reason, "None"

    @property
    def health(self) -> str:
        """What a pod's status says of the device."""
        return "Unhealthy" if self.is_fault else "Healthy"

    @property
    def condition(self) -> str:
        """Status of the claim's condition `Healthy`."""
        return "False" if self.is_fault else "True"


class Ward:
    """The node.

    Args:
        site: Where it is.
        machine: Its GPUs and device nodes.
        with_messages: Its kubelet puts messages into pods' statuses.
    """

    def __init__(self, site: Site, machine: GpuMachine, *, with_messages: bool = True) -> None:
        self.site = site
        self.machine = machine
        self.pods: dict[str, PodView] = {}
        self._with_messages = with_messages

    def admit(self, name: str, *, of: str, cel: str, **asked: object) -> PodView:
        """Create a pod with a claim of its name for a device; it need not run."""
        self.site.claim(name, request("device", of=of, cel=cel, **asked))
        self.pods[name] = self.site.create(name, name)
        return self.pods[name]

    def wait_running(self, *names: str, limit_s: float = LIMIT_S) -> None:
        """Wait until these pods run."""
        for name in names:
            self.site.cluster.wait_running(self.pods[name].now, limit_s=limit_s)

    def discharge(self, name: str) -> None:
        """Delete a pod and its claim."""
        self.pods.pop(name).delete(grace_s=1)
        self.site.api.delete(self.site.claim_path(name))

    def told(self, name: str) -> tuple[str, str]:
        """Health and message of a pod's one device; empty where its status says nothing of it."""
        for status in self.pods[name].now["status"].get("containerStatuses", ()):
            for resource in status.get("allocatedResourcesStatus", ()):
                (found,) = resource["resources"]
                return found["health"], found.get("message", "")
        return "", ""

    def wait_ill(self, *illnesses: Illness) -> None:
        """Wait until just these devices are ill, to whomever one asks; pods run on."""
        began = time.monotonic()
        wished = {one.device: [one.taint] for one in illnesses}
        self._wait("taints", lambda: taints(self.site), wished, began)
        for one in illnesses:
            if one.pod:
                self._wait(f"{one.pod} told", partial(self._is_told, one), True, began)
        for one in illnesses:
            if one.pod:
                said = wait_healthy(self.site, one.pod, one.condition)["Healthy"]["message"]
                assert one.words in said
        self._note("claims told", began)
        assert [name for name, pod in self.pods.items() if not is_running(pod.now)] == []

    def wait_well(self, *names: str, limit_s: float = LIMIT_S) -> None:
        """Wait until no device is ill any more, and these pods are told that theirs is well."""
        began = time.monotonic()
        self._wait("no taints", lambda: taints(self.site), {}, began, limit_s=limit_s)
        for name in names:
            told = ("Healthy", "")
            self._wait(f"{name} told", partial(self.told, name), told, began)
        for name in names:
            assert wait_healthy(self.site, name, "True")["Healthy"]["reason"] == "Healthy"
        assert self.verdicts() == {}

    def kill(self, *illnesses: Illness) -> None:
        """Kill the daemon and start it again: from its first word on nothing is healthier.

        Args:
            illnesses: What the devices have then.
        """
        faults = {one.device for one in illnesses if one.is_fault}
        tainted = taints(self.site).keys()
        self.site.node.berthd.kill()
        self.site.node.berthd.start()
        self.site.node.berthd.wait_ready()
        end = time.monotonic() + PROMPT_S
        # Of what is no fault nobody knows anything before it was asked again.
        while (told := self.verdicts()) != {one.device: one.reason for one in illnesses}:
            assert {told.get(name, UNASKED) for name in faults}.isdisjoint({UNASKED}), told
            assert time.monotonic() < end, told
        assert taints(self.site).keys() == tainted
        for one in illnesses:
            if one.pod and one.is_fault:
                assert self.told(one.pod)[0] in {one.health, ""}

    def verdicts(self) -> dict[str, str]:
        """Reason of each verdict that is not plainly well, by the daemon's own word."""
        berth = str(Path(sys.executable).with_name("berth"))
        # It ends with 1 when a device is unhealthy.
        text = self.site.node.run(berth, "health", "--json", check=False)
        told: list[Object] = json.loads(text)["devices"]
        return {one["name"]: one["reason"] for one in told if one["group"] and one["reason"]}

    def _is_told(self, one: Illness) -> bool:
        health, message = self.told(one.pod)
        return health == one.health and (one.words in message or not self._with_messages)

    def _wait(
        self,
        what: str,
        look: Callable[[], object],
        wished: object,
        began: float,
        *,
        limit_s: float = PROMPT_S,
    ) -> None:
        self.site.wait_same(what, look, wished, limit_s=limit_s)
        self._note(what, began)

    def _note(self, what: str, began: float) -> None:
        _log.info("%s after %.1f s", what, time.monotonic() - began)
