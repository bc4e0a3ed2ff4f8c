"""Objects of which nobody knows how many there are: each of them has a graph of its own."""

from __future__ import annotations

import pytest

from autofix.codemods.facts.base import Certainty
from autofix.codemods.facts.changed import Overwritten
from autofix.codemods.facts.freed import StaleGraph
from autofix.codemods.interpreter.analysis import analyze
from autofix.codemods.source.program import Program

HEADER = """\
import argparse, random, torch
from torch import nn
parser = argparse.ArgumentParser()
parser.add_argument("--count", type=int, default=3)
parser.add_argument("--names", nargs="+", default=["a", "b", "c"])
args = parser.parse_args()
count = args.count
class Plain:
    def __init__(self):
        self.net, self.terms, self.loss = nn.Linear(3, 2), [], None
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.1)
    def play(self):
        self.terms.append(self.net(torch.randn(3)).pow(2).mean())
class Player(nn.Module):
    def __init__(self):
        super().__init__()
        self.net, self.terms, self.loss = nn.Linear(3, 2), [], None
    def play(self):
        self.terms.append(self.net(torch.randn(3)).pow(2).mean())
def learn(player, opt):
    loss = torch.stack(player.terms).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
MADE = {
    "comprehension": "players = [Plain() for _ in range(count)]",
    "appended": "players = []\nfor _ in range(count):\n    players.append(Plain())",
    "put": "players = [None] * count\nfor i in range(count):\n    players[i] = Plain()",
    "dictionary": "players = {}\nfor i in range(count):\n    players[i] = Plain()",
    "modules": "players = nn.ModuleList([Player() for _ in range(count)])",
    "modules-in-list": "players = [Player() for _ in range(count)]",
}
OPTIMIZERS = """
opts = {}
for at in range(count):
    opts[at] = torch.optim.SGD(players[at].net.parameters(), lr=0.1)
"""
LOOPS = {
    "range": "for i in range(count):",
    "length": "for i in range(len(players)):",
    "sampled": "for i in random.sample(range(count), count):",
    "ring": "for k in range(count):\n        i = (k + 1) % count",
    "from-last": "for k in range(count):\n        i = count - 1 - k",
    "falling": "for i in range(count - 1, -1, -1):",
    "reversed": "for i in reversed(range(count)):",
    "order": "order = torch.randperm(count).tolist()\n    for k in range(count):\n        i = order[k]",
    "order-tensor": "order = torch.randperm(count)\n    for k in range(count):\n        i = int(order[k])",
    "enumerated": "for i, opt in enumerate(opts.values()):",
    "while": "i = -1\n    while i < count - 1:\n        i += 1",
}


def game(made: str, loop: str, *, reset: bool = True) -> str:
    rounds = [
        "for episode in range(3):",
        *(["    for i in range(count):", "        players[i].terms = []"] if reset else []),
        "    for turn in range(4):",
        "        for i in range(count):",
        "            players[i].play()",
        f"    {loop}",
        "        learn(players[i], opts[i])",
    ]
    return "\n".join((HEADER, made, OPTIMIZERS, *rounds))


@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
@pytest.mark.parametrize("made", MADE.values(), ids=MADE)
def test_every_object_has_a_graph_of_its_own(made: str, loop: str) -> None:
    assert analyze(Program.of(game(made, loop), "game.py")).facts == ()


@pytest.mark.parametrize("made", MADE.values(), ids=MADE)
def test_an_object_that_keeps_its_graphs_is_stale_in_the_next_round(made: str) -> None:
    facts = analyze(Program.of(game(made, LOOPS["range"], reset=False), "game.py")).facts
    assert {type(fact) for fact in facts} == {StaleGraph}


RIGHT = {
    "nested": """
        teams = [[Plain() for _ in range(count)] for _ in range(count)]
        for episode in range(3):
            for team in range(count):
                for i in range(count):
                    teams[team][i].terms = []
                    teams[team][i].play()
            for team in range(count):
                for i in range(count):
                    learn(teams[team][i], teams[team][i].opt)
        """,
    "zipped": """
        players = [Plain() for _ in range(count)]
        for episode in range(3):
            for i in range(count):
                players[i].terms = []
                players[i].play()
            for i, (player, scale) in enumerate(zip(players, torch.rand(count))):
                loss = scale * torch.stack(players[i].terms).mean()
                player.opt.zero_grad()
                loss.backward()
                player.opt.step()
        """,
    "names": """
        players = {name: Plain() for name in args.names}
        for episode in range(3):
            for name in args.names:
                players[name].terms = []
                players[name].play()
            for name in args.names:
                learn(players[name], players[name].opt)
        """,
    "numbered-names": """
        players = {}
        for i in range(count):
            players[f"player_{i}"] = Plain()
        for episode in range(3):
            for name in players:
                players[name].terms.clear()
                players[name].play()
            for i in range(count):
                learn(players[f"player_{i}"], players[f"player_{i}"].opt)
        """,
    "losses-by-name": """
        players, losses = {name: Plain() for name in args.names}, {}
        for episode in range(3):
            for name in args.names:
                losses[name] = players[name].net(torch.randn(4, 3)).mean()
            for name in args.names:
                players[name].opt.zero_grad()
                losses[name].backward()
                players[name].opt.step()
        """,
    "chosen-twice": """
        players = [Plain() for _ in range(count)]
        for episode in range(3):
            chosen = random.sample(range(count), 2)
            for i in chosen:
                players[i].terms = []
                players[i].play()
            for i in chosen:
                learn(players[i], players[i].opt)
        """,
    "two-picked": """
        players = nn.ModuleList([Player() for _ in range(count)])
        for episode in range(3):
            one, two = random.sample(range(count), 2)
            for i in (one, two):
                players[i].terms = []
                players[i].play()
            torch.stack(players[one].terms).mean().backward()
            torch.stack(players[two].terms).mean().backward()
        """,
    "set-here-read-there": """
        players = []
        for i in range(count):
            players.append(Plain())
        for episode in range(3):
            for player in players:
                player.loss = player.net(torch.randn(4, 3)).mean()
            for i in range(len(players)):
                player = players[i]
                player.opt.zero_grad()
                player.loss.backward()
                player.opt.step()
        """,
    "first-apart": """
        players = [Plain() for _ in range(count)]
        for episode in range(3):
            for player in players:
                player.loss = player.net(torch.randn(4, 3)).mean()
            players[0].loss.backward()
            for i in range(1, count):
                players[i].loss.backward()
        """,
}


@pytest.mark.parametrize("text", RIGHT.values(), ids=RIGHT)
def test_right_code_of_many_objects_is_left_alone(text: str) -> None:
    assert analyze(Program.of(HEADER + _dedented(text), "game.py")).facts == ()


def _dedented(text: str) -> str:
    return "\n".join(line[8:] for line in text.splitlines())


WRONG = {
    "known-index": """
        players = [Plain() for _ in range(count)]
        for episode in range(3):
            players[0].play()
            learn(players[0], players[0].opt)
        """,
    "one-unknown-index": """
        players = [Plain() for _ in range(count)]
        which = int(input())
        for episode in range(3):
            players[which].play()
            learn(players[which], players[which].opt)
        """,
    "one-object-after-another": """
        players = [Plain() for _ in range(count)]
        for i in range(count):
            for episode in range(3):
                players[i].play()
                learn(players[i], players[i].opt)
        """,
    "one-object-for-all": """
        players = [Plain() for _ in range(count)]
        shared = Plain()
        for episode in range(3):
            shared.loss = shared.net(torch.randn(4, 3)).pow(2).mean()
            for i in range(count):
                loss = shared.loss + players[i].net(torch.randn(4, 3)).mean()
                loss.backward()
        """,
    "names": """
        players = {name: Plain() for name in args.names}
        for episode in range(3):
            for name in args.names:
                players[name].play()
            for name in args.names:
                learn(players[name], players[name].opt)
        """,
}


@pytest.mark.parametrize("text", WRONG.values(), ids=WRONG)
def test_the_same_object_in_a_later_iteration_is_stale(text: str) -> None:
    (fact,) = analyze(Program.of(HEADER + _dedented(text), "game.py")).facts
    assert isinstance(fact, StaleGraph)
    assert fact.certainty is Certainty.CERTAIN


def test_the_networks_of_one_number_belong_together() -> None:
    text = """
        players = [Plain() for _ in range(count)]
        critics = [nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1)) for _ in range(count)]
        opts = [torch.optim.SGD(critic.parameters(), lr=0.1) for critic in critics]
        for episode in range(3):
            for i in range(count):
                action = players[i].net(torch.randn(4, 3))
                loss = -critics[i](action).mean()
                value = critics[i](action.detach()).pow(2).mean()
                opts[i].zero_grad()
                value.backward()
                opts[i].step()
                players[i].opt.zero_grad()
                loss.backward()
                players[i].opt.step()
        """
    (fact,) = analyze(Program.of(HEADER + _dedented(text), "game.py")).facts
    assert isinstance(fact, Overwritten)
