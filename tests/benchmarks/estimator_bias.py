"""Bias of the estimators of the aggregate posterior against the batch size.

Draws ``disentangle_jax/losses/estimator_bias.png`` and prints its table::

    python -m tests.benchmarks.estimator_bias

N = 2,000 Gaussian posteriors in 4 dimensions have a known aggregate: a mixture of 2,000
components. For each batch size, batches are drawn without replacement, and every
estimator is averaged over at least 40,000 codes. Its bias is that mean minus the exact
value at the same codes, so that the noise of the codes cancels.
"""

import functools
import pathlib

import jax
import jax.numpy as jnp
import numpy as np

import disentangle_jax
from disentangle_jax import losses, sampling

SIZE, DIMS = 2_000, 4
BATCHES = (16, 32, 64, 128, 256, 512, 1_000, 2_000)
CODES = 40_000
ESTIMATORS = ("stratified", "mss", "mws", "naive")
QUANTITIES = ("log q(z)", "total correlation")
FIGURE = pathlib.Path(disentangle_jax.__file__).parent / "losses" / "estimator_bias.png"


def posteriors(key: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Returns correlated means of unit variance and deviations of about 0.2.

    The mutual information is about 7 nats.
    """
    first, second, third = jax.random.split(key, 3)
    mixing = jnp.eye(DIMS) + 0.4 * jax.random.normal(first, (DIMS, DIMS))
    mean = jax.random.normal(second, (SIZE, DIMS)) @ mixing
    mean = mean / mean.std(axis=0)
    log_var = 2 * jnp.log(0.2) + 0.5 * jax.random.normal(third, (SIZE, DIMS))
    return mean, log_var


def quantities(densities: dict[str, jax.Array]) -> jax.Array:
    """Returns ``[2, B]``: joint log-density and total correlation at each code."""
    joint = densities["log_qz"]
    return jnp.stack([joint, joint - densities["log_qz_dims"].sum(axis=1)])


def exact(z: jax.Array, mean: jax.Array, log_var: jax.Array) -> jax.Array:
    """Returns the same under the mixture of all posteriors, without the library."""

    def one(z: jax.Array) -> jax.Array:
        offset = (z[None] - mean) * jnp.exp(-0.5 * log_var)
        log_density = -0.5 * (offset**2 + log_var + jnp.log(2 * jnp.pi))
        joint = jax.nn.logsumexp(log_density.sum(axis=1)) - jnp.log(float(SIZE))
        dims = jax.nn.logsumexp(log_density, axis=0) - jnp.log(float(SIZE))
        return jnp.stack([joint, joint - dims.sum()])

    return jax.lax.map(one, z, batch_size=16).T


@functools.partial(jax.jit, static_argnums=1)
def biases(key: jax.Array, batch: int, mean: jax.Array, log_var: jax.Array):
    """Returns ``[estimators, 2]`` errors of one batch, averaged over its codes."""
    pick, noise = jax.random.split(key)
    rows = jax.random.choice(pick, SIZE, (batch,), replace=False)
    z = sampling.reparameterize(noise, mean[rows], log_var[rows])
    truth = exact(z, mean, log_var)
    errors = []
    for estimator in ESTIMATORS:
        densities = losses.log_q_marginals(
            z,
            mean[rows],
            log_var[rows],
            dataset_size=SIZE,
            estimator=estimator,
            block_size=16,
        )
        errors.append((quantities(densities) - truth).mean(axis=1))
    return jnp.stack(errors)


def measure() -> dict[int, np.ndarray]:
    """Returns ``[batches, estimators, 2]`` errors by batch size."""
    mean, log_var = posteriors(jax.random.key(0))
    table = {}
    for batch in BATCHES:
        keys = jax.random.split(jax.random.key(batch), CODES // batch)
        run = jax.jit(lambda k, b=batch: biases(k, b, mean, log_var))
        table[batch] = np.asarray(jax.lax.map(run, keys), np.float64)
    return table


def summary(values: np.ndarray) -> str:
    """Returns the mean and its standard error as text."""
    error = values.std(ddof=1) / np.sqrt(len(values))
    return f"{values.mean():+.5f} ({error:.5f})"


def draw(table: dict[int, np.ndarray]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for column, axis in enumerate(axes):
        for row, estimator in enumerate(ESTIMATORS):
            bias = [abs(table[b][:, row, column].mean()) for b in BATCHES]
            style = {"linestyle": "--", "zorder": 3} if estimator == "mss" else {}
            axis.plot(BATCHES, bias, ".", label=estimator, **{"linestyle": "-"} | style)
        # The scale is linear near 0, where exact estimates lie.
        axis.set_yscale("symlog", linthresh=0.01)
        axis.set(xscale="log", ylim=(0, 60), xlabel="batch size B")
        axis.set_title(f"|bias| of {QUANTITIES[column]}, nats", fontsize=10)
        axis.grid(alpha=0.3)
    axes[0].legend(fontsize=8)
    figure.suptitle(
        f"Estimators of the aggregate posterior, N = {SIZE} Gaussian posteriors, "
        f"D = {DIMS}",
        fontsize=10,
    )
    figure.savefig(FIGURE, dpi=90)


def main() -> None:
    table = measure()
    heads = (*ESTIMATORS, "mss - stratified")
    for column, name in enumerate(QUANTITIES):
        print(f"bias of {name}, nats (standard error)")
        print("     B " + "".join(f"{head:>22}" for head in heads))
        for batch, values in table.items():
            errors = values[:, :, column]
            cells = [summary(errors[:, row]) for row in range(len(ESTIMATORS))]
            cells.append(summary(errors[:, 1] - errors[:, 0]))
            print(f"{batch:>6} " + "".join(f"{cell:>22}" for cell in cells))
    draw(table)
    print(f"wrote {FIGURE.name}: {FIGURE.stat().st_size} bytes")


if __name__ == "__main__":
    main()
