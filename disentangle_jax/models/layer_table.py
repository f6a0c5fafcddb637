"""A table of the layers of a network."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from disentangle_jax.models import definitions, layers


class LayerSummary(NamedTuple):
    """One layer that holds parameters.

    Attributes:
      path: path of its parameters, joined by ``/``.
      kind: class of the layer.
      output_shape: without the batch axis.
      parameters: number of trained parameters.
      flops: floating-point operations of the forward pass of one example.
    """

    path: str
    kind: str
    output_shape: tuple[int, ...]
    parameters: int
    flops: int


class Summary(tuple[LayerSummary, ...]):
    """The layers of a network in the order of their use; prints as a table."""

    @property
    def parameters(self) -> int:
        """Number of trained parameters of the network."""
        return sum(layer.parameters for layer in self)

    @property
    def flops(self) -> int:
        """Floating-point operations of the forward pass of one example."""
        return sum(layer.flops for layer in self)

    def __str__(self) -> str:
        rows = [("layer", "kind", "output", "parameters", "FLOPs")]
        for layer in self:
            shape = "×".join(map(str, layer.output_shape))
            numbers = f"{layer.parameters:,}", f"{layer.flops:,}"
            rows.append((layer.path, layer.kind, shape, *numbers))
        rows.append(("total", "", "", f"{self.parameters:,}", f"{self.flops:,}"))
        widths = [max(len(row[i]) for row in rows) for i in range(5)]
        return "\n".join(
            "  ".join(
                cell.rjust(width) if i > 2 else cell.ljust(width)
                for i, (cell, width) in enumerate(zip(row, widths))
            ).rstrip()
            for row in rows
        )


def summary(name: str, image_shape: Sequence[int], **overrides: Any) -> Summary:
    """Prints and returns the table of layers of a network. Allocates nothing.

    FLOPs are those of dense layers and convolutions in the forward pass of one example:
    two for each weight at each position where it is used. A transposed convolution uses
    each weight at each position of its input.

    Args:
      name: as for `create`.
      image_shape: as for `create`.
      **overrides: as for `create`.
    """
    module = definitions.create(name, image_shape, **overrides)
    rows: list[LayerSummary] = []

    def record(
        next_call: Callable[..., Any],
        args: tuple,
        kwargs: dict[str, Any],
        context: nn.module.InterceptorContext,
    ) -> Any:
        output = next_call(*args, **kwargs)
        layer = context.module
        leaves = (layers.Dense, layers.Conv, layers.ConvTranspose)
        norms = (layers.GroupNorm, nn.BatchNorm)
        if context.method_name == "__call__" and isinstance(layer, leaves + norms):
            params = layer.variables["params"]
            flops = 0
            if isinstance(layer, leaves):
                transposed = isinstance(layer, layers.ConvTranspose)
                place = args[0] if transposed else output
                positions = math.prod(place.shape[1:-1])
                flops = 2 * positions * math.prod(params["kernel"].shape)
            path = "/".join(layer.path)
            count = sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(params))
            kind = type(layer).__name__
            rows.append(LayerSummary(path, kind, output.shape[1:], count, flops))
        return output

    def initialise(key: jax.Array, x: jax.Array) -> Any:
        with nn.intercept_methods(record):
            return module.init(key, x)

    x = jax.ShapeDtypeStruct((1, *image_shape), jnp.float32)
    variables = jax.eval_shape(initialise, jax.random.key(0), x)
    # Learned constants and gates belong to none of these layers.
    paths = {row.path for row in rows}
    for path, leaf in jax.tree_util.tree_leaves_with_path(variables["params"]):
        keys = [entry.key for entry in path]
        if "/".join(keys[:-1]) not in paths:
            size = math.prod(leaf.shape)
            rows.append(LayerSummary("/".join(keys), "parameter", leaf.shape, size, 0))
    table = Summary(rows)
    print(table)
    return table
