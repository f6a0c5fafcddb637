"""What each term of the ELBO does ("Structured Disentangled Representations", Fig. 2).

A VAE with two latents is trained with the whole objective and without each of its four
terms: ① how well z identifies x, ② the information I(x; z), ③ the evidence log p(x), ④
the divergence of the aggregate posterior from the prior.
"""

from collections.abc import Sequence

import jax
import numpy as np

from disentangle_jax import reports, training
from disentangle_jax.experiments import protocol
from disentangle_jax.methods.weighted_elbo import WEIGHTS

_PANELS = {
    "A: all terms": None,
    "B: without ①": "identifiability",
    "C: without ②": "information",
    "D: without ③": "evidence",
    "E: without ④": "marginal",
}
_LAST_ROWS = 5  # Number of final rows of metrics.jsonl to average.


@protocol.define(
    question="What does each of the four terms of the ELBO do?",
    reference="Esmaeili et al., Structured Disentangled Representations, Fig. 2",
    options={"images": 8, "draws": 150},
)
class ELBOTerms(protocol.Protocol):
    """The whole objective, and the objective without each term in turn."""

    def stages(self, config, workdir):
        if config.method.name != "weighted_elbo" or config.model.latent_dim != 2:
            raise ValueError(
                "elbo_terms: `method.name` must be 'weighted_elbo' and "
                "`model.latent_dim` 2, so that codes can be drawn, got "
                f"{config.method.name!r} and {config.model.latent_dim}."
            )
        protocol.check_given(config, "images", "draws")
        protocol.check_empty(config, "lanes.sweep", "lanes.rows")
        rows = [
            {f"method.{weight}": float(weight != removed) for weight in WEIGHTS}
            for removed in _PANELS.values()
        ]
        return [protocol.Stage("terms", {}, rows)]

    def result(self, config, workdir, models):
        by_panel = protocol.grouped(models["terms"], _panel)
        options, first = config.experiment, next(iter(by_panel.values()))[0]
        test_set = first.run.test_set
        shown = test_set.images(test_set.indices[: options.images])
        values = {
            panel: [_terms(model) for model in found]
            for panel, found in by_panel.items()
        }
        clouds, pictures = {}, {"image": shown}
        for panel, (model, *_) in by_panel.items():
            trained = model.load()
            mean, log_var, _ = trained.posterior(shown)
            noise = jax.random.normal(
                jax.random.key(0), (options.draws, *mean.shape), mean.dtype
            )
            draws = mean + np.exp(log_var / 2) * np.asarray(noise)
            clouds[panel] = [draws[:, image] for image in range(len(shown))]
            pictures[f"{panel[0]}: q(z|x)"] = trained.decode_all(mean)
            prior = trained.prior(jax.random.key(1), len(shown))
            pictures[f"{panel[0]}: p(z)"] = trained.decode_all(np.asarray(prior))
        parts = [
            _table(values),
            _codes_figure(clouds),
            _pictures_figure(pictures),
            _deviations(config),
        ]
        numbers = {
            protocol.folder(model, workdir): terms
            for panel, found in by_panel.items()
            for model, terms in zip(found, values[panel])
        }
        title = f"The terms of the ELBO on {config.data.name}"
        return protocol.Result(title, values, parts, numbers)


def _panel(model: protocol.Model) -> str:
    removed = [weight for weight in WEIGHTS if not model.hyper[weight]]
    return next(
        panel for panel, weight in _PANELS.items() if [weight] == (removed or [None])
    )


def _terms(model: protocol.Model) -> dict[str, float]:
    rows = training.read_metrics(model.run.workdir)[-_LAST_ROWS:]
    names = (*WEIGHTS, "reconstruction")
    return {name: float(np.mean([row[name] for row in rows])) for name in names}


def _table(values: dict[str, list[dict[str, float]]]) -> reports.Table:
    names = (*WEIGHTS, "reconstruction")
    return reports.Table(
        "terms",
        "The four terms at the end of training",
        "In nats, as the objective estimates them from its batches; the removed term "
        "too, which was measured but not optimised. ① log p(x|z)/p(x), ② I(x; z), ③ "
        "log p(x), ④ KL(q(z), p(z)). Mean ± standard deviation over seeds.",
        ("objective", "①", "②", "③", "④", "−log p(x|z)"),
        [
            [
                panel,
                *(
                    protocol.spread([one[name] for one in found], ".2f")
                    for name in names
                ),
            ]
            for panel, found in values.items()
        ],
    )


def _codes_figure(clouds: dict[str, Sequence[np.ndarray]]) -> reports.Figure:
    return reports.Figure(
        "codes",
        "Where the posteriors of some images lie",
        "Draws from q(z|x) of test images, one colour each; the circle holds 95 % of "
        "the prior. Without ① the paper expects every image to be mapped to the prior, "
        "without ② to a small region of its own, without ④ regions away from the prior "
        "(Fig. 2 B, C and E; first seed).",
        reports.plots.clouds(clouds, radius=2.448),
    )


def _pictures_figure(pictures: dict[str, np.ndarray]) -> reports.Figure:
    sheet = reports.grids.sheet(np.stack(list(pictures.values())), list(pictures))
    return reports.Figure(
        "samples",
        "Reconstructions, and samples from the prior",
        "Test images, their reconstructions q(z|x), and images of codes drawn from the "
        "prior p(z). Without ③ the paper expects samples that differ from the data "
        "(Fig. 2 D; first seed).",
        reports.grids.png(sheet),
    )


def _deviations(config) -> reports.Text:
    return protocol.deviations(
        "The paper does not state the data and networks of Fig. 2, which illustrates "
        f"the terms; ours are {config.data.name} and {config.model.name} with 2 "
        "latents.",
        "① and ③ need p(x), which the paper calls intractable. We estimate it by "
        "importance sampling from the aggregate posterior, a lower bound in the mean.",
    )
