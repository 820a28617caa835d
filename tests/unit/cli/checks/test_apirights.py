"""What may be done at the API server, and what is on there, against the stand-in's answers."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from berth.cli.checks.apirights import RIGHTS, ask_features, ask_rights, check_rights
from berth.cli.checks.machine import ApiLook, Machine
from berth.config.schema import Config
from berth.errors import KubeError
from berth.kube.api import Identity
from berth.kube.client import Request
from tests.unit.cli.checks.tree import told
from tests.unit.config.reading import read_table

RBAC = Path(__file__).parents[4] / "configs/kubernetes/rbac.yaml"
FIGURES = """\
# HELP kubernetes_feature_enabled [BETA] This metric records the data about the stage and enablement
# TYPE kubernetes_feature_enabled gauge
kubernetes_feature_enabled{name="DRAConsumableCapacity",stage="BETA"} 1
kubernetes_feature_enabled{name="DRADeviceTaints",stage=""} 0
# HELP node_authorizer_graph_actions_duration_seconds [ALPHA] Histogram
"""


class Server:
    """Answers as a server with these rights and figures."""

    def __init__(
        self, *, lacking: tuple[str, ...] = (), figures: str = "", silent: bool = False
    ) -> None:
        self._lacking, self._figures, self._silent = lacking, figures, silent
        self.asked: list[str] = []
        self.read = 0

    async def request(self, request: Request) -> Any:
        """Review an access."""
        if self._silent:
            raise KubeError(request.where, "refused", status=403)
        wanted = request.body["spec"]["resourceAttributes"]
        sub = f"/{wanted['subresource']}" if wanted["subresource"] else ""
        self.asked.append(f"{wanted['verb']} {wanted['resource']}{sub}")
        return {"status": {"allowed": self.asked[-1] not in self._lacking}}

    @asynccontextmanager
    async def stream(
        self, request: Request, *, silence_s: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Give figures, a few at a time."""
        assert silence_s < 8
        if not self._figures:
            raise KubeError(request.where, "forbidden", status=403)
        async with aclosing(self._pieces()) as pieces:
            yield pieces

    async def _pieces(self) -> AsyncGenerator[bytes, None]:
        data = self._figures.encode()
        for start in range(0, len(data), 40):
            self.read += 1
            yield data[start : start + 40]


def identity(kind: str) -> Identity:
    """Whom we are to the server."""
    return Identity(kind=kind, source="/x", server="https://10.0.0.1:6443", node_name="n")


async def test_rights_of_a_service_account() -> None:
    """Each right is asked for once."""

    server = Server(lacking=("get pods",))
    found = await ask_rights(server, identity("token"))  # type: ignore[arg-type]  # answers alike

    assert server.asked == [str(right) for right in RIGHTS]
    assert found == {str(right): str(right) != "get pods" for right in RIGHTS}


async def test_rights_of_kubelet() -> None:
    """A node has the rest by name alone, so nobody could say that it lacks it."""

    server = Server()
    await ask_rights(server, identity("kubelet"))  # type: ignore[arg-type]  # answers alike

    assert server.asked == [
        "create resourceslices",
        "list resourceclaims",
        "watch resourceclaims",
    ]


async def test_rights_that_nobody_tells() -> None:
    """A server that answers no review has lost nothing for us."""

    server = Server(silent=True)

    assert await ask_rights(server, identity("token")) is None  # type: ignore[arg-type]  # answers alike
    assert told(check_rights(Machine(config=Config(), api=ApiLook(rights=None)))) == []
    assert told(check_rights(Machine(config=Config()))) == []


def test_rights_that_are_lacking() -> None:
    """Each is told with its loss and the way to get it; the level is that of the loss."""

    rights = {str(right): True for right in RIGHTS}
    well = Machine(config=Config(), api=ApiLook(rights=rights))
    poor = {**rights, "get resourceclaims": False, "patch resourceclaims/status": False}
    lines = list(check_rights(Machine(config=Config(), api=ApiLook(rights=poor))))

    assert told(check_rights(well)) == [
        ("ok", "these credentials have the rights that were asked for")
    ]
    assert told(lines) == [
        ("fault", "these credentials may not get resourceclaims: no claim is prepared"),
        (
            "warning",
            (
                "these credentials may not patch resourceclaims/status: "
                "claims do not tell how their devices are"
            ),
        ),
    ]
    assert all("rbac.yaml" in line.mend for line in lines)


MODEM = '[[generic]]\nname = "modem"\nmatch.path = ["/dev/ttyUSB*"]\n'
COMMAND = 'bind = { when = "command", command = ["/up"]'


@pytest.mark.parametrize(
    ("text", "lost"),
    [
        ("", ""),
        (MODEM, ""),
        (
            f'{MODEM}skip_node_operations = "unprepare"',
            "skip_node_operations of modem is not in force",
        ),
        (f"{MODEM}{COMMAND} }}", "pods are bound before devices of modem are ready"),
        (f'{MODEM}{COMMAND}, ungated = "leave-out" }}', "devices of modem are not offered"),
    ],
)
def test_right_to_see_claims_is_missed_by_groups_that_need_it(text: str, lost: str) -> None:
    """Who has no such group lacks nothing; the others are told what comes of theirs."""
    config, _ = read_table(Config, text)
    assert config is not None
    rights = {
        str(right): right.resource != "resourceclaims" or right.verb == "get" for right in RIGHTS
    }
    lines = list(check_rights(Machine(config=config, api=ApiLook(rights=rights))))

    assert told(lines) == (
        [("warning", f"these credentials may not list or watch resourceclaims: {lost}")]
        if lost
        else [("ok", "these credentials have the rights that were asked for")]
    )
    assert all("service account" in line.mend for line in lines if lost)


async def test_features_by_the_servers_figures() -> None:
    """Both states are read, and what comes behind them is not waited for."""

    server = Server(figures=FIGURES + "node_authorizer 1\n" * 10_000)
    found = await ask_features(server)  # type: ignore[arg-type]  # answers alike

    assert found == {"DRAConsumableCapacity": True, "DRADeviceTaints": False}
    assert server.read < 20


@pytest.mark.parametrize("figures", ["", "# TYPE x gauge\nx 1\n"])
async def test_features_that_may_not_be_read(figures: str) -> None:
    """A refusal, or figures without them, is no knowledge."""

    assert await ask_features(Server(figures=figures)) is None  # type: ignore[arg-type]  # answers alike


def test_rights_are_those_that_the_shipped_role_grants() -> None:
    """What is asked for is what configs/kubernetes/rbac.yaml gives."""

    text = RBAC.read_text(encoding="utf-8")
    (role,) = (d for d in yaml.safe_load_all(text) if d["kind"] == "ClusterRole")

    assert {str(right) for right in RIGHTS} <= set(_granted(role))


def _granted(role: Any) -> Iterator[str]:
    for rule in role["rules"]:
        for resource in rule["resources"]:
            yield from (f"{verb} {resource}" for verb in rule["verbs"])
