"""The base classes of torch.nn's classes. A test compares them with torch."""

from __future__ import annotations

from types import MappingProxyType

LAZY = "Lazy"
"""The prefix of modules that become another class when they are first called."""
ABOVE: MappingProxyType[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("GRU", "LSTM", "RNN"), "RNNBase"),
        **dict.fromkeys(("GRUCell", "LSTMCell", "RNNCell"), "RNNCellBase"),
        **dict.fromkeys(("UpsamplingBilinear2d", "UpsamplingNearest2d"), "Upsample"),
        **{f"ZeroPad{n}d": f"ConstantPad{n}d" for n in (1, 2, 3)},
        "NLLLoss2d": "NLLLoss",
        "ReLU6": "Hardtanh",
    }
)
"""The bases of public classes that derive from another than Module."""
STEMS: MappingProxyType[str, tuple[str, ...]] = MappingProxyType(
    {
        "_ConvNd": ("Conv",),
        "_ConvTransposeNd": ("ConvTranspose",),
        "_BatchNorm": ("BatchNorm", "SyncBatchNorm"),
        "_InstanceNorm": ("InstanceNorm",),
        "_NormBase": ("BatchNorm", "SyncBatchNorm", "InstanceNorm"),
    }
)
"""Private classes that models use, and the prefixes of the classes that derive from them."""


def derives(name: str, base: str) -> bool | None:
    """Return whether a public class of torch.nn, by its dotted name, is another or derives from it; None if unknown."""
    own, wanted = name.rpartition(".")[2], base.rpartition(".")[2]
    if own == wanted or wanted == "Module":
        return True
    made = own.removeprefix(LAZY)
    if wanted.startswith("_"):
        return made.startswith(STEMS[wanted]) if wanted in STEMS else None
    return made == wanted or ABOVE.get(made) == wanted
