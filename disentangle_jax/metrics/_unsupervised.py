"""What codes say without factors: dependence between latents."""

import jax
import numpy as np

from disentangle_jax.metrics._information import (
    Information,
    contingency,
    equal_width_labels,
)
from disentangle_jax.metrics._inputs import ArrayLike, Score, as_key, check_codes


def _dependence(codes: np.ndarray, bins: int) -> dict[str, float]:
    codes = codes.astype(np.float64)
    alive = codes.std(axis=0) > 1e-10 * np.maximum(np.abs(codes).max(axis=0), 1e-300)
    live = codes[:, alive]
    out = dict.fromkeys(
        ("gaussian_total_correlation", "gaussian_wasserstein_correlation",
         "gaussian_wasserstein_correlation_norm", "mutual_information"), 0.0,
    )  # fmt: skip
    if live.shape[1] >= 2:
        cov = np.cov(live, rowvar=False)
        variance = np.diag(cov)
        sign, logdet = np.linalg.slogdet(cov)
        logdet = logdet if sign > 0 else -np.inf  # copies of one latent: infinite
        scale = np.sqrt(variance)
        mixed = np.linalg.eigvalsh(scale[:, None] * cov * scale[None, :])
        root = np.sum(np.sqrt(np.maximum(mixed, 0.0)))
        w2 = max(0.0, 2.0 * variance.sum() - 2.0 * root)
        out["gaussian_total_correlation"] = 0.5 * (np.log(variance).sum() - logdet)
        out["gaussian_wasserstein_correlation"] = w2
        out["gaussian_wasserstein_correlation_norm"] = w2 / variance.sum()
    return out


def _pairwise_information(codes: np.ndarray, bins: int) -> float:
    """Mean off-diagonal mutual information of binned latents, nats."""
    latents = codes.shape[1]
    if latents < 2:
        return 0.0
    labels = equal_width_labels(codes, bins)
    sizes = (bins,) * latents
    mi = Information(contingency(labels, labels, cells=bins, sizes=sizes), sizes).mi
    return float(mi[~np.eye(latents, dtype=bool)].mean())


def unsupervised(
    codes: ArrayLike,
    factors: ArrayLike | None = None,
    *,
    codes_test: ArrayLike | None = None,
    factors_test: ArrayLike | None = None,
    log_var: ArrayLike | None = None,
    bins: int = 20,
    seed: int = 0,
) -> Score:
    r"""Dependence between latents (Locatello et al. 2019, App. H); lower is better.

    With :math:`\Sigma` the covariance of the codes (ddof 1) and D its diagonal:

    * ``gaussian_total_correlation``: :math:`\tfrac12 (\sum_i \log \Sigma_{ii} - \log
      \det \Sigma)`, nats, ≥ 0;
    * ``gaussian_wasserstein_correlation``: :math:`2\,\mathrm{tr}\,\Sigma - 2\,
      \mathrm{tr} (D^{1/2} \Sigma D^{1/2})^{1/2}`, the squared 2-Wasserstein distance of
      the two Gaussians, and ``…_norm``: divided by tr Σ;
    * ``mutual_information``: mean over pairs of latents of the plug-in mutual
      information of their ``bins`` equal-width bins, nats.

    Dead latents are independent of all others: they are left out of the first three
    (common code gives NaN: log 0 − log 0) and share 0 nats with every other latent.
    Two copies of a latent have infinite total correlation. One latent alone scores 0.

    Args:
      codes: ``[N, D]`` mean codes.
      factors: accepted as in every score; none are needed.
      codes_test: as ``factors``.
      factors_test: as ``factors``.
      log_var: ``[N, D]`` posterior log-variances: the same four are then also given
        for codes sampled from the posterior, under ``sampled_…``.
      bins: bins of the mutual information.
      seed: seeds the sampled codes.
    """
    codes = check_codes("unsupervised", "codes", codes)
    if len(codes) < 2:
        raise ValueError("unsupervised: `codes` must have at least two rows, got 1.")
    values = _dependence(codes, bins)
    values["mutual_information"] = _pairwise_information(codes, bins)
    if log_var is not None:
        log_var = check_codes("unsupervised", "log_var", log_var)
        if log_var.shape != codes.shape:
            raise ValueError(
                f"unsupervised: `log_var` must have the shape {codes.shape} of "
                f"`codes`, got {log_var.shape}."
            )
        key = as_key("unsupervised", seed)
        noise = np.asarray(jax.random.normal(key, codes.shape))
        sampled = codes + np.exp(0.5 * log_var) * noise
        more = _dependence(sampled, bins)
        more["mutual_information"] = _pairwise_information(sampled, bins)
        values |= {f"sampled_{name}": value for name, value in more.items()}
    return Score(values, {"samples": len(codes), "bins": bins})
