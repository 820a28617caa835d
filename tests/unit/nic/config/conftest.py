"""Settings of this folder's tests."""

from __future__ import annotations

from hypothesis import settings

# The machines that run this are shared; time is no property of a decoder.
settings.register_profile("no-deadline", deadline=None)
settings.load_profile("no-deadline")
