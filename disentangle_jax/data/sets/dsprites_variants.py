"""Variants of dSprites: coloured, noisy, on a painting, abstract scenes."""

import functools
from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from disentangle_jax.data.catalogue import DatasetDescription, define
from disentangle_jax.data.dataset import Dataset
from disentangle_jax.data.noise import uniform
from disentangle_jax.data.publisher_files import Folder, find, reading
from disentangle_jax.data.sets.dsprites import SIZE, SOURCE, dsprites

SCREAM_SIZE = 350, 274
GREYS = np.linspace(0.0, 1.0, 5)
# Six colours of equal lightness and evenly spaced hue in the HUSL colour space.
COLOURS = np.array(
    [
        (0.9678, 0.4413, 0.5358),
        (0.7350, 0.5953, 0.1944),
        (0.3127, 0.6929, 0.1924),
        (0.2104, 0.6773, 0.6434),
        (0.2330, 0.6396, 0.9261),
        (0.9083, 0.4020, 0.9577),
    ]
)
_FACTORS = dsprites.description.factors
_VARIANT = {
    **SOURCE,
    "factors": _FACTORS,
    "image_shape": (SIZE, SIZE, 3),
    "size": dsprites.description.size,
}


_Array = TypeVar("_Array", jax.Array, np.ndarray)


def _to_bytes(image: _Array) -> _Array:
    return (image * 255).round().astype(np.uint8)


def _coloured(key: jax.Array, image: jax.Array) -> jax.Array:
    return _to_bytes(image / 255 * jax.random.uniform(key, (1, 1, 3), minval=0.5))


def _noisy(key: jax.Array, image: jax.Array) -> jax.Array:
    return _to_bytes(jnp.minimum(image / 255 + uniform(key, image.shape), 1))


def _on_scream(scream: np.ndarray, key: jax.Array, image: jax.Array) -> jax.Array:
    place_key, colour_key = jax.random.split(key)
    last = jnp.array(scream.shape[:2]) - SIZE
    row, column = jax.random.randint(place_key, (2,), 0, last + 1)
    crop = jax.lax.dynamic_slice(scream, (row, column, 0), (SIZE, SIZE, 3))
    background = (crop + jax.random.uniform(colour_key, (1, 1, 3))) / 2
    return _to_bytes(jnp.where(image > 0, 1 - background, background))


def _variant(
    description: DatasetDescription, plain: Dataset, noise: Callable
) -> Dataset:
    """Returns ``plain`` (one channel) with three channels and noise."""
    varied = description.dataset(
        lambda indices: np.repeat(plain.images(indices), 3, axis=-1),
        factor_sizes=plain.factor_sizes,
        factor_table=None if plain.is_grid else plain.factors(np.arange(len(plain))),
        noise=noise,
        packed=plain.packed,
    )
    return varied.narrow(plain.indices)


@define(**_VARIANT)
def color_dsprites(
    *, data_dir: Folder = None, split: str = "train", file: str | None = None
) -> Dataset:
    """dSprites in a random colour: the sprite times U(0.5, 1) per channel.

    As in disentanglement_lib, every draw has new noise (see ``Dataset``'s ``noise``).
    The arguments are those of ``dsprites``.
    """
    plain = dsprites(data_dir=data_dir, split=split, file=file)
    return _variant(color_dsprites.description, plain, _coloured)


@define(**_VARIANT)
def noisy_dsprites(
    *, data_dir: Folder = None, split: str = "train", file: str | None = None
) -> Dataset:
    """dSprites in noise: min(sprite + U(0, 1), 1) per pixel and channel.

    The arguments are those of ``dsprites``.
    """
    plain = dsprites(data_dir=data_dir, split=split, file=file)
    return _variant(noisy_dsprites.description, plain, _noisy)


@define(
    **{
        **_VARIANT,
        "licence": f"{SOURCE['licence']}; the painting is in the public domain",
        "fetch": f"{SOURCE['fetch']} and "
        "https://upload.wikimedia.org/wikipedia/commons/f/f4/The_Scream.jpg",
        "files": f"{SOURCE['files']} and The_Scream.jpg",
        "patterns": ("The_Scream.jpg",),
    }
)
def scream_dsprites(
    *, data_dir: Folder = None, split: str = "train", file: str | None = None
) -> Dataset:
    """dSprites on The Scream: a random crop of the painting, inverted in the sprite.

    The painting is reduced to fit 350×274; the background is (crop + U(0, 1) per
    channel) / 2.

    Args:
      data_dir: folder with The_Scream.jpg and the file of ``dsprites``.
      split: as in ``data.load``.
      file: as in ``dsprites``.
    """
    from PIL import Image

    path = find(scream_dsprites.description, data_dir)
    with reading(path), Image.open(path) as painting:
        picture = painting.convert("RGB")
        picture.thumbnail(SCREAM_SIZE)
        scream = np.asarray(picture, np.float32) / 255
    plain = dsprites(data_dir=data_dir, split=split, file=file)
    noise = functools.partial(_on_scream, scream)
    return _variant(scream_dsprites.description, plain, noise)


@define(
    **SOURCE,
    factors={
        "background": len(GREYS),
        "object_color": len(COLOURS),
        **{name: _FACTORS[name] for name in ("shape", "scale", "x", "y")},
    },
    image_shape=(SIZE, SIZE, 3),
    size="552,960 combinations in 40 orientations",
)
def abstract_dsprites(
    *, data_dir: Folder = None, split: str = "train", file: str | None = None
) -> Dataset:
    """Abstract dSprites: a coloured sprite on a grey background.

    The orientation is not a factor: image ``i`` shows combination ``i // 40`` in
    orientation ``i % 40``.

    Args:
      data_dir: as in ``dsprites``; the file must hold a complete grid.
      split: as in ``data.load``.
      file: as in ``dsprites``.
    """
    plain = dsprites(data_dir=data_dir, split="all", file=file)
    if not plain.is_grid:
        raise ValueError(
            "abstract_dsprites: `file` must hold a complete grid of factors, got "
            f"{len(plain)} images that are not one."
        )
    shapes, scales, orientations, xs, ys = plain.factor_sizes
    sizes = (len(GREYS), len(COLOURS), shapes, scales, xs, ys)

    def images(indices: np.ndarray) -> np.ndarray:
        combination, orientation = np.divmod(indices, orientations)
        grey, colour, shape, scale, x, y = np.unravel_index(combination, sizes)
        factors = np.stack([shape, scale, orientation, x, y], axis=-1)
        sprites = plain.images(plain.index_of(factors)) > 0
        background = GREYS[grey][:, None, None, None]
        return _to_bytes(np.where(sprites, COLOURS[colour][:, None, None], background))

    return abstract_dsprites.description.dataset(
        images, factor_sizes=sizes, copies=orientations
    ).split(split)
