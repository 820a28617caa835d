"""Devices of ``[[generic]]`` groups: from device nodes and conditions to what is offered (pure)."""
