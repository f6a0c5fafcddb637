"""Encoders, decoders and critics of every paper, as flax.linen modules.

Encoders return a `types.Posterior`, decoders return logits; sampling is the caller's.
"""

from disentangle_jax.models._absae import PriorDiscriminator as PriorDiscriminator
from disentangle_jax.models._absae import RelationNetwork as RelationNetwork
from disentangle_jax.models._compilation import compiler_options as compiler_options
from disentangle_jax.models._registry import create as create
from disentangle_jax.models._registry import names as names
from disentangle_jax.models._registry import parameter_count as parameter_count
from disentangle_jax.models._study import FactorCritic as FactorCritic
from disentangle_jax.models._summary import summary as summary
