"""Sheets of the samples that a trained model drew."""

import pathlib

from disentangle_jax import evaluation
from disentangle_jax.reports.drawing import write_section


def write_samples(workdir: pathlib.Path) -> list[pathlib.Path]:
    """Draws ``prior.png``, ``hybrid.png`` and ``chunk_hybrids.png`` of a run.

    Args:
      workdir: folder with ``samples.npz``.

    Returns:
      The paths of the pictures, in a folder ``samples`` below `workdir`.
    """
    folder = workdir / "samples"
    folder.mkdir(exist_ok=True)
    paths = []
    for sheet in evaluation.sample_sections(workdir):
        write_section(sheet, folder)
        paths.append(folder / f"{sheet.name}.png")
    return paths
