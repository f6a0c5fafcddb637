"""Batches with a design: fixed factors, few labels, even classes, noisy copies."""

import jax
import jax.numpy as jnp
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


def intervention_indices(
    key: jax.Array,
    dataset: Dataset,
    *,
    factor: int | str,
    value: int,
    n: int,
) -> np.ndarray:
    """Returns ``[n]`` indices of images that share one factor's value.

    The other factors are uniform; the BetaVAE and FactorVAE scores and IRS call this an
    intervention. Drawn with replacement from ``dataset.indices``.

    Args:
      key: typed PRNG key.
      dataset: a dataset with factors.
      factor: name or column of the fixed factor.
      value: its value.
      n: number of images.
    """
    if isinstance(factor, str):
        narrowed = dataset.keep(**{factor: [value]})
    else:
        narrowed = dataset.keep(**{dataset.factor_names[factor]: [value]})
    rows = jax.random.randint(key, (n,), 0, len(narrowed.indices))
    return narrowed.indices[np.asarray(rows)]


def labelled_subset(
    key: jax.Array, groups: np.ndarray, *, per_group: int
) -> np.ndarray:
    """Returns places of ``per_group`` random members of each group, sorted.

    The supervision of Relational Information for Weakly Disentangled Representations:
    τ labelled images per combination of the factors that matter. (Its code counts
    batches instead.)

    Args:
      key: typed PRNG key.
      groups: ``[N]`` integers or ``[N, K]`` combinations; equal rows form a group.
      per_group: τ, at most the size of the smallest group.
    """
    groups = np.asarray(groups)
    _, group = np.unique(groups.reshape(len(groups), -1), axis=0, return_inverse=True)
    sizes = np.bincount(group.ravel())
    if not 1 <= per_group <= sizes.min():
        raise ValueError(
            f"labelled_subset: `per_group` must lie in [1, {sizes.min()}], the size of "
            f"the smallest group, got {per_group}."
        )
    shuffled = np.asarray(jax.random.permutation(key, len(groups)))
    order = shuffled[np.argsort(group.ravel()[shuffled], kind="stable")]
    starts = np.cumsum(sizes) - sizes
    return np.sort(order[(starts[:, None] + np.arange(per_group)).ravel()])


def class_balanced(key: jax.Array, labels: np.ndarray, n: int) -> np.ndarray:
    """Returns ``[n]`` places drawn so that every class is equally likely.

    Inverse-frequency sampling with replacement, as AbsAE draws HWF's symbols. To stream
    them, narrow the dataset to the draws::

        labels = symbols.factors(symbols.indices)[:, 0]
        places = data.class_balanced(key, labels, 100_000)
        stream = data.pipeline(symbols, indices=symbols.indices[places], ...)

    Args:
      key: typed PRNG key.
      labels: ``[N]`` class of each image.
      n: number of draws.
    """
    labels = np.asarray(labels)
    classes, label = np.unique(labels, return_inverse=True)
    sizes = np.bincount(label)
    order = np.argsort(label, kind="stable")
    starts = np.cumsum(sizes) - sizes
    class_key, member_key = jax.random.split(key)
    chosen = np.asarray(jax.random.randint(class_key, (n,), 0, len(classes)))
    member = jax.random.randint(member_key, (n,), 0, jnp.asarray(sizes[chosen]))
    return order[starts[chosen] + np.asarray(member)]
