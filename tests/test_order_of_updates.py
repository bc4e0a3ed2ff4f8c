"""Two networks that are updated one after the other: the first update comes before the second loss is computed."""

from __future__ import annotations

from typing import Any

import pytest

from autofix.engine import analyse

JUDGED = """\
import torch
from torch import nn
torch.manual_seed(0)
maker = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4))
judge = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
by_maker, by_judge = torch.optim.Adam(maker.parameters()), torch.optim.Adam(judge.parameters())
entropy, seen, told = nn.BCEWithLogitsLoss(), 0.0, 0.0
def ones(): return torch.ones(3, 1)
"""
AHEAD = {
    "sums that begin with a number, told before the passes": (
        """
for real in torch.rand(6, 3, 4):
    made, maker_loss, judge_loss = maker(torch.randn(3, 4)), 0, 0
    judge_loss += entropy(judge(real), ones()) + entropy(judge(made.detach()), 0 * ones())
    fooled = judge(made)
    maker_loss += entropy(fooled, ones())
    maker_loss += 10 * (made - real).abs().mean()
    seen += maker_loss.item()
    told += judge_loss.item()
    # the judge
    judge_loss.backward()
    by_judge.step()
    by_judge.zero_grad()
    maker_loss.backward()
    by_maker.step()
    by_maker.zero_grad()
""",
        """
    # the judge
    judge_loss.backward()
    by_judge.step()
    by_judge.zero_grad()
    fooled = judge(made)
""",
    ),
    "losses in a dictionary": (
        """
for real in torch.rand(6, 3, 4):
    made, losses = maker(torch.randn(3, 4)), {}
    losses["judge"] = entropy(judge(real), ones()) + entropy(judge(made.detach()), 0 * ones())
    losses["maker"] = 0
    fooled = judge(made)
    losses["maker"] += entropy(fooled, ones())
    seen += sum(one.item() for one in losses.values())
    by_judge.zero_grad()
    losses["judge"].backward()
    torch.nn.utils.clip_grad_norm_(judge.parameters(), 1.0)
    by_judge.step()
    by_maker.zero_grad()
    losses["maker"].backward()
    by_maker.step()
""",
        """
    by_judge.zero_grad()
    losses["judge"].backward()
    torch.nn.utils.clip_grad_norm_(judge.parameters(), 1.0)
    by_judge.step()
    fooled = judge(made)
""",
    ),
    "attributes of an object, in a method": (
        """
class Game:
    def __init__(self):
        self.seen = 0.0
    def play(self, real):
        self.made = maker(torch.randn(3, 4))
        self.judge_loss = entropy(judge(real), ones()) + entropy(judge(self.made.detach()), 0 * ones())
        self.fooled = judge(self.made)
        self.maker_loss = 0
        self.maker_loss += entropy(self.fooled, ones())
        self.seen += self.maker_loss.item()
        self.judge_loss.backward()
        by_judge.step()
        by_judge.zero_grad()
        self.maker_loss.backward()
        by_maker.step()
        by_maker.zero_grad()
game = Game()
for real in torch.rand(6, 3, 4):
    game.play(real)
""",
        """
        self.judge_loss.backward()
        by_judge.step()
        by_judge.zero_grad()
        self.fooled = judge(self.made)
""",
    ),
}
NOT_AHEAD = {
    "the judge's loss grows behind the maker's": """
for real in torch.rand(6, 3, 4):
    made, maker_loss, judge_loss = maker(torch.randn(3, 4)), 0, 0
    judge_loss += entropy(judge(real), ones())
    fooled = judge(made)
    maker_loss += entropy(fooled, ones())
    judge_loss += entropy(judge(made.detach()), 0 * ones())
    seen += maker_loss.item()
    judge_loss.backward()
    by_judge.step()
    by_judge.zero_grad()
    maker_loss.backward()
    by_maker.step()
    by_maker.zero_grad()
""",
    "the judge's losses are gathered on both sides": """
for real in torch.rand(6, 3, 4):
    made, maker_loss, parts = maker(torch.randn(3, 4)), 0, []
    parts.append(entropy(judge(real), ones()))
    fooled = judge(made)
    maker_loss += entropy(fooled, ones())
    parts.append(entropy(judge(made.detach()), 0 * ones()))
    seen += maker_loss.item()
    sum(parts).backward()
    by_judge.step()
    by_judge.zero_grad()
    maker_loss.backward()
    by_maker.step()
    by_maker.zero_grad()
""",
    "gradients are taken in between": """
for real in torch.rand(6, 3, 4):
    made, maker_loss, judge_loss = maker(torch.randn(3, 4)), 0, 0
    judge_loss += entropy(judge(real), ones()) + entropy(judge(made.detach()), 0 * ones())
    fooled = judge(made)
    maker_loss += entropy(fooled, ones())
    (slope,) = torch.autograd.grad(fooled.sum(), made, retain_graph=True)
    seen += maker_loss.item() * slope.norm().item()
    judge_loss.backward()
    by_judge.step()
    by_judge.zero_grad()
    maker_loss.backward()
    by_maker.step()
    by_maker.zero_grad()
""",
}


def _runs(text: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(compile(text, "train.py", "exec"), names)
    return names


@pytest.mark.parametrize(("text", "after"), AHEAD.values(), ids=AHEAD)
def test_the_judge_is_updated_before_the_maker_asks_it(text: str, after: str) -> None:
    analysis = analyse(JUDGED + text, "train.py")
    assert [(finding.code, finding.fixed) for finding in analysis.findings] == [("AF202", True)]
    assert after in analysis.patched
    names = _runs(analysis.patched)
    assert all(one in names["by_maker"].state for one in names["maker"].parameters())
    assert all(one in names["by_judge"].state for one in names["judge"].parameters())


@pytest.mark.parametrize("text", NOT_AHEAD.values(), ids=NOT_AHEAD)
def test_what_an_update_needs_stays_before_it(text: str) -> None:
    patched = analyse(JUDGED + text, "train.py").patched
    assert patched.index("judge_loss" if "judge_loss" in text else "parts") < patched.index("fooled")
    assert patched.index("fooled = judge(made)") < patched.index("by_judge.step()")


VALUED = """\
import torch
from torch import nn
torch.manual_seed(0)
def net(inputs, outputs): return nn.Sequential(nn.Linear(inputs, 8), nn.Tanh(), nn.Linear(8, outputs))
actor, first, second, TWO, WARM = net(4, 2), net(6, 1), net(6, 1), True, 3
by_actor, by_first, by_second = (torch.optim.Adam(one.parameters()) for one in (actor, first, second))
def joined(*parts): return torch.cat(parts, 1)
logged = []
def update(state, taken, goal, epoch):
    action = actor(state)
    if TWO:
        value = torch.min(first(joined(state, action)), second(joined(state, action)))
    else:
        value = first(joined(state, action))
    actor_loss = -value.mean()
    if epoch < WARM:
        actor_loss = (action - taken).pow(2).mean()

    first_loss = (first(joined(state, taken)) - goal).pow(2).mean()
    second_loss = (second(joined(state, taken)) - goal).pow(2).mean()
    BETWEEN
    by_first.zero_grad()
    first_loss.backward()
    by_first.step()
    CONDITION
        by_second.zero_grad()
        second_loss.backward()
        by_second.step()

    by_actor.zero_grad()
    actor_loss.backward()
    by_actor.step()
for epoch in range(8):
    update(torch.rand(3, 4), torch.rand(3, 2), torch.rand(3, 1), epoch)
"""


@pytest.mark.parametrize("condition", ["if TWO:", "if second is not None:"])
@pytest.mark.parametrize("between", ["pass", "logged.append(first_loss.item())"])
def test_a_loss_of_one_or_another_branch_is_computed_after_the_steps(between: str, condition: str) -> None:
    analysis = analyse(VALUED.replace("BETWEEN", between).replace("CONDITION", condition), "train.py")
    assert [(finding.code, finding.fixed) for finding in analysis.findings] == [("AF202", True)]
    assert analysis.patched.index("by_second.step()") < analysis.patched.index("value = torch.min")
    assert analysis.patched.count("actor_loss = ") == 2
    _runs(analysis.patched)


@pytest.mark.parametrize("between", ["logged.append(value.mean().item())", "state = state + 0"])
def test_what_is_read_before_the_steps_stays_before_them(between: str) -> None:
    patched = analyse(VALUED.replace("BETWEEN", between).replace("CONDITION", "if TWO:"), "train.py").patched
    assert patched.index("value = torch.min") < patched.index(between)
