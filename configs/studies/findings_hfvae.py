"""Further findings of "Structured Disentangled Representations"."""

from disentangle_jax.reports.results import Finding, field, stage, verdict

_MAIN = "python -m disentangle_jax.main --config=configs/experiments"


def _fashion(groups):
    ours = groups["hfvae"]
    accuracy, gap, pruned = (ours.mean(c) for c in ("accuracy", "gap", "pruned"))
    return verdict(
        gap >= 0.5 and pruned >= 1,
        gap > 0,
        f"our estimator: accuracy {accuracy:.2f}, I(y; c) is {gap:.2f} nats above "
        f"max I(y; z_d), {pruned:.1f} of 10 dimensions pruned",
        "4 of 10 dimensions pruned (Fig. 5)",
    )


def _zero_shot(groups):
    ratio = {
        name: groups[f"pruned-{name}"].mean("unseen_mse")
        / groups[f"all-{name}"].mean("unseen_mse")
        for name in ("hfvae", "beta_vae")
    }
    return verdict(
        ratio["hfvae"] <= 1.1,
        ratio["hfvae"] <= 1.3,
        "error on removed combinations, as a multiple of that of models that saw them: "
        f"HFVAE {ratio['hfvae']:.2f}, beta-VAE {ratio['beta_vae']:.2f}",
        "HFVAE reconstructs removed combinations (Fig. 7)",
    )


def _topics_line(row):
    weights = {field(row, f"method.{name}", 1.0) for name in ("beta", "gamma")}
    return f"{stage(row)}, {'VAE' if weights == {1.0} else 'HFVAE'}"


def _topics(groups):
    vae, hfvae = groups["prodlda, VAE"], groups["prodlda, HFVAE"]
    active, whole = hfvae.mean("active_topics"), vae.mean("active_topics")
    within, between = (
        hfvae.mean(f"topic_correlation.{part}") for part in ("within", "between")
    )
    return verdict(
        active <= whole / 2 and between > within + 0.1,
        active < whole,
        f"ProdLDA: {active:.0f} active topics with HFVAE's objective, {whole:.0f} with "
        f"the VAE's; absolute correlation of its topics {within:.2f} within groups, "
        f"{between:.2f} between",
        "11 and 50 active topics; correlations between groups only (Sec. 5.2)",
    )


_PANELS = {
    "identifiability": "without ①",
    "information": "without ②",
    "evidence": "without ③",
    "marginal": "without ④",
}


def _panel(row):
    removed = [n for n in _PANELS if field(row, f"method.{n}", 1.0) == 0]
    return _PANELS[removed[0]] if removed else "all terms"


def _elbo_terms(groups):
    def change(term, panel):
        return groups[panel].mean(term) - groups["all terms"].mean(term)

    information = groups["without ①"].mean("information")
    more, evidence, prior = (
        change(term, _PANELS[term]) for term in ("information", "evidence", "marginal")
    )
    signs = (information < 0.1, more > 0, evidence < 0, prior > 0)
    return verdict(
        all(signs),
        sum(signs) >= 3,
        f"I(x; z) is {information:.1f} nats without ① and {more:+.1f} without ②; "
        f"log p(x) {evidence:+.0f} without ③; KL(q(z), p(z)) {prior:+.1f} without ④",
        "without ① codes ignore images, without ② they separate, without ③ "
        "reconstructions fail, without ④ codes leave the prior (Fig. 2)",
    )


FINDINGS = [
    Finding(
        "On Fashion-MNIST the discrete variable holds the class too",
        "Paper 2, Fig. 5",
        "structured-fashion-mini",
        f"{_MAIN}/structured.py:fashion_mini",
        stage,
        {
            "accuracy": "accuracy",
            "discrete_information": "I(x; c)",
            "label_in_discrete": "I(y; c)",
            "label_in_continuous": "max I(y; z_d)",
            "pruned": "pruned",
        },
        _fashion,
        "As on MNIST, with our estimator alone.",
    ),
    Finding(
        "HFVAE generalises to unseen combinations of class and feature",
        "Paper 2, Fig. 7",
        "zero-shot-mini",
        f"{_MAIN}/zero_shot.py:mini",
        stage,
        {"seen_mse": "MSE, seen", "unseen_mse": "MSE, unseen"},
        _zero_shot,
        "MNIST at full size, 2,400 of 23,400 steps of batch 512, widths 256 and 128, "
        "our estimator; test images of the removed combinations.",
        headline=True,
    ),
    Finding(
        "HFVAE's objective prunes topics and lets those of two groups correlate",
        "Paper 2, Sec. 5.2",
        "topics-mini",
        f"{_MAIN}/topics.py:mini",
        _topics_line,
        {
            "active_topics": "active",
            "npmi.active": "NPMI of active",
            "topic_correlation.within": "absolute correlation within",
            "topic_correlation.between": "between",
            "perplexity": "perplexity",
        },
        _topics,
        "20 Newsgroups; ProdLDA 100 of 200 epochs, NVDM 20 of 850, of larger batches "
        "and rate.",
        headline=True,
    ),
    Finding(
        "Each of the four terms of the ELBO does what its formula says",
        "Paper 2, Fig. 2",
        "elbo-terms-mini",
        f"{_MAIN}/elbo_terms.py:mini",
        _panel,
        {
            "identifiability": "① log p(x given z)/p(x)",
            "information": "② I(x; z)",
            "evidence": "③ log p(x)",
            "marginal": "④ KL(q(z), p(z))",
        },
        _elbo_terms,
        "MNIST, two latents, 3,000 steps of batch 32, widths 256 and 128; in nats, as "
        "the objective estimates them from its batches.",
    ),
]
