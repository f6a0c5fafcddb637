"""What the objectives share: the types of their arguments, reconstruction and KL."""

from collections.abc import Callable

import jax

from disentangle_jax.losses._batch import batch_mean, check_codes
from disentangle_jax.losses.divergences import gaussian_kl, sampled_gaussian_kl
from disentangle_jax.types import unknown_name

Reconstruction = Callable[[jax.Array, jax.Array], jax.Array]
KL = str | Callable[[jax.Array, jax.Array, jax.Array], jax.Array]
Objective = tuple[jax.Array, dict[str, jax.Array]]


def mean_reconstruction(
    function: str,
    reconstruction: Reconstruction,
    x: jax.Array,
    logits: jax.Array,
    mean: jax.Array,
    axis_name: str | None,
) -> jax.Array:
    """Mean reconstruction loss over the global batch."""
    if not callable(reconstruction):
        raise TypeError(
            f"{function}: `reconstruction` must be a function of x and logits, such as "
            f"losses.mse, got {reconstruction!r}."
        )
    values = reconstruction(x, logits)
    if values.shape != (mean.shape[0],):
        raise ValueError(
            f"{function}: `reconstruction` must return [B], one value per row of "
            f"`mean` {mean.shape}, got {values.shape}."
        )
    return batch_mean(values, axis_name)


def check_posterior(function: str, mean: jax.Array, log_var: jax.Array | None) -> None:
    """Raises unless the posteriors have means and log-variances of one shape."""
    if log_var is None:
        raise ValueError(
            f"{function}: `log_var` must be an array [B, D], got None. A deterministic "
            "encoder has no KL; use `ae` or `wae`."
        )
    check_codes(function, mean=mean, log_var=log_var)


def divergence(
    function: str, kl: KL, z: jax.Array, mean: jax.Array, log_var: jax.Array
) -> jax.Array:
    """KL of each example, computed as `kl` says."""
    check_posterior(function, mean, log_var)
    if callable(kl):
        return kl(z, mean, log_var)
    if kl == "analytic":
        return gaussian_kl(mean, log_var)
    if kl == "sampled":
        return sampled_gaussian_kl(z, mean, log_var)
    if kl == "sae_code":
        return gaussian_kl(mean, log_var, kl_compat="sae_code")
    raise unknown_name(function, "kl", kl, ["analytic", "sampled", "sae_code"])


def elbo_terms(
    function: str,
    x: jax.Array,
    logits: jax.Array,
    z: jax.Array,
    mean: jax.Array,
    log_var: jax.Array,
    reconstruction: Reconstruction,
    kl: KL,
    axis_name: str | None,
) -> dict[str, jax.Array]:
    """The two terms of the negative ELBO, as means over the global batch."""
    error = mean_reconstruction(function, reconstruction, x, logits, mean, axis_name)
    values = divergence(function, kl, z, mean, log_var)
    return {"reconstruction": error, "kl": batch_mean(values, axis_name)}
