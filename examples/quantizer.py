"""A small model that does not compile as a whole: it counts codes, logs and prints while it runs."""

import logging

import torch
import torch.nn as nn
import torch.nn.functional as F

logger = logging.getLogger(__name__)


class Quantizer(nn.Module):
    def __init__(self, codes: int, dim: int) -> None:
        super().__init__()
        self.codes = codes
        self.codebook = nn.Embedding(codes, dim)

    def forward(self, z):
        distance = torch.cdist(z, self.codebook.weight.unsqueeze(0))
        index = distance.argmin(dim=-1)
        used = torch.unique(index)
        logger.info("%d codes in use", used.shape[0])
        one_hot = F.one_hot(index, num_classes=self.codes).to(z.dtype)
        usage = one_hot.mean(dim=(0, 1))
        perplexity = torch.exp(-(usage * torch.log(usage + 1e-10)).sum())
        quantized = z + (self.codebook(index) - z).detach()
        return quantized, perplexity


class Model(nn.Module):
    def __init__(self, dim: int = 8, codes: int = 16, verbose: bool = True) -> None:
        super().__init__()
        self.verbose = verbose
        self.encoder = nn.Linear(12, dim)
        self.quantizer = Quantizer(codes, dim)
        self.decoder = nn.Linear(dim, 12)

    def forward(self, x):
        z = self.encoder(x)
        if self.verbose:
            print("latent:", tuple(z.shape))
        quantized, perplexity = self.quantizer(z)
        recon = self.decoder(quantized)
        error = F.mse_loss(recon, x)
        print(f"perplexity {perplexity.item():.2f}")
        return recon, error


def get_init_inputs():
    return [8, 16]


def get_inputs():
    return [torch.randn(2, 5, 12)]
