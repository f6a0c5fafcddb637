"""dSprites in colour, in noise, before The Scream, and as abstract scenes."""

import functools
import os

import numpy as np

from disentangle_jax.data import _dsprites, _files
from disentangle_jax.data._dataset import Dataset

SIZE = _dsprites.SIZE
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


def _to_bytes(image: np.ndarray) -> np.ndarray:
    return np.round(image * 255).astype(np.uint8)


def _coloured(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return _to_bytes(image / 255 * rng.uniform(0.5, 1.0, 3))


def _noisy(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return _to_bytes(np.minimum(image / 255 + rng.uniform(size=image.shape), 1.0))


def _before(
    scream: np.ndarray, image: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    rows, columns = np.array(scream.shape[:2]) - SIZE
    row, column = rng.integers(0, rows + 1), rng.integers(0, columns + 1)
    crop = scream[row : row + SIZE, column : column + SIZE]
    background = (crop + rng.uniform(size=3)) / 2
    return _to_bytes(np.where(image > 0, 1 - background, background))


def _variant(name: str, plain: Dataset, noise) -> Dataset:
    """``plain`` (one channel) as three channels under fresh noise."""
    varied = Dataset(
        name,
        image_shape=(SIZE, SIZE, 3),
        images=lambda indices: np.repeat(plain.images(indices), 3, axis=-1),
        factor_names=plain.factor_names,
        factor_sizes=plain.factor_sizes,
        factor_table=None if plain.is_grid else plain.factors(np.arange(len(plain))),
        noise=noise,
    )
    return varied.narrow(plain.indices)


def color_dsprites(
    *,
    data_dir: str | os.PathLike | None = None,
    split: str = "train",
    file: str | None = None,
) -> Dataset:
    """dSprites in a random colour: the sprite times U(0.5, 1) per channel.

    As in disentanglement_lib: fresh noise at every draw (see ``Dataset``'s ``noise``).

    Args:
      data_dir: as in ``dsprites``.
      split: ``"train"``, ``"validation"``, ``"test"`` or ``"all"``.
      file: as in ``dsprites``.
    """
    plain = _dsprites.dsprites(data_dir=data_dir, split=split, file=file)
    return _variant("color_dsprites", plain, _coloured)


def noisy_dsprites(
    *,
    data_dir: str | os.PathLike | None = None,
    split: str = "train",
    file: str | None = None,
) -> Dataset:
    """dSprites in noise: min(sprite + U(0, 1), 1) per pixel and channel.

    Args:
      data_dir: as in ``dsprites``.
      split: ``"train"``, ``"validation"``, ``"test"`` or ``"all"``.
      file: as in ``dsprites``.
    """
    plain = _dsprites.dsprites(data_dir=data_dir, split=split, file=file)
    return _variant("noisy_dsprites", plain, _noisy)


def scream_dsprites(
    *,
    data_dir: str | os.PathLike | None = None,
    split: str = "train",
    file: str | None = None,
) -> Dataset:
    """dSprites before The Scream: a random crop, inverted in the sprite.

    The painting is reduced to fit 350×274; the background is (crop + U(0, 1) per
    channel) / 2.

    Args:
      data_dir: folder with The_Scream.jpg and the file of ``dsprites``.
      split: ``"train"``, ``"validation"``, ``"test"`` or ``"all"``.
      file: as in ``dsprites``.
    """
    from PIL import Image

    path = _files.find("scream_dsprites", data_dir, ("The_Scream.jpg",))
    with _files.reading(path), Image.open(path) as picture:
        picture = picture.convert("RGB")
        picture.thumbnail(SCREAM_SIZE)
        scream = np.asarray(picture) / 255
    plain = _dsprites.dsprites(data_dir=data_dir, split=split, file=file)
    return _variant("scream_dsprites", plain, functools.partial(_before, scream))


def abstract_dsprites(
    *,
    data_dir: str | os.PathLike | None = None,
    split: str = "train",
    file: str | None = None,
) -> Dataset:
    """Abstract dSprites: a coloured sprite on a grey background.

    Factors: background 5, object colour 6, shape 3, scale 6, x 32, y 32. The
    orientation is no factor: image ``i`` shows combination ``i // 40`` at orientation
    ``i % 40``.

    Args:
      data_dir: as in ``dsprites``; the file must be a complete grid.
      split: ``"train"``, ``"validation"``, ``"test"`` or ``"all"``.
      file: as in ``dsprites``.
    """
    plain = _dsprites.dsprites(data_dir=data_dir, split="all", file=file)
    if not plain.is_grid:
        raise ValueError(
            "abstract_dsprites: `file` must hold a complete grid of factors, got "
            f"{len(plain)} images that are none."
        )
    shapes, scales, turns, xs, ys = plain.factor_sizes
    sizes = (len(GREYS), len(COLOURS), shapes, scales, xs, ys)

    def images(indices: np.ndarray) -> np.ndarray:
        combination, turn = np.divmod(indices, turns)
        grey, colour, shape, scale, x, y = np.unravel_index(combination, sizes)
        factors = np.stack([shape, scale, turn, x, y], axis=-1)
        sprites = plain.images(plain.index_of(factors)) > 0
        background = GREYS[grey][:, None, None, None]
        return _to_bytes(np.where(sprites, COLOURS[colour][:, None, None], background))

    return Dataset(
        "abstract_dsprites",
        image_shape=(SIZE, SIZE, 3),
        images=images,
        factor_names=("background", "object_color", "shape", "scale", "x", "y"),
        factor_sizes=sizes,
        copies=turns,
    ).split(split)
