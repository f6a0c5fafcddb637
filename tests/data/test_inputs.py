"""What a batch carries: shapes, contents, shards and errors of every input."""

import jax
import numpy as np
import pytest
import scipy.sparse

from disentangle_jax import data

SETTINGS = {"name": "some_dataset", "changed_factors": "2", "num_labels": 13}
STREAM = {
    "batch_size": 8,
    "seed": 3,
    "start_step": 2,
    "num_steps": 4,
    "prefetch": 2,
    "process_index": 0,
    "process_count": 1,
}
INPUTS = (data.Images(), data.ImagePairs(), data.LabelledImages(), data.WordCounts())


@pytest.fixture(scope="module")
def squares():
    return data.load("xysquares")


@pytest.fixture(scope="module")
def corpus():
    return data.load("synthetic_topics", documents=100)


def batches(inputs, dataset, **changes):
    stream = inputs.stream(dataset, SETTINGS, **{**STREAM, **changes})
    return list(stream)


@pytest.mark.parametrize("inputs", INPUTS, ids=lambda own: type(own).__name__)
def test_shapes_and_shards(inputs, squares, corpus):
    dataset = corpus if inputs.observation == "counts" else squares
    inputs.check(dataset, SETTINGS)
    whole = batches(inputs, dataset)
    assert len(whole) == 4
    for batch in whole:
        found = {
            name: jax.ShapeDtypeStruct(array.shape, array.dtype)
            for name, array in batch.items()
        }
        assert found == inputs.shapes(dataset, 8)
        assert inputs.observation in batch
    shards = [
        batches(inputs, dataset, process_index=i, process_count=2) for i in range(2)
    ]
    for expected, *parts in zip(whole, *shards, strict=True):
        for name, array in expected.items():
            together = np.concatenate([part[name] for part in parts])
            np.testing.assert_array_equal(together, array)
    later = batches(inputs, dataset, start_step=5, num_steps=1)[0]
    for name, array in whole[3].items():
        np.testing.assert_array_equal(later[name], array)


@pytest.mark.parametrize(
    "inputs, pairs, names",
    [
        (data.Images(), None, {"image": "image"}),
        (data.ImagePairs(), 2, {"image": "image", "image2": "image2"}),
        (data.LabelledImages(), None, {"image": "image"}),
    ],
)
def test_images_are_those_of_the_pipeline(inputs, pairs, names, squares):
    expected = data.pipeline(
        squares, batch_size=8, seed=3, start_step=2, num_steps=4, pairs=pairs
    )
    for ours, batch in zip(batches(inputs, squares), expected, strict=True):
        for name, other in names.items():
            np.testing.assert_array_equal(ours[name], batch[other])


def test_pairs_may_change_by_a_named_rule(squares):
    settings = {**SETTINGS, "changed_factors": "dlib"}
    ours = data.ImagePairs().stream(squares, settings, **STREAM)
    expected = data.pipeline(
        squares, batch_size=8, seed=3, start_step=2, num_steps=4, pairs="dlib"
    )
    for batch, other in zip(ours, expected, strict=True):
        np.testing.assert_array_equal(batch["image2"], other["image2"])


def test_labelled_images_are_repeated_in_order(squares):
    known = np.random.default_rng([3, 13]).choice(squares.indices, 13, replace=False)
    for step, batch in enumerate(batches(data.LabelledImages(), squares), 2):
        rows = [known[(8 * step + row) % 13] for row in range(8)]
        np.testing.assert_array_equal(batch["labelled_image"], squares.images(rows))
        np.testing.assert_array_equal(batch["labels"], squares.factors(rows))


def test_word_counts(corpus):
    expected = data.pipeline(corpus, batch_size=8, seed=3, start_step=2, num_steps=4)
    for ours, batch in zip(batches(data.WordCounts(), corpus), expected, strict=True):
        assert list(ours) == ["counts"]
        np.testing.assert_array_equal(ours["counts"], batch["image"])


def test_images_and_pairs_are_drawn_on_the_device(squares, corpus, getkey):
    draw, arrays = data.Images().on_device(squares, SETTINGS)
    batch = draw(getkey(), 4, arrays)
    np.testing.assert_array_equal(batch["image"], squares.images(batch["index"]))
    draw, arrays = data.ImagePairs().on_device(squares, SETTINGS)
    batch = draw(getkey(), 4, arrays)
    pair = squares.factors(np.stack([batch["index"], batch["index2"]]))
    assert ((pair[0] != pair[1]).sum(axis=1) == int(SETTINGS["changed_factors"])).all()
    for inputs in INPUTS[2:]:
        with pytest.raises(ValueError, match="`train.input` must be 'stream'"):
            inputs.on_device(corpus, SETTINGS)


def test_datasets_that_do_not_fit(squares, corpus):
    for inputs in INPUTS[:3]:
        with pytest.raises(ValueError, match="needs images, and some_dataset holds do"):
            inputs.check(corpus, SETTINGS)
    with pytest.raises(ValueError, match="needs documents, and some_dataset holds im"):
        data.WordCounts().check(squares, SETTINGS)
    plain = data.Dataset("plain", image_shape=(2, 2, 1), images=lambda i: i, length=20)
    data.Images().check(plain, SETTINGS)
    for inputs in (data.ImagePairs(), data.LabelledImages()):
        with pytest.raises(ValueError, match="needs a dataset with factors, and some"):
            inputs.check(plain, SETTINGS)
    few = squares.narrow(np.arange(12))
    message = "`data.num_labels` must be at most the 12 training images of some_dataset"
    with pytest.raises(ValueError, match=message):
        data.LabelledImages().check(few, SETTINGS)


def test_empty_documents():
    counts = scipy.sparse.csr_array(np.array([[0, 2], [0, 0], [1, 0]]))
    corpus = data.Corpus("mine", counts, ["ball", "god"])
    with pytest.raises(ValueError, match="1 training documents of some_dataset have"):
        data.WordCounts().check(corpus, SETTINGS)
    data.WordCounts().check(corpus.without_empty(), SETTINGS)
