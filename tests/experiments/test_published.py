"""Published tables: sources, numbers, the dataset that a rendering is compared with."""

import pytest

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
