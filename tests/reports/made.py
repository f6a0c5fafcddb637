"""Folders of evaluated runs made of arithmetic: nothing is trained."""

import numpy as np

from disentangle_jax import files
from disentangle_jax.training.logging import MetricsWriter

IMAGE = (6, 5, 3)


EVALUATORS = ("codes", "reconstruction", "generation")


def scores(
    model="sae-3",
    seed=0,
    *,
    mig=0.5,
    bce=100.0,
    fid=None,
    groups=(1, 2),
    evaluators=EVALUATORS,
    dataset="made",
    **method,
):
    made = {
        "evaluators": list(evaluators),
        "reconstruction": {"mse": 0.01, "bce": bce, "mse_of_mean_image": 0.1},
        "metrics": {
            "mig": {
                "values": {"mig": mig},
                "settings": {"constant_factors_left_out": [1]},
                "matrices": {"mi": [[1.0, 0.0]] * len(groups)},
            },
            "dci": {
                "values": {"disentanglement": 0.25, "informativeness_train": 1.0},
                "settings": {},
                "matrices": {"importance": [[0.5, 0.2, 0.1]] * sum(groups)},
            },
        },
        "errors": {"sap": "one <class>"},
        "settings": {
            "split": "test",
            "num_train": 20,
            "num_test": 10,
            "codes": "mean",
            "step": 7,
            "seed": seed,
            "factors": ["hue", "size", "x<y"],
            "latent_groups": list(groups),
        },
        "config": {
            "model": {"name": model},
            "method": {"name": "<b>&ae", **method},
            "data": {"name": dataset, "seed": seed},
            "train": {"seed": seed, "num_steps": 7},
            "eval": {"seed": 0, "scores": ["mig", "dci"]},
        },
        "versions": {"jax": "1"},
        "device": {},
        "commit": "abc123",
        "time": "now",
    }
    if fid is not None:
        values = {"reconstruction": fid, "prior": 2 * fid, "hybrid": 3 * fid}
        made["metrics"]["fid"] = {
            "values": values,
            "settings": {"samples_a": 50},
            "matrices": {},
        }
    return made


def pictures(groups=(1, 2), *, shade=0):
    rng = np.random.default_rng(shade)

    def images(*shape):
        return rng.integers(0, 256, (*shape, *IMAGE), dtype=np.uint8)

    return {
        "originals": np.full((10, *IMAGE), 7, np.uint8),
        "reconstructions": images(10),
        "traversals": images(2, sum(groups), 4),
        "hybrids": images(20),
        "priors": images(20),
        "chunk_hybrids": images(len(groups), 3),
        "chunks": np.ones(len(groups), int),
    }


def run(folder, *, groups=(1, 2), shade=0, **more):
    """Writes an evaluated run and returns its folder."""
    folder.mkdir(parents=True)
    files.write_json(folder / "scores.json", scores(groups=groups, **more))
    np.savez(folder / "pictures.npz", **pictures(groups, shade=shade))
    writer = MetricsWriter(folder, start_step=0)
    writer.write(1, {"loss": 3.0})
    writer.write(2, {"loss": np.nan})
    return folder
