"""A ray caster of the 3D Shapes scene, in pure JAX.

The three hues only change colours: an image is linear in the colours of sky, floor,
wall, object and highlight, with weights per pixel (the *layers*) that depend on scale,
shape and orientation alone. The 480 stacks of layers are cast once, antialiased; an
image is then one gather and a weighted sum.

The constants below were fitted to the publisher's animation of the dataset: 99.5 % of
its pixels show the same one of sky, wall, floor and object. Lengths are in units of the
object's size; y is up, the floor is y = 0, the object is at the origin.
"""

import colorsys
import functools
import itertools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from disentangle_jax.data.catalogue import define
from disentangle_jax.data.dataset import Dataset
from disentangle_jax.data.publisher_files import Folder
from disentangle_jax.data.rendering import rendered_dataset, rendering_of
from disentangle_jax.data.sets.shapes3d import SIZE, shapes3d
from disentangle_jax.types import Scalar

CUBE, CYLINDER, SPHERE, CAPSULE = range(4)

SAMPLES = 2  # Rays per pixel and axis.
HUES = np.array([colorsys.hsv_to_rgb(i / 10, 1.0, 1.0) for i in range(10)], np.float32)
SKY = np.array([0.600, 0.886, 0.976], np.float32)
SCALES = np.linspace(0.75, 1.25, 8, dtype=np.float32)
ANGLES = np.radians(np.linspace(-28.6, 28.6, 15)).astype(np.float32)

# The camera orbits the object and looks at its axis, 2 atan(1 / FOCAL) = 52° wide.
CAMERA_DISTANCE, CAMERA_HEIGHT, LOOK_AT_HEIGHT, FOCAL = 3.49, 1.13, 1.109, 2.04
FLOOR_HALF_WIDTH, WALL_HEIGHT = 4.78, 2.92
LIGHT = np.array([-1.8, 11.3, -0.2], np.float32)

# Objects at scale 1.
CUBE_HALF_WIDTH, CUBE_HEIGHT = 0.52, 1.032
CYLINDER_RADIUS, CYLINDER_HEIGHT = 0.556, 1.09
SPHERE_RADIUS = 0.631
CAPSULE_RADIUS, CAPSULE_HEIGHT = 0.478, 1.923

LAYERS = 5  # Sky, floor, wall, object, highlight.
LAYER_UNIT = 1 / 180  # Layers are stored as bytes and reach 1.35.

_NEAR = 1e-4
_TINY = 1e-6


class _Vector(NamedTuple):
    """Components as separate arrays, so that XLA fuses all operations of a ray."""

    x: jax.Array
    y: Scalar
    z: jax.Array

    def dot(self, other: "_Vector") -> jax.Array:
        return self.x * other.x + self.y * other.y + self.z * other.z

    def along(self, t: jax.Array, direction: "_Vector") -> "_Vector":
        return _Vector(*(o + t * d for o, d in zip(self, direction)))

    def unit(self) -> "_Vector":
        scale = jax.lax.rsqrt(self.dot(self))
        return _Vector(self.x * scale, self.y * scale, self.z * scale)


def _divide(numerator: Scalar, denominator: Scalar) -> jax.Array:
    safe = jnp.where(jnp.abs(denominator) < _TINY, _TINY, denominator)
    return numerator / safe


def _slab(
    origin: Scalar, direction: Scalar, low: Scalar, high: Scalar
) -> tuple[jax.Array, jax.Array]:
    """Returns where a ray enters and leaves the space between parallel planes."""
    a, b = _divide(low - origin, direction), _divide(high - origin, direction)
    return jnp.minimum(a, b), jnp.maximum(a, b)


def _first(t: jax.Array, valid: jax.Array) -> jax.Array:
    return jnp.where(valid & (t > _NEAR), t, jnp.inf)


def _hit_box(
    origin: _Vector, ray: _Vector, half: jax.Array, height: jax.Array
) -> tuple[jax.Array, _Vector]:
    x0, x1 = _slab(origin.x, ray.x, -half, half)
    y0, y1 = _slab(origin.y, ray.y, 0.0, height)
    z0, z1 = _slab(origin.z, ray.z, -half, half)
    enter = jnp.maximum(jnp.maximum(x0, y0), z0)
    leave = jnp.minimum(jnp.minimum(x1, y1), z1)
    by_x, by_y = enter == x0, enter == y0
    normal = _Vector(
        jnp.where(by_x, -jnp.sign(ray.x), 0.0),
        jnp.where(~by_x & by_y, -jnp.sign(ray.y), 0.0),
        jnp.where(~by_x & ~by_y, -jnp.sign(ray.z), 0.0),
    )
    return _first(enter, enter < leave), normal


def _hit_tube(
    origin: _Vector, ray: _Vector, radius: jax.Array, low: Scalar, high: Scalar
) -> tuple[jax.Array, _Vector]:
    """Intersects an upright cylinder between two heights, with closed ends."""
    a = ray.x**2 + ray.z**2
    b = origin.x * ray.x + origin.z * ray.z
    c = origin.x**2 + origin.z**2 - radius**2
    square = b * b - a * c
    root = jnp.sqrt(jnp.maximum(square, 0.0))
    side, back = _divide(-b - root, a), _divide(-b + root, a)
    end, far_end = _slab(origin.y, ray.y, low, high)
    enter = jnp.maximum(side, end)
    at = origin.along(enter, ray)
    on_end = end > side
    normal = _Vector(
        jnp.where(on_end, 0.0, at.x / radius),
        jnp.where(on_end, -jnp.sign(ray.y), 0.0),
        jnp.where(on_end, 0.0, at.z / radius),
    )
    inside = (square > 0) & (enter < jnp.minimum(back, far_end))
    return _first(enter, inside), normal


def _hit_ball(
    origin: _Vector, ray: _Vector, radius: jax.Array, height: jax.Array
) -> tuple[jax.Array, _Vector]:
    """Intersects a ball on the vertical axis; ``ray`` has unit length."""
    origin = origin._replace(y=origin.y - height)
    b = origin.dot(ray)
    square = b * b - origin.dot(origin) + radius**2
    t = -b - jnp.sqrt(jnp.maximum(square, 0.0))
    normal = _Vector(*(component / radius for component in origin.along(t, ray)))
    return _first(t, square > 0), normal


def _hit_capsule(
    origin: _Vector, ray: _Vector, radius: jax.Array, height: jax.Array
) -> tuple[jax.Array, _Vector]:
    low, high = radius, height - radius
    parts = (
        _hit_tube(origin, ray, radius, low, high),
        _hit_ball(origin, ray, radius, low),
        _hit_ball(origin, ray, radius, high),
    )
    t, normal = parts[0]
    for other_t, other_normal in parts[1:]:
        nearer = other_t < t
        t = jnp.where(nearer, other_t, t)
        normal = _Vector(
            *(jnp.where(nearer, o, n) for o, n in zip(other_normal, normal))
        )
    return t, normal


def _hit_object(
    origin: _Vector, ray: _Vector, shape: jax.Array, scale: jax.Array
) -> tuple[jax.Array, _Vector]:
    """Returns the distance to the object (infinite if missed) and its normal."""
    hits = {
        CUBE: _hit_box(origin, ray, CUBE_HALF_WIDTH * scale, CUBE_HEIGHT * scale),
        CYLINDER: _hit_tube(
            origin, ray, CYLINDER_RADIUS * scale, 0.0, CYLINDER_HEIGHT * scale
        ),
        SPHERE: _hit_ball(origin, ray, SPHERE_RADIUS * scale, SPHERE_RADIUS * scale),
        CAPSULE: _hit_capsule(
            origin, ray, CAPSULE_RADIUS * scale, CAPSULE_HEIGHT * scale
        ),
    }
    t, normal = hits[CUBE]
    for other in (CYLINDER, SPHERE, CAPSULE):
        chosen = shape == other
        other_t, other_normal = hits[other]
        t = jnp.where(chosen, other_t, t)
        normal = _Vector(
            *(jnp.where(chosen, o, n) for o, n in zip(other_normal, normal))
        )
    return t, normal


def _towards_light(point: _Vector) -> _Vector:
    return _Vector(*(light - p for light, p in zip(LIGHT, point))).unit()


def _cast(scale: jax.Array, shape: jax.Array, angle: jax.Array) -> jax.Array:
    """Returns the layers ``[64, 64, 5]`` of one arrangement of object and camera."""
    pixels = SIZE * SAMPLES
    grid = (np.arange(pixels, dtype=np.float32) + 0.5) / pixels * 2 - 1
    right = np.broadcast_to(grid[None, :] / FOCAL, (pixels, pixels))
    up = np.broadcast_to(-grid[:, None] / FOCAL, (pixels, pixels))
    tilt = np.arctan2(LOOK_AT_HEIGHT - CAMERA_HEIGHT, CAMERA_DISTANCE)
    ahead = np.cos(tilt) - up * np.sin(tilt)
    sin, cos = jnp.sin(angle), jnp.cos(angle)
    ray = _Vector(
        right * cos - ahead * sin,
        jnp.asarray(np.sin(tilt) + up * np.cos(tilt), jnp.float32),
        -right * sin - ahead * cos,
    ).unit()
    eye = _Vector(CAMERA_DISTANCE * sin, CAMERA_HEIGHT, CAMERA_DISTANCE * cos)

    # Floor and walls, seen from inside.
    floor_t = jnp.where(ray.y < 0, _divide(-eye.y, ray.y), jnp.inf)
    side_t = _divide(jnp.sign(ray.x) * FLOOR_HALF_WIDTH - eye.x, ray.x)
    back_t = _divide(jnp.sign(ray.z) * FLOOR_HALF_WIDTH - eye.z, ray.z)
    wall_t = jnp.minimum(side_t, back_t)
    on_floor = floor_t < wall_t
    inside_t = jnp.where(on_floor, floor_t, wall_t)
    at = eye.along(inside_t, ray)
    on_sky = ~on_floor & (at.y > WALL_HEIGHT)

    # The floor is brightest left of and behind the object.
    pool = (at.x + 1.91) ** 2 + (at.z + 0.79) ** 2
    lit = 0.43 + 0.82 * jnp.exp(-pool / (2 * 3.13**2))
    shadow_t, _ = _hit_object(
        at._replace(y=at.y + _NEAR), _towards_light(at), shape, scale
    )
    floor_light = jnp.where(jnp.isfinite(shadow_t), 0.32, lit)
    back_light = jnp.minimum(1.05, 1.0 - 0.014 * at.x)
    side_light = jnp.where(at.x < 0, 0.85, 0.75) + 0.03 * jnp.minimum(at.z, 0.0)
    wall_light = jnp.where(side_t < back_t, side_light, back_light)

    object_t, normal = _hit_object(eye, ray, shape, scale)
    on_object = object_t < inside_t
    towards_eye = jnp.maximum(-normal.dot(ray), 0.0)
    surface = eye.along(jnp.where(on_object, object_t, 0.0), ray)
    towards_light = jnp.maximum(normal.dot(_towards_light(surface)), 0.0)
    object_light = 0.545 + 0.40 * towards_eye + 0.67 * towards_light
    highlight = 0.09 * jnp.minimum(towards_light / 0.08, 1.0)

    behind = ~on_object
    layers = jnp.stack(
        [
            behind & on_sky,
            jnp.where(behind & on_floor, floor_light, 0.0),
            jnp.where(behind & ~on_floor & ~on_sky, wall_light, 0.0),
            jnp.where(on_object, object_light, 0.0),
            jnp.where(on_object, highlight, 0.0),
        ],
        axis=-1,
    )
    return layers.reshape(SIZE, SAMPLES, SIZE, SAMPLES, LAYERS).mean((1, 3))


@functools.cache
def _layer_table() -> np.ndarray:
    """Returns all layers, uint8 ``[480, 64 · 64, 5]`` in units of ``LAYER_UNIT``."""

    @jax.jit
    def cast(scale: jax.Array, shape: jax.Array, angle: jax.Array) -> jax.Array:
        layers = _cast(scale, shape, angle).reshape(SIZE * SIZE, LAYERS)
        return jnp.clip(jnp.round(layers / LAYER_UNIT), 0, 255).astype(jnp.uint8)

    arrangements = itertools.product(SCALES, range(4), ANGLES)
    # The table is a constant, even if the first image is rendered inside a trace.
    with jax.ensure_compile_time_eval():
        return np.stack([cast(*arrangement) for arrangement in arrangements])


def render(factors: ArrayLike) -> jax.Array:
    """Renders images, uint8 ``[n, 64, 64, 3]``, of ``factors [n, 6]``; pure JAX."""
    factors = jnp.asarray(factors, jnp.int32)
    floor, wall, paint, scale, shape, orientation = factors.T
    *_, shapes, orientations = shapes3d.description.factor_sizes
    place = (scale * shapes + shape) * orientations + orientation
    layers = jnp.asarray(_layer_table())[place].astype(jnp.float32)
    hues = jnp.asarray(HUES)
    n = factors.shape[0]
    colours = (
        jnp.broadcast_to(SKY, (n, 3)),
        hues[floor],
        hues[wall],
        hues[paint],
        jnp.ones((n, 3)),
    )
    light = sum(
        layers[:, :, layer, None] * colour[:, None, :]
        for layer, colour in enumerate(colours)
    )
    image = jnp.minimum(jnp.round(light * (255 * LAYER_UNIT)), 255)
    return image.astype(jnp.uint8).reshape(n, SIZE, SIZE, 3)


@define(**rendering_of(shapes3d.description))
def rendered_shapes3d(*, data_dir: Folder = None, split: str = "train") -> Dataset:
    """Our rendering of ``shapes3d``, without a download (``data_dir`` is not used)."""
    del data_dir
    return rendered_dataset(rendered_shapes3d.description, render, split)
