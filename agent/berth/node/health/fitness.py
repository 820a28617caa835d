"""Whether a device is well enough to be given away: a refusal at once, or a question to be asked.

A refused prepare costs its pod 60 to 90 s, and a refused allocation the pod itself. Still a sick
device is refused at once, by name and with what to do: nobody knows when it heals. One of which
nobody knows how it is gets asked first, and is refused only when no answer comes.

Source: gpu-and-health.md §6.5; KC §3.2, §9.1.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import attrs

from berth.errors import ClaimError
from berth.health.taints import FAULT, UNKNOWN, Rules, taint_key, tolerates
from berth.health.verdict import HealthState, Status, Verdict


@attrs.frozen(kw_only=True)
class Fitness:
    """How devices are, for whoever gives them away.

    Attributes:
        answers: What devices answered that were asked for this one gift, by slice name.
    """

    state: HealthState
    rules: Rules
    answers: Mapping[str, Verdict] = attrs.field(factory=dict)

    def of(self, name: str) -> Verdict:
        """How a device is; an answer counts while nobody knows better."""
        verdict = self.state.of(name)
        if verdict.status is Status.UNKNOWN:
            return self.answers.get(name, verdict)
        return verdict

    def require(self, name: str, *, tolerations: Collection[str] = ()) -> None:
        """Refuse a device that is sick, or that was asked and said nothing.

        Args:
            tolerations: Keys of taints that its holder tolerates: whoever wants a sick device, to
                mend it, gets it.

        Raises:
            ClaimError: It is refused.
        """
        verdict = self.of(name)
        asked = name in self.answers
        if verdict.status is Status.HEALTHY or (verdict.status is Status.UNKNOWN and not asked):
            return
        key = taint_key(verdict, self.rules.driver)
        if not tolerates(tolerations, key):
            raise ClaimError(
                name,
                f"is {verdict.status.value} ({verdict.reason}): {verdict.message}",
                mend=f"`berth devices` shows when it is well; a claim that tolerates {key} gets it "
                "all the same",
            )

    def is_unsure(self, name: str, *, tolerations: Collection[str] = ()) -> bool:
        """Whether the device is to be asked before it is given."""
        if self.of(name).status is not Status.UNKNOWN or name in self.answers:
            return False
        keys = (f"{self.rules.driver}/{word}" for word in (FAULT, UNKNOWN))
        return not all(tolerates(tolerations, key) for key in keys)

    def is_tolerated(self, name: str, tolerations: Collection[str]) -> bool:
        """Whether the device is sick, and whoever wants it does so all the same."""
        verdict = self.of(name)
        key = taint_key(verdict, self.rules.driver)
        return verdict.status is Status.UNHEALTHY and tolerates(tolerations, key)
