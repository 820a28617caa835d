"""What the NRI connection asks of whoever decides about pods, and how much time it gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import attrs

from berth.model.pod import Adjustment, Container, Sandbox
from berth.nri.versions import Runtime
from berth.runtime.threads import Decision


@attrs.frozen(kw_only=True)
class Turn:
    """The time for one event, and who decides about its outcome.

    A worker thread that did the work calls ``decision.claim_done()``. True means that the runtime
    will be answered with the hook's result, even when that takes a moment longer; so the hook has
    to return soon. False means that the runtime has been told "too late" already, and the thread
    must undo what it did. A hook that never touches the decision is late when it has not returned
    within the limit.

    At the limit, and when the connection is lost, the hook is cancelled as well. A thread awaited
    the usual way (``run_in_thread``) is not interrupted by that: the hook stays with it until it
    ends, and only its answer is dropped.

    Attributes:
        limit_s: Seconds from now in which the runtime is to be answered.
        runtime: Who asks.
    """

    limit_s: float
    decision: Decision
    runtime: Runtime


class Hooks(Protocol):
    """What each event does; one object serves all connections.

    A `BerthError` raised here becomes the runtime's error, with its text: the pod or container is
    then not started, and tried again by kubelet. Any other exception does the same and is logged.

    Runtimes send one event at a time; yet a hook that was late may still run when the next one,
    or the next connection's `synchronize`, begins. A stop of the daemon lets the hooks that run
    finish, within their limit, before the connection is closed.
    """

    async def synchronize(
        self, sandboxes: Sequence[Sandbox], containers: Sequence[Container]
    ) -> None:
        """Learn all pods and containers, once per connection and before its first event.

        It has to return within the event limit, else the connection is given up: what takes longer
        (attaching what is missing) goes to a task of its own. Dead sandboxes are among the pods,
        without a network namespace; one pod may have several.
        """

    async def run_pod_sandbox(self, sandbox: Sandbox, turn: Turn) -> None:
        """Complete a new sandbox: its namespace and its first interface are there."""

    async def stop_pod_sandbox(self, sandbox: Sandbox) -> None:
        """Take back what the sandbox has; its namespace may be gone, or its path unknown."""

    async def remove_pod_sandbox(self, sandbox: Sandbox) -> None:
        """Forget the sandbox; may come long after its devices went to another pod."""

    async def create_container(
        self, sandbox: Sandbox, container: Container, turn: Turn
    ) -> Adjustment | None:
        """Check that the container may be made, and say what is changed of it."""

    async def start_container(self, sandbox: Sandbox, container: Container, turn: Turn) -> None:
        """Check again right before the start."""

    async def stop_container(self, sandbox: Sandbox, container: Container) -> None:
        """Hear that a container has ended; of a sandbox that is gone only the id may be known."""

    async def remove_container(self, sandbox: Sandbox, container: Container) -> None:
        """Hear that a container is no more."""
