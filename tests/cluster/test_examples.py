"""The shipped examples of claims, applied by kubectl as a user would."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import attrs
import pytest
import yaml

from tests.cluster.images import BUSYBOX
from tests.cluster.pods import is_running
from tests.cluster.site import LAB, MANIFESTS, PodView, Site, device

EXAMPLES = MANIFESTS / "examples"
LAN = """
[[nic.group]]
name = "lan"
match = { name = ["nic9"] }
mode = "shared"
shared = { slots = 8, children = ["macvlan"], bandwidth = "10G" }
"""


@attrs.frozen(kw_only=True)
class Expected:
    """What an example comes to.

    Attributes:
        pods: How many.
        links: What each has besides its own network.
        kind: Of its links.
        unmet: Part of the claim that NICs without PCI cannot meet.
    """

    pods: int = 1
    links: tuple[str, ...] = ("net1",)
    kind: str = "veth"
    unmet: str = ""


EXPECTED = {
    "claim-by-name": Expected(),
    "claim-template": Expected(pods=2),
    # No NIC here has 25 Gbit/s, so it is the second choice.
    "prioritized-list": Expected(kind="macvlan"),
    "shared-parent": Expected(pods=2, kind="macvlan"),
    "two-nics": Expected(links=("inside0", "outside0"), unmet="constraints"),
}


def test_every_example_is_tried() -> None:
    """None is shipped untried."""

    assert {path.stem for path in EXAMPLES.glob("*.yaml")} == EXPECTED.keys()


@pytest.mark.parametrize("name", EXPECTED)
def test_example_runs_as_it_is_shipped(site: Site, name: str) -> None:
    """Applied with another image and placed on the node, each pod has what the example says."""

    expected = EXPECTED[name]
    site.open(
        LAB + LAN,
        nics=["nic0", "nic1", "nic9"],
        offers=[device("nic0"), device("nic1"), device("nic9", "lan")],
    )
    documents = [*yaml.safe_load_all((EXAMPLES / f"{name}.yaml").read_text())]
    for each in documents:
        _adapt(each, site.node.name)
        if expected.unmet and each["kind"] == "ResourceClaim":
            del each["spec"]["devices"][expected.unmet]

    with _applied(site, yaml.safe_dump_all(documents)):
        pods = _wait_pods(site, expected.pods)

        assert [pod.links() for pod in pods] == [{"lo", "eth0", *expected.links}] * expected.pods
        kinds = {pod.link(each)["linkinfo"]["info_kind"] for pod in pods for each in expected.links}
        assert kinds == {expected.kind}


@contextlib.contextmanager
def _applied(site: Site, text: str) -> Iterator[None]:
    where = ("-n", site.namespace, "-f", "-")
    site.cluster.kubectl("apply", *where, given=text)
    try:
        yield
    finally:
        # A Deployment would make its pods again and again.
        site.cluster.kubectl("delete", *where, "--grace-period=1", given=text)


def _adapt(document: dict[str, Any], node: str) -> None:
    """Give pods the bed's image, the node under test, and a quick end."""
    spec = document.get("spec", {})
    for pod in (spec, spec.get("template", {}).get("spec", {})):
        for container in pod.get("containers", ()):
            container.update(image=BUSYBOX, imagePullPolicy="Never")
            pod["nodeSelector"] = {"kubernetes.io/hostname": node}
            pod["terminationGracePeriodSeconds"] = 1


def _wait_pods(site: Site, count: int) -> list[PodView]:
    pods = f"/api/v1/namespaces/{site.namespace}/pods"
    made = site.api.wait_all(pods, lambda now: len(now) == count, what=f"{count} pods")
    for each in made.values():
        site.cluster.wait_running(each)
    assert all(is_running(PodView(site, each).now) for each in made)
    return [PodView(site, each) for each in made]
