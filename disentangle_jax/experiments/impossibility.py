r"""Theorem 1 on a trained model: another code with the same distribution, entangled.

Locatello et al., "Challenging Common Assumptions in the Unsupervised Learning of
Disentangled Representations": for every distribution with independent latents there
are bijections f that keep it and mix all latents. A decoder that first inverts f makes
the same images from the same prior, so that no image tells f(z) from z. The page shows
the construction of the proof for the prior of a trained VAE.
"""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from scipy import stats

from disentangle_jax import evaluation, losses, metrics, reports
from disentangle_jax.experiments import protocol
from disentangle_jax.types import unknown_name

_METHODS = (
    *("vae", "beta_vae", "annealed_vae", "factor_vae"),
    *("beta_tc_vae", "dip_vae_i", "dip_vae_ii"),
)
_STEPS = np.linspace(-2.0, 2.0, 9)  # Values of a traversed latent.


def householder(latents: int, alpha: float) -> np.ndarray:
    r"""Returns the orthogonal matrix of the proof, without a zero entry.

    .. math:: A = I - 2 v v^\top, \quad v_1 = \sqrt\alpha,
              \quad v_i = \sqrt{(1 - \alpha) / (d - 1)}

    Args:
      latents: d, at least 2.
      alpha: in (0, 0.5).

    Returns:
      ``[d, d]`` float64.
    """
    if latents < 2:
        raise ValueError(
            f"householder: `latents` must be at least 2 to be mixed, got {latents}."
        )
    if not 0 < alpha < 0.5:
        raise ValueError(f"householder: `alpha` must lie in (0, 0.5), got {alpha}.")
    v = np.full(latents, np.sqrt((1 - alpha) / (latents - 1)))
    v[0] = np.sqrt(alpha)
    return np.eye(latents) - 2 * np.outer(v, v)


def entangle(
    z: np.ndarray,
    matrix: np.ndarray,
    cdf: Callable[[np.ndarray], np.ndarray] = stats.norm.cdf,
    quantile: Callable[[np.ndarray], np.ndarray] = stats.norm.ppf,
) -> np.ndarray:
    r"""Returns f(z) of the proof, which has the distribution of z and mixes latents.

    .. math:: f(u) = g^{-1}(h^{-1}(A\, h(g(u))))

    with g the distribution function of each latent and h the quantiles of the normal
    distribution. For a standard normal prior, f(u) = A u.

    Args:
      z: ``[n, d]`` with independent latents.
      matrix: ``[d, d]``, see :func:`householder`; its transpose inverts f.
      cdf: g, the distribution function of every latent.
      quantile: its inverse.
    """
    normal = stats.norm.ppf(cdf(z)) @ matrix.T
    return quantile(stats.norm.cdf(normal))


@protocol.define(
    question="Can images tell a disentangled code from an entangled one?",
    reference="Locatello et al., Challenging Common Assumptions in the Unsupervised "
    "Learning of Disentangled Representations, Theorem 1",
    options={"alpha": 0.3, "samples": 20_000},
)
class Impossibility(protocol.Protocol):
    """One model, its code, and its code after the bijection of the proof."""

    def stages(self, config, workdir):
        if config.method.name not in _METHODS:
            name = config.method.name
            raise unknown_name("impossibility", "method.name", name, _METHODS)
        householder(config.model.get("latent_dim", 2), config.experiment.alpha)
        return [protocol.Stage("model", {})]

    def result(self, config, workdir, models):
        options = config.experiment
        values, parts, numbers = {}, [], {}
        for number, model in enumerate(models["model"]):
            trained = model.load()
            latents = sum(trained.run.method.latent_groups)
            matrix = householder(latents, options.alpha)
            found = {
                "distribution": _distribution(trained, matrix, options.samples),
                **_on_data(trained, matrix),
            }
            values[str(trained.run.config.train.seed)] = found
            numbers[protocol.folder(model, workdir)] = {
                f"turned.{name}": value
                for name, value in found["scores"]["f(z)"].items()
            }
            if number == 0:
                parts = _parts(found, trained, matrix, options.samples)
        lines = (
            "The theorem holds for every distribution with independent latents; this "
            "page shows it for the prior of a VAE, N(0, 1), of which f is the matrix A "
            "of the proof.",
            "Codes of images follow the prior only as well as the model was trained "
            "to; the bound on the likelihood of each image is the same with both codes "
            "all the same.",
        )
        parts.append(protocol.deviations(*lines))
        title = f"Theorem 1 on {config.data.name}"
        return protocol.Result(title, values, parts, numbers)


def _distribution(
    trained: evaluation.Trained, matrix: np.ndarray, samples: int
) -> dict[str, dict[str, float]]:
    """Returns how far prior draws, and f of them, are from the prior."""
    key = jax.random.key(trained.run.config.eval.seed)
    z = np.asarray(trained.prior(key, samples), np.float64)
    turned = entangle(z, matrix)
    found = {}
    for name, codes in (("z", z), ("f(z)", turned)):
        correlations = np.corrcoef(codes.T) - np.eye(codes.shape[1])
        found[name] = {
            "largest mean": float(np.abs(codes.mean(0)).max()),
            "largest |variance − 1|": float(np.abs(codes.var(0) - 1).max()),
            "largest |correlation|": float(np.abs(correlations).max()),
            "largest Kolmogorov–Smirnov distance from N(0, 1)": float(
                max(stats.kstest(column, "norm").statistic for column in codes.T)
            ),
        }
    images = trained.decode_all(z[:64].astype(np.float32))
    again = trained.decode_all(entangle(turned[:64], matrix.T).astype(np.float32))
    levels = np.abs(images.astype(int) - again.astype(int)).max()
    found["images"] = {"largest difference in grey levels": float(levels)}
    return found


def _on_data(trained: evaluation.Trained, matrix: np.ndarray) -> dict[str, Any]:
    """Returns divergences and scores of the code, and of the entangled code."""
    run = trained.run
    seen = evaluation.Seen(trained, evaluation.Examples(run))
    mean, log_var, _ = seen.posterior
    plain = np.asarray(losses.gaussian_kl(mean, log_var)).mean()
    found = {"kl": {"z": float(plain), "f(z)": _turned_kl(mean, log_var, matrix)}}
    turned = (mean @ matrix.T).astype(np.float32)
    factors, factors_test = seen.split(seen.factors)
    for name, codes in (("z", mean), ("f(z)", turned)):
        codes, codes_test = seen.split(codes)
        scores = metrics.evaluate(
            codes,
            factors,
            scores=tuple(run.config.eval.scores),
            codes_test=codes_test,
            factors_test=factors_test,
            seed=run.config.eval.seed,
        )
        values = {score: float(value) for score, value in scores.items()}
        found.setdefault("scores", {})[name] = values
    return found


def _turned_kl(mean: np.ndarray, log_var: np.ndarray, matrix: np.ndarray) -> float:
    """Returns the mean KL of N(A μ, A Σ Aᵀ) from N(0, I), in nats."""
    spread = np.einsum("ij,nj,kj->nik", matrix, np.exp(log_var), matrix)
    center = mean @ matrix.T
    trace = np.trace(spread, axis1=1, axis2=2)
    _, determinant = np.linalg.slogdet(spread)
    kl = 0.5 * (trace + (center**2).sum(1) - mean.shape[1] - determinant)
    return float(kl.mean())


def _parts(
    found: dict[str, Any],
    trained: evaluation.Trained,
    matrix: np.ndarray,
    samples: int,
) -> list[reports.Table | reports.Figure]:
    distribution, scores = found["distribution"], found["scores"]
    rows = [
        [name, f"{distribution['z'][name]:.4f}", f"{distribution['f(z)'][name]:.4f}"]
        for name in distribution["z"]
    ]
    rows.append(
        ["mean KL of images (nats)", *(f"{v:.4f}" for v in found["kl"].values())]
    )
    difference = distribution["images"]["largest difference in grey levels"]
    return [
        reports.Table(
            "distribution",
            "Both codes have the same distribution",
            f"{samples} draws z of the prior and f(z), first seed. By chance, 95 % of "
            f"Kolmogorov–Smirnov distances lie below {1.36 / np.sqrt(samples):.4f}. "
            "Decoders with and without the inverse of f give images that differ by at "
            f"most {difference:g} of 255 grey levels.",
            ("", "z", "f(z)"),
            rows,
        ),
        reports.Table(
            "scores",
            "Scores of both codes",
            "Scores of the codes of test images before and after f. The smallest "
            f"derivative of f, |∂f_i/∂u_j|, is {np.abs(matrix).min():.3f}: every new "
            "latent depends on all old ones.",
            ("score", "z", "f(z)"),
            [
                [name, f"{scores['z'][name]:.3f}", f"{scores['f(z)'][name]:.3f}"]
                for name in scores["z"]
            ],
        ),
        _traversals(trained, matrix),
    ]


def _traversals(trained: evaluation.Trained, matrix: np.ndarray) -> reports.Figure:
    """Returns traversals of the first test image's code, and of f of it."""
    test_set = trained.run.test_set
    code = trained.codes(test_set, test_set.indices[:1])[0]
    sheets = []
    for name, turn in (("z", np.eye(len(code))), ("f(z)", matrix)):
        walks = np.tile(turn @ code, (len(code), len(_STEPS), 1))
        for latent, walk in enumerate(walks):
            walk[:, latent] = _STEPS
        images = trained.decode_all((walks @ turn).astype(np.float32))
        sheets.append((f"latents of {name}", reports.grids.sheet(images)))
    return reports.Figure(
        "traversals",
        "Traversals of both codes",
        "Each row varies one latent from -2 to 2. A row on the right varies all of the "
        "latents on the left at once, by a row of A.",
        reports.grids.png(reports.grids.panels(sheets, 2)),
    )
