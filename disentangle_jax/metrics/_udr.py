"""UDR: models that agree with each other are disentangled."""

from collections.abc import Sequence

import numpy as np

from disentangle_jax.metrics._inputs import ArrayLike, Score, check_codes
from disentangle_jax.metrics._mcc import correlations
from disentangle_jax.metrics.estimators import lasso
from disentangle_jax.types import unknown_name


def _relative_strength(matrix: np.ndarray) -> float:
    """Mean of max² / sum over columns and over rows of ``[D1, D2]`` similarities."""

    def along(axis: int) -> float:
        total = matrix.sum(axis=axis)
        peak = matrix.max(axis=axis) ** 2
        return float(np.mean(peak / np.where(total > 0, total, np.inf)))

    return 0.5 * (along(0) + along(1)) if matrix.size else 0.0


def udr(
    codes: Sequence[ArrayLike],
    kl: Sequence[ArrayLike] | None = None,
    *,
    similarity: str = "lasso",
    alpha: float = 0.1,
    kl_threshold: float = 0.01,
) -> Score:
    r"""Unsupervised disentanglement ranking (Duan et al. 2020, Eq. 4).

    Needs no factors but several models: the codes of M ≥ 2 models (seeds) on the *same*
    images. For a pair of models, :math:`R_{ab} \ge 0` says how much latent a of one
    resembles latent b of the other; latents with a mean KL of at most
    ``kl_threshold`` nats to the prior are left out. The agreement of the pair is the
    mean of :math:`\max R^2 / \sum R` over rows and over columns, and a model's score is
    the median over its partners. In [0, 1] for correlations, higher is better.

    Args:
      codes: M arrays ``[N, D_m]``.
      kl: M arrays ``[D_m]``, mean KL of each latent; None keeps all latents.
      similarity: "lasso" (absolute coefficients of a lasso of one standardised code on
        the other) or "spearman" (absolute rank correlations).
      alpha: penalty of the lasso.
      kl_threshold: see above.

    Returns:
      ``udr``: the best model's score, ``mean``, and ``model_0`` … for each model; the
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
                "udr: `kl` must hold one array [D] for each model, got shapes "
                f"{[k.shape for k in kl]}."
            )
    live = []
    for m, c in enumerate(codes):
        keep = np.ones(c.shape[1], bool) if kl is None else kl[m] > kl_threshold
        std = c.std(axis=0, dtype=np.float64)
        standard = (c - c.mean(axis=0, dtype=np.float64)) / np.where(
            std > 0, std, np.inf
        )
        live.append((standard, keep))
    pairs = np.full((len(codes), len(codes)), np.nan)
    for i, (x, keep_x) in enumerate(live):
        for j, (y, keep_y) in enumerate(live):
            if i == j:
                continue
            if similarity == "lasso":
                matrix = np.abs(lasso(x, y, np.array([alpha]))[0][0, 0]).T
            else:
                matrix = correlations(x, y, "spearman")
            pairs[i, j] = _relative_strength(matrix[keep_x][:, keep_y])
    scores = np.nanmedian(pairs, axis=1)
    values = {"udr": scores.max(), "mean": scores.mean()}
    values |= {f"model_{m}": score for m, score in enumerate(scores)}
    settings = {"samples": len(codes[0]), "similarity": similarity}
    settings |= {"alpha": alpha} if similarity == "lasso" else {}
    settings |= {"kl_threshold": kl_threshold if kl is not None else None}
    return Score(values, settings, matrices={"pairs": pairs})
