"""Any folder of images."""

import numpy as np

from disentangle_jax.data.catalogue import define
from disentangle_jax.data.dataset import Dataset
from disentangle_jax.data.publisher_files import Folder, data_folder


@define(
    note="label, if all images lie in sub-folders",
    size="any",
    licence="yours",
    fetch="your own images",
    files="PNG or JPEG files, in one sub-folder per label if they have labels",
)
def image_folder(
    *,
    data_dir: Folder = None,
    split: str = "train",
    size: int = 64,
    channels: int = 3,
) -> Dataset:
    """Any folder of PNG or JPEG images, resized to a square after a centre crop.

    Factor: label, the name of the sub-folder, if all images lie in sub-folders.

    Args:
      data_dir: the folder.
      split: as in ``data.load``.
      size: height and width of the images.
      channels: 3 (RGB) or 1 (grey).
    """
    from PIL import Image, ImageOps

    from disentangle_jax.data import pictures

    if channels not in (1, 3):
        raise ValueError(f"image_folder: `channels` must be 1 or 3, got {channels}.")
    folder = data_folder(data_dir)
    paths = np.array(pictures.images_under(folder), object)
    if not len(paths):
        raise FileNotFoundError(
            f"data.load: image_folder found no PNG or JPEG in {folder}. Name a folder "
            "of images with data_dir."
        )
    shape = size, size, channels

    def fit(image: Image.Image) -> Image.Image:
        return ImageOps.fit(image, (size, size), Image.Resampling.LANCZOS)

    names, sizes, table = (), (), None
    if all(path.parent != folder for path in paths):
        kinds = [path.relative_to(folder).parts[0] for path in paths]
        kinds, labels = np.unique(kinds, return_inverse=True)
        names, sizes, table = ("label",), (len(kinds),), labels[:, None]
    return image_folder.description.dataset(
        lambda indices: pictures.read(paths[indices], shape, fit),
        image_shape=shape,
        factor_names=names,
        factor_sizes=sizes,
        factor_table=table,
        length=len(paths),
    ).split(split)
