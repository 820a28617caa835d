"""What the operator is told of the node: its state as answers that can be sent as JSON.

One function per verb of the control socket, over plain values: nothing here looks at the machine,
and the daemon hands in what its parts tell of themselves. The form of the answers is a contract
(docs/reference/control.md): keys are added, never renamed or taken away.
"""

from berth.node.views.devices import devices_view
from berth.node.views.features import features_view
from berth.node.views.health import health_view, verdict_entry
from berth.node.views.holds import holds_view
from berth.node.views.layout import Layout, addresses
from berth.node.views.nodes import nodes_view
from berth.node.views.reload import reload_view
from berth.node.views.status import GpuSession, Kubelet, ResourceState, Status, status_view
from berth.node.views.topology import topology_view
from berth.node.views.troubles import Trouble, Troubles
from berth.node.views.users import as_used
from berth.node.views.why import Knowledge, why_view

__all__ = [
    "GpuSession",
    "Knowledge",
    "Kubelet",
    "Layout",
    "ResourceState",
    "Status",
    "Trouble",
    "Troubles",
    "addresses",
    "as_used",
    "devices_view",
    "features_view",
    "health_view",
    "holds_view",
    "nodes_view",
    "reload_view",
    "status_view",
    "topology_view",
    "verdict_entry",
    "why_view",
]
