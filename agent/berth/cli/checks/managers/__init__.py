"""The host's network managers: whether they leave alone what berth lends out."""
