"""The command line: what a user types wrong is answered in one line."""

import json

import pytest

from disentangle_jax import commands, main, training
from tests.training import tiny


def run(capsys, *argv):
    code = main.main(list(argv))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


SAE = "--config=configs/sae.py"


@pytest.fixture(autouse=True)
def at_root(monkeypatch, request, tmp_path):
    # Default workdirs are relative, so nothing is written into the source tree.
    configs = request.config.rootpath / "configs"
    (tmp_path / "configs").symlink_to(configs)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    "argv, fix",
    [
        ([SAE, "--config.train.stepz=3"], "Did you mean 'num_steps'?"),
        ([SAE, "--config.trian.seed=3"], "Did you mean 'train'?"),
        ([SAE, "--config.train.seed=x"], "`value` must be of type int like 0, got 'x'"),
        ([SAE, "--config.train.seed.x=1"], "nothing below a plain value"),
        ([SAE, "--config.train=1"], "is a section; set one of batch_size"),
        ([SAE, "--config.train.seed"], "must be followed by =VALUE"),
        ([SAE, "--config.model.name=sae-13"], "Did you mean 'sae-"),
        ([SAE, "--config.model.latent_dim=13"], "divisible by the 12 variables"),
        ([SAE, "--config.model.depth=13"], "`overrides` must be one of"),
        ([SAE, "--config.method.name=aee"], "Did you mean 'ae'?"),
        ([SAE, "--config.method.beta=2"], "method 'ae': `field` must be one of"),
        ([SAE, "--config.method.name=beta_vae"], "--config.method.beta=VALUE"),
        ([SAE, "--config.data.name=shape3d"], "Did you mean"),
        ([SAE, "--config.eval.scores=mig,dcc"], "Did you mean '"),
        ([SAE, "--config.train.batch_size=0"], "must be positive, got 0"),
        ([SAE, "--config.train.batch_size=12"], "multiple of the 8 devices"),
        ([SAE, "--config.train.batch_size=480008"], "training images"),
        ([SAE + ":quik"], "Did you mean 'quick'?"),
        (["--config=nofile.py"], "there is no file nofile.py"),
        ([], "--config=FILE is required"),
        (["report"], "RUN is required: give one folder"),
        (["report", "--workdir=."], "holds no run"),
        (["evaluate", "other"], "holds no checkpoint yet"),
        (["report", "other"], "was not evaluated yet"),
        (["evaluate", "other", "--config.train.seed=1"], "keeps its config"),
        (["evaluate", "other", "more"], "unrecognized arguments: more"),
        (["dream"], "`command` must be one of"),
        (["methods", "beta"], "Did you mean 'beta_vae'?"),
        (["datasets", "shape3d"], "Did you mean 'shapes3d'?"),
        (["old"], "`command` must be one of"),
        (["report", "old"], "or is of an older version"),
        ([SAE, "more"], "unrecognized arguments: more"),
        ([SAE, "--workdir=a_file"], "is a file; give a folder"),
        ([SAE, "--workdir=a_file/below"], "is a file; give a folder"),
        ([SAE, "--workdir=other"], "train.seed was 3, now 0"),
    ],
)
def test_wrong_command_is_one_line_and_code_2(capsys, tmp_path, argv, fix):
    (tmp_path / "a_file").touch()
    from configs import sae

    config = sae.get_config()
    config.train.seed = 3
    training.start_workdir(config, tmp_path / "other")
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "config.json").write_text(config.to_json())
    before = sorted(tmp_path.rglob("*"))
    code, out, err = run(capsys, *argv)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1 and err.startswith("error: ")
    assert fix in err
    assert sorted(tmp_path.rglob("*")) == before  # Nothing was written.


def test_help_names_every_command_and_each_explains_itself(capsys):
    code, out, _ = run(capsys, "--help")
    assert code == 0
    for word in ("--config", "--workdir", *commands.names()):
        assert word in out
    for name in set(commands.names()) - {"sweep", "score"}:
        code, out, err = run(capsys, name, "--help")
        assert (code, err) == (0, "")
        assert f"disentangle {'[run]' if name == 'run' else name}" in out


@pytest.mark.parametrize(
    "argv, words",
    [
        (["methods"], ("beta_vae", "hfvae", "absae")),
        (["methods", "beta_vae"], ("beta", "required", "reconstruction")),
        (["datasets"], ("cars3d", "elevation 4, azimuth 24, object 183")),
        (["datasets", "cars3d"], ("nips2015-analogy-data", "17,568")),
        (["fields"], ("--config.train.seed", "--config.eval.scores")),
        (["fields", "train"], ("number of updates",)),
    ],
)
def test_lists_come_from_the_definitions(capsys, argv, words):
    code, out, err = run(capsys, *argv)
    assert (code, err) == (0, "")
    for word in words:
        assert word in out


def test_train_evaluate_report_and_longer(capsys, tmp_path):
    file = tmp_path / "tiny_run.py"
    file.write_text(tiny.FILE)
    argv = [f"--config={file}", "--config.train.num_steps=4"]
    code, out, err = run(capsys, *argv)
    assert code == 0, err
    workdir = tmp_path / "runs" / "tiny_run"
    assert "workdir: runs/tiny_run" in out
    assert "mig" in out and "report: runs/tiny_run/report.html" in out
    names = {"config.json", "metrics.jsonl", "scores.json", "report.html"}
    names |= {"reconstructions.png", "traversals_1.png", "hybrids.png", "loss.png"}
    assert names <= {p.name for p in workdir.iterdir()}
    # Later commands need only the folder.
    (workdir / "report.html").unlink()
    assert run(capsys, "report", str(workdir))[0] == 0
    assert (workdir / "report.html").exists()
    assert run(capsys, "evaluate", str(workdir))[0] == 0
    # The same run may be trained for longer, and only that.
    longer = ["train", f"--config={file}", "--config.train.num_steps=6"]
    code, out, _ = run(capsys, *longer)
    assert code == 0 and "continuing from the checkpoint of step 4" in out
    assert json.loads((workdir / "config.json").read_text())["train"]["num_steps"] == 6


def test_long_cpu_run_says_how_long_at_once(capsys, tmp_path, monkeypatch):
    from disentangle_jax.training import loop

    def stop(*_):
        raise loop.Interrupted(15, 0)

    monkeypatch.setattr(loop, "_initial_carry", stop)  # Before any compilation.
    code, out, _ = run(capsys, "train", SAE)
    assert code == 143
    assert "This will take about" in out and ":quick" in out


def test_version(capsys):
    assert run(capsys, "--version") == (0, "disentangle_jax 0.1.0\n", "")
