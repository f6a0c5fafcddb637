"""Cars3D: one MATLAB file of renderings per car."""

import numpy as np

from disentangle_jax.data.catalogue import TfdsLayout, define
from disentangle_jax.data.dataset import Dataset
from disentangle_jax.data.publisher_files import Folder, check_shape, find, reading
from disentangle_jax.data.resizing import resize as resized


@define(
    factors={"elevation": 4, "azimuth": 24, "object": 183},
    image_shape=(64, 64, 3),
    size="17,568",
    licence="not stated by the publisher",
    fetch="http://www.scottreed.info/files/nips2015-analogy-data.tar.gz",
    files="the archive's folder data/cars (183 .mat files)",
    patterns=("*.mat", "data/cars/*.mat", "cars/*.mat"),
    md5={"nips2015-analogy-data.tar.gz": "4e866a7919c1beedf53964e6f7a23686"},
    # Overlooked Implications of the Reconstruction Loss, Table 2.
    moments=(
        (0.897667614997663, 0.889165802006751, 0.885147515814868),
        (0.225031955315030, 0.239946127898126, 0.247921063196844),
    ),
    tfds=TfdsLayout(),
)
def cars3d(
    *, data_dir: Folder = None, split: str = "train", resize: str = "antialias"
) -> Dataset:
    """Cars3D.

    Cars are numbered in the order of their file names (disentanglement_lib numbers them
    in the order of the file system, which differs between machines).

    Args:
      data_dir: folder that holds the publisher's folder data/cars, or that folder.
      split: as in ``data.load``.
      resize: from 128×128 to 64×64: ``"antialias"`` (the 12,600-model study) or
        ``"bilinear"`` (Overlooked Implications of the Reconstruction Loss).
    """
    import scipy.io

    description = cars3d.description
    elevations, azimuths, _ = description.factor_sizes
    height, width, channels = description.fixed_shape
    folder = find(description, data_dir).parent
    cars = []
    for path in sorted(folder.glob("*.mat")):
        with reading(path):
            pictures = scipy.io.loadmat(path)["im"]
        expected = (128, 128, channels, azimuths, elevations)
        check_shape(path, "im", pictures.shape, expected)
        pictures = np.transpose(pictures, (4, 3, 0, 1, 2))
        pictures = pictures.reshape(-1, 128, 128, channels).astype(np.uint8)
        cars.append(resized(pictures, height, method=resize))
    images = np.stack(cars, axis=1).reshape(-1, height, width, channels)
    return description.dataset(
        lambda indices: images[indices],
        factor_sizes=(elevations, azimuths, len(cars)),
        in_memory=images,
    ).split(split)
