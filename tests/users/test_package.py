"""The wheel and the sdist, tried from another folder; and the light install."""

import pathlib
import site
import subprocess
import sys
import tarfile
import textwrap
import zipfile

import pytest

ROOT = pathlib.Path(__file__).parents[2]
# What the light install needs beside the wheel, and what these need.
LIGHT = (
    "jax", "jaxlib", "numpy", "numpy.libs", "scipy", "scipy.libs", "sklearn",
    "scikit_learn.libs", "joblib", "threadpoolctl.py", "ml_dtypes", "opt_einsum",
)  # fmt: skip


def call(*command, cwd, check=True):
    """Runs a command without the checkout on its path."""
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, text=True, capture_output=True,
        env={"PATH": "/usr/bin:/bin", "HOME": str(cwd), "JAX_PLATFORMS": "cpu"},
    )  # fmt: skip
    assert not check or done.returncode == 0, done.stderr[-2000:]
    return done


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder]
    done = subprocess.run([*build, ROOT], text=True, capture_output=True)
    if done.returncode:
        pytest.skip(f"cannot build a wheel here: {done.stderr.splitlines()[-1]}")
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def sdist(tmp_path_factory):
    """Built by the backend itself, as `python -m build --sdist` does."""
    folder = tmp_path_factory.mktemp("sdist")
    tools = folder / "tools"
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", "-t", tools, "hatchling"],
        text=True, capture_output=True,
    )  # fmt: skip
    if done.returncode:
        pytest.skip(f"cannot build an sdist here: {done.stderr.splitlines()[-1]}")
    script = f"from hatchling import build; build.build_sdist({str(folder)!r})"
    subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, check=True, capture_output=True,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(tools)},
    )  # fmt: skip
    return next(folder.glob("*.tar.gz"))


def environment(folder, wheel, packages):
    """Makes a virtual environment of the wheel and `packages` of this one."""
    call(sys.executable, "-m", "venv", folder, cwd=folder.parent)
    python = folder / "bin" / "python"
    call(python, "-m", "pip", "install", "-q", "--no-deps", wheel, cwd=folder)
    own = next((folder / "lib").glob("python*")) / "site-packages"
    (own / "more.pth").write_text(f"{packages}\n")
    return folder / "bin"


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    full = pathlib.Path(site.getsitepackages()[0])
    return environment(tmp_path_factory.mktemp("full") / "venv", wheel, full)


@pytest.fixture(scope="module")
def light(wheel, tmp_path_factory):
    folder = tmp_path_factory.mktemp("light")
    packages = folder / "packages"
    packages.mkdir()
    full = pathlib.Path(site.getsitepackages()[0])
    for name in LIGHT:
        if (full / name).exists():
            (packages / name).symlink_to(full / name)
    return environment(folder / "venv", wheel, packages)


@pytest.mark.slow
def test_the_wheel_has_one_package(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        meta = archive.read(next(n for n in names if n.endswith("METADATA"))).decode()
    tops = {name.split("/")[0] for name in names}
    assert tops == {"disentangle_jax", "disentangle_jax-0.1.0.dist-info"}
    for path in ("py.typed", "configs/sae.py", "launch/sweep.py", "configs/studies"):
        assert any(name.startswith(f"disentangle_jax/{path}") for name in names), path
    for version in ("3.11", "3.13"):
        assert f"Classifier: Programming Language :: Python :: {version}" in meta
    assert "# disentangle_jax" in meta  # the README


@pytest.mark.slow
def test_the_sdist_makes_the_same_wheel(sdist, wheel, tmp_path):
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "configs/sae.py"} <= names
    assert {"launch/sweep.py", "tests/conftest.py"} <= names
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", tmp_path]
    subprocess.run([*build, sdist], cwd=tmp_path, check=True, capture_output=True)
    found = [zipfile.ZipFile(p) for p in (wheel, next(tmp_path.glob("*.whl")))]
    files = [
        {i.filename: i.CRC for i in a.infolist() if "dist-info" not in i.filename}
        for a in found
    ]
    assert files[0] == files[1] and "disentangle_jax/configs/sae.py" in files[0]


@pytest.mark.slow
def test_commands_work_from_any_folder(installed, tmp_path):
    disentangle = installed / "disentangle"
    out = call(disentangle, "--version", cwd=tmp_path).stdout
    assert out == "disentangle_jax 0.1.0\n"
    out = call(installed / "python", "-m", "disentangle_jax", "--help", cwd=tmp_path)
    assert "--config=sae:quick" in out.stdout
    call(disentangle, "sweep", "--help", cwd=tmp_path)
    tiny = [
        "--config.model.name=fc1200", "--config.model.width=8",
        "--config.train.num_steps=2",
        "--config.train.log_every=1", "--config.train.checkpoint_every=2",
        "--config.train.batch_size=4", "--config.eval.num_train=40",
        "--config.eval.num_test=20", "--config.eval.scores=mig",
        "--config.eval.hybrid_bank=8",
    ]  # fmt: skip
    out = call(disentangle, "--config=beta_vae:quick", *tiny, cwd=tmp_path).stdout
    assert "report: runs/beta_vae-quick/report.html" in out
    wrong = call(disentangle, "--config=saw", cwd=tmp_path, check=False)
    assert wrong.returncode == 2 and "Did you mean 'sae'?" in wrong.stderr


@pytest.mark.slow
def test_the_light_install_has_losses_and_scores(light, tmp_path):
    script = textwrap.dedent("""
        import jax.numpy as jnp, numpy as np
        import disentangle_jax
        from disentangle_jax import losses, metrics, sampling

        x = z = jnp.full((8, 3), 0.5)
        loss, _ = losses.beta_tc_vae(x, x, z, z, z, beta=2.0, dataset_size=10)
        rng = np.random.default_rng(0)
        factors = rng.integers(3, size=(200, 2))
        codes = factors + rng.normal(size=(200, 2))
        scores = metrics.evaluate(codes, factors, scores="mig,sap,mcc,explicitness")
        assert np.isfinite(float(loss)) and not scores.errors
        np.savez("codes.npz", codes=codes, factors=factors)
        for name in ("training", "models", "evaluation", "reports", "config"):
            try:
                getattr(disentangle_jax, name)
            except ImportError as error:
                assert "\\n" not in str(error)
                print(error)
    """)
    out = call(light / "python", "-c", script, cwd=tmp_path).stdout.splitlines()
    assert len(out) == 5
    assert out[1] == (
        "disentangle_jax.models needs flax, which is not installed; `pip install "
        "disentangle_jax` without --no-deps installs everything."
    )
    scored = call(light / "disentangle", "score", "codes.npz", "--scores=mig",
                  cwd=tmp_path)  # fmt: skip
    assert scored.stdout.splitlines()[1].startswith("mig")
    train = call(light / "disentangle", "--config=sae", cwd=tmp_path, check=False)
    assert train.returncode == 2 and train.stderr.count("\n") == 1
    assert "error: run needs ml_collections, which is not installed" in train.stderr
