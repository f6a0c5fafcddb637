"""Programs for meshes of lanes × data do not gather the images of a batch.

XLA's partitioner gathers the batch of a grouped convolution, which is what `vmap` over
lanes makes of a convolution, and computes it on every device (openxla/xla #47945).
"""

import math

import jax
import pytest

from disentangle_jax import config as config_lib
from disentangle_jax import training
from disentangle_jax.training import program as program_lib
from launch import chips, costs, hlo, tpu_table


def gathered(run) -> float:
    """Returns the bytes of the largest array that an all-gather of a step makes."""
    program = program_lib.build(run)
    arguments = (
        program_lib.abstract_carry(run),
        program_lib.abstract_inputs(run, program),
    )
    compiled = jax.jit(program.steps).lower(*arguments).compile()
    module = hlo.parse(compiled.as_text())
    return max(
        (
            array.bytes
            for computation, name, _ in hlo.executed(module)
            if computation[name].opcode.startswith("all-gather")
            for array in computation[name].arrays
        ),
        default=0.0,
    )


def small(lanes, mesh):
    config = config_lib.default()
    config.model.name = "conv64"
    config.model.channel_scale = 0.125
    config.method.name = "beta_vae"
    config.method.beta = 1.0
    config.train.batch_size = 16
    config.train.mesh = mesh
    config.lanes.seeds = lanes
    return config


def image_bytes(run):
    return run.config.train.batch_size * math.prod(run.train_set.image_shape)


def test_no_images_are_gathered_on_virtual_devices(tmp_path):
    run = training.prepare(small(4, (2, 4)), tmp_path, devices=jax.devices()[:8])
    assert dict(run.mesh.shape) == {"lanes": 2, "data": 4}
    assert gathered(run) < image_bytes(run)


@pytest.mark.slow
@pytest.mark.skipif(not chips.has_compiler(), reason="libtpu is not installed")
def test_no_images_are_gathered_on_chips(tmp_path):
    devices = chips.devices("v5e:2x4")
    run = training.prepare(small(4, (2, 4)), tmp_path, devices=devices)
    assert gathered(run) < image_bytes(run)


@pytest.mark.slow
@pytest.mark.skipif(not chips.has_compiler(), reason="libtpu is not installed")
@pytest.mark.parametrize(
    "case",
    [
        tpu_table.Case("conv64", "beta_vae"),
        tpu_table.Case("conv64", "beta_vae", lanes=32),
        tpu_table.Case("conv64", "beta_vae", changes=("train.batch_size=256",)),
        tpu_table.Case("sae-12", "sae"),
    ],
    ids=["conv64", "32 lanes", "batch 256", "sae-12"],
)
def test_main_rows_of_the_table_are_not_slower(case):
    """The compiler's estimate of cycles does not grow by more than 5 %."""
    assert case in tpu_table.CASES
    config = tpu_table.load(case)
    wanted = (
        *(case.name, case.topology, str(case.lanes)),
        *(str(config.train.batch_size), " ".join(case.changes)),
    )
    (row,) = [
        row
        for row in tpu_table.read_table(tpu_table.TABLE)
        if tuple(row[f] for f in ("name", "topology", "lanes", "batch", "changes"))
        == wanted
    ]
    cycles = costs.cost_of_run(costs.prepare(config, case.topology, case.lanes)).cycles
    per_second = chips.chip_of(case.topology).clock / cycles
    assert per_second > float(row["estimate_per_s"]) / 1.05
