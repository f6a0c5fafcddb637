"""Agreement of latents: with factors (MCC) and between models (UDR)."""

from collections.abc import Sequence

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.stats import rankdata

from disentangle_jax.metrics.descriptions import define
from disentangle_jax.metrics.estimators import lasso
from disentangle_jax.metrics.inputs import (
    ArrayLike,
    Score,
    check_arrays,
    check_codes,
    standardised,
)
from disentangle_jax.types import unknown_name


def _correlations(x: np.ndarray, y: np.ndarray, kind: str) -> np.ndarray:
    """Returns absolute correlations ``[D, K]`` by kind; constant columns give 0."""
    if kind == "spearman":
        x, y = rankdata(x, axis=0), rankdata(y, axis=0)
    x = x - x.mean(axis=0, dtype=np.float64)
    y = y - y.mean(axis=0, dtype=np.float64)
    norm_x, norm_y = np.linalg.norm(x, axis=0), np.linalg.norm(y, axis=0)
    x = x / np.where(norm_x > 0, norm_x, np.inf)
    y = y / np.where(norm_y > 0, norm_y, np.inf)
    return np.abs(x.T @ y)


def _multiple_correlations(
    x: np.ndarray, y: np.ndarray, groups: tuple[int, ...], kind: str
) -> np.ndarray:
    """Returns correlations ``[G, K]`` of each column of y with its best linear fit."""
    if kind == "spearman":
        x, y = rankdata(x, axis=0), rankdata(y, axis=0)
    y = standardised(y)
    found = []
    for block in np.split(x, np.cumsum(groups[:-1]), axis=1):
        block = standardised(block)
        fit = block @ np.linalg.lstsq(block, y, rcond=None)[0]
        found.append(np.sqrt(np.clip(np.mean(fit**2, axis=0), 0.0, 1.0)))
    return np.stack(found)


@define(
    keys={"mcc": "mean correlation of factors with their matched latents (1 is best)"},
    groups=True,
    matrices={
        "correlation": (
            "Correlation of each latent and each factor",
            "Absolute correlations (MCC), from which latents are matched to factors.",
        )
    },
    reference="Hyvärinen & Morioka 2016, Unsupervised Feature Extraction by "
    "Time-Contrastive Learning",
)
def mcc(
    codes: ArrayLike,
    factors: ArrayLike,
    *,
    codes_test: ArrayLike | None = None,
    factors_test: ArrayLike | None = None,
    groups: Sequence[int] | None = None,
    correlation: str = "spearman",
    seed: int = 0,
) -> Score:
    r"""Mean correlation coefficient (Hyvärinen & Morioka 2016; Klindt et al. 2021).

    .. math:: \max_\pi \frac1K \sum_k |\mathrm{corr}(z_{\pi(k)}, f_k)|

    over one-to-one assignments π (Hungarian algorithm). In [0, 1], higher is better.
    With fewer latents than factors the unmatched factors count 0; other code pads with
    random columns, which makes the score noisy. A dead latent has correlation 0.

    Args:
      codes, factors, codes_test, factors_test, groups, seed: as in every score; the
        order of the factor values matters. The correlation of a multi-dimensional
        variable is the multiple one, that of the factor with its least-squares fit.
        There is no test part and no randomness.
      correlation: "spearman" (ranks) or "pearson".
    """
    arrays = check_arrays("mcc", codes, factors, codes_test, factors_test, groups)
    if correlation not in ("spearman", "pearson"):
        raise unknown_name("mcc", "correlation", correlation, ("spearman", "pearson"))
    if max(arrays.groups) == 1:
        matrix = _correlations(arrays.codes, arrays.factors, correlation)
    else:
        matrix = _multiple_correlations(
            arrays.codes, arrays.factors, arrays.groups, correlation
        )
    pairs = linear_sum_assignment(matrix, maximize=True)
    return Score(
        {"mcc": matrix[pairs].sum() / matrix.shape[1]},
        arrays.settings(correlation=correlation, continuous_as="values"),
        matrices={"correlation": matrix},
    )


def _pair_agreement(matrix: np.ndarray) -> float:
    """Returns the mean of max² / sum over columns and rows of similarities."""

    def along(axis: int) -> float:
        total = matrix.sum(axis=axis)
        peak = matrix.max(axis=axis) ** 2
        return float(np.mean(peak / np.where(total > 0, total, np.inf)))

    return 0.5 * (along(0) + along(1)) if matrix.size else 0.0


@define(
    keys={
        "udr": "agreement of the best model with the other models (1 is best)",
        "mean": "mean agreement of the models (1 is best)",
    },
    needs="codes of several models",
    reference="Duan et al. 2020, Unsupervised Model Selection for Variational "
    "Disentangled Representation Learning",
)
def udr(
    codes: Sequence[ArrayLike],
    kl: Sequence[ArrayLike] | None = None,
    *,
    similarity: str = "lasso",
    alpha: float = 0.1,
    kl_threshold: float = 0.01,
) -> Score:
    r"""Unsupervised disentanglement ranking (Duan et al. 2020, Eq. 4).

    It takes no factors but the codes of M ≥ 2 models (seeds) on the *same* images. For
    a pair of models, :math:`R_{ab} \ge 0` is the similarity of latent a of one and
    latent b of the other; latents with a mean KL of at most ``kl_threshold`` nats to
    the prior are left out. The agreement of the pair is the mean of
    :math:`\max R^2 / \sum R` over rows and over columns, and a model's score is the
    median over the other models. In [0, 1] for correlations, higher is better.

    Args:
      codes: M arrays ``[N, D_m]``.
      kl: M arrays ``[D_m]``, mean KL per latent; None keeps all latents.
      similarity: "lasso" (absolute coefficients of a lasso of one standardised code on
        the other) or "spearman" (absolute rank correlations).
      alpha: penalty of the lasso.
      kl_threshold: see above.

    Returns:
      ``udr``: the best model's score, ``mean``, and ``model_0`` … per model; the
      pairwise agreements are in ``matrices["pairs"]`` ``[M, M]`` (NaN on the diagonal).
    """
    codes = [check_codes("udr", f"codes[{m}]", c) for m, c in enumerate(codes)]
    if len(codes) < 2 or len({len(c) for c in codes}) > 1:
        raise ValueError(
            "udr: `codes` must be at least two arrays [N, D] on the same N images, got "
            f"shapes {[c.shape for c in codes]}."
        )
    if similarity not in ("lasso", "spearman"):
        raise unknown_name("udr", "similarity", similarity, ("lasso", "spearman"))
    if kl is not None:
        kl = [np.asarray(k, np.float64) for k in kl]
        if [k.shape for k in kl] != [(c.shape[1],) for c in codes]:
            raise ValueError(
                "udr: `kl` must hold one array [D] per model, got shapes "
                f"{[k.shape for k in kl]}."
            )
    live = []
    for m, c in enumerate(codes):
        keep = np.ones(c.shape[1], bool) if kl is None else kl[m] > kl_threshold
        live.append((standardised(c), keep))
    pairs = np.full((len(codes), len(codes)), np.nan)
    for i, (x, keep_x) in enumerate(live):
        for j, (y, keep_y) in enumerate(live):
            if i == j:
                continue
            if similarity == "lasso":
                matrix = np.abs(lasso(x, y, np.array([alpha]))[0][0, 0]).T
            else:
                matrix = _correlations(x, y, "spearman")
            pairs[i, j] = _pair_agreement(matrix[keep_x][:, keep_y])
    scores = np.nanmedian(pairs, axis=1)
    values = {"udr": scores.max(), "mean": scores.mean()}
    values |= {f"model_{m}": score for m, score in enumerate(scores)}
    settings = {"samples": len(codes[0]), "similarity": similarity}
    settings |= {"alpha": alpha} if similarity == "lasso" else {}
    settings |= {"kl_threshold": kl_threshold if kl is not None else None}
    return Score(values, settings, matrices={"pairs": pairs})
