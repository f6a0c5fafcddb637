"""Labelled images of every region, and copies of images with noise."""

import jax
import numpy as np

from disentangle_jax.data.dataset import Dataset, generator


def labelled_images(
    dataset: Dataset, per_combination: int, *, seed: int
) -> dict[str, np.ndarray]:
    """Returns a few labelled images of every combination of factors.

    The supervision of "Leveraging Relational Information …": tau images of each. For
    one seed, the images of a smaller ``per_combination`` are the first of a larger one.

    Args:
      dataset: a dataset with factors; images are drawn from its ``indices``.
      per_combination: n, the number of images of each combination.
      seed: seed of the choice.

    Returns:
      ``image`` uint8 ``[C, n, H, W, channels]``, combinations in row-major order of
      their factors, and ``count`` int32 ``[C]``, the number of images of each: a
      combination may have fewer than n, or none. The others are zeros.
    """
    if per_combination < 1:
        raise ValueError(
            "labelled_images: `per_combination` must be at least 1, got "
            f"{per_combination}."
        )
    if not dataset.factor_sizes:
        raise ValueError(f"labelled_images: {dataset.name} has no factors.")
    known = np.unique(dataset.indices)
    shuffled = known[
        np.asarray(jax.random.permutation(jax.random.key(seed), len(known)))
    ]
    factors = dataset.factors(shuffled)
    combination = np.ravel_multi_index(tuple(factors.T), dataset.factor_sizes)
    total = int(np.prod(dataset.factor_sizes))
    image = np.zeros((total, per_combination, *dataset.image_shape), np.uint8)
    count = np.zeros(total, np.int32)
    for number in range(total):
        own = shuffled[combination == number][:per_combination]
        count[number] = len(own)
        if len(own):
            image[number, : len(own)] = dataset.images(own)
    return {"image": image, "count": count}


def gaussian_noise(
    image: np.ndarray, rng: np.random.Generator, *, std: float = 0.3
) -> np.ndarray:
    """Adds N(0, std²) to the foreground (pixels above 0) of a uint8 image, clipped.

    One of AbsAE's two augmentations; ``std`` is in units of the full range.
    """
    noisy = image + 255 * std * rng.standard_normal(image.shape) * (image > 0)
    return np.round(np.clip(noisy, 0, 255)).astype(np.uint8)


def bernoulli_noise(
    image: np.ndarray, rng: np.random.Generator, *, rate: float = 0.3
) -> np.ndarray:
    """Sets each pixel (all its channels) of a uint8 image to 0 with probability `rate`.

    The other one of AbsAE's two augmentations.
    """
    kept = rng.uniform(size=(*image.shape[:2], 1)) >= rate
    return image * kept.astype(np.uint8)


def with_noisy_copies(dataset: Dataset, *, copies: int = 3) -> Dataset:
    """Returns a dataset of each image, its Gaussian copies and its Bernoulli copies.

    AbsAE's augmented data (3 copies of each kind make 7 times as many images). Index
    ``i`` shows image ``dataset.indices[i % M]`` of the M old ones: without noise for
    ``i < M``, then the Gaussian copies, then the Bernoulli copies. The noise of an
    image is a function of ``i``. Narrow a dataset to a split *before* copying it:
    copying first, as the published code does, puts versions of one image into both
    train and test.

    Args:
      dataset: the dataset without noise.
      copies: number of copies per kind of noise.
    """
    plain = dataset.indices
    count = len(plain)

    def images(indices: np.ndarray) -> np.ndarray:
        result = dataset.images(plain[indices % count])
        for row, index in enumerate(indices):
            version = index // count
            if version:
                noise = gaussian_noise if version <= copies else bernoulli_noise
                result[row] = noise(result[row], generator((int(index),)))
        return result

    versions = 1 + 2 * copies
    return Dataset(
        f"{dataset.name} with noisy copies",
        image_shape=dataset.image_shape,
        images=images,
        factor_names=dataset.factor_names,
        factor_sizes=dataset.factor_sizes,
        factor_table=np.tile(dataset.factors(plain), (versions, 1)),
    )
