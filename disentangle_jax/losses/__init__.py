r"""Terms and objectives of disentanglement research, as pure functions of arrays.

Synopsis::

    from disentangle_jax import losses, sampling

    def loss_fn(params, key, x):                 # any JAX networks, any optimizer
        mean, log_var = encode(params, x)
        z = sampling.reparameterize(key, mean, log_var)
        logits = decode(params, z)
        return losses.beta_tc_vae(
            x, logits, z, mean, log_var, beta=6.0, dataset_size=60_000
        )

    (loss, terms), grads = jax.value_and_grad(loss_fn, has_aux=True)(params, key, x)

*Terms* return one value per example, ``[B]``, or a scalar where they couple the batch
(each docstring says which). *Objectives* return ``(scalar, terms)`` and all take
``(x, logits, z, mean, log_var)`` followed by keywords: the observation in [0, 1], the
decoder's output for the draw ``z``, and the posterior. Hyperparameters have the paper's
names (``lambda_`` where Python forbids it), and each number may be traced: sweep them
with ``vmap``, or pass what a schedule gives at this step. ``reconstruction`` is a
function, such as :func:`bernoulli_reconstruction` or :func:`mse`. Terms come unweighted
unless their docstring says otherwise. Everything is in nats and minimised.

*Randomness.* Only :func:`wae` and :func:`info_vae` draw anything, a sample of the
prior, and they alone take ``key``, by keyword so that all objectives share one call.

*Precision.* float32 by default, float64 under ``jax.enable_x64``. Gradients are finite
at log-variances of ±20, logits of ±80 and codes that are all equal.

*Several devices.* Under plain ``jit`` with a sharded batch nothing need be said. Inside
``pmap`` or ``shard_map`` pass ``axis_name``: every device then returns the value of the
*global* batch (for per-example results, its own rows of it), and the gradient with
respect to replicated parameters, *after the usual mean over the axis*
(``jax.lax.pmean``), equals the single-device gradient on the global batch. Under
``shard_map`` with its default ``check_vma=True`` JAX already sums that gradient over
devices, the mean then changes nothing, and the result is the same. Keys must be the
same on every device.

*Which estimator?* The aggregate posterior is a mixture over the whole training set; a
batch only estimates it. ``estimator_bias.png`` beside this file draws the bias of each
estimator against the batch size, on 2,000 Gaussian posteriors in 4 dimensions whose
aggregate is known exactly (``python -m tests.benchmarks.estimator_bias``). In nats:

====  ==========================  ==========================
B     log q(z)                    total correlation
====  ==========================  ==========================
      stratified, mws, naive      stratified, mws, naive
16    -1.47, -4.85, +5.52         -0.10, +24.67, -6.45
128   -0.59, -6.52, +5.94         -0.46, +23.75, -13.60
1000  -0.07, -7.44, +7.07         -0.06, +22.95, -20.58
2000  exact, -7.60, +7.60         exact, +22.80, -22.80
====  ==========================  ==========================

``"stratified"`` is the least biased at every batch size. ``"mss"`` equals it within the
error of the measurement (5e-5 nats) but is not exact for a batch that is the whole data
set. What is left at small batches is Jensen's: the logarithm of a noisy mean.
"""

from disentangle_jax.losses._aggregate import (
    Concrete,
    aggregate_log_densities,
    hfvae_terms,
    kl_decomposition,
    log_q_marginals,
    pairwise_log_density,
    total_correlation,
)
from disentangle_jax.losses._critic import (
    adversarial_prior_losses,
    density_ratio_tc,
    discriminator_loss,
    relation_loss,
)
from disentangle_jax.losses._kl import (
    capacity_kl,
    gaussian_kl,
    gaussian_kl_per_dim,
    linear_capacity,
    normalize_beta,
    sampled_gaussian_kl,
    unnormalize_beta,
)
from disentangle_jax.losses._moments import (
    dip_penalty,
    gaussian_total_correlation,
    mmd,
)
from disentangle_jax.losses._objectives import (
    abs_ae,
    ada_gvae,
    ada_ml_vae,
    ae,
    anchor_vae,
    annealed_vae,
    beta_tc_vae,
    beta_vae,
    dip_vae,
    factor_vae,
    hfvae,
    info_vae,
    information_dropout,
    vae,
    vlae,
    wae,
)
from disentangle_jax.losses._priors import correlated_log_prior, standard_log_prior
from disentangle_jax.losses._reconstruction import (
    bernoulli_reconstruction,
    box_blur_mse,
    gaussian_reconstruction,
    l1_reconstruction,
    mse,
    multinomial_reconstruction,
    per_pixel,
)
from disentangle_jax.losses._supervision import (
    ada_gvae_posteriors,
    supervised_alignment,
)

__all__ = [
    "Concrete",
    "abs_ae",
    "ada_gvae",
    "ada_gvae_posteriors",
    "ada_ml_vae",
    "adversarial_prior_losses",
    "ae",
    "aggregate_log_densities",
    "anchor_vae",
    "annealed_vae",
    "bernoulli_reconstruction",
    "beta_tc_vae",
    "beta_vae",
    "box_blur_mse",
    "capacity_kl",
    "correlated_log_prior",
    "density_ratio_tc",
    "dip_penalty",
    "dip_vae",
    "discriminator_loss",
    "factor_vae",
    "gaussian_kl",
    "gaussian_kl_per_dim",
    "gaussian_reconstruction",
    "gaussian_total_correlation",
    "hfvae",
    "hfvae_terms",
    "info_vae",
    "information_dropout",
    "kl_decomposition",
    "l1_reconstruction",
    "linear_capacity",
    "log_q_marginals",
    "mmd",
    "mse",
    "multinomial_reconstruction",
    "normalize_beta",
    "pairwise_log_density",
    "per_pixel",
    "relation_loss",
    "sampled_gaussian_kl",
    "standard_log_prior",
    "supervised_alignment",
    "total_correlation",
    "unnormalize_beta",
    "vae",
    "vlae",
    "wae",
]
