"""Mean and standard deviation of the channels of a dataset."""

import numpy as np

from disentangle_jax.data.dataset import Dataset


def channel_moments(
    dataset: Dataset, *, indices: np.ndarray | None = None, chunk: int = 4096
) -> tuple[np.ndarray, np.ndarray]:
    r"""Returns mean and standard deviation ``([C], [C])`` of images in [0, 1].

    The definition behind Table 2 of Overlooked Implications of the Reconstruction Loss,
    which ``data.describe(name).moments`` holds: the moments of each image (standard
    deviation with ddof 1), averaged over images

    .. math:: \bar m_c = \tfrac1N \sum_n m_{nc}, \qquad
              \bar s_c = \tfrac1N \sum_n \sqrt{\tfrac{1}{HW-1}
              \sum_p (x_{npc} - m_{nc})^2}

    so :math:`\bar s` is *not* the standard deviation over all pixels of the dataset.

    Args:
      dataset: the dataset.
      indices: ``[m]`` images to use; None for ``dataset.indices``.
      chunk: number of images in memory at once.
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
