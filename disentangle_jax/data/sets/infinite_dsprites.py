"""Infinite dSprites: any number of random closed splines, rendered in pure JAX.

A shape is the region inside the curve r(θ), a closed cubic spline (Catmull-Rom) through
random radii at equal angles. All shapes have the same area, and the centroid is the
point that is placed, so that scale and position mean the same for every shape. The idea
of unlimited shapes is that of Dziadzio et al. 2023 (Disentangled Continual Learning);
curves and images are our own.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from disentangle_jax.data.catalogue import define
from disentangle_jax.data.dataset import Dataset
from disentangle_jax.data.publisher_files import Folder
from disentangle_jax.data.rendering import rendered_dataset

FEWEST_KNOTS, MOST_KNOTS = 5, 8
RADII = 0.25, 1.0  # Range of radii, before a shape is scaled to its area.
# Radius of the circle with the area of a shape at scale 1, as a part of the image.
RADIUS = 0.14
SCALES = 0.5, 1.0
CENTRES = 0.25, 0.75  # Range of positions, as parts of the image.
_FINE = 64  # Side below which pixels have four parts.
_STEPS = 128  # Angles at which area and centroid are integrated.


def _spline(radii: jax.Array, knots: jax.Array, turn: jax.Array) -> tuple:
    """Returns r and dr/dθ at angles.

    Args:
      radii: ``[8]`` radii, of which the first `knots` are used.
      knots: number of radii, which lie at equal angles.
      turn: ``[...]`` angles as parts of a turn, in [0, 1].
    """
    r, slope = jnp.zeros_like(turn), jnp.zeros_like(turn)
    # A sum over radii, not a matrix product: it fuses into the image's kernel.
    for knot in range(MOST_KNOTS):
        place = turn * knots - knot
        place = place - knots * jnp.round(place / knots)  # Around the circle.
        t = jnp.abs(place)
        far = jnp.where(t < 2, 2 - 4 * t + 2.5 * t**2 - 0.5 * t**3, 0)
        weight = jnp.where(t < 1, 1 - 2.5 * t**2 + 1.5 * t**3, far)
        far = jnp.where(t < 2, -4 + 5 * t - 1.5 * t**2, 0)
        change = jnp.where(t < 1, -5 * t + 4.5 * t**2, far) * jnp.sign(place)
        radius = jnp.where(knot < knots, radii[knot], 0)
        r, slope = r + radius * weight, slope + radius * change
    return r, slope * (knots / (2 * np.pi))


def _shape(key: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Returns ``(radii [8], knots, centroid [2])`` of a random shape of area π."""
    knots_key, radii_key = jax.random.split(key)
    knots = jax.random.randint(knots_key, (), FEWEST_KNOTS, MOST_KNOTS + 1)
    low, high = RADII
    radii = jax.random.uniform(radii_key, (MOST_KNOTS,), minval=low, maxval=high)
    turn = jnp.arange(_STEPS) / _STEPS
    r, _ = _spline(radii, knots, turn)
    size = jnp.sqrt(jnp.mean(r**2))  # The area is the mean of π r².
    radii, r = radii / size, r / size
    angle = 2 * np.pi * turn
    x, y = (2 / 3 * jnp.mean(r**3 * f(angle)) for f in (jnp.cos, jnp.sin))
    return radii, knots, jnp.stack([x, y])


def _placed(factors: jax.Array, *, sizes: tuple, side: int, seed: int) -> tuple:
    """Returns the shape and the pose of ``factors [5]``, in pixels."""
    shape = _shape(jax.random.fold_in(jax.random.key(seed), factors[0]))
    scale = jnp.asarray(np.linspace(*SCALES, sizes[1]), jnp.float32)[factors[1]]
    angle = factors[2] * (2 * np.pi / sizes[2])
    x, y = (
        jnp.asarray(side * np.linspace(*CENTRES, sizes[k]), jnp.float32)[factors[k]]
        for k in (3, 4)
    )
    return *shape, scale * RADIUS * side, jnp.sin(angle), jnp.cos(angle), x, y


def _draw(placed: tuple, place: jax.Array, *, side: int, parts: int) -> jax.Array:
    """Returns one image in [0, 1], ``[side, side]``.

    Args:
      placed: a shape and its pose, of `_placed`.
      place: ``[2]``, where in each pixel the image is evaluated (0.5 is the centre).
      side: height and width.
      parts: number of places per pixel along each axis.
    """
    radii, knots, centroid, unit, sin, cos, x_centre, y_centre = placed
    pixels = np.arange(side, dtype=np.float32)
    x = ((pixels + place[0] - x_centre) / unit)[None, :]
    # Upwards, as angles turn to the left.
    y = ((y_centre - pixels - place[1]) / unit)[:, None]
    across, along = cos * x + sin * y + centroid[0], cos * y - sin * x + centroid[1]
    turn = jnp.arctan2(along, across) / (2 * np.pi)
    r, slope = _spline(radii, knots, turn - jnp.floor(turn))
    # The distance to the curve, in parts of a pixel, is the share that is inside.
    inside = (r - jnp.sqrt(across**2 + along**2)) / jnp.sqrt(1 + (slope / r) ** 2)
    return jnp.clip(0.5 + parts * unit * inside, 0, 1)


def _render(factors: ArrayLike, *, sizes: tuple, side: int, seed: int) -> jax.Array:
    """Renders images, uint8 ``[n, side, side, 1]``, of ``factors [n, 5]``; pure JAX."""
    posed = functools.partial(_placed, sizes=sizes, side=side, seed=seed)
    placed = jax.vmap(posed)(jnp.asarray(factors, jnp.int32))
    # Otherwise XLA computes the shape anew for every pixel.
    placed = jax.lax.optimization_barrier(placed)
    # An edge is taken as straight inside a pixel; small images have four parts in each.
    parts = 2 if side < _FINE else 1
    places = (np.indices((parts, parts)).reshape(2, -1).T + np.float32(0.5)) / parts
    draw = functools.partial(_draw, side=side, parts=parts)
    over_parts = jax.vmap(draw, (None, 0))
    images = jax.vmap(lambda one: over_parts(one, jnp.asarray(places)).mean(0))(placed)
    return jnp.round(images * 255).astype(jnp.uint8)[..., None]


@define(
    factors={"shape": 10, "scale": 6, "orientation": 40, "x": 32, "y": 32},
    note="all numbers are options",
    image_shape=(64, 64, 1),
    size="2,457,600 (245,760 per shape)",
    licence="Apache-2.0",
)
def infinite_dsprites(
    *,
    data_dir: Folder = None,
    split: str = "train",
    shapes: int = 10,
    scales: int = 6,
    orientations: int = 40,
    positions: int = 32,
    seed: int = 0,
    size: int = 64,
) -> Dataset:
    """Infinite dSprites: white random shapes on black, with antialiased edges.

    Shape ``i`` of a seed is the same whatever the number of shapes. The angles divide
    a turn into equal parts, so that, unlike in dSprites, no two are equal. Shapes lie
    inside the image at every position.

    Args:
      data_dir: unused, as no file is read.
      split: as in ``data.load``.
      shapes: number of shapes.
      scales: number of scales from 0.5 to 1.
      orientations: number of angles.
      positions: number of positions along x and along y.
      seed: seed of the shapes.
      size: height and width of the images, which are rendered at this size.
    """
    del data_dir
    sizes = shapes, scales, orientations, positions, positions
    options = dict(shapes=shapes, scales=scales, orientations=orientations,
                   positions=positions, size=size, seed=seed)  # fmt: skip
    for name, value in options.items():
        lowest = {"size": 8, "seed": 0}.get(name, 1)
        if not isinstance(value, int) or isinstance(value, bool) or value < lowest:
            raise ValueError(
                f"infinite_dsprites: `{name}` must be an integer of at least {lowest}, "
                f"got {value!r}."
            )
    if np.prod(sizes, dtype=float) >= 2**31:
        raise ValueError(
            f"infinite_dsprites: `shapes` must keep the number of images below 2³¹, "
            f"got {shapes} with {sizes[1:]} other values. Choose fewer scales, "
            "orientations or positions."
        )
    described = dataclasses.replace(
        infinite_dsprites.description,
        factors=dict(zip(infinite_dsprites.description.factors, sizes)),
        image_shape=(size, size, 1),
    )
    render = functools.partial(_render, sizes=sizes, side=size, seed=seed)
    return rendered_dataset(described, render, split)
