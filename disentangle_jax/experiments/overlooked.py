"""Datasets as "Overlooked Implications of the Reconstruction Loss" prepares them."""

from collections.abc import Sequence
from typing import Any

import ml_collections

from disentangle_jax import data
from disentangle_jax.experiments import published

# App. B.4 of the supplement: bilinear filtering. Tables 1 and 2 are those of the part
# of SmallNORB that its publisher trains on, whose instances are a factor.
_OPTIONS = {
    "cars3d": {"resize": "bilinear"},
    "smallnorb": {"resize": "bilinear", "instances": "train"},
}


def options(name: str) -> dict[str, Any]:
    """Returns the paper's options of ``data.load`` for a dataset."""
    return _OPTIONS.get(name, {})


def load(config: ml_collections.ConfigDict, name: str) -> data.Dataset:
    """Returns a whole dataset with the paper's options.

    Args:
      config: where the files are; if it names this dataset, its options come last.
      name: name of the dataset.
    """
    own = config.data.options if name == config.data.name else {}
    folder = config.data.data_dir or None
    return data.load(name, data_dir=folder, split="all", **{**options(name), **own})


def notes(names: Sequence[str]) -> list[str]:
    """Returns sentences for a page on how datasets differ from those of the paper."""
    listed = [
        f"{name} ({', '.join(f'{k}={v}' for k, v in options(name).items())})"
        for name in names
        if options(name)
    ]
    lines = [note.strip() for note in map(published.note, names) if note]
    if listed:
        lines.append(
            f"As the paper prepares them, not as by default: {', '.join(listed)}."
        )
    return lines
