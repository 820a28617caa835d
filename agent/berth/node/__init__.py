"""The only owners of changing state."""
