"""Pods that are bound when their devices are ready: who waits for what, and what is told of it.

Source: KC §9.2.
"""
