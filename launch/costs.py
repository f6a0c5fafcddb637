"""Costs of programs compiled for TPUs, and what their arithmetic needs at least."""

import contextlib
import io
import math
import tempfile
import time
from typing import Any, NamedTuple

import jax
import ml_collections

from disentangle_jax import models, training
from disentangle_jax.training import program as program_lib

from . import chips, hlo


class Cost(NamedTuple):
    """Cost of one step of a compiled program on one chip.

    Attributes:
      flops: floating-point operations by XLA's count.
      bytes: bytes accessed in HBM and on-chip memory.
      hbm_bytes: bytes read from and written to HBM.
      cycles: the compiler's estimate.
      peak_memory: bytes of arguments, results and temporaries in HBM.
      collectives: number and bytes of each kind of collective.
      seconds: time of the compilation.
    """

    flops: float
    bytes: float
    hbm_bytes: float
    cycles: float
    peak_memory: float
    collectives: dict[str, tuple[int, float]]
    seconds: float

    @property
    def all_reduce_bytes(self) -> float:
        """Bytes that all-reduces sum over chips."""
        return self.collectives.get("all-reduce", (0, 0.0))[1]

    @property
    def other_collective_bytes(self) -> float:
        """Bytes of all other collectives."""
        total = sum(moved for _, moved in self.collectives.values())
        return total - self.all_reduce_bytes

    @property
    def intensity(self) -> float:
        """Operations per byte of HBM."""
        return self.flops / self.hbm_bytes if self.hbm_bytes else math.inf


def bound_seconds(cost: Cost, chip: chips.Chip) -> float:
    """Returns the least time that a chip needs, by the roofline model.

    .. math:: \\max(\\text{flops} / \\text{peak}, \\text{bytes} / \\text{bandwidth})
    """
    return max(cost.flops / chip.flops, cost.hbm_bytes / chip.bandwidth)


def prepare(
    config: ml_collections.ConfigDict, topology: str, lanes: int
) -> training.Run:
    """Returns the validated run of `config` on the chips of `topology`.

    Args:
      config: as for `training.prepare`.
      topology: a slice such as ``v5e:2x2``.
      lanes: number of seeds to train in one program; 0 for the config's own lanes.
    """
    if lanes:
        config.lanes.seeds = lanes
    with tempfile.TemporaryDirectory() as workdir:
        return training.prepare(config, workdir, devices=chips.devices(topology))


def cost_of_run(run: training.Run) -> Cost:
    """Compiles the program of `training.train` for `run` and returns its cost."""
    program = program_lib.build(run)
    carry = program_lib.abstract_carry(run)
    inputs = program_lib.abstract_inputs(run, program)
    start = time.monotonic()
    lowered = jax.jit(program.steps, donate_argnums=0).lower(carry, inputs)
    compiled = chips.compile_uncached(lowered)
    return cost_of(
        compiled,
        time.monotonic() - start,
        steps=run.config.train.steps_per_dispatch,
        chunks=len(run.lanes) // program_lib.lanes_at_once(run),
    )


def cost_of(
    compiled: jax.stages.Compiled, seconds: float, *, steps: int = 1, chunks: int = 1
) -> Cost:
    """Returns the cost of one step of a compiled program on each chip.

    XLA's count of flops includes the body of a loop once, whatever its number of
    iterations.

    Args:
      compiled: the program.
      seconds: time of its compilation.
      steps: iterations of its outer loop.
      chunks: iterations of its inner loop.
    """
    counted = compiled.cost_analysis()
    memory = compiled.memory_analysis()
    module = hlo.parse(compiled.as_text())
    peak = (
        memory.argument_size_in_bytes
        + memory.output_size_in_bytes
        - memory.alias_size_in_bytes
        + memory.temp_size_in_bytes
    )
    return Cost(
        counted.get("flops", 0.0) * chunks,
        hlo.accessed_bytes(module, hbm_only=False) / steps,
        hlo.accessed_bytes(module, hbm_only=True) / steps,
        hlo.estimated_cycles(module) / steps,
        peak,
        {
            kind: (count // steps, moved / steps)
            for kind, (count, moved) in hlo.collectives(module).items()
        },
        seconds,
    )


# --- what a step needs at least -------------------------------------------------------


def analytic_flops(run: training.Run) -> float:
    """Returns the operations that the products of one step of one model need.

    Let E and D be the operations of encoder and decoder in the forward pass of one
    example (`models.summary`). A step of B examples needs ``B (3 E - first + 3 D)``:
    each layer's product in the forward pass, in the gradient by its weights and in the
    gradient by its input, except that the input of the first layer is the image and
    needs no gradient. Methods of pairs take 2 B examples; methods of few labels encode
    B more. The critic of FactorVAE, with C operations in its forward pass, adds
    ``7 C - 2 first`` per example: joint and permuted codes in the forward pass (2), the
    gradient of the total correlation by the codes (1), and the gradients of the
    critic's loss by its weights (2) and inputs (2).
    """
    settings = dict(run.config.model)
    with contextlib.redirect_stdout(io.StringIO()):
        layers = models.summary(
            settings.pop("name"), run.train_set.image_shape, **settings
        )
    decoder = sum(layer.flops for layer in layers if "decoder" in layer.path)
    encoder = layers.flops - decoder
    first = next(layer.flops for layer in layers if layer.flops)
    rows = run.config.train.batch_size
    arrays = set(run.batch_shapes()) - {"labels"}
    encoded, decoded = len(arrays), len(arrays - {"labelled_image"})
    decoded /= run.config.method.get("batches", 1)
    total = rows * (encoded * (3 * encoder - first) + decoded * 3 * decoder)
    shapes = program_lib.abstract_carry(run).state.params
    if "critic" in shapes:
        critic = [
            2 * math.prod(leaf.shape[-2:])  # without the axis of lanes
            for path, leaf in jax.tree_util.tree_leaves_with_path(shapes["critic"])
            if path[-1].key == "kernel"
        ]
        total += decoded * rows * (7 * sum(critic) - 2 * critic[0])
    return float(total)


def gradient_bytes(run: training.Run) -> float:
    """Returns the bytes of the gradients of all models on one chip."""
    params = program_lib.abstract_carry(run).state.params
    return _total_bytes(params) / run.mesh.shape["lanes"]


def batch_bytes(run: training.Run) -> int:
    """Returns the bytes of images that the host sends to all chips for one step."""
    inputs = program_lib.abstract_inputs(run, program_lib.build(run))["batches"]
    return _total_bytes(inputs) // run.config.train.steps_per_dispatch


def _total_bytes(shapes: Any) -> int:
    return sum(
        math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(shapes)
    )


# --- rows of the table ----------------------------------------------------------------


def row_of(run: training.Run, cost: Cost, topology: str) -> dict[str, Any]:
    """Returns the figures of one program as a row of the table."""
    config, lanes = run.config, len(run.lanes)
    per_chip = lanes / run.mesh.size
    per_day = 86400 * lanes / config.train.num_steps
    analytic = analytic_flops(run)
    found = figures(cost, chips.chip_of(topology), per_chip)
    return {
        "batch": config.train.batch_size,
        "chips": run.mesh.size,
        "lanes": lanes,
        **found,
        "analytic_flops": f"{analytic:.4g}",
        "padding_waste": f"{cost.flops / per_chip / analytic:.3f}",
        "gradient_bytes": f"{gradient_bytes(run):.0f}",
        "all_reduce_bytes": f"{cost.all_reduce_bytes:.0f}",
        "other_collective_bytes": f"{cost.other_collective_bytes:.0f}",
        "host_bytes": batch_bytes(run),
        "bound_models_per_day": f"{per_day * float(found['bound_per_s']):.4g}",
        "estimate_models_per_day": f"{per_day * float(found['estimate_per_s']):.4g}",
    }


def figures(cost: Cost, chip: chips.Chip, per_chip: float) -> dict[str, Any]:
    """Returns the figures that training programs and estimators share.

    Args:
      cost: of the program.
      chip: that it is compiled for.
      per_chip: number of models that one chip trains or evaluates.
    """
    return {
        "flops": f"{cost.flops:.5g}",
        "bytes": f"{cost.bytes:.5g}",
        "hbm_bytes": f"{cost.hbm_bytes:.5g}",
        "flops_per_model": f"{cost.flops / per_chip:.5g}",
        "bytes_per_model": f"{cost.bytes / per_chip:.5g}",
        "intensity": f"{cost.intensity:.1f}",
        "ridge": f"{chip.ridge:.1f}",
        "peak_memory_mb": f"{cost.peak_memory / 1e6:.1f}",
        "fits": "yes" if cost.peak_memory <= chip.memory else "no",
        "bound_per_s": f"{1 / bound_seconds(cost, chip):.4g}",
        "estimate_per_s": f"{chip.clock / cost.cycles:.4g}",
    }


def report(run: training.Run, cost: Cost, topology: str) -> str:
    """Returns the figures of one program as text."""
    chip, row = chips.chip_of(topology), row_of(run, cost, topology)
    config = run.config
    side = "memory" if cost.intensity < chip.ridge else "arithmetic"
    kinds = [
        f"{kind} ×{count}, {moved / 1e6:.3f} MB"
        for kind, (count, moved) in sorted(cost.collectives.items())
    ]
    across, along = run.mesh.shape["lanes"], run.mesh.shape["data"]
    lines = [
        f"{config.method.name} of {config.model.name} on {config.data.name}: "
        f"{row['lanes']} model(s), batch {row['batch']}, input {config.train.input}",
        f"{topology}: {row['chips']} chip(s) as {across} lanes × {along} data; "
        f"compiled in {cost.seconds:.0f} s; per chip and step:",
        f"  flops             {cost.flops / 1e9:.3f} G, per model "
        f"{float(row['flops_per_model']) / 1e9:.3f} G",
        f"  analytic flops    {float(row['analytic_flops']) / 1e9:.3f} G per model, "
        f"padding waste {row['padding_waste']}",
        f"  bytes accessed    {cost.bytes / 1e6:.1f} MB, of HBM "
        f"{cost.hbm_bytes / 1e6:.1f} MB",
        f"  intensity         {row['intensity']} flop/byte of HBM; the ridge is at "
        f"{row['ridge']}: bound by {side}",
        f"  peak memory       {row['peak_memory_mb']} MB of "
        f"{chip.memory / 1e6:.0f} MB, fits: {row['fits']}",
        f"  collectives       {'; '.join(kinds) or 'none'} (gradients "
        f"{float(row['gradient_bytes']) / 1e6:.3f} MB)",
        f"  from the host     {row['host_bytes']} bytes",
        f"  at most           {row['bound_per_s']} steps/s, "
        f"{row['bound_models_per_day']} models per day of {config.train.num_steps} "
        "steps each",
        f"  compiler expects  {row['estimate_per_s']} steps/s, "
        f"{row['estimate_models_per_day']} models per day",
    ]
    return "\n".join(lines)
