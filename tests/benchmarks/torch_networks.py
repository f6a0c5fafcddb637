"""The networks of the miniatures in plain PyTorch, with their losses.

Each module maps a batch of images in [0, 1], ``[B, C, H, W]``, to its loss. Parameters
are as many as those of our networks.
"""

import torch
from torch import nn
from torch.nn import functional


def _cross_entropy(logits, x):
    total = functional.binary_cross_entropy_with_logits(logits, x, reduction="sum")
    return total / x.shape[0]


class BetaVAE(nn.Module):
    """A beta-VAE with a Bernoulli likelihood."""

    def __init__(self, encoder, decoder, beta):
        super().__init__()
        self.encoder, self.decoder, self.beta = encoder, decoder, beta

    def forward(self, x):
        mean, log_var = self.encoder(x).chunk(2, 1)
        z = mean + torch.exp(0.5 * log_var) * torch.randn_like(mean)
        kl = 0.5 * (mean**2 + log_var.exp() - log_var - 1).sum() / x.shape[0]
        return _cross_entropy(self.decoder(z).reshape(x.shape), x) + self.beta * kl


def _mlp(nonlinearity, *widths):
    layers = []
    for inputs, outputs in zip(widths[:-1], widths[1:]):
        layers += [nn.Linear(inputs, outputs), nonlinearity()]
    return layers[:-1]


def fully_connected(width: int = 256, latents: int = 9, pixels: int = 16 * 16 * 3):
    """Returns `fc1200` of a given width with ReLU decoder."""
    encoder = _mlp(nn.ReLU, pixels, width, width, 2 * latents)
    decoder = _mlp(nn.ReLU, latents, width, width, width, pixels)
    encoder = nn.Sequential(nn.Flatten(), *encoder)
    return BetaVAE(encoder, nn.Sequential(*decoder), 0.001)


def half_conv64():
    """Returns `conv64` of half width for 32×32 images with one channel."""
    conv, up, relu = nn.Conv2d, nn.ConvTranspose2d, nn.ReLU
    encoder = nn.Sequential(
        *(conv(1, 16, 4, 2, 1), relu(), conv(16, 16, 4, 2, 1), relu()),
        *(conv(16, 32, 2, 2), relu(), nn.ZeroPad2d((0, 1, 0, 1)), conv(32, 32, 2)),
        *(relu(), nn.Flatten(), *_mlp(relu, 512, 256, 20)),
    )
    decoder = nn.Sequential(
        *(*_mlp(relu, 10, 256, 512), relu(), nn.Unflatten(1, (32, 4, 4))),
        *(nn.ZeroPad2d((1, 2, 1, 2)), conv(32, 32, 4), relu()),
        *(up(32, 16, 4, 2, 1), relu(), up(16, 16, 4, 2, 1), relu()),
        up(16, 1, 4, 2, 1),
    )
    return BetaVAE(encoder, decoder, 2.0)


class _Block(nn.Module):
    def __init__(self, inputs, outputs, *, kernel=3, pool=False, up=False, last=False):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2)
        self.norm = None if last else nn.GroupNorm(2, outputs)
        self.pool, self.up = pool, up

    def forward(self, x):
        if self.up:
            x = functional.interpolate(
                x, scale_factor=2, mode="bilinear", align_corners=False
            )
        x = self.conv(x)
        if self.pool:
            x = functional.max_pool2d(x, 2)
        return x if self.norm is None else functional.mish(self.norm(x))


class NarrowSAE(nn.Module):
    """SAE-12 of 16 channels for 32×32 images, an autoencoder."""

    def __init__(self, pooled, upsampled, channels=16):
        super().__init__()
        blocks = [
            _Block(
                3 if i == 1 else channels,
                channels,
                kernel=5 if i == 1 else 3,
                pool=i in pooled,
            )
            for i in range(1, 13)
        ]
        head = _mlp(nn.Mish, 4 * channels, 256, 128, 12)
        self.encoder = nn.Sequential(*blocks, nn.Flatten(), *head)
        self.constant = nn.Parameter(torch.randn(1, channels, 2, 2))
        self.transforms = nn.ModuleList(
            nn.Sequential(*_mlp(nn.Mish, 1, 64, 128, 2 * channels)) for _ in range(12)
        )
        self.blocks = nn.ModuleList(
            _Block(
                channels, 3 if i == 12 else channels, up=i in upsampled, last=i == 12
            )
            for i in range(1, 13)
        )

    def forward(self, image):
        z = self.encoder(image)
        x = self.constant.expand(z.shape[0], -1, -1, -1)
        for i, (transform, block) in enumerate(zip(self.transforms, self.blocks)):
            shift, log_scale = transform(z[:, i : i + 1])[..., None, None].chunk(2, 1)
            x = block(log_scale.exp() * x + shift)
        return _cross_entropy(x, image)
