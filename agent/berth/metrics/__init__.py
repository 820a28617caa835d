"""The figures that a monitoring system reads: which there are, where they come from, their text."""
