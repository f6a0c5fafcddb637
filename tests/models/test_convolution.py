"""The platform's variants of a convolution agree in value and gradient."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from disentangle_jax.models import convolution, matrix_convolution

# (side, I, O, kernel, stride, padding): every kind of layer of the networks, with few
# channels; both many-to-few and few-to-many, because they divide the taps differently.
CONVOLUTIONS = {
    "backbone 5x5": (8, 3, 8, 5, 1, (2, 2)),
    "backbone 3x3": (8, 8, 8, 3, 1, (1, 1)),
    "backbone 3x3 at 2 px": (2, 8, 8, 3, 1, (1, 1)),
    "backbone 3x3 at 1 px": (1, 8, 8, 3, 1, (1, 1)),
    "backbone last": (8, 32, 3, 3, 1, (1, 1)),
    "backbone strided 5x5": (8, 3, 8, 5, 2, (2, 2)),
    "backbone strided 3x3": (8, 8, 8, 3, 2, (1, 1)),
    "study 4x4": (8, 3, 8, 4, 2, (1, 1)),
    "study 4x4 wide": (8, 8, 8, 4, 2, (1, 1)),
    "study 2x2": (8, 8, 16, 2, 2, (0, 0)),
    "study 4x4 of one channel": (8, 1, 8, 4, 2, (1, 1)),
    "michlo 64": (8, 3, 8, 4, 2, (2, 2)),
    "michlo 33": (9, 8, 8, 4, 2, (2, 2)),
    "broadcast 4x4": (8, 12, 8, 4, 1, (1, 2)),
    "broadcast last": (8, 8, 1, 4, 1, (1, 2)),
    "absae 5x5": (45, 1, 4, 5, 2, (0, 0)),
    "absae 5x5 at 21": (21, 4, 4, 5, 2, (0, 0)),
    "absae 3x3": (9, 4, 4, 3, 2, (0, 0)),
}
# (side, I, O, kernel, padding) of transposed convolutions.
TRANSPOSED = {
    "4x4": (4, 8, 8, 4, (1, 1)),
    "4x4 to an image": (8, 8, 3, 4, (1, 1)),
    "3x3": (4, 8, 4, 3, (0, 0)),
    "5x5": (9, 4, 4, 5, (0, 0)),
    "5x5 to an image": (21, 4, 1, 5, (0, 0)),
}


def correlate(x, kernel, stride, padding):
    """Float64 loops: the definition."""
    n = kernel.shape[0]
    x = np.pad(np.float64(x), ((0, 0), padding, padding, (0, 0)))
    h, w = ((m - n) // stride + 1 for m in x.shape[1:3])
    y = np.zeros((x.shape[0], h, w, kernel.shape[-1]))
    for p in range(h):
        for q in range(w):
            patch = x[:, p * stride : p * stride + n, q * stride : q * stride + n]
            y[:, p, q] = np.einsum("bijc,ijco->bo", patch, np.float64(kernel))
    return y


def random(rng, *shape):
    return jnp.asarray(rng.standard_normal(shape), jnp.float32)


def close(a, b):
    # 1e-5 of the largest value: sums of up to 1000 products in float32.
    np.testing.assert_allclose(a, b, rtol=0, atol=1e-5 * max(1, np.abs(b).max()))


@pytest.mark.parametrize("layer", CONVOLUTIONS)
def test_conv_variants_agree(layer, rng):
    side, inputs, outputs, n, stride, padding = CONVOLUTIONS[layer]
    x, kernel = random(rng, 2, side, side, inputs), random(rng, n, n, inputs, outputs)
    settings = dict(stride=stride, padding=padding)
    exact = correlate(x, kernel, stride, padding)
    close(matrix_convolution.matmul_conv(x, kernel, **settings), exact)
    close(convolution.native_conv(x, kernel, **settings), exact)
    close(convolution.conv(x, kernel, **settings), exact)
    g = random(rng, *exact.shape)
    # The definition's gradients by autodiff of XLA's own convolution.
    wanted = jax.vjp(lambda *a: convolution.native_conv(*a, **settings), x, kernel)
    wanted = wanted[1](g)

    @jax.jit
    def dispatched(x, kernel, g):
        return jax.vjp(lambda *a: convolution.conv(*a, **settings), x, kernel)[1](g)

    for gradient, exact in zip(dispatched(x, kernel, g), wanted):
        close(gradient, exact)
    size = dict(size=x.shape[1:3])
    close(matrix_convolution.matmul_adjoint(g, kernel, **settings, **size), wanted[0])
    close(convolution.native_adjoint(g, kernel, **settings, **size), wanted[0])
    for gradient in (
        matrix_convolution.matmul_kernel_gradient,
        convolution.native_kernel_gradient,
    ):
        close(gradient(x, g, kernel_size=n, **settings), wanted[1])


@pytest.mark.parametrize("layer", TRANSPOSED)
def test_conv_transpose(layer, rng):
    side, inputs, outputs, n, padding = TRANSPOSED[layer]
    x, kernel = random(rng, 2, side, side, inputs), random(rng, n, n, outputs, inputs)
    y = convolution.conv_transpose(x, kernel, padding=padding)
    size = 2 * (side - 1) + n - sum(padding)
    assert y.shape == (2, size, size, outputs)
    # It is the adjoint: <conv(v), x> = <v, conv_transpose(x)> for every v.
    v = random(rng, *y.shape)
    left = np.vdot(correlate(v, kernel, 2, padding), np.float64(x))
    np.testing.assert_allclose(np.vdot(v, np.float64(y)), left, rtol=1e-4, atol=1e-3)

    # Against XLA's dilated convolution, in value and gradient.
    def native(x, kernel):
        return jax.lax.conv_general_dilated(
            x,
            kernel[::-1, ::-1].swapaxes(2, 3),
            (1, 1),
            ((n - 1 - padding[0], n - 1 - padding[1]),) * 2,
            lhs_dilation=(2, 2),
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
        )

    def ours(x, kernel):
        return convolution.conv_transpose(x, kernel, padding=padding)

    close(y, native(x, kernel))
    for a, b in zip(jax.vjp(ours, x, kernel)[1](v), jax.vjp(native, x, kernel)[1](v)):
        close(a, b)


@pytest.mark.parametrize("unrolled", [True, False])
@pytest.mark.parametrize("stride, n", [(1, 3), (1, 5), (2, 4)])
def test_lanes_are_never_one_grouped_convolution_on_cpu(
    stride, n, unrolled, rng, monkeypatch
):
    monkeypatch.setattr(convolution, "_UNROLLED_LANES", 3 if unrolled else 2)
    x, kernel = random(rng, 3, 2, 8, 8, 3), random(rng, 3, n, n, 3, 4)

    def loss(x, kernel):
        y = convolution.conv(x, kernel, stride=stride, padding=(1, 1))
        return jnp.sin(y).sum()

    gradient = jax.jit(jax.vmap(jax.grad(loss, argnums=(0, 1))))
    lanes = gradient(x, kernel)
    for i in range(3):
        solo = jax.grad(loss, argnums=(0, 1))(x[i], kernel[i])
        for a, b in zip(lanes, solo):
            close(a[i], b)
    text = gradient.lower(x, kernel).as_text()
    groups = re.findall(r"(?:feature|batch)_group_count = (\d+)", text)
    assert set(groups) == ({"1"} if unrolled else set())
    assert unrolled or "dot_general" in text


def test_lanes_of_lanes_and_of_images_alone(rng):
    x, kernel = random(rng, 2, 3, 2, 8, 8, 3), random(rng, 3, 3, 3, 3, 4)

    def conv(x, kernel):
        return convolution.conv(x, kernel, stride=1, padding=(1, 1))

    got = jax.jit(jax.vmap(jax.vmap(conv), in_axes=(0, None)))(x, kernel)
    shared = jax.jit(jax.vmap(conv, in_axes=(0, None)))(x[0], kernel[0])
    for i in range(3):
        close(shared[i], conv(x[0, i], kernel[0]))
        for j in range(2):
            close(got[j, i], conv(x[j, i], kernel[i]))


def test_one_branch_per_platform(rng):
    """Lowering for one platform leaves no trace of the other's variant."""
    x, kernel = random(rng, 2, 4, 4, 4), random(rng, 4, 4, 4, 4)

    def loss(x, kernel):
        y = convolution.conv_transpose(x, kernel, padding=(1, 1))
        return jnp.sin(y).sum()

    step = jax.jit(loss).trace(x, kernel)
    accelerator = step.lower(lowering_platforms=("tpu",)).as_text()
    assert "convolution" in accelerator and "dot_general" not in accelerator
    cpu = step.lower(lowering_platforms=("cpu",))
    assert "dot_general" in cpu.as_text() and "convolution" not in cpu.as_text()
    # What is left of the choice is a constant index, gone once compiled.
    assert "conditional" not in cpu.compile().as_text()


def test_second_derivatives(rng):
    x, kernel = random(rng, 1, 4, 4, 2), random(rng, 3, 3, 2, 2)

    def curvature(conv):
        def loss(kernel):
            y = conv(x, kernel, stride=1, padding=(1, 1))
            return jnp.sin(y).sum()

        return jax.jacrev(jax.grad(loss))(kernel)

    close(curvature(convolution.conv), curvature(convolution.native_conv))


def test_kernel_gradient_of_an_odd_number_of_pixels(rng):
    x, g = random(rng, 1, 5, 5, 3), random(rng, 1, 5, 5, 4)
    settings = dict(kernel_size=3, stride=1, padding=(1, 1))
    got = matrix_convolution.matmul_kernel_gradient(x, g, **settings)
    close(got, convolution.native_kernel_gradient(x, g, **settings))


@pytest.mark.parametrize("name", ["backbone 3x3", "study 4x4", "broadcast 4x4"])
def test_loops_hold_convolutions_that_a_cpu_runs_fast(name):
    # XLA reorders the axes of other convolutions, but not inside loops.
    side, inputs, outputs, n, stride, padding = CONVOLUTIONS[name]
    x = jnp.ones((2, side, side, inputs))

    def loss(kernel, x):
        y = convolution.conv(x, kernel, stride=stride, padding=padding)
        return jnp.square(y).sum()

    def step(kernel_and_x, _):
        grads = jax.grad(loss, argnums=(0, 1))(*kernel_and_x)
        return jax.tree.map(jnp.add, kernel_and_x, grads), None

    def steps(kernel, x):
        return jax.lax.scan(step, (kernel, x), length=3)[0]

    text = jax.jit(steps).lower(jnp.ones((n, n, inputs, outputs)), x).compile()
    labels = set(re.findall(r"dim_labels=([^,\s]*)", text.as_text()))
    assert labels == {"b01f_01io->b01f"}


def test_strided_layers_of_one_channel_are_products_on_cpu():
    layer = CONVOLUTIONS["study 4x4 of one channel"]
    side, inputs, outputs, n, stride, padding = layer
    x, kernel = jnp.ones((2, side, side, inputs)), jnp.ones((n, n, inputs, outputs))

    def loss(x, kernel):
        y = convolution.conv(x, kernel, stride=stride, padding=padding)
        return jnp.square(y).sum()

    step = jax.jit(jax.grad(loss, argnums=(0, 1))).trace(x, kernel)
    text = step.lower(lowering_platforms=("cpu",)).as_text()
    assert "dot_general" in text and "stablehlo.convolution" not in text
    text = step.lower(lowering_platforms=("tpu",)).as_text()
    assert "stablehlo.convolution" in text and "dot_general" not in text
