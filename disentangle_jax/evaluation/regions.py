"""Evaluator of labelled regions and of relations between them (AbsAE).

"Leveraging Relational Information for Learning Weakly Disentangled Representations",
Sec. 4.3-4.5: the numbers of Tables 4 and 5, the codes of Table 1, and the images of
Figs. 6-12.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

import jax
import numpy as np

from disentangle_jax import data, metrics
from disentangle_jax.evaluation.examples import Seen
from disentangle_jax.evaluation.protocol import Evaluated, define
from disentangle_jax.evaluation.sections import Section, Sheet, Table, in_rows
from disentangle_jax.evaluation.trained import Trained
from disentangle_jax.methods import AbsAE
from disentangle_jax.training import Run

ALPHAS = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9)
DEPTHS = (1, 5, 10)
_CHAINS = 2000  # Relation chains of each kind, at most.
_OUTLIERS = 500
_SHOWN, _COMPOSED = 6, 3
_ROW = 13  # Regions in a row of decoded means, at most.
_SCORES = ("dci", "mig", "sap")

# Maps regions [N] to codes [N, D].
CodesOf = Callable[[np.ndarray], np.ndarray]


@define(name="regions")
class Regions:
    """Accuracy of regions and relations, and images of both.

    The entry ``regions`` of the scores holds lists of rows. ``clusters`` and
    ``relations``: accuracy and accepted share for each threshold alpha, by density and
    by posterior, and for each depth, from draws of the prior and from test images.
    ``outliers``: shares of noise images, and of test images, that are rejected.
    ``factor_codes``: DCI, MIG and SAP of the factors of the region that a code falls
    into (where there are two factors or more).
    """

    def __init__(self, run: Run):
        method = cast(AbsAE, run.method)
        self._run, self._table = run, method.table
        self._densities = jax.jit(method.log_densities)
        self._draw = jax.jit(method.draw)
        self._relate, self._symbol = jax.jit(method.relate), jax.jit(method.symbol)
        self.readout = jax.jit(method.readout)

    def evaluate(self, model: Trained, seen: Seen) -> Evaluated:
        """Scores a model that was trained beyond its warm-up."""
        return _Test(self, model, seen).result()

    def log_densities(self, model: Trained, codes: np.ndarray) -> np.ndarray:
        """Returns the log-density ``[N, C]`` of codes in each region, nats."""
        return np.asarray(self._densities(model.state, codes))

    def drawn(self, model: Trained) -> CodesOf:
        """Returns a function that draws codes of regions from the prior."""
        keys = iter(range(1 << 30))
        root = jax.random.key(self._run.config.eval.seed)
        return lambda region: np.asarray(
            self._draw(jax.random.fold_in(root, next(keys)), model.state, region)
        )

    def walk(
        self,
        model: Trained,
        codes_of: CodesOf,
        chain: np.ndarray,
        begin: np.ndarray,
        others: tuple[np.ndarray, ...],
    ) -> np.ndarray:
        """Returns the codes that a chain of relations leads to.

        Args:
          model: the trained model.
          codes_of: codes of regions, for operators and operands.
          chain: ``[N, depth]`` relations, by their numbers.
          begin: ``[N, D]`` codes.
          others: further operands, ``[N, depth]`` regions each.

        Returns:
          ``[N, depth, O, D]`` codes; the last of O is the operand of the next relation.
        """
        operators, code, found = self._table.operators, begin, []
        for depth in range(chain.shape[1]):
            relation = chain[:, depth]
            if operators is None:
                symbol = self._symbol(jax.random.key(0), model.state, relation)
            else:
                symbol = codes_of(operators[relation])
            operands = [codes_of(other[:, depth]) for other in others]
            result = np.asarray(self._relate(model.state, symbol, code, *operands))
            found.append(result)
            code = result[:, -1]
        return np.stack(found, axis=1)

    @staticmethod
    def sections(
        scores: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
    ) -> Iterator[Section]:
        yield from _tables(scores["regions"])
        yield from _sheets(scores["regions"], arrays)


class _Test:
    """The test images of one model, with their codes and true regions."""

    def __init__(self, evaluator: Regions, model: Trained, seen: Seen):
        self._evaluator, self._model, self._seen = evaluator, model, seen
        self._method = cast(AbsAE, model.run.method)
        self._table = self._method.table
        self._sizes = tuple(self._method.factor_sizes)
        self._images, self._codes = seen.images(), seen.codes
        self._regions = np.ravel_multi_index(tuple(seen.factors.T), self._sizes)
        self._rng = np.random.default_rng(model.run.config.eval.seed)

    def result(self) -> Evaluated:
        densities = self._log_densities(self._codes)
        found = {
            "clusters": _rows(metrics.cluster_accuracy, densities, self._regions),
            "relations": self._relation_rows(),
            "outliers": self._outlier_rows(densities),
            "factor_codes": self._factor_codes(),
            "tau": self._model.run.lanes[0].hyper["tau"],
            "relation_names": list(self._table.names),
            "factor_sizes": list(self._sizes),
            "regions": len(densities[0]),
            "fitted": int(np.isfinite(densities[0]).sum()),
        }
        return Evaluated(details={"regions": found}, arrays=self._images_of())

    def _log_densities(self, codes: np.ndarray) -> np.ndarray:
        return self._evaluator.log_densities(self._model, codes)

    def _walk(self, *arguments: Any) -> np.ndarray:
        return self._evaluator.walk(self._model, *arguments)

    def _factor_codes(self) -> dict[str, dict[str, float | None]]:
        if len(self._sizes) < 2:
            return {}
        read = self._evaluator.readout(self._model.state, self._codes)
        return self._seen.scores(read, _SCORES)

    def _relation_rows(self) -> list[dict[str, Any]]:
        table, rng, regions = self._table, self._rng, self._regions
        starts = np.unique(np.concatenate([own[:, 0] for own in table.operands()]))
        chosen = rng.permutation(np.flatnonzero(np.isin(regions, starts)))[:_CHAINS]
        places = self._places()
        sources = {
            "prior": (rng.choice(starts, _CHAINS), self._evaluator.drawn(self._model)),
            "images": (regions[chosen], lambda region: self._codes[places(region)]),
        }
        rows = []
        for source, (first, codes_of) in sources.items():
            begin = codes_of(first) if source == "prior" else self._codes[chosen]
            for depth in DEPTHS:
                chain, others = data.random_chains(rng, table, first, depth)
                ends = data.follow(table, chain, first, *others)[:, -1]
                reached = self._walk(codes_of, chain, begin, others)[:, -1, -1]
                counted = ends >= 0
                rows += _rows(
                    metrics.relation_accuracy,
                    self._log_densities(reached[counted]),
                    ends[counted],
                    chain[counted, -1],
                    source=source,
                    depth=depth,
                )
        return rows

    def _places(self) -> Callable[[np.ndarray], np.ndarray]:
        """Returns a function from regions ``[N]`` to a random test image of each.

        A region that no test image shows is replaced by the next that one shows.
        """
        order = np.argsort(self._regions, kind="stable")
        known, first, count = np.unique(
            self._regions[order], return_index=True, return_counts=True
        )

        def places(region: np.ndarray) -> np.ndarray:
            row = np.minimum(np.searchsorted(known, region), len(known) - 1)
            return order[first[row] + self._rng.integers(0, count[row])]

        return places

    def _outlier_rows(self, densities: np.ndarray) -> list[dict[str, Any]]:
        """Returns rejected shares; outliers are test images with shuffled pixels."""
        shown = self._images[:_OUTLIERS]
        flat = shown.reshape(len(shown), -1)
        noise = self._rng.permuted(flat, axis=1).reshape(shown.shape)
        outliers = self._log_densities(self._model.encode(noise))
        return _rows(metrics.outlier_rejection, densities, outliers)

    def _images_of(self) -> dict[str, np.ndarray]:
        """Returns decoded means of regions, and strips of relations on test images.

        A strip is a test image, its reconstruction, and for each relation the images of
        its operator and further operands, where it has such, and its results.
        """
        rng, table, model = self._rng, self._table, self._model
        operands = table.operands()
        single = np.repeat(np.arange(len(operands)), _SHOWN)[:, None]
        starts = np.concatenate([rng.choice(own[:, 0], _SHOWN) for own in operands])
        others = _operands_of(rng, table, single[:, 0], starts)
        first = rng.choice(np.unique(np.concatenate(operands)[:, 0]), _SHOWN)
        chain, chain_others = data.random_chains(rng, table, first, _COMPOSED)
        means = np.asarray(self._method.means(model.state))
        return {
            "region_means": model.decode_all(means),
            "relation_strips": self._strips(single, starts, others),
            "chain_strips": self._strips(chain, first, chain_others),
            "chains": chain,
        }

    def _strips(
        self, chain: np.ndarray, first: np.ndarray, others: tuple[np.ndarray, ...]
    ) -> np.ndarray:
        """Returns the images of chains of relations, ``[N, columns, H, W, C]``."""
        places = self._places()
        begin = places(first)
        decode_all = self._model.decode_all
        columns = [self._images[begin], decode_all(self._codes[begin])]
        used: list[np.ndarray] = []

        def codes_of(region: np.ndarray) -> np.ndarray:
            chosen = places(region)
            used.append(self._images[chosen])
            return self._codes[chosen]

        results = decode_all(self._walk(codes_of, chain, self._codes[begin], others))
        each = len(used) // chain.shape[1]
        for depth in range(chain.shape[1]):
            columns += used[depth * each : (depth + 1) * each]
            columns += list(results[:, depth].swapaxes(0, 1))
        return np.stack(columns, axis=1)


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


def _operands_of(
    rng: np.random.Generator,
    table: data.RelationTable,
    relation: np.ndarray,
    first: np.ndarray,
) -> tuple[np.ndarray, ...]:
    """Draws further operands, ``[N, 1]`` each, that relations are defined for."""
    others = np.zeros((table.arity - 1, len(first), 1), np.int32)
    if table.arity > 1:
        defined = np.all(table.targets >= 0, axis=-1)
        for row, (number, start) in enumerate(zip(relation, first)):
            others[:, row, 0] = rng.choice(np.argwhere(defined[number, start]))
    return tuple(others)


# --- sections -------------------------------------------------------------------------


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _shares(
    rows: Iterable[Mapping[str, Any]], columns: Sequence[str], **wanted: Any
) -> list[str]:
    """Returns the columns of the one row that has the wanted values."""
    (row,) = (r for r in rows if all(r[k] == v for k, v in wanted.items()))
    return [_share(row[name]) for name in columns]


def _tables(found: Mapping[str, Any]) -> Iterator[Table]:
    both = ("accuracy", "accepted")
    yield Table(
        "clusters",
        "Which region does a test image fall into?",
        f"{found['fitted']} of {found['regions']} regions were fitted to "
        f"{found['tau']:g} labelled images each. Accuracy is over the accepted images: "
        "those whose density in the best region is at least α (densities depend on the "
        "scale of the code), or whose posterior probability is. Accuracy × accepted "
        "never exceeds the accuracy at α = 0.",
        ("α", "accuracy", "accepted", "accuracy (posterior)", "accepted (posterior)"),
        [
            [f"{alpha:g}"]
            + _shares(found["clusters"], both, threshold="density", alpha=alpha)
            + _shares(found["clusters"], both, threshold="posterior", alpha=alpha)
            for alpha in ALPHAS
        ],
        number=1,
    )
    by_density = [row for row in found["relations"] if row["threshold"] == "density"]
    yield Table(
        "relations_accuracy",
        "Do relations lead to the right region?",
        "Chains of random relations, each applied to the result of the previous one: "
        "from codes drawn from the prior, and from codes of test images, which may lie "
        "in a wrong region before any relation.",
        ("α", "depth", "accuracy", "accepted", "on test images", "accepted"),
        [
            [f"{alpha:g}", str(depth)]
            + _shares(by_density, both, alpha=alpha, depth=depth, source="prior")
            + _shares(by_density, both, alpha=alpha, depth=depth, source="images")
            for alpha in ALPHAS
            for depth in DEPTHS
        ],
        number=2,
    )
    rejected = ("rejected_outliers", "rejected")
    yield Table(
        "outliers",
        "Are outliers rejected?",
        "Outliers are test images with shuffled pixels.",
        ("α", "outliers rejected", "test images rejected"),
        [
            [f"{alpha:g}"]
            + _shares(found["outliers"], rejected, threshold="density", alpha=alpha)
            for alpha in ALPHAS
        ],
        number=1,
    )
    if found["factor_codes"]:
        yield Table(
            "factor_codes",
            "Scores of the factors of the assigned region",
            "Each code is replaced by the factors of its region before it is scored "
            "(paper, Sec. 4.5); the scores at the top are of the code itself.",
            ("score", "value"),
            [
                (f"{name}.{key}", f"{value:.3f}")
                for name, score in found["factor_codes"].items()
                for key, value in score.items()
                if value is not None
            ],
            number=1,
        )


def _sheets(
    found: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
) -> Iterator[Sheet]:
    names = found["relation_names"]
    # A row holds all values of as many of the last factors as fit.
    row = 1
    for size in reversed(found["factor_sizes"]):
        if row * size > _ROW:
            break
        row *= size
    yield Sheet(
        "region_means",
        "Means of the regions",
        "The decoded mean of each region, in row-major order of the factors: one "
        "combination of factors, with everything else at its average.",
        in_rows(arrays["region_means"], row if row > 1 else _ROW),
    )
    strips = arrays["relation_strips"]
    # Short strips of one relation stand side by side.
    each = strips.reshape(len(names), -1, *strips.shape[1:])
    width = 3 if strips.shape[1] <= 3 else 1
    yield Sheet(
        "relations",
        "Relations on test images",
        "A test image, its reconstruction, operator and second operand where the "
        "relation has them, and the decoded result of the relational learner.",
        np.concatenate([each[:, n] for n in range(width)], axis=1),
        names,
    )
    yield Sheet(
        "relation_chains",
        "Three relations, one after the other",
        "A test image, its reconstruction, then each relation applied to the code that "
        "the previous one returned, decoded.",
        arrays["chain_strips"],
        [
            ", ".join(names[relation] for relation in chain)
            for chain in arrays["chains"]
        ],
    )
