"""Autoencoders with quantised codes: QLAE and Tripod."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from flax.traverse_util import flatten_dict

from disentangle_jax import losses
from disentangle_jax.methods.definition import Hyperparameter, define
from disentangle_jax.methods.gradient import GradientMethod
from disentangle_jax.methods.method import Batch, Hyper, Networks, Terms
from disentangle_jax.types import Posterior, State, unknown_name


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Quantised(GradientMethod):
    """Base class of methods whose latents take a few values each.

    The quantised codes are what :meth:`encode` returns, what scores see and what the
    decoder was trained on. A traversal steps through the values of a latent. The
    networks must have no batch norm. Log-variances of the encoder are ignored.

    Subclasses define :meth:`codebook` and :meth:`quantise`.
    """

    def codebook(self, params: dict) -> jax.Array:
        """Returns the values ``[D, V]`` of each latent, in ascending order."""
        raise NotImplementedError

    def quantise(self, networks: Networks, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Returns continuous and quantised codes ``[B, D]`` of observations.

        The gradient of the quantised codes is that of the continuous ones.
        """
        raise NotImplementedError

    def init(self, key: jax.Array, batch: Batch) -> State:
        state = super().init(key, batch)
        if state.model_state:
            raise ValueError(
                "quantised codes: `model` must have no batch norm; use another network."
            )
        return state

    def networks(self, state: State) -> Networks:
        networks = self.networks_at(state.params, state.model_state)

        def encode(x: jax.Array) -> Posterior:
            return Posterior(self.quantise(networks, x)[1])

        return networks._replace(encode=encode)

    def codebook_values(self, state: State) -> jax.Array:
        """Returns the values ``[D, V]`` of the codebook."""
        return self.codebook(state.params)

    def prior(self, key: jax.Array, state: State, n: int) -> jax.Array:
        """Returns codes ``[n, D]`` whose latents take each of their values equally."""
        return draw_values(key, self.codebook(state.params), n)


def draw_values(key: jax.Array, codebook: jax.Array, n: int) -> jax.Array:
    """Returns codes ``[n, D]`` of uniform draws from each row of ``[D, V]`` values."""
    latents, values = codebook.shape
    chosen = jax.random.randint(key, (n, latents), 0, values)
    return codebook[jnp.arange(latents)[None], chosen]


@define(
    name="qlae",
    hyperparameters={
        "lambda_quantisation": Hyperparameter(
            0.01, doc="weight of the distance of the values from the codes"
        ),
        "lambda_commitment": Hyperparameter(
            0.01, doc="weight of the distance of the codes from their values"
        ),
    },
    reference='Hsu et al., "Disentanglement via Latent Quantization"',
)
@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class QLAE(Quantised):
    """A quantised-latent autoencoder, whose latents have a learned codebook each.

    A step minimises :func:`losses.qlae`. The paper also decays the weights strongly:
    ``optimizer.weight_decay`` 0.1 in a config.

    Attributes:
      values: number of values of each latent, at first even in [-0.5, 0.5].
    """

    values: int = 10

    def __post_init__(self) -> None:
        if self.values < 2:
            raise ValueError(f"qlae: `values` must be at least 2, got {self.values!r}.")

    def init(self, key: jax.Array, batch: Batch) -> State:
        state = super().init(key, batch)
        even = jnp.linspace(-0.5, 0.5, self.values)
        codebook = jnp.tile(even, (sum(self.latent_groups), 1))
        params = {"autoencoder": state.params, "codebook": codebook}
        return state._replace(params=params, opt_state=self.optimizer.init(params))

    def training_networks(
        self, key: jax.Array, params: Any, model_state: dict
    ) -> tuple[Networks, dict]:
        networks, left = super().training_networks(
            key, params["autoencoder"], model_state
        )
        return networks._replace(params=params), left

    def networks_at(self, params: Any, model_state: dict) -> Networks:
        networks = super().networks_at(params["autoencoder"], model_state)
        return networks._replace(params=params)

    def codebook(self, params: dict) -> jax.Array:
        return jnp.sort(params["codebook"], axis=1)

    def quantise(self, networks: Networks, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        codes = networks.encode(x).mean
        nearest = losses.nearest_values(codes, networks.params["codebook"])
        return codes, losses.straight_through(codes, nearest)

    def loss(
        self,
        networks: Networks,
        key: jax.Array,
        step: jax.Array,
        batch: Batch,
        hyper: Hyper,
    ) -> tuple[jax.Array, Terms]:
        del key, step
        x = batch["image"]
        codes, z = self.quantise(networks, x)
        return losses.qlae(
            x,
            networks.decode(z),
            z,
            codes,
            codebook=networks.params["codebook"],
            lambda_quantisation=hyper["lambda_quantisation"],
            lambda_commitment=hyper["lambda_commitment"],
            reconstruction=self.likelihood.mean_over_pixels,
            axis_name=self.axis_name,
        )


@define(
    name="tripod",
    hyperparameters={
        "lambda_information": Hyperparameter(
            1e-4, doc="weight of the multi-information"
        ),
        "lambda_hessian": Hyperparameter(1e-2, doc="weight of the Hessian penalty"),
        "epsilon": Hyperparameter(
            0.1, positive=True, doc="step of the second differences, in deviations"
        ),
    },
    reference='Hsu et al., "Tripod: Three Complementary Inductive Biases for '
    'Disentangled Representation Learning"',
)
@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Tripod(Quantised):
    """An autoencoder with rounded codes, little multi-information and few mixed terms.

    A step minimises :func:`losses.tripod`. Codes are hyperbolic tangents, rounded to
    even values.

    Attributes:
      levels: number of values of each latent, even in [-1, 1].
      activations: names of the decoder's modules whose outputs have the Hessian
        penalty. Those of `conv64` after the first, which is linear, are the default.
      perturbations: number of directions of each kind that estimate it.
    """

    levels: int = 12
    activations: tuple[str, ...] = ("dense_2", "conv_1", "conv_2")
    perturbations: int = 2

    def codebook(self, params: dict) -> jax.Array:
        del params
        even = losses.round_to_levels(
            jnp.linspace(-1.0, 1.0, self.levels), levels=self.levels
        )
        return jnp.tile(even, (sum(self.latent_groups), 1))

    def quantise(self, networks: Networks, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        codes = jnp.tanh(networks.encode(x).mean)
        rounded = losses.round_to_levels(codes, levels=self.levels)
        return codes, losses.straight_through(codes, rounded)

    def loss(
        self,
        networks: Networks,
        key: jax.Array,
        step: jax.Array,
        batch: Batch,
        hyper: Hyper,
    ) -> tuple[jax.Array, Terms]:
        del step
        x = batch["image"]
        codes, z = self.quantise(networks, x)
        return losses.tripod(
            x,
            networks.decode(z),
            z,
            codes,
            key=key,
            activations=lambda z: self.decoder_activations(networks.params, z),
            lambda_information=hyper["lambda_information"],
            lambda_hessian=hyper["lambda_hessian"],
            epsilon=hyper["epsilon"],
            perturbations=self.perturbations,
            reconstruction=self.likelihood.mean_over_pixels,
            axis_name=self.axis_name,
        )

    def decoder_activations(self, params: dict, z: jax.Array) -> dict[str, jax.Array]:
        """Returns the outputs ``[B, …]`` of the modules `activations` of the decoder.

        Raises:
          ValueError: the decoder has no module of such a name.
        """
        _, captured = self.model.apply(
            {"params": params},
            z,
            method="decode",
            train=True,
            capture_intermediates=True,
            mutable=["intermediates"],
        )
        paths = flatten_dict(captured["intermediates"])
        outputs = {path[-2]: output for path, (output,) in paths.items()}
        for name in self.activations:
            if name not in outputs:
                raise unknown_name("tripod", "activations", name, sorted(outputs))
        return {name: outputs[name] for name in self.activations}
