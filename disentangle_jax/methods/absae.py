"""AbsAE and its relational learner: regions of the code, and relations as moves."""

import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

import flax.linen as nn
import jax
import jax.numpy as jnp

from disentangle_jax import data, distributions, losses, models
from disentangle_jax.methods.definition import Hyperparameter, define
from disentangle_jax.methods.method import (
    Batch,
    Hyper,
    Method,
    Networks,
    Terms,
    as_unit_interval,
    new_state,
)
from disentangle_jax.methods.relational_learner import RelationalLearner
from disentangle_jax.types import State

PRIOR = "prior"  # Key of the mixture in the model state.

HYPERPARAMETERS = {
    "beta": Hyperparameter(0.2, doc="weight of the adversary"),
    "gamma": Hyperparameter(1.0, doc="weight of the relational learner"),
    "discriminator_learning_rate": Hyperparameter(
        1e-4, positive=True, doc="learning rate of the discriminator"
    ),
    "relation_learning_rate": Hyperparameter(
        1e-4, positive=True, doc="learning rate of the relational learner"
    ),
    "tau": Hyperparameter(
        20.0, positive=True, doc="labelled images per combination of factors"
    ),
    "covariance_scale": Hyperparameter(
        0.1, positive=True, doc="factor of the covariances in the first fit"
    ),
    "shrinkage": Hyperparameter(1.0, doc="shrinkage of the fit, in samples"),
}


@define(
    name="absae",
    hyperparameters=HYPERPARAMETERS,
    reference='"Leveraging Relational Information for Learning Weakly Disentangled '
    'Representations", Sec. 3',
)
@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class AbsAE(Method):
    """AbsAE with ReL: an adversarial autoencoder with a region per combination.

    A deterministic autoencoder whose codes an adversary matches to a prior. During the
    warm-up the prior is U(-1, 1) in each dimension; then it is a mixture of one
    Gaussian per combination of factors (Eq. 6), fitted to the codes of ``tau`` labelled
    images each. From then on the relational learner (ReL) is trained too, on draws from
    the mixture. Combination c is region c, in row-major order of the factors. A region
    without labelled images is absent: it has no density and is never drawn.

    One step does what the published code does per batch, in its order:

    1. reconstruction, a mean over pixels: encoder and decoder;
    2. after the warm-up, ReL (Eq. 8): ``relation_batch`` examples of each relation,
       uniform over the combinations that it is defined for;
    3. the encoder alone against the discriminator, non-saturating, weighted by beta,
       with the same Adam as in 1;
    4. the discriminator, weighted by beta, on the codes of 3.

    Encoder, decoder, discriminator and ReL have an Adam each. Components of the mixture
    are drawn uniformly; the published code always draws component 0, an error. As
    there, the discriminator sees no labels: they influence only the fit.
    :class:`AbsAELabelled` is our variant that uses them in every step.

    Attributes:
      model: its parameters must have a part named "decoder".
      factor_sizes: number of values of each factor.
      relations: a name that :func:`data.relations` knows, or the relations.
      relation_loss: ``"nll"`` (the paper's) or ``"mse"`` (its code's); see
        :func:`losses.relation_loss`.
      relation_batch: examples of each relation per step.
      warmup_steps: steps before the fit.
      refit_every: steps between later fits, without ``covariance_scale``, which the
        codes then already have; 0 for no later fit.
      width: units in each layer of the discriminator and of ReL (1024 in the paper).
      depth: their number of hidden layers (3 in the paper's text, 4 in its code).
    """

    evaluators = (*Method.evaluators, "regions")

    factor_sizes: tuple[int, ...]
    relations: str | Iterable[data.Relation] = "dsprites"
    relation_loss: str = "nll"
    relation_batch: int = 128
    warmup_steps: int = 1000
    refit_every: int = 0
    width: int = 1024
    depth: int = 4

    def __post_init__(self) -> None:
        if self.axis_name is not None:
            raise ValueError(
                "absae: `axis_name` must be None: batch norm and the fit need the "
                "whole batch; use jit on a mesh."
            )
        self.check_at_least(relation_batch=1, warmup_steps=0, refit_every=0)
        if not self.factor_sizes:
            raise ValueError(
                "absae: `factor_sizes` must not be empty: regions need labels."
            )
        _ = self.table  # Checks the relations.

    def check_at_least(self, **lowest: int) -> None:
        """Raises a ValueError where an option lies below the value given for it."""
        for name, low in lowest.items():
            if (value := getattr(self, name)) < low:
                raise ValueError(
                    f"absae: `{name}` must be at least {low}, got {value}."
                )

    @functools.cached_property
    def table(self) -> data.RelationTable:
        """The combination that each relation leads to."""
        relations = self.relations
        if isinstance(relations, str):
            relations = data.relations(relations)
        return data.relation_table(relations, self.factor_sizes)

    @property
    def latents(self) -> int:
        """D, number of latent dimensions."""
        return sum(self.latent_groups)

    @property
    def _discriminator(self) -> nn.Module:
        return models.PriorDiscriminator(width=self.width, depth=self.depth)

    @functools.cached_property
    def _learner(self) -> RelationalLearner:
        return RelationalLearner(
            self.table,
            self.latents,
            form=self.relation_loss,
            batch=self.relation_batch,
            width=self.width,
            depth=self.depth,
        )

    def init(self, key: jax.Array, batch: Batch) -> State:
        model_key, critic_key, learner_key = jax.random.split(key, 3)
        encoder, model_state = self.initial_variables(model_key, batch["image"])
        if "decoder" not in encoder:
            raise ValueError(
                "absae: `model` must keep its decoder's parameters as 'decoder', got "
                f"{sorted(encoder)}; the encoder has steps of its own."
            )
        encoder = dict(encoder)
        decoder = encoder.pop("decoder")
        components, latents = self.table.components, self.latents
        codes = jnp.zeros((1, latents))
        params = {
            "encoder": encoder,
            "decoder": decoder,
            "discriminator": self._discriminator.init(critic_key, codes)["params"],
            "learner": self._learner.init(learner_key),
        }
        prior = {
            "means": jnp.zeros((components, latents)),
            "covariances": jnp.tile(jnp.eye(latents), (components, 1, 1)),
            "present": jnp.zeros(components, bool),
        }
        opt_state = {name: self.optimizer.init(part) for name, part in params.items()}
        return new_state(params, {**model_state, PRIOR: prior}, opt_state)

    def step(
        self, key: jax.Array, state: State, batch: Batch, hyper: Hyper
    ) -> tuple[State, Terms]:
        keys = jax.random.split(key, 6)
        x = as_unit_interval(batch["image"])
        state, error = self._reconstruction_step(keys[0], state, x, hyper)
        state, relation_error = self._relation_step(keys[1], state, hyper)
        state, terms, z = self._encoder_step(keys[2:4], state, x, batch, hyper)
        state, game = self._discriminator_step(keys[4:], state, z, hyper)
        return state._replace(step=state.step + 1), {
            "loss": error + hyper["beta"] * terms["generator"],
            "reconstruction": error,
            **terms,
            "discriminator": game,
            "relation": relation_error,
        }

    def _reconstruction_step(
        self, key: jax.Array, state: State, x: jax.Array, hyper: Hyper
    ) -> tuple[State, jax.Array]:
        """Updates encoder and decoder; also returns the error, a mean over pixels."""

        def loss(encoder: dict, decoder: dict) -> tuple[jax.Array, dict]:
            nets, left = self._training_networks(key, state, encoder, decoder)
            logits = nets.decode(nets.encode(x).mean)
            return self.likelihood.mean_over_pixels(x, logits).mean(), left

        (error, left), grads = jax.value_and_grad(loss, argnums=(0, 1), has_aux=True)(
            state.params["encoder"], state.params["decoder"]
        )
        state = state._replace(model_state={**state.model_state, **left})
        state = self._update(state, "encoder", grads[0], hyper["learning_rate"])
        state = self._update(state, "decoder", grads[1], hyper["learning_rate"])
        return state, error

    def _relation_step(
        self, key: jax.Array, state: State, hyper: Hyper
    ) -> tuple[State, jax.Array]:
        """Updates the relational learner after the warm-up; also returns its error."""
        prior = state.model_state[PRIOR]

        def update(params: Any, opt_state: Any) -> tuple[Any, Any, jax.Array]:
            error, grads = jax.value_and_grad(self._learner.loss)(params, key, prior)
            grads = jax.tree.map(lambda g: hyper["gamma"] * g, grads)
            rate = hyper["relation_learning_rate"]
            return *self.descend(params, grads, opt_state, rate), error

        params, opt_state, error = jax.lax.cond(
            state.step < self.warmup_steps,
            lambda params, opt_state: (params, opt_state, jnp.zeros(())),
            update,
            state.params["learner"],
            state.opt_state["learner"],
        )
        return _with_part(state, "learner", params, opt_state), error

    def _encoder_step(
        self, keys: jax.Array, state: State, x: jax.Array, batch: Batch, hyper: Hyper
    ) -> tuple[State, Terms, jax.Array]:
        """Updates the encoder against the discriminator; also returns terms, codes."""
        rows = x.shape[0]
        further, further_loss = self.supervision(keys[0], state, batch, hyper)
        seen = jnp.concatenate([x, further])

        def loss(encoder: dict) -> tuple[jax.Array, tuple[Terms, jax.Array, dict]]:
            decoder = state.params["decoder"]
            nets, left = self._training_networks(keys[1], state, encoder, decoder)
            z = nets.encode(seen).mean
            logits = self._log_odds(state.params["discriminator"], z[:rows])
            game = losses.adversarial_prior_losses(logits, logits)
            own, terms = further_loss(z[rows:])
            terms = {"generator": game["generator"], **terms}
            return hyper["beta"] * game["generator"] + own, (terms, z[:rows], left)

        (_, (terms, z, left)), grads = jax.value_and_grad(loss, has_aux=True)(
            state.params["encoder"]
        )
        state = state._replace(model_state={**state.model_state, **left})
        state = self._update(state, "encoder", grads, hyper["learning_rate"])
        return state, terms, z

    def supervision(
        self, key: jax.Array, state: State, batch: Batch, hyper: Hyper
    ) -> tuple[jax.Array, Callable[[jax.Array], tuple[jax.Array | float, Terms]]]:
        """Returns images that the encoder also sees, and the loss of their codes.

        Here there are none.
        """
        del key, state, hyper
        return as_unit_interval(batch["image"][:0]), lambda z: (0.0, {})

    def _discriminator_step(
        self, keys: jax.Array, state: State, z: jax.Array, hyper: Hyper
    ) -> tuple[State, jax.Array]:
        """Updates the discriminator on codes and draws; also returns its loss."""
        drawn = jnp.where(
            state.step < self.warmup_steps,
            jax.random.uniform(keys[1], z.shape, minval=-1.0, maxval=1.0),
            self.prior(keys[0], state, z.shape[0]),
        )

        def loss(params: dict) -> tuple[jax.Array, jax.Array]:
            game = losses.adversarial_prior_losses(
                self._log_odds(params, jax.lax.stop_gradient(z)),
                self._log_odds(params, drawn),
            )
            return hyper["beta"] * game["discriminator"], game["discriminator"]

        (_, value), grads = jax.value_and_grad(loss, has_aux=True)(
            state.params["discriminator"]
        )
        rate = hyper["discriminator_learning_rate"]
        return self._update(state, "discriminator", grads, rate), value

    def _update(
        self, state: State, part: str, grads: Any, rate: jax.Array | float
    ) -> State:
        params, opt_state = self.descend(
            state.params[part], grads, state.opt_state[part], rate
        )
        return _with_part(state, part, params, opt_state)

    def _training_networks(
        self, key: jax.Array, state: State, encoder: dict, decoder: dict
    ) -> tuple[Networks, dict]:
        params = {**encoder, "decoder": decoder}
        return self.training_networks(key, params, _statistics(state))

    def _log_odds(self, params: dict, z: jax.Array) -> jax.Array:
        return cast(jax.Array, self._discriminator.apply({"params": params}, z))

    def networks(self, state: State) -> Networks:
        params = {**state.params["encoder"], "decoder": state.params["decoder"]}
        return self.networks_at(params, _statistics(state))

    def prior(self, key: jax.Array, state: State, n: int) -> jax.Array:
        """Returns codes ``[n, D]``, uniformly over the regions that are present."""
        prior = state.model_state[PRIOR]
        weights = log_weights(prior["present"])
        return distributions.gaussian_mixture_sample(
            key, n, prior["means"], prior["covariances"], weights
        )[0]

    def constant_shapes(
        self, dataset: data.Dataset, hypers: Sequence[Mapping[str, float]]
    ) -> dict[str, Any]:
        combinations = math.prod(self.factor_sizes)
        shape = (combinations, _largest_tau(hypers), *dataset.image_shape)
        image = jax.ShapeDtypeStruct(shape, "uint8")
        count = jax.ShapeDtypeStruct((combinations,), "int32")
        return {"labelled": {"image": image, "count": count}}

    def constants(
        self, dataset: data.Dataset, hypers: Sequence[Mapping[str, float]], seed: int
    ) -> dict[str, Any]:
        """Returns ``labelled``, the images that :func:`data.labelled_images` draws."""
        labelled = data.labelled_images(dataset, _largest_tau(hypers), seed=seed)
        return {"labelled": jax.tree.map(jnp.asarray, labelled)}

    def refit_due(self, step: int) -> bool:
        later = step - self.warmup_steps
        again = self.refit_every > 0 and later > 0 and later % self.refit_every == 0
        return later == 0 or again

    def refit(self, state: State, constants: dict[str, Any], hyper: Hyper) -> State:
        """Returns `state` with the mixture fitted to the codes of labelled images."""
        labelled, encode = constants["labelled"], self.networks(state).encode
        # One combination at a time, so that few activations are in memory.
        codes = jax.lax.map(
            lambda images: encode(as_unit_interval(images)).mean, labelled["image"]
        )
        tau = jnp.asarray(hyper["tau"]).astype(jnp.int32)
        first = state.step <= self.warmup_steps
        means, covariances, present = distributions.gaussian_mixture_fit(
            codes,
            jnp.minimum(labelled["count"], tau),
            scale=jnp.where(first, hyper["covariance_scale"], 1.0),
            shrinkage=hyper["shrinkage"],
        )
        prior = {"means": means, "covariances": covariances, "present": present}
        return state._replace(model_state={**state.model_state, PRIOR: prior})

    def log_densities(self, state: State, z: jax.Array) -> jax.Array:
        """Returns the log-density ``[N, C]`` of codes ``z [N, D]`` in each region.

        It is in nats, and -inf for absent regions, which all are before the fit.
        """
        prior = state.model_state[PRIOR]
        values = distributions.gaussian_component_log_prob(
            z, prior["means"], prior["covariances"]
        )
        return jnp.where(prior["present"][None], values, -jnp.inf)

    def readout(self, state: State, z: jax.Array) -> jax.Array:
        """Returns the factors ``[N, K]`` of the region of codes ``z`` (Sec. 4.5)."""
        region = self.log_densities(state, z).argmax(axis=1)
        return jnp.stack(jnp.unravel_index(region, self.factor_sizes), axis=1)

    def means(self, state: State) -> jax.Array:
        """Returns the means ``[C, D]`` of the regions."""
        return state.model_state[PRIOR]["means"]

    def draw(self, key: jax.Array, state: State, region: jax.Array) -> jax.Array:
        """Returns codes ``[N, D]`` drawn from the regions ``[N]``."""
        prior = state.model_state[PRIOR]
        return distributions.gaussian_component_sample(
            key, region, prior["means"], prior["covariances"]
        )

    def symbol(self, key: jax.Array, state: State, relation: jax.Array) -> jax.Array:
        """Returns vectors ``[N, S]`` that denote the relations ``[N]``."""
        return self._learner.symbol(key, state.model_state[PRIOR], relation)

    def relate(
        self, state: State, symbol: jax.Array, *operands: jax.Array
    ) -> jax.Array:
        """Returns codes ``[N, O, D]``: the relations applied to ``operands [N, D]``."""
        return self._learner.relate(state.params["learner"], symbol, *operands)


def _largest_tau(hypers: Sequence[Mapping[str, float]]) -> int:
    return max(math.ceil(hyper["tau"]) for hyper in hypers)


def _statistics(state: State) -> dict:
    """Returns the state of the networks, without the mixture."""
    return {name: v for name, v in state.model_state.items() if name != PRIOR}


def _with_part(state: State, part: str, params: Any, opt_state: Any) -> State:
    return state._replace(
        params={**state.params, part: params},
        opt_state={**state.opt_state, part: opt_state},
    )


def log_weights(present: jax.Array) -> jax.Array:
    """Returns equal log-weights of what is present, or of everything if nothing is."""
    return jnp.where(present | ~present.any(), 0.0, -jnp.inf)
