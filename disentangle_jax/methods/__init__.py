"""Training methods: networks, an objective and the update of one step.

Synopsis::

    model = models.create("conv64", (64, 64, 1))
    method = methods.create("beta_vae", model, optax.scale_by_adam())
    state = method.init(jax.random.key(0), batch)
    hyper = {"beta": 4.0, "learning_rate": 1e-4}
    state, terms = jax.jit(method.step)(key, state, batch, hyper)

A method is a :class:`Method`, described by :func:`define` in the module of its family.
Methods that differ only in their objective come from :func:`one_objective`. Others
with one loss derive from :class:`GradientMethod`. Only methods with several losses,
such as FactorVAE with its critic, have a step of their own.
"""

from disentangle_jax.methods.absae import AbsAE as AbsAE
from disentangle_jax.methods.absae_labelled import AbsAELabelled as AbsAELabelled
from disentangle_jax.methods.definition import Hyperparameter as Hyperparameter
from disentangle_jax.methods.definition import MethodDescription as MethodDescription
from disentangle_jax.methods.definition import create as create
from disentangle_jax.methods.definition import define as define
from disentangle_jax.methods.definition import describe as describe
from disentangle_jax.methods.definition import hyperparameters as hyperparameters
from disentangle_jax.methods.definition import names as names
from disentangle_jax.methods.definition import options as options
from disentangle_jax.methods.factor_vae import FactorVAE as FactorVAE
from disentangle_jax.methods.gradient import GradientMethod as GradientMethod
from disentangle_jax.methods.gradient import one_objective as one_objective
from disentangle_jax.methods.hfvae import HFVAE as HFVAE
from disentangle_jax.methods.method import Method as Method
from disentangle_jax.methods.method import Networks as Networks
from disentangle_jax.methods.method import as_unit_interval as as_unit_interval
from disentangle_jax.methods.standardized import Standardized as Standardized
from disentangle_jax.methods.topics import TopicModel as TopicModel
