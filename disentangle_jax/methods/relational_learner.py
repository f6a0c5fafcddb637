"""ReL, the relational learner of AbsAE: relations as moves between regions."""

import dataclasses
import functools
from typing import cast

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from disentangle_jax import data, distributions, losses, models


@dataclasses.dataclass(frozen=True, eq=False)
class RelationalLearner:
    """A network that maps codes of operands and a relation to codes of the results.

    ``prior`` is the mixture of Gaussians whose components are the regions: ``means``
    ``[C, D]``, ``covariances`` ``[C, D, D]`` and ``present`` ``[C]``.

    Attributes:
      table: the combination that each relation leads to.
      latents: number of latent dimensions D.
      form: ``"nll"`` or ``"mse"``; see :func:`losses.relation_loss`.
      batch: examples of each relation per step.
      width: units in each layer of the network.
      depth: its number of hidden layers.
    """

    table: data.RelationTable
    latents: int
    form: str
    batch: int
    width: int
    depth: int

    @property
    def _network(self) -> nn.Module:
        outputs = self.table.outputs * self.latents
        return models.RelationNetwork(
            latent_dim=outputs, width=self.width, depth=self.depth
        )

    @functools.cached_property
    def _defined(self) -> tuple[np.ndarray, np.ndarray]:
        """Operands of each relation ``[R, M, arity]``, padded, and their number."""
        operands = self.table.operands()
        counts = np.array([len(own) for own in operands], np.int32)
        padded = np.zeros((len(operands), counts.max(), self.table.arity), np.int32)
        for number, own in enumerate(operands):
            padded[number, : len(own)] = own
        return padded, counts

    def init(self, key: jax.Array) -> dict:
        """Returns the parameters of the network."""
        table, latents = self.table, self.latents
        symbols = len(table.names) if table.operators is None else latents
        inputs = jnp.zeros((1, table.arity * latents + symbols))
        return self._network.init(key, inputs)["params"]

    def symbol(self, key: jax.Array, prior: dict, relation: jax.Array) -> jax.Array:
        """Returns vectors ``[N, S]`` that denote the relations ``[N]``.

        They are one-hot, or codes drawn from the regions of the relations' operators.
        """
        if self.table.operators is None:
            return jax.nn.one_hot(relation, len(self.table.names))
        return _draw(key, prior, jnp.asarray(self.table.operators)[relation])

    def relate(
        self, params: dict, symbol: jax.Array, *operands: jax.Array
    ) -> jax.Array:
        """Returns codes ``[N, O, D]`` of the results for ``operands [N, D]``."""
        inputs = jnp.concatenate([*operands, symbol], axis=1)
        found = cast(jax.Array, self._network.apply({"params": params}, inputs))
        return found.reshape(-1, self.table.outputs, self.latents)

    def examples(
        self, key: jax.Array, count: int
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Draws `count` examples of each relation, uniformly where it is defined.

        Returns:
          Relations ``[N]``, operands ``[N, arity]`` and targets ``[N, O]``.
        """
        padded, counts = self._defined
        relation = jnp.repeat(jnp.arange(len(counts)), count)
        place = jax.random.randint(
            key, relation.shape, 0, jnp.asarray(counts)[relation]
        )
        operands = jnp.asarray(padded)[relation, place]
        targets = np.maximum(self.table.targets, 0)
        return relation, operands, jnp.asarray(targets)[(relation, *operands.T)]

    def loss(self, params: dict, key: jax.Array, prior: dict) -> jax.Array:
        """Returns the mean error of examples whose regions are all present (Eq. 8)."""
        which, where, operator, target = jax.random.split(key, 4)
        relation, operands, targets = self.examples(which, self.batch)
        codes = _draw(where, prior, operands.ravel()).reshape(len(operands), -1)
        symbol = self.symbol(operator, prior, relation)
        drawn = _draw(target, prior, targets.ravel())
        present = prior["present"]
        counted = present[operands].all(axis=1) & present[targets].all(axis=1)
        if self.table.operators is not None:
            counted &= present[jnp.asarray(self.table.operators)[relation]]
        each = losses.relation_loss(
            self.relate(params, symbol, codes).reshape(-1, self.latents),
            targets.ravel() if self.form == "nll" else drawn,
            form=self.form,
            means=prior["means"],
            covariances=prior["covariances"],
        ).reshape(targets.shape)
        each = jnp.where(counted[:, None], each, 0.0)
        return each.sum() / jnp.maximum(counted.sum() * self.table.outputs, 1)


def _draw(key: jax.Array, prior: dict, component: jax.Array) -> jax.Array:
    return distributions.gaussian_component_sample(
        key, component, prior["means"], prior["covariances"]
    )
