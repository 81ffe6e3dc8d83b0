"""The Markdown beside a rule: what is read of it, what is refused, and that it is read only when it is needed."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest
from reading import RULES
from tcready.static.diagnostics.rule_page import Sample, parse_page

PAGE = """\
A summary.

## What it does
Text.

## Why it hurts torch.compile
Text.

## Use instead
Text.

## Limits
Text.
"""
BAD = """
## Bad

- inputs: `(torch.randn(2),)`
- again: `(torch.randn(3),)`
- torch: `2.15`
- raises: `no .* format`

```python setup
import math
```

```python
## a comment
def model(x):
    return math.exp(x)  # BAD
```

```python
def model(x): ...  # BAD
```
"""
GOOD = """
## Good

```python
def model(x):

    return x
```
"""


def test_a_file_is_a_page_and_samples() -> None:
    read = parse_page(PAGE + BAD + GOOD, "rule.md")
    assert read.text == PAGE
    assert read.bad == (
        Sample(
            "\n## a comment\ndef model(x):\n    return math.exp(x)  # BAD\n",
            inputs="(torch.randn(2),)",
            again="(torch.randn(3),)",
            setup="\nimport math\n",
            torch=(2, 15),
            raises="no .* format",
        ),
        Sample("\ndef model(x): ...  # BAD\n"),
    )
    assert read.good == (Sample("\ndef model(x):\n\n    return x\n"),)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("## Limits\n", "## Limit\n", "rule.md:12: expected the section 'Limits': ## Limit"),
        ("\n## Bad\n", "\n", "rule.md:35: expected the section 'Bad': ## Good"),
        ("## Good\n", "", "rule.md:42: the section 'Good' is missing"),
        (
            "    return x\n```\n",
            dedent("""\
                return x
            ```

            ## More
        """),
            "rule.md:44: there is no such section: ## More",
        ),
        ("- raises", "- raise", "rule.md:20: a sample has no field 'raise', only inputs, again, torch, raises"),
        ("- again", "- inputs", "rule.md:18: the sample has two fields 'inputs'"),
        ("`2.15`", "2.15", "rule.md:19: neither a field (- inputs: `(x,)`) nor a block of code: - torch: 2.15"),
        ("`2.15`", "`two`", "rule.md:19: not a version such as 2.15: two"),
        ("```python setup", "```python set-up", "rule.md:22: neither a field"),
        ("    return x\n```\n", "    return x\n", "rule.md:38: the block is not closed"),
        (
            dedent("""\
            ```python
            def model(x):

                return x
            ```
        """),
            "",
            "rule.md:36: the section has no sample",
        ),
        (
            "```\n\n## Good",
            dedent("""\
            ```

            - again: `(x,)`

            ## Good"""),
            "rule.md:36: the sample has no block of python",
        ),
    ],
)
def test_another_form_is_refused_with_its_line(old: str, new: str, message: str) -> None:
    text = PAGE + BAD + GOOD
    assert text.count(old) == 1
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        parse_page(text.replace(old, new), "rule.md")


def test_only_pages_of_rules_that_found_something_are_read(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(
        dedent("""\
            from torch import nn


            class Net(nn.Module):
                def forward(self, x):
                    print(x)
                    return x
        """)
    )
    script = dedent("""\
            from tcready import api
            from tcready.rules import load
            for cache in (False, True):
                report = api.check('net.py', run=False, cache=cache)
                assert [rule.code for rule in report.rules] == ['TCR301']
            print(*(rule.code for rule in load() if '_file' in vars(rule)))
        """)
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.split() == ["TCR301"]


def test_a_rule_is_the_same_before_and_after_its_page_is_read() -> None:
    rule = RULES[0]
    copied = pickle.loads(pickle.dumps(rule))
    assert rule.page
    assert pickle.loads(pickle.dumps(rule)) == copied == rule
    assert hash(copied) == hash(rule)
