"""Scores and page of a model whose codes lie in labelled regions."""

import pytest

from disentangle_jax import evaluation, reports


@pytest.fixture(scope="module")
def finished(tiny_absae):
    """A trained run and its scores."""
    return tiny_absae[0], evaluation.evaluate(tiny_absae[0])


def test_scores_of_regions_and_relations(finished):
    run, scores = finished
    found = scores["regions"]
    assert found["fitted"] == found["regions"] == 27
    assert found["factor_sizes"] == [3, 3, 3] and found["tau"] == 3
    assert len(found["clusters"]) == 2 * 6 and len(found["relations"]) == 2 * 3 * 12
    everything = found["clusters"][0]
    assert everything["alpha"] == 0 and everything["accepted"] == 1
    for rows in (
        found["clusters"],
        [r for r in found["relations"] if (r["source"], r["depth"]) == ("images", 5)],
    ):
        for row in rows:
            if row["accepted"] and rows is found["clusters"]:
                right = row["accuracy"] * row["accepted"]
                assert right <= everything["accuracy"] + 1e-9
            assert (row["accuracy"] is None) == (row["accepted"] == 0)
    assert set(found["factor_codes"]) == {"dci", "mig", "sap"}
    assert evaluation.read_scores(run.workdir)["regions"] == found


def test_page_shows_regions_and_relations(finished):
    run, _ = finished
    page = reports.write(run.workdir).read_text()
    for text in (
        "Which region does a test image fall into?",
        "Do relations lead to the right region?",
        "Are outliers rejected?",
        "Three relations, one after the other",
        "Means of the regions",
    ):
        assert text in page
    for name in ("region_means", "relations", "relation_chains"):
        content = (run.workdir / f"{name}.png").read_bytes()
        assert content.startswith(b"\x89PNG")
    pictures = evaluation.read_arrays(run.workdir)
    assert pictures["region_means"].shape == (27, 64, 64, 1)
    assert pictures["relation_strips"].shape == (5 * 6, 3, 64, 64, 1)
    assert pictures["chain_strips"].shape == (6, 5, 64, 64, 1)
    assert pictures["chains"].shape == (6, 3)
