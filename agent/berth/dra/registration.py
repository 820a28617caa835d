"""Kubelet's plugin registration: says what is served where, and keeps what kubelet answered.

Kubelet finds the registration socket by itself, asks `GetInfo` once (1 s), and tells the outcome.
It tries again after every failure, so there is nothing to do but to answer; a refused notification
would even undo a registration. There is no sign of life afterwards: a kubelet that restarts just
asks anew.

Source: KC §1.1 to §1.5; cases.md 2.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final

import attrs
import trio

from berth.model.names import excerpt
from berth.pb import pluginregistration_pb2 as pb
from berth.runtime.latest import Latest
from berth.runtime.logs import get_log
from berth.runtime.methods import Call, Method, Service

PATIENCE_S: Final = 60.0
"""After how many seconds without kubelet the operator is told, in seconds."""

_log = get_log(__name__)


@attrs.frozen(kw_only=True)
class Places:
    """Where kubelet looks for a DRA driver.

    Attributes:
        root: Kubelet's root directory; it is kubelet's to make.
    """

    root: Path
    driver: str

    @property
    def registry(self) -> Path:
        """The folder that kubelet watches for registration sockets."""
        return self.root / "plugins_registry"

    @property
    def registration_socket(self) -> Path:
        """The socket on which kubelet asks who we are."""
        return self.registry / f"{self.driver}-reg.sock"

    @property
    def dra_socket(self) -> Path:
        """The socket on which claims are served."""
        return self.root / "plugins" / self.driver / "dra.sock"


@attrs.frozen(kw_only=True)
class RegistrationState:
    """What kubelet last said.

    Attributes:
        registered: Whether kubelet took the driver when it last asked.
        reason: Why not; empty when it did.
        times: How often it took it.
        refusals: How often it did not.
    """

    registered: bool
    reason: str
    times: int = 0
    refusals: int = 0

    def __str__(self) -> str:
        return "registered" if self.registered else f"not registered, {self.reason}"


class Registration:
    """Answers kubelet's questions about the driver.

    Args:
        places: Where the sockets are.
        tokens: What is served, in the order of preference, such as ``v1.DRAPlugin``.
    """

    def __init__(self, places: Places, *, tokens: Sequence[str]) -> None:
        self.state: Latest[RegistrationState] = Latest(
            RegistrationState(registered=False, reason=f"watching {places.registry}")
        )
        """What kubelet last said."""
        self._places = places
        self._info = pb.PluginInfo(
            type="DRAPlugin",
            name=places.driver,
            endpoint=str(places.dra_socket),
            supported_versions=tokens,
        )

    def service(self) -> Service:
        """The method table."""
        return Service(
            name="pluginregistration.Registration",
            methods=(
                Method(
                    name="GetInfo",
                    request=pb.InfoRequest,
                    reply=pb.PluginInfo,
                    handler=self._get_info,
                ),
                Method(
                    name="NotifyRegistrationStatus",
                    request=pb.RegistrationStatus,
                    reply=pb.RegistrationStatusResponse,
                    handler=self._notify,
                ),
            ),
        )

    async def remind(self, wait: Callable[[], Awaitable[object]]) -> None:
        """Tell the operator when kubelet did not come for `PATIENCE_S`; ends then, or when it did.

        Kubelet may be down, or look elsewhere: the message names the folder and the setting.

        Args:
            wait: Returns when kubelet has come; behind kept sockets it does not ask anew.
        """
        with trio.move_on_after(PATIENCE_S):
            await wait()
            return
        _log.warning(
            "kubelet has not asked for the driver yet",
            after_s=PATIENCE_S,
            watching=self._places.registry,
            mend="is kubelet running, and is [kubelet] root what its --root-dir says?",
        )

    async def _get_info(self, _request: pb.InfoRequest, _call: Call) -> pb.PluginInfo:
        await trio.lowlevel.checkpoint()
        return self._info

    async def _notify(
        self, request: pb.RegistrationStatus, _call: Call
    ) -> pb.RegistrationStatusResponse:
        await trio.lowlevel.checkpoint()
        before = self.state.get()
        if request.plugin_registered:
            now = attrs.evolve(before, registered=True, reason="", times=before.times + 1)
            self.state.set(now)
            _log.info("registered with kubelet", driver=self._places.driver, times=now.times)
        else:
            reason = f"kubelet says: {excerpt(request.error) or 'nothing'}"
            refusals = before.refusals + 1
            self.state.set(attrs.evolve(before, registered=False, reason=reason, refusals=refusals))
            _log.warning(
                "kubelet does not take the driver, it will ask again", reason=request.error
            )
        return pb.RegistrationStatusResponse()
