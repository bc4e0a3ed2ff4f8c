"""The static witness beside PyTorch, on small programs about every operation that PyTorch lists."""

from __future__ import annotations

import pytest

from autofix.codemods.facts.changed import Overwritten, PartChanged
from autofix.codemods.facts.cut import CutGraph
from autofix.codemods.interpreter.analysis import analyze
from autofix.codemods.source.program import Program

pytest.importorskip("torch")

from tests.operation_programs import Call, calls, programs, verdict

FACTS = {"overwritten": Overwritten, "no graph": CutGraph, "part changed": PartChanged}
WITHOUT_CUT = ("x.new",)
"""Operations that compute nothing of their tensor: no graph is lost, and a pass is refused for another reason."""
FEWEST = 2500
"""Programs that PyTorch runs or refuses for one of the mistakes: fewer would mean that the generator has broken."""


def disagreement(call: Call, kind: str, text: str, said: str) -> str:
    """Mistakes that the static witness misses or makes up, against PyTorch's verdict *said*; empty if they agree."""
    facts = {type(fact) for fact in analyze(Program.of(text, "program.py")).facts}
    wanted = {FACTS[said]} if said else set()
    if said == "no graph" and call.name.startswith(WITHOUT_CUT):
        return ""
    if said == "part changed":  # PyTorch stops there, and does not see the values that the change has spoilt
        facts.discard(Overwritten)
    names = [f"missed {one.__name__}" for one in wanted - facts] + [f"made up {one.__name__}" for one in facts - wanted]
    return f"{call.setup} {call.call}, {kind}: {', '.join(names)}" if names else ""


def test_the_witness_agrees_with_pytorch_on_every_operation() -> None:
    wrong: list[str] = []
    count = 0
    for call in calls():
        for program in programs(call):
            said = verdict(program.text)
            if said is not None:
                count += 1
                wrong.append(disagreement(call, program.kind, program.text, said))
    assert not list(filter(None, wrong))
    assert count >= FEWEST
