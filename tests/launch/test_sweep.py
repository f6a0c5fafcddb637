"""Sweeps: what the manifest says, what a pack is, what is kept and collected."""

import concurrent.futures
import csv
import json
import os
import pathlib
import subprocess
import sys
import time

import jax
import jsonschema
import pytest

from disentangle_jax import config as config_lib
from disentangle_jax import rows as rows_lib
from disentangle_jax import sweep as sweep_lib
from disentangle_jax import training
from launch import estimate, kubernetes, work
from launch import sweep as command
from tests.launch import schemas, tiny_sweep

ROOT = pathlib.Path(__file__).parents[2]
STUDY = str(ROOT / "configs" / "studies" / "unsupervised.py")
TINY = tiny_sweep.__file__
START = f"--config={TINY}"


def run(capsys, *argv):
    code = command.main([str(arg) for arg in argv])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


# The manifest.


def test_the_study_is_42_programs_of_300_models():
    expansion = sweep_lib.expand(STUDY)
    assert len(expansion.models) == len({m.id for m in expansion.models}) == 12_600
    packs = sweep_lib.pack_models(expansion, lanes=300)
    assert [len(models) for models in packs] == [300] * 42
    for models in packs:
        kinds = {(m.labels["dataset"], m.labels["method"]) for m in models}
        cells = {(m.labels["strength"], m.labels["seed"]) for m in models}
        assert len(kinds) == 1 and len(cells) == 300
    # One run: six strengths × fifty seeds are its lanes.
    config = rows_lib.together(expansion.base, [m.fields for m in packs[2]])
    assert config.method.name == "factor_vae" and len(config.lanes.rows) == 300
    assert config.lanes.rows[0] == {"method.gamma": 10.0, "train.seed": 0}
    assert config.lanes.rows[299] == {"method.gamma": 100.0, "train.seed": 49}
    assert config.train.num_steps == 300_000 and config.train.batch_size == 64


@pytest.mark.parametrize(
    "preset, models, groups", [("mini", 180, 12), ("dsprites", 1800, 6)]
)
def test_presets_of_the_study(preset, models, groups):
    expansion = sweep_lib.expand(f"{STUDY}:{preset}")
    assert len(expansion.models) == models
    assert len(sweep_lib.pack_models(expansion, lanes=models)) == groups


def test_study_trains_every_method_of_the_paper():
    from configs.studies import unsupervised

    for method, (fixed, field, values) in unsupervised.METHODS.items():
        config = unsupervised.get_config()
        config.data.name = "rendered_dsprites"
        config.method.update({"name": method, field: values[-1], **fixed})
        training.prepare(config, "nowhere")  # Raises where a field is none of it.
        assert len(values) == 6


def test_ids_are_of_the_model_and_not_of_how_it_is_run(tmp_path):
    ids = [m.id for m in sweep_lib.expand(TINY).models]
    other_place = ["--config.data.data_dir=/data", "--config.train.checkpoint_every=4"]
    assert [m.id for m in sweep_lib.expand(TINY, other_place).models] == ids
    longer = sweep_lib.expand(TINY, ["--config.train.num_steps=8"])
    assert not set(ids) & {m.id for m in longer.models}
    # An integer where a number is meant is the same model.
    file = tmp_path / "integers.py"
    text = pathlib.Path(TINY).read_text()
    file.write_text(text.replace("(1.0, 4.0)", "(1, 4)"))
    assert [m.id for m in sweep_lib.expand(str(file)).models] == ids
    # And the same in another process.
    out = subprocess.run(
        [sys.executable, "-c", "import sys; from disentangle_jax import sweep; "
         "print([m.id for m in sweep.expand(sys.argv[1]).models])", TINY],
        capture_output=True, text=True, check=True, cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "7", "JAX_PLATFORMS": "cpu"},
    ).stdout  # fmt: skip
    assert out.strip().splitlines()[-1] == str(ids)


def test_a_lane_is_the_model_of_its_row(tmp_path):
    expansion = sweep_lib.expand(TINY)
    sweep = sweep_lib.create(expansion, tmp_path, lanes=2)
    for pack in sweep.packs:
        lanes = training.prepare(pack.config, tmp_path / "run")
        for model, alone in zip(pack.models, lanes.models(), strict=True):
            alone = alone.config
            wanted = config_lib.load(TINY)
            wanted.eval.evaluators = ("posterior",)  # The study needs it.
            for field, value in model.fields.items():
                section, name = field.split(".")
                wanted[section][name] = value
            assert json.loads(alone.to_json()) == json.loads(wanted.to_json())


@pytest.mark.parametrize(
    "count, most, sizes",
    [(300, 64, [60] * 5), (54, 64, [54]), (7, 3, [3, 3, 1]), (10, 4, [2] * 5)],
)
def test_packs_are_of_one_size_where_that_divides(count, most, sizes):
    models = [{"train.seed": seed} for seed in range(count)]
    config = config_lib.load(TINY)
    parts = rows_lib.packs(config, models, lambda program, rows: most)
    assert [len(part) for part in parts] == sizes
    assert [m for part in parts for m in part] == models


def test_packs_are_sized_by_memory(monkeypatch):
    from disentangle_jax.training import memory, working_memory

    changed = ["--config.data.name=xysquares", "--config.train.steps_per_dispatch=1"]
    expansion = sweep_lib.expand(STUDY + ":mini", changed)
    row = {**expansion.models[0].fields, "data.name": "xysquares"}
    assert sweep_lib.fitting_lanes(expansion.base, row) == sweep_lib.MOST_LANES
    lanes = [{**row, "train.seed": seed} for seed in range(8)]  # One on each device.
    run = training.prepare(rows_lib.together(expansion.base, lanes), "nowhere")
    step = jax.make_jaxpr(run.method.step)(*working_memory.abstract_arguments(run))
    state = memory._state_bytes(run)
    working = working_memory.peak_bytes(step.jaxpr, "cpu")
    # Eight devices share the lanes: room for two and a half, with their steps, on each.
    room = int(2.5 * (state + working))
    monkeypatch.setattr(memory, "device_memory", lambda mesh: room)
    assert sweep_lib.fitting_lanes(expansion.base, row) == 16
    # Lanes that take several steps at a time take turns: room for the states of four
    # and a half, and for the step of one.
    turns = {**row, "train.steps_per_dispatch": 10}
    room = int(4.5 * state + working)
    assert sweep_lib.fitting_lanes(expansion.base, turns) == 32
    # Where the data are not here it is not known.
    lost = {**row, "data.name": "cars3d"}
    assert sweep_lib.fitting_lanes(expansion.base, lost) is None


@pytest.mark.parametrize(
    "body, message",
    [
        ("add({'model.widht': 3, 'train.sed': 1})", "Did you mean 'train.seed'?"),
        ("add({'train.seed': 1}); add({'train.seed': 1})", "was added twice"),
        ("pass", "adds no model"),
    ],
)
def test_wrong_sweeps_are_told(tmp_path, body, message):
    file = tmp_path / "wrong.py"
    text = pathlib.Path(TINY).read_text().partition("def sweep")[0]
    file.write_text(f"{text}\ndef sweep(add, preset):\n    {body}\n")
    with pytest.raises(ValueError, match=message):
        sweep_lib.expand(str(file))


@pytest.mark.parametrize(
    "argv, fix",
    [
        (["--workdir=w"], "--config=FILE is required"),
        ([START], "--workdir=DIR is required"),
        (["--workdir=w", f"--config={ROOT}/configs/vae.py"], "has no `sweep(add, "),
        (["--workdir=w", "status"], "holds no sweep"),
        (["--workdir=w", "status", START], "takes no --config"),
        (["--workdir=w", "dance"], "invalid choice: 'dance'"),
        (["--workdir=w", START, "--cluster=moon"], "invalid choice: 'moon'"),
        (["--workdir=w", START, "--gpus=1"], "no option of --cluster=local"),
        (["--workdir=w", START, "--cluster=k8s"], "needs --image"),
        (["--workdir=w", START, "--lanes=0"], "must be at least 1"),
    ],
)
def test_wrong_command_is_one_line_and_code_2(capsys, tmp_path, monkeypatch, argv, fix):
    monkeypatch.chdir(tmp_path)
    code, out, err = run(capsys, *argv)
    assert (code, out) == (2, "") and not list(tmp_path.iterdir())
    assert err.count("\n") == 1 and err.startswith("error: ") and fix in err


def test_slurm_without_slurm_is_told(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    code, _, err = run(
        capsys, f"--config={TINY}", f"--workdir={tmp_path}/w", "--cluster=slurm"
    )
    assert code == 2 and "there is no `sbatch` on this machine" in err


# Extending a sweep.


EXTENDED = """
from tests.launch.tiny_sweep import get_config

def sweep(add, preset=""):
    for beta in (1.0, 4.0) if preset == "more" else (1.0,):
        for seed in (3, 4) if preset else (3,):
            add({"method.beta": beta, "train.seed": seed})
"""


def test_an_extended_sweep_keeps_its_rows_and_needs_no_labels(
    capsys, tmp_path, monkeypatch
):
    from disentangle_jax import reports
    from tests.training import tiny

    tiny.show_devices(monkeypatch, 1)
    file, folder = tmp_path / "extended.py", tmp_path / "w"
    file.write_text(EXTENDED)
    start = [f"--workdir={folder}", "--cluster=debug", "--lanes=3"]
    code, out, _ = run(capsys, f"--config={file}", *start)
    assert code == 0 and "1 models in 1 packs" in out
    (row,) = (folder / "rows").glob("*.json")
    written = row.stat().st_mtime_ns
    code, out, _ = run(capsys, f"--config={file}:more", *start)
    assert code == 0 and "4 models in 2 packs" in out
    assert row.stat().st_mtime_ns == written  # The finished row was not made again.
    sweep = sweep_lib.load(folder)
    table = sweep_lib.collect(sweep)
    assert {(r["method"], r["strength"], r["seed"]) for r in table} == {
        ("beta_vae", beta, seed) for beta in (1.0, 4.0) for seed in (3, 4)
    }
    assert {r["dataset"] for r in table} == {"xysquares"}
    # The study and the comparison take it as it is.
    assert len(reports.find_runs([folder])) == 4
    # Fewer models than it holds is another sweep.
    with pytest.raises(ValueError, match="3 of its 4 models are not in"):
        sweep_lib.create(sweep_lib.expand(str(file)), folder)


def test_labels_of_changed_fields():
    common = {
        "data.name": "a", "method.name": "vae", "train.seed": 0, "model.width": 8,
    }  # fmt: skip
    rows = [
        {"method.name": "x", "method.beta": 1.0, "method.gamma": 2.0},
        {"method.name": "x", "method.beta": 4.0, "method.gamma": 3.0},
        {"method.name": "y", "method.beta": 4.0, "model.width": 4, "train.seed": 5},
        {"method.name": "y", "method.beta": 4.0},
    ]
    assert [tuple(found.values()) for found in rows_lib.labels(common, rows)] == [
        ("a", "x", "beta=1.0, gamma=2.0", 0),
        ("a", "x", "beta=4.0, gamma=3.0", 0),
        ("a", "y, width=4", 0, 5),
        ("a", "y, width=8", 0, 0),
    ]


# The store.


def test_a_row_is_written_once_whoever_writes(tmp_path):
    path = tmp_path / "row.json"

    def write(number):
        return sweep_lib.write_row(path, {"writer": number, "x": "y" * 100_000})

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        wrote = list(pool.map(write, range(64)))
    assert sum(wrote) == 1
    assert sweep_lib.read_row(path)["writer"] == wrote.index(True)
    assert [p.name for p in tmp_path.iterdir()] == ["row.json"]  # No remains.
    assert json.loads(path.read_text())["row"]["writer"] == wrote.index(True)


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[:-40],
        lambda text: b"",
        lambda text: text.replace(b"0.5", b"0.7"),
        lambda text: b"\0" * len(text),
    ],
    ids=["cut", "empty", "changed", "zeros"],
)
def test_a_damaged_row_is_noticed(tmp_path, damage):
    path = tmp_path / "row.json"
    sweep_lib.write_row(path, {"mig": 0.5})
    assert sweep_lib.read_row(path) == {"mig": 0.5}
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(sweep_lib.CorruptRow, match="is cut or was changed"):
        sweep_lib.read_row(path)


def test_thousands_of_rows_are_collected_in_seconds(tmp_path, rng):
    file = tmp_path / "many.py"
    text = pathlib.Path(TINY).read_text().partition("def sweep")[0]
    file.write_text(
        text + "def sweep(add, preset):\n    for seed in range(1000):\n"
        "        add({'method.beta': 1.0, 'train.seed': seed}, seed=seed)\n"
    )
    sweep = sweep_lib.create(sweep_lib.expand(str(file)), tmp_path / "s", lanes=60)
    scores = {f"score{n}": float(value) for n, value in enumerate(rng.random(60))}
    for model in sweep.models[:-1]:
        row = {"id": model.id, "pack": 0, "finite": True, "seconds": 1.0}
        sweep_lib.write_row(sweep.row_path(model), {**row, "scores": scores})
    began = time.process_time()
    table = sweep_lib.collect(sweep)
    path = sweep_lib.write_table(table, tmp_path / "table.csv")
    assert time.process_time() - began < 10  # Takes half a second.
    with path.open() as lines:
        rows = list(csv.DictReader(lines))
    assert [int(row["seed"]) for row in rows] == list(range(999))
    assert float(rows[7]["score59"]) == scores["score59"]


# Kubernetes.


@pytest.fixture
def made(tmp_path):
    return sweep_lib.create(sweep_lib.expand(TINY), tmp_path / "Tiny_sweep", lanes=1)


def test_indexed_job_is_valid(made, capsys):
    code, out, _ = run(
        capsys, f"--config={TINY}", f"--workdir={made.workdir}", "--cluster=k8s",
        "--image=registry/image:1", "--volume=disk", "--gpus=2", "--cpus=4",
        "--memory_gb=16", "--time_limit=90", "--parallelism=3",
    )  # fmt: skip
    path = made.workdir / "k8s" / "job.json"
    assert code == 0 and f"kubectl apply -f {path}" in out
    job = json.loads(path.read_text())
    jsonschema.Draft202012Validator(schemas.JOB).validate(job)
    assert job["spec"]["completions"] == 4 and job["spec"]["parallelism"] == 3
    pod = job["spec"]["template"]["spec"]
    assert pod["activeDeadlineSeconds"] == 5400
    assert pod["containers"][0]["args"][1] == "--packs=0,1,2,3"


def test_tpu_jobset_is_valid(made):
    path = kubernetes.write(
        made, [1, 3], image="image", volume="disk", parallelism=9, tpu="v5e:2x4"
    )
    jobs = json.loads(path.read_text())
    jsonschema.Draft202012Validator(schemas.JOB_SET).validate(jobs)
    (packs,) = jobs["spec"]["replicatedJobs"]
    assert packs["replicas"] == 2
    pod = packs["template"]["spec"]["template"]["spec"]
    limits = pod["containers"][0]["resources"]["limits"]
    assert limits == {"google.com/tpu": "8"}
    with pytest.raises(ValueError, match="a pack runs on one host"):
        kubernetes.write(made, [0], image="i", volume="v", parallelism=1, tpu="v5e:4x4")
    with pytest.raises(ValueError, match="must be one of v4, v5e, v5p, v6e"):
        kubernetes.write(made, [0], image="i", volume="v", parallelism=1, tpu="v5:2x2")


def test_schemas_refuse_what_kubernetes_would(made):
    path = kubernetes.write(made, [0], image="i", volume="v", parallelism=1)
    for change in (
        lambda job: job["spec"].pop("template"),
        lambda job: job["spec"].update(completion=3),
        lambda job: job["spec"].update(parallelism="3"),
        lambda job: job["spec"]["template"]["spec"].update(restartPolicy="Always"),
        lambda job: job["metadata"].update(name="Tiny_sweep"),
    ):
        job = json.loads(path.read_text())
        change(job)
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.Draft202012Validator(schemas.JOB).validate(job)


def test_pods_find_their_pack_by_their_index(made, monkeypatch, capsys):
    asked = []
    monkeypatch.setattr(work, "work", lambda sweep, packs: asked.append(packs))
    monkeypatch.setattr(work, "set_up_process", lambda: None)
    argv = ("run", f"--workdir={made.workdir}", "--packs=1,3", "--index_from=NUMBER")
    assert run(capsys, *argv)[0] == 2
    monkeypatch.setenv("NUMBER", "1")
    assert run(capsys, *argv)[0] == 0 and asked == [[3]]
    assert run(capsys, "run", f"--workdir={made.workdir}", "--packs=9")[0] == 2


# Time and money.


def test_dry_run_tells_packs_shapes_and_time_and_writes_nothing(capsys, tmp_path):
    code, out, _ = run(
        capsys, f"--config={TINY}:lost", f"--workdir={tmp_path}/w", "--dry_run",
        "--lanes=2",
    )  # fmt: skip
    assert code == 0 and not list(tmp_path.iterdir())
    assert "4 models in 2 packs of 2 programs." in out
    lost, there = out.splitlines()[1:3]
    assert "squares w8" in lost and "64×64×3 (by xysquares)" in lost
    assert "ms per model" in there and "Evaluation is not included" in out


def test_the_study_on_tpus_by_compiled_figures():
    from configs.studies import unsupervised

    hours = sum(
        estimate.tpu_hours(method, 2100, 300_000).estimate
        for method in unsupervised.METHODS
    )
    # 2,100 models a method: four at 1,038 models a chip and day, one at 973.4, one at
    # 552.7, of launch/tpu_table.csv.
    by_hand = 24 * 2100 * (4 / 1038 + 1 / 973.4 + 1 / 552.7)
    assert hours == pytest.approx(by_hand, rel=1e-3)
    published = estimate.PUBLISHED_GPU_YEARS * 365 * 24
    assert 60 < published / hours < 70


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "\n".join(text.splitlines()[:-1]) + "\n",  # A line is lost,
        lambda text: text + text.splitlines()[-1] + "\n",  # doubled,
        lambda text: text[:-9],  # cut,
        lambda text: text.replace('"method.beta": 4.0', '"method.beta": 5.0'),
        lambda text: text.replace('"strength": 4.0', '"strength": 5.0'),
        lambda text: text.replace('"pack": 1', '"pack": 0'),
        lambda text: text.replace('"sha256"', '"sha255"'),
        lambda text: "",
        lambda text: "[1, 2]\n",
    ],
)
def test_a_damaged_manifest_is_refused(tmp_path, damage):
    sweep_lib.create(sweep_lib.expand(TINY), tmp_path, lanes=2)
    path = tmp_path / "manifest.jsonl"
    changed = damage(path.read_text())
    assert changed != path.read_text()
    path.write_text(changed)
    with pytest.raises(ValueError, match="manifest.jsonl is damaged"):
        sweep_lib.load(tmp_path)


def test_a_row_of_another_model_is_damaged_and_labels_are_no_columns(tmp_path):
    expansion = sweep_lib.expand(TINY)
    sweep = sweep_lib.create(expansion, tmp_path, lanes=2)
    one, other = sweep.models[:2]
    sweep_lib.write_row(sweep.row_path(one), {"id": one.id})
    sweep_lib.write_row(sweep.row_path(other), {"id": one.id})
    rows = sweep_lib.read_rows(sweep)
    assert set(rows.found) == {one.id} and rows.corrupt == [sweep.row_path(other)]
    for label in ("id", "seconds", "mig", "bce", "commit"):
        file = tmp_path / "labels.py"
        file.write_text(
            "from tests.launch.tiny_sweep import get_config\n"
            "def sweep(add, preset=''):\n"
            f"    add({{'train.seed': 1}}, {label}=1)\n"
        )
        with pytest.raises(ValueError, match=f"`{label}` must not be a label"):
            sweep_lib.expand(str(file))


def test_study_mode_needs_a_sweep(capsys, tmp_path):
    from disentangle_jax import main

    assert main.main(["study", str(tmp_path)]) == 2
    assert "holds no sweep" in capsys.readouterr().err


def test_the_estimate_of_the_time_left(tmp_path, monkeypatch):
    sweep = sweep_lib.create(sweep_lib.expand(TINY), tmp_path / "w")
    alive = set()
    monkeypatch.setattr(work.claims, "newest_claim", lambda folder: folder.name)
    monkeypatch.setattr(work.claims, "looks_alive", lambda name: name in alive)
    logged = {"0000": {"step": 1, "images_per_second": 4.0}}
    settings = sweep.packs[0].config.train
    assert (settings.num_steps, settings.batch_size) == (4, 8)
    for pack in sweep.packs:
        lane = sweep.folder(pack) / "lanes" / "a"
        lane.mkdir(parents=True)
        (lane / "metrics.jsonl").touch()
    monkeypatch.setattr(
        training, "last_row", lambda lane: logged.get(lane.parents[1].name)
    )
    assert work.status(sweep).seconds_left is None  # Nobody works.
    alive.add("0000")
    # A model takes 4 steps × 8 images at 4 images per second; 2 of 4 models are trained
    # to a quarter.
    assert work.status(sweep).seconds_left == pytest.approx((4 - 2 / 4) * 8.0)
    alive.add("0001")  # Two workers, one of which has not logged yet.
    assert work.status(sweep).seconds_left == pytest.approx((4 - 2 / 4) * 8.0 / 2)
    # With rows, which took 10 s each: 2 s of them are the evaluation.
    model = sweep.packs[0].models[0]
    rows = sweep_lib.read_rows(sweep)._replace(found={model.id: {"seconds": 10.0}})
    monkeypatch.setattr(sweep_lib, "read_rows", lambda sweep: rows)
    logged["0000"]["step"] = 4
    alive.remove("0001")
    assert work.status(sweep).seconds_left == pytest.approx(2 * 10.0 + 2.0)
