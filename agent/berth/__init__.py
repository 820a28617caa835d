"""berth hands a bare-metal node's GPUs and NICs to its Kubernetes pods; importing does nothing."""

__version__ = "0.1.0"
