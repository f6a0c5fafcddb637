"""Datasets, tf.data pipelines, renderers and samplers.

The only room that imports TensorFlow, and only when something is streamed.
"""

from disentangle_jax.data._dataset import Dataset, Pairs, Sample
from disentangle_jax.data._pairs import pair_factors
from disentangle_jax.data._pipeline import pipeline
from disentangle_jax.data._registry import load, names
from disentangle_jax.data._splits import split_indices

__all__ = [
    "Dataset",
    "Pairs",
    "Sample",
    "load",
    "names",
    "pair_factors",
    "pipeline",
    "split_indices",
]
