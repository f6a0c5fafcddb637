"""A model made of arithmetic, for evaluators: nothing is trained."""

import types

import jax
import numpy as np

from disentangle_jax import sampling
from disentangle_jax.evaluation import Trained

SHAPE = (4, 5, 3)
WEIGHTS = np.linspace(-1.0, 1.0, 3 * 60).reshape(3, 60)


@jax.jit
def decode_logits(codes):
    return jax.nn.sigmoid(codes @ WEIGHTS.astype(np.float32)).reshape(-1, *SHAPE)


def decode(codes):
    return np.asarray(decode_logits(codes) * 255.0 + 0.5).astype(np.uint8)


def run(groups, *, discrete=(), **method):
    """Returns what an evaluator needs of a run."""
    dims = sum(groups)
    images = np.zeros((2, *SHAPE), np.uint8)
    dataset = types.SimpleNamespace(
        images=lambda indices: np.resize(images, (len(indices), *SHAPE)),
        factor_sizes=(),
        indices=np.arange(30),
    )
    settings = types.SimpleNamespace(
        seed=0, batch_size=4, fid_weights="", num_train=20, num_test=10, hybrid_bank=4,
        scores=(), interventions="codes", hybrid_parts="variables",
    )  # fmt: skip
    return types.SimpleNamespace(
        method=types.SimpleNamespace(
            latent_groups=groups,
            discrete=discrete,
            inputs=types.SimpleNamespace(observation="image"),
            prior=lambda key, state, n: sampling.prior(key, n, dims),
            latent_values=lambda state, codes, steps: sampling.min_max_values(
                jax.numpy.asarray(codes), steps=steps
            ),
            **method,
        ),
        config=types.SimpleNamespace(eval=settings),
        train_set=dataset,
        test_set=dataset,
    )


def model(run, decode=decode):
    networks = types.SimpleNamespace(decode=lambda _, codes: decode(codes))
    return Trained(run, None, networks)
