"""Datasets, tf.data pipelines, renderers and samplers.

The only room that imports TensorFlow, and only when something is streamed::

    shapes = data.load("rendered_shapes3d")  # draws from its train split
    images = shapes.images(shapes.index_of([[0, 6, 3, 7, 3, 14]]))
    for batch in data.pipeline(shapes, batch_size=128, seed=0, num_steps=100):
        ...
"""

from disentangle_jax.data._catalogue import CATALOGUE
from disentangle_jax.data._dataset import Dataset, Pairs, Sample
from disentangle_jax.data._device import device_bytes, device_sampler
from disentangle_jax.data._moments import CHANNEL_MOMENTS, channel_moments, standardize
from disentangle_jax.data._pairs import pair_factors
from disentangle_jax.data._pipeline import pipeline
from disentangle_jax.data._registry import load, names
from disentangle_jax.data._relations import (
    Relation,
    RelationTable,
    add_relations,
    follow,
    random_chains,
    relation_table,
    relations,
)
from disentangle_jax.data._resize import resize
from disentangle_jax.data._samplers import (
    bernoulli_noise,
    class_balanced,
    gaussian_noise,
    intervention_indices,
    labelled_images,
    labelled_subset,
    with_noisy_copies,
)
from disentangle_jax.data._splits import split_indices
from disentangle_jax.data._text import Corpus, count_words

__all__ = [
    "CATALOGUE",
    "CHANNEL_MOMENTS",
    "Corpus",
    "Dataset",
    "Pairs",
    "Relation",
    "RelationTable",
    "Sample",
    "add_relations",
    "bernoulli_noise",
    "channel_moments",
    "class_balanced",
    "count_words",
    "device_bytes",
    "device_sampler",
    "follow",
    "gaussian_noise",
    "intervention_indices",
    "labelled_images",
    "labelled_subset",
    "load",
    "names",
    "pair_factors",
    "pipeline",
    "random_chains",
    "relation_table",
    "relations",
    "resize",
    "split_indices",
    "standardize",
    "with_noisy_copies",
]
