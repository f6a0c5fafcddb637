"""CelebA: a folder of aligned JPEGs with its lists of attributes and parts."""

import functools
import os
import pathlib

import numpy as np

from disentangle_jax.data import _files
from disentangle_jax.data._dataset import Dataset
from disentangle_jax.types import unknown_name

PARTS = {"train": 0, "validation": 1, "test": 2}
PUBLISHED_WIDTH, PUBLISHED_CROP = 178, 128


def _read_attributes(path: pathlib.Path) -> tuple[list[str], dict[str, np.ndarray]]:
    with _files.reading(path):
        _, header, *rows = path.read_text().splitlines()
        split_rows = (row.split() for row in rows if row.strip())
        values = {name: np.array(row, int) for name, *row in split_rows}
    return header.split(), values


def _beside(folder: pathlib.Path, pattern: str) -> pathlib.Path | None:
    for place in (folder, folder.parent, folder.parent / "Anno"):
        found = sorted(place.glob(pattern))
        if found:
            return found[0]
    return None


def celeba(
    *,
    data_dir: str | os.PathLike | None = None,
    split: str = "train",
    crop: int | None = None,
) -> Dataset:
    """CelebA: 202,599 aligned faces, centre crop 128×128×3 without resizing.

    For non-commercial research only. Factors: the 40 binary attributes, where their
    list is present. The published parts are used where list_eval_partition.txt is
    present, else ``data.split_indices``.

    Args:
      data_dir: folder of the JPEGs, or one that holds img_align_celeba.
      split: ``"train"``, ``"validation"``, ``"test"`` or ``"all"``.
      crop: side of the centre crop; None for 128 of the published width 178 (rows
        45–172, columns 25–152), and the same region of copies at another size.
    """
    from PIL import Image

    from disentangle_jax.data import _pictures

    candidates = ("*.jpg", "img_align_celeba/*.jpg", "Img/img_align_celeba/*.jpg")
    folder = _files.find("celeba", data_dir, candidates).parent
    paths = np.array(sorted(folder.glob("*.jpg")), object)
    with _files.reading(paths[0]), Image.open(paths[0]) as image:
        width, height = image.size
    if crop is None:
        crop = round(PUBLISHED_CROP * width / PUBLISHED_WIDTH)
    if not 1 <= crop <= min(width, height):
        raise ValueError(
            f"celeba: `crop` must lie in [1, {min(width, height)}], the size of "
            f"{paths[0].name}, got {crop}."
        )
    left, top = (width - crop) // 2, (height - crop) // 2
    box = left, top, left + crop, top + crop
    shape = crop, crop, 3
    names, table = (), None
    attributes = _beside(folder, "list_attr_celeba*.txt")
    if attributes is not None:
        names, values = _read_attributes(attributes)
        with _files.reading(attributes):
            # Stored as -1 and 1.
            table = np.stack([values[path.name] for path in paths]) > 0
    dataset = Dataset(
        "celeba",
        image_shape=shape,
        images=lambda indices: _pictures.read(
            paths[indices], shape, functools.partial(Image.Image.crop, box=box)
        ),
        factor_names=names,
        factor_sizes=(2,) * len(names),
        factor_table=table,
        length=len(paths),
    )
    partition = _beside(folder, "list_eval_partition.txt")
    if partition is None or split == "all":
        return dataset.split(split)
    if split not in PARTS:
        raise unknown_name("data.load", "split", split, [*PARTS, "all"])
    with _files.reading(partition):
        part = dict(line.split() for line in partition.read_text().splitlines() if line)
        mine = [int(part[path.name]) == PARTS[split] for path in paths]
    return dataset.narrow(np.flatnonzero(mine))
