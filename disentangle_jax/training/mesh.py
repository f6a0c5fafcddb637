"""The devices of a run, as lanes × data."""

import math
from collections.abc import Sequence

import jax
import ml_collections
from jax.sharding import AxisType


def make_mesh(
    config: ml_collections.ConfigDict, lanes: int, devices: Sequence[jax.Device]
) -> jax.sharding.Mesh:
    """Returns `devices` as lanes × data; as many as possible share the lanes."""
    count = len(devices)
    across = math.gcd(lanes, count)
    if config.train.mesh:
        sizes = config.train.mesh
        whole = len(sizes) == 2 and all(isinstance(n, int) and n > 0 for n in sizes)
        across = sizes[0] if whole else 1
        if not whole or math.prod(sizes) != count or lanes % across:
            raise ValueError(
                "config: `train.mesh` must be two numbers whose product is the "
                f"{count} devices, the first dividing the {lanes} lanes, got "
                f"{config.train.mesh}."
            )
    along = count // across
    batch_size = config.train.batch_size
    if batch_size % along:
        raise ValueError(
            f"config: `train.batch_size` must be a multiple of the {along} devices "
            f"that share a batch, got {batch_size}; use "
            f"{max(1, round(batch_size / along)) * along}."
        )
    return jax.make_mesh(
        (across, along),
        ("lanes", "data"),
        axis_types=(AxisType.Auto,) * 2,
        devices=devices,
    )
