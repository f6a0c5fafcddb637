"""Published tables: sources, numbers, the dataset that a rendering is compared with."""

import pytest

from disentangle_jax import data, metrics
from disentangle_jax.experiments import published


@pytest.mark.parametrize("name", published.names())
def test_every_row_has_a_source(name):
    rows = published.table(name)
    assert rows and all(row["source"] and None not in row.values() for row in rows)


def test_rows_are_chosen_by_their_columns():
    (row,) = published.table("perceived_distances", dataset="cars3d", factor="object")
    assert (row["mean"], row["standard_deviation"]) == ("0.0349", "0.0176")
    assert published.table("perceived_distances", dataset="mnist") == []
    with pytest.raises(ValueError, match="Did you mean 'perceived_distances'"):
        published.table("perceived_distance")


def test_rendered_datasets_have_the_values_of_the_dataset_they_render():
    assert published.original("rendered_dsprites") == "dsprites"
    assert "those of dsprites" in published.note("rendered_dsprites")
    assert published.note("dsprites") == ""


def test_scores_of_models_have_deviation_setting_and_source():
    found = published.scores("rendered_shapes3d")
    assert found == published.scores("shapes3d")
    vct = next(row for row in found if row["model"] == "VCT")
    assert vct["dci.disentanglement"] == "0.884 ± 0.013"
    assert "10 seeds" in vct["setting"] and "FDAE" in vct["source"]
    sae = next(row for row in found if row["model"] == "sae-12")
    assert sae["dci.completeness"] == "0.900" and "12 latents" in sae["setting"]
    (encdiff, again) = [row for row in found if row["model"] == "EncDiff"]
    assert "mig" not in encdiff and again["dci.disentanglement"] == "0.901"
    with pytest.raises(ValueError, match="Did you mean 'shapes3d'"):
        published.scores("shape3d")


def test_every_score_of_a_model_is_a_number_of_a_known_score():
    known = {"DCI (mean of three)"}  # A mean that no score of ours reports.
    for name in metrics.names():
        for key in metrics.describe(name).keys:
            known.add(name if key == name else f"{name}.{key}")
    for dataset in published.datasets():
        assert dataset in data.names()
        for row in published.scores(dataset):
            about = ("model", "setting", "source")
            assert all(row[key] for key in about)
            values = {k: v for k, v in row.items() if k not in about}
            assert values and set(values) <= known
            assert all(0 <= float(v.partition(" ")[0]) <= 1 for v in values.values())


def test_shares_and_correlations_of_the_study():
    (row,) = published.table(
        "challenging_assumptions_variance", dataset="cars3d", explained_by="objective"
    )
    assert (row["dci"], row["sap"]) == ("0.36", "0.13")
    matrix = published.table("challenging_assumptions_datasets", score="dci")
    order = [row["dataset"] for row in matrix]
    values = [[float(row[name]) for name in order] for row in matrix]
    assert values == [list(column) for column in zip(*values)]
    assert all(values[i][i] == 1 for i in range(7))
