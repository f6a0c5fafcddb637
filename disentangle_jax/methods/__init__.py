"""Training methods: each binds networks, an objective and the update of one step.

Synopsis::

    model = models.create("conv64", (64, 64, 1))
    method = methods.create("beta_vae", model, optax.scale_by_adam())
    state = method.init(jax.random.key(0), batch)
    hyper = {"beta": 4.0, "learning_rate": 1e-4}
    state, terms = jax.jit(method.step)(key, state, batch, hyper)

A :class:`Method` is small data. Methods that differ only in their objective share one
step (:func:`one_objective`); those whose loss needs other inputs supply that loss to
the same step (:func:`gradient_method`); only another procedure, such as FactorVAE's
critic, has a step of its own.
"""

from disentangle_jax.methods._method import Method as Method
from disentangle_jax.methods._method import Networks as Networks
from disentangle_jax.methods._method import Regions as Regions
from disentangle_jax.methods._method import as_unit_interval as as_unit_interval
from disentangle_jax.methods._method import gradient_method as gradient_method
from disentangle_jax.methods._one_objective import one_objective as one_objective
from disentangle_jax.methods._registry import create as create
from disentangle_jax.methods._registry import hyperparameters as hyperparameters
from disentangle_jax.methods._registry import names as names
from disentangle_jax.methods._registry import options as options
from disentangle_jax.methods._standardized import standardized as standardized
from disentangle_jax.methods._topics import TopicModel as TopicModel
