"""Training steps of `conv64` and `sae-12`: plain Flax, ours and PyTorch.

Run with ``python -m tests.benchmarks models`` (PyTorch: the extra ``bench``). All
variants run the same step on the same machine with two threads: forward, loss,
backward, Adam. Each runs in its own process with the usual settings: ours as in
`disentangle_jax.main`, with `models.compiler_options` and `training.keep_freed_memory`;
Flax and PyTorch with their defaults. "PyTorch, memory kept" also has the second of
these, to show its effect there. Repeats are interleaved, one process at a time, so that
other load affects all of them. The results are medians in milliseconds.
"""

import functools
import multiprocessing
import os
import time

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

from disentangle_jax import models, training

REPEATS = 9
IMAGE = (64, 64, 3)


# --- plain Flax -----------------------------------------------------------------------


class FlaxConv64(nn.Module):
    """The study's network, written with flax.linen's own layers."""

    def setup(self):
        glorot = nn.initializers.glorot_uniform()
        conv = functools.partial(nn.Conv, strides=2, kernel_init=glorot)
        deconv = functools.partial(
            nn.ConvTranspose, kernel_size=(4, 4), strides=(2, 2), kernel_init=glorot
        )
        dense = functools.partial(nn.Dense, kernel_init=glorot)
        self.convs = [conv(32, (4, 4)), conv(32, (4, 4)), conv(64, (2, 2))] + [
            conv(64, (2, 2))
        ]
        self.hidden, self.heads = dense(256), dense(20)
        self.dense_1, self.dense_2 = dense(256), dense(1024)
        self.deconvs = [deconv(64), deconv(32), deconv(32), deconv(3)]

    def encode(self, x):
        for conv in self.convs:
            x = nn.relu(conv(x))
        x = nn.relu(self.hidden(x.reshape(x.shape[0], -1)))
        return jnp.split(self.heads(x), 2, axis=-1)

    def decode(self, z):
        x = nn.relu(self.dense_2(nn.relu(self.dense_1(z))))
        x = x.reshape(-1, 4, 4, 64)
        for deconv in self.deconvs[:-1]:
            x = nn.relu(deconv(x))
        return self.deconvs[-1](x)

    def __call__(self, x):
        return self.decode(self.encode(x)[0])


class FlaxBlock(nn.Module):
    """A block of the backbone, written with flax.linen's own layers."""

    features: int
    kernel: int = 3
    pool: bool = False
    up: bool = False
    last: bool = False

    @nn.compact
    def __call__(self, x):
        if self.up:
            b, h, w, c = x.shape
            x = jax.image.resize(x, (b, 2 * h, 2 * w, c), "bilinear")
        x = nn.Conv(self.features, (self.kernel, self.kernel))(x)
        if self.pool:
            x = nn.max_pool(x, (2, 2), (2, 2))
        if self.last:
            return x
        x = nn.GroupNorm(num_groups=8, epsilon=1e-5)(x)
        return x * jnp.tanh(nn.softplus(x))


class FlaxSae12(nn.Module):
    """SAE-12, written with flax.linen's own layers."""

    @nn.compact
    def __call__(self, x):
        mish = lambda v: v * jnp.tanh(nn.softplus(v))  # noqa: E731
        for i in range(1, 13):
            x = FlaxBlock(64, 5 if i == 1 else 3, pool=i in (1, 4, 7, 10, 12))(x)
        x = mish(nn.Dense(256)(x.reshape(x.shape[0], -1)))
        z = nn.Dense(12)(mish(nn.Dense(128)(x)))
        constant = self.param("constant", nn.initializers.normal(1.0), (2, 2, 64))
        x = jnp.broadcast_to(constant, (z.shape[0], 2, 2, 64))
        for i in range(1, 13):
            u = mish(nn.Dense(64)(z[:, i - 1 : i]))
            u = nn.Dense(128)(mish(nn.Dense(128)(u)))
            shift, log_scale = jnp.split(u[:, None, None, :], 2, axis=-1)
            x = jnp.exp(log_scale) * x + shift
            x = FlaxBlock(
                3 if i == 12 else 64, up=i in (2, 4, 7, 10, 12), last=i == 12
            )(x)
        return x


# --- the step -------------------------------------------------------------------------


def vae_loss(x, logits, mean, log_var):
    rec = optax.sigmoid_binary_cross_entropy(logits, x).sum((1, 2, 3))
    kl = 0.5 * (jnp.square(mean) + jnp.exp(log_var) - log_var - 1).sum(-1)
    return (rec + kl).mean()


def conv64_loss(module):
    def loss(params, x, key):
        posterior = module.apply({"params": params}, x, method="encode")
        mean, log_var = posterior[0], posterior[1]
        noise = jax.random.normal(key, mean.shape)
        z = mean + jnp.exp(0.5 * log_var) * noise
        logits = module.apply({"params": params}, z, method="decode")
        return vae_loss(x, logits, mean, log_var)

    return loss


def sae_loss(module):
    def loss(params, x, key):
        del key
        logits = module.apply({"params": params}, x)
        return optax.sigmoid_binary_cross_entropy(logits, x).sum((1, 2, 3)).mean()

    return loss


def jax_step(module, loss, batch: int, options: dict[str, str]):
    """Returns a function that runs one step and waits for it."""
    x = jnp.asarray(images(batch))
    params = module.init(jax.random.key(0), x[:1])["params"]
    optimizer = optax.adam(1e-4)
    state = (params, optimizer.init(params))

    @functools.partial(jax.jit, donate_argnums=0, compiler_options=options)
    def step(state, x, key):
        params, opt_state = state
        value, grads = jax.value_and_grad(loss)(params, x, key)
        updates, opt_state = optimizer.update(grads, opt_state)
        return (optax.apply_updates(params, updates), opt_state), value

    def run():
        nonlocal state
        state, value = step(state, x, jax.random.key(1))
        return value.block_until_ready()

    return run


def images(batch: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.random((batch, *IMAGE), np.float32)


# --- PyTorch --------------------------------------------------------------------------


def torch_step(network: str, batch: int, channels_last: bool):
    """Returns a function that runs PyTorch's step."""
    import torch
    from torch import nn as tnn
    from torch.nn import functional as tf

    torch.set_num_threads(2)
    torch.manual_seed(0)

    class Conv64(tnn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = tnn.Sequential(
                *(tnn.Conv2d(3, 32, 4, 2, 1), tnn.ReLU()),
                *(tnn.Conv2d(32, 32, 4, 2, 1), tnn.ReLU()),
                *(tnn.Conv2d(32, 64, 2, 2), tnn.ReLU()),
                *(tnn.Conv2d(64, 64, 2, 2), tnn.ReLU()),
                *(tnn.Flatten(), tnn.Linear(1024, 256), tnn.ReLU()),
                tnn.Linear(256, 20),
            )
            self.decoder = tnn.Sequential(
                *(tnn.Linear(10, 256), tnn.ReLU()),
                *(tnn.Linear(256, 1024), tnn.ReLU(), tnn.Unflatten(1, (64, 4, 4))),
                *(tnn.ConvTranspose2d(64, 64, 4, 2, 1), tnn.ReLU()),
                *(tnn.ConvTranspose2d(64, 32, 4, 2, 1), tnn.ReLU()),
                *(tnn.ConvTranspose2d(32, 32, 4, 2, 1), tnn.ReLU()),
                tnn.ConvTranspose2d(32, 3, 4, 2, 1),
            )

        def forward(self, x):
            mean, log_var = self.encoder(x).chunk(2, 1)
            z = mean + torch.exp(0.5 * log_var) * torch.randn_like(mean)
            rec = tf.binary_cross_entropy_with_logits(
                self.decoder(z), x, reduction="sum"
            )
            kl = 0.5 * (mean**2 + log_var.exp() - log_var - 1).sum()
            return (rec + kl) / x.shape[0]

    class Block(tnn.Module):
        def __init__(self, channels, features, kernel, pool, up, last):
            super().__init__()
            self.conv = tnn.Conv2d(channels, features, kernel, padding=kernel // 2)
            self.norm = None if last else tnn.GroupNorm(8, features)
            self.pool, self.up = pool, up

        def forward(self, x):
            if self.up:
                x = tf.interpolate(
                    x, scale_factor=2, mode="bilinear", align_corners=False
                )
            x = self.conv(x)
            if self.pool:
                x = tf.max_pool2d(x, 2)
            return x if self.norm is None else tf.mish(self.norm(x))

    def mlp(*widths):
        layers = []
        for a, b in zip(widths[:-1], widths[1:]):
            layers += [tnn.Linear(a, b), tnn.Mish()]
        return tnn.Sequential(*layers[:-1])

    class Sae12(tnn.Module):
        def __init__(self):
            super().__init__()
            pools, ups = (1, 4, 7, 10, 12), (2, 4, 7, 10, 12)
            self.encoder = tnn.Sequential(
                *(
                    Block(3 if i == 1 else 64, 64, 5 if i == 1 else 3, i in pools, 0, 0)
                    for i in range(1, 13)
                ),
                tnn.Flatten(),
                mlp(256, 256, 128, 12),
            )
            self.constant = tnn.Parameter(torch.randn(1, 64, 2, 2))
            self.mlps = tnn.ModuleList(mlp(1, 64, 128, 128) for _ in range(12))
            self.blocks = tnn.ModuleList(
                Block(64, 3 if i == 12 else 64, 3, False, i in ups, i == 12)
                for i in range(1, 13)
            )

        def forward(self, image):
            z = self.encoder(image)
            x = self.constant.expand(z.shape[0], -1, -1, -1)
            for i, (transform, block) in enumerate(zip(self.mlps, self.blocks)):
                shift, log_scale = transform(z[:, i : i + 1]).chunk(2, 1)
                x = block(log_scale.exp()[..., None, None] * x + shift[..., None, None])
            loss = tf.binary_cross_entropy_with_logits(x, image, reduction="sum")
            return loss / image.shape[0]

    modules = {"conv64": Conv64, "sae-12": Sae12}
    module = modules[network]()
    x = torch.from_numpy(images(batch)).permute(0, 3, 1, 2).contiguous()
    if channels_last:
        module = module.to(memory_format=torch.channels_last)
        x = x.to(memory_format=torch.channels_last)
    optimizer = torch.optim.Adam(module.parameters(), 1e-4, fused=True)

    def run():
        optimizer.zero_grad(set_to_none=True)
        loss = module(x)
        loss.backward()
        optimizer.step()
        return loss.item()

    return run


# --- timing ---------------------------------------------------------------------------

VARIANTS = (
    "flax",
    "ours",
    "pytorch",
    "pytorch channels_last",
    "pytorch channels_last, memory kept",
)


def make_step(network: str, variant: str, batch: int):
    """Returns a function that runs one step of `network` in a variant."""
    if variant == "ours" or variant.endswith("memory kept"):
        training.keep_freed_memory()
    if variant.startswith("pytorch"):
        return torch_step(network, batch, "channels_last" in variant)
    if variant == "flax":
        module, options = {"conv64": FlaxConv64, "sae-12": FlaxSae12}[network](), {}
    else:
        module, options = models.create(network, IMAGE), models.compiler_options()
    loss = {"conv64": conv64_loss, "sae-12": sae_loss}[network](module)
    return jax_step(module, loss, batch, options)


def _serve(connection, network: str, variant: str, batch: int) -> None:
    """Runs a step for every message, and answers with its milliseconds."""
    try:
        step = make_step(network, variant, batch)
    except ImportError:
        connection.send(None)
        return
    for _ in range(3):
        step()
    connection.send(0.0)
    while connection.recv():
        start = time.perf_counter()
        step()
        connection.send(1e3 * (time.perf_counter() - start))


def measure(network: str, batch: int, repeats: int) -> dict[str, np.ndarray]:
    """Returns the milliseconds of each repeat of each installed variant."""
    context = multiprocessing.get_context("spawn")
    servers, times = {}, {}
    for variant in VARIANTS:
        here, there = context.Pipe()
        arguments = (there, network, variant, batch)
        process = context.Process(target=_serve, args=arguments, daemon=True)
        process.start()
        if here.recv() is None:
            continue
        servers[variant], times[variant] = here, []
    for _ in range(repeats):
        for variant, server in servers.items():
            time.sleep(0.05)  # Threads of the last process may still be spinning.
            server.send(True)
            times[variant].append(server.recv())
    for server in servers.values():
        server.send(False)
    return {variant: np.array(values) for variant, values in times.items()}


def run(
    *, repeats: int = REPEATS, batch_conv64: int = 64, batch_sae: int = 16
) -> dict[str, float | list[float]]:
    """Returns median milliseconds of a training step, and ratios to ours.

    Each ratio comes with the quartiles over the repeats. PyTorch's rows are absent if
    it is not installed.
    """
    results = {"cores": os.cpu_count(), "jax": jax.__version__}
    for network, batch in (("conv64", batch_conv64), ("sae-12", batch_sae)):
        times = measure(network, batch, repeats)
        medians = {name: float(np.median(t)) for name, t in times.items()}
        results |= {f"{network}, {name} (ms)": t for name, t in medians.items()}
        default = [n for n in ("pytorch", "pytorch channels_last") if n in medians]
        others = {"flax": "flax"}
        if default:
            others["best pytorch"] = min(default, key=medians.get)
            others["pytorch, memory kept"] = VARIANTS[-1]
        for label, name in others.items():
            ratios = times[name] / times["ours"]
            results[f"{network}, {label} / ours"] = medians[name] / medians["ours"]
            quartiles = np.quantile(ratios, (0.25, 0.75)).tolist()
            results[f"{network}, {label} / ours, quartiles"] = quartiles
    return results
