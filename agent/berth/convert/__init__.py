"""Configurations of other device plugins as groups of ours; `conversion` is the way in."""
