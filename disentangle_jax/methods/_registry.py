"""Methods by name: what each minimises, and which numbers and choices it takes."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import flax.linen as nn
import jax
import optax

from disentangle_jax import losses
from disentangle_jax.methods._absae import absae
from disentangle_jax.methods._factor import factor_vae
from disentangle_jax.methods._few_labels import few_labels_vae
from disentangle_jax.methods._hfvae import hfvae
from disentangle_jax.methods._method import Hyper, Method
from disentangle_jax.methods._one_objective import one_objective
from disentangle_jax.methods._pairs import adaptive_pairs
from disentangle_jax.methods._topics import topic_model
from disentangle_jax.types import unknown_name

_REQUIRED = None

# Reconstruction by name, and what the decoder's logits then mean as an image.
_RECONSTRUCTIONS = {
    "bernoulli": (losses.bernoulli_reconstruction, jax.nn.sigmoid),
    "gaussian": (losses.gaussian_reconstruction, lambda logits: logits),
    "mse": (losses.mse, lambda logits: logits),
    "l1": (losses.l1_reconstruction, lambda logits: logits),
    "box_blur_mse": (losses.box_blur_mse, lambda logits: logits),
    "multinomial": (losses.multinomial_reconstruction, jax.nn.softmax),
}


@dataclasses.dataclass(frozen=True)
class _Spec:
    """One method.

    Attributes:
      hyper: its numbers and their defaults, None where there is none. Each may be
        traced, and so be a lane.
      options: its choices and their defaults. Another choice is another program.
      build: makes the method.
    """

    hyper: Mapping[str, float | None]
    options: Mapping[str, Any]
    build: Callable[..., Method]


def _objective(
    function: Callable,
    *,
    hyper: Mapping[str, float | None] = {},
    options: Mapping[str, Any] = {},
    derive: Callable[[jax.Array, Hyper], Hyper] = lambda step, hyper: hyper,
    needs: Sequence[str] = (),
    **fixed: Any,
) -> _Spec:
    """Returns the spec of a method that has one objective.

    Args:
      function: the objective, of :mod:`losses`.
      hyper: see :class:`_Spec`.
      options: see :class:`_Spec`; passed on to the objective.
      derive: turns ``(step, hyper)`` into the numbers that the objective takes.
      needs: what else the objective takes: ``key``, ``dataset_size``,
        ``latent_groups``.
      **fixed: arguments of the objective that make the method what it is.
    """

    def build(model, optimizer, *, reconstruction, output, axis_name, context, options):
        given = {name: context[name] for name in needs if name != "key"}

        def objective(x, logits, z, mean, log_var, *, key, step, **hyper):
            drawn = {"key": key} if "key" in needs else {}
            return function(
                x,
                logits,
                z,
                mean,
                log_var,
                reconstruction=reconstruction,
                axis_name=axis_name,
                **derive(step, hyper),
                **given,
                **drawn,
                **fixed,
                **options,
            )

        return one_objective(
            model, objective, optimizer, output=output, axis_name=axis_name
        )

    return _Spec(hyper, options, build)


def _annealed_capacity(step: jax.Array, hyper: Hyper) -> Hyper:
    capacity = losses.linear_capacity(
        step, c_max=hyper["c_max"], threshold=hyper["threshold"]
    )
    return {"capacity": capacity, "gamma": hyper["gamma"]}


def _dip_weights(step: jax.Array, hyper: Hyper) -> Hyper:
    lambda_od = hyper["lambda_od"]
    return {"lambda_od": lambda_od, "lambda_d": lambda_od * hyper["lambda_d_factor"]}


def _dip(kind: str, factor: float) -> _Spec:
    return _objective(
        losses.dip_vae,
        hyper={"lambda_od": _REQUIRED, "lambda_d_factor": factor},
        derive=_dip_weights,
        kind=kind,
    )


def _procedure(
    function: Callable[..., Method],
    *,
    hyper: Mapping[str, float | None],
    options: Mapping[str, Any],
    needs: Sequence[str] = (),
    **fixed: Any,
) -> _Spec:
    """Returns the spec of a method whose step is its own."""

    def build(model, optimizer, *, context, options, **shared):
        given = {name: context[name] for name in needs}
        return function(model, optimizer, **shared, **given, **fixed, **options)

    return _Spec(hyper, options, build)


def _topic_model(concentration: float | None) -> _Spec:
    return _procedure(
        topic_model,
        hyper={"alpha": 1.0, "beta": 1.0, "gamma": 1.0},
        options={
            "estimator": "stratified",
            "groups": None,
            "concentration": concentration,
            "reconstruction": "multinomial",
        },
        needs=("dataset_size",),
    )


_METHODS: dict[str, _Spec] = {
    "ae": _objective(losses.ae),
    "vae": _objective(losses.vae, options={"kl": "analytic"}),
    "beta_vae": _objective(
        losses.beta_vae, hyper={"beta": _REQUIRED}, options={"kl": "analytic"}
    ),
    "annealed_vae": _objective(
        losses.annealed_vae,
        hyper={"c_max": _REQUIRED, "gamma": 1000.0, "threshold": 100_000.0},
        derive=_annealed_capacity,
    ),
    "beta_tc_vae": _objective(
        losses.beta_tc_vae,
        hyper={"beta": _REQUIRED, "alpha": 1.0, "gamma": 1.0},
        options={"estimator": "stratified"},
        needs=("dataset_size",),
    ),
    "dip_vae_i": _dip("i", 10.0),
    "dip_vae_ii": _dip("ii", 1.0),
    "info_vae": _objective(
        losses.info_vae,
        hyper={"lambda_": _REQUIRED, "alpha": 1.0},
        options={"kernel": "rbf"},
        needs=("key",),
    ),
    "wae": _objective(
        losses.wae,
        hyper={"lambda_": 10.0},
        options={"kernel": "imq", "mmd_compat": None},
        needs=("key",),
    ),
    "vlae": _objective(losses.vlae, hyper={"beta": 1.0}, needs=("latent_groups",)),
    "information_dropout": _objective(
        losses.information_dropout,
        hyper={"beta": _REQUIRED, "gamma": _REQUIRED},
        options={"estimator": "stratified"},
        needs=("dataset_size",),
    ),
    "factor_vae": _procedure(
        factor_vae,
        hyper={"gamma": _REQUIRED, "critic_learning_rate": 1e-4},
        options={"critic_width": 1000, "batches": 1},
    ),
    "ada_gvae": _procedure(
        adaptive_pairs,
        hyper={"beta": 1.0, "ratio": 0.5},
        options={"distance": "symmetric_kl"},
        average="gvae",
    ),
    "ada_ml_vae": _procedure(
        adaptive_pairs,
        hyper={"beta": 1.0, "ratio": 0.5},
        options={"distance": "symmetric_kl"},
        average="ml_vae",
    ),
    "few_labels_vae": _procedure(
        few_labels_vae,
        hyper={"beta": 1.0, "gamma_sup": _REQUIRED},
        options={"kind": "xent"},
        needs=("factor_sizes",),
    ),
    "hfvae": _procedure(
        hfvae,
        hyper={"alpha": 1.0, "beta": 4.0, "gamma": 3.0, "temperature": 0.66},
        options={"estimator": "stratified", "groups": None, "correlation": None},
        needs=("dataset_size",),
    ),
    "absae": _procedure(
        absae,
        hyper={
            "beta": 0.2,
            "gamma": 1.0,
            "discriminator_learning_rate": 1e-4,
            "relation_learning_rate": 1e-4,
            "tau": 20.0,
            "covariance_scale": 0.1,
            "shrinkage": 1.0,
            "label_weight": 1.0,
        },
        options={
            "relations": "dsprites",
            "relation_loss": "nll",
            "relation_batch": 128,
            "warmup_steps": 1000,
            "refit_every": 0,
            "labelled_batch": 0,
            "width": 1024,
            "depth": 4,
        },
        needs=("factor_sizes",),
    ),
    "prodlda": _topic_model(concentration=1.0),
    "nvdm": _topic_model(concentration=None),
}


def _spec(function: str, name: str) -> _Spec:
    if name not in _METHODS:
        raise unknown_name(function, "name", name, _METHODS)
    return _METHODS[name]


def names() -> tuple[str, ...]:
    """Returns the names of all training methods."""
    return tuple(_METHODS)


def hyperparameters(name: str) -> dict[str, float | None]:
    """Returns the numbers that the method `name` takes in ``hyper``, with defaults.

    None stands for a number that has no default: it must be given.
    """
    return dict(_spec("methods.hyperparameters", name).hyper)


def options(name: str) -> dict[str, Any]:
    """Returns the choices that :func:`create` takes for `name`, with defaults."""
    spec = _spec("methods.options", name)
    return {"reconstruction": "bernoulli", **spec.options}


def create(
    name: str,
    model: nn.Module,
    optimizer: optax.GradientTransformation,
    *,
    dataset_size: int | None = None,
    factor_sizes: Sequence[int] = (),
    axis_name: str | None = None,
    **choices: Any,
) -> Method:
    """Returns the method `name` on the networks of `model`.

    Args:
      name: one of :func:`names`.
      model: a module with ``encode`` and ``decode`` as :func:`models.create` gives.
      optimizer: an optax transformation without the learning rate; see
        :func:`gradient_method`.
      dataset_size: number of training examples, for the estimators of the aggregate
        posterior.
      factor_sizes: number of values of each factor, for methods that see labels.
      axis_name: mapped axis over which the batch is split, for a step that runs under
        ``pmap``; value and update are then those of the global batch.
      **choices: see :func:`options`.
    """
    spec = _spec("methods.create", name)
    known = options(name)
    for choice in choices:
        if choice not in known:
            raise unknown_name(f"methods.create({name!r})", "option", choice, known)
    chosen = {**known, **choices}
    kind = chosen.pop("reconstruction")
    if kind not in _RECONSTRUCTIONS:
        raise unknown_name("methods.create", "reconstruction", kind, _RECONSTRUCTIONS)
    reconstruction, output = _RECONSTRUCTIONS[kind]
    return spec.build(
        model,
        optimizer,
        reconstruction=reconstruction,
        output=output,
        axis_name=axis_name,
        context={
            "dataset_size": dataset_size,
            "latent_groups": tuple(model.latent_groups),
            "factor_sizes": tuple(factor_sizes),
        },
        options=chosen,
    )
