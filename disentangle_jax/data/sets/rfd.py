"""The Robot Finger Dataset: PNGs in a tar file and two npz files of labels."""

import io
import os
import pathlib
import tarfile
import weakref
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from disentangle_jax.data.catalogue import TfdsLayout, define
from disentangle_jax.data.dataset import Dataset
from disentangle_jax.data.publisher_files import (
    Folder,
    check_shape,
    find,
    open_npz,
    reading,
)
from disentangle_jax.types import unknown_name

PARTS = ("finger", "finger_heldout_colors", "finger_real")
SIZE = 128


class _TarImages:
    """Random access to the numbered PNGs of a tar file that is not compressed."""

    def __init__(self, path: pathlib.Path):
        self._path = path
        with reading(path), tarfile.open(path, "r:") as archive:
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

    def _contents(self, indices: np.ndarray) -> np.ndarray:
        """Returns the bytes of the files, an array of objects ``[n]``."""
        places = self._places[indices].tolist()
        found = [os.pread(self._file, size, offset) for offset, size in places]
        return np.array(found, object)

    def reader(self, tf: ModuleType) -> Callable[[Any], Any]:
        """Returns a function from a tensor of indices to images, decoded by `tf`."""
        from disentangle_jax.data.pictures import decoded

        def picture(content: Any) -> Any:
            return tf.ensure_shape(decoded(tf, content, 3), (SIZE, SIZE, 3))

        def read(indices: Any) -> Any:
            contents = tf.numpy_function(self._contents, [indices], tf.string, False)
            contents = tf.ensure_shape(contents, indices.shape)
            return tf.map_fn(picture, contents, fn_output_signature=tf.uint8)

        return read

    def __call__(self, indices: np.ndarray) -> np.ndarray:
        from PIL import Image

        images = np.empty((len(indices), SIZE, SIZE, 3), np.uint8)
        for row, content in enumerate(self._contents(indices)):
            with reading(self._path):
                picture = Image.open(io.BytesIO(content))
                pixels = np.asarray(picture.convert("RGB"))
            check_shape(self._path, "an image", pixels.shape, (SIZE, SIZE, 3))
            images[row] = pixels
        return images


@define(
    factors={
        "shape": 1,
        "color": 8,
        "size": 1,
        "joint0": 30,
        "joint1": 30,
        "joint2": 30,
        "x": 30,
        "y": 30,
        "angle": 10,
    },
    note="12 more colours are held out",
    image_shape=(SIZE, SIZE, 3),
    size="1,000,000 (and test images of held-out colours and of a real robot)",
    licence="see the archive's README",
    fetch="https://people.tuebingen.mpg.de/ei-datasets/iclr_transfer_paper/"
    "robot_finger_datasets.tar",
    files="the archive's folder robot_finger_datasets",
    tfds=TfdsLayout(),
)
def rfd(
    *, data_dir: Folder = None, split: str = "train", part: str = "finger"
) -> Dataset:
    """Robot Finger Dataset: a robot finger and a cube.

    The images are a sample of the grid, so not every combination exists.

    Args:
      data_dir: folder that holds robot_finger_datasets, or that folder.
      split: as in ``data.load``, of ``part``.
      part: ``"finger"``, 1M simulated images; ``"finger_heldout_colors"``, test images
        of unseen colours; ``"finger_real"``, photographs.
    """
    if part not in PARTS:
        raise unknown_name("rfd", "part", part, PARTS)

    description = rfd.description

    def find_part(kind: str) -> pathlib.Path:
        file = f"{part}/{part}_{kind}"
        return find(description, data_dir, (file, f"robot_finger_datasets/{file}"))

    def read(kind: str, array: str, shape: tuple) -> np.ndarray:
        path = find_part(f"{kind}.npz")
        with reading(path), open_npz(path) as archive:
            values = archive[array]
        check_shape(path, array, values.shape, shape)
        return values

    factors = len(description.factors)
    labels = read("labels", "labels", (None, factors))
    sizes = read("info", "num_factor_values", (factors,))
    if part == "finger_real":
        pixels = read("images", "images", (len(labels), *description.fixed_shape))
        images: Callable[[np.ndarray], np.ndarray] = pixels.__getitem__
        reader = None
    else:
        path = find_part("images.tar")
        images = archived = _TarImages(path)
        reader = archived.reader
        check_shape(path, "the images", (len(archived),), (len(labels),))
    return description.dataset(
        images,
        factor_sizes=sizes,
        factor_table=labels.astype(np.int64),
        reader=reader,
    ).split(split)
