"""`nn.LSTM`, `nn.GRU` or `nn.RNN` is used.

## What it does
Finds code that accesses an `nn.LSTM`, `nn.GRU` or `nn.RNN`, or an instance of a subclass: it calls the
module, reads its attributes (a method of such a class reads `self`), tests whether another module has one,
passes it to a function, tests whether it exists, or iterates over the parameters of a module that contains
one.

## Why it hurts torch.compile
Dynamo does not trace these modules by default. Until torch 2.14, it skips the whole function that accesses
one, even to read `self.lstm.num_layers` or for `if self.lstm is not None`, and everything in that function
runs eagerly. Since torch 2.15, the graph ends where such a module is called or an attribute of it is used;
storing it or comparing it with None is traced.

## Use instead
Compile the parts around the recurrent layer. Or set `torch._dynamo.config.allow_rnn = True`, which captures
it. `nn.LSTMCell` and the other cells in a loop of fixed length are traced.

## Limits
`allow_rnn` is recognized only if the analyzed files set it.
"""

from collections.abc import Iterator

from tcready.static.engine.facts import Recurrent
from tcready.static.rule import Claim, Rule, Sample


def check(fact: Recurrent) -> Iterator[Claim]:
    yield Claim(
        "a recurrent module is used: the function runs eagerly",
        confidence=fact.confidence,
        suppressed_by_config="allow_rnn",
        form=f"the frame of a module that is {fact.use}",
    )
    if fact.use != "held":
        yield Claim(
            "a recurrent module is used: the graph ends here",
            confidence=fact.confidence,
            effect="graph_break",
            suppressed_by_config="allow_rnn",
            form=f"a module that is {fact.use}",
        )


RULE = Rule(
    code="TCR406",
    name="recurrent-module-call",
    effect="frame_skip",
    level="error",
    gb_ids=("GB0014", "GB0148", "GB4841", "GB0175", "GB0150"),
    settings=("allow_rnn",),
    facts=(Recurrent,),
    check=check,
    no_rewrite="The code needs no change: with `torch._dynamo.config.allow_rnn`, Dynamo traces it.",
    page=__doc__,
    bad=(
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(8, 8)

    def forward(self, x):
        y = x * 2
        return y + self.lstm.weight_ih_l0.sum()  # BAD
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(8, 8)

    def forward(self, x):
        y = x * 2
        z, _ = self.lstm(y)  # BAD
        return z + 1
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(8, 8)
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
        y = self.linear(x)
        return y.to(next(self.parameters()).dtype)  # BAD
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(8, 8)

    def forward(self, x):
        y = x * 2
        _, h = self.gru(y)  # BAD
        return h + 1
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(8, 8)

    def forward(self, x):
        y = x * 2
        return y + isinstance(self.gru, nn.GRU)  # BAD
"""
        ),
        Sample(
            """
def exists(part):
    return part is not None  # BAD


def run(rnn, x):
    return rnn(x)[0]  # BAD


def encode(rnn, x):
    y = x * 2
    if exists(rnn):  # BAD
        y = y + 1
    return y


def decode(rnn, x):
    parts = [rnn, x * 2]
    return run(rnn, parts[1])  # BAD


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(8, 8)

    def forward(self, x):
        gru, y = self.gru, x * 2  # BAD
        return decode(gru, encode(gru, y))
"""
        ),
    ),
    good=(
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(8, 8)

    def forward(self, x):
        y = x * 2
        h = torch.zeros(8)
        steps = []
        for step in range(4):
            h = self.cell(y[step], h)
            steps.append(h)
        return torch.stack(steps) + 1
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.norm = nn.LayerNorm(8)
        self.attention = nn.MultiheadAttention(8, 2)

    def forward(self, x):
        y = self.linear(x) + self.norm(x)
        z, _ = self.attention(y, y, y)
        return z
"""
        ),
    ),
)
