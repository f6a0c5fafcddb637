"""Cars3D: one MATLAB file of renderings per car."""

import os

import numpy as np

from disentangle_jax.data import _files, _resize
from disentangle_jax.data._dataset import Dataset

ELEVATIONS, AZIMUTHS = 4, 24
SIZE = 64


def cars3d(
    *,
    data_dir: str | os.PathLike | None = None,
    split: str = "train",
    resize: str = "antialias",
) -> Dataset:
    """Cars3D: 17,568 images of 64×64×3.

    Factors: elevation 4, azimuth 24, object 183. Cars are numbered in the order of
    their file names (disentanglement_lib numbers them in the order of the file system,
    which differs between machines).

    Args:
      data_dir: folder that holds the publisher's folder data/cars, or that folder.
      split: ``"train"``, ``"validation"``, ``"test"`` or ``"all"``.
      resize: from 128×128 to 64×64: ``"antialias"`` (the study) or ``"bilinear"``
        (Overlooked Implications of the Reconstruction Loss).
    """
    import scipy.io

    candidates = ("*.mat", "data/cars/*.mat", "cars/*.mat")
    folder = _files.find("cars3d", data_dir, candidates).parent
    cars = []
    for path in sorted(folder.glob("*.mat")):
        with _files.reading(path):
            pictures = scipy.io.loadmat(path)["im"]
        expected = (128, 128, 3, AZIMUTHS, ELEVATIONS)
        _files.check_shape(path, "im", pictures.shape, expected)
        pictures = np.transpose(pictures, (4, 3, 0, 1, 2))
        pictures = pictures.reshape(-1, 128, 128, 3).astype(np.uint8)
        cars.append(_resize.resize(pictures, SIZE, method=resize))
    images = np.stack(cars, axis=1).reshape(-1, SIZE, SIZE, 3)
    return Dataset(
        "cars3d",
        image_shape=(SIZE, SIZE, 3),
        images=lambda indices: images[indices],
        factor_names=("elevation", "azimuth", "object"),
        factor_sizes=(ELEVATIONS, AZIMUTHS, len(cars)),
        in_memory=images,
    ).split(split)
