"""The DRA kubelet plugin: slices, claims, registration."""
