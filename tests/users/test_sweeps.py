"""A user sweeps a hyperparameter, adds a seed, and reads the study; and the help."""

import re

from disentangle_jax import main
from tests.training import tiny
from tests.users.test_own_data import TINY


def disentangle(capsys, *argv):
    code = main.main([str(arg) for arg in argv])
    captured = capsys.readouterr()
    return code, captured.out + captured.err


def example(capsys):
    """Returns the file that ``disentangle sweep --help`` shows."""
    _, text = disentangle(capsys, "sweep", "--help")
    indented = re.search(
        r"^    from disentangle_jax.*?seed}\)$", text, re.M | re.DOTALL
    )
    return re.sub(r"^    ", "", indented[0], flags=re.MULTILINE) + "\n"


def test_the_example_of_the_help_is_extended_studied_and_compared(
    tmp_path, monkeypatch, capsys
):
    tiny.show_devices(monkeypatch, 1)
    monkeypatch.chdir(tmp_path)
    text = example(capsys)
    fields = [*TINY, "--config.data.name=xysquares", "--config.eval.scores=mig,sap"]
    argv = ["--config=my_sweep.py", "--workdir=betas", "--cluster=debug", *fields]
    for seeds in (1, 2):
        assert ", 16.0" in text and "range(5)" in text
        small = text.replace(", 16.0", "").replace("range(5)", f"range({seeds})")
        (tmp_path / "my_sweep.py").write_text(small)
        code, out = disentangle(capsys, "sweep", *argv)
        assert code == 0 and f"{2 * seeds}/{2 * seeds} models done" in out
    code, out = disentangle(capsys, "study", "betas")
    assert code == 0 and "study: betas/study/report.html" in out
    page = (tmp_path / "betas" / "study" / "report.html").read_text()
    assert "A study of 4 models" in page and "hyperparameter value" in page
    code, out = disentangle(capsys, "compare", "betas")
    assert code == 0 and "comparison: runs/compare/compare.html" in out
    page = (tmp_path / "runs" / "compare" / "compare.html").read_text()
    assert "2 models, 4 runs compared" in page


def test_a_folder_of_jpegs(tmp_path, monkeypatch, capsys):
    from PIL import Image

    from tests.users.test_own_data import squares

    tiny.show_devices(monkeypatch, 1)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos").mkdir()
    images, factors = squares(100)
    lines = ["file,y,x,colour"]
    for number, (image, labels) in enumerate(zip(images, factors)):
        Image.fromarray(image).save(f"photos/{number}.jpg", quality=90)
        lines.append(f"{number}.jpg,{labels[0]},{labels[1]},{labels[2]:.0f}")
    (tmp_path / "labels.csv").write_text("\n".join(lines))
    argv = ["--config=beta_vae", "--workdir=run", *TINY, "--config.eval.scores=mig"]
    argv += [
        "--config.data.name=image_folder", f"--config.data.data_dir={tmp_path}/photos",
        f"--config.data.options.factors={tmp_path}/labels.csv",
    ]  # fmt: skip
    code, out = disentangle(capsys, *argv)
    assert code == 0, out
    assert "mig" in out and "report: run/report.html" in out
    (tmp_path / "photos" / "7.jpg").write_bytes(b"no image")
    code, out = disentangle(capsys, *argv[:1], "--workdir=other", *argv[2:])
    assert code in (1, 2) and "7.jpg" in out, out


def test_help_names_what_can_be_done(capsys):
    for command, words in {
        "sweep": ("add({", "ETA", "status", "disentangle study"),
        "compare": ("sweeps",),
        "explore": ("--port",),
    }.items():
        code, out = disentangle(capsys, command, "--help")
        assert code == 0
        missing = [word for word in words if word not in out]
        assert not missing, (command, missing)
