"""CelebA: a folder of aligned JPEGs with lists of attributes and parts."""

import pathlib
from collections.abc import Sequence

import numpy as np

from disentangle_jax.data.catalogue import TfdsLayout, define
from disentangle_jax.data.dataset import Dataset
from disentangle_jax.data.publisher_files import Folder, find, reading
from disentangle_jax.types import unknown_name

PARTS = {"train": 0, "validation": 1, "test": 2}
PUBLISHED_WIDTH, PUBLISHED_CROP = 178, 128


def _read_attributes(path: pathlib.Path) -> tuple[list[str], dict[str, np.ndarray]]:
    with reading(path):
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


def _crop(image: np.ndarray) -> np.ndarray:
    top, left = ((size - PUBLISHED_CROP) // 2 for size in image.shape[:2])
    return image[top : top + PUBLISHED_CROP, left : left + PUBLISHED_CROP]


@define(
    note="40 binary attributes",
    image_shape=(PUBLISHED_CROP, PUBLISHED_CROP, 3),
    size="202,599",
    licence="non-commercial research only",
    fetch="https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html",
    files="img_align_celeba/*.jpg, list_attr_celeba.txt and list_eval_partition.txt",
    patterns=("*.jpg", "img_align_celeba/*.jpg", "Img/img_align_celeba/*.jpg"),
    tfds=TfdsLayout("celeb_a", attributes="attributes", parts=tuple(PARTS), fit=_crop),
)
def celeba(
    *,
    data_dir: Folder = None,
    split: str = "train",
    crop: int | None = None,
    official_parts: bool = True,
) -> Dataset:
    """CelebA: aligned faces, centre crop without resizing.

    Factors: the 40 binary attributes, if their list is present.

    Args:
      data_dir: folder of the JPEGs, or one that holds img_align_celeba.
      split: as in ``data.load``.
      crop: side of the centre crop; None for 128 of the published width 178 (rows
        45–172, columns 25–152), and the same region of copies of another size.
      official_parts: use the published parts if list_eval_partition.txt is present,
        about 80/10/10; False for 70/10/20 by ``data.split_indices``, as "Structure by
        Architecture" states.
    """
    from PIL import Image

    from disentangle_jax.data import pictures

    folder = find(celeba.description, data_dir).parent
    paths = np.array(sorted(folder.glob("*.jpg")), object)
    with reading(paths[0]), Image.open(paths[0]) as image:
        width, height = image.size
    if crop is None:
        crop = round(PUBLISHED_CROP * width / PUBLISHED_WIDTH)
    if not 1 <= crop <= min(width, height):
        raise ValueError(
            f"celeba: `crop` must lie in [1, {min(width, height)}], the size of "
            f"{paths[0].name}, got {crop}."
        )
    corner = (height - crop) // 2, (width - crop) // 2
    faces = pictures.Pictures(
        paths.__getitem__, len(paths), (crop, crop, 3), corner=corner
    )
    names: Sequence[str] = ()
    table = None
    attributes = _beside(folder, "list_attr_celeba*.txt")
    if attributes is not None:
        names, values = _read_attributes(attributes)
        with reading(attributes):
            # Stored as -1 and 1.
            table = np.stack([values[path.name] for path in paths]) > 0
    dataset = celeba.description.dataset(
        faces.__getitem__,
        image_shape=faces.shape[1:],
        factor_names=names,
        factor_sizes=(2,) * len(names),
        factor_table=table,
        length=len(paths),
        reader=faces.reader,
    )
    partition = _beside(folder, "list_eval_partition.txt")
    if partition is None or split == "all" or not official_parts:
        return dataset.split(split)
    if split not in PARTS:
        raise unknown_name("data.load", "split", split, [*PARTS, "all"])
    with reading(partition):
        part = dict(line.split() for line in partition.read_text().splitlines() if line)
        mine = [int(part[path.name]) == PARTS[split] for path in paths]
    return dataset.narrow(np.flatnonzero(mine))
