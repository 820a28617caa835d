"""Machinery on trio that knows no device and no setting."""
