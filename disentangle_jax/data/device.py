"""Samples datasets on the accelerator, inside a training step."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from disentangle_jax.data.dataset import Dataset
from disentangle_jax.data.pairing import pair_factors
from disentangle_jax.fusion import stored


def unpack_bits(packed: jax.Array) -> jax.Array:
    """Returns bits, uint8 ``[..., 8 n]`` of 0 and 1, of bytes ``[..., n]``.

    The first pixel is the highest bit, as in ``numpy.packbits``.
    """
    shifts = jnp.arange(7, -1, -1, dtype=jnp.uint8)
    bits = (packed[..., None] >> shifts.reshape((1,) * packed.ndim + (8,))) & 1
    return bits.reshape(*packed.shape[:-1], -1)


Draw = Callable[[jax.Array, int, dict], dict]


def device_sampler(
    dataset: Dataset, *, pairs: int | str | None = None
) -> tuple[Draw, dict]:
    """Returns a sampler for use inside a jitted step, and the arrays it reads.

    Nothing is streamed: rendered datasets are rendered on the device, black-and-white
    images lie there as packed bits (dSprites in 377 MB), others as bytes; a dataset's
    noise is drawn anew. The arrays are returned separately so that the step can take
    them as arguments (in a closure they would be constants of the program);
    ``device_put`` may replicate them::

        draw, arrays = data.device_sampler(dataset)
        batch = jax.jit(draw, static_argnums=1)(key, 64, arrays)

    Args:
      dataset: a rendered dataset, or one that lies in memory as a whole.
      pairs: how many factors the partner of each image differs in, as ``k`` in
        ``data.pair_factors``; None for no partners.

    Returns:
      ``(draw, arrays)`` with ``draw(key, batch_size, arrays) -> {"image": uint8
      [B, H, W, C], "index": int32 [B]}``, drawn uniformly with replacement from
      ``dataset.indices``; with `pairs` also ``image2`` and ``index2``, the same pairs
      that ``dataset.sample_pairs`` draws with that key.
    """
    images, arrays = _stored_images(dataset)
    count = len(dataset.indices)
    everything = count == len(dataset)
    if not everything:
        arrays["indices"] = jnp.asarray(dataset.indices, jnp.int32)

    def seen(key: jax.Array, index: jax.Array, arrays: dict) -> jax.Array:
        plain = images(index, arrays)
        if dataset.noise is not None:
            plain = jax.vmap(dataset.noise)(jax.random.split(key, len(index)), plain)
        # Every reader of the images would otherwise render them again.
        return stored(dataset.shrink(plain), index[0] >= 0)

    def draw(key: jax.Array, batch_size: int, arrays: dict) -> dict:
        index = jax.random.randint(key, (batch_size,), 0, count, jnp.int32)
        if not everything:
            index = arrays["indices"][index]
        image = seen(jax.random.fold_in(key, 0), index, arrays)
        return {"image": image, "index": index}

    if pairs is None:
        return draw, arrays
    if not dataset.is_grid:
        raise ValueError(
            "device_sampler: `pairs` need a complete grid of factors, which "
            f"{dataset.name} is not."
        )
    if not everything:
        _check_partners(dataset, pairs)
        arrays["inside"] = jnp.asarray(dataset.inside())

    def draw_pairs(key: jax.Array, batch_size: int, arrays: dict) -> dict:
        first_key, partner_key = jax.random.split(key)
        first = draw(first_key, batch_size, arrays)
        second = _partners(
            partner_key, dataset, first["index"], pairs, arrays.get("inside")
        )
        image = seen(jax.random.fold_in(key, 1), second, arrays)
        return {**first, "image2": image, "index2": second}

    return draw_pairs, arrays


def _stored_images(
    dataset: Dataset,
) -> tuple[Callable[[jax.Array, dict], jax.Array], dict]:
    """Returns ``(index, arrays) -> images`` as they are stored, and the arrays."""
    shape = dataset.stored_shape
    render = dataset.render
    if render is not None:

        def rendered(index: jax.Array, arrays: dict) -> jax.Array:
            del arrays
            factors = jnp.stack(jnp.unravel_index(index, dataset.factor_sizes), axis=-1)
            # Every pixel would otherwise divide the index again.
            return render(stored(factors, index[0] >= 0))

        return rendered, {}
    if dataset.packed is not None:

        def unpacked(index: jax.Array, arrays: dict) -> jax.Array:
            bits = unpack_bits(arrays["packed"][index])
            bits = bits.reshape(len(index), *shape[:2], -1) * jnp.uint8(255)
            return jnp.broadcast_to(bits, (len(index), *shape))

        return unpacked, {"packed": jnp.asarray(dataset.packed)}
    if dataset.in_memory is not None:
        held = {"images": jnp.asarray(dataset.in_memory)}
        return lambda index, arrays: arrays["images"][index], held
    raise ValueError(
        "device_sampler: `dataset` must be rendered or lie in memory as a whole, "
        f"and {dataset.name} is read from its files. Stream it with data.pipeline."
    )


def _partners(
    key: jax.Array,
    dataset: Dataset,
    indices: jax.Array,
    k: int | str,
    inside: jax.Array | None,
) -> jax.Array:
    """Returns the partners ``[n]`` that ``dataset.partners`` draws, by pure JAX.

    Args:
      key: typed PRNG key.
      dataset: a grid.
      indices: ``[n]`` first images.
      k: as in ``data.pair_factors``.
      inside: ``[N]`` bool, which images may be partners; None for all. Those outside
        are drawn again.
    """
    sizes, copies = dataset.factor_sizes, dataset.copies
    factors = jnp.stack(jnp.unravel_index(indices // copies, sizes), axis=-1)

    def drawn(attempt: int | jax.Array) -> jax.Array:
        pair_key, copy_key = jax.random.split(jax.random.fold_in(key, attempt))
        partner, _ = pair_factors(pair_key, factors, sizes, k=k)
        copy = jax.random.randint(copy_key, indices.shape, 0, copies)
        place = jnp.ravel_multi_index(tuple(partner.T), sizes, mode="clip")
        return place * copies + copy

    if inside is None:
        return drawn(0)

    def again(found: tuple) -> tuple:
        attempt, partners = found
        return attempt + 1, jnp.where(inside[partners], partners, drawn(attempt))

    def some_outside(found: tuple) -> jax.Array:
        return ~inside[found[1]].all()

    return jax.lax.while_loop(some_outside, again, (1, drawn(0)))[1]


def _check_partners(dataset: Dataset, k: int | str) -> None:
    """Raises where an image has no partner in the dataset: the draw would not end."""
    if k == "dlib":
        return  # Factors may keep their values.
    inside = dataset.inside().reshape(*dataset.factor_sizes, -1).any(-1).astype(int)
    alone = inside.sum() == 1
    if k not in ("uniform", "laplace"):
        # The coefficient of t^k in the product over factors of 1 + t (A − 1), with A
        # the sum along a factor: how many images differ in exactly k factors.
        k = int(k)
        differing = [inside] + [np.zeros_like(inside)] * k
        for axis in range(inside.ndim):
            moved = [d.sum(axis, keepdims=True) - d for d in differing[:-1]]
            differing = [inside, *map(np.add, differing[1:], moved)]
        alone = not differing[k][inside > 0].all()
    if alone:
        raise ValueError(
            f"device_sampler: `pairs` must allow a partner for each image of the "
            f"restricted {dataset.name}, got {k!r}."
        )


def device_bytes(dataset: Dataset) -> int | None:
    """Returns what ``device_sampler`` would keep on the device, in bytes.

    None where the dataset cannot be kept there. Pairs of a part of a dataset need one
    more byte per image.
    """
    if dataset.render is not None:
        held = 0
    elif dataset.packed is not None:
        held = dataset.packed.nbytes
    elif dataset.in_memory is not None:
        held = dataset.in_memory.nbytes
    else:
        return None
    whole = len(dataset.indices) == len(dataset)
    return held + (0 if whole else len(dataset.indices) * np.dtype(np.int32).itemsize)
