"""Training methods: each binds networks, an objective and the update of one step.

Synopsis::

    model = models.create("sae-12", (64, 64, 3))
    method = methods.create("ae", model, optax.scale_by_adam())
    state = method.init(jax.random.key(0), batch)
    state, terms = jax.jit(method.step)(key, state, batch, hyper)

A :class:`Method` is small data. Those that differ only in their objective share one
step (:func:`one_objective`); only another procedure earns a step of its own.
"""

from disentangle_jax.methods._method import Method as Method
from disentangle_jax.methods._method import as_unit_interval as as_unit_interval
from disentangle_jax.methods._one_objective import one_objective as one_objective
from disentangle_jax.methods._registry import create as create
from disentangle_jax.methods._registry import hyperparameters as hyperparameters
from disentangle_jax.methods._registry import names as names
