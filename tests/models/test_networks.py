"""Every network: shapes, state, groups, errors, and how its parameters start."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from disentangle_jax import models
from tests.models.quick import quick_jit, random_variables

# A small instance of each network: image shape and overrides.
SMALL = {
    "ae": ((32, 32, 3), {"channels": 8}),
    "wae": ((32, 32, 3), {"channels": 8}),
    "vae": ((32, 32, 3), {"channels": 8}),
    **{f"sae-{n}": ((32, 32, 3), {"channels": 8}) for n in (2, 3, 4, 6, 12)},
    "sae-16": ((64, 64, 3), {"channels": 8}),
    "adaae-12": ((32, 32, 3), {"channels": 8}),
    "adaae-16": ((64, 64, 3), {"channels": 8}),
    **{f"vlae-{n}": ((32, 32, 3), {"channels": 32}) for n in (2, 3, 4, 6, 12)},
    "vlae-16": ((64, 64, 3), {"channels": 32}),
    "conv64": ((32, 32, 3), {"channel_scale": 0.25}),
    "fc1200": ((16, 16, 1), {"width": 20}),
    "hfvae-mlp": ((28, 28, 1), {"widths": (20,), "head_width": 10}),
    "hfvae-conv": ((16, 16, 3), {"channels": (4, 8), "width": 10}),
    "prodlda": ((30,), {}),
    "nvdm": ((30,), {"width": 20}),
    "absae": ((45, 45, 1), {"channels": 8}),
    "vlae-original": ((28, 28, 1), {"channels": (4, 8), "width": 16}),
}
STATEFUL = ("prodlda", "absae", "vlae-original", "hfvae-conv")
# Side of the smallest feature map of each version of conv64.
VARIANT_SIDES = {"dlib": 4, "burgess": 4, "michlo": 5}


def test_every_name_is_covered():
    assert set(SMALL) == set(models.names())


def build(name, getkey, **overrides):
    shape, small = SMALL[name]
    module = models.create(name, shape, **(small | overrides))
    x = jax.random.uniform(getkey(), (2, *shape))
    return module, random_variables(module, x), x


@pytest.mark.parametrize("name", SMALL)
def test_contract(name, getkey):
    module, variables, x = build(name, getkey)

    @quick_jit
    def outputs(variables, x):
        posterior = module.apply(variables, x, method="encode")
        z = posterior.mean
        if posterior.logits is not None:
            z = jnp.concatenate([z, jax.nn.softmax(posterior.logits)], axis=-1)
        return posterior, module.apply(variables, z, method="decode")

    posterior, logits = outputs(variables, x)
    stochastic = posterior.log_var is not None
    assert stochastic == (
        name in ("vae", "conv64", "fc1200", "prodlda", "nvdm")
        or name.startswith(("vlae", "hfvae"))
    )
    assert posterior.mean.dtype == jnp.float32
    if stochastic:
        assert posterior.log_var.shape == posterior.mean.shape
    elements = sum(module.latent_groups)
    if posterior.logits is None:
        assert posterior.mean.shape == (2, elements)
    else:
        assert posterior.mean.shape == (2, elements - 1)  # one Concrete variable
    assert logits.shape == x.shape and logits.dtype == jnp.float32
    called = quick_jit(module.apply)(variables, x[:1])
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves((posterior, logits)))
    assert ("batch_stats" in variables) == (name in STATEFUL)
    assert isinstance(variables["params"], dict)
    # In evaluation a row does not depend on the others.
    np.testing.assert_allclose(called, logits[:1], atol=1e-4)


@pytest.mark.parametrize("name", STATEFUL)
def test_training_state_is_functional(name, getkey):
    module, variables, x = build(name, getkey)
    before = jax.tree.map(jnp.copy, variables)

    @quick_jit
    def apply(key):
        rngs = {"dropout": key}
        return module.apply(
            variables, x, train=True, mutable=["batch_stats"], rngs=rngs
        )

    key = getkey()
    logits, updated = apply(key)
    again, _ = apply(key)
    np.testing.assert_array_equal(logits, again)
    jax.tree.map(np.testing.assert_array_equal, variables, before)
    moved = jax.tree.map(
        lambda a, b: bool((a != b).any()), updated["batch_stats"], before["batch_stats"]
    )
    assert all(jax.tree.leaves(moved))
    assert (logits != quick_jit(module.apply)(variables, x)).any()


def test_groups():
    groups = {
        name: models.create(name, (64, 64, 3)).latent_groups
        for name in ("sae-2", "sae-3", "sae-4", "sae-6", "sae-12", "vlae-4", "vae")
    }
    assert groups == {
        "sae-2": (6, 6),
        "sae-3": (4, 4, 4),
        "sae-4": (3, 3, 3, 3),
        "sae-6": (2,) * 6,
        "sae-12": (1,) * 12,
        "vlae-4": (3, 3, 3, 3),
        "vae": (1,) * 12,
    }
    for name in ("sae-16", "vlae-16"):
        assert models.create(name, (128, 128, 3)).latent_groups == (2,) * 16
    hfvae = models.create(
        "hfvae-mlp", (28, 28, 1), latent_dim=6, groups=(4, 2), discrete=(3, 5)
    )
    assert hfvae.latent_groups == (4, 2, 1, 1)
    assert models.create("hfvae-conv", (64, 64, 3)).latent_groups == (20, 1)


def test_hfvae_means_depend_on_the_discrete_draw(getkey):
    module, variables, x = build("hfvae-mlp", getkey, discrete=(3, 4))
    posterior = module.apply(variables, x, method="encode")
    assert posterior.logits.shape == (2, 7)
    probabilities = module.apply(variables, posterior.logits, method="probabilities")
    np.testing.assert_allclose(probabilities[:, :3].sum(-1), 1, rtol=1e-6)
    np.testing.assert_allclose(probabilities[:, 3:].sum(-1), 1, rtol=1e-6)
    given = module.apply(variables, x, discrete=probabilities, method="encode")
    np.testing.assert_allclose(given.mean, posterior.mean, atol=1e-6)
    other = module.apply(variables, x, discrete=1 - probabilities, method="encode")
    assert (other.mean != posterior.mean).all()
    np.testing.assert_array_equal(other.logits, posterior.logits)


@pytest.mark.parametrize(
    "critic, size",
    [
        (models.FactorCritic(), 10),
        (models.PriorDiscriminator(), 8),
        (models.RelationNetwork(latent_dim=8), 13),
    ],
    ids=["factor", "prior", "relation"],
)
def test_critics(critic, size, getkey):
    z = jax.random.normal(getkey(), (3, size))
    variables = jax.eval_shape(critic.init, getkey(), z)
    count = sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(variables))
    expected = {
        # Two logits, of which the log-odds are the difference.
        "FactorCritic": (10 * 1000 + 1000) + 5 * (1000 * 1000 + 1000) + 2002,
        "PriorDiscriminator": (8 * 1024 + 1024) + 3 * (1024 * 1024 + 1024) + 1025,
        "RelationNetwork": (13 * 1024 + 1024) + 3 * (1024**2 + 1024) + 1024 * 8 + 8,
    }
    assert count == expected[type(critic).__name__]
    narrow = critic.clone(width=16)
    out = narrow.apply(narrow.init(getkey(), z), z)
    assert out.shape == ((3, 8) if isinstance(critic, models.RelationNetwork) else (3,))


# --- initial parameters ---------------------------------------------------------------


def initial(name, path, getkey, **overrides):
    """Returns the initial parameters at `path`; the others are not compiled."""
    shape, small = SMALL[name]
    module = models.create(name, shape, **(small | overrides))

    @quick_jit
    def init(key, x):
        part = module.init(key, x)["params"]
        for field in path.split("/"):
            part = part[field]
        return part

    return init(getkey(), jnp.zeros((2, *shape)))


def test_torch_initializer(getkey):
    # Uniform within ±1/sqrt(fan_in) for weights and biases: fan_in = 9 · 8.
    conv = initial("ae", "encoder/block_2/conv", getkey)
    bound = 1 / math.sqrt(72)
    for leaf in conv.values():
        assert np.abs(leaf).max() <= bound
    assert np.abs(conv["kernel"]).max() > 0.95 * bound
    np.testing.assert_allclose(conv["kernel"].std(), bound / math.sqrt(3), rtol=0.1)
    assert np.abs(conv["bias"]).max() > 0.3 * bound


def test_glorot_initializer(getkey):
    conv = initial("conv64", "encoder/conv_2", getkey)  # 4×4, 8 to 8 channels
    bound = math.sqrt(6 / (16 * 8 + 16 * 8))
    assert 0.95 * bound < np.abs(conv["kernel"]).max() <= bound
    assert not conv["bias"].any()


def test_michlo_starts_xavier_normal(getkey):
    conv = initial("conv64", "encoder/conv_2", getkey, kernel_variant="michlo")
    std = math.sqrt(2 / (16 * 8 + 16 * 8))
    np.testing.assert_allclose(conv["kernel"].std(), std, rtol=0.1)
    assert np.abs(conv["kernel"]).max() > 2.5 * std  # not uniform
    assert not conv["bias"].any()


def test_constant_starts_normal(getkey):
    constant = initial("sae-12", "decoder/constant", getkey, channels=64)
    assert constant.shape == (2, 2, 64)
    np.testing.assert_allclose(constant.std(), 1, rtol=0.3)


def test_nvdm_log_std_starts_at_zero(getkey):
    module, _, x = build("nvdm", getkey)
    variables = module.init(getkey(), x)
    posterior = module.apply(variables, x, method="encode")
    assert not posterior.log_var.any() and posterior.mean.any()


# --- image sizes ----------------------------------------------------------------------

SIZED = [
    *(("sae-12", {}, 2), ("ae", {}, 2), ("vlae-12", {}, 2), ("adaae-12", {}, 2)),
    *(("sae-12", {"resampling": "stride"}, 2), ("absae", {}, 4)),
    *(("conv64", {"kernel_variant": v}, s) for v, s in VARIANT_SIDES.items()),
]


@pytest.mark.parametrize("name, options, smallest", SIZED)
def test_small_images_keep_the_smallest_map_and_the_parameters(name, options, smallest):
    counts, maps = set(), set()
    for side in (64, 32, 16):
        shape = (side, side, 3)
        module = models.create(name, shape, **options)
        x = jnp.zeros((1, *shape))
        variables = jax.eval_shape(module.init, jax.random.key(0), x)
        _, seen = jax.eval_shape(
            functools.partial(module.apply, capture_intermediates=True), variables, x
        )
        encoder = jax.tree.leaves(seen["intermediates"]["encoder"])
        maps.add(min(leaf.shape[1] for leaf in encoder if leaf.ndim == 4))
        counts.add(models.parameter_count(name, shape, **options))
        assert jax.eval_shape(module.apply, variables, x).shape == x.shape
    assert maps == {smallest}
    if options.get("resampling") != "stride":
        assert len(counts) == 1


# --- options --------------------------------------------------------------------------


def wide(name):
    """Overrides with which no group of GroupNorm is a single, pure-rounding number."""
    return {"channels": 32} if name == "sae-2" else {}


@pytest.mark.parametrize("name", ["sae-2", "conv64"])
def test_remat_changes_nothing(name, getkey):
    module, variables, x = build(name, getkey, **wide(name))
    again, _, _ = build(name, getkey, **wide(name), remat=True)

    def loss(module):
        return lambda params: jnp.square(module.apply({"params": params}, x)).sum()

    plain = quick_jit(jax.grad(loss(module)))(variables["params"])
    recomputed = quick_jit(jax.grad(loss(again)))(variables["params"])
    # Rounding of sums whose terms are as large as the largest gradient of an array.
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(
            a, b, rtol=0, atol=1e-5 * np.abs(b).max()
        ),
        plain,
        recomputed,
    )


@pytest.mark.parametrize("name", ["sae-2", "conv64", "absae", "nvdm"])
def test_bfloat16_keeps_parameters_and_results_float32(name, getkey):
    module, variables, x = build(name, getkey, **wide(name), dtype=jnp.bfloat16)
    leaves = jax.tree.leaves(variables["params"])
    assert all(leaf.dtype == jnp.float32 for leaf in leaves)
    logits = quick_jit(module.apply)(variables, x)
    exact, _, _ = build(name, getkey, **wide(name))
    exact = quick_jit(exact.apply)(variables, x)
    assert logits.dtype == jnp.float32
    assert (logits != exact).any()  # the arithmetic is indeed coarser
    np.testing.assert_allclose(logits, exact, atol=0.1 * np.abs(exact).max())


def test_spatial_broadcast_decoder(getkey):
    module, variables, x = build("conv64", getkey, spatial_broadcast=True)
    decoder = variables["params"]["decoder"]
    assert decoder["conv_1"]["kernel"].shape == (4, 4, 12, 16)  # 10 latents + 2
    assert jax.eval_shape(module.apply, variables, x).shape == x.shape


# --- errors ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, shape, overrides, message",
    [
        ("sae-13", (64, 64, 3), {}, r"`name` must be one of .*'sae-13'.*Did you mean"),
        (
            "conv64",
            (60, 64, 3),
            {},
            r"sides that are multiples of 8",
        ),
        ("sae-12", (50, 50, 3), {}, r"multiple of 16 for 'sae-12'.*\(50, 50, 3\)"),
        ("sae-16", (100, 100, 3), {}, r"multiple of 32 for 'sae-16'"),
        ("ae", (64, 32, 3), {}, r"`image_shape` must be square"),
        ("ae", (64, 64), {}, r"`image_shape` must be \(H, W, C\)"),
        ("prodlda", (64, 64, 3), {}, r"`image_shape` must be \(V,\)"),
        ("ae", (0, 0, 3), {}, r"positive integers"),
        ("absae", (50, 50, 1), {}, r"45, or of at least 8 and a multiple of 8"),
        ("vlae-original", (30, 30, 1), {}, r"multiples of 4"),
        ("sae-12", (64, 64, 3), {"latent_dim": 10}, r"divisible by the 12 .* got 10"),
        ("vlae-4", (64, 64, 3), {"latent_dim": 10}, r"divisible by the 4"),
        ("vlae-original", (28, 28, 1), {"latent_dim": 4}, r"divisible by the 3 rungs"),
        ("prodlda", (99,), {"latent_dim": 5}, r"divisible by the 2 groups"),
        ("hfvae-mlp", (28, 28, 1), {"groups": (3, 3)}, r"`groups` must add up to"),
        ("hfvae-mlp", (28, 28, 1), {"discrete": (1,)}, r"number of categories"),
        ("sae-12", (64, 64, 3), {"latentdim": 12}, r"Did you mean 'latent_dim'\?"),
        ("sae-12", (64, 64, 3), {"scheme": "ladder"}, r"`overrides` must be one of"),
        ("ae", (64, 64, 3), {"channels": 12}, r"`channels` must be a multiple of 8"),
        (
            "ae",
            (64, 64, 3),
            {"norm_groups": 3},
            r"multiple of 3 .* in 3 groups, got 64",
        ),
        ("ae", (64, 64, 3), {"norm_groups": 0}, r"`norm_groups` must be positive"),
        (
            "vlae-2",
            (64, 64, 3),
            {"channels": 16},
            r"`channels` must be a multiple of 32",
        ),
        ("sae-3", (64, 64, 3), {"blocks": 16}, r"`blocks` must be a multiple of the 3"),
        ("vlae-2", (64, 64, 3), {"blocks": 16}, r"`blocks` must be 12"),
        ("ae", (64, 64, 3), {"blocks": 13}, r"`blocks` must be 12 or 16"),
        ("ae", (64, 64, 3), {"resampling": "strided"}, r"Did you mean 'stride'"),
        ("conv64", (64, 64, 3), {"kernel_variant": "dlip"}, r"Did you mean 'dlib'"),
        ("ae", (64, 64, 3), {"nonlinearity": "mich"}, r"Did you mean 'mish'"),
        ("ae", (64, 64, 3), {"initializer": "troch"}, r"Did you mean 'torch'"),
    ],
)
def test_errors(name, shape, overrides, message):
    with pytest.raises(ValueError, match=message):
        models.create(name, shape, **overrides)


def test_norm_groups(getkey):
    """One group of all channels keeps a channel's level that its own group removes."""
    x = jax.random.uniform(getkey(), (2, 32, 32, 3))
    settings = dict(channels=4, latent_dim=2)
    level = []
    for groups in (1, 4):
        module = models.create("ae", (32, 32, 3), norm_groups=groups, **settings)
        variables = random_variables(module, x)

        @quick_jit
        def first_norm(variables, module=module):
            _, state = module.apply(
                variables, x, capture_intermediates=lambda m, _: m.name == "norm"
            )
            return state["intermediates"]["encoder"]["block_1"]["norm"]["__call__"][0]

        first = first_norm(variables)
        level.append(np.abs(first.mean((1, 2))).max())
    assert level[0] > 0.1 and level[1] < 1e-5


def test_other_image_sizes():
    for side in (32, 96, 128):
        module = models.create("sae-3", (side, side, 1))
        x = jax.ShapeDtypeStruct((1, side, side, 1), jnp.float32)
        variables = jax.eval_shape(module.init, jax.random.key(0), x)
        constant = variables["params"]["decoder"]["constant"]
        smallest = max(2, side // 32)
        assert constant.shape == (smallest, smallest, 64)
