"""Reports as messages of both versions."""

import pytest

from berth.dra.healthmessages import DIALECTS, HealthDialect
from berth.dra.healthreport import DeviceReport, Place
from berth.health.verdict import Status


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda one: one.version)
@pytest.mark.parametrize(
    ("status", "number"), [(Status.UNKNOWN, 0), (Status.HEALTHY, 1), (Status.UNHEALTHY, 2)]
)
def test_report_is_told_in_every_version(
    dialect: HealthDialect, status: Status, number: int
) -> None:
    """The wire form is read back as kubelet reads it, field by field."""

    report = DeviceReport(
        place=Place(pool="n/nic", device="nic-0"),
        status=status,
        message="carrier lost",
        timeout_s=60,
        observed_s=1_800_000_000,
    )
    content = dialect.answer([report]).SerializeToString()

    (told,) = dialect.reply.FromString(content).devices  # type: ignore[attr-defined]
    assert (told.device.pool_name, told.device.device_name) == ("n/nic", "nic-0")
    assert (told.health, told.message) == (number, "carrier lost")
    assert told.last_updated_time == 1_800_000_000
    assert told.health_check_timeout_seconds == 60


def test_versions_have_the_names_that_kubelet_calls() -> None:
    """KC §0.1: the newest first."""

    assert [dialect.service for dialect in DIALECTS] == [
        "v1.DRAResourceHealth",
        "v1alpha1.DRAResourceHealth",
    ]
