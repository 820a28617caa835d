"""Credentials for the API server, and the name of this node.

Source: cluster.md; cases.md 9.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from berth.cli.apiaccess import Access, find_access
from berth.cli.checks.line import Level, Line
from berth.cli.checks.machine import Machine
from berth.dra.nodename import choose_node
from berth.errors import BerthError

TOPIC: Final = "API server"


def check_credentials(machine: Machine) -> Iterator[Line]:
    """Whether there are credentials, whose they are, and which node they make this."""
    try:
        access = find_access(machine.credentials)
    except BerthError as error:
        rule = f": {error.rule}" if error.rule else ""
        where = "" if error.where == "credentials" else f"{error.where}: "
        yield Line(
            topic=TOPIC,
            level=Level.FAULT if machine.config.dra.enabled else Level.NOTE,
            text=f"{where}{error.found}{rule}",
            mend=error.mend,
        )
        return
    kind, path = access.choice.kind, access.choice.path
    yield Line(topic=TOPIC, level=Level.OK, text=f"{access.server}, by {path} ({kind})")
    if kind == "kubelet":
        yield Line(
            topic=TOPIC,
            level=Level.NOTE,
            text="with kubelet's own credentials slices and claims work; claim status is not "
            "written, since nodes have no right to",
            mend="a service account has it: configs/kubernetes/rbac.yaml",
        )
    yield _node(machine, access)


def _node(machine: Machine, access: Access) -> Line:
    choice = choose_node(
        configured=machine.config.node.name,
        identity=access.identity,
        host_name=machine.host_name,
    )
    if choice.conflict:
        return Line(topic=TOPIC, level=Level.FAULT, text=choice.conflict)
    text = f"this is node {choice.name}, a name taken from {choice.source}"
    return Line(topic=TOPIC, level=Level.OK, text=text)
