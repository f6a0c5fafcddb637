"""The page of a study, with a planted effect and with missing models."""

import csv
import html
import itertools
import json

import numpy as np
from PIL import Image

from disentangle_jax import config as config_lib
from disentangle_jax import experiments
from disentangle_jax.reports import study as plots
from tests.training import tiny


def planted_rows(rng, datasets=("left", "right"), seeds=3):
    """Rows of two methods, the second better by one, with every column of a sweep."""
    rows = []
    for d, dataset in enumerate(datasets):
        for m, method in enumerate(("vae", "tcvae")):
            for strength, seed in itertools.product((1.0, 4.0), range(seeds)):
                base = m + 0.1 * strength + 0.05 * rng.normal()
                row = {
                    "id": f"{dataset}-{method}-{strength}-{seed}",
                    "dataset": dataset, "method": method, "strength": strength,
                    "seed": seed, "pack": 0, "finite": True, "seconds": 1.0,
                    "mig": base, "dci.disentanglement": base + d, "sap": -base,
                    "factor_vae_score": rng.random(), "bce": 100 - base, "kl": base,
                    "tc_mean": base, "tc_sampled": base / 2,
                    "downstream.accuracy_10": base, "downstream.accuracy_100": base,
                    "downstream.efficiency": rng.random(),
                    "downstream_logistic.accuracy_10": rng.random(),
                }  # fmt: skip
                rows.append(row)
    return rows


def test_page_of_a_study(tmp_path, rng):
    rows = planted_rows(rng)
    codes = {
        row["id"]: {"codes": rng.normal(size=(50, 2)), "kl": np.ones(2)} for row in rows
    }
    path = experiments.write_study(rows, codes, tmp_path / "study", planned=30)
    page = path.read_text()
    assert "24 of 30, 6 missing" in (path.parent / "models.csv").read_text()
    for words in (
        "Scores of each method on left",
        "score by hyperparameter value on right",
        "explained by the method",
        "explained by method and hyperparameter value",
        "Does one method beat another? MIG",
        "Do the scores agree?",
        "against the hyperparameter value on left",
        "Can a good model be identified without labels?",
        "model that agrees most",
        "Do good settings transfer?",
        "good on one dataset good on another?",
        "help to predict factors?",
        "need fewer labels?",
    ):
        assert words in page, words
    pictures = sorted(path.parent.glob("*.png"))
    assert len(pictures) == page.count("data:image/png;base64,") == 16
    for picture in pictures:
        image = np.asarray(Image.open(picture).convert("L"))
        assert image.shape[1] == 800 and image.std() > 5
    # The planted effect: the method explains nearly all of MIG, and beats the other.
    with (path.parent / "variance_method.csv").open() as file:
        table = list(csv.DictReader(file))
    assert [row["dataset"] for row in table] == ["left", "right"]
    assert int(table[0]["MIG"].split()[0]) > 80
    assert int(table[0]["FactorVAE"].split()[0]) < 50
    beats = (path.parent / "better_mig_intervals.csv").read_text()
    assert 'left,tcvae,vae,"100 [100, 100]"' in beats


def test_page_lists_where_a_sweep_differs_from_the_study(tmp_path, rng):
    file = f"{tiny.ROOT}/configs/studies/unsupervised.py"
    texts = {}
    for preset in ("", ":mini"):
        config = json.loads(config_lib.load(file + preset).to_json())
        rows = planted_rows(rng, datasets=("left",), seeds=1)[:3]
        page = experiments.write_study(rows, {}, tmp_path, recipe={"config": config})
        texts[preset] = page.read_text()
        assert "Differences from the paper" in texts[preset]
    assert "in the study it is" not in texts[""]
    mini = html.unescape(texts[":mini"])
    assert "`model.channel_scale` is 0.25; in the study it is 1.0." in mini


def test_page_of_a_partial_study(tmp_path, rng):
    rows = planted_rows(rng, datasets=("left",), seeds=1)[:3]
    for row in rows:
        for name in ("tc_mean", "tc_sampled", "kl", "downstream.efficiency"):
            row.pop(name)
    page = experiments.write_study(rows, {}, tmp_path).read_text()
    assert "A study of 3 models" in page and "need fewer labels" not in page
    assert "–" in page  # In place of undefined values.


def test_axes_have_the_swept_values():
    found = plots._apart({1.0, 2.0, 4.0, 16.0, 16.5, 100.0})
    assert found == [1.0, 2.0, 4.0, 16.0, 100.0]
    assert plots._apart({3.0}) == [3.0]
