"""Costs of programs compiled for TPUs: arithmetic, the HLO reader, the command."""

import math
import pathlib

import jax
import jax.numpy as jnp
import pytest

from disentangle_jax import config as config_lib
from disentangle_jax import training
from disentangle_jax.training import program as program_lib
from launch import aot, chips, costs, hlo, tpu_table

CONFIGS = pathlib.Path(__file__).parents[2] / "configs"
needs_compiler = pytest.mark.skipif(
    not chips.has_compiler(), reason="the TPU compiler (libtpu) is not installed"
)

# A loop of 10 iterations that slices, sums over chips and updates in place; the entry
# copies an array to on-chip memory and reduces it there.
TEXT = """
HloModule jit_steps, is_scheduled=true

%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[]{:T(128)} parameter(0)
  %b = f32[]{:T(128)} parameter(1)
  ROOT %sum = f32[]{:T(128)} add(%a, %b)
}

%sliced (p.0: f32[10,8,128], p.1: s32[]) -> f32[1,8,128] {
  %p.0 = f32[10,8,128]{2,1,0:T(8,128)} parameter(0)
  %p.1 = s32[]{:T(128)} parameter(1)
  %zero = s32[]{:T(128)} constant(0)
  %renamed = f32[10,8,128]{2,1,0:T(8,128)} bitcast(%p.0)
  ROOT %slice = f32[1,8,128]{2,1,0:T(8,128)} dynamic-slice(%renamed, %p.1, %zero, %zero), dynamic_slice_sizes={1,8,128}
}

%updated (q.0: f32[10,8,128], q.1: f32[1,8,128], q.2: s32[]) -> f32[10,8,128] {
  %q.0 = f32[10,8,128]{2,1,0:T(8,128)} parameter(0)
  %q.1 = f32[1,8,128]{2,1,0:T(8,128)} parameter(1)
  %q.2 = s32[]{:T(128)} parameter(2)
  %zero.1 = s32[]{:T(128)} constant(0)
  ROOT %put = f32[10,8,128]{2,1,0:T(8,128)} dynamic-update-slice(%q.0, %q.1, %q.2, %zero.1, %zero.1)
}

%body (t: (s32[], f32[10,8,128])) -> (s32[], f32[10,8,128]) {
  %t = (s32[]{:T(128)}, f32[10,8,128]{2,1,0:T(8,128)}) parameter(0)
  %i = s32[]{:T(128)} get-tuple-element(%t), index=0
  %all = f32[10,8,128]{2,1,0:T(8,128)} get-tuple-element(%t), index=1
  %one = f32[1,8,128]{2,1,0:T(8,128)S(1)} fusion(%all, %i), kind=kLoop, calls=%sliced, backend_config={"window_config":{"estimated_cycles":"100"}}
  %reduced = f32[1,8,128]{2,1,0:T(8,128)S(1)} all-reduce(%one), replica_groups={{0,1}}, to_apply=%add
  %kept = f32[10,8,128]{2,1,0:T(8,128)} fusion(%all, %reduced, %i), kind=kLoop, calls=%updated
  ROOT %next = (s32[]{:T(128)}, f32[10,8,128]{2,1,0:T(8,128)}) tuple(%i, %kept)
}

%condition (t: (s32[], f32[10,8,128])) -> pred[] {
  %t.1 = (s32[]{:T(128)}, f32[10,8,128]{2,1,0:T(8,128)}) parameter(0)
  %i.1 = s32[]{:T(128)} get-tuple-element(%t.1), index=0
  %limit = s32[]{:T(128)} constant(10)
  ROOT %less = pred[]{:T(512)} compare(%i.1, %limit), direction=LT
}

ENTRY %main (x: f32[10,8,128], y: bf16[64,10]) -> f32[64] {
  %x = f32[10,8,128]{2,1,0:T(8,128)} parameter(0)
  %y = bf16[64,10]{0,1:T(8,128)(2,1)} parameter(1)
  %start = s32[]{:T(128)} constant(0)
  %state = (s32[]{:T(128)}, f32[10,8,128]{2,1,0:T(8,128)}) tuple(%start, %x)
  %loop = (s32[]{:T(128)}, f32[10,8,128]{2,1,0:T(8,128)}) while(%state), condition=%condition, body=%body
  %moving = (bf16[64,10]{0,1:T(8,128)(2,1)S(1)}, bf16[64,10]{0,1:T(8,128)(2,1)}, u32[]{:S(2)}) copy-start(%y), backend_config={}
  %moved = bf16[64,10]{0,1:T(8,128)(2,1)S(1)} copy-done(%moving)
  %gathering = (f32[4]{0}, f32[8]{0}) all-gather-start(%x), dimensions={0}
  ROOT %result = f32[64]{0:T(128)} negate(%moved), backend_config={"window_config":{"estimated_cycles":"7"}}
}
"""  # noqa: E501


@pytest.fixture(scope="module")
def module():
    return hlo.parse(TEXT)


def test_arrays_know_their_bytes_and_their_padding():
    array, count = hlo.arrays("(bf16[64,10]{0,1:T(8,128)(2,1)S(1)}, u32[]{:S(2)})")
    assert (array.bytes, array.space, count.bytes) == (64 * 10 * 2, 1, 4)
    # 64 is the most minor dimension: 10 rows fill tiles of 8, 64 columns one of 128.
    assert array.padded_bytes == 16 * 128 * 2
    (scalar,) = hlo.arrays("f32[]{:T(128)}")
    assert (scalar.bytes, scalar.padded_bytes) == (4, 512)
    (plain,) = hlo.arrays("pred[3,5]")
    assert plain.bytes == plain.padded_bytes == 15


def test_reader_counts_loops_as_often_as_they_run(module):
    times = {name: times for _, name, times in hlo.executed(module)}
    assert (times["loop"], times["one"], times["result"]) == (1, 10, 1)
    assert hlo.estimated_cycles(module) == 10 * 100 + 7


def test_collectives_are_counted_without_padding(module):
    assert hlo.collectives(module) == {
        "all-reduce": (10, 10 * 8 * 128 * 4),
        "all-gather": (1, 8 * 4),
    }


def test_bytes_of_loops_slices_updates_and_chip_memory(module):
    tile, scalar = 8 * 128 * 4, 512
    source = 16 * 128 * 2  # Read by the copy; its destination is on the chip.
    gathered, result = (4 + 8) * 4, 128 * 4
    # A pass reads its slice and writes its update, not the array of all; it reads the
    # index for both, and compares it.
    one_pass = 2 * tile + (2 + 3) * scalar
    hbm = 10 * one_pass + source + gathered + result
    assert hlo.accessed_bytes(module, hbm_only=True) == hbm
    # On the chip: the slice written and summed, the sum written and read; the copy's
    # destination and counter, and its reader.
    on_chip = 10 * 4 * tile + 2 * source + 4
    assert hlo.accessed_bytes(module, hbm_only=False) == hbm + on_chip


def test_text_without_entry_is_refused():
    with pytest.raises(ValueError, match="no ENTRY"):
        hlo.parse("HloModule nothing")


def cost(**changes):
    fields = dict(flops=197e9, bytes=9e9, hbm_bytes=81.9e6, cycles=1, peak_memory=1)
    return costs.Cost(**{**fields, "collectives": {}, "seconds": 0.0, **changes})


def test_roofline():
    chip = chips.CHIPS["v5e"]
    assert chip.ridge == pytest.approx(240.5, abs=0.1)
    # 1 ms of arithmetic, 0.1 ms of memory; then the other way round.
    assert costs.bound_seconds(cost(), chip) == pytest.approx(1e-3)
    slow = cost(hbm_bytes=8.19e9)
    assert costs.bound_seconds(slow, chip) == pytest.approx(1e-2)
    assert cost().intensity > chip.ridge > slow.intensity


def test_collective_bytes_by_kind():
    both = cost(collectives={"all-reduce": (2, 8.0), "all-gather": (1, 3.0)})
    assert (both.all_reduce_bytes, both.other_collective_bytes) == (8.0, 3.0)
    assert cost().all_reduce_bytes == 0


def small(method="beta_vae", **changes):
    """A run of the study's networks that is quick to trace."""
    config = config_lib.load(str(CONFIGS / f"{method}.py"))
    config.train.batch_size = 8
    for name, value in changes.items():
        section, _, field = name.partition("__")
        config[section][field] = value
    return config


def prepare(config, tmp_path):
    return training.prepare(config, tmp_path, devices=jax.devices()[:1])


def test_analytic_flops_of_conv64_by_hand(tmp_path):
    # Positions times taps times channels of each layer, encoder then decoder.
    first = 32 * 32 * 16 * 1 * 32
    convs = first + 16 * 16 * 16 * 32 * 32 + 8 * 8 * 4 * 32 * 64 + 4 * 4 * 4 * 64 * 64
    encoder = convs + 1024 * 256 + 2 * 256 * 10
    convs = 4 * 4 * 16 * 64 * 64 + 8 * 8 * 16 * 64 * 32 + 16 * 16 * 16 * 32 * 32
    decoder = 10 * 256 + 256 * 1024 + convs + 32 * 32 * 16 * 32 * 1
    expected = 2 * 8 * (3 * encoder - first + 3 * decoder)
    run = prepare(small(), tmp_path)
    assert costs.analytic_flops(run) == expected
    # A lane needs what it needs alone.
    lanes = prepare(small(lanes__seeds=2), tmp_path)
    assert costs.analytic_flops(lanes) == expected
    assert (
        costs.gradient_bytes(lanes) == 2 * costs.gradient_bytes(run) == 2 * 4 * 690_517
    )


def test_analytic_flops_of_the_critic_by_hand(tmp_path):
    run = prepare(small("factor_vae", method__critic_width=50), tmp_path)
    first = 2 * 10 * 50
    critic = first + 2 * (5 * 50 * 50 + 50 * 2)
    without = costs.analytic_flops(prepare(small(), tmp_path))
    assert costs.analytic_flops(run) - without == 8 * (7 * critic - 2 * first)


def test_host_sends_images_or_nothing(tmp_path):
    assert costs.batch_bytes(prepare(small(), tmp_path)) == 8 * 64 * 64
    on_device = prepare(small(train__input="device"), tmp_path)
    assert costs.batch_bytes(on_device) == 0


def test_table_names_every_model_and_keeps_known_rows(tmp_path):
    names = {case.name for case in tpu_table.CASES}
    assert names >= {"conv64", "sae-12", "vlae-12", "factor_vae"}
    lanes = {case.lanes for case in tpu_table.CASES if case.topology == "v5e:1x1"}
    assert lanes >= {1, 32, 64}
    for case in tpu_table.CASES:
        tpu_table.load(case)
    path = tmp_path / "table.csv"
    assert tpu_table.read_table(path) == []
    tpu_table.write_table(path, [{"name": "conv64", "lanes": 2}])
    (row,) = tpu_table.read_table(path)
    assert (row["name"], row["lanes"], row["flops"]) == ("conv64", "2", "")


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "--config=FILE or --table is required"),
        (["--config=configs/vae.py", "--lanes=-1"], "--lanes: must be positive"),
        (["--config=configs/vae.py", "--topology=v9:2x2"], "generation"),
        (["--topologie=v5e:2x2"], "see --help"),
    ],
)
def test_wrong_commands_say_what_to_do(argv, message, capsys):
    assert aot.main(argv) == 2
    assert message in capsys.readouterr().err


def test_lanes_go_in_chunks_on_tpus_only(tmp_path):
    run = prepare(small(lanes__seeds=4), tmp_path)
    assert program_lib.lanes_at_once(run) == 4
    chunked = prepare(small(lanes__seeds=4, lanes__chunk=2), tmp_path)
    assert program_lib.lanes_at_once(chunked) == 2


@needs_compiler
def test_lanes_of_a_slice_are_divided_between_its_chips():
    run = costs.prepare(small(), "v5e:2x2", 8)
    assert run.mesh.devices.flat[0].platform == "tpu"
    assert dict(run.mesh.shape) == {"lanes": 4, "data": 1}
    assert program_lib.lanes_at_once(run) == program_lib.lanes_updated(run) == 8


@needs_compiler
def test_command_reports_every_figure(monkeypatch, capsys):
    found = cost(flops=2e10, collectives={"all-reduce": (1, 2e6)})
    monkeypatch.setattr(costs, "cost_of_run", lambda run: found)
    config = f"--config={CONFIGS / 'beta_vae.py'}"
    assert aot.main([config, "--topology=v5e:2x2", "--lanes=8"]) == 0
    said = capsys.readouterr().out
    # Two models on a chip, 10 G each; 5.271 G are needed.
    for part in (
        "8 model(s), batch 64, input stream",
        "4 chip(s) as 4 lanes × 1 data",
        "20.000 G, per model 10.000 G",
        "padding waste 1.897",
        "of HBM 81.9 MB",
        "all-reduce ×1, 2.000 MB (gradients 5.524 MB)",
        "262144 bytes",
        "the ridge is at 240.5: bound by arithmetic",
    ):
        assert part in said, said


@needs_compiler
def test_what_does_not_fit_the_chip_is_reported(monkeypatch, capsys):
    def refuse(run):
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: 16.36G exceeds 15.75G")

    monkeypatch.setattr(costs, "cost_of_run", refuse)
    assert aot.main([f"--config={CONFIGS / 'beta_vae.py'}"]) == 1
    assert "16.36G exceeds" in capsys.readouterr().err


@needs_compiler
def test_wrong_topology_is_reported(capsys):
    assert aot.main(["--config=configs/vae.py", "--topology=v5e:3x7x2"]) == 2
    assert "must be a slice like" in capsys.readouterr().err


@needs_compiler
def test_compiled_product_costs_what_it_must():
    """The whole way on a small program: flops exact, all-reduce the gradient's size."""
    mesh = jax.make_mesh(
        (4,),
        ("data",),
        axis_types=(jax.sharding.AxisType.Auto,),
        devices=chips.devices("v5e:2x2"),
    )

    def place(*spec):
        return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*spec))

    x = jax.ShapeDtypeStruct((512, 256), jnp.float32, sharding=place("data"))
    w = jax.ShapeDtypeStruct((256, 384), jnp.float32, sharding=place())
    gradient = jax.jit(
        jax.grad(lambda w, x: jnp.sum(jnp.square(x @ w))), out_shardings=place()
    )
    compiled = chips.compile_uncached(gradient.lower(w, x))
    found = costs.cost_of(compiled, 0.0)
    products = 2 * 2 * 128 * 256 * 384
    assert products <= found.flops < 1.05 * products
    assert found.all_reduce_bytes == 256 * 384 * 4
    assert math.isclose(found.other_collective_bytes, 0.0)
    assert found.peak_memory > 2 * 256 * 384 * 4
    assert found.hbm_bytes >= (128 * 256 + 256 * 384) * 4
    assert jax.default_backend() == "cpu"


@pytest.mark.slow
@needs_compiler
def test_step_takes_the_branch_of_accelerators():
    """Convolutions, not the products that a CPU gets, and within 1.25 of analytic."""
    run = costs.prepare(small(), "v5e:1x1", 0)
    found = costs.cost_of_run(run)
    assert 1 / 1.25 < found.flops / costs.analytic_flops(run) < 1.25
