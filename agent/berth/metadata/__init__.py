"""Device metadata files that containers read."""
