"""Reconstruction error, KL and ELBO of an autoencoder."""

import jax
import jax.numpy as jnp
import numpy as np

from disentangle_jax.metrics.descriptions import define
from disentangle_jax.metrics.inputs import ArrayLike, Score, check_codes, to_numpy
from disentangle_jax.types import unknown_name


def _as_unit_images(argument: str, images: ArrayLike) -> np.ndarray:
    array = to_numpy("reconstruction", argument, images)
    if array.dtype == np.uint8:
        return array.astype(np.float32) / 255.0
    return array.astype(np.float32)


@define(
    keys={
        "mse": "mean squared error per pixel (lower is better)",
        "l1": "mean absolute error per pixel (lower is better)",
        "psnr": "peak signal-to-noise ratio, dB (higher is better)",
        "nll": "negative log-likelihood given the code, nats per image (lower is "
        "better)",
    },
    range=(0.0, np.inf),
    higher_is_better=False,
    needs="images and logits",
)
def reconstruction(
    images: ArrayLike,
    logits: ArrayLike,
    *,
    mean: ArrayLike | None = None,
    log_var: ArrayLike | None = None,
    output: str = "bernoulli",
) -> Score:
    r"""Error of reconstructions, and the ELBO if a posterior is given.

    Args:
      images: ``[N, ...]`` observations in [0, 1], or uint8.
      logits: ``[N, ...]`` outputs of the decoder: Bernoulli logits, or with
        ``output="gaussian"`` the mean of a unit-variance Gaussian.
      mean: ``[N, D]`` posterior means.
      log_var: ``[N, D]`` posterior log-variances.
      output: "bernoulli" or "gaussian".

    Returns:
      ``mse`` (mean over pixels and images), ``l1`` (same), ``psnr`` in dB (of the mean
      error, peak 1), ``nll``: nats per image, averaged over images (Bernoulli
      cross-entropy, or half the squared error); with a posterior also ``kl``:
      :math:`\tfrac12 \sum_d (\mu^2 + \sigma^2 - \log\sigma^2 - 1)`, nats per image, and
      ``elbo`` = −nll − kl. Lower is better, except for psnr and elbo.
    """
    if output not in ("bernoulli", "gaussian"):
        raise unknown_name(
            "reconstruction", "output", output, ("bernoulli", "gaussian")
        )
    x = _as_unit_images("images", images)
    logits = to_numpy("reconstruction", "logits", logits).astype(np.float32)
    if x.shape != logits.shape or x.ndim < 2:
        raise ValueError(
            "reconstruction: `images` and `logits` must have the same shape [N, ...], "
            f"got {x.shape} and {logits.shape}."
        )
    if (mean is None) != (log_var is None):
        raise ValueError("reconstruction: `mean` and `log_var` must be given together.")
    x_hat = logits
    nll = 0.5 * (x - logits) ** 2
    if output == "bernoulli":
        x_hat = np.asarray(jax.nn.sigmoid(logits))
        nll = np.asarray(jnp.logaddexp(0.0, logits)) - x * logits
    error = (x - x_hat).astype(np.float64)
    mse = np.mean(error**2)
    values = {
        "mse": mse,
        "l1": np.mean(np.abs(error)),
        "psnr": -10.0 * np.log10(max(mse, 1e-20)),
        "nll": nll.sum(dtype=np.float64) / len(x),
    }
    if mean is not None:
        mean = check_codes("reconstruction", "mean", mean).astype(np.float64)
        log_var = check_codes("reconstruction", "log_var", log_var).astype(np.float64)
        if mean.shape != log_var.shape or len(mean) != len(x):
            raise ValueError(
                "reconstruction: `mean` and `log_var` must both be [N, D] with the N "
                f"of `images`, got {mean.shape} and {log_var.shape}."
            )
        kl = 0.5 * np.sum(mean**2 + np.exp(log_var) - log_var - 1.0) / len(x)
        values |= {"kl": kl, "elbo": -values["nll"] - kl}
    return Score(values, {"samples": len(x), "output": output})
