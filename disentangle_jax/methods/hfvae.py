"""HFVAE: continuous and Concrete variables, with two levels of independence."""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from disentangle_jax import distributions, losses
from disentangle_jax.methods.definition import Hyperparameter, define
from disentangle_jax.methods.gradient import GradientMethod
from disentangle_jax.methods.method import (
    Batch,
    Hyper,
    Method,
    Networks,
    Terms,
    log_variances,
    new_state,
)
from disentangle_jax.types import Posterior, State, check_groups, unknown_name

# Name of the parameter that a learned correlation of the prior is computed from.
_CORRELATION = "prior_correlation"


@define(
    name="hfvae",
    hyperparameters={
        "alpha": Hyperparameter(1.0, doc="weight of the mutual information"),
        "beta": Hyperparameter(4.0, doc="weight of the correlation between groups"),
        "gamma": Hyperparameter(3.0, doc="weight of the correlation within groups"),
        "temperature": Hyperparameter(
            0.66, positive=True, doc="temperature of the Concrete variables"
        ),
    },
    reference='Esmaeili et al., "Structured Disentangled Representations", Eq. 4',
)
@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class HFVAE(GradientMethod):
    r"""HFVAE, which penalises dependence between and within groups of variables.

    A step minimises :func:`losses.hfvae`. If the model has discrete variables (an
    attribute ``discrete`` with their numbers of categories, as ``hfvae-mlp`` and
    ``conv64``), each is drawn from a Concrete distribution, and the continuous ones are
    drawn given these draws. Without discrete variables ``temperature`` has no effect.

    The prior of a discrete variable is a uniform Concrete distribution of the same
    temperature, that of the continuous variables standard normal. With `correlation`
    the latter does not factorise: :math:`p(z) = \mathcal N(0, R)` with ones on the
    diagonal of R, so that each dimension alone stays standard normal. Term Ⓐ then
    matches the dependence between groups under the aggregate posterior to that of the
    prior (Sec. 3). A learned R follows the gradient of :math:`\log p(z)` alone,
    whatever the weights of the terms: it converges to the maximum likelihood for the
    codes.

    A Concrete variable is one element of the objective. The density of the continuous
    variables of example i under the posterior of example j is conditioned on j's own
    discrete draw, as in the authors' code: exact densities of all pairs would need B²
    passes through the encoder. `concrete_density` chooses the density of the Concrete
    variables in the terms. ``"relaxed"`` densities are those of their logarithms, which
    do not underflow; the loss is the same, since its terms are ratios of densities at
    one point.

    A code, ``Posterior.mean`` ``[B, D + M]``, consists of the means of the D continuous
    variables given the most probable classes, and of these classes as one-hot vectors
    of M elements in total. Scores of whole variables then see classes: probabilities
    would be binned into more cells than a continuous variable and seem to hold more
    information. ``log_var`` ``[B, D]`` belongs to the continuous variables, ``logits``
    ``[B, M]`` to the classes. ``latent_groups`` are the variables of this code: each
    continuous one, and each discrete one as a whole.

    Attributes:
      dataset_size: number of training examples.
      estimator: estimator of the aggregate posterior; see
        :func:`losses.aggregate_log_densities`.
      concrete_density: which density of the Concrete variables the terms use:
        ``"pmf"``, that of the authors' code; ``"relaxed"``; ``"exact"``; or
        ``"exact_stopped"``, our own estimator. :func:`losses.hfvae` describes each and
        the bias of its gradient.
      groups: sizes of the contiguous groups of elements, continuous variables first;
        None for those of the model.
      correlation: correlation of the prior of the continuous variables. None: none. A
        matrix ``[D, D]``: fixed. ``"full"``: learned, of all pairs. ``"between"``:
        learned, of pairs in different groups; those of one group are independent. A
        learned one adds parameters, see :func:`distributions.correlation_matrix`, and
        starts at the identity.
    """

    dataset_size: int | None = None
    estimator: str = "stratified"
    concrete_density: str = "pmf"
    groups: Sequence[int] | None = None
    correlation: str | Sequence[Sequence[float]] | None = None

    def __post_init__(self) -> None:
        # These check the options.
        _ = self._groups, self._prior_correlation
        losses.with_density((), self.concrete_density)

    @functools.cached_property  # The model decides, not the class.
    def discrete(self) -> tuple[int, ...]:  # type: ignore[override]
        return tuple(getattr(self.model, "discrete", ()))

    @property
    def latent_groups(self) -> tuple[int, ...]:
        return (1,) * self._dims + self.discrete

    @property
    def evaluators(self) -> tuple[str, ...]:  # type: ignore[override]
        return Method.evaluators + ("discrete_variables",) * bool(self.discrete)

    @property
    def _dims(self) -> int:
        """Number of continuous variables, the first elements."""
        return sum(self.model.latent_groups) - len(self.discrete)

    @functools.cached_property
    def _groups(self) -> tuple[int, ...]:
        own = self.model.latent_groups
        return check_groups(
            "hfvae", own if self.groups is None else self.groups, sum(own)
        )

    @functools.cached_property
    def _prior_correlation(self) -> Callable[[Any], jax.Array] | None:
        """The prior's correlation as a function of the parameters, or None."""
        if self.correlation is None:
            return None
        if isinstance(self.correlation, str):
            within = _independent_groups(self.correlation, self._groups, self._dims)
            return lambda params: distributions.correlation_matrix(
                params[_CORRELATION], groups=within
            )
        fixed = _checked_correlation(self.correlation, self._dims)
        return lambda params: jnp.asarray(fixed, jnp.float32)

    def init(self, key: jax.Array, batch: Batch) -> State:
        state = super().init(key, batch)
        if not isinstance(self.correlation, str):
            return state
        params = {**state.params, _CORRELATION: jnp.zeros((self._dims, self._dims))}
        return new_state(params, state.model_state, self.optimizer.init(params))

    def loss(
        self,
        networks: Networks,
        key: jax.Array,
        step: jax.Array,
        batch: Batch,
        hyper: Hyper,
    ) -> tuple[jax.Array, Terms]:
        del step
        x, temperature = batch["image"], hyper["temperature"]
        _check_temperature(temperature)
        normal_key, concrete_key = jax.random.split(key)

        def draw_classes(logits: jax.Array) -> list[jax.Array]:
            return [
                _draw_log_concrete(
                    jax.random.fold_in(concrete_key, number),
                    part,
                    temperature,
                    self.axis_name,
                )
                for number, part in enumerate(self._split(logits))
            ]

        def classes(logits: jax.Array) -> jax.Array:
            return jnp.exp(jnp.concatenate(draw_classes(logits), axis=-1))

        # The encoder draws the classes itself: one forward and one backward pass.
        given = {"discrete": classes} if self.discrete else {}
        posterior = networks.encode(x, **given)
        z = code = self.draw_codes(normal_key, posterior)
        drawn = []
        if self.discrete:
            logits = cast(jax.Array, posterior.logits)
            pairs = zip(draw_classes(logits), self._split(logits), strict=True)
            drawn = [losses.Concrete(*pair, temperature) for pair in pairs]
            code = jnp.concatenate([z, classes(logits)], axis=-1)
        prior, fit = self._prior_terms(networks.params, z, drawn)
        value, terms = losses.hfvae(
            x,
            networks.decode(code),
            z,
            posterior.mean,
            log_variances(posterior),
            alpha=hyper["alpha"],
            beta=hyper["beta"],
            gamma=hyper["gamma"],
            groups=self._groups,
            dataset_size=self.dataset_size,
            concrete=drawn,
            concrete_density=self.concrete_density,
            estimator=self.estimator,
            reconstruction=self.likelihood.loss,
            axis_name=self.axis_name,
            **prior,
        )
        return value + fit, terms

    def _prior_terms(
        self, params: Any, z: jax.Array, drawn: list[losses.Concrete]
    ) -> tuple[dict[str, Any], jax.Array | float]:
        """Returns log-densities of a correlated prior, and a loss that fits it.

        The loss has the value 0, so that the objective stays Eq. 4, and a gradient with
        respect to the prior alone.
        """
        if self._prior_correlation is None:
            return {}, 0.0
        learned, fixed = self._prior_correlation(params), jax.lax.stop_gradient
        prior = losses.correlated_log_prior(
            z,
            fixed(learned),
            groups=self._groups,
            concrete=losses.with_density(drawn, self.concrete_density),
        )
        seen = losses.correlated_log_prior(fixed(z), learned, groups=(self._dims,))
        fit = -seen["log_p_joint"].mean()
        return prior, fit - fixed(fit)

    def encode(self, state: State, x: jax.Array) -> Posterior:
        networks = self.networks(state)
        posterior = networks.encode(x)
        if not self.discrete:
            return posterior
        classes = jnp.concatenate(
            [
                jax.nn.one_hot(logits.argmax(axis=-1), logits.shape[-1])
                for logits in self._split(cast(jax.Array, posterior.logits))
            ],
            axis=-1,
        )
        mean, log_var, logits = networks.encode(x, discrete=classes)
        return Posterior(jnp.concatenate([mean, classes], axis=-1), log_var, logits)

    def prior(self, key: jax.Array, state: State, n: int) -> jax.Array:
        codes = super().prior(key, state, n)
        if self._prior_correlation is None:
            return codes
        factor = jnp.linalg.cholesky(self._prior_correlation(state.params))
        continuous = jnp.matmul(codes[:, : self._dims], factor.T, precision="highest")
        return codes.at[:, : self._dims].set(continuous)

    def _split(self, logits: jax.Array) -> list[jax.Array]:
        """Splits ``[B, M]`` into the parts of the discrete variables."""
        ends = list(itertools.accumulate(self.discrete))[:-1]
        return jnp.split(logits, ends, axis=-1)


def _independent_groups(
    correlation: str, groups: tuple[int, ...], dims: int
) -> list[int] | None:
    """Returns sizes of groups of uncorrelated variables; None for correlation "full".

    Args:
      correlation: ``"full"`` or ``"between"``.
      groups: sizes of the groups of elements.
      dims: number of continuous variables, the first elements.
    """
    if correlation not in ("full", "between"):
        raise unknown_name("hfvae", "correlation", correlation, ("full", "between"))
    if correlation == "full":
        return None
    bounds = [min(end, dims) for end in itertools.accumulate(groups, initial=0)]
    sizes = [high - low for low, high in itertools.pairwise(bounds) if high > low]
    if len(sizes) < 2:
        raise ValueError(
            "hfvae: `correlation` 'between' needs at least two groups of "
            f"continuous variables, got {groups}; set `groups`, or 'full'."
        )
    return sizes


def _checked_correlation(
    correlation: Sequence[Sequence[float]], dims: int
) -> np.ndarray:
    """Returns a fixed correlation matrix ``[dims, dims]``."""
    matrix = np.asarray(correlation, np.float64)
    if (
        matrix.shape != (dims, dims)
        or not np.array_equal(matrix, matrix.T)
        or not (np.diagonal(matrix) == 1).all()
        or not np.linalg.eigvalsh(matrix)[0] > 1e-6
    ):
        raise ValueError(
            f"hfvae: `correlation` must be a symmetric positive definite {dims} x "
            f"{dims} matrix with ones on its diagonal, 'full' or 'between', got "
            f"{correlation}."
        )
    return matrix


def _check_temperature(temperature: jax.Array | float) -> None:
    """Raises if the value is known and wrong; inside a compiled step it is unknown."""
    if not isinstance(temperature, jax.core.Tracer) and not temperature > 0:
        raise ValueError(
            "hfvae: `temperature` must be positive, got "
            f"{temperature}; the authors' is 0.66."
        )


def _draw_log_concrete(
    key: jax.Array,
    logits: jax.Array,
    temperature: jax.Array | float,
    axis_name: str | None,
) -> jax.Array:
    """Returns the logarithm of a Concrete draw for each row of ``logits [B, K]``.

    With `axis_name` each device takes its rows of the draw for the global batch, as
    :meth:`Method.draw_codes` does.
    """
    if axis_name is None:
        return distributions.exp_concrete_sample(key, logits, temperature)
    rows = logits.shape[0]
    everyone = jax.lax.all_gather(logits, axis_name, tiled=True)
    drawn = distributions.exp_concrete_sample(key, everyone, temperature)
    start = jax.lax.axis_index(axis_name) * rows
    return jax.lax.dynamic_slice_in_dim(drawn, start, rows)
