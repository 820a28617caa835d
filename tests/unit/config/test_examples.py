"""The files under configs/: the default file says the defaults, and each example is good."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from berth.config.decode import Table, Tables, keys_of
from berth.config.document import parse
from berth.config.generic import GenericGroup
from berth.config.gpu import GpuGroup
from berth.config.health import DeviceTimes
from berth.config.load import check
from berth.config.match import NicMatch
from berth.config.nicgroup import NicGroup
from berth.config.schema import Config
from berth.model.device import NicMode
from tests.unit.config.reading import read_table

CONFIGS = Path(__file__).parents[3] / "configs"
DEFAULTS = CONFIGS / "agent.toml"
EXAMPLES = sorted(path for path in CONFIGS.glob("*.toml") if path != DEFAULTS)


def _uncommented() -> str:
    """The default file with the lines of the group taken in: ``#key = value``, ``#[[table]]``."""
    return re.sub(r"(?m)^#(?=[a-z_.]+ = |\[)", "", DEFAULTS.read_text())


def _matchers() -> str:
    """The conditions that the default file lists: ``#   key = value   meaning``."""
    listed = re.findall(r"(?m)^#   ([a-z_]+ = (?:\[.*?\]|true|false)) ", DEFAULTS.read_text())
    return "\n".join(listed)


def test_default_file_is_the_default() -> None:
    """Whoever copies it whole changes nothing, and nothing in it is odd."""
    report = check(DEFAULTS)

    assert (Config(), (), ()) == (report.config, report.faults, report.warnings)


def test_groups_of_the_default_file_have_the_defaults() -> None:
    """Taken in, their lines change nothing but what must be given, and the second one's mode."""
    config, said = read_table(Config, _uncommented())

    assert config is not None
    assert said == []
    nics, parents = config.nic.groups
    assert NicGroup(name="fast", match=nics.match) == nics
    assert NicGroup(name="lan", match=parents.match, mode=NicMode.SHARED) == parents
    (modems,) = config.generic
    assert GenericGroup(name="modem", match=modems.match) == modems
    (gpus,) = config.gpu.groups
    assert GpuGroup(name="shared", match=gpus.match) == gpus
    (device,) = config.health.devices
    assert DeviceTimes(name=device.name) == device
    nic, gpu = attrs.evolve(config.nic, groups=()), attrs.evolve(config.gpu, groups=())
    health = attrs.evolve(config.health, devices=())
    assert Config() == attrs.evolve(config, nic=nic, gpu=gpu, generic=(), health=health)


def test_default_file_holds_every_key() -> None:
    """A key that is added to the schema is added there too; the order is that of the schema."""
    document = parse(_uncommented())
    group, parent = document["nic"]["group"]
    document["nic"]["group"] = [{**group, "match": parse(_matchers()), "shared": parent["shared"]}]
    (modem,) = document["generic"]
    beside, mount = {"path": "", "optional": False}, {"host": "", "path": "", "read_only": True}
    document["generic"] = [{**modem, "with": [beside], "mounts": [mount]}]

    assert list(_keys(Config, document)) == list(_schema(Config, ()))


def test_conditions_of_the_default_file_can_be_written() -> None:
    """Each one is an example that works."""
    match, said = read_table(NicMatch, _matchers())

    assert said == []
    assert [key.name for key in keys_of(NicMatch)] == list(parse(str(match).join(("m=", "")))["m"])


def _schema(kind: type[Any], above: tuple[str, ...]) -> Iterator[str]:
    for key in keys_of(kind):
        if isinstance(key.form, Table | Tables):
            yield from _schema(key.form.kind, (*above, key.name))
        else:
            yield ".".join((*above, key.name))


def _keys(kind: type[Any], table: dict[str, Any], above: tuple[str, ...] = ()) -> Iterator[str]:
    forms = {key.name: key.form for key in keys_of(kind)}
    for name, value in table.items():
        form = forms[name]
        if isinstance(form, Table):
            yield from _keys(form.kind, value, (*above, name))
        elif isinstance(form, Tables):
            yield from _keys(form.kind, value[0], (*above, name))
        else:
            yield ".".join((*above, name))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_is_good(path: Path) -> None:
    """It loads without fault or warning, and offers something."""
    report = check(path)

    assert (report.faults, report.warnings) == ((), ())
    assert report.config is not None
    found = report.config
    assert found.nic.groups or found.gpu.groups or found.generic


def test_examples_are_those_that_are_promised() -> None:
    """Nodes with NICs, SR-IOV by either door, a shared parent, GPUs, both, and a lab's devices."""

    nodes = {"nic-node", "sriov-node", "shared-parent-node", "gpu-node", "mixed-node"}
    nodes |= {"generic-node", "sriov-plugin-node"}
    assert nodes <= {path.stem for path in EXAMPLES}
