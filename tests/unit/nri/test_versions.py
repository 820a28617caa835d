"""What is known of a runtime from its name and version."""

from __future__ import annotations

import pytest

from berth.nri.versions import (
    EVENTS_BEFORE_0_10,
    EVENTS_SINCE_0_10,
    Runtime,
    Version,
    known_events,
    leaks_failed_sandboxes,
    parse_version,
)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("v1.7.24", Version(1, 7, 24)),
        ("1.7.24~ds1", Version(1, 7, 24)),
        ("2.4.2+unknown", Version(2, 4, 2)),
        ("v2.1.0-k3s1", Version(2, 1, 0)),
        ("v2.1.5-12-g0123abc", Version(2, 1, 5)),
        ("v2.3.0-rc.1", Version(2, 3, 0, 0)),
        ("1.34", Version(1, 34)),
        ("(devel)", None),
        ("", None),
        ("v2", None),
    ],
)
def test_parse_version_reads_what_runtimes_say(text: str, version: Version | None) -> None:
    """Vendors' suffixes do not matter, a pre-release does."""
    assert version == parse_version(text)


@pytest.mark.parametrize(
    ("name", "version", "nri", "events"),
    [
        ("containerd", "v1.7.24", "", EVENTS_BEFORE_0_10),
        ("v2", "v2.0.0", "", EVENTS_BEFORE_0_10),
        ("containerd", "v2.1.9", "", EVENTS_BEFORE_0_10),
        ("containerd", "v2.2.0-rc.0", "", EVENTS_BEFORE_0_10),
        ("containerd", "v2.2.0", "", EVENTS_SINCE_0_10),
        ("containerd", "2.4.2+unknown", "v0.12.3", EVENTS_SINCE_0_10),
        ("containerd", "2.4.2", "(devel)", EVENTS_SINCE_0_10),
        ("containerd", "2.4.2", "0.0.0-unknown", EVENTS_SINCE_0_10),
        ("containerd", "2.4.2", "v0.9.0", EVENTS_BEFORE_0_10),
        ("containerd", "unknown", "", EVENTS_BEFORE_0_10),
        ("cri-o", "1.33.4", "", EVENTS_BEFORE_0_10),
        ("cri-o", "1.34.0", "", EVENTS_SINCE_0_10),
        ("something", "9.9.9", "", EVENTS_BEFORE_0_10),
        ("something", "", "v0.12.0", EVENTS_SINCE_0_10),
    ],
)
def test_known_events_stay_within_what_the_runtime_takes(
    name: str, version: str, nri: str, events: int
) -> None:
    """One bit too many gets the plugin thrown out, so doubt means the old set."""
    assert events == known_events(Runtime(name=name, version=version, nri_version=nri))


@pytest.mark.parametrize(
    ("name", "version", "leaks"),
    [
        ("containerd", "v1.7.24", False),
        ("v2", "v2.0.0", True),
        ("containerd", "v2.0.0-rc.1", True),
        ("containerd", "v2.0.11", True),
        ("containerd", "v2.1.9", True),
        ("containerd", "v2.2.5", True),
        ("containerd", "v2.2.6", False),
        ("containerd", "v2.3.2", True),
        ("containerd", "v2.3.3", False),
        ("containerd", "v2.4.0-beta.0", False),
        ("containerd", "2.4.2+unknown", False),
        ("containerd", "v3.0.0", False),
        ("containerd", "mystery", True),
        ("cri-o", "2.1.0", False),
    ],
)
def test_leaks_failed_sandboxes_knows_the_versions(name: str, version: str, leaks: bool) -> None:
    """Only there must RunPodSandbox not be answered by an error."""
    assert leaks == leaks_failed_sandboxes(Runtime(name=name, version=version))
