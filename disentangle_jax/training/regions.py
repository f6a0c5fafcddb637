"""What a model with labelled regions is worth: clusters, relations, pictures.

"Leveraging Relational Information for Learning Weakly Disentangled Representations",
Sec. 4.3-4.5: the numbers of its Tables 4 and 5, the codes of its Table 1, and the
images of its Figs. 6-12.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from disentangle_jax import data, metrics
from disentangle_jax.training.trained import Trained

ALPHAS = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9)
DEPTHS = (1, 5, 10)
_CHAINS = 2000  # Relation chains of each kind, at most.
_SHOWN, _COMPOSED = 6, 3
_SCORES = ("dci", "mig", "sap")


class Codes(NamedTuple):
    """Test images as the model sees them.

    Attributes:
      images: ``[N, H, W, C]`` uint8.
      codes: ``[N, D]``.
      regions: ``[N]``, the true ones.
    """

    images: np.ndarray
    codes: np.ndarray
    regions: np.ndarray


def evaluate_regions(
    model: Trained, images: np.ndarray, codes: np.ndarray, factors: np.ndarray
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Scores the regions and the relational learner of a model.

    Args:
      model: of a method with regions, trained beyond its warm-up.
      images: ``[N, H, W, C]`` test images.
      codes: ``[N, D]`` their codes.
      factors: ``[N, K]`` their factors.

    Returns:
      Scores and pictures, each by name. ``clusters`` and ``relations`` are lists of
      rows: accuracy and accepted share for each threshold alpha, by density and by
      posterior, and for each depth, from draws of the prior and from test images.
      ``outliers``: shares of images of noise, and of test images, that are rejected.
      ``factor_codes``: DCI, MIG and SAP of the factors that were read off the codes
      (where there are two or more), half of the images fitting, half judging.
    """
    regions = model.run.method.regions
    labels = np.ravel_multi_index(tuple(factors.T), regions.factor_sizes)
    seen = Codes(images, codes, labels)
    densities = _log_densities(model, codes)
    rng = np.random.default_rng(model.run.config.eval.seed)
    scores = {
        "clusters": _rows(metrics.cluster_accuracy, densities, labels),
        "relations": _relation_rows(model, seen, rng),
        "outliers": _outlier_rows(model, seen, densities, rng),
        "factor_codes": {},
        "tau": model.run.lanes[0].hyper["tau"],
        "relation_names": list(regions.table.names),
        "factor_sizes": list(regions.factor_sizes),
        "regions": len(densities[0]),
        "fitted": int(np.isfinite(densities[0]).sum()),
    }
    if len(regions.factor_sizes) > 1:
        read = metrics.component_factors(
            metrics.assign_components(densities), regions.factor_sizes
        ).astype(np.float64)
        half = len(read) // 2
        found = metrics.evaluate(
            read[:half],
            factors[:half],
            scores=_SCORES,
            codes_test=read[half:],
            factors_test=factors[half:],
            seed=model.run.config.eval.seed,
        )
        scores["factor_codes"] = {name: dict(score) for name, score in found.items()}
    return scores, _pictures(model, seen, rng)


def _log_densities(model: Trained, codes: np.ndarray) -> np.ndarray:
    log_densities = jax.jit(model.run.method.regions.log_densities)
    return np.asarray(log_densities(model.state, codes))


def _rows(score: Callable, *arrays: np.ndarray, **same: Any) -> list[dict[str, Any]]:
    """Returns a score of `arrays` at each threshold, as rows that begin with `same`."""
    return [
        {**same, "threshold": threshold, "alpha": alpha}
        | {
            name: None if np.isnan(value) else float(value)
            for name, value in score(*arrays, alpha=alpha, threshold=threshold).items()
        }
        for threshold in ("density", "posterior")
        for alpha in ALPHAS
    ]


def _relation_rows(
    model: Trained, seen: Codes, rng: np.random.Generator
) -> list[dict[str, Any]]:
    table = model.run.method.regions.table
    starts = np.unique(np.concatenate([own[:, 0] for own in table.operands()]))
    chosen = rng.permutation(np.flatnonzero(np.isin(seen.regions, starts)))[:_CHAINS]
    sources = {
        "prior": (rng.choice(starts, _CHAINS), _drawn(model)),
        "images": (seen.regions[chosen], _looked_up(seen, rng)),
    }
    rows = []
    for source, (first, codes_of) in sources.items():
        begin = codes_of(first) if source == "prior" else seen.codes[chosen]
        for depth in DEPTHS:
            chain, others = data.random_chains(rng, table, first, depth)
            ends = data.follow(table, chain, first, *others)[:, -1]
            reached = walk(model, codes_of, chain, begin, others)[:, -1, -1]
            counted = ends >= 0
            rows += _rows(
                metrics.relation_accuracy,
                _log_densities(model, reached[counted]),
                ends[counted],
                chain[counted, -1],
                source=source,
                depth=depth,
            )
    return rows


def _drawn(model: Trained) -> Callable[[np.ndarray], np.ndarray]:
    """Returns a function from regions ``[N]`` to codes drawn from the prior."""
    regions = model.run.method.regions
    draw = jax.jit(regions.draw)
    keys = iter(range(1 << 30))
    root = jax.random.key(model.run.config.eval.seed)
    return lambda region: np.asarray(
        draw(jax.random.fold_in(root, next(keys)), model.state, region)
    )


def _looked_up(
    seen: Codes, rng: np.random.Generator
) -> Callable[[np.ndarray], np.ndarray]:
    """Returns a function from regions ``[N]`` to codes of test images of them."""
    places = _places(seen, rng)
    return lambda region: seen.codes[places(region)]


def _places(
    seen: Codes, rng: np.random.Generator
) -> Callable[[np.ndarray], np.ndarray]:
    """Returns a function from regions ``[N]`` to a test image of each.

    Where no test image shows a region, the nearest number of one that does.
    """
    order = np.argsort(seen.regions, kind="stable")
    known, first, count = np.unique(
        seen.regions[order], return_index=True, return_counts=True
    )

    def places(region: np.ndarray) -> np.ndarray:
        row = np.minimum(np.searchsorted(known, region), len(known) - 1)
        return order[first[row] + rng.integers(0, count[row])]

    return places


def walk(
    model: Trained,
    codes_of: Callable[[np.ndarray], np.ndarray],
    chain: np.ndarray,
    begin: np.ndarray,
    others: tuple[np.ndarray, ...],
) -> np.ndarray:
    """Returns what the relational learner makes of codes, relation after relation.

    Args:
      model: the trained model.
      codes_of: function from regions ``[N]`` to codes, for operators and operands.
      chain: ``[N, depth]`` numbers of relations.
      begin: ``[N, D]`` codes.
      others: further operands, ``[N, depth]`` regions each.

    Returns:
      ``[N, depth, O, D]`` codes; the last of O is the operand of the next relation.
    """
    regions = model.run.method.regions
    relate, symbol = jax.jit(regions.relate), jax.jit(regions.symbol)
    operators, code, found = regions.table.operators, begin, []
    for depth in range(chain.shape[1]):
        relation = chain[:, depth]
        if operators is None:
            told = symbol(jax.random.key(0), model.state, relation)
        else:
            told = codes_of(operators[relation])
        operands = [codes_of(other[:, depth]) for other in others]
        result = np.asarray(relate(model.state, told, code, *operands))
        found.append(result)
        code = result[:, -1]
    return np.stack(found, axis=1)


def _outlier_rows(
    model: Trained, seen: Codes, densities: np.ndarray, rng: np.random.Generator
) -> list[dict[str, Any]]:
    """Images of noise with the brightness of test images are outliers."""
    shown = seen.images[: min(500, len(seen.images))]
    flat = shown.reshape(len(shown), -1)
    noise = rng.permuted(flat, axis=1).reshape(shown.shape)
    size = model.run.config.eval.batch_size
    codes = np.concatenate(
        [
            model.encode(
                np.resize(noise[start : start + size], (size, *noise.shape[1:]))
            )
            for start in range(0, len(noise), size)
        ]
    )[: len(noise)]
    outliers = _log_densities(model, codes)
    return _rows(metrics.outlier_rejection, densities, outliers)


def _pictures(
    model: Trained, seen: Codes, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Returns decoded means of regions, and strips of relations on test images.

    A strip is a test image, its reconstruction, and for each relation the images of its
    operator and further operands, where it has such, and its results.
    """
    regions = model.run.method.regions
    table = regions.table
    operands = table.operands()
    single = np.repeat(np.arange(len(operands)), _SHOWN)[:, None]
    starts = np.concatenate([rng.choice(own[:, 0], _SHOWN) for own in operands])
    others = _operands_of(rng, table, single[:, 0], starts)
    first = rng.choice(np.unique(np.concatenate(operands)[:, 0]), _SHOWN)
    chain, chain_others = data.random_chains(rng, table, first, _COMPOSED)
    return {
        "region_means": model.decode_all(np.asarray(regions.means(model.state))),
        "relation_strips": _strips(model, seen, rng, single, starts, others),
        "chain_strips": _strips(model, seen, rng, chain, first, chain_others),
        "chains": chain,
    }


def _strips(
    model: Trained,
    seen: Codes,
    rng: np.random.Generator,
    chain: np.ndarray,
    first: np.ndarray,
    others: tuple[np.ndarray, ...],
) -> np.ndarray:
    """Returns the images of chains of relations, ``[N, columns, H, W, C]``."""
    places = _places(seen, rng)
    begin = places(first)
    columns = [seen.images[begin], model.decode_all(seen.codes[begin])]
    used: list[np.ndarray] = []

    def codes_of(region: np.ndarray) -> np.ndarray:
        chosen = places(region)
        used.append(seen.images[chosen])
        return seen.codes[chosen]

    results = model.decode_all(walk(model, codes_of, chain, seen.codes[begin], others))
    each = len(used) // chain.shape[1]
    for depth in range(chain.shape[1]):
        columns += used[depth * each : (depth + 1) * each]
        columns += list(results[:, depth].swapaxes(0, 1))
    return np.stack(columns, axis=1)


def _operands_of(
    rng: np.random.Generator,
    table: data.RelationTable,
    relation: np.ndarray,
    first: np.ndarray,
) -> tuple[np.ndarray, ...]:
    """Draws further operands, ``[N, 1]`` each, that relations are defined for."""
    others = np.zeros((table.arity - 1, len(first), 1), np.int32)
    if table.arity > 1:
        defined = (table.targets >= 0).all(axis=-1)
        for row, (number, start) in enumerate(zip(relation, first)):
            others[:, row, 0] = rng.choice(np.argwhere(defined[number, start]))
    return tuple(others)
