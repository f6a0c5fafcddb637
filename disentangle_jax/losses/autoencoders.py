"""Objectives of deterministic autoencoders: AE, WAE and BioAE."""

from typing import Any

import jax
import jax.numpy as jnp

from disentangle_jax.losses._batch import batch_mean, check_codes
from disentangle_jax.losses._objective import (
    Objective,
    Reconstruction,
    mean_reconstruction,
)
from disentangle_jax.losses.moments import prior_mmd
from disentangle_jax.losses.reconstructions import bernoulli_reconstruction, per_pixel
from disentangle_jax.types import Scalar

_CROSS_ENTROPY = per_pixel(bernoulli_reconstruction)  # Mean over pixels.


def ae(
    x: jax.Array,
    logits: jax.Array,
    z: jax.Array,
    mean: jax.Array,
    log_var: jax.Array | None = None,
    *,
    reconstruction: Reconstruction = bernoulli_reconstruction,
    axis_name: str | None = None,
) -> Objective:
    r"""Plain autoencoder: the reconstruction loss alone.

    .. math:: \frac1B \sum_i -\log p(x_i | z_i)

    It is also the objective of the structural autoencoders ("Structure by
    Architecture"), which are regularised by their architecture.

    Couples the batch: no.

    Args:
      x, logits, z, mean, log_var, reconstruction, axis_name: see :mod:`losses`.

    Returns:
      ``[]`` loss, and the term ``reconstruction``.
    """
    del z, log_var
    error = mean_reconstruction("ae", reconstruction, x, logits, mean, axis_name)
    return error, {"reconstruction": error}


def wae(
    x: jax.Array,
    logits: jax.Array,
    z: jax.Array,
    mean: jax.Array,
    log_var: jax.Array | None = None,
    *,
    key: jax.Array,
    lambda_: Scalar = 10.0,
    kernel: str = "imq",
    scale: Scalar | None = None,
    mmd_compat: str | None = None,
    reconstruction: Reconstruction = bernoulli_reconstruction,
    axis_name: str | None = None,
) -> Objective:
    r"""Wasserstein autoencoder with the MMD penalty.

    .. math:: \frac1B \sum_i c(x_i, \hat x_i) + \lambda\, \mathrm{MMD}(q(z), p(z))

    Tolstikhin et al., "Wasserstein Auto-Encoders", Algorithm 2. "Structure by
    Architecture" uses it with :math:`\lambda = 10` and the Bernoulli likelihood as
    cost. Its public code divides the MMD by the batch size once more
    (``mmd_compat="sae_code"``), which makes the penalty almost ineffective.

    Couples the batch: yes.

    Args:
      x, logits, z, mean, log_var, key, reconstruction, axis_name: see :mod:`losses`.
      lambda_: weight of the MMD.
      kernel: ``"imq"`` or ``"rbf"``; see :func:`mmd`.
      scale: scale of the kernel; None for its default.
      mmd_compat: None or ``"sae_code"``; see :func:`mmd`.

    Returns:
      ``[]`` loss, and the terms ``reconstruction`` and ``mmd``.
    """
    del log_var
    error = mean_reconstruction("wae", reconstruction, x, logits, mean, axis_name)
    discrepancy = prior_mmd(key, z, kernel, scale, mmd_compat, axis_name)
    return error + lambda_ * discrepancy, {"reconstruction": error, "mmd": discrepancy}


def bio_ae(
    x: jax.Array,
    logits: jax.Array,
    z: jax.Array,
    mean: jax.Array,
    log_var: jax.Array | None = None,
    *,
    weights: Any,
    lambda_nonnegative: Scalar = 1.0,
    lambda_activity: Scalar = 0.01,
    lambda_weight: Scalar = 1e-4,
    reconstruction: Reconstruction = _CROSS_ENTROPY,
    axis_name: str | None = None,
) -> Objective:
    r"""BioAE: non-negative codes that cost little activity and small weights.

    .. math:: \frac1B \sum_i c(x_i, \hat x_i)
              + \frac{\lambda_n}{BD} \sum_{id} \max(-z_{id}, 0)
              + \frac{\lambda_a}{BD} \sum_{id} z_{id}^2
              + \frac{\lambda_w}{2} \sum_k w_k^2

    Whittington et al., "Disentanglement with Biological Constraints: A Theory of
    Functional Cell Types". The cost c is the mean cross-entropy of a pixel, and the
    default weights are those of the public code of "Disentanglement via Latent
    Quantization" for 3D Shapes, where the weights decay (AdamW) instead of having a
    term.

    Couples the batch: no.

    Args:
      x, logits, log_var, reconstruction, axis_name: see :mod:`losses`.
      z: ``[B, D]`` codes, from which ``logits`` were decoded.
      mean: ``[B, D]`` the same codes.
      weights: parameters of the networks, a pytree. Matrices and kernels count; arrays
        of fewer than two dimensions, such as biases, do not.
      lambda_nonnegative: weight of negative codes.
      lambda_activity: weight of the squared codes.
      lambda_weight: weight of the squared weights.

    Returns:
      ``[]`` loss, and the terms ``reconstruction``, ``negative``, ``activity`` and
      ``weight_energy``.
    """
    del log_var
    check_codes("bio_ae", mean=mean, z=z)
    error = mean_reconstruction("bio_ae", reconstruction, x, logits, mean, axis_name)
    kernels = [jnp.asarray(leaf) for leaf in jax.tree.leaves(weights)]
    energies = [0.5 * jnp.square(w).sum() for w in kernels if w.ndim > 1]
    terms = {
        "reconstruction": error,
        "negative": batch_mean(jnp.maximum(-z, 0.0).mean(axis=1), axis_name),
        "activity": batch_mean(jnp.square(z).mean(axis=1), axis_name),
        "weight_energy": sum(energies, jnp.zeros((), z.dtype)),
    }
    loss = (
        error
        + lambda_nonnegative * terms["negative"]
        + lambda_activity * terms["activity"]
        + lambda_weight * terms["weight_energy"]
    )
    return loss, terms
