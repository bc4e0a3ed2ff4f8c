"""Which branches of a program are worth a path of their own: those that the tape may see, and each of them once."""

from __future__ import annotations

import textwrap

import pytest

from autofix.codemods.checks.known import Known
from autofix.codemods.facts import StaleGraph
from autofix.codemods.interpreter import analysis
from autofix.codemods.interpreter.bounds import Bounds, comparison
from autofix.codemods.interpreter.policy import BranchPolicy
from autofix.codemods.interpreter.protocol import Interpreter
from autofix.codemods.source.program import Program
from autofix.codemods.source.sources import Sources

SCRIPT = """\
import torch
from torch import nn
from elsewhere import batches, config, monitor

net = nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
history, best, rate = [], 0.0, 0.1
for number, (inputs, target) in enumerate(batches):
    loss = (net(inputs) - target).pow(2).mean()
    optimizer.zero_grad()
    if monitor.due(number):
BRANCH
    loss.backward()
    optimizer.step()
    net.rate = rate
"""

QUIET = {
    "prints a number": "print(f'{number}: {loss.item():.3f}')",
    "writes a log": "monitor.add_scalar('loss', loss.item(), number)",
    "writes a log of several numbers": "monitor.log({'loss': loss.item(), 'step': number + 1})",
    "looks through what nobody read": "for one in monitor.all:\n    if one.late:\n        print(one.id)\n        break",
    "keeps a number to itself": "shown = loss.item()\nprint(shown)",
    "chooses what to print": "print('best' if best else 'worse')",
    "does nothing": "pass",
}
SEEN = {
    "runs a pass": "loss.backward(retain_graph=True)",
    "makes a step": "optimizer.step()",
    "makes a graph": "loss = loss * 2",
    "stores a graph": "history.append(loss)",
    "hands a graph to what nobody read": "monitor.keep(loss)",
    "hands the model to what nobody read": "monitor.keep(net)",
    "changes a tensor in place": "loss.mul_(2)",
    "changes a parameter": "net.weight.data.zero_()",
    "sets a name that is used later": "rate = 0.05",
    "leaves the loop": "break",
    "skips the rest": "continue",
    "fails": "raise ValueError",
    "runs a function of the program": "adjust()",
    "uses torch as it was": "print(loss.data[0])",
    "copies a graph away": "print(loss.numpy())",
    "sends what nobody read backward": "monitor.backward()",
    "sets an attribute": "config.rate = 0.05",
}


def paths(script: str, monkeypatch: pytest.MonkeyPatch) -> list[BranchPolicy]:
    """Return the paths that are followed through a script."""
    followed: list[BranchPolicy] = []
    follow = analysis._follow

    def noted(sources: Sources, policy: BranchPolicy, found: Known) -> Interpreter:
        followed.append(policy)
        return follow(sources, policy, found)

    monkeypatch.setattr(analysis, "_follow", noted)
    analysis.analyze(Program.of(script, "train.py"))
    return followed


def with_branch(branch: str) -> str:
    body = "\n".join(f"        {line}" for line in branch.split("\n"))
    return SCRIPT.replace("BRANCH", body).replace("net = nn", "def adjust():\n    net.bias.data.zero_()\n\nnet = nn")


@pytest.mark.parametrize("branch", QUIET.values(), ids=QUIET)
def test_a_branch_that_only_tells_is_no_reason_for_another_path(branch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(paths(with_branch(branch), monkeypatch)) == 1


@pytest.mark.parametrize("branch", SEEN.values(), ids=SEEN)
def test_a_branch_that_the_tape_may_see_is_followed_both_ways(branch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(paths(with_branch(branch), monkeypatch)) > 1


def test_a_condition_that_decides_about_another_branch_too_is_turned_round(monkeypatch: pytest.MonkeyPatch) -> None:
    again = "    if monitor.due(number):\n        loss = loss * 2\n    loss.backward()"
    assert len(paths(with_branch("print(number)"), monkeypatch)) == 1
    assert len(paths(with_branch("print(number)").replace("    loss.backward()", again), monkeypatch)) > 1


def test_a_condition_that_showed_nothing_is_turned_round_once_for_all_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    layers = "net = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))"
    chosen = "chosen = [p for p in net.parameters() if p.dim() > 1]"
    script = with_branch("pass").replace("net = nn.Linear(4, 1)", f"{layers}\n{chosen}")
    assert len(paths(script, monkeypatch)) <= 3


def test_a_condition_that_only_an_alternative_comes_to_is_turned_round_there() -> None:
    """The loss is kept on one side of the first condition, and what is kept is sent back on one side of the second."""
    kept = SCRIPT.replace("BRANCH", "        print(number)\n    else:\n        history.append(loss)")
    sent = "    if history and not monitor.full():\n        sum(history).backward()\n"
    seen = analysis.analyze(Program.of(kept.replace("    net.rate = rate\n", sent), "train.py"))
    assert any(isinstance(fact, StaleGraph) for fact in seen.facts)


def test_a_loss_that_an_option_leaves_out_is_no_loss_of_several_elements() -> None:
    """What the loader hands out may be anything, None as well, for whoever has not read the loader."""
    program = """\
        import torch
        from torch import nn
        from data import loader

        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.head = nn.Linear(4, 8)

            def forward(self, inputs, labels=None):
                logits = self.head(inputs)
                if labels is None:
                    return logits
                return nn.functional.cross_entropy(logits, labels)

        model = Model()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for inputs, labels in loader:
            loss = model(inputs, labels=labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        """
    assert analysis.analyze(Program.of(textwrap.dedent(program), "train.py")).facts == ()


@pytest.mark.parametrize(
    ("known", "holds", "asked", "answer"),
    [
        (("Gt", "x", ("int", 256)), False, ("Eq", "x", ("int", 512)), False),
        (("Gt", "x", ("int", 256)), True, ("Eq", "x", ("int", 512)), None),
        (("Gt", "x", ("int", 256)), True, ("Lt", "x", ("float", 256.0)), False),
        (("Gt", "x", ("int", 256)), False, ("Lt", "x", ("int", 256)), None),
        (("Eq", ("int", 3), "x"), True, ("Gt", ("int", 4), "x"), True),
        (("Eq", "x", ("int", 3)), False, ("Eq", "x", ("int", 4)), None),
        (("Eq", "x", ("int", 3)), False, ("Eq", "x", ("int", 3)), False),
        (("Eq", "x", ("str", "a")), True, ("Eq", "x", ("str", "b")), False),
        (("Eq", "x", ("str", "a")), False, ("Eq", "x", ("str", "b")), None),
        (("Eq", "x", ("str", "a")), True, ("Gt", "x", ("int", 1)), None),
        (("Lt", "x", ("int", 1)), True, ("Lt", "x", ("int", 2)), True),
        (("Lt", "x", ("int", 1)), False, ("Gt", "x", ("int", 0)), True),
        (("Lt", "x", ("int", 1)), False, ("Gt", "x", ("int", 1)), None),
    ],
)
def test_an_answer_decides_what_it_implies(known: object, holds: bool, asked: object, answer: bool | None) -> None:
    bounds = Bounds()
    first, second = comparison(known), comparison(asked)
    assert first is not None
    assert second is not None
    bounds.add(first, holds, 7)
    assert bounds.implied(second) == (None if answer is None else (answer, [7]))


def test_other_conditions_are_no_comparisons_with_constants() -> None:
    assert comparison(("Eq", "x", "y")) is None
    assert comparison(("Eq", ("int", 1), ("int", 2))) is None
    assert comparison(("attr", "x", "flag")) is None
