"""Topic models for bags of words: ProdLDA (Srivastava and Sutton) and NVDM (Miao)."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from disentangle_jax.models import layers
from disentangle_jax.models.definitions import define
from disentangle_jax.models.network import Network
from disentangle_jax.types import Posterior


class _TopicNetwork(Network):
    """Base class of the networks of word counts ``[B, V]``.

    Attributes:
      vocabulary: V.
      latent_dim: K, the number of topics.
      groups: number of equal contiguous groups of latents; HFVAE's paper has two.
      width: units of each hidden layer.
    """

    vocabulary: int
    latent_dim: int
    groups: int
    width: int
    initializer: str
    dtype: jnp.dtype

    @property
    def latent_groups(self) -> tuple[int, ...]:
        """Equal contiguous groups of topics."""
        return (self.latent_dim // self.groups,) * self.groups


class ProdLDA(_TopicNetwork):
    """A product of experts over topics.

    Two softplus layers and dropout give means and log-variances, each batch-normed;
    :math:`\\theta` is the softmax of z, with dropout, and the word logits are
    :math:`BN(\\theta W)`. Batch norm shifts but does not scale, with epsilon 1e-3, as
    TensorFlow 1's default. The published code normalises by the batch at test time too;
    we use running averages there. Their momentum is 0.99, so a few hundred steps remove
    the influence of their initial values.

    In training, apply with ``train=True``, ``mutable=["batch_stats"]`` and
    ``rngs={"dropout": key}``.

    Attributes:
      keep: probability of keeping a unit under dropout.
    """

    keep: float

    def setup(self) -> None:
        def dense(features: int, use_bias: bool = True) -> layers.Dense:
            return layers.Dense(features, self.initializer, use_bias, self.dtype)

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


def _unscaled_norm(dtype: jnp.dtype) -> nn.BatchNorm:
    return nn.BatchNorm(momentum=0.99, epsilon=1e-3, use_scale=False, dtype=dtype)


class NVDM(_TopicNetwork):
    """One tanh layer encodes and one linear layer decodes.

    The head of the log-standard-deviations starts at zero.
    """

    def setup(self) -> None:
        def dense(features: int, initializer: str = self.initializer) -> layers.Dense:
            return layers.Dense(features, initializer, dtype=self.dtype)

        self.hidden = dense(self.width)
        self.mean = dense(self.latent_dim)
        self.log_std = dense(self.latent_dim, "zeros")
        self.decoder = dense(self.vocabulary)

    def encode(self, x: jax.Array, *, train: bool = False) -> Posterior:
        """Counts ``[B, V]`` to means and log-variances ``[B, K]``."""
        del train
        h = jnp.tanh(self.hidden(x))
        log_var = 2 * self.log_std(h).astype(jnp.float32)
        return Posterior(self.mean(h).astype(jnp.float32), log_var)

    def decode(self, z: jax.Array, *, train: bool = False) -> jax.Array:
        """Latents ``[B, K]`` to word logits ``[B, V]``."""
        del train
        return self.decoder(z).astype(jnp.float32)


def _check_groups(name: str, latent_dim: int, groups: int) -> None:
    if latent_dim % groups:
        raise ValueError(
            f"models.create: `latent_dim` must be divisible by the {groups} groups of "
            f"{name!r}, got {latent_dim}."
        )


@define(
    reference="Srivastava and Sutton, Autoencoding Variational Inference for Topic "
    "Models",
    observation="counts",
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
    """Builds `ProdLDA` for a vocabulary of `image_shape` ``(V,)``."""
    _check_groups("prodlda", latent_dim, groups)
    (vocabulary,) = image_shape
    return ProdLDA(vocabulary, latent_dim, groups, width, initializer, dtype, keep)


@define(
    reference="Miao et al., Neural Variational Inference for Text Processing",
    observation="counts",
)
def nvdm(
    image_shape: tuple[int, ...],
    *,
    latent_dim: int = 50,
    groups: int = 2,
    width: int = 500,
    initializer: str = "glorot",
    dtype: jnp.dtype = jnp.float32,
) -> NVDM:
    """Builds `NVDM` for a vocabulary of `image_shape` ``(V,)``."""
    _check_groups("nvdm", latent_dim, groups)
    (vocabulary,) = image_shape
    return NVDM(vocabulary, latent_dim, groups, width, initializer, dtype)
