"""Dependence between latents, measured without factors."""

from collections.abc import Sequence
from typing import SupportsFloat

import jax
import numpy as np

from disentangle_jax.metrics.descriptions import define
from disentangle_jax.metrics.information import Information, contingency, quantise
from disentangle_jax.metrics.inputs import (
    ArrayLike,
    Score,
    as_key,
    check_codes,
    check_log_var,
)
from disentangle_jax.metrics.intervals import Bootstrap, NoInterval
from disentangle_jax.metrics.votes import group_setting
from disentangle_jax.types import check_groups

_GAUSSIAN = "gaussian_total_correlation"
_WASSERSTEIN = "gaussian_wasserstein_correlation"


def _live(codes: np.ndarray) -> np.ndarray:
    """Returns the codes of the latents that vary, in float64."""
    codes = codes.astype(np.float64)
    alive = codes.std(axis=0) > 1e-10 * np.maximum(np.abs(codes).max(axis=0), 1e-300)
    return codes[:, alive]


def _gaussian_dependence(cov: np.ndarray) -> dict[str, np.ndarray]:
    """Returns the dependence of Gaussians with covariances ``[..., D, D]``, D ≥ 2.

    It is the only definition of these quantities among the scores, in float64;
    ``losses.gaussian_total_correlation`` is their differentiable float32 form.
    """
    variance = np.einsum("...ii->...i", cov)
    total = variance.sum(axis=-1)
    sign, logdet = np.linalg.slogdet(cov)
    logdet = np.where(sign > 0, logdet, -np.inf)  # copies of a latent: infinite
    scale = np.sqrt(variance)
    mixed = np.linalg.eigvalsh(scale[..., :, None] * cov * scale[..., None, :])
    root = np.sqrt(np.maximum(mixed, 0.0)).sum(axis=-1)
    distance = np.maximum(0.0, 2.0 * total - 2.0 * root)
    return {
        _GAUSSIAN: 0.5 * (np.log(variance).sum(axis=-1) - logdet),
        _WASSERSTEIN: distance,
        f"{_WASSERSTEIN}_norm": distance / total,
    }


def _block_dependence(blocks: list[np.ndarray]) -> dict[str, np.ndarray]:
    """Returns the dependence between Gaussian vectors, of codes ``[N, d]`` of each.

    A vector whose dimensions depend linearly on each other (the shares of a Concrete
    variable add up to 1) is that of its principal components that vary.
    """
    parts, lost = [], 0.0
    for block in blocks:
        value, vector = np.linalg.eigh(np.cov(block, rowvar=False).reshape(
            block.shape[1], -1))  # fmt: skip
        kept = value > 1e-10 * value.max()
        parts.append((block @ vector[:, kept], value[kept]))
        lost += value[~kept].sum()
    variance = np.concatenate([value for _, value in parts])
    cov = np.cov(np.concatenate([part for part, _ in parts], axis=1), rowvar=False)
    # In these axes the covariance of each vector is diagonal, as that of scalars is.
    np.fill_diagonal(cov, variance)
    found = _gaussian_dependence(cov)
    found[f"{_WASSERSTEIN}_norm"] = found[_WASSERSTEIN] / (variance.sum() + lost)
    return found


def _dependence(
    codes: np.ndarray, bins: int, groups: tuple[int, ...], seed: int
) -> dict[str, SupportsFloat]:
    keys = (_GAUSSIAN, _WASSERSTEIN, f"{_WASSERSTEIN}_norm")
    values: dict[str, SupportsFloat] = dict.fromkeys(keys, 0.0)
    blocks = [_live(b) for b in np.split(codes, np.cumsum(groups[:-1]), axis=1)]
    blocks = [block for block in blocks if block.shape[1]]
    if len(blocks) >= 2 and max(groups) > 1:
        values |= _block_dependence(blocks)
    elif len(blocks) >= 2:
        values |= _gaussian_dependence(np.cov(_live(codes), rowvar=False))
    information = _pairwise_information(codes, bins, groups, seed)
    return values | {"mutual_information": information}


def _interval(score: Score, bootstrap: Bootstrap) -> dict[str, np.ndarray]:
    """Returns the Gaussian quantities of each resample."""
    if "groups" in score.settings:
        raise NoInterval
    live = _live(bootstrap.arrays.codes)
    if live.shape[1] < 2:
        return {}
    weights = np.asarray(bootstrap.weights(len(live)), np.float64) / len(live)
    mean = weights @ live
    second = np.stack([(live * row[:, None]).T @ live for row in weights])
    return _gaussian_dependence(second - mean[:, :, None] * mean[:, None, :])


def _pairwise_information(
    codes: np.ndarray, bins: int, groups: tuple[int, ...], seed: int
) -> float:
    """Returns the mean mutual information in nats of pairs of binned latents."""
    latents = len(groups)
    if latents < 2:
        return 0.0
    labels, cells = quantise(codes, groups, bins, seed)
    sizes = (cells,) * latents
    mi = Information(contingency(labels, labels, cells=cells, sizes=sizes), sizes).mi
    return float(mi[~np.eye(latents, dtype=bool)].mean())


@define(
    keys={
        _GAUSSIAN: "total correlation of a Gaussian fitted to the codes, nats (lower "
        "is better)",
        _WASSERSTEIN: "Wasserstein distance of that Gaussian from independence (lower "
        "is better)",
        f"{_WASSERSTEIN}_norm": "the same divided by the total variance (lower is "
        "better)",
        "mutual_information": "mean information between two latents, nats (lower is "
        "better)",
    },
    range=(0.0, np.inf),
    higher_is_better=False,
    needs="codes",
    groups=True,
    invariant_to=("permutation", "shift"),
    conventions={"disent": {"bins": 20}, "dlib": {"bins": 20}},
    interval=_interval,
    reference="Locatello et al. 2019, Challenging Common Assumptions in the "
    "Unsupervised Learning of Disentangled Representations",
)
def unsupervised(
    codes: ArrayLike,
    factors: ArrayLike | None = None,
    *,
    codes_test: ArrayLike | None = None,
    factors_test: ArrayLike | None = None,
    groups: Sequence[int] | None = None,
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
    Two copies of a latent have infinite total correlation. A single latent scores 0.

    Args:
      codes, factors, codes_test, factors_test, groups, seed: as in every score. Only
        the codes are used; the seed is that of the sampled codes. With groups the
        dependence is that between the variables: D has the covariance of each
        variable as a block, and variables are quantised as in `mig`.
      log_var: ``[N, D]`` posterior log-variances; if given, the same four quantities of
        codes sampled from the posterior are returned too, as ``sampled_…``.
      bins: number of bins of the mutual information.
    """
    codes = check_codes("unsupervised", "codes", codes)
    if len(codes) < 2:
        raise ValueError("unsupervised: `codes` must have at least two rows, got 1.")
    groups = check_groups("unsupervised", groups, codes.shape[1])
    values = _dependence(codes, bins, groups, seed)
    if log_var is not None:
        log_var = check_log_var("unsupervised", log_var, codes)
        key = as_key("unsupervised", seed)
        noise = np.asarray(jax.random.normal(key, codes.shape))
        drawn = codes + np.exp(0.5 * log_var) * noise
        sampled = _dependence(drawn, bins, groups, seed)
        values |= {f"sampled_{name}": value for name, value in sampled.items()}
    settings = {"samples": len(codes), "bins": bins} | group_setting(groups)
    return Score(values, settings)
