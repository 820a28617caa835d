"""NICs on their way into pods and home: the only movers."""
