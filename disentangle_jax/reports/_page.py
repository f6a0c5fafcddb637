"""The page of one run: pictures, scores and loss curve in a single HTML file."""

import base64
import html
import io
import json
import pathlib

import numpy as np

from disentangle_jax import training
from disentangle_jax.reports._grids import latent_labels, sheet
from disentangle_jax.reports._tables import format_value, score_rows

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #1c2733; margin: 0 auto;
       max-width: 52rem; padding: 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
img { max-width: 100%; height: auto; display: block; margin: .5rem 0; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
td, th { text-align: left; padding: .3rem .5rem; border-bottom: 1px solid #d6dde4;
         vertical-align: top; overflow-wrap: anywhere; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
.caption { color: #4a5865; } pre { overflow-x: auto; background: #f3f5f7;
         padding: .75rem; font-size: .8rem; }
"""


def check_evaluated(workdir: pathlib.Path) -> None:
    """Raises a ValueError where a run has no scores to report."""
    if not (workdir / "scores.json").exists():
        raise ValueError(
            f"workdir: {workdir} was not evaluated yet; run --mode=evaluate first."
        )


def write(workdir: pathlib.Path) -> pathlib.Path:
    """Draws the pictures of an evaluated run as PNG files and as one page.

    Args:
      workdir: folder with ``scores.json``, ``pictures.npz`` and ``metrics.jsonl``.

    Returns:
      The path of ``report.html``, which needs no other file.
    """
    workdir = pathlib.Path(workdir)
    check_evaluated(workdir)
    scores = json.loads((workdir / "scores.json").read_text())
    sections = [_scores_section(scores)]
    for name, title, caption, png in _figures(workdir):
        (workdir / f"{name}.png").write_bytes(png)
        encoded = base64.b64encode(png).decode()
        sections.append(
            f"<h2>{title}</h2><p class=caption>{caption}</p>"
            f'<img alt="{title}" src="data:image/png;base64,{encoded}">'
        )
    sections.append(_recipe_section(scores))
    config = scores["config"]
    title = (
        f"{config['model']['name']} trained as {config['method']['name']} on "
        f"{config['data']['name']}"
    )
    page = (
        "<!doctype html><html lang=en><meta charset=utf-8>"
        '<meta name=viewport content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>{_STYLE}</style>"
        f"<h1>{html.escape(title)}</h1>{''.join(sections)}</html>"
    )
    path = workdir / "report.html"
    partial = path.with_suffix(".html.partial")
    partial.write_text(page)
    partial.replace(path)
    return path


def _figures(workdir: pathlib.Path) -> list[tuple[str, str, str, bytes]]:
    """Returns name, title, caption and PNG bytes of each picture."""
    pictures = np.load(workdir / "pictures.npz")
    labels = latent_labels(pictures["latent_groups"])
    pairs = np.stack([pictures["originals"], pictures["reconstructions"]])
    figures = [
        (
            "reconstructions",
            "Reconstructions",
            "Test images above, what the model makes of them below.",
            _png(sheet(pairs, ["image", "model"])),
        )
    ]
    for number, walk in enumerate(pictures["traversals"], start=1):
        figures.append(
            (
                f"traversals_{number}",
                f"Latent traversals {number}",
                "One latent a row, in the order of the model, from its smallest to its "
                "largest value on test images; the other latents stay as they are.",
                _png(sheet(walk, labels)),
            )
        )
    hybrids = pictures["hybrids"]
    hybrids = hybrids.reshape(-1, 10, *hybrids.shape[1:])
    figures += [
        (
            "hybrids",
            "Hybrid samples",
            "New images: each latent variable is taken from another stored code of a "
            "training image.",
            _png(sheet(hybrids)),
        ),
        (
            "loss",
            "Training loss",
            "Mean loss of the steps since the last row of metrics.jsonl.",
            _loss_curve(workdir),
        ),
    ]
    return figures


def _png(image) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, format="PNG", optimize=True)
    return buffer.getvalue()


def _loss_curve(workdir: pathlib.Path) -> bytes:
    from matplotlib.figure import Figure

    rows = training.read_metrics(workdir)
    figure = Figure(figsize=(7, 3), dpi=110, layout="constrained")
    axes = figure.add_subplot(xlabel="step", ylabel="loss")
    losses = [np.nan if row["loss"] is None else row["loss"] for row in rows]
    axes.plot([row["step"] for row in rows], losses, color="#1f5fa8")
    axes.grid(alpha=0.3)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()


def _scores_section(scores: dict) -> str:
    body = "".join(
        f"<tr><td>{html.escape(row.name)}<td class=number>{format_value(row.value)}"
        f"<td>{html.escape(row.meaning)}"
        for row in score_rows(scores)
    )
    settings = scores["settings"]
    note = (
        f"Step {settings['step']}, seed {settings['seed']}; {settings['num_train']} + "
        f"{settings['num_test']} images of the {settings['split']} split, "
        f"{settings['codes']} codes."
    )
    return (
        "<h2>Scores</h2><table><tr><th>score<th>value<th>what it says"
        f"{body}</table><p class=caption>{html.escape(note)}</p>"
    )


def _recipe_section(scores: dict) -> str:
    names = ("settings", "versions", "device", "commit", "time", "config")
    recipe = json.dumps({name: scores[name] for name in names}, indent=2)
    return f"<h2>Recipe</h2><pre>{html.escape(recipe)}</pre>"
