"""What the operator's command gets from the daemon, verb by verb."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from berth.config.schema import DraTable
from berth.daemon.configfile import ConfigFile, read_config
from berth.daemon.operator import Operator
from berth.daemon.parts import Parts
from berth.errors import ConfigError, Faults
from berth.generic.identity import Memory
from berth.node.inventory.stock import FILE
from berth.node.records.document import to_bytes
from berth.nri.plugin import PluginState
from berth.nri.versions import Runtime
from berth.runtime.supervisor import Supervisor
from berth.runtime.systemd import Systemd
from tests.unit.daemon.conftest import write_config


@pytest.fixture
def operator(parts: Parts, file: ConfigFile) -> Operator:
    """The operator of a daemon none of whose plugins runs."""
    return Operator(parts, file, supervisor=Supervisor(()), systemd=Systemd({}))


async def ask(operator: Operator, verb: str, **request: Any) -> Mapping[str, Any]:
    """Ask as the command does."""

    async def tell(_event: Mapping[str, Any]) -> None:
        await trio.lowlevel.checkpoint()

    return await operator.verbs()[verb](request, tell)


async def test_status_tells_of_every_part(operator: Operator, parts: Parts, config: Path) -> None:
    """A daemon that has just started says so of each thing it waits for."""

    parts.tell_nri(PluginState(synchronized=False, reason="no such file"))
    parts.gateway.disconnect("no kubeconfig")

    told = await ask(operator, "status")

    assert told["config"] == str(config)
    text = repr(told)
    assert "no such file" in text
    assert "no kubeconfig" in text
    assert told["well"] is False
    assert any("no kubeconfig" in trouble for trouble in told["troubles"])
    pod = await ask(operator, "why", what="default/nobody")
    assert any("no kubeconfig" in trouble for trouble in pod["node"]["troubles"])


async def test_status_when_claims_are_not_served(operator: Operator, parts: Parts) -> None:
    """With the door to kubelet shut nobody waits for kubelet, so it is no trouble."""

    parts.config = attrs.evolve(parts.config, dra=DraTable(enabled=False))

    told = await ask(operator, "status")

    assert told["kubelet"] is None
    assert not any("kubelet:" in trouble for trouble in told["troubles"])


async def test_devices_and_holds_of_a_new_daemon_are_empty(operator: Operator) -> None:
    """Nothing was looked at, nothing is held."""

    assert (await ask(operator, "devices"))["devices"] == []
    assert (await ask(operator, "holds"))["holds"] == []


async def test_why_answers_what_nobody_knows(operator: Operator) -> None:
    """A question about nothing has an answer too."""

    assert await ask(operator, "why", what="default/nobody")
    assert await ask(operator, "why")


async def test_reload_takes_the_devices_of_a_good_file(
    operator: Operator, parts: Parts, config: Path
) -> None:
    """New groups hold at once; what cannot change while it runs waits for the next start."""

    write_config(
        config,
        '[nri]\ntimeout_s = 1.0\n[[nic.group]]\nname = "other"\nmatch = { name = ["nic1"] }\n',
    )

    told = await ask(operator, "reload")

    assert [group.name for group in parts.config.nic.groups] == ["other"]
    assert parts.config.nri.timeout_s == 1.5
    assert any("nri" in line for line in told["at_next_start"])


async def test_reload_of_a_bad_file_changes_nothing(
    operator: Operator, parts: Parts, config: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """All faults are told, to the journal as well, and the old groups stay in force."""

    write_config(config, '[[nic.group]]\nname = "x y"\nmatch = { nmae = ["nic1"] }\n')
    before = parts.config

    with pytest.raises(Faults, match="nmae"):
        await ask(operator, "reload")
    await operator.reload_by_signal()

    assert parts.config is before
    assert caplog.text.count("reload refused, the old settings stay") == 2
    assert operator.reloads.series() == {("taken",): 0, ("refused",): 2}


async def test_reload_by_signal_takes_a_good_file(
    operator: Operator, parts: Parts, config: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """SIGHUP does what the command does, and the journal tells it."""

    caplog.set_level("INFO")
    before = operator.digest
    write_config(config, "")

    await operator.reload_by_signal()

    assert parts.config.nic.groups == ()
    assert "reloaded" in caplog.text
    assert operator.reloads.series() == {("taken",): 1, ("refused",): 0}
    assert operator.digest == read_config(config).digest != before


async def test_nri_state_reaches_whoever_waits_for_it(parts: Parts) -> None:
    """Hooks that would move a NIC are there, or the reason why not is."""

    runtime = Runtime(name="containerd", version="2.4.2")
    states = [
        PluginState(synchronized=True, runtime=runtime),
        PluginState(synchronized=False, runtime=runtime, reason="gone"),
    ]
    told = [parts.closed.get()]
    for state in states:
        parts.tell_nri(state)
        told.append(await parts.closed.wait_value(lambda _: True))

    assert told == ["not connected yet", "", "gone"]
    assert parts.nri.get() == states[-1]


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ({"action": "release", "for_s": 0}, "it is release, for up to a day, or resume"),
        ({"action": "release", "for_s": "x"}, "it is release, for up to a day, or resume"),
        ({"action": "reset"}, "is asked to 'reset'"),
    ],
)
async def test_odd_wish_for_gpus_is_refused(
    operator: Operator, request_: dict[str, Any], words: str
) -> None:
    """Nothing is done for it."""

    with pytest.raises(ConfigError, match=words):
        await ask(operator, "gpu", **request_)


async def test_gpus_are_let_go_of_and_taken_up(operator: Operator) -> None:
    """A machine without GPUs has nothing to let go of, and says how its session is."""

    assert (await ask(operator, "gpu", action="release", for_s=5))["session"]
    assert (await ask(operator, "gpu", action="resume"))["session"]


async def test_why_of_a_path_tells_what_the_groups_say(operator: Operator) -> None:
    """A node that no group takes is looked at all the same."""

    answer = await ask(operator, "why", what="/dev/null")

    (found,) = answer["found"]
    assert (found["kind"], found["name"]) == ("node", "/dev/null")
    assert found["verdict"] == "no group looks at it: there is no [[generic]] group"


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ({"action": "reset", "device": "x"}, "is asked to 'reset': it is forget"),
        ({"action": "forget"}, "it is forget, with the device's name"),
        ({"action": "forget", "device": ["x"]}, "it is forget, with the device's name"),
        ({"action": "forget", "device": "gpu-0"}, "device gpu-0: is not known here"),
    ],
)
async def test_only_known_devices_are_forgotten(
    operator: Operator, request_: dict[str, Any], words: str
) -> None:
    """Whatever else is asked is refused with what may be."""

    with pytest.raises(ConfigError, match=words):
        await ask(operator, "device", **request_)


async def test_lost_device_is_forgotten_as_asked(
    operator: Operator, parts: Parts, nursery: trio.Nursery
) -> None:
    """What was done is told."""

    memory = Memory(indexes={"modem/dev:/dev/ttyUSB0": 0})
    folder = trio.Path(parts.config.node.state_dir)
    await folder.mkdir(parents=True)
    await (folder / FILE).write_bytes(to_bytes(memory))
    await nursery.start(parts.held.stock.run)

    told = await ask(operator, "device", action="forget", device="modem-ttyusb0")

    assert told["done"].startswith("modem-ttyusb0 is forgotten")
    with pytest.raises(ConfigError, match="is not known here"):
        await ask(operator, "device", action="forget", device="modem-ttyusb0")
