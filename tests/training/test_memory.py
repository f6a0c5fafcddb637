"""The estimate of memory: by hand, against XLA's own count, and what it refuses."""

import types

import jax
import jax.numpy as jnp
import pytest

from disentangle_jax import main, training
from disentangle_jax.training import memory, working_memory
from tests.training import tiny


def peak(function, *shapes, platform="cpu"):
    arguments = [jax.ShapeDtypeStruct(shape, "float32") for shape in shapes]
    return working_memory.peak_bytes(
        jax.make_jaxpr(function)(*arguments).jaxpr, platform
    )


def test_peak_by_hand():
    def function(x):  # [10] in: 40 bytes a value
        a = jnp.sin(x)
        b = jnp.cos(a)
        return jnp.sum(a) + jnp.sum(b)

    # a and b, and as b is summed, the sum of a: 40 + 40 bytes, then 4 + 40 + 4.
    assert peak(function, (10,)) == 84
    # The outer product lives beside its sum: 400 + 4 bytes.
    assert peak(lambda x: jnp.sum(jax.lax.broadcast(x, (10,))), (10,)) == 404


def test_calls_and_branches_are_looked_into():
    def inner(x):
        return jnp.outer(x, x).sum()

    assert peak(jax.jit(inner), (10,)) >= 400
    assert peak(lambda x: jax.lax.cond(x[0] > 0, inner, jnp.sum, x), (10,)) >= 400

    def each(x):
        return jax.lax.platform_dependent(x, cpu=jnp.sum, default=inner)

    assert peak(each, (10,), platform="cpu") < 100
    assert peak(each, (10,), platform="tpu") >= 400


def test_saved_activations_count_unless_recomputed():
    def deep(x, wrap):
        for _ in range(8):
            x = wrap(lambda v: jnp.tanh(jnp.sin(jnp.exp(v))))(x)
        return x.sum()

    kept = peak(jax.grad(lambda x: deep(x, lambda f: f)), (1000,))
    remade = peak(jax.grad(lambda x: deep(x, jax.checkpoint)), (1000,))
    assert kept >= 8 * 3 * 4000  # What the derivatives of three functions need.
    assert remade < kept / 2


def test_estimate_is_near_what_xla_says(tmp_path):
    config = tiny.config(batch_size=256)
    config.model.width = 128
    run = training.prepare(config, tmp_path)
    arguments = working_memory.abstract_arguments(run)
    estimated = working_memory.peak_bytes(
        jax.make_jaxpr(run.method.step)(*arguments).jaxpr, "cpu"
    )
    xla = jax.jit(run.method.step).lower(*arguments).compile().memory_analysis()
    real = xla.temp_size_in_bytes + xla.output_size_in_bytes
    assert 0.6 * real < estimated < 1.25 * real
    assert memory._state_bytes(run) == pytest.approx(
        xla.output_size_in_bytes, rel=0.001
    )


def large(seeds=4, batch_size=1024, **fields):
    config = tiny.config(batch_size=batch_size)
    config.method.update(name="beta_vae", beta=1.0)
    config.lanes.update(seeds=seeds, **fields)
    return config


def told(config, workdir) -> str:
    with pytest.raises(training.TooLarge) as error:
        training.train(training.prepare(config, workdir))
    assert not workdir.exists()  # Nothing was started.
    return str(error.value)


def test_what_does_not_fit_is_told_with_what_would(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "device_memory", lambda _: 900 * 2**20)
    said = told(large(), tmp_path / "run")
    assert "4 lane(s) of batch 1024 need about" in said
    assert "which has 0.879 GiB" in said
    assert "set `lanes.chunk` to 2" in said and "`model.remat`" in said
    assert "batch_size" not in said.split("You can")[1]
    training.check_memory(training.prepare(large(chunk=2), tmp_path))
    # One lane alone is too large: only a smaller batch helps.
    said = told(large(seeds=1, batch_size=8192), tmp_path / "run")
    assert "lanes.chunk" not in said
    rows = int(said.split("lower `train.batch_size` to ")[1].split()[0])
    training.check_memory(training.prepare(large(seeds=1, batch_size=rows), tmp_path))
    with pytest.raises(training.TooLarge):
        training.check_memory(
            training.prepare(large(seeds=1, batch_size=4 * rows), tmp_path)
        )


def test_lanes_and_rows_are_shared_by_devices(tmp_path, monkeypatch, devices):
    monkeypatch.setattr(memory, "device_memory", lambda _: 800 * 2**20)
    devices(4)
    for mesh in ((4, 1), (1, 4), (2, 2)):
        config = large()
        config.train.mesh = mesh
        training.check_memory(training.prepare(config, tmp_path))


def test_parameters_alone_can_be_too_many(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "device_memory", lambda _: 2**20)
    assert "train fewer than 4 lanes" in told(large(), tmp_path / "run")


def test_command_ends_with_code_2(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(memory, "device_memory", lambda _: 2**20)
    file = tmp_path / "tiny_run.py"
    file.write_text(tiny.FILE)
    assert main.main([f"--config={file}", f"--workdir={tmp_path / 'run'}"]) == 2
    assert "error: config: 1 lane(s) of batch 8 need" in capsys.readouterr().err


def test_memory_of_the_device_or_of_the_host(tmp_path, devices):
    host = memory.device_memory(training.prepare(tiny.config(), tmp_path).mesh)
    assert 2**28 < host < 2**50
    devices(4)
    mesh = training.prepare(tiny.config(), tmp_path).mesh
    assert memory.device_memory(mesh) == host // 4
    card = types.SimpleNamespace(memory_stats=lambda: {"bytes_limit": 123})
    assert memory.device_memory(types.SimpleNamespace(local_devices=[card])) == 123


def test_limits_of_the_process_and_of_its_container_count(tmp_path, monkeypatch):
    run = training.prepare(tiny.config(num_steps=2), tmp_path)
    whole = memory.device_memory(run.mesh)
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(memory, "_CONTAINER_LIMITS", (limit, tmp_path / "none"))
    devices = len(run.mesh.local_devices)
    for text, expected in (("max\n", whole), ("8000000\n", 8_000_000 // devices)):
        limit.write_text(text)
        assert memory.device_memory(run.mesh) == expected
    limit.unlink()
    unlimited = memory.resource.RLIM_INFINITY
    given = {"limits": (10**6, unlimited)}
    monkeypatch.setattr(memory.resource, "getrlimit", lambda _: given["limits"])
    with pytest.raises(training.TooLarge, match=r"has 0 GiB: .*`ulimit -v`\.$"):
        training.check_memory(run)
    given["limits"] = (unlimited, unlimited)
    training.check_memory(run)
