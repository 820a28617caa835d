"""Which Node this is."""

import pytest

from berth.dra.nodename import choose_node
from berth.errors import KubeError
from berth.kube.api import Identity


def identity(node: str) -> Identity:
    """Give an identity that names a node, or none."""
    return Identity(
        kind="kubelet", source="/etc/kubelet.conf", server="https://api", node_name=node
    )


@pytest.mark.parametrize(
    ("configured", "certified", "name", "source"),
    [
        ("worker-7.lab", "", "worker-7.lab", "[node] name"),
        ("worker-7.lab", "worker-7.lab", "worker-7.lab", "[node] name"),
        ("", "worker-7.lab", "worker-7.lab", "the credentials in /etc/kubelet.conf"),
        ("", "", "ip-10-0-130-70", "the host name"),
        ("other", "worker-7.lab", "", ""),
    ],
)
def test_choose_node_takes_the_best_witness(
    configured: str, certified: str, name: str, source: str
) -> None:
    """Configured, then certified, then the host name in lower case; a contradiction is no name."""

    choice = choose_node(
        configured=configured, identity=identity(certified), host_name="IP-10-0-130-70"
    )

    assert (choice.name, choice.source) == (name, source)
    assert bool(choice.conflict) is not bool(name)


@pytest.mark.parametrize("status", [0, 403, 404])
def test_missing_names_the_node_and_where_the_name_comes_from(status: int) -> None:
    """Whatever the server said, the operator reads which name and whence."""

    choice = choose_node(configured="a", identity=identity(""), host_name="b")
    text = choice.missing(KubeError("node a", "no", status=status))

    assert "'a'" in text
    assert ("'b'" in text) is (status == 404)
