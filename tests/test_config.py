"""Configs: every field is read, every file loads, values are typed."""

import pathlib

import pytest
from ml_collections import ConfigDict

from disentangle_jax import config as config_lib
from disentangle_jax import data, evaluation, experiments, training
from tests.training import tiny

CONFIGS = sorted((pathlib.Path(__file__).parents[1] / "configs").glob("*.py"))
EXPERIMENTS = sorted((CONFIGS[0].parent / "experiments").glob("*.py"))


def test_every_field_is_read(tmp_path, monkeypatch):
    configs = [tiny.config(num_steps=2, checkpoint_every=1, log_every=1)]
    for method in ("ada_gvae", "few_labels_vae"):
        configs.append(tiny.config(num_steps=1, checkpoint_every=1, log_every=1))
        configs[-1].method.name = method
    configs[-1].method.gamma_sup = 1.0
    configs[-1].model.latent_dim = 6
    configs[-1].lanes.seeds = 2
    configs.append(configs[0].copy_and_resolve_references())
    configs[-1].train.start_from = str(tmp_path / "0")
    texts = {id(config): config.to_json() for config in configs}
    sections = {id(config[name]): name for config in configs for name in config}
    read = set()
    plain = ConfigDict.__getitem__

    def recorded(self, field):
        if id(self) in sections:
            read.add((sections[id(self)], field))
        return plain(self, field)

    # Writing the config to disk touches all fields and uses none.
    plain_json = ConfigDict.to_json
    monkeypatch.setattr(
        ConfigDict, "to_json", lambda self: texts.get(id(self)) or plain_json(self)
    )
    monkeypatch.setattr(ConfigDict, "__getitem__", recorded)
    for number, config in enumerate(configs):
        run = training.prepare(config, tmp_path / str(number))
        training.train(run)
        if number == 0:
            evaluation.evaluate(run)
    fields = {(s, f) for s, values in config_lib.default().items() for f in values}
    assert fields - read == set()


@pytest.mark.parametrize("path", CONFIGS, ids=lambda p: p.stem)
def test_config_file_says_what_it_is_and_is_valid(path, tmp_path):
    text = path.read_text()
    for word in ("Paper:", "Command::", "Expected:", f"configs/{path.name}"):
        assert word in text, f"{path.name} lacks {word}"
    for preset in ("", ":quick"):
        config = config_lib.load(f"{path}{preset}")
        assert set(config) == set(config_lib.default())
        training.prepare(config, tmp_path / "run")


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda p: p.stem)
def test_experiment_file_says_what_it_is_and_is_valid(path, tmp_path):
    text = path.read_text()
    for word in (
        "Paper:",
        "Command::",
        "Expected:",
        f"configs/experiments/{path.name}",
    ):
        assert word in text, f"{path.name} lacks {word}"
    config = config_lib.load(f"{path}:quick")
    assert set(config) == {*config_lib.default(), "experiment"}
    experiments.prepare(config, tmp_path / "run")


def test_scores_with_options_on_the_command_line():
    overrides = ["--config.eval.scores=dci(estimator=gbt_exact),mig"]
    config = config_lib.override(config_lib.default(), overrides)
    assert config.eval.scores == ("dci(estimator=gbt_exact)", "mig")


def test_paper_setting_of_sae():
    config = config_lib.load(str(CONFIGS[0].parent / "sae.py"))
    assert (config.train.batch_size, config.train.num_steps) == (128, 100_000)
    assert config.optimizer.learning_rate == 5e-4
    assert (config.model.channels, config.model.latent_dim) == (64, 12)


def test_overrides_are_typed_by_the_default():
    file = str(CONFIGS[0].parent / "sae.py")
    config = config_lib.load(
        file,
        [
            "--config.train.seed=7",
            "--config.optimizer.learning_rate=1",
            "--config.eval.scores=mig,dci",
            "--config.data.name=xysquares",
            "--config.data.options.spacing=2",
            "--config.model.nonlinearity=elu",
            "--config.model.remat=true",
        ],
    )
    assert config.train.seed == 7
    assert config.optimizer.learning_rate == 1.0
    assert type(config.optimizer.learning_rate) is float
    assert config.eval.scores == ("mig", "dci")
    assert config.data.name == "xysquares"
    assert config.data.options.spacing == 2
    assert (config.model.nonlinearity, config.model.remat) == ("elu", True)


def test_configs_of_earlier_versions_are_completed():
    config = config_lib.default()
    config.eval.seed = 5
    del config.eval["fid_images"]
    completed = config_lib.complete(config)
    assert completed.eval.fid_images == config_lib.default().eval.fid_images
    assert completed.eval.seed == 5


@pytest.mark.parametrize(
    "preset, name, images, epochs",
    [
        ("dsprites", "dsprites_27", 12_150, (1000, 6000)),
        ("shapes3d", "shapes3d_120", 19_200, (5000, 15_000)),
        ("symbols", "symbols_13", 50_674, (1000, 6000)),
    ],
)
def test_paper_settings_of_absae(preset, name, images, epochs):
    config = config_lib.load(f"{CONFIGS[0].parent / 'absae.py'}:{preset}")
    assert config.data.name == name and config.method.name == "absae"
    assert "labelled_batch" not in config.method
    assert (config.train.batch_size, config.method.relation_batch) == (1024, 128)
    # 72 % of the images, and of dSprites three copies with either kind of noise.
    parts = data.split_indices(images, recipe=config.data.split_recipe)
    count = len(parts["train"]) * (7 if preset == "dsprites" else 1)
    assert len(parts["validation"]) == pytest.approx(0.08 * images, abs=1)
    steps = [number * count // 1024 for number in epochs]
    assert [config.method.warmup_steps, config.train.num_steps] == steps
    if preset == "symbols":
        assert steps == [35_630, 213_785]


def test_a_tuple_of_one_name_may_end_with_a_comma():
    config = config_lib.override(config_lib.default(), ["--config.eval.scores=mig,"])
    assert config.eval.scores == ("mig",)


def test_shipped_configs_are_found_from_any_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("sae", "configs/sae.py"):
        path, preset = config_lib.find(f"{name}:quick")
        assert path.parts[-2:] == ("configs", "sae.py") and preset == "quick"
    path, preset = config_lib.find("experiments/zero_shot")
    assert path.stem == "zero_shot" and preset == ""
    own = tmp_path / "sae"
    own.write_text("")  # A file of your own comes first.
    assert config_lib.find("sae")[0].resolve() == own
    with pytest.raises(ValueError, match="no file sea. Give the path .* mean 'sae'"):
        config_lib.find("sea")
