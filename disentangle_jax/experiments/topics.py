"""Correlated topics ("Structured Disentangled Representations", Sec. 5.2 and App. D).

ProdLDA and NVDM are trained on the same documents with the VAE objective, and with
HFVAE's, whose weights let topics of different groups correlate and keep those of one
group independent. The page shows the topics of each model, how many are active, and
which of them correlate.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from disentangle_jax import reports
from disentangle_jax.evaluation.topics import ACTIVE_NATS
from disentangle_jax.experiments import protocol
from disentangle_jax.types import unknown_name

_NETWORKS = ("prodlda", "nvdm")
_PAIRS = 10  # Most correlated pairs of topics that are listed.
# Active topics of ProdLDA in the paper, Sec. 5.2.
_PUBLISHED = {("prodlda", "VAE"): 50, ("prodlda", "HFVAE"): 11}
_COLUMNS = {
    "active topics": ("active_topics", None),
    "NPMI of active": ("npmi", "active"),
    "|correlation| within": ("topic_correlation", "within"),
    "between": ("topic_correlation", "between"),
    "perplexity": ("perplexity", None),
}


@protocol.define(
    question="Which topics correlate with the VAE objective, and with HFVAE's?",
    reference="Esmaeili et al., Structured Disentangled Representations, Sec. 5.2 and "
    "App. D",
    options={"networks": _NETWORKS},
    reads=("method.alpha", "method.beta", "method.gamma"),
)
class Topics(protocol.Protocol):
    """Each network with two objectives, as lanes of one run."""

    def stages(self, config, workdir):
        protocol.check_given(config, "networks")
        protocol.check_empty(config, "lanes.sweep", "lanes.rows")
        method = config.method
        weights = {w: float(method[w]) for w in ("alpha", "beta", "gamma")}
        if set(weights.values()) == {1.0}:
            raise ValueError(
                "topics: `method.beta` and `method.gamma` must differ from 1, the VAE "
                "objective; the paper's are 0.1 and 4."
            )
        rows = [
            {f"method.{name}": chosen[name] for name in weights}
            for chosen in (dict.fromkeys(weights, 1.0), weights)
        ]
        stages = []
        for name in config.experiment.networks:
            if name not in _NETWORKS:
                raise unknown_name("topics", "experiment.networks", name, _NETWORKS)
            fields = {"model.name": name, "method.name": name}
            stages.append(protocol.Stage(name, fields, rows))
        return stages

    def result(self, config, workdir, models):
        found = {
            (network, objective): own
            for network, group in models.items()
            for objective, own in protocol.grouped(group, _objective).items()
        }
        parts = [_models_table(found)]
        values = {}
        for (network, objective), group in found.items():
            scores = group[0].scores
            values.setdefault(network, {})[objective] = [_numbers(m) for m in group]
            parts += _topics_of(f"{network}, {objective}", scores)
        parts.append(_deviations(config))
        title = f"Topics of {config.data.name}: VAE against HFVAE"
        return protocol.Result(title, values, parts)


def _objective(model: protocol.Model) -> str:
    weights = {model.hyper[name] for name in ("alpha", "beta", "gamma")}
    return "VAE" if weights == {1.0} else "HFVAE"


def _numbers(model: protocol.Model) -> dict[str, float]:
    numbers = {
        column: protocol.value(model.scores, score, key)
        for column, (score, key) in _COLUMNS.items()
    }
    return {"seed": model.run.lanes[0].seed, **numbers}


def _models_table(
    found: Mapping[tuple[str, str], list[protocol.Model]],
) -> reports.Table:
    rows = []
    for (network, objective), group in found.items():
        numbers = [_numbers(model) for model in group]
        row = [network, objective]
        for column in _COLUMNS:
            text = protocol.spread([one[column] for one in numbers])
            if column == "active topics" and (network, objective) in _PUBLISHED:
                text += f" [{_PUBLISHED[network, objective]}]"
            row.append(text)
        rows.append(row)
    return reports.Table(
        "models",
        "VAE against HFVAE",
        f"Active: I(x; z_d) of at least {ACTIVE_NATS} nats on test documents; in "
        "brackets the paper's number. Correlations are those of the posterior means of "
        "active topics, of one group and of different ones (the VAE's groups are only "
        "names). Mean ± standard deviation over seeds.",
        ("network", "objective", *_COLUMNS),
        rows,
    )


def _topics_of(
    title: str, scores: Mapping[str, Any]
) -> Iterator[reports.Table | reports.Figure]:
    """Returns the topics of one model, their correlations and the closest pairs."""
    topics = scores["topics"]
    active = [n for n, t in enumerate(topics) if t["information"] >= ACTIVE_NATS]
    active.sort(key=lambda n: (topics[n]["group"], -topics[n]["information"]))
    name = title.replace(", ", "_").lower()
    yield reports.Table(
        f"topics_{name}",
        f"{title}: active topics",
        "The words whose odds rise most with each latent, groups one after the other, "
        "the most informative first (App. D; first seed).",
        ("topic", "group", "I(x; z_d)", "NPMI", "words"),
        [
            [
                f"z{n + 1}",
                str(topics[n]["group"]),
                f"{topics[n]['information']:.2f}",
                f"{topics[n]['npmi']:.2f}",
                " ".join(topics[n]["words"]),
            ]
            for n in active
        ],
    )
    stored = scores["metrics"]["topic_correlation"]["matrices"]["correlation"]
    matrix = np.asarray(stored, float)[np.ix_(active, active)]
    yield _pairs_table(name, title, topics, active, matrix)
    if not active:
        return
    sizes = [sum(topics[n]["group"] == g for n in active) for g in (1, 2)]
    yield reports.Figure(
        f"correlation_{name}",
        f"{title}: correlation of active topics",
        "Of the latents over test documents; a line separates the groups (first seed).",
        reports.plots.correlation_map(
            matrix, [f"z{n + 1}" for n in active], [size for size in sizes if size]
        ),
    )


def _pairs_table(
    name: str, title: str, topics: list, active: list[int], matrix: np.ndarray
) -> reports.Table:
    first, second = np.triu_indices(len(active), 1)
    order = np.argsort(-np.abs(matrix[first, second]), kind="stable")[:_PAIRS]
    rows = []
    for a, b in zip(first[order], second[order]):
        pair = [active[a], active[b]]
        rows.append(
            [
                f"{matrix[a, b]:.2f}",
                "same" if len({topics[n]["group"] for n in pair}) == 1 else "different",
                *(f"z{n + 1}: {' '.join(topics[n]['words'][:5])}" for n in pair),
            ]
        )
    return reports.Table(
        f"pairs_{name}",
        f"{title}: the most correlated topics",
        f"The {_PAIRS} pairs of active topics whose latents correlate most (Sec. 5.2; "
        "first seed).",
        ("correlation", "groups", "topic", "topic"),
        rows,
    )


def _deviations(config) -> reports.Text:
    lines = [
        "The paper states neither the vocabulary's size nor the networks. Ours are "
        "2,000 words, and the networks, optimizers and lengths of the authors of "
        "ProdLDA and NVDM.",
        "NVDM's authors train encoder and decoder in turns; here they are trained "
        "together.",
        "The paper's threshold of a significant I(x; z_d) is not stated; ours is "
        f"{ACTIVE_NATS} nats.",
    ]
    if config.data.options.get("preprocessing") != "scholar":
        lines.append("The documents were not prepared as by the paper's authors.")
    return protocol.deviations(*lines)
