"""The images that a report draws, made by a trained model."""

import jax
import jax.numpy as jnp
import numpy as np

from disentangle_jax import sampling
from disentangle_jax.training.trained import Trained
from disentangle_jax.training.variables import variable_pictures

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
      H, W, C]``, each latent from its smallest to its largest test code, in order,
      and numbers of discrete variables from the code's own class to theirs;
      ``chunk_hybrids`` ``[chunks, 1 + s, H, W, C]``, the first reconstruction and what
      becomes of it when one chunk of its variables is hybridised ("Structure by
      Architecture", Fig. 6a); ``chunks`` ``[chunks]`` number of variables in each;
      ``latent_groups`` ``[G]``; and what :func:`variable_pictures` returns.
    """
    groups = model.run.method.latent_groups
    keys = jax.random.split(jax.random.key(model.run.config.eval.seed), 3)
    values = sampling.min_max_values(jnp.asarray(codes), steps=_TRAVERSAL_STEPS)
    walks = [
        sampling.traverse_values(
            jnp.asarray(code), values, discrete=model.run.method.discrete
        )
        for code in codes[:_TRAVERSED]
    ]
    bank = jnp.asarray(bank)
    chunks = min(_CHUNKS, len(groups))
    first = jnp.asarray(codes[0])
    changed = sampling.chunk_hybrids(
        keys[1], first, bank, _CHUNK_SAMPLES, groups=groups, chunks=chunks
    )
    unchanged = jnp.broadcast_to(first, (chunks, 1, len(first)))
    parts = np.array_split(np.arange(len(groups)), chunks)
    return {
        "originals": originals,
        "reconstructions": model.decode_all(codes[: len(originals)]),
        "traversals": model.decode_all(jnp.stack(walks)),
        "hybrids": model.decode_all(
            sampling.hybrid(keys[0], bank, _SAMPLES, groups=groups)
        ),
        "priors": model.decode_all(model.prior(keys[2], _SAMPLES)),
        "chunk_hybrids": model.decode_all(
            jnp.concatenate([unchanged, changed], axis=1)
        ),
        "chunks": np.array([len(part) for part in parts]),
        "latent_groups": np.asarray(groups),
        **variable_pictures(model, codes),
    }
