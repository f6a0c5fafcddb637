"""What a trained topic model is worth: scores of its topics, and their words."""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from disentangle_jax import losses, metrics, models, sampling
from disentangle_jax.methods import as_unit_interval
from disentangle_jax.training.logging import Progress
from disentangle_jax.training.run import Run
from disentangle_jax.training.trained import Trained

# Draws of z for the bound of each document, and words that stand for a topic.
_DRAWS, _WORDS = 4, 10
# Documents that I(x; z_d) is computed over: its cost is their number squared.
_INFORMED = 2000
# Nats from which a topic counts as active: what a latent carries whose posterior means
# vary with a third of the deviation of the posteriors.
ACTIVE_NATS = 0.05
# At this z the proportions of ProdLDA are one topic alone. The order of NVDM's words
# does not depend on it.
_PEAK = 20.0


class Judged(NamedTuple):
    """What documents say of a topic model.

    Attributes:
      codes: ``[N, K]`` posterior means of the documents.
      errors: nats a document: ``nll``, the reconstruction, and ``kl``; their sum is the
        negative ELBO.
      scores: by name; see :meth:`Documents.judge`.
      topics: one dict per topic: ``group`` (from 1), ``words``, ``npmi``,
        ``information`` (nats).
    """

    codes: np.ndarray
    errors: dict[str, float]
    scores: dict[str, metrics.Score]
    topics: list[dict[str, Any]]


class Documents:
    """The documents that judge the models of one run, all lanes by one program."""

    def __init__(self, run: Run):
        method = run.method
        topics = sum(method.latent_groups)

        def bound(key, state, counts):
            x = as_unit_interval(counts)
            mean, log_var, _ = method.encode(state, x)

            def nll(key):
                z = sampling.reparameterize(key, mean, log_var)
                return losses.multinomial_reconstruction(x, method.decode(state, z))

            errors = jax.lax.map(nll, jax.random.split(key, _DRAWS)).mean(axis=0)
            prior_log_var = math.log(method.prior_variance)
            kl = losses.gaussian_kl(mean, log_var, prior_log_var=prior_log_var)
            return mean, log_var, errors, kl

        def weights(state):
            alone = method.decode(state, _PEAK * jnp.eye(topics))
            return alone - method.decode(state, jnp.zeros((topics, topics)))

        options = models.compiler_options()
        self._bound = jax.jit(bound, compiler_options=options)
        self._weights = jax.jit(weights, compiler_options=options)

    def judge(self, model: Trained, indices: np.ndarray) -> Judged:
        """Scores a topic model.

        The words of a topic are those whose log-odds rise most when the document turns
        from an even mixture (NVDM: from z = 0) to that topic alone.

        ``perplexity`` of the ELBO, by documents and by words. ``npmi``: mean coherence
        of the topics over training documents, and that of the active ones.
        ``active_topics``: how many have I(x; z_d) of at least ``ACTIVE_NATS``.
        ``topic_correlation`` of the codes within and between groups, over active
        topics. Where the corpus knows the topics that made it, ``planted`` compares
        their correlations with those found; see ``metrics.planted_correlation``.

        Args:
          model: the trained model.
          indices: ``[N]`` test documents.
        """
        run, corpus = model.run, model.run.test_set
        groups, seed = run.method.latent_groups, run.config.eval.seed
        mean, log_var, nll, kl = self._bounds(model, indices)
        lengths = corpus.lengths[indices]
        weights = np.asarray(self._weights(model.state))
        reference = run.train_set.counts[run.train_set.indices]
        coherence = metrics.npmi(weights, reference, count=_WORDS)
        some = slice(0, _INFORMED)
        information = metrics.latent_information(mean[some], log_var[some], seed=seed)
        active = np.flatnonzero(information >= ACTIVE_NATS)
        correlation = metrics.group_correlation(mean, groups=groups, kept=active)
        by_documents = metrics.perplexity(nll + kl, lengths)
        by_words = metrics.perplexity(nll + kl, lengths, mean="words")
        of_active = coherence[active].mean() if len(active) else math.nan
        scores = {
            "perplexity": metrics.Score(
                {"perplexity": by_documents, "by_words": by_words},
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
                correlation, {"topics": "active", "codes": "mean"}
            ),
        }
        if corpus.proportions is not None and corpus.proportions.shape[1] <= sum(
            groups
        ):
            planted = metrics.planted_correlation(
                mean, corpus.proportions[indices], groups=groups
            )
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
        return Judged(mean, errors, scores, topics)

    def _bounds(self, model: Trained, indices: np.ndarray) -> list[np.ndarray]:
        """Returns means, log-variances, reconstruction errors and KLs of documents."""
        progress = Progress("encoding", len(indices), unit="documents")
        size = model.run.config.eval.batch_size
        key = jax.random.key(model.run.config.eval.seed)
        parts = []
        for start in range(0, len(indices), size):
            chunk = indices[start : start + size]
            # The last batch is filled up, so that one program serves all.
            counts = model.run.test_set.images(np.resize(chunk, size))
            part = self._bound(jax.random.fold_in(key, start), model.state, counts)
            parts.append(jax.device_get(part))
            progress.update(start + len(chunk))
        return [
            np.concatenate(arrays)[: len(indices)].astype(np.float64)
            for arrays in zip(*parts)
        ]


def _score(values: dict[str, Any], settings: dict[str, Any]) -> metrics.Score:
    """Returns numbers as values and arrays as matrices."""
    numbers = {k: v for k, v in values.items() if np.ndim(v) == 0}
    arrays = {k: v for k, v in values.items() if np.ndim(v) == 2}
    return metrics.Score(numbers, settings, matrices=arrays)
