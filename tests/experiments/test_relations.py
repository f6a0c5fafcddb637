"""The protocol of AbsAE's tables, on two steps of training."""

import csv
import json

import pytest
from ml_collections import ConfigDict

from disentangle_jax import experiments
from tests.training import tiny


def config(**options):
    tested = tiny.absae(warmup_steps=1)
    tested.train.update(num_steps=2, log_every=1, checkpoint_every=2)
    # The other methods have no such rate, and must do without its schedule.
    tested.train.schedules.relation_learning_rate = ("linear", 1.0, 0.5, 0, 2)
    tested.train.schedules.learning_rate = ("linear", 1.0, 0.1, 0, 2)
    given = {"name": "relations", "taus": (2.0, 3.0), "betas": (), **options}
    tested.experiment = ConfigDict(given)
    return tested


def test_tables_of_regions_relations_and_disentanglement(tmp_path):
    tested = config(vae_betas=(4.0,), gammas=(10.0,))
    experiment = experiments.prepare(tested, tmp_path)
    names = [pack.name for pack in experiment.packs]
    assert names == ["absae", "beta_vae", "factor_vae", "few_labels_vae"]
    few = experiment.packs[-1].config
    assert (few.data.num_labels, few.train.input) == (3 * 27, "stream")
    assert "relation_learning_rate" not in few.train.schedules
    # The critic of FactorVAE has the learning rate of all the others, and its schedule.
    critic = experiment.packs[2].config
    assert critic.method.critic_learning_rate == tested.optimizer.learning_rate
    schedules = critic.train.schedules
    assert schedules.critic_learning_rate == schedules.learning_rate
    page = experiments.run(experiment)
    text = page.read_text()
    for title in ("Table 4", "Table 5", "Table 1", "Fig. 5", "Figs. 9-12"):
        assert title in text
    values = json.loads((tmp_path / "result.json").read_text())["values"]
    assert set(values["clusters"]) == {"2", "3"}
    with (tmp_path / "table_4.csv").open() as file:
        head, *rows = csv.reader(file)
    assert head == ["", "τ", "ACC", "AR"] and len(rows) == 6 * 2
    assert rows[0][:2] == ["AbsAE, α = 0", "2"] and rows[0][3] == "1.000"
    first = values["clusters"]["2"][0][0]
    assert rows[0][2] == f"{first['accuracy']:.3f}"
    with (tmp_path / "table_5.csv").open() as file:
        rows = list(csv.reader(file))[1:]
    assert len(rows) == 6 * 3 and {row[1] for row in rows} == {"1", "5", "10"}
    with (tmp_path / "table_1.csv").open() as file:
        rows = list(csv.reader(file))[1:]
    assert [row[0] for row in rows][:4] == [
        "AbsAE (factors of its region)",
        "beta-VAE",
        "FactorVAE",
        "Locatello et al. (2019b), few labels",
    ]
    assert all("published" in row[0] for row in rows[4:]) and len(rows) == 9
    scored = values["disentanglement"]["absae"][0]
    stored = json.loads(
        (tmp_path / "absae" / "lanes" / "tau=3,seed=0" / "scores.json").read_text()
    )
    codes = stored["regions"]["factor_codes"]
    mean = sum(
        codes["dci"][name]
        for name in ("disentanglement", "completeness", "informativeness")
    )
    assert scored["dci"] == pytest.approx(mean / 3)


def test_wrong_configs(tmp_path):
    other = config()
    other.method = {"name": "vae"}
    swept = config()
    swept.lanes.sweep["method.tau"] = (1.0, 2.0)
    for wrong, message in (
        (other, "`method.name` must be 'absae'"),
        (swept, "`lanes.sweep` must be empty"),
        (config(taus=()), "`experiment.taus` must not be empty"),
    ):
        with pytest.raises(ValueError, match=message):
            experiments.prepare(wrong, tmp_path)
