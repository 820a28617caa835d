"""What Kubernetes can do for devices: each feature by name, and how far a cluster has it."""
