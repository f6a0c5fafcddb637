"""Downstream tasks: how well, and from how few labels, factors can be predicted."""

from collections.abc import Callable, Sequence

import numpy as np

from disentangle_jax.metrics._dci import correct
from disentangle_jax.metrics._inputs import (
    ArrayLike,
    Arrays,
    Score,
    check_arrays,
    need_test,
)
from disentangle_jax.metrics.estimators import (
    boosted_trees,
    logistic_regression,
    logits,
)
from disentangle_jax.types import unknown_name

# Codes, labels, sizes and codes to predict -> logits [M, sum(sizes)].
Predict = Callable[[np.ndarray, np.ndarray, tuple[int, ...], np.ndarray], np.ndarray]

_STRENGTHS = np.logspace(-4, 4, 10)
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
    """Logistic regression; strength by the accuracy of 5 contiguous folds."""
    n, count = len(codes), len(sizes)
    folds = min(_FOLDS, n)
    fold = np.concatenate(
        [np.full(len(p), i) for i, p in enumerate(np.array_split(np.arange(n), folds))]
    )
    many = np.tile(labels, (1, folds))
    weights = np.repeat(fold[:, None] != np.arange(folds), count, axis=1).astype(float)
    right = np.zeros((len(_STRENGTHS), count))
    for s, strength in enumerate(_STRENGTHS):
        fits = logistic_regression(
            codes, many, sizes * folds, strength=strength, weights=weights,
            tolerance=1e-4, steps=100,
        )  # fmt: skip
        for i, w in enumerate(fits):
            held = fold == i // count
            guess = logits(w, codes[held]).argmax(axis=1)
            right[s, i % count] += np.mean(guess == labels[held, i % count]) / folds
    best = _STRENGTHS[right.argmax(axis=0)]
    fits = logistic_regression(
        codes, labels, sizes, strength=best, tolerance=1e-4, steps=100
    )
    return np.concatenate([logits(w, codes_test) for w in fits], axis=1)


MODELS: dict[str, Predict] = {"gbt": _predict_gbt, "logistic": _predict_logistic}


def _standard(arrays: Arrays, predict: Predict, n: int) -> float:
    guess = predict(
        arrays.codes[:n], arrays.labels[:n], arrays.sizes, arrays.codes_test
    )
    return float(correct(guess, arrays.labels_test, arrays.sizes).mean())


def _strong(arrays: Arrays, predict: Predict, n: int, seed: int) -> float:
    """Mean accuracy where another factor has one value in train, others in test."""
    rng = np.random.default_rng(seed)
    found = []
    for held, size in enumerate(arrays.sizes):
        if len(arrays.sizes) == 1:
            break
        value = rng.integers(size)
        train = np.flatnonzero(arrays.labels[:, held] == value)[:n]
        test = arrays.labels_test[:, held] != value
        if len(train) < 2 or not test.any():
            continue
        others = np.arange(len(arrays.sizes)) != held
        sizes = tuple(np.array(arrays.sizes)[others].tolist())
        guess = predict(
            arrays.codes[train], arrays.labels[train][:, others], sizes,
            arrays.codes_test[test],
        )  # fmt: skip
        right = correct(guess, arrays.labels_test[test][:, others], sizes)
        found.append(right.mean(axis=0))
    if not found:
        raise ValueError(
            "downstream: `variant` 'strong' must have two factors with several rows "
            "for a value, got none."
        )
    return float(np.mean(np.concatenate(found)))


def _reduced(arrays: Arrays, predict: Predict, n: int, removed: int) -> float:
    """Mean accuracy where each factor loses its most important latents."""
    latents = arrays.codes.shape[1]
    if removed >= latents:
        raise ValueError(
            f"downstream: `removed` must be below the {latents} latents, got {removed}."
        )
    trees = boosted_trees(arrays.codes[:n], arrays.labels[:n], arrays.sizes)
    found = []
    for k, size in enumerate(arrays.sizes):
        order = np.argsort(-trees.importance[:, k], kind="stable")
        kept = np.sort(order[removed:])
        guess = predict(
            arrays.codes[:n, kept], arrays.labels[:n, k : k + 1], (size,),
            arrays.codes_test[:, kept],
        )  # fmt: skip
        found.append(correct(guess, arrays.labels_test[:, k : k + 1], (size,)).mean())
    return float(np.mean(found))


def downstream(
    codes: ArrayLike,
    factors: ArrayLike,
    *,
    codes_test: ArrayLike | None = None,
    factors_test: ArrayLike | None = None,
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
    labels over that at 10,000 (here: at the largest size).

    Variants, both at the largest size:

    * "strong": another factor is held at one value in train and has the other values
      in test; averaged over the held factors and the targets. ``gap`` is
      1 − strong / standard.
    * "reduced": each factor is predicted without its ``removed`` most important latents
      (by the importances of the boosted trees). A compact code falls to chance.

    Args:
      codes: ``[N, D]``.
      factors: ``[N, K]``, taken as labels.
      codes_test: ``[M, D]``, needed.
      factors_test: ``[M, K]``, needed.
      model: "gbt", our boosted trees, or "logistic", a multinomial logistic regression
        whose strength is chosen from 10 (1e-4 … 1e4) by 5-fold cross-validation.
      train_sizes: numbers of labels.
      variant: "standard", "strong" or "reduced".
      removed: latents that "reduced" takes away.
      seed: seeds the held values of "strong".

    Returns:
      ``accuracy`` (at the largest size, of the variant), ``accuracy_10`` … for each
      size, ``efficiency`` where 100 is among them, and ``gap`` for the variants.
    """
    arrays = check_arrays(
        "downstream", codes, factors, codes_test=codes_test, factors_test=factors_test
    )
    need_test("downstream", arrays)
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
    found = {n: _standard(arrays, predict, n) for n in sizes}
    values = {"accuracy": found[sizes[-1]]}
    values |= {f"accuracy_{n}": value for n, value in found.items()}
    if 100 in found and sizes[-1] > 100:
        values["efficiency"] = found[100] / max(found[sizes[-1]], 1e-12)
    if variant != "standard":
        n = sizes[-1]
        if variant == "strong":
            values["accuracy"] = _strong(arrays, predict, n, seed)
        else:
            values["accuracy"] = _reduced(arrays, predict, n, removed)
        values["gap"] = 1.0 - values["accuracy"] / max(found[n], 1e-12)
    return Score(
        values,
        arrays.settings(
            model=model, train_sizes=tuple(sizes), variant=variant, seed=seed
        ),
    )
