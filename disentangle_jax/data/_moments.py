"""Standardising images by channel."""

import jax
import numpy as np

from disentangle_jax.data._dataset import Dataset
from disentangle_jax.types import unknown_name

# Overlooked Implications of the Reconstruction Loss, Table 2 (of images in [0, 1]); the
# constants of MPI3D from the same authors' code, which are not in the paper.
_CARS3D = (
    (0.897667614997663, 0.889165802006751, 0.885147515814868),
    (0.225031955315030, 0.239946127898126, 0.247921063196844),
)
_SHAPES3D = (
    (0.502584966788819, 0.578759756608967, 0.603449973185958),
    (0.294081404355556, 0.344397908751721, 0.366168598152475),
)
_DSPRITES = (0.042494423521890,), (0.195166458806261,)
_XYSQUARES = (0.015625,) * 3, (0.124034734589209,) * 3
CHANNEL_MOMENTS: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "cars3d": _CARS3D,
    "dsprites": _DSPRITES,
    "mpi3d_real": ((0.12849, 0.16480, 0.13972), (0.09329, 0.09203, 0.10323)),
    "mpi3d_realistic": ((0.17987, 0.20475, 0.18148), (0.08746, 0.09331, 0.09242)),
    "mpi3d_toy": ((0.22437, 0.22142, 0.22625), (0.06900, 0.06343, 0.07608)),
    "rendered_dsprites": _DSPRITES,
    "rendered_shapes3d": _SHAPES3D,
    "shapes3d": _SHAPES3D,
    "smallnorb": ((0.752091840108860,), (0.095638790168273,)),
    "xysquares": _XYSQUARES,
}


def channel_moments(
    dataset: Dataset, *, indices: np.ndarray | None = None, chunk: int = 4096
) -> tuple[np.ndarray, np.ndarray]:
    r"""Returns mean and standard deviation ``([C], [C])`` of images in [0, 1].

    The definition behind Table 2 of Overlooked Implications of the Reconstruction Loss:
    the moments of each image (standard deviation with ddof 1), averaged over images

    .. math:: \bar m_c = \tfrac1N \sum_n m_{nc}, \qquad
              \bar s_c = \tfrac1N \sum_n \sqrt{\tfrac{1}{HW-1}
              \sum_p (x_{npc} - m_{nc})^2}

    so :math:`\bar s` is *not* the deviation of all pixels together.

    Args:
      dataset: the set.
      indices: ``[m]`` images to use; None for ``dataset.indices``.
      chunk: images in memory at once.
    """
    indices = dataset.indices if indices is None else np.asarray(indices)
    mean = np.zeros(dataset.image_shape[-1])
    deviation = np.zeros_like(mean)
    for start in range(0, len(indices), chunk):
        images = dataset.images(indices[start : start + chunk])
        pixels = images.reshape(len(images), -1, images.shape[-1]).astype(np.float64)
        count = pixels.shape[1]
        of_image = pixels.mean(1)
        squares = np.maximum((pixels**2).mean(1) - of_image**2, 0.0)
        mean += of_image.sum(0)
        deviation += np.sqrt(squares * count / (count - 1)).sum(0)
    return mean / len(indices) / 255, deviation / len(indices) / 255


def standardize(images: jax.Array, name: str) -> jax.Array:
    """Standardises uint8 images ``[..., C]`` by the published constants of a set.

    Runs where the images are, so that bytes travel to the device.

    Args:
      images: uint8, or float in [0, 255].
      name: a key of ``CHANNEL_MOMENTS``.

    Returns:
      float32 images with mean about 0 and standard deviation about 1 per channel.
    """
    if name not in CHANNEL_MOMENTS:
        raise unknown_name("standardize", "name", name, sorted(CHANNEL_MOMENTS))
    mean, deviation = (np.array(m, np.float32) for m in CHANNEL_MOMENTS[name])
    shape = (1,) * (images.ndim - 1) + mean.shape
    scaled = images.astype(np.float32) / 255
    return (scaled - mean.reshape(shape)) / deviation.reshape(shape)
