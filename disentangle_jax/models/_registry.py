"""Networks by name: `create`, `names`, `parameter_count`."""

import functools
import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from disentangle_jax import types
from disentangle_jax.models import (
    _absae,
    _backbone,
    _hfvae,
    _initializers,
    _ladder,
    _layers,
    _study,
    _topics,
)


def _autoencoder(name: str, scheme: str, variables: int, stochastic: bool) -> Callable:
    return functools.partial(
        _backbone.autoencoder,
        name=name,
        scheme=scheme,
        variables=variables,
        stochastic=stochastic,
    )


# Each builder is called with the image shape and the overrides, which are its keyword
# arguments that are still free.
_BUILDERS: dict[str, Callable[..., nn.Module]] = {
    "ae": _autoencoder("ae", "hourglass", 0, False),
    "wae": _autoencoder("wae", "hourglass", 0, False),
    "vae": _autoencoder("vae", "hourglass", 0, True),
    **{
        f"sae-{n}": _autoencoder(f"sae-{n}", "structural", n, False)
        for n in (2, 3, 4, 6, 12, 16)
    },
    **{
        f"adaae-{n}": _autoencoder(f"adaae-{n}", "adaptive", n, False) for n in (12, 16)
    },
    **{
        f"vlae-{n}": _autoencoder(f"vlae-{n}", "ladder", n, True)
        for n in (2, 3, 4, 6, 12, 16)
    },
    "conv64": _study.conv64,
    "fc1200": _study.fc1200,
    "hfvae-mlp": _hfvae.hfvae_mlp,
    "prodlda": _topics.prodlda,
    "nvdm": _topics.nvdm,
    "absae": _absae.absae,
    "vlae-original": _ladder.vlae_original,
}


# Networks of documents, whose shape is the size of the vocabulary.
_TEXT = ("prodlda", "nvdm")


def names() -> tuple[str, ...]:
    """Returns the names that `create` knows."""
    return tuple(_BUILDERS)


def create(name: str, image_shape: Sequence[int], **overrides: Any) -> nn.Module:
    """Builds the network called `name` for images of `image_shape`.

    Every network has the methods ``encode(x, *, train=False) -> Posterior`` and
    ``decode(z, *, train=False) -> logits``, the attribute ``latent_groups`` (sizes of
    the contiguous variables of the latent vector), and ``__call__(x)``, which decodes
    the posterior mean and is what ``init`` takes. Sampling is the caller's::

        module = models.create("sae-12", (64, 64, 3))
        variables = module.init(key, jnp.zeros((1, 64, 64, 3)))
        posterior = module.apply(variables, x, method="encode")

    Args:
      name: one of `names`.
      image_shape: ``(H, W, C)``, or ``(V,)`` for the networks of documents.
      **overrides: what to change of the published network, e.g. ``latent_dim``,
        ``channels``, ``nonlinearity``, ``initializer``, ``dtype`` (of the arithmetic;
        parameters stay float32), ``remat``.
    """
    if name not in _BUILDERS:
        raise types.unknown_name("models.create", "name", name, names())
    image_shape = tuple(image_shape)
    expected = 1 if name in _TEXT else 3
    if len(image_shape) != expected:
        raise ValueError(
            f"models.create: `image_shape` must be "
            f"{'(V,), the vocabulary size,' if name in _TEXT else '(H, W, C)'} for "
            f"{name!r}, got {image_shape}."
        )
    if not all(isinstance(n, int) and n > 0 for n in image_shape):
        raise ValueError(
            "models.create: `image_shape` must be positive integers, "
            f"got {image_shape}."
        )
    builder = _BUILDERS[name]
    fixed = getattr(builder, "keywords", {})
    free = [
        p.name
        for p in inspect.signature(builder).parameters.values()
        if p.kind is p.KEYWORD_ONLY and p.name not in fixed
    ]
    for override in overrides:
        if override not in free:
            raise types.unknown_name(
                f"models.create({name!r})", "overrides", override, free
            )
    if "nonlinearity" in overrides:
        _layers.nonlinearity(overrides["nonlinearity"])
    if overrides.get("initializer") is not None:
        _initializers.initializer(overrides["initializer"])
    return builder(image_shape, **overrides)


def parameter_count(name: str, image_shape: Sequence[int], **overrides: Any) -> int:
    """Returns the number of trained parameters of a network. Allocates nothing."""
    module = create(name, image_shape, **overrides)
    x = jax.ShapeDtypeStruct((1, *image_shape), jnp.float32)
    variables = jax.eval_shape(module.init, jax.random.key(0), x)
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(variables["params"]))
