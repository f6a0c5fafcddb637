"""Descriptions of datasets, and datasets of users."""

import inspect

import numpy as np
import pytest

from disentangle_jax import data
from disentangle_jax.data import catalogue


@pytest.mark.parametrize("name", data.names())
def test_descriptions(name):
    function = catalogue.find(name, "test")
    entry = data.describe(name)
    assert entry is function.description and entry.name == name
    assert entry.size and entry.licence
    assert bool(entry.fetch) == bool(entry.files)
    assert entry.factors or entry.note
    parameters = inspect.signature(function).parameters.values()
    assert all(p.kind is p.KEYWORD_ONLY for p in parameters)
    assert [p.name for p in parameters][:2] == ["data_dir", "split"]
    if entry.moments is not None:
        assert [len(m) for m in entry.moments] == [entry.image_shape[-1]] * 2


@pytest.mark.parametrize(
    "name", [name for name in data.names() if not data.describe(name).fetch]
)
def test_datasets_without_files_are_as_described(name):
    entry, dataset = data.describe(name), data.load(name, split="all")
    assert dataset.name == name
    assert dataset.factor_names == entry.factor_names
    assert dataset.factor_sizes == entry.factor_sizes
    assert isinstance(dataset, data.Corpus) == entry.documents
    if not entry.documents:
        assert dataset.image_shape == entry.image_shape
        assert entry.size.startswith(f"{len(dataset):,}")


@data.define(factors={"colour": 4, "size": 8}, image_shape=(2, 2, 1), size="32")
def blocks(*, data_dir=None, split="train", value=7):
    images = np.full((32, 2, 2, 1), value, np.uint8)
    return blocks.description.dataset(lambda i: images[i]).split(split)


def undescribed(*, split="train", **options):
    return blocks(split=split, value=options.get("value", 5))


def no_dataset(*, data_dir=None, split="train"):
    return [1, 2, 3]


def test_datasets_of_users():
    mine = data.load(f"{__name__}:blocks", split="all")
    assert mine.name == "blocks" and len(mine) == 32
    assert mine.factor_sizes == (4, 8) and (mine.images([3]) == 7).all()
    assert data.describe(f"{__name__}:blocks").factor_names == ("colour", "size")
    assert "blocks" not in data.names()
    plain = data.load(f"{__name__}:undescribed", value=9)
    assert len(plain.indices) == 23 and (plain.images([3]) == 9).all()
    with pytest.raises(ValueError, match="Did you mean 'value'"):
        data.load(f"{__name__}:blocks", valu=9)


def test_what_is_no_dataset():
    with pytest.raises(ValueError, match="Did you mean 'blocks'"):
        data.load(f"{__name__}:block")
    with pytest.raises(ValueError, match="must name a dataset"):
        data.describe(f"{__name__}:undescribed")
    with pytest.raises(TypeError, match="no_dataset returned list"):
        data.load(f"{__name__}:no_dataset")
    with pytest.raises(ValueError, match="Did you mean 'cars3d'"):
        data.describe("cars3")
