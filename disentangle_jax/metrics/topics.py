"""Evaluation of topic models: words, coherence, perplexity, dependence."""

import itertools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from disentangle_jax import losses
from disentangle_jax.metrics.inputs import ArrayLike, as_key, check_codes, to_numpy
from disentangle_jax.types import check_groups, unknown_name

# Codes whose densities are computed at once, which bounds the memory.
_BLOCK = 64


def top_words(
    topics: ArrayLike, vocabulary: Sequence[str], *, count: int = 10
) -> list[list[str]]:
    """Returns the words with the largest weights of each topic, largest first.

    Args:
      topics: ``[K, V]`` weight of each word in each topic, on any scale.
      vocabulary: the V words.
      count: words per topic. Equal weights keep the order of the vocabulary.
    """
    topics = check_codes("top_words", "topics", topics)
    if len(vocabulary) != topics.shape[1]:
        raise ValueError(
            f"top_words: `vocabulary` must have the {topics.shape[1]} words of "
            f"`topics`, got {len(vocabulary)}."
        )
    places = _top_places("top_words", topics, count)
    return [[vocabulary[place] for place in row] for row in places]


def _top_places(function: str, topics: np.ndarray, count: int) -> np.ndarray:
    """Returns the columns ``[K, count]`` of the largest weights of each row."""
    if not 1 <= count <= topics.shape[1]:
        raise ValueError(
            f"{function}: `count` must lie in [1, {topics.shape[1]}], the number of "
            f"words, got {count}."
        )
    return np.argsort(-topics, axis=1, kind="stable")[:, :count]


def npmi(topics: ArrayLike, counts: ArrayLike, *, count: int = 10) -> np.ndarray:
    r"""Coherence of topics: normalised pointwise mutual information of their words.

    .. math:: \frac{2}{n(n-1)} \sum_{i<j} \frac{\log \frac{p(w_i, w_j)}{p(w_i) p(w_j)}}
              {-\log p(w_i, w_j)}

    over the n words with the largest weights; :math:`p` are shares of the reference
    documents that contain a word, or both (Bouma 2009; Lau et al. 2014, whose values
    differ because their reference is a sliding window over Wikipedia). Words that never
    occur together count -1, words that occur in all documents 1.

    Args:
      topics: ``[K, V]`` weight of each word in each topic, on any scale.
      counts: ``[N, V]`` counts of the reference documents, dense or SciPy sparse.
      count: n, words per topic; at least 2.

    Returns:
      ``[K]`` in [-1, 1]: 0 for independent words, 1 for words that only occur together.
    """
    topics = check_codes("npmi", "topics", topics)
    if count < 2:
        raise ValueError(f"npmi: `count` must be at least 2, got {count}.")
    places = _top_places("npmi", topics, count)
    if counts.shape[1] != topics.shape[1]:
        raise ValueError(
            f"npmi: `counts` must have the {topics.shape[1]} words of `topics`, got "
            f"shape {counts.shape}."
        )
    used = np.unique(places)
    part = counts[:, used]
    part = part.toarray() if hasattr(part, "toarray") else np.asarray(part)
    holds = (part > 0).astype(np.float64)
    share = holds.T @ holds / len(holds)
    alone = np.diag(share)
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.log(share / np.outer(alone, alone)) / -np.log(share)
    value = np.where(share == 0, -1.0, np.where(share == 1, 1.0, value))
    rows = np.searchsorted(used, places)
    first, second = np.triu_indices(count, k=1)
    return value[rows[:, first], rows[:, second]].mean(axis=1)


def perplexity(nll: ArrayLike, lengths: ArrayLike, *, mean: str = "documents") -> float:
    r"""Perplexity per word, from (bounds on) the documents' log-likelihoods.

    .. math:: \exp\left(\frac1N \sum_n \frac{\ell_n}{N_n}\right) \qquad\text{or}\qquad
              \exp\left(\frac{\sum_n \ell_n}{\sum_n N_n}\right)

    for ``mean="documents"``, the definition of NVDM (Sec. 5.1) and of ProdLDA's code,
    which weighs short and long documents equally, and for ``mean="words"``. With the
    negative ELBO as :math:`\ell_n` the result is an upper bound.

    Args:
      nll: ``[N]`` negative log-likelihoods of whole documents, nats, without the
        multinomial coefficient.
      lengths: ``[N]`` numbers of words.
      mean: ``"documents"`` or ``"words"``.

    Returns:
      At least 1 for a true likelihood; V for uniformly random words; infinite if no
      float is large enough (an untrained model).
    """
    nll = to_numpy("perplexity", "nll", nll).astype(np.float64)
    lengths = to_numpy("perplexity", "lengths", lengths).astype(np.float64)
    if nll.ndim != 1 or nll.shape != lengths.shape or not len(nll):
        raise ValueError(
            "perplexity: `nll` and `lengths` must be [N], one value per document, "
            f"got {nll.shape} and {lengths.shape}."
        )
    if lengths.min() < 1:
        raise ValueError(
            "perplexity: `lengths` must be positive, got a document without words "
            f"(number {int(lengths.argmin())}); leave it out."
        )
    if mean not in ("documents", "words"):
        raise unknown_name("perplexity", "mean", mean, ("documents", "words"))
    of_words = mean == "words"
    nats = nll.sum() / lengths.sum() if of_words else (nll / lengths).mean()
    with np.errstate(over="ignore"):
        return float(np.exp(nats))


def latent_information(
    mean: ArrayLike, log_var: ArrayLike, *, seed: int | jax.Array = 0
) -> np.ndarray:
    r"""Mutual information :math:`I(x; z_d)` of each latent and the example it encodes.

    .. math:: \mathbb E \left[\log q(z_d | x_n) - \log \tfrac1N \sum_m q(z_d | x_m)
              \right], \qquad z \sim q(z | x_n)

    over the N given examples, with one sample each (HFVAE, Sec. 5.1 and Fig. 4). The
    aggregate posterior is that of all N examples, so there is no bias of small batches;
    the samples add noise of about :math:`\sqrt{2 I / N}`.

    Args:
      mean: ``[N, D]`` posterior means.
      log_var: ``[N, D]`` posterior log-variances.
      seed: seed of the samples.

    Returns:
      ``[D]`` nats, between 0 (up to the noise) and log N.
    """
    mean = check_codes("latent_information", "mean", mean)
    log_var = check_codes("latent_information", "log_var", log_var)
    if log_var.shape != mean.shape or len(mean) < 2:
        raise ValueError(
            "latent_information: `mean` and `log_var` must have one shape [N, D] of at "
            f"least 2 rows, got {mean.shape} and {log_var.shape}."
        )
    key = as_key("latent_information", seed)
    mean, log_var = mean.astype(np.float32), log_var.astype(np.float32)
    return np.asarray(_latent_information(key, mean, log_var), np.float64)


@jax.jit
def _latent_information(
    key: jax.Array, mean: jax.Array, log_var: jax.Array
) -> jax.Array:
    noise = jax.random.normal(key, mean.shape)
    z = mean + jnp.exp(0.5 * log_var) * noise
    aggregate = losses.log_q_marginals(
        z,
        mean,
        log_var,
        dataset_size=len(mean),
        estimator="stratified",  # exact, since all examples are given
        block_size=min(_BLOCK, len(mean)),
    )
    own = -0.5 * (jnp.log(2 * jnp.pi) + log_var + jnp.square(noise))
    return (own - aggregate["log_qz_dims"]).mean(axis=0)


def group_correlation(
    codes: ArrayLike,
    *,
    groups: Sequence[int],
    kept: Sequence[int] | np.ndarray | None = None,
) -> dict[str, float | np.ndarray]:
    """Returns the correlations of latents within groups and between groups.

    Args:
      codes: ``[N, D]`` codes.
      groups: sizes of the contiguous groups, adding up to D.
      kept: latents whose correlations are averaged (the active ones); None for all.

    Returns:
      ``correlation`` ``[D, D]``, Pearson's, 0 for a constant latent with others;
      ``within`` and ``between``, means of the absolute correlations of pairs in one
      group and in different groups, and ``within_max`` and ``between_max``; 0 if there
      is no such pair.
    """
    codes = check_codes("group_correlation", "codes", codes).astype(np.float64)
    dims = codes.shape[1]
    groups = check_groups("group_correlation", groups, dims)
    latents = np.arange(dims) if kept is None else np.asarray(kept, np.int64)
    if latents.size and not (latents.min() >= 0 and latents.max() < dims):
        raise ValueError(
            f"group_correlation: `kept` must be latents in [0, {dims}), got "
            f"{latents.min()} to {latents.max()}."
        )
    unit = _standardized(codes)
    matrix = unit.T @ unit
    np.fill_diagonal(matrix, 1.0)
    group = np.repeat(np.arange(len(groups)), groups)
    result: dict[str, float | np.ndarray] = {"correlation": matrix}
    pairs = list(itertools.combinations(latents.tolist(), 2))
    for name, same in (("within", True), ("between", False)):
        found = [abs(matrix[a, b]) for a, b in pairs if (group[a] == group[b]) == same]
        result[name] = float(np.mean(found)) if found else 0.0
        result[f"{name}_max"] = float(max(found, default=0.0))
    return result


def _standardized(codes: np.ndarray) -> np.ndarray:
    """Returns columns of mean 0 and norm 1; a constant column becomes 0."""
    centred = codes - codes.mean(axis=0)
    norm = np.sqrt(np.square(centred).sum(axis=0))
    alive = norm > 1e-10 * np.maximum(np.abs(codes).max(axis=0), 1e-300)
    return np.divide(centred, norm, out=np.zeros_like(centred), where=alive)


def planted_correlation(
    codes: ArrayLike,
    proportions: ArrayLike,
    *,
    groups: Sequence[int],
    planted_above: float = 0.3,
) -> dict[str, float | np.ndarray]:
    r"""Compares the correlations of latents with those of the true topics.

    The truth is the logarithm of the true proportions of each document, less its mean
    over topics: the proportions :math:`\theta = \mathrm{softmax}(z)` determine
    :math:`z` up to a constant. Topics are matched one-to-one to the latents that
    correlate most with them over documents (Hungarian algorithm); a latent takes the
    sign of its correlation.

    Args:
      codes: ``[N, D]`` codes of documents.
      proportions: ``[N, K]`` true proportions of their topics, K ≤ D.
      groups: sizes of the contiguous groups of latents, adding up to D.
      planted_above: pairs of topics with a larger true correlation are partners.

    Returns:
      ``matched``, mean correlation of topics with their latents; ``agreement``,
      correlation of the true with the found correlations over all pairs of topics;
      ``partners_planted`` and ``partners_found``, mean correlation of partners, and
      ``others_planted`` and ``others_found``, that of all other pairs;
      ``partners_apart``, share of the partners whose latents are in different groups
      (NaN if no topics are partners); ``planted`` and ``found``, the correlations
      ``[K, K]``; ``latents`` ``[K]``, the latent of each topic.
    """
    name = "planted_correlation"
    codes = check_codes(name, "codes", codes).astype(np.float64)
    truth = check_codes(name, "proportions", proportions).astype(np.float64)
    groups = check_groups(name, groups, codes.shape[1])
    if len(truth) != len(codes) or not 2 <= truth.shape[1] <= codes.shape[1]:
        raise ValueError(
            f"{name}: `proportions` must be [N, K] for the N = {len(codes)} codes and "
            f"2 to {codes.shape[1]} topics, got {truth.shape}."
        )
    if truth.min() <= 0:
        raise ValueError(f"{name}: `proportions` must be positive, got {truth.min()}.")
    from scipy.optimize import linear_sum_assignment

    truth = np.log(truth)
    truth = _standardized(truth - truth.mean(axis=1, keepdims=True))
    unit = _standardized(codes)
    cross = truth.T @ unit
    _, latents = linear_sum_assignment(-np.abs(cross))
    matched = cross[np.arange(len(latents)), latents]
    chosen = unit[:, latents] * np.where(matched < 0, -1.0, 1.0)
    planted, found = truth.T @ truth, chosen.T @ chosen
    first, second = np.triu_indices(len(latents), k=1)
    true, seen = planted[first, second], found[first, second]
    partners = true > planted_above
    group = np.repeat(np.arange(len(groups)), groups)[latents]
    apart = group[first] != group[second]
    pairs = _standardized(np.stack([true, seen], axis=1))

    def average(values: np.ndarray, chosen: np.ndarray) -> float:
        return float(values[chosen].mean()) if chosen.any() else float("nan")

    return {
        "matched": float(np.abs(matched).mean()),
        "agreement": float(pairs[:, 0] @ pairs[:, 1]),
        "partners_planted": average(true, partners),
        "partners_found": average(seen, partners),
        "others_planted": average(true, ~partners),
        "others_found": average(seen, ~partners),
        "partners_apart": average(apart, partners),
        "planted": planted,
        "found": found,
        "latents": latents,
    }
