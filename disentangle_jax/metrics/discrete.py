"""Discrete latent variables: agreement with labels, information, pruned latents."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from disentangle_jax import distributions
from disentangle_jax.metrics.information import information
from disentangle_jax.metrics.inputs import (
    ArrayLike,
    Score,
    check_arrays,
    check_codes,
    to_numpy,
)


def matching_accuracy(classes: ArrayLike, labels: ArrayLike) -> Score:
    r"""Accuracy of unsupervised classes under their best matching with labels.

    .. math:: \max_\pi \frac1N \sum_n [\pi(c_n) = y_n]

    over the one-to-one maps :math:`\pi` of classes to labels (Hungarian algorithm).
    ``purity`` allows several classes per label (the best label of each class), so it is
    never smaller than ``accuracy``. Both lie in (0, 1], higher is better; a single
    class has the share of the most frequent label. Classes beyond the number of labels,
    and labels beyond the number of classes, match nothing.

    Args:
      classes: ``[N]`` integers, the class of each example; only equality matters.
      labels: ``[N]`` integers, its label.
    """
    found = []
    for name, values in (("classes", classes), ("labels", labels)):
        array = to_numpy("matching_accuracy", name, values)
        if array.ndim != 1 or not len(array):
            raise ValueError(
                f"matching_accuracy: `{name}` must be [N], got shape {array.shape}. "
                "Take the argmax of one-hot vectors first."
            )
        found.append(np.unique(array, return_inverse=True)[1])
    classes, labels = found
    if len(classes) != len(labels):
        raise ValueError(
            "matching_accuracy: `labels` must have as many entries as `classes` "
            f"({len(classes)}), got {len(labels)}."
        )
    from scipy.optimize import linear_sum_assignment

    table = np.zeros((classes.max() + 1, labels.max() + 1), np.int64)
    np.add.at(table, (classes, labels), 1)
    matched = table[linear_sum_assignment(table, maximize=True)].sum()
    count = len(classes)
    return Score(
        {"accuracy": matched / count, "purity": table.max(axis=1).sum() / count},
        {"samples": count, "classes": len(table), "labels": table.shape[1]},
        matrices={"counts": table},
    )


def class_information(
    codes: ArrayLike, labels: ArrayLike, *, discrete: Sequence[int], bins: int = 20
) -> Score:
    r"""Information of discrete and of continuous variables about a label, and its gap.

    .. math:: \max_c I(y; c) - \max_d I(y; z_d)

    HFVAE's mutual information gap ("Structured Disentangled Representations", Sec. 5.4
    and Figs. 5 and 6) in nats: positive if a discrete variable captures the label best.
    The informations are plug-in estimates, from the classes and from ``bins``
    equal-width bins of each continuous variable.

    Args:
      codes: ``[N, D + M]``: D continuous variables, then one-hot vectors, as
        ``methods`` encode them.
      labels: ``[N]`` label of each example.
      discrete: number of categories of each discrete variable, M together.
      bins: number of bins of each continuous variable.

    Returns:
      ``gap`` and its two terms, ``discrete`` and ``continuous``, each in [0, H(y)] and
      0 without variables of that kind. ``matrices["mi"]`` ``[D + C]`` is the
      information of every variable.
    """
    codes = check_codes("class_information", "codes", codes)
    discrete = tuple(int(size) for size in discrete)
    dims = codes.shape[1] - sum(discrete)
    if dims < 0 or min(discrete, default=2) < 2:
        raise ValueError(
            "class_information: `discrete` must hold numbers of categories, at least "
            f"2, of the last of the {codes.shape[1]} columns of `codes`, got "
            f"{discrete}."
        )
    arrays = check_arrays(
        "class_information", codes, labels, groups=(1,) * dims + discrete
    )
    if arrays.labels.shape[1] != 1:
        raise ValueError(
            "class_information: `labels` must be [N], one label each, got "
            f"{arrays.labels.shape[1]} columns."
        )
    known, _ = information(arrays, bins=bins, bin_factors=False, seed=0)
    mi = known.mi[:, 0]
    best = {
        "discrete": mi[dims:].max(initial=0.0),
        "continuous": mi[:dims].max(initial=0.0),
    }
    return Score(
        {"gap": best["discrete"] - best["continuous"], **best},
        arrays.settings(bins=bins, label_entropy=float(known.factor_entropy[0])),
        matrices={"mi": mi},
    )


def category_information(
    logits: ArrayLike, *, discrete: Sequence[int] | None = None
) -> np.ndarray:
    r"""Mutual information of each discrete variable and the example it encodes.

    .. math:: I(x; c) = H\left(\tfrac1N \sum_n q(c | x_n)\right)
              - \tfrac1N \sum_n H(q(c | x_n))

    for the categories that a Concrete variable relaxes. `latent_information` is the
    same for continuous variables.

    Args:
      logits: ``[N, M]`` unnormalised log-probabilities.
      discrete: number of categories of each variable, M together; None for one.

    Returns:
      ``[C]`` nats, each between 0 and the logarithm of its number of categories.
    """
    logits = check_codes("category_information", "logits", logits)
    sizes = (logits.shape[1],) if discrete is None else tuple(discrete)
    if sum(sizes) != logits.shape[1]:
        raise ValueError(
            "category_information: `discrete` must add up to the "
            f"{logits.shape[1]} columns of `logits`, got {sizes}."
        )
    found = []
    for part in np.split(logits, np.cumsum(sizes)[:-1], axis=1):
        log_p = jax.nn.log_softmax(jnp.asarray(part, jnp.float32))
        mean = jax.nn.logsumexp(log_p, axis=0) - np.log(len(part))
        entropy = distributions.categorical_entropy
        found.append(float(entropy(mean) - entropy(log_p).mean()))
    return np.maximum(found, 0.0)


def pruned_latents(latent_information: ArrayLike, *, threshold: float = 0.05) -> int:
    """Returns the number of latents with (almost) no information about the examples.

    HFVAE *prunes* dimensions: their :math:`I(x; z_d)` drops to zero (Sec. 5.1, Fig. 4:
    3 of 10 on MNIST, 4 on Fashion-MNIST).

    Args:
      latent_information: ``[D]`` nats, from `latent_information`.
      threshold: nats below which a latent counts as pruned. Trained models have few
        values near it: dimensions in use have 0.6 nats and more, others below 0.02.
    """
    values = to_numpy("pruned_latents", "latent_information", latent_information)
    if not threshold > 0:
        raise ValueError(
            f"pruned_latents: `threshold` must be positive, got {threshold}."
        )
    return int((values < threshold).sum())
