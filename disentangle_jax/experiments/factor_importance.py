"""Distance of images along each factor, as a reconstruction loss sees it.

Michlo et al., "Overlooked Implications of the Reconstruction Loss", App. A: factors
with larger distances are learned first. Trains nothing.
"""

from disentangle_jax import losses, metrics, reports
from disentangle_jax.experiments import overlooked, protocol, published
from disentangle_jax.types import unknown_name

_PAPER_PAIRS = 50_000
_DISTANCES = {
    "mse": losses.mse,
    "l1": losses.l1_reconstruction,
    "box_blur_mse": losses.box_blur_mse,
}


@protocol.define(
    question="How far apart are images along each factor, to a reconstruction loss?",
    reference="Michlo et al., Overlooked Implications of the Reconstruction Loss for "
    "VAE Disentanglement, App. A, Table 1 and Fig. 1 of the supplement",
    options={
        "datasets": ("xysquares", "rendered_dsprites", "rendered_shapes3d"),
        "distances": ("mse",),
        "pairs": _PAPER_PAIRS,
    },
)
class FactorImportance(protocol.Protocol):
    """A table and a figure per dataset and distance."""

    def stages(self, config, workdir):
        options = config.experiment
        protocol.check_given(config, "datasets", "distances", "pairs")
        for name in options.distances:
            if name not in _DISTANCES:
                field = "experiment.distances"
                raise unknown_name("factor_importance", field, name, list(_DISTANCES))
        for name in options.datasets:
            if not overlooked.load(config, name).factor_sizes:
                raise ValueError(
                    f"factor_importance: `experiment.datasets`: {name} has no factors."
                )
        return []

    def result(self, config, workdir, models):
        options = config.experiment
        values, parts = {}, []
        for number, name in enumerate(options.datasets, start=1):
            dataset = overlooked.load(config, name)
            for kind in options.distances:
                print(f"dataset {number} of {len(options.datasets)}: {name}, {kind}")
                score = metrics.factor_importance(
                    dataset,
                    pairs=options.pairs,
                    distance=_DISTANCES[kind],
                    seed=config.eval.seed,
                )
                values.setdefault(name, {})[kind] = dict(score)
                parts += _parts(name, kind, score)
        lines = overlooked.notes(options.datasets)
        if options.pairs < _PAPER_PAIRS:
            lines.append(f"{options.pairs} pairs, not the paper's {_PAPER_PAIRS}.")
        parts.append(protocol.deviations(*(lines or ["None that we know of."])))
        return protocol.Result("Perceived distance along each factor", values, parts)


def _parts(name: str, kind: str, score: metrics.Score) -> list:
    paper = {}
    if kind == "mse":
        of_dataset = published.original(name)
        paper = {
            row["factor"]: f"{row['mean']} ± {row['standard_deviation']}"
            for row in published.table("perceived_distances", dataset=of_dataset)
        }
    rows = [
        [factor, f"{mean:.4f} ± {std:.4f}", paper.get(factor, "-")]
        for (factor, mean), std in zip(score.items(), score.matrices["std"])
    ]
    curves = dict(zip(score, score.matrices["distances"]))
    return [
        reports.Table(
            f"{name}_{kind}",
            f"{name}: mean distance ({kind}) along each factor",
            "Mean ± standard deviation over pairs that differ in one factor, the most "
            "important factor first, and over random pairs of images; beside it Table "
            "1 of the paper." + (published.note(name) if paper else ""),
            ("factor", "distance", "paper"),
            rows,
        ),
        reports.Figure(
            f"{name}_{kind}_distribution",
            f"{name}: share of pairs below a distance ({kind})",
            "Factors whose curve lies further to the right are learned earlier.",
            reports.plots.cumulative(curves, f"distance ({kind})"),
        ),
    ]
