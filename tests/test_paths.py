"""Branches of a program that are worth a path of their own: branches that the tape may see, each of them once."""

from __future__ import annotations

import textwrap
from collections.abc import Hashable
from functools import partial

import pytest

from autofix.codemods.checks.checks import Checks
from autofix.codemods.facts.base import Fact
from autofix.codemods.facts.freed import StaleGraph
from autofix.codemods.facts.kept import GraphHeld
from autofix.codemods.interpreter import analysis, checkpoint
from autofix.codemods.interpreter.bounds import Bounds, comparison
from autofix.codemods.interpreter.policy import BranchPolicy, Path, Paths
from autofix.codemods.interpreter.protocol import Interpreter
from autofix.codemods.source.program import Program
from autofix.codemods.source.sources import Sources

SCRIPT = """\
import torch
from torch import nn
from elsewhere import batches, config, monitor

class Meter:
    def __init__(self):
        self.total, self.stopped = 0.0, False
        self.recent = []

    def update(self, value):
        self.total += value
        self.recent.append(value)

def tell(number, model):
    text = f'{number}: {monitor.time()}'
    print(text)
    torch.save(model.state_dict(), text)

def store(number):
    global rate
    rate = number

net = nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
history, best, rate, log, meter, due = [], 0.0, 0.1, [], Meter(), 1
for number, (inputs, target) in enumerate(batches):
    loss = (net(inputs) - target).pow(2).mean()
    optimizer.zero_grad()
    if monitor.due(number):
BRANCH
    loss.backward()
    optimizer.step()
    net.rate = rate, history, meter.stopped, due
    print(best, sum(log), meter.total)
"""

QUIET = {
    "prints a number": "print(f'{number}: {loss.item():.3f}')",
    "writes a log": "monitor.add_scalar('loss', loss.item(), number)",
    "writes a log of several numbers": "monitor.log({'loss': loss.item(), 'step': number + 1})",
    "looks through what nobody read": "for one in monitor.all:\n    if one.late:\n        print(one.id)\n        break",
    "keeps a number to itself": "shown = loss.item()\nprint(shown)",
    "chooses what to print": "print('best' if best else 'worse')",
    "saves what is learnt": "torch.save({'net': net.state_dict(), 'number': number}, 'net.pt')",
    "keeps a number that is only told": "best = loss.item()",
    "keeps numbers that are only told": "log.append(loss.item())",
    "tells in a block of its own": "with open('log.txt') as file:\n    file.write(str(number))",
    "sets an item of what nobody read": "monitor.table[0] = number",
    "runs a function that tells": "tell(number, net)",
    "tells a meter": "meter.update(loss.item())",
    "hands a list of numbers to a library": "monitor.write(monitor.mean(log))",
    "asks for what a thing is": "print(isinstance(net, nn.Linear), hasattr(net, 'bias'))",
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
    "adds to a list that is used later": "history.append(number)",
    "answers a question": "meter.stopped = True",
    "runs a function that stores": "store(number)",
    "sets a name on one side": "due = number + 1",
    "begins again": "net.load_state_dict(torch.load('net.pt'))",
    "sets an item of a tensor": "loss[0] = 0",
}


def paths(script: str, monkeypatch: pytest.MonkeyPatch) -> list[BranchPolicy]:
    """Return the paths that are followed through a script."""
    followed: list[BranchPolicy] = []
    follow = analysis._follow

    def noted(sources: Sources, policy: BranchPolicy, checks: Checks) -> tuple[Interpreter, set[Fact]]:
        followed.append(policy)
        return follow(sources, policy, checks)

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
    """The loss is kept on one side of the first condition, and the kept loss is sent back on one side of the second."""
    kept = SCRIPT.replace("BRANCH", "        print(number)\n    else:\n        history.append(loss)")
    sent = "    if history and not monitor.full():\n        sum(history).backward()\n"
    seen = analysis.analyze(
        Program.of(kept.replace("    net.rate = rate, history, meter.stopped, due\n", sent), "train.py")
    )
    assert any(isinstance(fact, StaleGraph) for fact in seen.facts)


def test_a_loss_that_an_option_leaves_out_is_no_loss_of_several_elements() -> None:
    """The loader may hand out anything, None as well, for an analysis that has not read the loader."""
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


SCHEDULE = """\
import torch
from torch import nn
from elsewhere import batches, config

args = config()

def rate(step, low=0.0):
    {body}

net = nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step, (inputs, target) in enumerate(batches):
    value = rate(step)
    for group in optimizer.param_groups:
        group["lr"] = value
    loss = (net(inputs) - target).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    "body",
    [
        "return args.rate * step / args.warmup if step < args.warmup else args.rate",
        "if step < args.warmup:\n        return args.rate * step\n    return low + args.rate",
        "factor = step / args.total\n    if args.cosine:\n        factor = factor * 0.5\n    return factor",
    ],
)
def test_a_function_that_works_out_a_number_decides_about_nothing(body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(paths(SCHEDULE.format(body=body), monkeypatch)) == 1


@pytest.mark.parametrize(
    "body",
    [
        "if step < args.warmup:\n        return 1\n    return 5",
        "if step < args.warmup:\n        return True\n    return False",
        "if step < args.warmup:\n        return None\n    return args.rate",
        "if step < args.warmup:\n        net.bias.data.zero_()\n    return args.rate * step",
    ],
)
def test_a_function_that_answers_a_question_is_followed_both_ways(body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(paths(SCHEDULE.format(body=body), monkeypatch)) > 1


DEVICES = {
    "device = 'cuda' if torch.cuda.is_available() else 'cpu'": 1,
    "device = torch.device('cuda:0' if config().gpu and torch.cuda.is_available() else 'cpu')": 1,
    "device = torch.device('cuda') if torch.cuda.is_available() else torch.device('cpu')": 1,
    "if torch.cuda.is_available():\n    device = 'cuda'\nelse:\n    device = 'cpu'": 1,
    "device = 'cpu' if config().no_gpu else 'cuda'": 2,
    "device = 'cuda' if torch.cuda.is_available() else config().other": 2,
}


@pytest.mark.parametrize(("choice", "expected"), DEVICES.items())
def test_a_choice_of_a_device_is_followed_where_it_shows_most(
    choice: str, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = with_branch("pass").replace("net = nn", f"{choice}\nnet = nn").replace("(inputs)", "(inputs.to(device))")
    assert len(paths(script, monkeypatch)) == expected


def test_whoever_asks_twice_for_the_machine_gets_one_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    again = "if torch.cuda.is_available():\n    net = net.float()\n"
    script = with_branch("pass").replace("history", f"{again * 3}history", 1)
    assert len(paths(script, monkeypatch)) <= 2


def test_weights_are_given_their_first_values_on_one_path(monkeypatch: pytest.MonkeyPatch) -> None:
    sides = "    nn.init.xavier_uniform_(net.weight)\nelse:\n    net.weight.data.normal_(0, 0.02)\n"
    first = f"args = config()\nif args.xavier:\n{sides}"
    script = with_branch("pass").replace("history", f"{first}history", 1)
    assert len(paths(script, monkeypatch)) == 1


IN_A_FUNCTION = """\
import torch
from torch import nn
from elsewhere import batches, monitor
def other():
    note = rate = 3
    return [note] * rate
def train(net, optimizer):
{declared}    for number, inputs in enumerate(batches):
        loss = net(inputs).pow(2).mean()
        optimizer.zero_grad()
        if monitor.due(number):
            note = 3
            print(note)
        loss.backward()
        optimizer.step()
{after}net = nn.Linear(4, 1)
note = 0
train(net, torch.optim.SGD(net.parameters(), lr=0.1))
"""


@pytest.mark.parametrize(
    ("declared", "after", "alone"),
    [
        ("", "", True),
        ("    global note\n", "", False),
        ("", "    net.note = note\n", False),
        ("", "    net.note = lambda: [note] * 3\n", False),
    ],
    ids=["its own", "global", "read later", "read by an inner function"],
)
def test_a_name_of_a_function_is_read_in_it_alone(
    declared: str, after: str, alone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = IN_A_FUNCTION.format(declared=declared, after=after)
    assert (len(paths(script, monkeypatch)) == 1) is alone


def test_the_last_condition_of_a_turn_may_leave_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    ending = "    net.rate = rate\n    if monitor.late():\n        print(number)\n        break\n"
    script = with_branch("pass").partition("    net.rate")[0]
    assert len(paths(script + ending, monkeypatch)) == 1
    assert len(paths(f"{script}{ending}    loss = loss * 2\n", monkeypatch)) > 1
    assert len(paths(f"{script}{ending}else:\n    loss.backward()\n", monkeypatch)) > 1


def test_a_value_is_no_other_than_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two equal widths need no layer between them."""
    narrow = (
        "width = config().width\nagain = width\nif width != again:\n    net = nn.Sequential(net, nn.Linear(1, 1))\n"
    )
    script = with_branch("pass").replace("history", f"{narrow}history", 1)
    assert len(paths(script, monkeypatch)) == 1


EVALUATED = """\
import torch
from torch import nn
from torch.nn import functional as F
from elsewhere import batches, held_out, monitor

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 1)
        self.last = None

    def forward(self, x):
        {forward}

def evaluate(model):
    {evaluate}

net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
best = 0.0
for number, (inputs, target) in enumerate(batches):
    loss = (net(inputs) - target).pow(2).mean()
    if monitor.due(number):
        score = evaluate(net)
        if score > best:
            best = score
            torch.save(net.state_dict(), "best.pt")
        print(f"{{number}}: {{score:.3f}}")
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
FORWARD = "return self.layer(x)"
EVALUATE = """model.eval()
    total, losses = 0.0, torch.zeros(10)
    with torch.no_grad():
        for k, (inputs, target) in enumerate(held_out):
            found = model(inputs.to("cuda"))
            losses[k] = F.mse_loss(found, target).item()
            total += (found.argmax(1) == target).float().mean().item()
    model.train()
    return total / max(1, len(held_out))"""


def test_an_evaluation_without_a_graph_is_no_reason_for_another_path(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(paths(EVALUATED.format(forward=FORWARD, evaluate=EVALUATE), monkeypatch)) == 1
    decorated = EVALUATED.replace("def evaluate", "@torch.no_grad()\ndef evaluate")
    body = EVALUATE.replace("with torch.no_grad():", "if True:")
    assert len(paths(decorated.format(forward=FORWARD, evaluate=body), monkeypatch)) == 1


@pytest.mark.parametrize(
    ("forward", "evaluate"),
    [
        ("self.last = x\n        return self.layer(x)", EVALUATE),
        (FORWARD, EVALUATE.replace("with torch.no_grad():", "if True:")),
        (FORWARD, EVALUATE.replace("model.train()", "pass")),
        (FORWARD, EVALUATE.replace("model.train()", "model.train(); optimizer.step()")),
        (FORWARD, EVALUATE.replace("found = ", "found = model.layer.bias.add_(1); found = ")),
        (FORWARD, "global loss\n    loss = loss * 2\n    return 0.5"),
    ],
)
def test_an_evaluation_that_leaves_something_behind_is_followed_both_ways(
    forward: str, evaluate: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(paths(EVALUATED.format(forward=forward, evaluate=evaluate), monkeypatch)) > 1


def test_a_number_is_chosen_on_one_path(monkeypatch: pytest.MonkeyPatch) -> None:
    explained = "    ratio = float('nan') if monitor.var() == 0 else 1 - monitor.var() / 2\n"
    script = with_branch("pass").replace("    net.rate = ", f"{explained}    net.rate = ratio, ")
    assert len(paths(script, monkeypatch)) == 1
    answer = explained.replace("float('nan')", "True").replace("1 - monitor.var() / 2", "False")
    assert len(paths(script.replace(explained, answer), monkeypatch)) >= 1
    loss = explained.replace("float('nan')", "loss * 2")
    assert len(paths(script.replace(explained, loss), monkeypatch)) > 1


def test_a_tensor_that_is_asked_for_its_length_has_items(monkeypatch: pytest.MonkeyPatch) -> None:
    empty = "    if len(inputs) == 0:\n        loss = loss * 2\n"
    script = with_branch("pass").replace(
        "in enumerate(batches):\n", "in enumerate(batches):\n    inputs = net(inputs)\n"
    )
    assert (
        len(paths(script.replace("    optimizer.zero_grad()\n", f"{empty}    optimizer.zero_grad()\n"), monkeypatch))
        == 1
    )


def test_a_number_that_both_sides_set_is_unknown_either_way(monkeypatch: pytest.MonkeyPatch) -> None:
    sides = "    if monitor.late():\n        part = monitor.time() - 1\n    else:\n        part = monitor.time() / 2\n"
    script = with_branch("pass").replace("    net.rate = ", f"{sides}    loss.backward()\n    net.rate = part, ")
    assert len(paths(script, monkeypatch)) == 1
    assert len(paths(script.replace("monitor.time() / 2", "0"), monkeypatch)) > 1
    assert len(paths(script.replace("    else:\n        part = monitor.time() / 2\n", ""), monkeypatch)) > 1


SAVED = """
        score = evaluate(net)
        if score > best:
            best = score
            torch.save(net.state_dict(), "best.pt")
        print(f"{number}: {score:.3f}")
"""


def test_a_branch_that_leaves_nothing_behind_is_not_executed() -> None:
    script = EVALUATED.format(forward=FORWARD, evaluate=EVALUATE)
    told = script.replace(SAVED, "\n        print(evaluate(net))\n")
    idle = script.replace(SAVED, "\n        print(number)\n")
    seen, lighter = (analysis.analyze(Program.of(text, "train.py")) for text in (told, idle))
    assert told != script and seen.steps < lighter.steps + 40


def test_what_a_branch_reads_counts_as_executed() -> None:
    """A list of losses is held, though the branch that tells how long it is was only read."""
    script = EVALUATED.format(forward=FORWARD, evaluate=EVALUATE)
    kept = script.replace("best = 0.0", "losses = []").replace(
        "optimizer.step()\n", "optimizer.step()\n    losses.append(loss)\n"
    )
    (fact,) = analysis.analyze(Program.of(kept.replace(SAVED, "\n        print(len(losses))\n"), "train.py")).facts
    assert isinstance(fact, GraphHeld)


RESUMED = """\
import argparse
import os
import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--resume", default="")
args = parser.parse_args()
net = nn.Linear(3, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
start, best = 0, 0.0
{resume}
for epoch in range(start, 10):
    for inputs in batches():
        loss = net(inputs).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
RESTORES = {
    "in place": """\
if os.path.isfile(args.resume):
    state = torch.load(args.resume, map_location=lambda storage, _: storage)
    start, best = state["epoch"] + 1, state["best"]
    net.load_state_dict(state["net"])
    optimizer.load_state_dict(state["optimizer"])
else:
    print("nothing to resume")
""",
    "an option": """\
if os.path.isfile(args.resume):
    state = torch.load(args.resume)
    args.start = state["epoch"]
    net.load_state_dict(state["net"])
""",
    "by a function": """\
def restore(path):
    state = torch.load(path)
    net.load_state_dict(state["net"])
    return state["epoch"], state["best"]
if os.path.isfile(args.resume):
    start, best = restore(args.resume)
""",
    "by an expression": """\
def restore(path):
    state = torch.load(path)
    net.load_state_dict(state["net"])
    return state["epoch"]
start = restore(args.resume) if os.path.isfile(args.resume) else 0
""",
}


@pytest.mark.parametrize("resume", RESTORES.values(), ids=RESTORES)
def test_the_run_that_begins_anew_is_followed(resume: str, monkeypatch: pytest.MonkeyPatch) -> None:
    script = RESUMED.format(resume=resume)
    assert len(paths(script, monkeypatch)) == 1
    frozen = resume.replace("state = torch.load(", "net.requires_grad_(False)\n    state = torch.load(")
    assert len(paths(RESUMED.format(resume=frozen), monkeypatch)) > 1


STOPPED = """\
    total = loss.item()
    if total < best:
        best, patience = total, 0
    else:
        patience += 1
        if patience > 3:
            break
"""


def test_early_stopping_is_no_reason_for_another_path(monkeypatch: pytest.MonkeyPatch) -> None:
    script = "best, patience = 1e9, 0\n" + with_branch("pass").partition("    net.rate")[0] + STOPPED
    assert len(paths(script, monkeypatch)) == 1
    assert len(paths(script.replace("patience > 3", "patience > 3 and loss.backward()"), monkeypatch)) > 1
    assert len(paths(f"{script}if patience:\n    loss.backward()\n", monkeypatch)) > 1


def test_a_path_that_never_comes_to_its_question_tells_nothing_of_it() -> None:
    following = iter(Paths(4, Path()))
    first = next(following)
    for question in ("warm", "late"):
        first.place = partial(tuple[Hashable, bool], (question, True))
        first.decide(("attr", ("name", "args"), question), likely=True)
    first.matters = len(first.asked)
    first.shows_more = True
    prescribed = []
    for policy in following:  # none of them asks anything
        policy.shows_more = False
        prescribed.append(policy.path.answers)
    assert prescribed == [(False,), (True, False)]


LONG = """\
import torch
from torch import nn
{table}
class Trainer:
    def __init__(self, net):
        self.net = net
        self.opt = torch.optim.SGD(net.parameters(), 0.1)
        self.state = torch.zeros(3)
    def fit(self, batches, monitor):
        for x in batches:
            loss = self.net(x).mean()
            if monitor.due():
                self.state = self.state + self.net(x).mean(0)
                loss = loss + self.state.sum()
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
"""


def test_a_long_module_is_executed_once_for_all_paths_of_one_function(monkeypatch: pytest.MonkeyPatch) -> None:
    script = LONG.format(table="\n".join(f"WIDTH_{at} = {at} + {at} * 2" for at in range(2500)))
    executed: list[Interpreter] = []
    prepare = analysis._prepare

    def noted(interp: Interpreter) -> None:
        executed.append(interp)
        prepare(interp)

    monkeypatch.setattr(analysis, "_prepare", noted)
    again = analysis.analyze(Program.of(script, "train.py"))
    assert len(executed) == 1
    monkeypatch.setattr(checkpoint, "_LONG", 1_000_000)
    anew = analysis.analyze(Program.of(script, "train.py"))
    assert len(executed) > 2
    assert again.facts == anew.facts != ()
