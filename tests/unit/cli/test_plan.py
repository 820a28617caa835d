"""Plans from facts: the steps, the faults that kubelet would show, and made-up allocations."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from berth.cli import plan as plan_command
from berth.cli.factfile import facts_text, save_facts
from tests.unit.cli.conftest import Berth, Ran, golden
from tests.unit.nic.machine import Machine as Host

CONFIG = """\
[node]
name = "worker-7"

[[nic.group]]
name = "fast"
match = { name = ["ens1f0", "ens1f1"] }
claims_may = ["rules"]
defaults = { interface = { mtu = 9000 } }

[[nic.group]]
name = "lan"
match = { name = "bond0" }
mode = "shared"
shared = { slots = 2, bandwidth = "10G" }
"""

Plan = Callable[..., Ran]


@pytest.fixture
def plan(berth: Berth, tmp_path: Path) -> Plan:
    """Plans claims on a machine with two fast NICs, a bond to share, and an uplink."""
    host = Host(tmp_path / "host")
    host.nic("eth0", "0000:01:00.0")
    host.nic("ens1f0", "0000:41:00.0", flags=1, max_mtu=9216, mac="52:54:00:00:41:00")
    host.nic("ens1f1", "0000:41:00.1", altnames=("net1",), max_mtu=9216)
    host.link("bond0", kind="bond", flags=1, max_mtu=65535)
    host.route("0.0.0.0/0", "eth0", via="192.0.2.1")
    save_facts(tmp_path / "facts.json", facts_text(host.scan()))
    (tmp_path / "agent.toml").write_text(CONFIG, encoding="utf-8")

    def run(text: str, *more: str) -> Ran:
        path = tmp_path / "claim.yaml"
        path.write_text(text, encoding="utf-8")
        files = ("--facts", tmp_path / "facts.json", "--config", tmp_path / "agent.toml")
        return berth("plan", path, *files, *more)

    return run


def claim(
    name: str = "net", *, parameters: str = "{}", request: str = "", class_name: str = "nic"
) -> str:
    """A claim for one device, with a configuration."""
    return f"""\
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {{name: {name}}}
spec:
  devices:
    requests:
      - name: nic
        exactly: {{deviceClassName: {class_name}.berth.dev{request}}}
    config:
      - opaque:
          driver: berth.dev
          parameters: {{apiVersion: berth.dev/v1alpha1, kind: NicConfig, {parameters[1:-1]}}}
---
"""


def pod(name: str, *claims: str) -> str:
    """A pod that uses claims of the file."""
    entries = "".join(
        f"\n    - {{name: c{n}, resourceClaimName: {c}}}" for n, c in enumerate(claims)
    )
    return f"""\
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  containers: [{{name: c}}]
  resourceClaims:{entries}
---
"""


MOVED = claim(
    parameters="""{
      interface: {name: net1, hardwareAddr: "02:00:00:00:00:01"},
      addresses: [{address: 192.0.2.10/24}, {address: "fd00::7/64"}],
      routes: [{to: default, via: 192.0.2.1, table: 100, metric: 5},
               {to: 198.51.100.0/24, scope: link}],
      rules: [{priority: 100, from: 192.0.2.10/32, table: 100}],
      neighbors: [{address: 192.0.2.1, hardwareAddr: "02:00:00:00:00:09"}]}"""
)
CHILD = claim(class_name="nic-shared", parameters="{addresses: [{address: 192.0.2.20/24}]}")


def test_plan_of_a_nic_that_is_moved(plan: Plan) -> None:
    """Every step stands with its place and its field, in the order in which it is done."""

    ran = plan(MOVED.replace('hardwareAddr: "02:00:00:00:00:01"', "up: true"))

    assert (ran.code, ran.out) == (0, golden("plan-moved.txt", ran.out))
    assert ran.err == "note: no pod in the file uses net: one is made up\n"


def test_plan_of_a_child(plan: Plan) -> None:
    """A child is made in the pod; its hardware address is said to be made up."""

    ran = plan(CHILD)

    assert (ran.code, ran.out) == (0, golden("plan-child.txt", ran.out))
    assert plan(CHILD).out == ran.out


def test_plan_for_programs(plan: Plan) -> None:
    """JSON holds the same."""

    ran = plan(CHILD, "--json")
    (planned,) = ran.json["claims"]

    assert ran.json["notes"] == ["no pod in the file uses net: one is made up"]
    assert {key: planned[key] for key in ("claim", "pods", "allocated", "faults")} == {
        "claim": "default/net",
        "pods": ["pod-of-net"],
        "allocated": False,
        "faults": [],
    }
    (device,) = planned["devices"]
    assert (device["mode"], device["interface"]) == ("macvlan", "net1")
    assert device["steps"][0]["place"] == "home"
    assert device["steps"][0]["what"].startswith(
        "RTM_NEWLINK macvlan (bridge) net1 made in the pod"
    )


def test_plan_when_the_configuration_has_faults(plan: Plan) -> None:
    """All faults are told at once, as kubelet would show them, and nothing is planned."""

    ran = plan(
        claim(
            parameters="{mtuu: 9, interface: {mtu: 10}, "
            "routes: [{to: 203.0.113.0/24, via: 192.168.7.1}]}"
        )
    )

    assert (ran.code, ran.out) == (1, golden("plan-faults.txt", ran.out))


def test_plan_when_no_device_is_left(plan: Plan) -> None:
    """A third claim for two NICs is refused with the scheduler's reason, those before it not."""

    text = "".join(claim(name) for name in ("a", "b", "c")) + pod("web", "a", "b", "c")
    ran = plan(text, "--json")
    first, second, third = ran.json["claims"]

    assert ran.code == 1
    assert [c["devices"][0]["device"] for c in (first, second)] == [
        "nic-0000-41-00-0",
        "nic-0000-41-00-1",
    ]
    assert [c["devices"][0]["interface"] for c in (first, second)] == ["net1", "net2"]
    assert third["devices"] == []
    assert "cannot be allocated" in third["faults"][0]


def test_plan_when_two_claims_of_a_pod_ask_for_one_name(plan: Plan) -> None:
    """Claims of one pod know of each other."""

    name = "{interface: {name: net7}}"
    text = claim("a", parameters=name) + claim("b", parameters=name) + pod("web", "a", "b")
    first, second = plan(text, "--json").json["claims"]

    assert first["faults"] == []
    assert len(second["faults"]) == 1
    assert "net7" in second["faults"][0]


def test_plan_when_two_pods_use_one_claim(plan: Plan) -> None:
    """A NIC can be in one pod only, and the second pod is told so."""

    (planned,) = plan(claim() + pod("a", "net") + pod("b", "net"), "--json").json["claims"]

    assert planned["pods"] == ["a", "b"]
    assert planned["faults"][0].startswith(
        "claim default/net: is reserved for 2 pods: a, b: a NIC can be in one pod only; "
    )


def test_plan_when_slots_run_out(plan: Plan) -> None:
    """Children share their parent as far as its slots go."""

    text = "".join(claim(name, class_name="nic-shared") for name in ("a", "b", "c"))
    planned = plan(text, "--json").json["claims"]

    assert [bool(c["faults"]) for c in planned] == [False, False, True]
    assert len({c["devices"][0]["steps"][0]["what"] for c in planned[:2]}) == 2


@pytest.mark.parametrize(("group", "code"), [("fast", 0), ("lan", 1)])
def test_plan_by_a_selector(plan: Plan, group: str, code: int) -> None:
    """Selectors choose among what is offered."""

    expression = f'device.attributes["berth.dev"].group == "{group}"'
    request = f", selectors: [{{cel: {{expression: '{expression}'}}}}]"

    assert plan(claim(request=request)).code == code


def test_plan_by_a_selector_that_is_not_understood(plan: Plan) -> None:
    """A selector that cannot be judged is taken as met, and the plan says so."""

    request = ", selectors: [{cel: {expression: 'device.driver.startsWith(\"b\")'}}]"
    ran = plan(claim(request=request))

    assert ran.code == 0
    assert "note: taken as met: " in ran.out


def test_plan_of_a_claim_that_is_allocated(plan: Plan) -> None:
    """An allocation in the manifest is taken as it is."""

    text = claim().replace(
        "---\n",
        """\
status:
  allocation:
    devices:
      results:
        - {request: nic, driver: berth.dev, pool: worker-7/nic, device: nic-0000-41-00-1}
---
""",
    )
    ran = plan(text)

    assert ran.code == 0
    assert "nic-0000-41-00-1 (request" in ran.out
    assert "it has no allocation" not in ran.out
    assert "RTM_DELLINKPROP name net1 off" in ran.out


@pytest.mark.parametrize(
    ("device", "fault"),
    [
        ("nic-0000-01-00-0", "is not offered any more: not-selected"),
        ("nic-0000-99-00-0", "nic-0000-99-00-0 is not seen on this node"),
    ],
)
def test_plan_of_a_device_that_cannot_be_had(plan: Plan, device: str, fault: str) -> None:
    """An allocation that the node would refuse is refused here in the same words."""

    results = f"[{{request: nic, driver: berth.dev, pool: p, device: {device}}}]"
    status = f"status: {{allocation: {{devices: {{results: {results}}}}}}}\n---\n"
    (planned,) = plan(claim().replace("---\n", status), "--json").json["claims"]

    assert fault in planned["faults"][0]


def test_plan_of_admin_access(plan: Plan) -> None:
    """A claim that only looks moves nothing."""

    text, _, _ = claim(request=", adminAccess: true").partition("    config:")
    ran = plan(text)

    assert (ran.code, "only looked at (adminAccess), nothing is moved" in ran.out) == (0, True)


@pytest.mark.parametrize(
    "example", sorted(Path("configs/kubernetes/examples").glob("*.yaml")), ids=lambda p: p.name
)
def test_plan_of_each_example(plan: Plan, example: Path) -> None:
    """The claims that are shipped find devices on a machine that has them."""

    text = example.read_text(encoding="utf-8").replace("speedMbps >= 25000", "speedMbps >= 0")
    ran = plan(text, "--json")

    assert [c["faults"] for c in ran.json["claims"]] == [[]] * len(ran.json["claims"])
    assert ran.json["claims"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "has no ResourceClaim"),
        ("a: [", "is no YAML"),
        ("- 1\n", "is no object of Kubernetes"),
        ("kind: ResourceClaim\n", "has no metadata.name"),
    ],
)
def test_plan_of_what_is_no_manifest(plan: Plan, text: str, found: str) -> None:
    """A file that is none ends with 2."""

    ran = plan(text)

    assert (ran.code, ran.out) == (2, "")
    assert found in ran.err


def test_plan_tells_what_there_was_to_choose_from(plan: Plan, tmp_path: Path) -> None:
    """A claim that finds no device is told how many there are, and why the rest is not offered."""

    config = CONFIG.replace('"ens1f0", "ens1f1"', '"eth0"')
    (tmp_path / "agent.toml").write_text(config, encoding="utf-8")
    ran = plan(claim())

    assert ran.code == 1
    assert (
        "note: NICs offered on the node: 1 of 4; not offered: 2 not-selected, 1 uplink; "
        "`berth devices` tells the reason of each" in ran.out
    )


def test_plan_reads_standard_input(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, berth: Berth
) -> None:
    """``kubectl get -o yaml`` may be planned as it comes, a list of claims too."""

    plan("")
    items = "".join(f"- {text}" for text in (CHILD, claim("other")))
    listed = items.replace("---\n", "").replace("\n", "\n  ").replace("\n  - ", "\n- ")
    path = tmp_path / "list.yaml"
    path.write_text(f"apiVersion: v1\nkind: List\nitems:\n{listed}", encoding="utf-8")
    monkeypatch.setattr(plan_command, "STANDARD_INPUT", path)
    files = ("--facts", tmp_path / "facts.json", "--config", tmp_path / "agent.toml")
    ran = berth("plan", "-", *files, "--json")

    assert ran.code == 0, ran.err
    assert [each["claim"] for each in ran.json["claims"]] == ["default/net", "default/other"]


def test_plan_tells_the_faults_of_all_files(berth: Berth, tmp_path: Path) -> None:
    """Each file that cannot be used is told, not the first alone."""

    config, claims, facts = (tmp_path / name for name in ("a.toml", "c.yaml", "f.json"))
    config.write_text("[nri]\ntimeout_s = 0\n[nic]\nbogus = 1\n", encoding="utf-8")
    facts.write_text("{}", encoding="utf-8")
    ran = berth("plan", claims, "--config", config, "--facts", facts)

    assert (ran.code, ran.out) == (2, "")
    places = [f"{config}:2", f"{config}:4", f"{claims}: cannot be read", f"{facts}: has schema"]
    lines = ran.err.splitlines()
    assert [place in line for place, line in zip(places, lines, strict=True)] == [True] * 4


def test_plan_when_the_configuration_is_refused(plan: Plan, tmp_path: Path) -> None:
    """Without a good configuration there is no plan; its faults are told."""

    (tmp_path / "agent.toml").write_text("[nri]\ntimeout_s = -3\nx = 1\n", encoding="utf-8")
    ran = plan(claim())

    assert ran.code == 2
    assert [line.partition(": ")[2][:20] for line in ran.err.splitlines()[:1]]
    assert len(ran.err.splitlines()) == 2


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("exactly: {", "exactly: 7\n#", "cannot unmarshal int into field"),
        ("deviceClassName: nic.berth.dev", "deviceClassName: [1]", "exactly.deviceClassName"),
        ("deviceClassName: nic.berth.dev", "count: 1", "has no deviceClassName"),
        ("exactly: {", "firstAvailable: 3\n#", "firstAvailable"),
        ("- name: nic\n", "- {}\n      - name: nic\n", "requests[0]: has no name"),
        ("name: net}", "name: net, namespace: 7}", "metadata.namespace"),
        ("    config:", "    config: 3\n---\nx:", "config"),
    ],
)
def test_plan_of_fields_that_no_server_takes(plan: Plan, old: str, new: str, found: str) -> None:
    """A field of another type, or one that is missing, is refused by its place."""

    ran = plan(claim().replace(old, new, 1))

    assert (ran.code, ran.out) == (2, "")
    assert found in ran.err
    assert ": document 1: " in ran.err


def test_plan_of_odd_pods(plan: Plan) -> None:
    """Pods are looked at as far as their claims go."""

    ran = plan(claim() + pod("web", "net").replace("resourceClaims:", "resourceClaims: 7\n  x:"))

    assert (ran.code, "document 2: " in ran.err) == (2, True)


def test_plan_of_a_field_that_is_not_known(plan: Plan) -> None:
    """A field that a newer server may know is a note."""

    ran = plan(claim(request=", newField: 1"))

    assert ran.code == 0
    assert "requests[0].exactly.newField is not known here" in ran.err


def test_plan_of_an_allocation_that_no_server_made(plan: Plan) -> None:
    """What is no quantity is refused as what it is."""

    results = (
        "[{request: nic, driver: berth.dev, pool: p, device: nic-lan-bond0, "
        "consumedCapacity: {slots: many}}]"
    )
    status = f"status: {{allocation: {{devices: {{results: {results}}}}}}}\n---\n"
    ran = plan(claim().replace("---\n", status))

    assert ran.code == 1
    assert "slots is 'many': it must be a quantity" in ran.out


def test_plan_of_a_device_node(berth: Berth, tmp_path: Path) -> None:
    """What containers would get; the machine's own nodes are looked at."""

    config = tmp_path / "agent.toml"
    config.write_text(
        '[[generic]]\nname = "null"\nmatch = { path = "/dev/null" }\nrename = "/dev/nothing"\n'
    )
    path = tmp_path / "claim.yaml"
    path.write_text(claim(class_name="generic").partition("    config:")[0])

    ran = berth("plan", path, "--config", config)

    assert ran.code == 0
    assert 'null-null (request "nic"): stays where it is' in ran.out
    assert "    node /dev/nothing (rw), which is /dev/null here" in ran.out.splitlines()


def test_plan_of_a_function_for_a_machine(plan: Plan, tmp_path: Path) -> None:
    """What is bound, and by which nodes it comes in; it has no interface."""

    host = Host(tmp_path / "machines")
    host.tree.function("0000:41:00.0", iommu_group=7)
    host.nic("ens1f0", "0000:41:00.0")
    save_facts(tmp_path / "facts.json", facts_text(host.scan()))
    group = '[[nic.group]]\nname = "vm"\nmatch.name = "ens1f0"\nmode = "vfio"\n'
    (tmp_path / "agent.toml").write_text(f'[node]\nname = "w"\n{group}', encoding="utf-8")

    ran = plan(claim(class_name="nic-vfio", parameters="{vfio: {vhost: true}}"), "--json")

    (device,) = ran.json["claims"][0]["devices"]
    assert (ran.code, device["mode"], device["interface"]) == (0, "give", "")
    assert device["gifts"] == [
        "0000:41:00.0 bound to vfio-pci",
        *(f"node /dev/{name}" for name in ("vhost-net", "net/tun", "vfio/vfio", "vfio/7")),
    ]
