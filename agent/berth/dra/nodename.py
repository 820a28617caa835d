"""Which Node object this machine is: decided from three sources, then checked against the server.

A slice for a node that is not this one draws pods to devices that do not exist. So where two
sources contradict each other, or the server has no such Node, nothing is published at all.

Source: cases.md 9; kubelet takes the host name in lower case unless told otherwise
(``pkg/util/node/node.go``).
"""

from __future__ import annotations

import attrs

from berth.errors import KubeError
from berth.kube.api import Identity


@attrs.frozen(kw_only=True)
class NodeChoice:
    """The name to go by, and what is known besides, for messages.

    Attributes:
        name: Empty when nothing may be published.
        source: Where the name comes from, as words in a sentence.
        host_name: The machine's own name.
        conflict: Why there is no name; empty when there is one.
    """

    name: str
    source: str = ""
    host_name: str = ""
    conflict: str = ""

    def missing(self, error: KubeError) -> str:
        """What to say when the server does not give the Node object of this name."""
        if error.status == 404:
            other = "" if self.host_name == self.name else f", the host name is {self.host_name!r}"
            return (
                f"there is no Node {self.name!r}, a name taken from {self.source}{other}: nothing "
                "is published until there is; set [node] name if another is right"
            )
        if error.status == 403:
            return (
                f"the credentials may not read Node {self.name!r}, a name taken from "
                f"{self.source}: {error}; nothing is published until they may"
            )
        return f"cannot check Node {self.name!r}: {error}"


def choose_node(*, configured: str, identity: Identity, host_name: str) -> NodeChoice:
    """Decide which Node this is.

    Args:
        configured: ``[node] name``, may be empty.
        identity: Whom we are to the server: kubelet's own credentials name their node.
        host_name: What the kernel says.
    """
    host_name = host_name.lower()
    certified = identity.node_name
    if configured and certified and configured != certified:
        return NodeChoice(
            name="",
            host_name=host_name,
            conflict=f"[node] name is {configured!r}, but the credentials in {identity.source} "
            f"belong to node {certified!r}: nothing is published; mend or drop [node] name",
        )
    if configured:
        return NodeChoice(name=configured, source="[node] name", host_name=host_name)
    if certified:
        source = f"the credentials in {identity.source}"
        return NodeChoice(name=certified, source=source, host_name=host_name)
    return NodeChoice(name=host_name, source="the host name", host_name=host_name)
