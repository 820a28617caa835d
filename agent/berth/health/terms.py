"""How one device is watched.

Source: gpu-and-health.md §6.1, §6.4; network.md §7.
"""

from __future__ import annotations

import attrs


@attrs.frozen(kw_only=True)
class Terms:
    """The times of one device, in seconds.

    Attributes:
        interval_s: From one probe to the next.
        deadline_s: Longest that a probe may take; later the device is sick (``no-answer``).
        timeout_s: How long a verdict holds after the last answer (kubelet's
            ``health_check_timeout_seconds``).
        recover_after_s: How long everything must be well before the device is.
    """

    interval_s: float
    deadline_s: float
    timeout_s: int
    recover_after_s: float = 30.0


GPU = Terms(interval_s=5, deadline_s=4, timeout_s=30)
VFIO = Terms(interval_s=15, deadline_s=2, timeout_s=60)
GENERIC = Terms(interval_s=30, deadline_s=2, timeout_s=90, recover_after_s=2)
NIC = Terms(interval_s=15, deadline_s=2, timeout_s=60)
