"""Scores codes that any library computed, and compares two models on the same images.

Command::

    python configs/examples/compare_codes.py [FOLDER]

The codes are made here: those of one model have a latent per factor, those of the other
are the same codes, rotated. Replace :func:`make` by your own arrays, of NumPy, JAX or
torch. With a folder, the codes are also written to it, and the table as CSV. It takes a
few seconds. The same from the shell::

    disentangle score aligned.npz rotated.npz --intervals --csv=scores.csv
"""

import csv
import pathlib
import sys

import numpy as np

from disentangle_jax import metrics

SCORES = ("mig", "dci", "sap", "mcc")


def make(count: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Returns codes ``[N, 3]`` by the name of their model, and factors ``[N, 3]``."""
    rng = np.random.default_rng(0)
    factors = rng.integers(5, size=(count, 3))
    aligned = factors + 0.2 * rng.normal(size=factors.shape)
    rotation = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    return {"aligned": aligned, "rotated": aligned @ rotation}, factors


def main(folder: str = "", count: int = 2000) -> metrics.Comparison:
    """Runs the example; returns the scores of both models."""
    codes, factors = make(count)

    # One model: a table, and each score with the settings that it was computed by.
    scores = metrics.evaluate(codes["aligned"], factors, scores=SCORES)
    print(scores)
    print("settings of dci:", scores["dci"].settings)

    # Two models: the bootstrap is paired, as both encode the same images.
    both = metrics.compare(codes, factors, scores=SCORES)
    print(both)
    for row in both.differences():
        sure = "" if row["low"] <= 0 <= row["high"] else "  (0 is not in the interval)"
        print(
            f"{row['score']}.{row['key']}: {row['first']} − {row['second']} = "
            f"{row['difference']:.3f} [{row['low']:.3f}, {row['high']:.3f}]{sure}"
        )

    if folder:
        place = pathlib.Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        for model, found in codes.items():
            np.savez(place / f"{model}.npz", codes=found, factors=factors)
        rows = both.to_rows()
        with (place / "scores.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    return both


if __name__ == "__main__":
    main(*sys.argv[1:])
