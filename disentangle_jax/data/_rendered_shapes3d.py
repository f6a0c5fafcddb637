"""A ray caster of the 3D Shapes scene, in pure JAX."""

import colorsys
import functools
import os

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from disentangle_jax.data import _rendering
from disentangle_jax.data._dataset import Dataset

FACTOR_NAMES = (
    "floor_hue",
    "wall_hue",
    "object_hue",
    "scale",
    "shape",
    "orientation",
)
FACTOR_SIZES = (10, 10, 10, 8, 4, 15)
SIZE = 64

HUES = np.array([colorsys.hsv_to_rgb(i / 10, 1.0, 1.0) for i in range(10)], np.float32)
SCALES = np.linspace(0.75, 1.25, 8, dtype=np.float32)
ANGLES = np.radians(np.linspace(-30.0, 30.0, 15)).astype(np.float32)

SKY = np.array([0.60, 0.88, 0.97], np.float32)
ROOM = 4.0
WALL_HEIGHT = 2.4
CAMERA = 5.0, 1.75
LOOK_AT = 1.35
FOCAL = 1.5
LIGHT = np.array([-0.5, 1.6, -0.25], np.float32)
LIGHT = LIGHT / np.linalg.norm(LIGHT)


def _object_hit(origin, direction, shape, size):
    """Nearest hit ``(t, normal)`` of rays with the object; ``t`` infinite for none."""
    ox, oy, oz = origin
    dx, dy, dz = direction
    half = 0.5 * size
    far = jnp.inf

    def safe(x):
        return jnp.where(jnp.abs(x) < 1e-6, 1e-6, x)

    # Cube: slabs.
    def slab(o, d, low, high):
        a, b = (low - o) / safe(d), (high - o) / safe(d)
        return jnp.minimum(a, b), jnp.maximum(a, b)

    x0, x1 = slab(ox, dx, -half, half)
    z0, z1 = slab(oz, dz, -half, half)
    y0, y1 = slab(oy, dy, 0.0, size)
    enter = jnp.maximum(jnp.maximum(x0, z0), y0)
    leave = jnp.minimum(jnp.minimum(x1, z1), y1)
    cube_t = jnp.where((enter < leave) & (enter > 1e-4), enter, far)
    is_x, is_y = enter == x0, enter == y0
    cube_n = (
        jnp.where(is_x, -jnp.sign(dx), 0.0),
        jnp.where(~is_x & is_y, -jnp.sign(dy), 0.0),
        jnp.where(~is_x & ~is_y, -jnp.sign(dz), 0.0),
    )

    # Upright tube of radius `half`, common to cylinder and capsule.
    a = safe(dx * dx + dz * dz)
    b = ox * dx + oz * dz
    c = ox * ox + oz * oz - half * half
    root = b * b - a * c
    tube_root = jnp.sqrt(jnp.maximum(root, 0.0))
    t0, t1 = (-b - tube_root) / a, (-b + tube_root) / a
    enter = jnp.maximum(t0, y0)
    leave = jnp.minimum(t1, y1)
    inside = (root > 0) & (enter < leave) & (enter > 1e-4)
    cylinder_t = jnp.where(inside, enter, far)
    on_cap = y0 > t0
    cylinder_n = (
        jnp.where(on_cap, 0.0, (ox + enter * dx) / half),
        jnp.where(on_cap, -jnp.sign(dy), 0.0),
        jnp.where(on_cap, 0.0, (oz + enter * dz) / half),
    )

    def ball(centre):
        py = oy - centre
        b = ox * dx + py * dy + oz * dz
        c = ox * ox + py * py + oz * oz - half * half
        root = b * b - c
        t = -b - jnp.sqrt(jnp.maximum(root, 0.0))
        t = jnp.where((root > 0) & (t > 1e-4), t, far)
        s = jnp.where(jnp.isfinite(t), t, 0.0)
        return t, ((ox + s * dx) / half, (py + s * dy) / half, (oz + s * dz) / half)

    sphere_t, sphere_n = ball(half)
    top = 2 * size - half
    upper_t, upper_n = ball(top)
    y = oy + t0 * dy
    tube_t = jnp.where((root > 0) & (y > half) & (y < top) & (t0 > 1e-4), t0, far)
    tube_n = (ox + t0 * dx) / half, jnp.zeros_like(t0), (oz + t0 * dz) / half
    capsule_t = jnp.minimum(jnp.minimum(sphere_t, upper_t), tube_t)
    capsule_n = tuple(
        jnp.where(capsule_t == tube_t, c, jnp.where(capsule_t == upper_t, u, s))
        for c, u, s in zip(tube_n, upper_n, sphere_n)
    )

    def pick(*of_shape):
        cube, cylinder, sphere, capsule = of_shape
        round_one = jnp.where(shape == 1, cylinder, sphere)
        return jnp.where(shape == 0, cube, jnp.where(shape == 3, capsule, round_one))

    t = pick(cube_t, cylinder_t, sphere_t, capsule_t)
    normal = tuple(map(pick, cube_n, cylinder_n, sphere_n, capsule_n))
    return t, normal


def _cast(factors: jax.Array) -> jax.Array:
    """Renders one image ``[64, 64, 3]`` in [0, 1] of ``factors [6]``."""
    floor = jnp.asarray(HUES)[factors[0]]
    wall = jnp.asarray(HUES)[factors[1]]
    paint = jnp.asarray(HUES)[factors[2]]
    size = jnp.asarray(SCALES)[factors[3]]
    shape = factors[4]
    angle = jnp.asarray(ANGLES)[factors[5]]

    distance, height = CAMERA
    sin, cos = jnp.sin(angle), jnp.cos(angle)
    eye = distance * sin, height, distance * cos
    grid = (np.arange(SIZE, dtype=np.float32) + 0.5) / SIZE * 2 - 1
    u = jnp.broadcast_to(grid[None, :] / FOCAL, (SIZE, SIZE))
    v = jnp.broadcast_to(-grid[:, None] / FOCAL, (SIZE, SIZE))
    tilt = np.arctan2(LOOK_AT - height, distance)
    forward = np.cos(tilt) - v * np.sin(tilt)
    dy = np.sin(tilt) + v * np.cos(tilt)
    dx = -forward * sin + u * cos
    dz = -forward * cos - u * sin
    length = jnp.sqrt(dx * dx + dy * dy + dz * dz)
    dx, dy, dz = dx / length, dy / length, dz / length

    # The room from inside: the nearest of floor and four walls.
    floor_t = jnp.where(dy < -1e-6, -height / jnp.minimum(dy, -1e-6), jnp.inf)
    wall_x = (jnp.sign(dx) * ROOM - eye[0]) / jnp.where(jnp.abs(dx) < 1e-6, 1e-6, dx)
    wall_z = (jnp.sign(dz) * ROOM - eye[2]) / jnp.where(jnp.abs(dz) < 1e-6, 1e-6, dz)
    wall_t = jnp.minimum(wall_x, wall_z)
    on_floor = floor_t < wall_t
    t = jnp.where(on_floor, floor_t, wall_t)
    x, y, z = eye[0] + t * dx, height + t * dy, eye[2] + t * dz
    is_sky = ~on_floor & (y > WALL_HEIGHT)

    shadow_t, _ = _object_hit((x, y + 1e-3, z), tuple(LIGHT), shape, size)
    lit = jnp.where(jnp.isfinite(shadow_t), 0.33, 1.0)
    floor_shade = lit * (1.2 - 0.12 * x + 0.05 * z).clip(0.3, 1.3)
    wall_shade = jnp.where(wall_x < wall_z, 0.7, 1.0)
    image = jnp.where(
        on_floor[..., None],
        floor_shade[..., None] * floor[None, None],
        wall_shade[..., None] * wall[None, None],
    )
    image = jnp.where(is_sky[..., None], SKY[None, None], image)

    object_t, (nx, ny, nz) = _object_hit(eye, (dx, dy, dz), shape, size)
    facing = -(nx * dx + ny * dy + nz * dz)
    glow = (nx * LIGHT[0] + ny * LIGHT[1] + nz * LIGHT[2]).clip(0.0)
    shade = 0.55 + 0.4 * facing + 0.1 * glow
    surface = shade[..., None] * paint[None, None] + 0.12 * glow[..., None]
    hit = jnp.isfinite(object_t) & (object_t < t)
    return jnp.where(hit[..., None], surface, image).clip(0.0, 1.0)


@jax.jit
def render(factors: ArrayLike) -> jax.Array:
    """Renders images, uint8 ``[n, 64, 64, 3]``, of factors ``[n, 6]``; pure JAX."""
    factors = jnp.asarray(factors, jnp.int32)
    images = jax.vmap(_cast)(factors)
    return jnp.round(images * 255).astype(jnp.uint8)


def rendered_shapes3d(
    *, data_dir: str | os.PathLike | None = None, split: str = "train"
) -> Dataset:
    """Our rendering of 3D Shapes: 480,000 images of 64×64×3, no download.

    Factors: floor hue 10, wall hue 10, object hue 10, scale 8, shape 4 (cube,
    cylinder, sphere, capsule), orientation 15.

    Args:
      data_dir: unused, as nothing is read.
      split: ``"train"``, ``"validation"``, ``"test"`` or ``"all"``.
    """
    del data_dir
    return Dataset(
        "rendered_shapes3d",
        image_shape=(SIZE, SIZE, 3),
        images=functools.partial(
            _rendering.images_by_index, render, FACTOR_SIZES, chunk=128
        ),
        factor_names=FACTOR_NAMES,
        factor_sizes=FACTOR_SIZES,
        render=render,
    ).split(split)
