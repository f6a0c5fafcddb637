"""The papers' findings that our miniatures test, for ``disentangle results``.

Each entry names the rows of a CSV file of ``results/``, the columns of its table, and a
rule that compares them with the paper.
"""

import json

from disentangle_jax.reports.results import Finding, Verdict

_MAIN = "python -m disentangle_jax.main --config=configs/experiments"


def _verdict(yes: bool, partly: bool, ours: str, paper: str) -> Verdict:
    return Verdict("yes" if yes else "partly" if partly else "no", ours, paper)


def _field(row, name, default=None):
    return json.loads(row["fields"]).get(name, default)


# --- Overlooked Implications of the Reconstruction Loss -------------------------------


def _overlap_line(row):
    return f"{_field(row, 'method.name')}, {_field(row, 'method.reconstruction')}"


def _overlap(groups):
    plain = groups["ada_gvae, mse"].mean("dci.disentanglement")
    blurred = groups["ada_gvae, box_blur_mse"].mean("dci.disentanglement")
    return _verdict(
        blurred >= 0.8 and plain <= 0.1,
        blurred > plain + 0.3,
        f"Ada-GVAE: DCI {plain:.2f} with MSE, {blurred:.2f} with BoxBlurMSE",
        "MSE fails, BoxBlurMSE disentangles (Fig. 11)",
    )


def _spacing(groups):
    values = {
        int(k.split()[1]): g.mean("dci.disentanglement") for k, g in groups.items()
    }
    far, near = values[max(values)], max(v for k, v in values.items() if k < 8)
    return _verdict(
        near >= far + 0.3,
        near > far + 0.1,
        ", ".join(f"{v:.2f} at spacing {k}" for k, v in sorted(values.items())[::-1]),
        "the smaller the spacing, the higher the scores (Fig. 9)",
    )


FINDINGS = [
    Finding(
        "A blurred loss rescues disentanglement where images do not overlap",
        "Paper 4, Fig. 11",
        "overlap-mini",
        f"{_MAIN}/overlap.py:mini",
        _overlap_line,
        {"dci.disentanglement": "DCI-D", "mig": "MIG", "mse": "test MSE"},
        _overlap,
        "XYSquares at 16 px, fully connected networks of width 256, 6,000 of 57,600 "
        "steps.",
    ),
    Finding(
        "Overlap between neighbours lets a pixel-wise loss disentangle",
        "Paper 4, Fig. 9",
        "overlap-mini-spacing",
        f"{_MAIN}/overlap.py:mini_spacing",
        lambda row: f"spacing {_field(row, 'data.options.spacing')}",
        {"dci.disentanglement": "DCI-D", "mig": "MIG", "mse": "test MSE"},
        _spacing,
        "As above, Ada-GVAE with MSE; spacing in pixels of a 64 px image.",
    ),
]
