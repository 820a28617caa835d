"""Every feature of dynamic resource allocation that concerns a node's driver, in one table.

Capacities in steps of less than one (``DRAFractionalCapacityRange``) are not in it: what berth
offers comes in whole units.

Source: ``pkg/features/kube_features.go`` of 1.37.2, whose table of versions covers all columns (KC
§9.10); which of kubelet's parts ask for a gate: ``pkg/kubelet`` of the same.
"""

from __future__ import annotations

from typing import Final

from berth.features.feature import Feature, Part, Stage, since

_ALPHA: Final = Stage.ALPHA_OFF
_BETA: Final = Stage.BETA_ON
_STABLE: Final = Stage.STABLE
_BOTH: Final = (Part.SERVER, Part.KUBELET)

FEATURES: Final = (
    Feature(
        key="optional-node-operations",
        title="Devices for which kubelet does not call the driver",
        gate="DRAOptionalNodeOperations",
        stages=since(v1_37=_ALPHA),
        parts=_BOTH,
        config="[[generic]] skip_node_operations",
        cost="kubelet knows no CDI devices, no metadata and no health of such a device, and "
        "PodResources names the claim without it; berth watches all claims of the cluster, which "
        "kubelet's own credentials may not",
        proof=("skipNodeOperations",),
        declared=True,
        test="test_skip.py::test_pods_start_and_end_while_the_daemon_is_away",
    ),
    Feature(
        key="consumable-capacity",
        title="Devices that several claims share, each with its part of a capacity",
        gate="DRAConsumableCapacity",
        stages=since(v1_34=_ALPHA, v1_36=_BETA),
        proof=("allowMultipleAllocations", "requestPolicy"),
        test="test_shared_parent.py::test_claim_waits_until_the_parent_has_bandwidth_for_it",
    ),
    Feature(
        key="partitionable-devices",
        title="Devices that draw on common counters: parts of a GPU, forms of one function",
        gate="DRAPartitionableDevices",
        stages=since(v1_34=_ALPHA, v1_36=_BETA),
        proof=("consumesCounters", "sharedCounters"),
        test="test_gpus.py::test_parts_draw_on_the_counters_of_their_whole",
    ),
    Feature(
        key="partition-type",
        title="Slices that name the attribute which tells what part of its whole a device is",
        gate="DRAPartitionableDevicesType",
        stages=since(v1_37=_ALPHA),
        config="[gpu] partition_type",
        cost="nothing on the node; it is read by requests for the status of a pool alone",
        proof=("partitionTypeAttribute",),
        test="test_partitions.py::test_status_of_the_pools_is_what_the_node_knows",
    ),
    Feature(
        key="compatibility-groups",
        title="Devices that may be allocated beside each other only within a group",
        gate="DRADeviceCompatibilityGroups",
        stages=since(v1_37=_ALPHA),
        config="[gpu] compatibility_groups",
        cost="a scheduler whose gate is off takes no device of a pool whose slices have groups",
        proof=("compatibilityGroups",),
        test="test_partitions.py::"
        "test_parts_are_given_beside_each_other_with_and_without_the_gates",
    ),
    Feature(
        key="prioritized-list",
        title="Requests with a first, a second and further choices",
        gate="DRAPrioritizedList",
        stages=since(v1_34=_BETA, v1_36=_STABLE),
        test="test_choices.py::test_second_choice_is_named_everywhere_when_the_first_is_taken",
    ),
    Feature(
        key="admin-access",
        title="Claims of administrators to devices that others hold",
        gate="DRAAdminAccess",
        stages=since(v1_34=_BETA, v1_36=_STABLE),
        test="test_onlookers.py::test_onlooker_reads_of_a_nic_and_leaves_it_where_it_is",
    ),
    Feature(
        key="device-taints",
        title="Taints in slices, which keep pods from a device or end them",
        gate="DRADeviceTaints",
        stages=since(v1_34=_ALPHA, v1_36=_BETA, v1_37=_STABLE),
        proof=("taints",),
        test="test_taints.py::test_taints_outlast_a_restart_and_other_hands",
    ),
    Feature(
        key="device-taint-rules",
        title="Taints of devices by a rule of an administrator",
        gate="DRADeviceTaintRules",
        stages=since(v1_35=_ALPHA, v1_36=Stage.BETA_OFF, v1_37=_STABLE),
        test="test_taints.py::test_rule_of_the_cluster_ends_pods_when_their_time_is_over",
    ),
    Feature(
        key="binding-conditions",
        title="Pods that are bound only once their device says that it is ready",
        gate="DRADeviceBindingConditions",
        stages=since(v1_34=_ALPHA, v1_36=_BETA),
        config="bind of a group",
        proof=("bindingConditions", "bindingFailureConditions", "bindsToNode"),
        test="test_binding.py::test_pod_is_bound_when_its_nic_has_carrier",
    ),
    Feature(
        key="list-attributes",
        title="Attributes with several values, such as all near NUMA nodes",
        gate="DRAListTypeAttributes",
        stages=since(v1_36=_ALPHA),
        config="[dra] lists",
        cost="selectors that compare such an attribute with one value do not find a list; "
        "a server whose gate is off refuses lists, and single values are published",
        proof=("ints", "bools", "strings", "versions"),
        test="test_alignment.py::test_lists_align_by_what_they_have_in_common",
    ),
    Feature(
        key="derived-attributes",
        title="Attributes that a claim makes of others, to match devices by",
        gate="DRADerivedAttributes",
        stages=since(v1_37=_ALPHA),
        cost="nothing on the node; only claims speak of them",
        test="test_alignment.py::test_derived_attribute_aligns_by_what_a_claim_makes_of_others",
    ),
    Feature(
        key="node-allocatable-resources",
        title="CPU, memory or huge pages of the node that a device costs",
        gate="DRANodeAllocatableResources",
        stages=since(v1_36=_ALPHA),
        parts=_BOTH,
        config="node_cost of a group",
        cost="1.36 has the fields in another shape and drops these; a claim whose device takes "
        "from the node by a mapping serves one pod alone",
        proof=("nodeAllocatableResources",),
        declared=True,
        test="test_node_costs.py::test_node_has_less_room_while_a_pod_has_the_device",
    ),
    Feature(
        key="extended-resource",
        title="Pods that ask for a device by `resources.limits` and are served by a claim",
        gate="DRAExtendedResource",
        stages=since(v1_34=_ALPHA, v1_36=_BETA, v1_37=_STABLE),
        parts=_BOTH,
        test="test_extended.py::test_pod_of_the_old_style_is_served_by_a_claim",
    ),
    Feature(
        key="pool-status",
        title="Requests for a summary of a pool: how much of it is free",
        gate="DRAResourcePoolStatus",
        stages=since(v1_36=_ALPHA),
        cost="nothing on the node; a controller of the cluster reads all slices for each request",
        test="test_partitions.py::test_status_of_the_pools_is_what_the_node_knows",
    ),
    Feature(
        key="workload-claims",
        title="Claims of a group of pods",
        gate="DRAWorkloadResourceClaims",
        stages=since(v1_36=_ALPHA, v1_37=Stage.BETA_OFF),
        parts=_BOTH,
        cost="needs `GenericWorkload` in every part of the cluster",
        test="test_sharing.py::test_claim_of_a_pod_group_serves_all_its_pods",
    ),
    Feature(
        key="device-status",
        title="What a driver tells of a device in its claim's status",
        gate="DRAResourceClaimDeviceStatus",
        stages=since(v1_34=_BETA, v1_37=_STABLE),
        test="test_credentials.py::test_service_account_tells_the_nic_in_the_claims_status",
    ),
    Feature(
        key="granular-status-authorization",
        title="A right of its own for each driver and node to write a claim's status",
        gate="DRAResourceClaimGranularStatusAuthorization",
        stages=since(v1_36=_BETA),
        test="test_credentials.py::test_status_without_the_narrow_verbs_is_given_up_once",
    ),
    Feature(
        key="resource-health",
        title="The health of its devices in a pod's status",
        gate="ResourceHealthStatus",
        stages=since(v1_34=_ALPHA, v1_36=_BETA),
        parts=_BOTH,
        test="test_health.py::test_status_of_a_pod_follows_its_device",
    ),
    Feature(
        key="pod-resources-get",
        title="Kubelet's answer for one pod: which devices it has",
        gate="KubeletPodResourcesGet",
        stages=since(v1_34=_BETA, v1_36=_STABLE),
        parts=(Part.KUBELET,),
        test="test_nic_resources.py::test_pod_that_asks_by_its_limits_gets_its_nic_and_gives_it_back",
    ),
    Feature(
        key="pods-api",
        title="Kubelet's answer for one pod: which claims it has",
        gate="PodsAPI",
        stages=since(v1_36=_ALPHA, v1_37=_BETA),
        parts=(Part.KUBELET,),
        test="test_pod_groups.py::test_without_kubelets_word_the_api_server_tells",
    ),
    Feature(
        key="pod-level-managers",
        title="Pods whose CPUs and memory kubelet sets apart as a whole, and tells so",
        gate="PodLevelResourceManagers",
        stages=since(v1_36=_ALPHA, v1_37=Stage.BETA_OFF),
        parts=(Part.KUBELET,),
        cost="nothing: only kubelet's static managers of CPUs and memory do anything by it",
        test="test_topology.py::test_pod_that_kubelet_manages_as_a_whole",
    ),
)
"""The table, in the order in which it is told. Whoever writes the test of a row names it here."""

PROOFS: Final = frozenset(field for feature in FEATURES for field in feature.proof)
"""Every field that shows a feature."""

BY_KEY: Final = {feature.key: feature for feature in FEATURES}
"""The same, by key."""
