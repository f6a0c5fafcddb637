"""Evaluator of topic models: scores of the topics, their words and correlations."""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from disentangle_jax import data, losses, metrics, models, sampling
from disentangle_jax.batching import in_batches
from disentangle_jax.evaluation.examples import Seen
from disentangle_jax.evaluation.protocol import Evaluated, Number, define
from disentangle_jax.evaluation.sections import Bars, HeatMap, Section, Table
from disentangle_jax.evaluation.trained import Trained
from disentangle_jax.methods import TopicModel, as_unit_interval
from disentangle_jax.training import Run
from disentangle_jax.types import State

_DRAWS = 4  # Draws of z for the bound of each document.
_WORDS = 10  # Words that represent a topic.
_PRINTED = 10  # Topics that the command line prints.
# Documents that I(x; z_d) is computed over: its cost is quadratic in their number.
_INFORMED = 2000
# A topic with at least this information is active: that of a latent whose posterior
# means vary with a third of the standard deviation of the posteriors.
ACTIVE_NATS = 0.05
# At this z the proportions of ProdLDA are one topic alone. The order of NVDM's words
# does not depend on it.
_PEAK = 20.0


@define(
    name="topics",
    scores={
        "nll": Number(
            "words given the code, nats per document (lower is better)", "lower"
        ),
        "kl": "KL divergence of the posterior from the prior, nats per document",
        "perplexity": Number(
            "per word, by the ELBO, mean over documents (lower is better)", "lower"
        ),
        "perplexity.by_words": Number("the same, mean over words", "lower"),
        "npmi": "coherence: do the words of a topic occur together? (1 is best)",
        "npmi.active": "the same for active topics",
        "active_topics": "topics that carry information about a document",
        "active_topics.information": "sum of the information of all latents, nats",
        "topic_correlation.within": "mean |correlation| of topics of one group",
        "topic_correlation.between": "the same for topics of different groups",
        "planted.matched": "correlation of true topics and their latents (1 is best)",
        "planted.agreement": "of true and found correlations (1 is best)",
        "planted.partners_planted": "mean correlation of topics planted to correlate",
        "planted.partners_found": "the same as found by the model",
        "planted.partners_apart": "share of them in different groups",
    },
)
class Topics:
    """Scores of topic models on test documents.

    The words of a topic are those whose log-odds rise most when the document changes
    from an even mixture (NVDM: from z = 0) to that topic alone.

    ``perplexity`` of the ELBO, by documents and by words. ``npmi``: mean coherence of
    the topics over training documents, and that of the active ones.
    ``active_topics``: number of topics with I(x; z_d) of at least ``ACTIVE_NATS``.
    ``topic_correlation`` of the codes within and between groups, over active topics.
    Where the corpus knows the topics that generated it, ``planted`` compares their
    correlations with those found; see ``metrics.planted_correlation``.

    The entry ``topics`` of the scores has a dict per topic: ``group`` (from 1),
    ``words``, ``npmi``, ``information`` (nats). ``nll`` and ``kl`` add up to the
    negative ELBO, in nats per document.
    """

    def __init__(self, run: Run):
        self._run, method = run, cast(TopicModel, run.method)
        self._corpus = cast(data.Corpus, run.test_set)
        self._reference = cast(data.Corpus, run.train_set)
        topics = sum(method.latent_groups)

        def bound(
            key: jax.Array,
            state: State,
            counts: jax.Array,
            mean: jax.Array,
            log_var: jax.Array,
        ) -> tuple[jax.Array, jax.Array]:
            x = as_unit_interval(counts)

            def nll(key: jax.Array) -> jax.Array:
                z = sampling.reparameterize(key, mean, log_var)
                return losses.multinomial_reconstruction(x, method.decode(state, z))

            errors = jax.lax.map(nll, jax.random.split(key, _DRAWS)).mean(axis=0)
            prior_log_var = math.log(method.prior_variance)
            kl = losses.gaussian_kl(mean, log_var, prior_log_var=prior_log_var)
            return errors, kl

        def weights(state: State) -> jax.Array:
            alone = method.decode(state, _PEAK * jnp.eye(topics))
            return alone - method.decode(state, jnp.zeros((topics, topics)))

        options = models.compiler_options()
        self._bound = jax.jit(bound, compiler_options=options)
        self._weights = jax.jit(weights, compiler_options=options)

    def evaluate(self, model: Trained, seen: Seen) -> Evaluated:
        run, corpus, indices = self._run, self._corpus, seen.indices
        groups, seed = run.method.latent_groups, run.config.eval.seed
        nll, kl = self._bounds(model, seen)
        mean, log_var = (np.asarray(a, np.float64) for a in seen.posterior[:2])
        weights = np.asarray(self._weights(model.state))
        reference = self._reference.counts[self._reference.indices]
        coherence = metrics.npmi(weights, reference, count=_WORDS)
        some = slice(0, _INFORMED)
        information = metrics.latent_information(mean[some], log_var[some], seed=seed)
        active = np.flatnonzero(information >= ACTIVE_NATS)
        of_active = coherence[active].mean() if len(active) else math.nan
        lengths = corpus.lengths[indices]
        scores = {
            "perplexity": metrics.Score(
                {
                    "perplexity": metrics.perplexity(nll + kl, lengths),
                    "by_words": metrics.perplexity(nll + kl, lengths, mean="words"),
                },
                {"documents": len(indices), "draws": _DRAWS, "likelihood": "ELBO"},
            ),
            "npmi": metrics.Score(
                {"npmi": coherence.mean(), "active": of_active},
                {
                    "words": _WORDS,
                    "reference": "train",
                    "documents": reference.shape[0],
                },
            ),
            "active_topics": metrics.Score(
                {"active_topics": len(active), "information": information.sum()},
                {"threshold_nats": ACTIVE_NATS, "documents": len(mean[some])},
            ),
            "topic_correlation": _score(
                metrics.group_correlation(mean, groups=groups, kept=active),
                {"topics": "active", "codes": "mean"},
            ),
        }
        true = corpus.proportions
        if true is not None and true.shape[1] <= sum(groups):
            planted = metrics.planted_correlation(mean, true[indices], groups=groups)
            scores["planted"] = _score(planted, {"documents": len(indices)})
        words = metrics.top_words(weights, corpus.vocabulary, count=_WORDS)
        group_of = np.repeat(np.arange(1, len(groups) + 1), groups)
        topics = [
            {
                "group": int(group_of[topic]),
                "words": words[topic],
                "npmi": float(coherence[topic]),
                "information": float(information[topic]),
            }
            for topic in range(len(words))
        ]
        errors = {"nll": float(nll.mean()), "kl": float(kl.mean())}
        return Evaluated(scores, errors, details={"topics": topics})

    def _bounds(self, model: Trained, seen: Seen) -> tuple[np.ndarray, np.ndarray]:
        """Returns reconstruction errors ``[N]`` and KLs ``[N]`` of the documents."""
        size = self._run.config.eval.batch_size
        key = jax.random.key(self._run.config.eval.seed)
        mean, log_var = seen.posterior.mean, cast(jax.Array, seen.posterior.log_var)
        starts = itertools.count(0, size)

        def batch(rows: np.ndarray) -> tuple[jax.Array, jax.Array]:
            counts = self._run.test_set.images(seen.indices[rows])
            of_batch = jax.random.fold_in(key, next(starts))
            return self._bound(of_batch, model.state, counts, mean[rows], log_var[rows])

        found = in_batches(batch, np.arange(len(seen.indices)), size)
        nll, kl = (values.astype(np.float64) for values in found)
        return nll, kl

    @staticmethod
    def sections(
        scores: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
    ) -> Iterator[Section]:
        topics, groups = scores["topics"], scores["settings"]["latent_groups"]
        yield _topic_table(topics)
        yield Bars(
            "information",
            "Information of each latent about a document",
            "Mutual information of a document and each latent, in nats, largest first "
            "in each group. Latents at zero are unused: they represent no topic.",
            {
                f"group {group}": sorted(
                    (t["information"] for t in topics if t["group"] == group),
                    reverse=True,
                )
                for group in range(1, len(groups) + 1)
            },
            "latent",
            "nats",
        )
        latents = [f"z{number}" for number in range(1, sum(groups) + 1)]
        yield _correlations(
            "topic_correlation",
            "Correlation of topics",
            "Correlation of the latents over test documents: blue where topics occur "
            "together, red where they exclude each other. Lines separate the groups.",
            scores["metrics"]["topic_correlation"]["matrices"]["correlation"],
            latents,
            groups,
        )
        if "planted" in scores["metrics"]:
            found = scores["metrics"]["planted"]["matrices"]
            true = [f"topic {number}" for number in range(1, len(found["planted"]) + 1)]
            yield _correlations(
                "correlation_planted",
                "The correlations that generated the documents",
                "Between the true topics of this corpus.",
                found["planted"],
                true,
            )
            yield _correlations(
                "correlation_found",
                "The correlations that the model found",
                "Between the true topics of this corpus, each represented by its "
                "matched latent.",
                found["found"],
                true,
            )


def _topic_table(topics: list[Mapping[str, Any]]) -> Table:
    numbered = sorted(enumerate(topics, start=1), key=lambda t: -t[1]["information"])
    return Table(
        "topics",
        "Topics",
        "The words whose odds rise most with each latent. Information: mutual "
        "information of the latent and a document, in nats. NPMI: whether the words "
        "occur together in training documents (1 only together, 0 by chance, -1 "
        "never).",
        ("latent", "group", "information", "NPMI", "words"),
        [
            (
                f"z{number}",
                str(topic["group"]),
                f"{topic['information']:.2f}",
                f"{topic['npmi']:.2f}",
                " ".join(topic["words"]),
            )
            for number, topic in numbered
        ],
        printed=_PRINTED,
    )


def _correlations(
    name: str,
    title: str,
    caption: str,
    values: list[list[float]],
    names: list[str],
    groups: Sequence[int] = (),
) -> HeatMap:
    matrix = np.asarray(values, float)
    return HeatMap(name, title, caption, matrix, names, names, True, groups)


def _score(values: dict[str, Any], settings: dict[str, Any]) -> metrics.Score:
    """Returns numbers as values and arrays as matrices."""
    numbers = {k: v for k, v in values.items() if np.ndim(v) == 0}
    arrays = {k: v for k, v in values.items() if np.ndim(v) == 2}
    return metrics.Score(numbers, settings, matrices=arrays)
