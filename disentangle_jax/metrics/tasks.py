"""Downstream tasks: accuracy from few labels, and fairness of predictions."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from disentangle_jax.metrics.descriptions import define
from disentangle_jax.metrics.estimators import (
    boosted_trees,
    logistic_regression,
    logits,
)
from disentangle_jax.metrics.importance import correct
from disentangle_jax.metrics.inputs import (
    ArrayLike,
    Arrays,
    Rows,
    Score,
    check_arrays,
)
from disentangle_jax.metrics.sources import (
    Conditional,
    Source,
    draw_factors,
    source_of,
)
from disentangle_jax.types import unknown_name

# (codes, labels, sizes, codes to predict) -> logits [M, sum(sizes)].
Predict = Callable[[np.ndarray, np.ndarray, tuple[int, ...], np.ndarray], np.ndarray]

_CS = np.logspace(-4, 4, 10)
_FOLDS = 5


def _predict_gbt(
    codes: np.ndarray,
    labels: np.ndarray,
    sizes: tuple[int, ...],
    codes_test: np.ndarray,
) -> np.ndarray:
    return boosted_trees(codes, labels, sizes, codes_test).logits_test


def _predict_logistic(
    codes: np.ndarray,
    labels: np.ndarray,
    sizes: tuple[int, ...],
    codes_test: np.ndarray,
) -> np.ndarray:
    """Logistic regression with C chosen by the accuracy of 5 contiguous folds."""
    n, count = len(codes), len(sizes)
    folds = min(_FOLDS, n)
    fold = np.concatenate(
        [np.full(len(p), i) for i, p in enumerate(np.array_split(np.arange(n), folds))]
    )
    many = np.tile(labels, (1, folds))
    weights = np.repeat(fold[:, None] != np.arange(folds), count, axis=1).astype(float)
    right = np.zeros((len(_CS), count))
    for s, C in enumerate(_CS):
        fits = logistic_regression(
            codes, many, sizes * folds, C=C, weights=weights,
            tolerance=1e-4, steps=100,
        )  # fmt: skip
        for i, w in enumerate(fits):
            held = fold == i // count
            guess = logits(w, codes[held]).argmax(axis=1)
            right[s, i % count] += np.mean(guess == labels[held, i % count]) / folds
    best = _CS[right.argmax(axis=0)]
    fits = logistic_regression(codes, labels, sizes, C=best, tolerance=1e-4, steps=100)
    return np.concatenate([logits(w, codes_test) for w in fits], axis=1)


MODELS: dict[str, Predict] = {"gbt": _predict_gbt, "logistic": _predict_logistic}


def _standard(arrays: Arrays, test: Rows, predict: Predict, n: int) -> float:
    guess = predict(arrays.codes[:n], arrays.labels[:n], arrays.sizes, test.codes)
    return float(correct(guess, test.labels, arrays.sizes).mean())


def _strong(arrays: Arrays, test: Rows, predict: Predict, n: int, seed: int) -> float:
    """Returns the mean accuracy if another factor is held at one value in train."""
    rng = np.random.default_rng(seed)
    found = []
    for held, size in enumerate(arrays.sizes):
        if len(arrays.sizes) == 1:
            break
        value = rng.integers(size)
        train = np.flatnonzero(arrays.labels[:, held] == value)[:n]
        scored = test.labels[:, held] != value
        if len(train) < 2 or not scored.any():
            continue
        others = np.arange(len(arrays.sizes)) != held
        sizes = tuple(np.array(arrays.sizes)[others].tolist())
        guess = predict(
            arrays.codes[train], arrays.labels[train][:, others], sizes,
            test.codes[scored],
        )  # fmt: skip
        right = correct(guess, test.labels[scored][:, others], sizes)
        found.append(right.mean(axis=0))
    if not found:
        raise ValueError(
            "downstream: `variant` 'strong' must have two factors with several rows "
            "per value, got none."
        )
    return float(np.mean(np.concatenate(found)))


def _reduced(
    arrays: Arrays, test: Rows, predict: Predict, n: int, removed: int
) -> float:
    """Returns the mean accuracy without the most important latents of each factor."""
    latents = len(arrays.groups)
    if removed >= latents:
        raise ValueError(
            f"downstream: `removed` must be below the {latents} latents, got {removed}."
        )
    trees = boosted_trees(arrays.codes[:n], arrays.labels[:n], arrays.sizes)
    starts = np.cumsum((0, *arrays.groups[:-1]))
    importance = np.add.reduceat(trees.importance, starts, axis=0)
    variable = np.repeat(np.arange(latents), arrays.groups)
    found = []
    for k, size in enumerate(arrays.sizes):
        order = np.argsort(-importance[:, k], kind="stable")
        kept = np.isin(variable, order[removed:])
        guess = predict(
            arrays.codes[:n, kept], arrays.labels[:n, k : k + 1], (size,),
            test.codes[:, kept],
        )  # fmt: skip
        found.append(correct(guess, test.labels[:, k : k + 1], (size,)).mean())
    return float(np.mean(found))


@define(
    keys={"accuracy": "accuracy of predicting the factors on test rows (1 is best)"},
    groups=True,
    cost="slow",
    reference="Locatello et al. 2019, Challenging Common Assumptions in the "
    "Unsupervised Learning of Disentangled Representations",
)
def downstream(
    codes: ArrayLike,
    factors: ArrayLike,
    *,
    codes_test: ArrayLike | None = None,
    factors_test: ArrayLike | None = None,
    groups: Sequence[int] | None = None,
    model: str = "gbt",
    train_sizes: Sequence[int] = (10, 100, 1_000, 10_000),
    variant: str = "standard",
    removed: int = 1,
    seed: int = 0,
) -> Score:
    r"""Accuracy of predicting factors from few and many labels (the study, Sec. 5.5).

    The mean test accuracy over factors of a classifier fitted on the first n training
    rows, for each n of ``train_sizes`` (sizes above the number of rows are left out).
    In [0, 1], higher is better. The statistical efficiency is the accuracy at 100
    labels divided by that at 10,000 (here: at the largest size).

    Variants, both at the largest size:

    * "strong": another factor is held at one value in train and has the other values
      in test; averaged over the held factors and the targets. ``gap`` is
      1 − strong / standard.
    * "reduced": each factor is predicted without its ``removed`` most important latents
      (by the importances of the boosted trees). A compact code drops to chance.

    Args:
      codes, factors, codes_test, factors_test, groups, seed: as in every score; the
        test rows are required. Classifiers see all dimensions; "reduced" removes whole
        variables. The seed is that of the held values of "strong".
      model: "gbt", boosted trees, or "logistic", a multinomial logistic regression with
        C chosen among 10 values (1e-4 … 1e4) by 5-fold cross-validation.
      train_sizes: numbers of labels.
      variant: "standard", "strong" or "reduced".
      removed: number of latents that "reduced" removes.

    Returns:
      ``accuracy`` (at the largest size, of the variant), ``accuracy_10`` … for each
      size, ``efficiency`` if 100 is among them, and ``gap`` for the variants.
    """
    arrays = check_arrays(
        "downstream", codes, factors, codes_test, factors_test, groups
    )
    test = arrays.test
    if test is None:
        raise ValueError(
            "downstream: `codes_test` and `factors_test` must be given, since the "
            "score is an accuracy on held-out rows."
        )
    if model not in MODELS:
        raise unknown_name("downstream", "model", model, MODELS)
    if variant not in ("standard", "strong", "reduced"):
        raise unknown_name(
            "downstream", "variant", variant, ("standard", "strong", "reduced")
        )
    sizes = sorted({int(n) for n in train_sizes if 2 <= n <= len(arrays.codes)})
    if not sizes:
        raise ValueError(
            "downstream: `train_sizes` must hold a size between 2 and the "
            f"{len(arrays.codes)} rows, got {tuple(train_sizes)}."
        )
    predict = MODELS[model]
    found = {n: _standard(arrays, test, predict, n) for n in sizes}
    values = {"accuracy": found[sizes[-1]]}
    values |= {f"accuracy_{n}": value for n, value in found.items()}
    if 100 in found and sizes[-1] > 100:
        values["efficiency"] = found[100] / max(found[sizes[-1]], 1e-12)
    if variant != "standard":
        n = sizes[-1]
        if variant == "strong":
            values["accuracy"] = _strong(arrays, test, predict, n, seed)
        else:
            values["accuracy"] = _reduced(arrays, test, predict, n, removed)
        values["gap"] = 1.0 - values["accuracy"] / max(found[n], 1e-12)
    return Score(
        values,
        arrays.settings(
            model=model, train_sizes=tuple(sizes), variant=variant, seed=seed
        ),
    )


def _fairness_rows(
    source: Source, rs: np.random.RandomState, num_train: int, per_class: int
) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """Returns training rows, their labels, and the rows to draw for each factor."""
    if source.lookup is not None:
        labels = draw_factors(rs, source.sizes, num_train)
        train = source.lookup(labels, rs)
    else:
        train = rs.permutation(len(source.labels))[:num_train]
        labels = source.labels[train]
    points = []
    for s, size in enumerate(source.sizes):
        if source.lookup is not None:
            base = draw_factors(rs, source.sizes, size * per_class)
            base[:, s] = np.repeat(np.arange(size), per_class)
            points.append(source.lookup(base, rs).reshape(size, per_class))
        else:
            sampler = Conditional(source.labels[:, s])
            values = np.arange(sampler.distinct)
            points.append(sampler.rows(rs, values, per_class))
    return train, labels, points


@define(
    keys={
        "unfairness": "change of a prediction when another factor changes (lower is "
        "better)",
        "worst": "the same for the worst pair of factors (lower is better)",
    },
    higher_is_better=False,
    interventional=True,
    deterministic=False,
    cost="slow",
    reference="Locatello et al. 2019, On the Fairness of Disentangled Representations",
)
def fairness(
    encode_fn: Callable | ArrayLike,
    dataset: Any,
    *,
    codes_test: ArrayLike | None = None,
    factors_test: ArrayLike | None = None,
    num_train: int = 10_000,
    points_per_class: int = 100,
    encode_batch: int = 1024,
    seed: int = 0,
) -> Score:
    r"""Unfairness of predictions to factors that should not matter (Eq. 3).

    Boosted trees predict a target factor y from the codes of ``num_train`` points. For
    a sensitive factor s, ``points_per_class`` new points are drawn with s set to each
    of its values, and

    .. math:: \frac{1}{|S|} \sum_s \mathrm{TV}\big(p(\hat y), p(\hat y \mid do(s))\big)

    compares the predicted classes of all these points with those of one value (total
    variation, half the sum of absolute differences). The mean over all pairs of target
    and sensitive factor is in [0, 1]; lower is better. The noise of finite samples
    alone gives 0.05–0.3, more for factors with many values. Predictions from codes
    without any information depend on no factor, so they are as fair as those from
    perfectly disentangled codes: compare unfairness at equal accuracy only.

    Args:
      encode_fn, dataset: an encoder and a dataset, or codes and factors; see
        `metrics.sources`. With arrays that are no full grid, ``do(s)`` becomes
        conditioning on s, and the points are drawn from the rows that the trees were
        fitted on.
      codes_test, factors_test, seed: as in every score; the score draws fresh points.
      num_train: points to fit the trees on.
      points_per_class: points per value of a sensitive factor.
      encode_batch: images to encode at once.

    Returns:
      ``unfairness`` and ``worst`` (largest entry); the matrix over target × sensitive
      is in ``matrices["unfairness"]`` (0 on its diagonal).
    """
    source = source_of("fairness", encode_fn, dataset, encode_batch)
    k = len(source.sizes)
    if k < 2:
        raise ValueError("fairness: `factors` must have at least two factors, got 1.")
    train, labels, points = _fairness_rows(
        source, np.random.RandomState(seed), num_train, points_per_class
    )
    codes, place = source.codes(
        np.concatenate([train, *(p.reshape(-1) for p in points)])
    )
    new = codes[place[len(train) :]]
    fit = boosted_trees(codes[place[: len(train)]], labels, source.sizes, new)
    matrix = np.zeros((k, k))
    parts = np.split(fit.logits_test, np.cumsum(source.sizes)[:-1], axis=1)
    for target, logit in enumerate(parts):
        guess = logit.argmax(axis=1)
        start = 0
        for s, drawn in enumerate(points):
            own = guess[start : start + drawn.size].reshape(drawn.shape)
            start += drawn.size
            if s == target:
                continue
            share = np.stack(
                [(own == c).mean(axis=1) for c in range(logit.shape[1])], axis=1
            )
            overall = share.mean(axis=0, keepdims=True)
            matrix[target, s] = np.mean(0.5 * np.abs(share - overall).sum(axis=1))
    apart = ~np.eye(k, dtype=bool)
    settings = source.settings | {
        "num_train": len(train), "points_per_class": points_per_class, "seed": seed,
        "encodes": len(codes),
    }  # fmt: skip
    return Score(
        {"unfairness": matrix[apart].mean(), "worst": matrix[apart].max()},
        settings,
        matrices={"unfairness": matrix},
    )
