"""`nn.LSTM`, `nn.GRU` or `nn.RNN` is called.

## What it does
Finds calls of `nn.LSTM`, `nn.GRU` and `nn.RNN` modules, and reads of their attributes.

## Why it hurts torch.compile
Dynamo does not trace these modules by default: it gives up the whole function that touches one, be it to
read `self.lstm.num_layers`, and everything in that function runs eagerly.

## Use instead
Compile the parts around the recurrent layer; `torch._dynamo.config.allow_rnn = True` captures it;
`nn.LSTMCell` and its kin in a loop of fixed length are traced.

## Limits
`allow_rnn` is a run-time setting this rule does not see.
"""

from tcready.rules._names import RECURRENT
from tcready.static.engine.facts import Attribute, Call
from tcready.static.engine.values import tensor_of
from tcready.static.rule import Claim, Rule, Sample


def check(fact: Call | Attribute) -> Claim | None:
    if isinstance(fact, Attribute):
        if not tensor_of(fact.owner):
            return Claim("a recurrent module is touched: the frame around it goes eager", unless="allow_rnn")
        return None
    if fact.gb_id == RECURRENT:
        return Claim("a recurrent module is called: the frame around it goes eager", unless="allow_rnn")
    return None


RULE = Rule(
    code="TCR406",
    name="recurrent-module-call",
    effect="frame_skip",
    level="error",
    gb_ids=("GB0014",),
    facts=(Call, Attribute),
    check=check,
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
        layers = self.lstm.num_layers  # BAD
        return y + layers
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
        self.gru = nn.GRU(8, 8)

    def forward(self, x):
        y = x * 2
        _, h = self.gru(y)  # BAD
        return h + 1
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
