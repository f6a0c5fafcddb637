"""The images that a report draws, made by a trained model."""

import jax
import jax.numpy as jnp
import numpy as np

from disentangle_jax import sampling
from disentangle_jax.training.trained import Trained

_SAMPLES, _TRAVERSED, _TRAVERSAL_STEPS = 40, 2, 9
_CHUNKS, _CHUNK_SAMPLES = 4, 9


def pictures(
    model: Trained, originals: np.ndarray, codes: np.ndarray, bank: np.ndarray
) -> dict[str, np.ndarray]:
    """Returns uint8 images for the report.

    Args:
      model: the trained model.
      originals: ``[n, H, W, C]`` test images.
      codes: ``[N, D]`` codes of test images; the first n are those of `originals`.
      bank: ``[M, D]`` stored codes of training images.

    Returns:
      ``originals``, ``reconstructions`` ``[n, H, W, C]``; ``hybrids`` and ``priors``
      (codes from a standard normal) ``[m, H, W, C]``; ``traversals`` ``[t, D, steps,
      H, W, C]``, each latent from its smallest to its largest test code, in order;
      ``chunk_hybrids`` ``[chunks, 1 + s, H, W, C]``, the first reconstruction and what
      becomes of it when one chunk of its variables is hybridised ("Structure by
      Architecture", Fig. 6a); ``chunks`` ``[chunks]`` number of variables in each;
      ``latent_groups`` ``[G]``.
    """
    groups = model.run.method.latent_groups
    low, high = jnp.asarray(codes.min(axis=0)), jnp.asarray(codes.max(axis=0))
    walks = [
        sampling.traverse(jnp.asarray(code), low, high, steps=_TRAVERSAL_STEPS)
        for code in codes[:_TRAVERSED]
    ]
    key = jax.random.key(model.run.config.eval.seed)
    drawn = sampling.hybrid(key, jnp.asarray(bank), _SAMPLES, groups=groups)
    prior = jax.random.normal(jax.random.fold_in(key, 1), drawn.shape)
    chunks = np.array_split(np.arange(len(groups)), min(_CHUNKS, len(groups)))
    variable = np.repeat(np.arange(len(groups)), groups)
    changed = []
    for number, chunk in enumerate(chunks):
        key_of_chunk = jax.random.fold_in(key, 2 + number)
        mixed = sampling.hybrid(
            key_of_chunk, jnp.asarray(bank), _CHUNK_SAMPLES, groups=groups
        )
        mixed = np.where(np.isin(variable, chunk), mixed, codes[:1])
        changed.append(model.decode(np.concatenate([codes[:1], mixed])))
    return {
        "originals": originals,
        "reconstructions": model.decode(codes[: len(originals)]),
        "traversals": np.stack(
            [np.stack([model.decode(row) for row in walk]) for walk in walks]
        ),
        "hybrids": model.decode(drawn),
        "priors": model.decode(prior),
        "chunk_hybrids": np.stack(changed),
        "chunks": np.array([len(chunk) for chunk in chunks]),
        "latent_groups": np.asarray(groups),
    }
