"""One call of every objective and every batch-coupled term, and a fast `jit`."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from disentangle_jax import distributions, losses

# Tests call most programs once: compiling takes longer than running them.
QUICK = {"xla_backend_optimization_level": 0}
quick_jit = functools.partial(jax.jit, compiler_options=QUICK)

N = 100  # size of the dataset that the batches are drawn from

# The hyperparameters of each objective, all of which may be traced.
HYPERPARAMETERS = {
    "ae": {},
    "vae": {},
    "beta_vae": {"beta": 4.0},
    "annealed_vae": {"capacity": 3.0, "gamma": 10.0},
    "beta_tc_vae": {"alpha": 0.5, "beta": 6.0, "gamma": 2.0, "dataset_size": N},
    "factor_vae": {"gamma": 10.0},
    "dip_vae": {"lambda_od": 2.0, "lambda_d": 5.0},
    "info_vae": {"alpha": 0.3, "lambda_": 7.0, "scale": 3.0},
    "wae": {"lambda_": 10.0, "scale": 4.0},
    "hfvae": {"alpha": 0.5, "beta": 4.0, "gamma": 3.0, "dataset_size": N},
    "anchor_vae": {"lambda_": 0.7, "dataset_size": N},
    "information_dropout": {"beta": 2.0, "gamma": 3.0, "dataset_size": N},
    "vlae": {"beta": 1.5},
    "ada_gvae": {"beta": 2.0, "ratio": 0.4},
    "ada_ml_vae": {"beta": 2.0, "ratio": 0.4},
    "abs_ae": {"beta": 0.2},
    "qlae": {"lambda_quantisation": 0.3, "lambda_commitment": 0.2},
    "slow_vae": {"beta": 0.5, "gamma": 2.0, "rate": 3.0},
    "bio_ae": {
        "lambda_nonnegative": 0.7,
        "lambda_activity": 0.3,
        "lambda_weight": 0.1,
    },
    "tripod": {"lambda_information": 0.1, "lambda_hessian": 0.2, "epsilon": 1.6},
}
WEIGHTS = np.sin(np.arange(40.0)).reshape(8, 5)  # of the layers below


def codebook(dims):
    """Values of each latent; no code of a random batch is equally near to two."""
    values = np.linspace(-1.5, 1.4, 5)[None] + 0.03 * np.arange(dims)[:, None]
    return jnp.asarray(values)


def activations(z, xp=jnp):
    """Two layers of a decoder of codes ``[B, D]``, by JAX or by NumPy."""
    first = z @ xp.asarray(WEIGHTS[: z.shape[1]], z.dtype)
    return {"first": xp.sin(first), "second": xp.tanh(first[:, :4]).reshape(-1, 2, 2)}


def objectives(batch, numbers, key, axis_name=None):
    """Every objective on one batch of even size with at least 3 dimensions."""
    _, _, z, mean, _ = batch
    dims = mean.shape[1]
    critic = z.sum(axis=1) * jnp.cos(z[:, 0])
    fixed = {name: {} for name in HYPERPARAMETERS}
    fixed["factor_vae"] = {"critic_logits": critic}
    fixed["dip_vae"] = {"kind": "ii"}
    fixed["info_vae"] = {"key": key}
    fixed["wae"] = {"key": key}
    fixed["hfvae"] = {"groups": (2, dims - 2)}
    fixed["anchor_vae"] = {"anchors": (0, 2)}
    fixed["vlae"] = {"latent_groups": (1, dims - 1)}
    fixed["abs_ae"] = {"critic_logits": critic}
    fixed["bio_ae"] = {"weights": {"kernel": WEIGHTS, "bias": WEIGHTS[0]}}
    fixed["qlae"] = {"codebook": codebook(dims)}
    fixed["tripod"] = {"key": key, "activations": activations}
    # Neighbouring rows are pairs, so that a split of the batch keeps them together.
    paired = [jnp.concatenate([a[::2], a[1::2]]) for a in batch]
    return {
        name: getattr(losses, name)(
            *(paired if name.startswith(("ada_", "slow_")) else batch),
            axis_name=axis_name,
            **fixed[name],
            **numbers[name],
        )
        for name in HYPERPARAMETERS
    }


def batch_terms(batch, other, factors, axis_name=None):
    """Every term that couples the batch, as a scalar; `other` is a second sample."""
    _, _, z, mean, log_var = batch
    dims = mean.shape[1]
    critic = z.sum(axis=1) * jnp.cos(z[:, 0])
    critic2 = other.sum(axis=1)

    def average(values):
        value = values.mean()
        return value if axis_name is None else jax.lax.pmean(value, axis_name)

    common = {"dataset_size": N, "axis_name": axis_name}
    groups = (2, dims - 2)
    pairwise = losses.pairwise_log_density(
        distributions.gaussian_log_prob, z, mean, log_var, axis_name=axis_name
    )
    log_p = distributions.gaussian_log_prob(z, jnp.zeros_like(z), jnp.ones_like(z))
    terms = {
        "capacity_kl": losses.capacity_kl(
            losses.gaussian_kl(mean, log_var),
            gamma=3.0,
            capacity=0.5,
            axis_name=axis_name,
        ),
        "gaussian_total_correlation": losses.gaussian_total_correlation(
            z, axis_name=axis_name
        ),
        "density_ratio_tc": losses.density_ratio_tc(critic, axis_name=axis_name),
        "discriminator_loss": losses.discriminator_loss(
            critic, critic2, axis_name=axis_name
        ),
        "blockwise": losses.total_correlation(
            z, mean, log_var, estimator="mss", block_size=3, groups=groups, **common
        ),
        "mmd_sae_code": losses.mmd(
            other, z, mmd_compat="sae_code", axis_name=axis_name
        ),
    }
    for estimator in ("mws", "mss", "stratified", "naive"):
        terms[f"total_correlation_{estimator}"] = losses.total_correlation(
            z, mean, log_var, estimator=estimator, **common
        )
    draws = losses.Concrete(jax.nn.log_softmax(2 * other), mean + log_var, 0.5)
    densities = losses.log_q_marginals(
        z,
        mean,
        log_var,
        estimator="stratified",
        groups=(1, z.shape[1]),
        concrete=[draws],
        **common,
    )
    terms["log_q_marginals"] = sum(average(jnp.sin(v)) for v in densities.values())
    _, parts = losses.hfvae(
        *batch,
        beta=2.0,
        gamma=3.0,
        groups=(1, dims),
        concrete=[draws],
        concrete_density="exact_stopped",
        **common,
    )
    terms |= {f"exact_stopped_{k}": v for k, v in parts.items()}
    densities = losses.aggregate_log_densities(
        pairwise, estimator="mss", groups=groups, **common
    )
    terms["aggregate_log_densities"] = sum(
        average(jnp.sin(v)) for v in densities.values()
    )
    parts = losses.kl_decomposition(z, mean, log_var, estimator="stratified", **common)
    terms.update({f"kl_decomposition_{k}": v for k, v in parts.items()})
    parts = losses.hfvae_terms(
        pairwise, log_p, groups=groups, log_p_joint=log_p.sum(axis=1) + 0.3, **common
    )
    terms.update({f"hfvae_terms_{k}": v for k, v in parts.items()})
    terms["code_deviation"] = average(
        jnp.sin(losses.code_deviation(z, axis_name=axis_name))
    )
    terms["multi_information"] = losses.multi_information(
        z, losses.code_deviation(mean, axis_name=axis_name), axis_name=axis_name
    )
    parts = losses.adversarial_prior_losses(critic, critic2, axis_name=axis_name)
    terms.update({f"adversarial_prior_losses_{k}": v for k, v in parts.items()})
    for kind in ("i", "ii"):
        terms[f"dip_penalty_{kind}"] = losses.dip_penalty(
            mean, log_var, kind=kind, lambda_od=2.0, lambda_d=3.0, axis_name=axis_name
        )
    for kernel in ("imq", "rbf"):
        terms[f"mmd_{kernel}"] = losses.mmd(
            other, z, kernel=kernel, axis_name=axis_name
        )
    for kind, extra in {
        "xent": {"factor_sizes": (4, 5)},
        "l2": {"scale": 1.5},
        "cov": {},
        "embed": {"embeddings": (jnp.arange(4.0), jnp.arange(5.0)), "sigma": 0.7},
    }.items():
        terms[f"supervised_alignment_{kind}"] = losses.supervised_alignment(
            mean, factors, kind=kind, axis_name=axis_name, **extra
        )
    return terms
