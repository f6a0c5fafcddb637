"""Datasets, tf.data pipelines, renderers and samplers.

The only package that imports TensorFlow, and only to stream batches::

    shapes = data.load("rendered_shapes3d")  # draws from its train split
    images = shapes.images(shapes.index_of([[0, 6, 3, 7, 3, 14]]))
    for batch in data.pipeline(shapes, batch_size=128, seed=0, num_steps=100):
        ...
"""

from disentangle_jax.data.catalogue import DatasetDescription as DatasetDescription
from disentangle_jax.data.catalogue import TfdsLayout as TfdsLayout
from disentangle_jax.data.catalogue import define as define
from disentangle_jax.data.catalogue import describe as describe
from disentangle_jax.data.catalogue import names as names
from disentangle_jax.data.dataset import Dataset as Dataset
from disentangle_jax.data.dataset import Sample as Sample
from disentangle_jax.data.device import device_bytes as device_bytes
from disentangle_jax.data.device import device_sampler as device_sampler
from disentangle_jax.data.inputs import ImagePairs as ImagePairs
from disentangle_jax.data.inputs import Images as Images
from disentangle_jax.data.inputs import Input as Input
from disentangle_jax.data.inputs import LabelledImages as LabelledImages
from disentangle_jax.data.inputs import WordCounts as WordCounts
from disentangle_jax.data.loading import load as load
from disentangle_jax.data.moments import channel_moments as channel_moments
from disentangle_jax.data.own_arrays import as_dataset as as_dataset
from disentangle_jax.data.own_arrays import from_arrays as from_arrays
from disentangle_jax.data.pairing import Pairs as Pairs
from disentangle_jax.data.pairing import next_factors as next_factors
from disentangle_jax.data.pairing import pair_factors as pair_factors
from disentangle_jax.data.pixels import as_bytes as as_bytes
from disentangle_jax.data.publisher_files import UnreadableImage as UnreadableImage
from disentangle_jax.data.relation_tables import Relation as Relation
from disentangle_jax.data.relation_tables import RelationTable as RelationTable
from disentangle_jax.data.relation_tables import add_relations as add_relations
from disentangle_jax.data.relation_tables import follow as follow
from disentangle_jax.data.relation_tables import random_chains as random_chains
from disentangle_jax.data.relation_tables import relation_table as relation_table
from disentangle_jax.data.relation_tables import relations as relations
from disentangle_jax.data.resizing import resize as resize
from disentangle_jax.data.samplers import bernoulli_noise as bernoulli_noise
from disentangle_jax.data.samplers import class_balanced as class_balanced
from disentangle_jax.data.samplers import gaussian_noise as gaussian_noise
from disentangle_jax.data.samplers import (
    intervention_indices as intervention_indices,
)
from disentangle_jax.data.samplers import labelled_images as labelled_images
from disentangle_jax.data.samplers import labelled_subset as labelled_subset
from disentangle_jax.data.samplers import with_noisy_copies as with_noisy_copies
from disentangle_jax.data.splits import split_indices as split_indices
from disentangle_jax.data.streaming import pipeline as pipeline
from disentangle_jax.data.text import Corpus as Corpus
from disentangle_jax.data.text import count_words as count_words
