"""MCC: mean correlation of the best one-to-one matching of latents and factors."""

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.stats import rankdata

from disentangle_jax.metrics._inputs import ArrayLike, Score, check_arrays
from disentangle_jax.types import unknown_name


def correlations(x: np.ndarray, y: np.ndarray, kind: str) -> np.ndarray:
    """``[D, K]`` absolute correlations, "spearman" or "pearson"; constants give 0."""
    if kind == "spearman":
        x, y = rankdata(x, axis=0), rankdata(y, axis=0)
    x = x - x.mean(axis=0, dtype=np.float64)
    y = y - y.mean(axis=0, dtype=np.float64)
    norm_x, norm_y = np.linalg.norm(x, axis=0), np.linalg.norm(y, axis=0)
    x = x / np.where(norm_x > 0, norm_x, np.inf)
    y = y / np.where(norm_y > 0, norm_y, np.inf)
    return np.abs(x.T @ y)


def mcc(
    codes: ArrayLike,
    factors: ArrayLike,
    *,
    codes_test: ArrayLike | None = None,
    factors_test: ArrayLike | None = None,
    correlation: str = "spearman",
    seed: int = 0,
) -> Score:
    r"""Mean correlation coefficient (Hyvärinen & Morioka 2016; Klindt et al. 2021).

    .. math:: \max_\pi \frac1K \sum_k |\mathrm{corr}(z_{\pi(k)}, f_k)|

    over one-to-one assignments π (Hungarian method). In [0, 1], higher is better. With
    fewer latents than factors the unmatched factors count 0; other code pads with
    random columns, which makes the score noisy. A dead latent correlates with nothing.

    Args:
      codes: ``[N, D]``.
      factors: ``[N, K]`` values (their order matters).
      codes_test: accepted as in every score; MCC has no test part.
      factors_test: as ``codes_test``.
      correlation: "spearman" (ranks) or "pearson".
      seed: accepted as in every score; MCC has no randomness.
    """
    arrays = check_arrays(
        "mcc", codes, factors, codes_test=codes_test, factors_test=factors_test
    )
    if correlation not in ("spearman", "pearson"):
        raise unknown_name("mcc", "correlation", correlation, ("spearman", "pearson"))
    matrix = correlations(arrays.codes, arrays.factors, correlation)
    pairs = linear_sum_assignment(matrix, maximize=True)
    return Score(
        {"mcc": matrix[pairs].sum() / matrix.shape[1]},
        arrays.settings(correlation=correlation),
        matrices={"correlation": matrix},
    )
