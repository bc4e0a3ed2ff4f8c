"""The witness's facts as the rest of the tool sees them: spans in code points, holders, a story in order."""

from __future__ import annotations

from pathlib import Path

from autofix.evidence.witness import Holder, witness
from autofix.execution.runner import Limits, Script

SCRIPT = """\
import torch
modèle = torch.nn.Linear(2, 2)
class Netz:
    pass
netz = Netz()
netz.état = None
for i in range(3):
    é = modèle(torch.ones(1, 2)) ; s = é if netz.état is None else é + netz.état.exp()
    s.sum().backward()
    netz.état = é
"""


def test_spans_count_code_points_and_the_holder_is_named() -> None:
    script = Script(Path("/no/such/folder/train.py"), text=SCRIPT)
    (fact,) = witness(script, Limits(timeout=60))
    lines = SCRIPT.split("\n")
    texts = {}
    for role, site in fact.sites.items():
        assert site.functions == ("<module>",)
        assert site.span.path == "train.py"
        texts[role] = lines[site.span.line - 1][site.span.column : site.span.end_column]
    assert texts == {
        "made": "modèle(torch.ones(1, 2))",
        "used": "netz.état.exp()",
        "walked": "s.sum()",
        "freed": "s.sum().backward()",
        "failed": "s.sum().backward()",
    }
    assert Holder("netz.état", "attribute", "train.py", "<module>", "tensor", "tensor") in fact.holders
    assert fact.details["freed_by_pass"] == 1
    assert [phrase for phrase, _ in fact.story()] == [
        "the graph was made here",
        "used here",
        "this backward freed the graph",
        "this fails",
    ]


def test_change_says_by_what() -> None:
    text = "import torch\nx = torch.ones(2, requires_grad=True).exp()\nx += 1\nx.sum().backward()\n"
    (fact,) = witness(Script(Path("/no/such/folder/train.py"), text=text), Limits(timeout=60))
    assert dict(fact.story())["modified in place here (operator)"].line == 3


def test_sound_script_has_nothing_to_tell() -> None:
    text = "import torch\ntorch.ones(2, requires_grad=True).sum().backward()\n"
    assert witness(Script(Path("/no/such/folder/train.py"), text=text), Limits(timeout=60)) == ()
