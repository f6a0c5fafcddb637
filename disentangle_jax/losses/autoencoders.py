"""Objectives of deterministic autoencoders: AE and WAE."""

import jax

from disentangle_jax.losses._objective import (
    Objective,
    Reconstruction,
    mean_reconstruction,
)
from disentangle_jax.losses.moments import prior_mmd
from disentangle_jax.losses.reconstructions import bernoulli_reconstruction
from disentangle_jax.types import Scalar


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
