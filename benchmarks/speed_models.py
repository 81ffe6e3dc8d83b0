"""Models whose speed `docs/pages/benchmarks.md` tells of: five kinds of work, with random weights.

    tcready bench benchmarks/speed_models.py::encoder --inputs benchmarks/speed_models.py::encoder_inputs --device cuda

They need transformers; sizes are those of small production models. The environment variable BENCH_SMALL makes them
small enough for a CPU.
"""

from __future__ import annotations

import os
from typing import Any

import torch
from torch import nn

SMALL = bool(os.environ.get("BENCH_SMALL"))
DTYPE = getattr(torch, os.environ.get("BENCH_DTYPE", "float32"))
"""Of a decoder's cache, which `--dtype` does not reach."""


def encoder() -> nn.Module:
    """A BERT of the base size."""
    from transformers import BertConfig, BertModel

    sizes: dict[str, Any] = (
        {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 256}
        if SMALL
        else {}
    )
    return BertModel(BertConfig(attn_implementation="sdpa", **sizes))


def encoder_inputs() -> dict[str, torch.Tensor]:
    rows, length = (2, 32) if SMALL else (16, 256)
    ids = torch.randint(5, 30_000, (rows, length))
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def _llama() -> Any:
    from transformers import LlamaConfig

    return LlamaConfig(
        hidden_size=128 if SMALL else 1024,
        intermediate_size=256 if SMALL else 2816,
        num_hidden_layers=2 if SMALL else 8,
        num_attention_heads=4 if SMALL else 16,
        num_key_value_heads=2 if SMALL else 8,
        vocab_size=1000 if SMALL else 32_000,
        attn_implementation="sdpa",
    )


def decoder() -> nn.Module:
    """A Llama of 8 layers, about 150 million parameters."""
    from transformers import LlamaForCausalLM

    return LlamaForCausalLM(_llama())


def decoder_inputs() -> dict[str, Any]:
    """A prompt, and one token behind it with a cache that grows, and with one of a fixed size."""
    from transformers import DynamicCache, StaticCache

    config = _llama()
    rows, length = (1, 32) if SMALL else (4, 512)
    heads, size = config.num_key_value_heads, config.hidden_size // config.num_attention_heads
    ids = torch.randint(5, config.vocab_size, (rows, length))
    grows, static = DynamicCache(config=config), StaticCache(config=config, max_cache_len=2 * length)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    for layer in range(config.num_hidden_layers):
        keys, values = (torch.randn(rows, heads, length, size, device=device, dtype=DTYPE) for _ in range(2))
        grows.update(keys, values, layer)
        static.update(keys, values, layer, {"cache_position": torch.arange(length, device=device)})
    token = ids[:, -1:]
    at = torch.tensor([length])
    return {
        "cases": {
            "prefill": {"input_ids": ids, "use_cache": False},
            "decode, growing cache": {"input_ids": token, "past_key_values": grows, "cache_position": at},
            "decode, static cache": {"input_ids": token, "past_key_values": static, "cache_position": at},
        },
        "weights": {"prefill": 1, "decode, growing cache": 64, "decode, static cache": 64},
    }


def prefill_inputs() -> dict[str, Any]:
    """The prompt of `decoder_inputs` alone."""
    return {"cases": {"prefill": decoder_inputs()["cases"]["prefill"]}}


class Block(nn.Module):
    """A residual block of two convolutions."""

    def __init__(self, given: int, made: int, stride: int = 1) -> None:
        super().__init__()
        self.first = nn.Conv2d(given, made, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(made, made, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(made), nn.BatchNorm2d(made)])
        self.short = nn.Conv2d(given, made, 1, stride, bias=False) if stride > 1 or given != made else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norms[0](self.first(x)).relu()
        return (self.norms[1](self.second(y)) + self.short(x)).relu()


class Cnn(nn.Module):
    """A residual network of 18 layers' shape."""

    def __init__(self) -> None:
        super().__init__()
        widths = (16, 32) if SMALL else (64, 128, 256, 512)
        self.stem = nn.Sequential(
            nn.Conv2d(3, widths[0], 7, 2, 3), nn.BatchNorm2d(widths[0]), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
        )
        blocks: list[nn.Module] = []
        for given, made in zip((widths[0], *widths), widths, strict=False):
            blocks += [Block(given, made, 1 if given == made else 2), Block(made, made)]
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(widths[-1], 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))


def cnn_inputs() -> torch.Tensor:
    return torch.randn(2, 3, 64, 64) if SMALL else torch.randn(64, 3, 224, 224)


class Stage(nn.Module):
    """Group norm, SiLU and a convolution, with the time put in."""

    def __init__(self, given: int, made: int, time: int) -> None:
        super().__init__()
        self.norm, self.conv = nn.GroupNorm(8, given), nn.Conv2d(given, made, 3, 1, 1)
        self.time = nn.Linear(time, made)
        self.again, self.out = nn.GroupNorm(8, made), nn.Conv2d(made, made, 3, 1, 1)
        self.short = nn.Conv2d(given, made, 1)

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        y = self.conv(nn.functional.silu(self.norm(x))) + self.time(nn.functional.silu(time))[:, :, None, None]
        return self.out(nn.functional.silu(self.again(y))) + self.short(x)


class Attention(nn.Module):
    """Attention over all pixels."""

    def __init__(self, width: int, heads: int = 8) -> None:
        super().__init__()
        self.norm, self.heads = nn.GroupNorm(8, width), heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows, width, high, wide = x.shape
        flat = self.norm(x).flatten(2).transpose(1, 2)
        q, k, v = self.qkv(flat).view(rows, high * wide, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        seen = nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(rows, high * wide, width)
        return x + self.out(seen).transpose(1, 2).reshape(x.shape)


class UNet(nn.Module):
    """A small diffusion UNet with attention at its lowest level."""

    def __init__(self) -> None:
        super().__init__()
        base = 16 if SMALL else 128
        widths = (base, 2 * base, 4 * base)
        time = 4 * base
        self.base = base
        self.time = nn.Sequential(nn.Linear(base, time), nn.SiLU(), nn.Linear(time, time))
        self.begin = nn.Conv2d(4, base, 3, 1, 1)
        self.down = nn.ModuleList(Stage(g, m, time) for g, m in zip((base, *widths), widths, strict=False))
        self.shrink = nn.ModuleList(nn.Conv2d(w, w, 3, 2, 1) for w in widths[:-1])
        self.middle = nn.ModuleList([Stage(widths[-1], widths[-1], time), Stage(widths[-1], widths[-1], time)])
        self.attention = Attention(widths[-1])
        self.up = nn.ModuleList(
            Stage(below + here, here, time)
            for below, here in zip((widths[-1], *widths[:0:-1]), widths[::-1], strict=False)
        )
        self.end = nn.Conv2d(base, 4, 3, 1, 1)

    def forward(self, x: torch.Tensor, step: torch.Tensor) -> torch.Tensor:
        rates = torch.exp(-torch.arange(self.base // 2, device=x.device) / (self.base // 2) * 9.2)
        angles = step[:, None].float() * rates
        time = self.time(torch.cat([angles.sin(), angles.cos()], 1).to(x.dtype))
        x, kept = self.begin(x), []
        for number, stage in enumerate(self.down):
            x = stage(x, time)
            kept.append(x)
            x = self.shrink[number](x) if number < len(self.shrink) else x
        x = self.middle[1](self.attention(self.middle[0](x, time)), time)
        for number, stage in enumerate(self.up):
            x = stage(torch.cat([x, kept.pop()], 1), time)
            x = nn.functional.interpolate(x, scale_factor=2.0) if number < len(self.shrink) else x
        return self.end(x)


def unet_inputs() -> tuple[torch.Tensor, torch.Tensor]:
    rows, side = (1, 16) if SMALL else (4, 64)
    return torch.randn(rows, 4, side, side), torch.randint(0, 1000, (rows,))


class Policy(nn.Module):
    """Two layers that choose an action for one observation: little work, which compile should not help."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(17, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())
        self.mean, self.spread = nn.Linear(64, 6), nn.Parameter(torch.zeros(6))

    def forward(self, seen: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        inner = self.layers(seen)
        return self.mean(inner).tanh(), self.spread.exp().expand_as(self.mean.bias)


def policy_inputs() -> torch.Tensor:
    return torch.randn(1, 17)
