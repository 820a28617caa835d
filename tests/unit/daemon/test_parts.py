"""What the parts tell each other."""

from __future__ import annotations

from berth.daemon.parts import Parts
from berth.model.pod import Container, ContainerState, Sandbox
from berth.node.running import mark
from berth.nri.plugin import PluginState
from tests.unit.node.peripherals import RESOURCE, given, modem


async def test_runtime_that_goes_away_ends_no_container(parts: Parts) -> None:
    """It is started anew beside them; a device in a pod deleted by force stays held."""

    env = dict([mark(RESOURCE, ["modem-0"]).split("=", 1)])
    state = ContainerState.RUNNING
    parts.running.made(Sandbox(id="s1"), Container(id="c1", sandbox_id="s1", env=env, state=state))

    parts.tell_nri(PluginState(synchronized=False, reason="the runtime is away"))

    assert parts.running.is_live(given(modem()))
