"""Every family of figures: its name, its labels, what it says.

The one source: whoever fills the page, the reference page and the test against the specification
go by this table.

Source: gpu-and-health.md §7; KC §5.5 for those that begin with ``dra_metadata``.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

import attrs


class Kind(Enum):
    """What sort of figure it is, in the words of the text format."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@attrs.frozen(kw_only=True)
class Family:
    """One family.

    Attributes:
        labels: What its series are told apart by, in this order.
        help: What it says, in one sentence or more.
    """

    name: str
    kind: Kind
    labels: tuple[str, ...]
    help: str


def _counter(name: str, labels: str, meaning: str) -> Family:
    return Family(name=name, kind=Kind.COUNTER, labels=tuple(labels.split()), help=meaning)


def _gauge(name: str, labels: str, meaning: str) -> Family:
    return Family(name=name, kind=Kind.GAUGE, labels=tuple(labels.split()), help=meaning)


def _histogram(name: str, labels: str, meaning: str) -> Family:
    return Family(name=name, kind=Kind.HISTOGRAM, labels=tuple(labels.split()), help=meaning)


_DAEMON: Final = (
    _gauge("berth_build_info", "version python", "1; which berthd runs, and on which Python."),
    _gauge("berth_config_info", "hash", "1; the beginning of the SHA-256 of the file in force."),
    _counter("berth_config_reloads_total", "result", "Reloads: `taken` or `refused`."),
    _gauge(
        "berth_component_up",
        "component",
        "Whether it works now, its peer included: `dra`, `plugin` (kubelet has taken every "
        "resource), `nri`, `api`, `udev`, `nvml`, `monitors`.",
    ),
    _counter(
        "berth_component_restarts_total",
        "component",
        "How often it was begun anew after it failed or lost its peer.",
    ),
    _gauge("berth_ready", "", "1 from the end of the start until the stop begins."),
    _gauge("berth_start_time_seconds", "", "When the daemon started, in seconds since 1970."),
    _histogram(
        "berth_event_loop_lag_seconds",
        "",
        "How much later than asked the daemon's loop runs a task; looked at every 5 s.",
    ),
)

_DEVICES: Final = (
    _gauge(
        "berth_devices",
        "kind door status",
        "Devices that are offered: by door (`dra`, `plugin`, `both`) and verdict (`healthy`, "
        "`unhealthy`, `unknown`).",
    ),
    _gauge(
        "berth_device_info",
        "device kind group door pci",
        "1 for each device that is offered or held; `device` is its name in slices.",
    ),
    _gauge("berth_device_excluded", "kind reason", "Devices that are not offered, and why."),
    _gauge(
        "berth_device_health",
        "device kind",
        "The verdict on each device that is offered or held: 1 healthy, 0 unhealthy, -1 unknown.",
    ),
    _gauge(
        "berth_device_causes",
        "device severity",
        "What speaks against it or its whole, healing or not: `degraded`, `fault`, `lost`.",
    ),
    _counter(
        "berth_device_health_changes_total", "device to", "Changes of its verdict, and to which."
    ),
    _histogram(
        "berth_health_publish_seconds",
        "sink",
        "From a change of a verdict to the first message that tells it: in the device plugin's "
        "`list`, on a health `stream`, as a taint in a `slice`, in the status of a `claim`.",
    ),
    _gauge("berth_health_streams", "version", "Health streams that kubelet has open."),
    _histogram("berth_probe_seconds", "kind", "How long probes take that return."),
    _counter("berth_probe_timeouts_total", "kind", "Probes that did not return in time."),
    _gauge("berth_probes_stuck", "kind", "Probes that are out past their deadline."),
    _counter(
        "berth_gpu_xid_total",
        "device xid class",
        "XIDs of NVIDIA's driver: `application`, `degraded`, `fault`, `confirm`.",
    ),
    _counter(
        "berth_gpu_ecc_errors_total",
        "device type",
        "Events of memory errors that the driver told: `corrected` or `uncorrected`.",
    ),
    _gauge(
        "berth_gpu_recovery_action",
        "device",
        "What the driver says is needed: 0 nothing, 1 a reset, 2 a reboot, more by NVML.",
    ),
    _gauge("berth_gpu_rows_remap_pending", "device", "Whether rows wait to be remapped."),
)

_NVML: Final = (
    _gauge("berth_nvml_session", "state", "1; how the session with NVIDIA's library is."),
    _counter(
        "berth_nvml_calls_total",
        "call result",
        "Calls of NVIDIA's library: `ok`, `refused`, `failed`; `unanswered` are callers that "
        "went on without an answer.",
    ),
    _histogram("berth_nvml_call_seconds", "call", "How long calls of NVIDIA's library take."),
    _counter("berth_nvml_events_dropped_total", "", "Events of GPUs that nobody could be told."),
)

_HOLDS: Final = (
    _gauge("berth_holds", "door", "Devices, or shares of them, that somebody holds, by door."),
    _counter(
        "berth_hold_conflicts_total",
        "door reason",
        "Refusals because somebody else holds the device: a `claim`, a `container` that asked by "
        "the device plugin, or another form of the same `hardware`.",
    ),
    _gauge(
        "berth_holds_disputed",
        "",
        "Devices that a claim and a container have at the same time; neither door gives them away.",
    ),
    _counter(
        "berth_podresources_lists_total",
        "result",
        "Questions to kubelet's PodResources: `ok`, `late`, or gRPC's word for the refusal.",
    ),
    _histogram("berth_podresources_seconds", "result", "How long kubelet takes to answer these."),
)

_DOORS: Final = (
    _gauge(
        "berth_claims_prepared",
        "kind",
        "Prepared claims, by the kind of their devices; `mixed` for several.",
    ),
    _histogram(
        "berth_prepare_seconds",
        "kind result",
        "How long a prepare takes: `ok`, `error`, or `late` when it was cut off; `unknown` is the "
        "kind of a claim that was never prepared.",
    ),
    _histogram("berth_unprepare_seconds", "kind result", "The same of an unprepare."),
    _counter(
        "berth_prepare_errors_total",
        "kind reason",
        "Prepares that failed, by whose fault it was: `claim`, `config`, `api`, `host`, `state`, "
        "`peer`, `late`, `defect`.",
    ),
    _counter(
        "berth_plugin_registrations_total",
        "resource result",
        "Registrations of resources with kubelet: `ok` or `error`.",
    ),
    _counter(
        "berth_plugin_allocations_total",
        "resource result",
        "Containers that asked for a resource: `ok` or `error`.",
    ),
    _counter(
        "berth_plugin_list_updates_total",
        "resource result",
        "Lists of units for kubelet: `ok` when it was sent, `error` when units had to be left out.",
    ),
    _counter(
        "berth_dra_registrations_total", "result", "Kubelet's words on the driver: `ok` or `error`."
    ),
)

_SLICES: Final = (
    _gauge("berth_slices", "pool", "ResourceSlices of the node, as they stand on the server."),
    _gauge("berth_slice_generation", "pool", "Their generation."),
    _counter(
        "berth_slice_restored_total",
        "pool",
        "Slices put back as they had been, after somebody else had changed or deleted them.",
    ),
    _counter(
        "berth_slice_writes_total",
        "verb result",
        "Writes of slices: `create`, `update`, `delete`; `ok`, `conflict`, `refused` or `error`.",
    ),
    _histogram("berth_slice_write_seconds", "verb result", "How long they take."),
    _gauge(
        "berth_slice_fields_dropped",
        "field",
        "Places in our slices at which the server did not keep what was written.",
    ),
    _gauge("berth_taints", "key effect", "Taints of devices in our slices."),
    _gauge(
        "berth_feature_state",
        "feature state",
        "1; how far the cluster has a feature of Kubernetes: `on`, `off` or `unknown` "
        "([which](kubernetes-features.md)).",
    ),
)

_FILES: Final = (
    _gauge("berth_cdi_files", "kind", "CDI files of ours."),
    _counter("berth_cdi_writes_total", "result", "Writes of CDI files: `ok` or `error`."),
    _gauge(
        "berth_cdi_source",
        "source",
        "1; who says what a container gets of a GPU: `nvidia-ctk` or `builtin`.",
    ),
)

_MACHINE: Final = (
    _counter(
        "berth_uevents_total",
        "subsystem",
        "Events of devices, once for each listener of the daemon that takes them.",
    ),
    _counter("berth_uevent_overflows_total", "", "How often such events were lost."),
    _counter(
        "berth_rescans_total",
        "cause",
        "Looks at the machine: because something `changed`, because a claim or a container "
        "`asked`, or by the `timer`.",
    ),
    _gauge("berth_nri_connected", "", "Whether every pod that starts now is told to berthd."),
    _histogram(
        "berth_nri_hook_seconds",
        "hook result",
        "How long a hook takes: `ok`, `error`, or `late` when the runtime was answered before.",
    ),
    _counter(
        "berth_nri_refusals_total",
        "reason",
        "Pods and containers that were not let through, by whose fault it was, as in "
        "`berth_prepare_errors_total`.",
    ),
    _counter(
        "berth_nic_moves_total",
        "direction result",
        "Moves of NICs: `pod` or `home`; `ok` or `error`; `lost` when the device is gone.",
    ),
    _histogram(
        "berth_nic_move_seconds",
        "direction",
        "How long they take; NICs that go into a pod together are one.",
    ),
    _gauge("berth_nics_away", "", "NICs that are in pods, or on their way."),
)

_API: Final = (
    _counter(
        "berth_api_requests_total",
        "verb resource code",
        "Requests to the API server, by the HTTP status of the answer; `0` for none.",
    ),
    _histogram("berth_api_request_seconds", "verb resource", "How long they take."),
    _counter("berth_api_watch_restarts_total", "resource", "Watches that broke."),
    _counter(
        "berth_claim_status_writes_total",
        "result",
        "Writes of claim statuses: `ok`, `conflict`, `refused` or `error`.",
    ),
)

_STATE: Final = (
    _counter(
        "berth_state_writes_total",
        "result",
        "Writes of records, and of what speaks against devices: `ok` or `error`.",
    ),
    _counter(
        "berth_state_quarantined_total", "", "Files of these that could not be read, set aside."
    ),
    _gauge("berth_state_bytes", "", "Size of all these files."),
    _gauge("dra_metadata_feature_enabled", "", "1: device metadata is written."),
    _counter("dra_metadata_writes_total", "", "Metadata files that were written."),
    _counter("dra_metadata_write_errors_total", "", "First writes of one that failed."),
    _counter("dra_metadata_update_errors_total", "", "Later writes of one that failed."),
    _histogram("dra_metadata_write_duration_seconds", "", "How long these writes take."),
)

FAMILIES: Final = (
    *_DAEMON,
    *_DEVICES,
    *_NVML,
    *_HOLDS,
    *_DOORS,
    *_SLICES,
    *_FILES,
    *_MACHINE,
    *_API,
    *_STATE,
)
"""All of them, in the order in which they are written."""

BY_NAME: Final[Mapping[str, Family]] = {family.name: family for family in FAMILIES}
