"""Evaluator of latent responses: what a change of one latent does to the code."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from disentangle_jax import metrics
from disentangle_jax.evaluation.examples import Seen, single_dimensions
from disentangle_jax.evaluation.protocol import Evaluated, Number, define
from disentangle_jax.evaluation.sections import HeatMap
from disentangle_jax.evaluation.trained import Trained
from disentangle_jax.training import Run

_CODES = 1000
_INACTIVE = 0.01  # Of the largest standard deviation.


def latent_responses(
    respond: Callable[[np.ndarray], np.ndarray],
    codes: np.ndarray,
    groups: Sequence[int],
    rng: np.random.Generator,
) -> np.ndarray:
    r"""Returns how much each variable responds to an intervention on each other one.

    .. math:: R_{gh} = \sqrt{\frac{\mathbb{E} \|s_h(z^{(g)}) - s_h(z)\|^2}
              {2 \operatorname{Var}(z_h)}}

    where s encodes the decoded code and :math:`z^{(g)}` is z with the variable g taken
    from another code. An autoencoder that reads off every change, and nothing else, has
    the identity matrix: two independent draws of a variable differ by twice its
    variance. A small diagonal entry belongs to a latent that the decoder ignores or the
    encoder does not recover; entries beside the diagonal are dependences between
    latents, through the image.

    Leeb et al., "Exploring the Latent Space of Autoencoders with Interventional
    Assays", use such matrices; the scale by the variance is ours.

    Args:
      respond: maps codes ``[N, D]`` to the codes of their decoded images.
      codes: ``[N, D]``.
      groups: sizes of the variables.
      rng: draws the other codes, as one permutation per variable.

    Returns:
      ``[G, G]``: rows are interventions, columns responses. Rows and columns of
      variables whose standard deviation is below 1 % of the largest are NaN.
    """
    ends = np.cumsum(groups)
    places = [slice(end - size, end) for size, end in zip(groups, ends)]
    codes = np.asarray(codes)
    before = np.asarray(respond(codes), np.float64)
    variance = np.array(
        [np.var(codes[:, place], axis=0, dtype=np.float64).sum() for place in places]
    )
    active = variance > _INACTIVE**2 * variance.max()
    found = np.full((len(groups), len(groups)), np.nan)
    for g in np.flatnonzero(active):
        changed = codes.copy()
        changed[:, places[g]] = codes[rng.permutation(len(codes)), places[g]]
        squares = np.square(np.asarray(respond(changed), np.float64) - before)
        for h in np.flatnonzero(active):
            moved = squares[:, places[h]].sum(axis=1).mean()
            found[g, h] = np.sqrt(moved / (2.0 * variance[h]))
    return found


@define(
    name="responses",
    scores={
        "responses.own": Number(
            "mean response of a latent to its own change, in its spread (1 is best)"
        ),
        "responses.others": Number(
            "mean response of the other latents, in their spread (0 is best)", "lower"
        ),
    },
)
class Responses:
    """Latent responses of test images; see :func:`latent_responses`.

    Not among the evaluators of a method: ask by ``eval.evaluators=responses``.
    """

    def __init__(self, run: Run):
        self._run = run

    @staticmethod
    def check(run: Run) -> None:
        """Raises a ValueError where the method of `run` does not model images."""
        if run.method.inputs.observation != "image":
            raise ValueError(
                "config: `eval.evaluators` must not contain 'responses': "
                f"{run.config.method.name} does not model images."
            )

    def evaluate(self, model: Trained, seen: Seen) -> Evaluated:
        method, seed = self._run.method, self._run.config.eval.seed
        groups = single_dimensions(method.latent_groups, method.discrete)
        codes = seen.codes[:_CODES]
        matrix = latent_responses(
            lambda z: np.asarray(model.posterior(model.decode_all(z)).mean),
            codes,
            groups,
            np.random.default_rng(seed),
        )
        active = ~np.isnan(np.diag(matrix))
        diagonal = np.eye(len(matrix), dtype=bool)
        beside = matrix[~diagonal & active[:, None] & active]
        values = {
            "own": float(np.mean(np.diag(matrix)[active])),
            "others": float(beside.mean()) if len(beside) else 0.0,
        }
        settings = {"codes": len(codes), "inactive": np.flatnonzero(~active).tolist()}
        shown = {"responses": np.nan_to_num(matrix)}
        return Evaluated({"responses": metrics.Score(values, settings, matrices=shown)})

    @staticmethod
    def sections(
        scores: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
    ) -> Iterator[HeatMap]:
        score = scores["metrics"]["responses"]
        matrix = np.asarray(score["matrices"]["responses"])
        names = [f"z{number}" for number in range(1, len(matrix) + 1)]
        inactive = ", ".join(names[place] for place in score["settings"]["inactive"])
        yield HeatMap(
            "responses",
            "Latent responses",
            "The latent of a row is replaced by that of another test image, the code "
            "is decoded and encoded again: each column shows how far a latent moves, "
            "in its own spread. The identity is ideal. "
            + (f"Inactive latents, shown as 0: {inactive}." if inactive else ""),
            matrix,
            names,
            names,
        )
