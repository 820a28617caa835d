"""Draws a node's topology as SVG: pure, and the same text for the same answer."""
