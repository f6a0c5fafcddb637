"""What each set is, its licence, where it comes from and where its files belong."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Entry:
    """One set.

    Attributes:
      module: module of this room with the function that loads it.
      factors: factors and their sizes, in words.
      size: number and shape of the images.
      licence: licence or terms.
      fetch: address of the publisher's files; empty where nothing is fetched.
      files: what belongs into ``data_dir``.
      md5: published MD5 sum by file name.
      tfds: name of TensorFlow Datasets' own builder, if it has one.
    """

    module: str
    factors: str
    size: str
    licence: str
    fetch: str = ""
    files: str = ""
    md5: Mapping[str, str] = field(default_factory=dict)
    tfds: str = ""


_DSPRITES = "dsprites_ndarray_co1sh3sc6or40x32y32_64x64"
_DSPRITES_FETCH = "https://github.com/google-deepmind/dsprites-dataset"
_DSPRITES_FILES = f"{_DSPRITES}.npz (or .hdf5)"
_DSPRITES_MD5 = {f"{_DSPRITES}.hdf5": "b331c4447a651c44bf5e8ae09022e230"}
_DSPRITES_FACTORS = "shape 3, scale 6, orientation 40, x 32, y 32"
_MPI3D = "https://storage.googleapis.com/mpi3d_disentanglement_dataset/data"
_MPI3D_FACTORS = (
    "colour 6, shape 6, size 2, camera 3, background 3, horizontal 40, vertical 40"
)


def _mpi3d(file: str, md5: str) -> Entry:
    return Entry(
        "_mpi3d",
        _MPI3D_FACTORS,
        "1,036,800 × 64×64×3",
        "CC BY 4.0",
        f"{_MPI3D}/{file}",
        file,
        {file: md5},
    )


CATALOGUE: dict[str, Entry] = {
    "abstract_dsprites": Entry(
        "_dsprites_variants",
        "background 5, object colour 6, shape 3, scale 6, x 32, y 32",
        "552,960 combinations × 40 orientations, 64×64×3",
        "Apache-2.0",
        _DSPRITES_FETCH,
        _DSPRITES_FILES,
        _DSPRITES_MD5,
    ),
    "cars3d": Entry(
        "_cars3d",
        "elevation 4, azimuth 24, object 183",
        "17,568 × 64×64×3",
        "not stated by the publisher",
        "http://www.scottreed.info/files/nips2015-analogy-data.tar.gz",
        "the archive's folder data/cars (183 .mat files)",
        {"nips2015-analogy-data.tar.gz": "4e866a7919c1beedf53964e6f7a23686"},
    ),
    "celeba": Entry(
        "_celeba",
        "40 binary attributes",
        "202,599 × 128×128×3",
        "non-commercial research only",
        "https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html",
        "img_align_celeba/*.jpg, list_attr_celeba.txt and list_eval_partition.txt",
        tfds="celeb_a",
    ),
    "color_dsprites": Entry(
        "_dsprites_variants",
        _DSPRITES_FACTORS,
        "737,280 × 64×64×3",
        "Apache-2.0",
        _DSPRITES_FETCH,
        _DSPRITES_FILES,
        _DSPRITES_MD5,
    ),
    "dsprites": Entry(
        "_dsprites",
        _DSPRITES_FACTORS,
        "737,280 × 64×64×1",
        "Apache-2.0",
        _DSPRITES_FETCH,
        _DSPRITES_FILES,
        _DSPRITES_MD5,
        tfds="dsprites",
    ),
    "dsprites_27": Entry(
        "_regions",
        "shape 3, x 3, y 3 (bands; scale and orientation vary)",
        "12,150 of dsprites, and noisy copies, 64×64×1",
        "Apache-2.0",
        _DSPRITES_FETCH,
        _DSPRITES_FILES,
        _DSPRITES_MD5,
    ),
    "fashion_mnist": Entry(
        "_mnist",
        "label 10",
        "60,000 + 10,000 × 28×28×1",
        "MIT",
        "https://github.com/zalandoresearch/fashion-mnist",
        "the four *-ubyte.gz files",
        tfds="fashion_mnist",
    ),
    "hwf": Entry(
        "_folders",
        "symbol 13 (0–9, +, −, ×)",
        "about 50,000 × 45×45×1",
        "CC0 (Kaggle, handwritten math symbols)",
        "https://www.kaggle.com/datasets/xainano/handwrittenmathsymbols",
        "its folders 0 … 9, +, -, times",
    ),
    "image_folder": Entry(
        "_folders",
        "label, where the images lie in sub-folders",
        "any",
        "yours",
        "your own images",
        "PNG or JPEG files, in sub-folders by label if you like,",
    ),
    "mnist": Entry(
        "_mnist",
        "label 10",
        "60,000 + 10,000 × 28×28×1",
        "CC BY-SA 3.0",
        "https://storage.googleapis.com/cvdf-datasets/mnist",
        "the four *-ubyte.gz files",
        tfds="mnist",
    ),
    "mpi3d_real": _mpi3d("real.npz", "0f33f609918fb5c97996692f91129802"),
    "mpi3d_realistic": _mpi3d(
        "mpi3d_realistic.npz", "59a6225b88b635365f70c91b3e52f70f"
    ),
    "mpi3d_toy": _mpi3d("mpi3d_toy.npz", "55889cb7c7dfc655d6e0277beee88868"),
    "newsgroups": Entry(
        "_text",
        "newsgroup 20",
        "11,314 + 7,532 documents",
        "public posts, no licence stated",
        "http://qwone.com/~jason/20Newsgroups (sklearn.datasets.fetch_20newsgroups"
        "(data_home=DIR) does)",
        "20news-bydate_py3.pkz (or the ETM files bow_*_tokens.mat, bow_*_counts.mat "
        "and vocab.pkl)",
    ),
    "noisy_dsprites": Entry(
        "_dsprites_variants",
        _DSPRITES_FACTORS,
        "737,280 × 64×64×3",
        "Apache-2.0",
        _DSPRITES_FETCH,
        _DSPRITES_FILES,
        _DSPRITES_MD5,
    ),
    "rendered_dsprites": Entry(
        "_rendered_dsprites", _DSPRITES_FACTORS, "737,280 × 64×64×1", "Apache-2.0"
    ),
    "rendered_dsprites_27": Entry(
        "_regions",
        "shape 3, x 3, y 3 (bands; scale and orientation vary)",
        "12,150 of rendered_dsprites, and noisy copies, 64×64×1",
        "Apache-2.0",
    ),
    "rendered_shapes3d": Entry(
        "_rendered_shapes3d",
        "floor hue 10, wall hue 10, object hue 10, scale 8, shape 4, orientation 15",
        "480,000 × 64×64×3",
        "Apache-2.0",
    ),
    "rendered_shapes3d_120": Entry(
        "_regions",
        "object hue 10, shape 4, scale 3 (bands; floor, wall, orientation vary)",
        "19,200 of rendered_shapes3d, 64×64×3",
        "Apache-2.0",
    ),
    "rfd": Entry(
        "_rfd",
        "colour 8 (12 held out), 3 joints 30, x 30, y 30, angle 10 (shape 1, size 1)",
        "1,000,000 × 128×128×3, test sets of held-out colours and of real photographs",
        "see the archive's README",
        "https://people.tuebingen.mpg.de/ei-datasets/iclr_transfer_paper/"
        "robot_finger_datasets.tar",
        "the archive's folder robot_finger_datasets",
    ),
    "scream_dsprites": Entry(
        "_dsprites_variants",
        _DSPRITES_FACTORS,
        "737,280 × 64×64×3",
        "Apache-2.0; the painting is in the public domain",
        f"{_DSPRITES_FETCH} and "
        "https://upload.wikimedia.org/wikipedia/commons/f/f4/The_Scream.jpg",
        f"{_DSPRITES_FILES} and The_Scream.jpg",
        _DSPRITES_MD5,
    ),
    "shapes3d": Entry(
        "_shapes3d",
        "floor hue 10, wall hue 10, object hue 10, scale 8, shape 4, orientation 15",
        "480,000 × 64×64×3",
        "Apache-2.0",
        "https://storage.googleapis.com/3d-shapes/3dshapes.h5",
        "3dshapes.h5",
        {"3dshapes.h5": "099a2078d58cec4daad0702c55d06868"},
        tfds="shapes3d",
    ),
    "shapes3d_120": Entry(
        "_regions",
        "object hue 10, shape 4, scale 3 (bands; floor, wall, orientation vary)",
        "19,200 of shapes3d, 64×64×3",
        "Apache-2.0",
        "https://storage.googleapis.com/3d-shapes/3dshapes.h5",
        "3dshapes.h5",
        {"3dshapes.h5": "099a2078d58cec4daad0702c55d06868"},
    ),
    "smallnorb": Entry(
        "_smallnorb",
        "category 5, elevation 9, azimuth 18, lighting 6 (instance 10 hidden, or 5)",
        "48,600 (or 24,300) × 64×64×1",
        "research only",
        "https://cs.nyu.edu/~ylclab/data/norb-v1.0-small",
        "the six smallnorb-*.mat files, unpacked,",
        {
            "smallnorb-5x46789x9x18x6x2x96x96-training-dat.mat": (
                "66054832f9accfe74a0f4c36a75bc0a2"
            ),
            "smallnorb-5x01235x9x18x6x2x96x96-testing-dat.mat": (
                "e4ad715691ed5a3a5f138751a4ceb071"
            ),
        },
        tfds="smallnorb",
    ),
    "symbols_13": Entry(
        "_regions",
        "symbol 13 (0–9, +, −, ×)",
        "those of hwf, evenly drawn, 45×45×1",
        "CC0 (Kaggle, handwritten math symbols)",
        "https://www.kaggle.com/datasets/xainano/handwrittenmathsymbols",
        "its folders 0 … 9, +, -, times",
    ),
    "synthetic_topics": Entry(
        "_text", "none; the topics are known", "2,000 documents", "Apache-2.0"
    ),
    "xysquares": Entry(
        "_xysquares",
        "x and y of a red, a green and a blue square, 8 each",
        "262,144 × 64×64×3",
        "Apache-2.0",
    ),
}
