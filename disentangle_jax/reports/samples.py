"""Sheets of the samples that a trained model drew."""

import pathlib

import numpy as np

from disentangle_jax.reports._grids import sheet

_COLUMNS = 8


def write_samples(workdir: pathlib.Path) -> list[pathlib.Path]:
    """Draws ``prior.png``, ``hybrid.png`` and ``chunk_hybrids.png`` of a run.

    Args:
      workdir: folder with ``samples.npz``.

    Returns:
      The paths of the pictures, in a folder ``samples`` below `workdir`.
    """
    with np.load(workdir / "samples.npz") as arrays:
        samples = dict(arrays)
    folder = workdir / "samples"
    folder.mkdir(exist_ok=True)
    sheets = {}
    for name in ("prior", "hybrid"):
        images = samples[name]
        rows = -(-len(images) // _COLUMNS)
        filled = np.full((rows * _COLUMNS, *images.shape[1:]), 255, np.uint8)
        filled[: len(images)] = images
        sheets[name] = sheet(filled.reshape(rows, _COLUMNS, *images.shape[1:]))
    # In each row the code that is changed comes first.
    chunks = samples["chunk_hybrids"]
    base = np.broadcast_to(samples["base"], (len(chunks), 1, *chunks.shape[2:]))
    sheets["chunk_hybrids"] = sheet(
        np.concatenate([base, chunks], axis=1),
        [f"part {number}" for number in range(1, len(chunks) + 1)],
    )
    paths = []
    for name, picture in sheets.items():
        paths.append(folder / f"{name}.png")
        picture.save(paths[-1])
    return paths
