"""What groups may say of the cost of their devices to the node."""

from __future__ import annotations

from pathlib import Path

import pytest

from berth.config.generic import GenericGroup
from berth.config.nodecost import COSTS
from berth.model.nodecost import NodeCost
from tests.unit.config.reading import check_text, faults, read_table, read_value

GENERIC = 'name = "g"\nmatch.path = "/dev/zero"\n'


def test_costs_are_read_in_thousandths() -> None:
    """Of a CPU, of a byte, of a page's bytes."""

    text = f"""{GENERIC}count = 2
        node_cost.cpu = {{ pod = "500m", container = "2" }}
        node_cost.memory = {{ capacity = "slots", times = "1500m" }}
        node_cost."hugepages-2Mi" = {{ device = "64Mi" }}
    """
    group, said = read_table(GenericGroup, text)

    assert said == []
    assert group is not None
    assert group.node_cost == {
        "cpu": NodeCost(pod_milli=500, container_milli=2000),
        "memory": NodeCost(capacity="slots", times_milli=1500),
        "hugepages-2Mi": NodeCost(device_milli=64 * 2**20 * 1000),
    }


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("much", "it must be a table such as"),
        ({"pods": {"pod": "1"}}, "is no resource of a node"),
        ({"nvidia.com/gpu": {"pod": "1"}}, "is no resource of a node"),
        # The server of 1.37 takes no slice with it.
        ({"ephemeral-storage": {"pod": "1Gi"}}, "is no resource of a node"),
        ({"cpu": {}}, "costs nothing"),
        ({"cpu": {"pod": "0"}}, "an amount above zero"),
        ({"cpu": {"pod": "-1"}}, "an amount above zero"),
        ({"cpu": {"pod": "999999999Ti"}}, "an amount above zero"),
        ({"cpu": {"pod": 1}}, 'write "1", in quotes'),
        ({"cpu": {"capacity": "slots"}}, "lacks times"),
        ({"cpu": {"times": "1"}}, "lacks capacity"),
        ({"cpu": {"device": "1", "capacity": "slots", "times": "1"}}, "one of the two ways"),
        ({"cpu": {"node": "1"}}, "is unknown"),
        ({"hugepages-2M": {"pod": "2Mi"}}, "such as hugepages-2Mi"),
        ({"hugepages-2Mi": {"pod": "3Mi"}}, "is no whole number of pages: a page has 2Mi"),
        ({"hugepages-1Gi": {"device": "512Mi"}}, "is no whole number of pages: a page has 1Gi"),
        ({"hugepages-3Mi": {"device": "3Mi"}}, "is no size of a huge page: it is a power of two"),
        ({"hugepages-2048Ki": {"device": "2Mi"}}, "in its largest unit, such as hugepages-2Mi"),
        ({"hugepages-2Mi": {"device": "2097152000m"}}, 'is "2097152000m": bytes are whole'),
        ({"memory": {"device": "100m"}}, 'is "100m": bytes are whole, such as "1048576" or "64Mi"'),
        ({"memory": {"container": "100m"}}, 'is "100m": bytes are whole'),
        ({"cpu": {"pod": "1G"}}, 'is "1G": CPUs are whole or thousandths, such as "2" or "500m"'),
        ({"cpu": {"container": "1Ki"}}, 'is "1Ki": CPUs are whole or thousandths'),
    ],
)
def test_cost_that_says_nothing_sound_is_refused(table: object, said: str) -> None:
    """With what is allowed."""

    _, found = read_value(COSTS, table)

    assert any(said in each for each in found)


def test_amount_that_is_none_is_one_fault() -> None:
    """Its unit is no second one."""

    _, said = read_value(COSTS, {"memory": {"device": "0m"}})

    assert len(said) == 1


@pytest.mark.parametrize("page", ["64Ki", "2Mi", "32Mi", "512Mi", "1Gi", "16Gi"])
def test_sizes_of_pages_that_kernels_have_are_read(page: str) -> None:
    """Of x86, of ARM with each base page, of POWER."""

    _, said = read_value(COSTS, {f"hugepages-{page}": {"device": page}})

    assert said == []


def test_amount_of_bytes_may_be_written_out() -> None:
    """A GiB has ten digits."""

    group, said = read_table(GenericGroup, f'{GENERIC}node_cost.memory.device = "1073741824"')

    assert said == []
    assert group is not None
    assert group.node_cost == {"memory": NodeCost(device_milli=2**30 * 1000)}


def test_capacity_without_times_is_one_fault() -> None:
    """It says what is lacking, and not that nothing is there."""

    _, said = read_value(COSTS, {"cpu": {"capacity": "slots"}})

    assert len(said) == 1


@pytest.mark.parametrize(
    ("group", "allowed"),
    [
        (f"[[generic]]\n{GENERIC}", "none: one claim has a device alone"),
        (f"[[generic]]\n{GENERIC}count = 2\n", "slots"),
        ('[[gpu.group]]\nname = "g"\nmatch.type = ["gpu"]\nshare.slots = 2\n', "slots or memory"),
        ('[[gpu.group]]\nname = "g"\nmatch.type = ["gpu"]\n', "none: one claim has"),
        ('[[nic.group]]\nname = "g"\nmatch.name = ["a"]\n', "none: one claim has"),
        ('[[nic.group]]\nname = "g"\nmatch.name = ["a"]\nmode = "shared"\n', "slots"),
    ],
)
def test_capacity_that_no_claim_consumes_is_refused(
    tmp_path: Path, group: str, allowed: str
) -> None:
    """The scheduler would fail every pod, or count nothing."""

    text = f'{group}node_cost.memory = {{ capacity = "bandwidth", times = "1" }}\n'
    (fault,) = faults(check_text(tmp_path, text))

    assert "node_cost" in fault
    assert f'is "bandwidth": what claims consume some of is {allowed}' in fault


@pytest.mark.parametrize(
    "group",
    [
        f"[[generic]]\n{GENERIC}",
        '[[gpu.group]]\nname = "g"\nmatch.type = ["gpu"]\n',
        '[[nic.group]]\nname = "g"\nmatch.name = ["a"]\n',
    ],
)
def test_cost_that_nobody_counts_is_warned_of(tmp_path: Path, group: str) -> None:
    """A resource is no claim."""

    report = check_text(tmp_path, f'{group}door = "plugin"\nnode_cost.cpu.pod = "1"\n')

    assert any('node_cost is not used with door "plugin"' in each for each in report.warnings)
