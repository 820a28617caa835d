"""What the machine has: looked at when the kernel tells of a change, and judged."""
