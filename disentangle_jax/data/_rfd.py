"""The Robot Finger Dataset: PNGs in a tar file and two npz files of labels."""

import io
import os
import pathlib
import tarfile
import weakref

import numpy as np

from disentangle_jax.data import _files
from disentangle_jax.data._dataset import Dataset
from disentangle_jax.types import unknown_name

FACTOR_NAMES = (
    "shape",
    "color",
    "size",
    "joint0",
    "joint1",
    "joint2",
    "x",
    "y",
    "angle",
)
PARTS = ("finger", "finger_heldout_colors", "finger_real")
SIZE = 128


class _TarImages:
    """Random access to the numbered PNGs of a tar file that is not compressed."""

    def __init__(self, path: pathlib.Path):
        self._path = path
        with _files.reading(path), tarfile.open(path, "r:") as archive:
            members = [
                (int(pathlib.PurePosixPath(member.name).stem), member)
                for member in archive
                if member.isfile() and member.name.endswith(".png")
            ]
        members.sort(key=lambda numbered: numbered[0])
        places = [(member.offset_data, member.size) for _, member in members]
        self._places = np.array(places, np.int64).reshape(-1, 2)
        self._file = os.open(path, os.O_RDONLY)
        weakref.finalize(self, os.close, self._file)

    def __len__(self) -> int:
        return len(self._places)

    def __call__(self, indices: np.ndarray) -> np.ndarray:
        from PIL import Image

        images = np.empty((len(indices), SIZE, SIZE, 3), np.uint8)
        for row, (offset, size) in enumerate(self._places[indices]):
            with _files.reading(self._path):
                content = os.pread(self._file, size, offset)
                picture = Image.open(io.BytesIO(content))
                pixels = np.asarray(picture.convert("RGB"))
            _files.check_shape(self._path, "an image", pixels.shape, (SIZE, SIZE, 3))
            images[row] = pixels
        return images


def rfd(
    *,
    data_dir: str | os.PathLike | None = None,
    split: str = "train",
    part: str = "finger",
) -> Dataset:
    """Robot Finger Dataset: a robot finger and a cube, 128×128×3.

    Factors: shape 1, colour 8, size 1, three joints 30 each, x 30, y 30, angle 10. The
    images are a sample of the grid, so not every combination exists.

    Args:
      data_dir: folder that holds robot_finger_datasets, or that folder.
      split: ``"train"``, ``"validation"``, ``"test"`` or ``"all"``, of ``part``.
      part: ``"finger"``, 1M simulated images; ``"finger_heldout_colors"``, a test set
        of unseen colours; ``"finger_real"``, photographs.
    """
    if part not in PARTS:
        raise unknown_name("rfd", "part", part, PARTS)

    def find(file: str) -> pathlib.Path:
        places = (f"{part}/{file}", f"robot_finger_datasets/{part}/{file}")
        return _files.find("rfd", data_dir, places)

    path = find(f"{part}_labels.npz")
    with _files.reading(path), _files.open_npz(path) as archive:
        labels = archive["labels"]
    _files.check_shape(path, "labels", labels.shape, (None, len(FACTOR_NAMES)))
    path = find(f"{part}_info.npz")
    with _files.reading(path), _files.open_npz(path) as archive:
        sizes = archive["num_factor_values"]
    _files.check_shape(path, "num_factor_values", sizes.shape, (len(FACTOR_NAMES),))
    if part == "finger_real":
        path = find(f"{part}_images.npz")
        with _files.reading(path), _files.open_npz(path) as archive:
            pixels = archive["images"]
        shape = (len(labels), SIZE, SIZE, 3)
        _files.check_shape(path, "images", pixels.shape, shape)

        def images(indices: np.ndarray) -> np.ndarray:
            return pixels[indices]

    else:
        path = find(f"{part}_images.tar")
        images = _TarImages(path)
        _files.check_shape(path, "the images", (len(images),), (len(labels),))
    return Dataset(
        "rfd",
        image_shape=(SIZE, SIZE, 3),
        images=images,
        factor_names=FACTOR_NAMES,
        factor_sizes=sizes,
        factor_table=labels.astype(np.int64),
    ).split(split)
