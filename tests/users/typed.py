"""A user's typed code, which `mypy` accepts; pyproject.toml names what it checks."""

import jax
import numpy as np

from disentangle_jax import config, data, evaluation, losses, metrics, sampling


def loss(key: jax.Array, x: jax.Array, mean: jax.Array, log_var: jax.Array) -> float:
    z = sampling.reparameterize(key, mean, log_var)
    value, terms = losses.beta_tc_vae(
        x, x, z, mean, log_var, beta=6.0, dataset_size=60_000
    )
    other, _ = losses.dip_vae(
        x, x, z, mean, log_var, kind="ii", lambda_od=1.0, lambda_d=10.0
    )
    hierarchical, _ = losses.hfvae(
        x, x, z, mean, log_var, beta=4.0, gamma=3.0, groups=(1, 2), dataset_size=100
    )
    kl: jax.Array = terms["total_correlation"]
    return float(value + other + hierarchical + kl)


def scores(codes: np.ndarray, factors: np.ndarray) -> float:
    found = metrics.evaluate(codes, factors, options={"mig": {"bins": 40}})
    single: metrics.Score = metrics.dci(codes, factors, estimator="forest")
    both = metrics.compare({"a": codes, "b": codes}, factors, scores=("mig",))
    rows: list[dict[str, object]] = found.to_rows() + both.differences()
    return float(found["mig"]) + single["disentanglement"] + len(rows)


def train(folder: str, images: np.ndarray) -> np.ndarray:
    settings = config.load("beta_vae:quick", ["--config.train.num_steps=10"])
    trained = evaluation.fit(settings, folder, dataset=data.from_arrays("a", images))
    return trained.sample(4)


def model(folder: str, images: np.ndarray, factors: np.ndarray) -> np.ndarray:
    mine = data.from_arrays("mine", images, factors, factor_names=("x", "y"))
    trained = evaluation.load(folder)
    codes: np.ndarray = trained.encode(mine.images(np.arange(2)))
    print(trained.card)
    return trained.traverse(codes[0], codes, steps=5)


@data.define(factors={"x": 4, "y": 8}, image_shape=(8, 8, 1), size="32")
def squares(*, data_dir: str | None = None, split: str = "train") -> data.Dataset:
    images = np.zeros((32, 8, 8, 1), np.uint8)
    dataset = squares.description.dataset(lambda indices: images[indices])
    return dataset.keep(x=[0, 1]).split(split)


@metrics.define(keys={"spread": "distance between codes"}, range=(0.0, np.inf))
def spread(
    codes: np.ndarray, factors: np.ndarray, *, seed: int = 0, **_: object
) -> metrics.Score:
    return metrics.Score({"spread": codes.std(axis=0).mean()}, {"seed": seed})


def pairs(key: jax.Array) -> tuple[int, np.ndarray]:
    first, second, *_, changed = squares(split="test").sample_pairs(key, 4, k=1)
    return len(first) + len(second), changed
