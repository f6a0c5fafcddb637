"""Shrinks published grids so that tests can hold all images."""

import dataclasses


def resize_grid(monkeypatch, function, sizes):
    """Gives a dataset other factor sizes for the time of a test."""
    description = function.description
    factors = dict(zip(description.factors, sizes, strict=True))
    smaller = dataclasses.replace(description, factors=factors)
    monkeypatch.setattr(function, "description", smaller)
