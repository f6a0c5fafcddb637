"""Many models as rows: one grammar for lanes, sweeps and protocols."""

import pytest

from disentangle_jax import config as config_lib
from disentangle_jax import rows
from tests.training import tiny


def beta_config():
    config = tiny.config()
    config.method.name = "beta_vae"
    config.method.beta = 1.0
    return config


def test_product_of_sweep_and_seeds_and_listed_rows():
    config = beta_config()
    config.train.seed = 5
    config.lanes.seeds = 2
    config.lanes.sweep["method.beta"] = (1.0, 4.0)
    expected = [
        {"method.beta": beta, "train.seed": seed}
        for beta in (1.0, 4.0)
        for seed in (5, 6)
    ]
    assert rows.of(config) == expected
    listed = beta_config()
    listed.lanes.rows = tuple(expected)
    assert rows.of(listed) == expected
    assert rows.of(tiny.config()) == [{"train.seed": 0}]


def test_every_field_of_a_config_says_what_it_affects():
    known = {"model", "seed", "length", "rows", "execution", "evaluation"}
    fields = {
        f"{section}.{name}"
        for section, values in config_lib.default().items()
        for name in values
    }
    assert fields == set(config_lib.FIELDS)
    assert {config_lib.affects(name) for name in fields} == known
    assert config_lib.affects("method.beta") == "model"
    assert config_lib.affects("study.logistic_labels") == "evaluation"


@pytest.mark.parametrize(
    "field, value, model, workdir, result",
    [  # whether two configs that differ in the field count as the same
        ("method.beta", 4.0, False, False, False),
        ("model.width", 16, False, False, False),
        ("train.num_steps", 24, False, True, False),
        ("train.seed", 1, True, False, False),
        ("data.seed", 1, True, False, False),
        ("eval.num_train", 50, True, True, False),
        ("train.log_every", 4, True, True, True),
        ("data.data_dir", "elsewhere", True, True, True),
        ("lanes.seeds", 3, True, False, True),
    ],
)
def test_which_fields_make_the_model(field, value, model, workdir, result):
    config = beta_config()
    one, other = rows.flat(config), rows.flat(rows.apply(config, {field: value}))
    same = [
        rows.identity(one, kinds) == rows.identity(other, kinds)
        for kinds in (rows.MODEL, rows.WORKDIR, rows.RESULT)
    ]
    assert same == [model, workdir, result]
    assert (rows.fingerprint(one) == rows.fingerprint(other)) == result
    text = rows.differences(one, other, rows.WORKDIR)
    assert bool(text) != workdir
    if text:
        assert text[0].startswith(f"{field} was ")


def test_rows_of_one_program_are_packed_in_equal_parts():
    config = beta_config()
    wide = [
        {"model.width": width, "method.beta": float(beta), "train.seed": seed}
        for width in (8, 16)
        for beta in (1, 2, 3)
        for seed in (0, 1)
    ]
    packs = rows.packs(config, wide, lambda program, group: 4)
    # Six rows a program, at most four together: two parts of three each.
    assert [len(pack) for pack in packs] == [3, 3, 3, 3]
    for pack in packs:
        assert len({row["model.width"] for row in pack}) == 1
        together = rows.together(config, pack)
        assert together.model.width == pack[0]["model.width"]
        lanes = rows.of(together)
        assert [lane["train.seed"] for lane in lanes] == [r["train.seed"] for r in pack]
        assert all("model.width" not in lane for lane in lanes)
        for lane, row in zip(lanes, pack):
            alone = rows.alone(together, lane)
            assert rows.fingerprint(rows.flat(alone)) == rows.fingerprint(
                {**rows.flat(config), **row}
            )


def test_rows_with_unknown_fields_are_refused():
    common = rows.flat(beta_config())
    with pytest.raises(ValueError, match="Did you mean 'train.num_steps'"):
        rows.checked(common, {"train.num_step": 3}, "sweep")
    checked = rows.checked(common, {"method.beta": 4, "train.mesh": (1, 2)}, "sweep")
    assert checked == {"method.beta": 4.0, "train.mesh": [1, 2]}


def test_the_hyperparameters_that_each_method_varies():
    swept = [
        {"method.name": "beta_vae", "method.beta": beta, "train.seed": seed}
        for beta in (1.0, 4.0)
        for seed in (0, 1)
    ]
    swept += [{"method.name": "vae", "method.warmup": 2}, {"method.name": "vae"}]
    methods = [row["method.name"] for row in swept]
    assert rows.hyperparameters(methods, swept) == {"beta_vae": "beta", "vae": ""}
