"""The names other people's code calls, and what each of them must say of itself."""

import inspect

import pytest

from disentangle_jax import distributions, losses

HELPERS = {"linear_capacity", "normalize_beta", "unnormalize_beta", "per_pixel"}

# Fixed names and arguments: positional ones in order, then keywords.
SIGNATURES = {
    "bernoulli_reconstruction": "x logits * subtract_entropy",
    "gaussian_reconstruction": "x x_hat",
    "mse": "x x_hat",
    "l1_reconstruction": "x x_hat",
    "multinomial_reconstruction": "counts logits",
    "box_blur_mse": "x x_hat * radius weight",
    "gaussian_kl": "mean log_var",
    "gaussian_kl_per_dim": "mean log_var",
    "capacity_kl": "kl * gamma capacity axis_name",
    "aggregate_log_densities": "pairwise * dataset_size estimator groups axis_name",
    "log_q_marginals": "z mean log_var * dataset_size estimator groups axis_name",
    "kl_decomposition": "z mean log_var * dataset_size estimator groups axis_name",
    "total_correlation": "z mean log_var * dataset_size estimator groups axis_name",
    "hfvae_terms": "pairwise log_p_elements * dataset_size groups log_p_groups "
    "log_p_joint estimator axis_name",
    "density_ratio_tc": "critic_logits",
    "discriminator_loss": "joint_logits permuted_logits",
    "dip_penalty": "mean log_var * kind lambda_od lambda_d axis_name",
    "gaussian_total_correlation": "codes",
    "mmd": "x y * kernel scale axis_name",
    "ada_gvae_posteriors": "mean1 log_var1 mean2 log_var2 * distance average ratio",
    "adversarial_prior_losses": "",
    "relation_loss": "",
    "supervised_alignment": "",
}
OBJECTIVES = [
    "ae",
    "vae",
    "beta_vae",
    "annealed_vae",
    "beta_tc_vae",
    "factor_vae",
    "dip_vae",
    "info_vae",
    "wae",
    "hfvae",
    "anchor_vae",
    "information_dropout",
    "vlae",
    "ada_gvae",
    "ada_ml_vae",
    "abs_ae",
]
for _name in OBJECTIVES:
    SIGNATURES[_name] = "x logits z mean log_var * reconstruction axis_name"


@pytest.mark.parametrize("name", SIGNATURES)
def test_signature(name):
    parameters = inspect.signature(getattr(losses, name)).parameters
    positional, _, keywords = SIGNATURES[name].partition("*")
    have = [p.name for p in parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert have[: len(positional.split())] == positional.split()
    for keyword in keywords.split():
        assert parameters[keyword].kind is inspect.Parameter.KEYWORD_ONLY


@pytest.mark.parametrize(
    "name", [n for n in losses.__all__ if inspect.isfunction(getattr(losses, n))]
)
def test_documentation(name):
    function = getattr(losses, name)
    text = inspect.getdoc(function)
    for part in ("Args:", "Returns:", *(() if name in HELPERS else ("Couples the",))):
        assert part in text, f"{name} does not say {part}"
    for parameter in inspect.signature(function).parameters.values():
        assert parameter.annotation is not inspect.Parameter.empty, parameter
        assert f"{parameter.name}:" in text, f"{name}: {parameter} is not explained"


@pytest.mark.parametrize(
    "name",
    [
        n
        for n, f in vars(distributions).items()
        if inspect.isfunction(f) and n[0] != "_"
    ],
)
def test_documentation_of_distributions(name):
    function = getattr(distributions, name)
    text = inspect.getdoc(function)
    for parameter in inspect.signature(function).parameters.values():
        assert parameter.annotation is not inspect.Parameter.empty, parameter
        assert f"{parameter.name}:" in text, f"{name}: {parameter} is not explained"
    assert "Returns:" in text
