"""AbsAE and its relational learner: regions of the code, and moves between them."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

from disentangle_jax import data, distributions, losses, models
from disentangle_jax.methods._method import (
    Batch,
    Hyper,
    Method,
    Networks,
    Regions,
    Terms,
    as_unit_interval,
    descend,
    networks,
    new_state,
    split_variables,
    training_networks,
)
from disentangle_jax.types import State

_PRIOR = "prior"  # Its place in the model state.


def absae(
    model: nn.Module,
    optimizer: optax.GradientTransformation,
    *,
    reconstruction: Callable[[jax.Array, jax.Array], jax.Array],
    output: Callable[[jax.Array], jax.Array],
    axis_name: str | None,
    factor_sizes: Sequence[int],
    relations: str | Iterable[data.Relation],
    relation_loss: str,
    relation_batch: int,
    warmup_steps: int,
    refit_every: int,
    labelled_batch: int,
    width: int,
    depth: int,
) -> Method:
    r"""Returns AbsAE with ReL ("Leveraging Relational Information …", Sec. 3).

    A deterministic autoencoder whose codes an adversary presses into a prior. During
    the warm-up the prior is U(-1, 1) in each dimension; then it is a mixture of one
    Gaussian per combination of factors (Eq. 6), fitted to the codes of ``tau`` labelled
    images of each (:func:`distributions.gaussian_mixture_fit`), the encoder in
    evaluation mode. From then on the relational learner is trained too, on draws from
    the mixture alone.

    One step does what the published code does per batch, in its order:

    1. reconstruction, a mean over pixels: encoder and decoder;
    2. after the warm-up, ReL (Eq. 8): ``relation_batch`` examples of each relation,
       from combinations drawn uniformly among those it is defined for;
    3. the encoder alone against the discriminator, non-saturating, weighted by beta,
       with the same Adam as in 1;
    4. the discriminator, weighted by beta, on the codes of 3.

    Encoder, decoder, discriminator and ReL have an Adam each. The published sampler
    always draws component 0 of the mixture, an error; here components are uniform. Its
    discriminator has an input for labels that are always zero: labels serve the fit
    alone, and nothing tells the adversary into *which* component a code belongs. With
    ``labelled_batch`` images a step, which the paper does not have, 3 also adds

    .. math:: - \frac{\lambda}{D} \log \mathcal N(z; \mu_c, \Sigma_c)

    for the codes z of labelled images of combination c, after the warm-up.

    Hyperparameters: ``beta``, ``gamma`` (weights of the adversary and of ReL),
    ``discriminator_learning_rate`` and ``relation_learning_rate`` (in the paper all
    four rates are equal), ``tau``, ``covariance_scale`` and ``shrinkage`` (of the fit;
    see :func:`distributions.gaussian_mixture_fit`), ``label_weight``
    (:math:`\lambda`).

    Args:
      model: the autoencoder; its parameters must have a part named "decoder".
      optimizer: of all four; see :func:`gradient_method`.
      reconstruction: function of ``(x, logits)`` that returns ``[B]``.
      output: what the decoder's logits mean as an image.
      axis_name: must be None; batch norm needs the whole batch.
      factor_sizes: number of values of each factor.
      relations: a name that :func:`data.relations` knows, or the relations.
      relation_loss: ``"nll"`` (the paper's) or ``"mse"`` (its code's); see
        :func:`losses.relation_loss`.
      relation_batch: examples of each relation in a step.
      warmup_steps: steps before the fit.
      refit_every: steps between further fits of means and covariances, without
        ``covariance_scale``, which the codes have followed by then; 0 for none.
      labelled_batch: labelled images a step whose codes are drawn to their component;
        0 for none, as in the paper.
      width: units in each layer of the discriminator and of ReL (1024 in the paper).
      depth: their number of hidden layers (3 in the paper's text, 4 in its code).
    """
    if axis_name is not None:
        raise ValueError(
            "absae: `axis_name` must be None: batch norm and the fit need the whole "
            "batch; use jit on a mesh."
        )
    for name, value, low in (
        ("relation_batch", relation_batch, 1),
        ("warmup_steps", warmup_steps, 0),
        ("refit_every", refit_every, 0),
        ("labelled_batch", labelled_batch, 0),
    ):
        if value < low:
            raise ValueError(f"absae: `{name}` must be at least {low}, got {value}.")
    if not factor_sizes:
        raise ValueError(
            "absae: `factor_sizes` must not be empty: regions need labels."
        )
    if isinstance(relations, str):
        relations = data.relations(relations)
    table = data.relation_table(relations, factor_sizes)
    latents, components = sum(model.latent_groups), table.components
    discriminator = models.PriorDiscriminator(width=width, depth=depth)
    learner = models.RelationNetwork(
        latent_dim=table.outputs * latents, width=width, depth=depth
    )
    code_width = len(table.names) if table.operators is None else latents
    draw_examples = _example_sampler(table)
    # Losses that are sums over pixels become means, beside which beta was chosen.
    is_mean = reconstruction in (losses.mse, losses.box_blur_mse)

    def init(key: jax.Array, batch: Batch) -> State:
        model_key, critic_key, learner_key = jax.random.split(key, 3)
        variables = model.init(model_key, as_unit_interval(batch["image"][:1]))
        autoencoder, model_state = split_variables(variables)
        if "decoder" not in autoencoder:
            raise ValueError(
                "absae: `model` must keep its decoder's parameters as 'decoder', got "
                f"{sorted(autoencoder)}; the encoder has steps of its own."
            )
        encoder, decoder = _parts(autoencoder)
        inputs = jnp.zeros((1, table.arity * latents + code_width))
        params = {
            "encoder": encoder,
            "decoder": decoder,
            "discriminator": discriminator.init(critic_key, jnp.zeros((1, latents)))[
                "params"
            ],
            "learner": learner.init(learner_key, inputs)["params"],
        }
        prior = {
            "means": jnp.zeros((components, latents)),
            "covariances": jnp.tile(jnp.eye(latents), (components, 1, 1)),
            "present": jnp.zeros(components, bool),
        }
        opt_state = {name: optimizer.init(part) for name, part in params.items()}
        return new_state(params, {**model_state, _PRIOR: prior}, opt_state)

    def step(
        key: jax.Array, state: State, batch: Batch, hyper: Hyper
    ) -> tuple[State, Terms]:
        keys = jax.random.split(key, 6)
        x = as_unit_interval(batch["image"])
        params, opt_state = dict(state.params), dict(state.opt_state)
        model_state = dict(state.model_state)
        prior = model_state.pop(_PRIOR)
        warming = state.step < warmup_steps

        def update(name: str, grads: Any, rate: str = "learning_rate") -> None:
            params[name], opt_state[name] = descend(
                params[name], grads, opt_state[name], optimizer, hyper[rate], None
            )

        def reconstruct(encoder, decoder):
            nets, left = training_networks(
                model, {**encoder, "decoder": decoder}, model_state, keys[0]
            )
            error = reconstruction(x, nets.decode(nets.encode(x).mean))
            pixels = 1 if is_mean else math.prod(x.shape[1:])
            return error.mean() / pixels, left

        (error, model_state), grads = jax.value_and_grad(
            reconstruct, argnums=(0, 1), has_aux=True
        )(params["encoder"], params["decoder"])
        update("encoder", grads[0])
        update("decoder", grads[1])

        def relate_loss(learner_params):
            inputs, targets, drawn, counted = _examples(keys[1], prior)
            found = learner.apply({"params": learner_params}, inputs)
            found = found.reshape(-1, latents)
            each = losses.relation_loss(
                found,
                targets.ravel() if relation_loss == "nll" else drawn,
                form=relation_loss,
                means=prior["means"],
                covariances=prior["covariances"],
            ).reshape(targets.shape)
            each = jnp.where(counted[:, None], each, 0.0)
            return each.sum() / jnp.maximum(counted.sum() * table.outputs, 1)

        def relate_step(learner_params, learner_opt):
            loss, grads = jax.value_and_grad(relate_loss)(learner_params)
            grads = jax.tree.map(lambda g: hyper["gamma"] * g, grads)
            rate = hyper["relation_learning_rate"]
            changed = descend(learner_params, grads, learner_opt, optimizer, rate, None)
            return *changed, loss

        params["learner"], opt_state["learner"], relation_error = jax.lax.cond(
            warming,
            lambda p, o: (p, o, jnp.zeros(())),
            relate_step,
            params["learner"],
            opt_state["learner"],
        )

        seen = x
        if labelled_batch:
            chosen, images = _labelled(keys[2], batch["labelled"], hyper["tau"])
            seen = jnp.concatenate([x, images])

        def judge(critic: dict, z: jax.Array) -> jax.Array:
            return discriminator.apply({"params": critic}, z)

        def fool(encoder):
            nets, left = training_networks(
                model, {**encoder, "decoder": params["decoder"]}, model_state, keys[3]
            )
            z = nets.encode(seen).mean
            plain = z[: x.shape[0]]
            logits = judge(params["discriminator"], plain)
            game = losses.adversarial_prior_losses(logits, logits)
            terms = {"generator": game["generator"]}
            value = hyper["beta"] * game["generator"]
            if labelled_batch:
                own = losses.relation_loss(
                    z[x.shape[0] :],
                    chosen,
                    means=prior["means"],
                    covariances=prior["covariances"],
                )
                terms["labelled"] = jnp.where(warming, 0.0, own.mean() / latents)
                value += hyper["label_weight"] * terms["labelled"]
            return value, (terms, plain, left)

        (_, (game_terms, z, model_state)), grads = jax.value_and_grad(
            fool, has_aux=True
        )(params["encoder"])
        update("encoder", grads)

        drawn = jnp.where(
            warming,
            jax.random.uniform(keys[5], z.shape, minval=-1.0, maxval=1.0),
            _mixture_draw(keys[4], prior, z.shape[0]),
        )

        def tell_apart(critic):
            game = losses.adversarial_prior_losses(
                judge(critic, jax.lax.stop_gradient(z)), judge(critic, drawn)
            )
            return hyper["beta"] * game["discriminator"], game["discriminator"]

        (_, told), grads = jax.value_and_grad(tell_apart, has_aux=True)(
            params["discriminator"]
        )
        update("discriminator", grads, "discriminator_learning_rate")
        state = State(state.step + 1, params, {**model_state, _PRIOR: prior}, opt_state)
        return state, {
            "loss": error + hyper["beta"] * game_terms["generator"],
            "reconstruction": error,
            **game_terms,
            "discriminator": told,
            "relation": relation_error,
        }

    def _examples(key: jax.Array, prior: dict):
        """Draws inputs, targets, codes of the targets, and which examples count."""
        which, where, operator, target = jax.random.split(key, 4)
        relation, operands, targets = draw_examples(which, relation_batch)
        codes = distributions.gaussian_component_sample(
            where, operands.ravel(), prior["means"], prior["covariances"]
        ).reshape(len(operands), -1)
        symbol = _relation_code(operator, prior, relation)
        drawn = distributions.gaussian_component_sample(
            target, targets.ravel(), prior["means"], prior["covariances"]
        )
        present = prior["present"]
        counted = present[operands].all(axis=1) & present[targets].all(axis=1)
        if table.operators is not None:
            counted &= present[jnp.asarray(table.operators)[relation]]
        return jnp.concatenate([codes, symbol], axis=1), targets, drawn, counted

    def _relation_code(key: jax.Array, prior: dict, relation: jax.Array) -> jax.Array:
        if table.operators is None:
            return jax.nn.one_hot(relation, len(table.names))
        return distributions.gaussian_component_sample(
            key,
            jnp.asarray(table.operators)[relation],
            prior["means"],
            prior["covariances"],
        )

    def _labelled(key: jax.Array, labelled: dict, tau: jax.Array):
        """Draws labelled images, every combination that has some equally often."""
        which, where = jax.random.split(key)
        known = jnp.minimum(labelled["count"], tau.astype(jnp.int32))
        weights = _log_weights(known > 0)
        chosen = jax.random.categorical(which, weights, shape=(labelled_batch,))
        place = jax.random.randint(
            where, (labelled_batch,), 0, jnp.maximum(known[chosen], 1)
        )
        return chosen, as_unit_interval(labelled["image"][chosen, place])

    def at(state: State) -> Networks:
        params = {**state.params["encoder"], "decoder": state.params["decoder"]}
        rest = {k: v for k, v in state.model_state.items() if k != _PRIOR}
        return networks(model, params, rest)

    def fit(state: State, labelled: dict, hyper: Hyper) -> State:
        encode = at(state).encode
        # Combination by combination, so that few activations live at once.
        codes = jax.lax.map(
            lambda images: encode(as_unit_interval(images)).mean, labelled["image"]
        )
        tau = jnp.asarray(hyper["tau"]).astype(jnp.int32)
        first = state.step <= warmup_steps
        means, covariances, present = distributions.gaussian_mixture_fit(
            codes,
            jnp.minimum(labelled["count"], tau),
            scale=jnp.where(first, hyper["covariance_scale"], 1.0),
            shrinkage=hyper["shrinkage"],
        )
        prior = {"means": means, "covariances": covariances, "present": present}
        return state._replace(model_state={**state.model_state, _PRIOR: prior})

    def log_densities(state: State, z: jax.Array) -> jax.Array:
        prior = state.model_state[_PRIOR]
        values = distributions.gaussian_component_log_prob(
            z, prior["means"], prior["covariances"]
        )
        return jnp.where(prior["present"][None], values, -jnp.inf)

    def draw(key: jax.Array, state: State, region: jax.Array) -> jax.Array:
        prior = state.model_state[_PRIOR]
        return distributions.gaussian_component_sample(
            key, region, prior["means"], prior["covariances"]
        )

    def relate(state: State, symbol: jax.Array, *operands: jax.Array) -> jax.Array:
        inputs = jnp.concatenate([*operands, symbol], axis=1)
        found = learner.apply({"params": state.params["learner"]}, inputs)
        return found.reshape(-1, table.outputs, latents)

    return Method(
        init=init,
        step=step,
        encode=lambda state, x: at(state).encode(x),
        decode=lambda state, z: at(state).decode(z),
        output=output,
        latent_groups=tuple(model.latent_groups),
        regions=Regions(
            factor_sizes=tuple(factor_sizes),
            table=table,
            fit_steps=(warmup_steps, refit_every),
            fit=fit,
            log_densities=log_densities,
            means=lambda state: state.model_state[_PRIOR]["means"],
            draw=draw,
            symbol=lambda key, state, relation: _relation_code(
                key, state.model_state[_PRIOR], relation
            ),
            relate=relate,
        ),
        prior=lambda key, state, n: _mixture_draw(key, state.model_state[_PRIOR], n),
    )


def _parts(autoencoder: dict) -> tuple[dict, dict]:
    """Returns the parameters of the encoder and of the decoder."""
    encoder = {name: part for name, part in autoencoder.items() if name != "decoder"}
    return encoder, autoencoder["decoder"]


def _log_weights(present: jax.Array) -> jax.Array:
    """Equal log-weights of what is present (of everything where nothing is)."""
    return jnp.where(present | ~present.any(), 0.0, -jnp.inf)


def _mixture_draw(key: jax.Array, prior: dict, n: int) -> jax.Array:
    """Draws codes ``[n, D]``, equally often from every component that is present."""
    weights = _log_weights(prior["present"])
    return distributions.gaussian_mixture_sample(
        key, n, prior["means"], prior["covariances"], weights
    )[0]


def _example_sampler(table: data.RelationTable) -> Callable:
    """Returns ``(key, count) -> (relation [N], operands [N, arity], targets [N, O])``.

    `count` examples of each relation, uniform over what it is defined for.
    """
    operands = table.operands()
    counts = np.array([len(own) for own in operands], np.int32)
    padded = np.zeros((len(operands), counts.max(), table.arity), np.int32)
    for number, own in enumerate(operands):
        padded[number, : len(own)] = own
    targets = np.maximum(table.targets, 0)

    def draw(key: jax.Array, count: int) -> tuple[jax.Array, jax.Array, jax.Array]:
        relation = jnp.repeat(jnp.arange(len(operands)), count)
        place = jax.random.randint(
            key, relation.shape, 0, jnp.asarray(counts)[relation]
        )
        chosen = jnp.asarray(padded)[relation, place]
        found = jnp.asarray(targets)[(relation, *chosen.T)]
        return relation, chosen, found

    return draw
