"""Networks of codes: the critics of FactorVAE and AbsAE, and ReL's relations."""

import dataclasses

import flax.linen as nn
import jax
import jax.numpy as jnp

from disentangle_jax.models import layers


class _CodeNetwork(nn.Module):
    """An MLP with equal hidden layers and a linear output.

    Attributes:
      width: units of each hidden layer.
      depth: number of hidden layers.
      initializer: its name.
      dtype: dtype of the arithmetic; parameters and results are float32.
    """

    width: int = 1024
    depth: int = 4
    initializer: str = "torch"
    dtype: jnp.dtype = jnp.float32

    def mlp(self, codes: jax.Array, outputs: int, nonlinearity: str) -> jax.Array:
        widths = (self.width,) * self.depth + (outputs,)
        mlp = layers.MLP(widths, nonlinearity, self.initializer, self.dtype, name="mlp")
        return mlp(codes).astype(jnp.float32)


class FactorCritic(_CodeNetwork):
    """FactorVAE's critic: ``[B, D]`` to the log-odds ``[B]`` of "joint".

    It has six layers of 1000 units with LeakyReLU and two logits, whose difference is
    the log-odds (Kim and Mnih 2018, Sec. 3). The slope 0.2 is TensorFlow's default, as
    in disentanglement_lib.
    """

    width: int = 1000
    depth: int = 6
    initializer: str = "glorot"

    @nn.compact
    def __call__(self, z: jax.Array) -> jax.Array:
        logits = self.mlp(z, 2, "leaky_relu_0.2")
        return logits[:, 0] - logits[:, 1]


class PriorDiscriminator(_CodeNetwork):
    """AbsAE's discriminator: codes ``[B, D]`` to the log-odds ``[B]`` of "prior".

    It has tanh layers of 1024 units and a linear output. The paper counts three layers;
    the published code builds four hidden ones, which is the default here.
    """

    @nn.compact
    def __call__(self, z: jax.Array) -> jax.Array:
        return self.mlp(z, 1, "tanh")[:, 0]


class RelationNetwork(_CodeNetwork):
    """ReL: the code of a relation's result from its operands, ``[B, I] -> [B, D]``.

    The input is the concatenation of the operands' codes, or of one code and the
    one-hot relation. The layers are those of `PriorDiscriminator`. The paper's text has
    a sigmoid at the output; ours is linear, because codes are not confined to [0, 1].

    Attributes:
      latent_dim: D.
    """

    latent_dim: int = dataclasses.field(kw_only=True)

    @nn.compact
    def __call__(self, inputs: jax.Array) -> jax.Array:
        return self.mlp(inputs, self.latent_dim, "tanh")
