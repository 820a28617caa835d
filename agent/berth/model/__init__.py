"""What the agent talks about: values without I/O, clock or wire format."""
