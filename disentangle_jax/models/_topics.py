"""Topic models for bags of words: ProdLDA (Srivastava and Sutton) and NVDM (Miao)."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from disentangle_jax.models import _layers
from disentangle_jax.types import Posterior


class ProdLDA(nn.Module):
    """A product of experts over topics; documents are counts ``[B, V]``.

    Two softplus layers and dropout give means and log-variances, each batch-normed;
    :math:`\\theta` is the softmax of z, with dropout, and the word logits are
    :math:`BN(\\theta W)`. Batch norm shifts but does not scale, with epsilon 1e-3, as
    TensorFlow 1's default. Unlike the published code, which normalises by the batch at
    test time too, evaluation uses running averages; their momentum is 0.99, so that
    they have forgotten the start after some hundred steps.

    Training applies with ``train=True``, ``mutable=["batch_stats"]`` and a key
    ``rngs={"dropout": key}``.

    Attributes:
      vocabulary: V.
      latent_dim: K, the number of topics.
      groups: number of equal contiguous groups of latents: two in HFVAE's paper.
      width: units of both hidden layers.
      keep: probability to keep a unit under dropout.
      initializer: its name.
      dtype: dtype of the arithmetic; parameters and results are float32.
    """

    vocabulary: int
    latent_dim: int
    groups: int
    width: int
    keep: float
    initializer: str
    dtype: jnp.dtype

    @property
    def latent_groups(self) -> tuple[int, ...]:
        """Equal contiguous groups of topics."""
        return (self.latent_dim // self.groups,) * self.groups

    def setup(self):
        def dense(features, use_bias=True):
            return _layers.Dense(features, self.initializer, use_bias, self.dtype)

        self.hidden_1, self.hidden_2 = dense(self.width), dense(self.width)
        self.mean, self.log_var = dense(self.latent_dim), dense(self.latent_dim)
        self.topics = dense(self.vocabulary, use_bias=False)
        self.mean_norm = _unscaled_norm(self.dtype)
        self.log_var_norm = _unscaled_norm(self.dtype)
        self.word_norm = _unscaled_norm(self.dtype)
        self.dropout = nn.Dropout(1 - self.keep)

    def encode(self, x: jax.Array, *, train: bool = False) -> Posterior:
        """Counts ``[B, V]`` to means and log-variances ``[B, K]``."""
        h = jax.nn.softplus(self.hidden_2(jax.nn.softplus(self.hidden_1(x))))
        h = self.dropout(h, deterministic=not train)
        mean = self.mean_norm(self.mean(h), use_running_average=not train)
        log_var = self.log_var_norm(self.log_var(h), use_running_average=not train)
        return Posterior(mean.astype(jnp.float32), log_var.astype(jnp.float32))

    def decode(self, z: jax.Array, *, train: bool = False) -> jax.Array:
        """Latents ``[B, K]`` to word logits ``[B, V]``."""
        theta = self.dropout(jax.nn.softmax(z, axis=-1), deterministic=not train)
        logits = self.word_norm(self.topics(theta), use_running_average=not train)
        return logits.astype(jnp.float32)

    def __call__(self, x: jax.Array, *, train: bool = False) -> jax.Array:
        """Word logits of the posterior mean."""
        return self.decode(self.encode(x, train=train).mean, train=train)


def _unscaled_norm(dtype: jnp.dtype) -> nn.BatchNorm:
    return nn.BatchNorm(momentum=0.99, epsilon=1e-3, use_scale=False, dtype=dtype)


class NVDM(nn.Module):
    """One tanh layer encodes counts ``[B, V]``, one linear layer decodes.

    The head of the log-standard-deviations starts at zero.

    Attributes:
      vocabulary: V.
      latent_dim: K.
      groups: number of equal contiguous groups of latents.
      width: units of the hidden layer.
      initializer: its name.
      dtype: dtype of the arithmetic; parameters and results are float32.
    """

    vocabulary: int
    latent_dim: int
    groups: int
    width: int
    initializer: str
    dtype: jnp.dtype

    @property
    def latent_groups(self) -> tuple[int, ...]:
        """Equal contiguous groups of latents."""
        return (self.latent_dim // self.groups,) * self.groups

    def setup(self):
        def dense(features, initializer=self.initializer):
            return _layers.Dense(features, initializer, dtype=self.dtype)

        self.hidden = dense(self.width)
        self.mean = dense(self.latent_dim)
        self.log_std = dense(self.latent_dim, "zeros")
        self.decoder = dense(self.vocabulary)

    def encode(self, x: jax.Array, *, train: bool = False) -> Posterior:
        """Counts ``[B, V]`` to means and log-variances ``[B, K]``."""
        del train  # No layer behaves differently in training.
        h = jnp.tanh(self.hidden(x))
        log_var = 2 * self.log_std(h).astype(jnp.float32)
        return Posterior(self.mean(h).astype(jnp.float32), log_var)

    def decode(self, z: jax.Array, *, train: bool = False) -> jax.Array:
        """Latents ``[B, K]`` to word logits ``[B, V]``."""
        del train
        return self.decoder(z).astype(jnp.float32)

    def __call__(self, x: jax.Array, *, train: bool = False) -> jax.Array:
        """Word logits of the posterior mean."""
        return self.decode(self.encode(x, train=train).mean, train=train)


def _check_groups(name: str, latent_dim: int, groups: int) -> None:
    if latent_dim % groups:
        raise ValueError(
            f"models.create: `latent_dim` must be divisible by the {groups} groups of "
            f"{name!r}, got {latent_dim}."
        )


def prodlda(
    image_shape: tuple[int, ...],
    *,
    latent_dim: int = 50,
    groups: int = 2,
    width: int = 100,
    keep: float = 0.4,
    initializer: str = "glorot",
    dtype: jnp.dtype = jnp.float32,
) -> ProdLDA:
    """Builds `ProdLDA` for documents of `image_shape` ``(V,)``."""
    _check_groups("prodlda", latent_dim, groups)
    return ProdLDA(*image_shape, latent_dim, groups, width, keep, initializer, dtype)


def nvdm(
    image_shape: tuple[int, ...],
    *,
    latent_dim: int = 50,
    groups: int = 2,
    width: int = 500,
    initializer: str = "glorot",
    dtype: jnp.dtype = jnp.float32,
) -> NVDM:
    """Builds `NVDM` for documents of `image_shape` ``(V,)``."""
    _check_groups("nvdm", latent_dim, groups)
    return NVDM(*image_shape, latent_dim, groups, width, initializer, dtype)
