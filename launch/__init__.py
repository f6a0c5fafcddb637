"""Sweeps on clusters, and the cost of programs on accelerators."""
