"""Reports on devices as protobuf, for both versions of kubelet's health service.

The two versions have the same messages. A field that an older kubelet does not know is one that it
skips: ``health_check_timeout_seconds`` before 1.35, ``message`` before 1.36.

Source: KC §6.1, §6.2; ``k8s.io/kubelet/pkg/apis/dra-health/{v1,v1alpha1}/api.proto``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Final

import attrs
from google.protobuf.message import Message

from berth.dra.healthreport import DeviceReport
from berth.health.verdict import Status
from berth.pb import dra_health_v1_pb2, dra_health_v1alpha1_pb2

METHOD: Final = "NodeWatchResources"


@attrs.frozen(kw_only=True)
class HealthDialect:
    """One version of the service: its name and its messages.

    Attributes:
        version: As in kubelet's registration, such as ``v1``.
    """

    version: str
    request: type[Message]
    reply: type[Message]
    report: type[Message]
    device: type[Message]
    statuses: Mapping[Status, int]

    @property
    def service(self) -> str:
        """Full name of the service on the wire, which is kubelet's token for it as well."""
        return f"{self.version}.DRAResourceHealth"

    def answer(self, reports: Iterable[DeviceReport]) -> Message:
        """One message of the stream."""
        return self.reply(devices=map(self._report, reports))

    def _report(self, report: DeviceReport) -> Message:
        place = report.place
        return self.report(
            device=self.device(pool_name=place.pool, device_name=place.device),
            health=self.statuses[report.status],
            last_updated_time=report.observed_s,
            health_check_timeout_seconds=report.timeout_s,
            message=report.message,
        )


def _dialect(version: str, pb: ModuleType) -> HealthDialect:
    return HealthDialect(
        version=version,
        request=pb.NodeWatchResourcesRequest,
        reply=pb.NodeWatchResourcesResponse,
        report=pb.DeviceHealth,
        device=pb.DeviceIdentifier,
        statuses={
            Status.UNKNOWN: pb.UNKNOWN,
            Status.HEALTHY: pb.HEALTHY,
            Status.UNHEALTHY: pb.UNHEALTHY,
        },
    )


DIALECTS: Final = (
    _dialect("v1", dra_health_v1_pb2),
    _dialect("v1alpha1", dra_health_v1alpha1_pb2),
)
"""The versions that are spoken, the newest first."""
