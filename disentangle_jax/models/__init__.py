"""Encoders, decoders and critics of every paper, as flax.linen modules.

Encoders return a `types.Posterior` and decoders return logits. The caller samples.
"""

from disentangle_jax.models.compilation import compiler_options as compiler_options
from disentangle_jax.models.critics import FactorCritic as FactorCritic
from disentangle_jax.models.critics import PriorDiscriminator as PriorDiscriminator
from disentangle_jax.models.critics import RelationNetwork as RelationNetwork
from disentangle_jax.models.definitions import ModelDescription as ModelDescription
from disentangle_jax.models.definitions import create as create
from disentangle_jax.models.definitions import define as define
from disentangle_jax.models.definitions import describe as describe
from disentangle_jax.models.definitions import names as names
from disentangle_jax.models.definitions import parameter_count as parameter_count
from disentangle_jax.models.layer_table import summary as summary
from disentangle_jax.models.network import Network as Network
