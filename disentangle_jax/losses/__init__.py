r"""Terms and objectives of disentanglement research, as pure functions of arrays.

Example::

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
(each docstring says which). *Objectives* return ``(scalar, terms)``, where the terms
are unweighted unless the docstring says otherwise. All values are minimised, and in
nats unless the docstring says otherwise. Hyperparameters have the paper's names
(``lambda_`` where Python reserves the name) and may be traced: sweep them with
``vmap``, or pass the current value of a schedule.

Arguments that many functions share:
  x: ``[B, ...]`` observations, in [0, 1] for :func:`bernoulli_reconstruction`.
  logits: the decoder's output for ``z``, same shape as ``x``.
  z: ``[B, D]`` draws from the posteriors, from which ``logits`` were decoded.
  mean: ``[B, D]`` posterior means. Objectives of deterministic encoders (:func:`ae`,
    :func:`wae`, :func:`abs_ae`) use only its number of rows.
  log_var: ``[B, D]`` posterior log-variances; None for deterministic encoders.
  reconstruction: function of ``(x, logits)`` that returns ``[B]``, such as
    :func:`bernoulli_reconstruction` or :func:`mse`.
  kl: ``"analytic"``, ``"sampled"``, ``"sae_code"`` (see :func:`gaussian_kl_per_dim`),
    or a function of ``(z, mean, log_var)`` that returns ``[B]``, for another prior.
  key: typed key for a sample of the prior, the same on every device. Only :func:`wae`
    and :func:`info_vae` draw samples.
  dataset_size: N, the number of training examples. The estimator ``"naive"`` ignores
    it.
  estimator: ``"stratified"``, ``"mss"``, ``"mws"`` or ``"naive"``, how a batch
    estimates the aggregate posterior; see :func:`aggregate_log_densities`.
  groups: sizes of contiguous groups of elements, which add up to the number E of
    elements; None means one group per element.
  concrete: C variables of :class:`Concrete`, each of which is one element after the D
    dimensions. Their densities are those of their logarithms; :func:`hfvae` describes
    other choices.
  block_size: number of codes to process at a time. It reduces memory from ``B * B`` to
    ``block_size * B`` values for very large batches. None, the fastest, processes all.
  axis_name: mapped axis over which the batch is split; None on one device and under
    ``jit``.

*Precision.* Results are float32 by default, and float64 under ``jax.enable_x64``.
Gradients are finite at log-variances of ±20, logits of ±80 and equal codes.

*Several devices.* Under plain ``jit`` with a sharded batch, no ``axis_name`` is needed.
Inside ``pmap`` or ``shard_map`` pass ``axis_name``: every device then returns the value
of the *global* batch (for per-example results, its own rows), and the gradient with
respect to replicated parameters, *after the usual mean over the axis*
(``jax.lax.pmean``), equals the single-device gradient on the global batch. Under
``shard_map`` with its default ``check_vma=True``, JAX already sums that gradient over
devices; the mean then changes nothing, and the result is the same.

*Keys on several devices.* Under ``jit`` with a sharded batch one key draws the noise of
the global batch. Inside ``pmap`` or ``shard_map`` a draw has the local shape, so one
key would draw the *same* noise on every device. Fold the device's number into the key
of the noise, and pass the shared key to functions that take ``key`` and ``axis_name``::

    noise_key = jax.random.fold_in(key, jax.lax.axis_index("i"))
    z = sampling.reparameterize(noise_key, mean, log_var)
    loss, terms = losses.wae(x, logits, z, mean, log_var, key=key, axis_name="i")

*Mesh axes.* Under ``jit``, Auto and Explicit axes (the default of ``jax.make_mesh``)
are both supported. With Explicit axes, the terms that couple the batch hold all codes
on every device, and ``block_size`` repeats the work on every device.

*Which estimator?* The aggregate posterior is a mixture over the whole training set,
which a batch only estimates. ``estimator_bias.png`` beside this file shows the bias of
each estimator against the batch size, on 2,000 Gaussian posteriors in 4 dimensions with
a known aggregate (``python -m tests.benchmarks.estimator_bias``). In nats:

====  ==========================  ==========================
B     log q(z)                    total correlation
====  ==========================  ==========================
      stratified, mws, naive      stratified, mws, naive
16    -1.47, -4.85, +5.52         -0.10, +24.67, -6.45
128   -0.59, -6.52, +5.94         -0.46, +23.75, -13.60
1000  -0.07, -7.44, +7.07         -0.06, +22.95, -20.58
2000  exact, -7.60, +7.60         exact, +22.80, -22.80
====  ==========================  ==========================

``"stratified"`` has the smallest bias at every batch size. ``"mss"`` equals it within
the error of the measurement (5e-5 nats), but is not exact when the batch is the whole
dataset. The remaining bias at small batches comes from the logarithm of a noisy mean
(Jensen's inequality).
"""

from disentangle_jax.losses.aggregate import (
    aggregate_log_densities as aggregate_log_densities,
)
from disentangle_jax.losses.aggregate import log_q_marginals as log_q_marginals
from disentangle_jax.losses.aggregate import (
    pairwise_log_density as pairwise_log_density,
)
from disentangle_jax.losses.autoencoders import ae as ae
from disentangle_jax.losses.autoencoders import bio_ae as bio_ae
from disentangle_jax.losses.autoencoders import wae as wae
from disentangle_jax.losses.capacity import annealed_vae as annealed_vae
from disentangle_jax.losses.capacity import beta_vae as beta_vae
from disentangle_jax.losses.capacity import capacity_kl as capacity_kl
from disentangle_jax.losses.capacity import linear_capacity as linear_capacity
from disentangle_jax.losses.capacity import normalize_beta as normalize_beta
from disentangle_jax.losses.capacity import unnormalize_beta as unnormalize_beta
from disentangle_jax.losses.capacity import vae as vae
from disentangle_jax.losses.capacity import vlae as vlae
from disentangle_jax.losses.control import Controller as Controller
from disentangle_jax.losses.control import pi_control as pi_control
from disentangle_jax.losses.decompositions import hfvae_terms as hfvae_terms
from disentangle_jax.losses.decompositions import kl_decomposition as kl_decomposition
from disentangle_jax.losses.decompositions import total_correlation as total_correlation
from disentangle_jax.losses.discrete import CONCRETE_DENSITIES as CONCRETE_DENSITIES
from disentangle_jax.losses.discrete import Categorical as Categorical
from disentangle_jax.losses.discrete import Concrete as Concrete
from disentangle_jax.losses.discrete import with_density as with_density
from disentangle_jax.losses.divergences import gaussian_kl as gaussian_kl
from disentangle_jax.losses.divergences import (
    gaussian_kl_per_dim as gaussian_kl_per_dim,
)
from disentangle_jax.losses.divergences import (
    sampled_gaussian_kl as sampled_gaussian_kl,
)
from disentangle_jax.losses.four_terms import weighted_elbo as weighted_elbo
from disentangle_jax.losses.hierarchical import hfvae as hfvae
from disentangle_jax.losses.likelihoods import Likelihood as Likelihood
from disentangle_jax.losses.likelihoods import likelihood as likelihood
from disentangle_jax.losses.likelihoods import likelihoods as likelihoods
from disentangle_jax.losses.moments import dip_penalty as dip_penalty
from disentangle_jax.losses.moments import dip_vae as dip_vae
from disentangle_jax.losses.moments import (
    gaussian_total_correlation as gaussian_total_correlation,
)
from disentangle_jax.losses.moments import info_vae as info_vae
from disentangle_jax.losses.moments import mmd as mmd
from disentangle_jax.losses.priors import correlated_log_prior as correlated_log_prior
from disentangle_jax.losses.priors import standard_log_prior as standard_log_prior
from disentangle_jax.losses.quantised import code_deviation as code_deviation
from disentangle_jax.losses.quantised import commitment_loss as commitment_loss
from disentangle_jax.losses.quantised import hessian_penalty as hessian_penalty
from disentangle_jax.losses.quantised import multi_information as multi_information
from disentangle_jax.losses.quantised import nearest_values as nearest_values
from disentangle_jax.losses.quantised import qlae as qlae
from disentangle_jax.losses.quantised import quantisation_loss as quantisation_loss
from disentangle_jax.losses.quantised import round_to_levels as round_to_levels
from disentangle_jax.losses.quantised import straight_through as straight_through
from disentangle_jax.losses.quantised import tripod as tripod
from disentangle_jax.losses.reconstructions import (
    bernoulli_reconstruction as bernoulli_reconstruction,
)
from disentangle_jax.losses.reconstructions import box_blur_mse as box_blur_mse
from disentangle_jax.losses.reconstructions import (
    gaussian_reconstruction as gaussian_reconstruction,
)
from disentangle_jax.losses.reconstructions import (
    l1_reconstruction as l1_reconstruction,
)
from disentangle_jax.losses.reconstructions import mse as mse
from disentangle_jax.losses.reconstructions import (
    multinomial_reconstruction as multinomial_reconstruction,
)
from disentangle_jax.losses.reconstructions import per_pixel as per_pixel
from disentangle_jax.losses.relations import abs_ae as abs_ae
from disentangle_jax.losses.relations import (
    adversarial_prior_losses as adversarial_prior_losses,
)
from disentangle_jax.losses.relations import relation_loss as relation_loss
from disentangle_jax.losses.total_correlations import anchor_vae as anchor_vae
from disentangle_jax.losses.total_correlations import beta_tc_vae as beta_tc_vae
from disentangle_jax.losses.total_correlations import (
    density_ratio_tc as density_ratio_tc,
)
from disentangle_jax.losses.total_correlations import (
    discriminator_loss as discriminator_loss,
)
from disentangle_jax.losses.total_correlations import factor_vae as factor_vae
from disentangle_jax.losses.total_correlations import (
    information_dropout as information_dropout,
)
from disentangle_jax.losses.transitions import (
    laplace_transition_kl as laplace_transition_kl,
)
from disentangle_jax.losses.transitions import slow_vae as slow_vae
from disentangle_jax.losses.weak_supervision import ada_gvae as ada_gvae
from disentangle_jax.losses.weak_supervision import (
    ada_gvae_posteriors as ada_gvae_posteriors,
)
from disentangle_jax.losses.weak_supervision import ada_ml_vae as ada_ml_vae
from disentangle_jax.losses.weak_supervision import (
    supervised_alignment as supervised_alignment,
)
