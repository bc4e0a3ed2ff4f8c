"""Passes to which a program's own way is lost: warm-ups, helpers elsewhere, networks of packages, models alone."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

import pytest

from autofix.codemods.facts.base import Certainty
from autofix.codemods.facts.changed import LeafChanged, Overwritten
from autofix.codemods.facts.freed import StaleGraph
from autofix.codemods.facts.kept import GraphHeld
from autofix.codemods.facts.legacy import LegacyFunction
from autofix.codemods.interpreter.analysis import AnalysisResult, analyze
from autofix.codemods.interpreter.entries import entries
from autofix.codemods.repair import mend
from autofix.codemods.rules.registry import all_codemods
from autofix.codemods.source.program import Program
from autofix.codemods.source.sources import Sources

HELPER = """
def improve(optimizer, loss):
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

AGENT = """
import torch
from torch import nn
from somewhere.builder import dense
from helper import improve

class Judge(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = {judge}
        self.width = width

    def forward(self, x):
        return self.body(x)

class Agent:
    def __init__(self, width):
        self.actor, self.judge = nn.Linear(width, width), Judge(width)
        self.actor_optimizer = torch.optim.Adam(self.actor.parameters())
        self.judge_optimizer = torch.optim.Adam(self.judge.parameters())
        self.seen = 0

    def observe(self, batch):
        self.seen = min(self.seen + 1, 1000)
        if self.seen > 500:
            self.learn(batch)

    def learn(self, batch):
        {early}
        improve(self.judge_optimizer, self.judge(torch.cat([batch, batch])).pow(2).mean())
        {late}
        improve(self.actor_optimizer, actor_loss)
"""

LOSS = "actor_loss = -self.judge(self.actor(torch.cat([batch, batch]))).mean()"


def see(program: str, others: Mapping[str, str] | None = None) -> AnalysisResult:
    return analyze(Program.of(textwrap.dedent(program), "program.py", others))


def agent(*, judge: str = "dense(width, 1)", early: str = "pass", late: str = "pass") -> AnalysisResult:
    return see(AGENT.format(judge=judge, early=early, late=late), {"helper.py": HELPER})


def test_a_method_that_leads_to_a_pass_in_another_file_is_entered() -> None:
    (fact,) = agent(judge="nn.Sequential(nn.Linear(width, 8), nn.Linear(8, 1))", early=LOSS).facts[:1]
    assert isinstance(fact, Overwritten) and fact.by_step
    assert fact.certainty is Certainty.CERTAIN
    assert "actor_loss = " in _line(fact, LOSS)


def _line(fact: Overwritten, early: str) -> str:
    text = AGENT.format(judge="nn.Sequential(nn.Linear(width, 8), nn.Linear(8, 1))", early=early, late="pass")
    return text.split("\n")[fact.cause.line - 1]


def test_a_network_of_a_package_saves_its_parameters_and_what_is_found_is_likely() -> None:
    facts = agent(early=LOSS).facts
    assert facts
    assert all(isinstance(fact, Overwritten) and fact.certainty is Certainty.LIKELY for fact in facts)


def test_a_network_of_a_package_is_right_where_the_loss_is_computed_after_the_step() -> None:
    assert agent(late=LOSS).facts == ()


WAITING = """
import torch
from torch import nn

class Memory:
    def __init__(self):
        self.rows, self.size = torch.zeros(100, 3), 0

    def add(self, row):
        self.rows[self.size % 100] = row
        self.size = min(self.size + 1, 100)

class Learner:
    def __init__(self):
        self.memory = Memory()
        self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 1)
        self.one = torch.optim.SGD(self.first.parameters(), lr=0.1)
        self.two = torch.optim.SGD(self.second.parameters(), lr=0.1)

    def train(self):
        rounds = 0 if self.memory.size <= 90 else 2
        for _ in range(rounds):
            loss = self.second(self.first(self.memory.rows)).mean()
            other = self.second(self.memory.rows).pow(2).mean()
            self.two.zero_grad()
            other.backward()
            {before}self.two.step()
            self.one.zero_grad()
            loss.backward()
            self.one.step()
            {after}
"""

MAIN = """
if __name__ == "__main__":
    learner = Learner()
    for step in range(300):
        learner.memory.add(torch.randn(3))
        learner.train()
"""


@pytest.mark.parametrize("main", ["", MAIN], ids=["entered by its method", "followed from the script"])
def test_what_waits_for_a_memory_to_fill_is_reached(main: str) -> None:
    (fact,) = see(WAITING.format(before="", after="pass") + main).facts
    assert isinstance(fact, Overwritten) and fact.by_step


@pytest.mark.parametrize("main", ["", MAIN], ids=["entered by its method", "followed from the script"])
def test_what_waits_is_right_where_the_step_comes_last(main: str) -> None:
    seen = see(WAITING.format(before="pass  # ", after="self.two.step()") + main)
    assert seen.facts == ()
    assert seen.passes


MODEL = """
import torch
from torch import nn

class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.gate = nn.Conv2d(4, 4, 3, padding=1), nn.Conv2d(4, 4, 1)

    def forward(self, x):
        {body}

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.head, self.part = nn.Conv2d(3, 4, 1), Gate()

    def forward(self, x):
        return self.part(self.head(x))
"""

OVERWRITES = {
    "what is no copy": ["y = self.gate(x)", "z = y.to(x.device).pow(2)", "y += z", "return y"],
    "the input that a convolution saved": ["y = self.body(x)", "x[:, :, 0] = 0", "return y * self.gate(x)"],
    "what a sigmoid saved": ["y = torch.sigmoid(self.gate(x))", "y *= 2", "return self.body(x) * y"],
    "by a method": ["y = self.body(x)", "x.mul_(0.5)", "return y + self.gate(x)"],
}

LEAVES_ALONE = {
    "what may be a copy": [
        "y = self.gate(x)",
        "z = torch.sigmoid(y.to(self.body.weight.dtype)).pow(2)",
        "y += z",
        "return y",
    ],
    "a copy": ["y = self.body(x)", "x = x.clone()", "x[:, :, 0] = 0", "return y * self.gate(x)"],
    "what a convolution made": ["y = self.body(x)", "y += x", "return y"],
    "before it is saved": ["x[:, :, 0] = 0", "return self.body(x)"],
    "only in evaluation": ["y = torch.sigmoid(self.gate(x))", "if not self.training:", "    y *= 2", "return y"],
    "under no_grad": [
        "with torch.no_grad():",
        "    y = torch.sigmoid(self.gate(x))",
        "    y *= 2",
        "return self.body(x) * y",
    ],
    "a mask, before it is saved": ["m = x > 0", "m[:, :, 0] = False", "return torch.where(m, self.body(x), 0.0)"],
}


@pytest.mark.parametrize("body", OVERWRITES.values(), ids=OVERWRITES)
def test_a_model_that_nobody_is_seen_to_train_overwrites_what_its_layers_saved(body: list[str]) -> None:
    (fact,) = see(MODEL.format(body="\n        ".join(body))).facts
    assert isinstance(fact, Overwritten) and not fact.by_step


@pytest.mark.parametrize("body", LEAVES_ALONE.values(), ids=LEAVES_ALONE)
def test_a_model_that_nobody_is_seen_to_train_may_write_elsewhere(body: list[str]) -> None:
    assert see(MODEL.format(body="\n        ".join(body))).facts == ()


SEVERAL = """
import torch
from torch import nn

class Neck(nn.Module):
    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(4) for _ in range(3)])
        self.last = nn.Linear(4, 4)

    def forward(self, features{annotation}):
        {first}
        for i, norm in enumerate(self.norms):
            features[{index}] = norm(features[{index}])
        return self.last(features[-1])
"""


@pytest.mark.parametrize(
    ("annotation", "first", "index"),
    [
        ("", "pass", "i"),
        ("", "features = features[2:]", "i"),
        ("", "assert len(features) == 3", "i"),
        (": list[torch.Tensor]", "pass", "i + 1"),
    ],
)
def test_an_input_that_may_be_a_list_is_not_modified_where_an_item_is_set(
    annotation: str, first: str, index: str
) -> None:
    assert see(SEVERAL.format(annotation=annotation, first=first, index=index)).facts == ()


@pytest.mark.parametrize(
    ("annotation", "first", "index"),
    [
        ("", "steps = features.size(0)", "i"),
        ("", "depth = features.shape[1]", "i"),
        (": torch.Tensor", "pass", "i"),
        ("", "pass", ":, i"),
        ("", "self.last(features)", "i"),
    ],
)
def test_an_input_that_is_used_as_a_tensor_is_modified_where_an_item_is_set(
    annotation: str, first: str, index: str
) -> None:
    (fact,) = see(SEVERAL.format(annotation=annotation, first=first, index=index)).facts
    assert isinstance(fact, Overwritten)


DATASET = """
import torch
from torch import nn
from package import build

class Critic:
    def __init__(self, config):
        self.model = build(config)
        self.scale = {scale}
        self.optimizer = torch.optim.Adam(self.model.parameters())

    def learn(self, batches, returns):
        self.scale.train()
        returns = self.scale(returns)
        self.scale.eval()
        for batch in batches:
            loss = (self.model(batch) - returns).pow(2).mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
"""


def test_a_layer_that_only_has_a_mode_makes_no_certain_graph() -> None:
    (fact,) = see(DATASET.format(scale="self.model.scale")).facts
    assert fact.certainty is Certainty.LIKELY
    (fact,) = see(DATASET.format(scale="nn.Linear(4, 4)")).facts
    assert fact.certainty is Certainty.CERTAIN


KEPT = """
import torch
from package import build, optimizer_of, batches

model = build()
model.train()
optimizer = optimizer_of(model)
total = 0.0
for batch in batches:
    loss = model(batch).pow(2).mean()
    {way}
    total += loss
print(total)
"""


def test_a_pass_through_nothing_else_shows_that_what_has_a_mode_has_parameters() -> None:
    (fact,) = see(KEPT.format(way="loss.backward(); optimizer.step()")).facts
    assert isinstance(fact, GraphHeld) and fact.certainty is Certainty.CERTAIN


OLD = """
import torch
from torch import nn
from torch.autograd import Function

class Mean(Function):
    def __init__(self, dim):
        self.dim = dim

    {decorator}
    def forward({this}, x):
        return x.mean(dim={this}.dim)

class Pool(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim
        self.mean = Mean(dim)

    def forward(self, x):
        return {call}
"""


@pytest.mark.parametrize("call", ["Mean(self.dim)(x)", "self.mean(x)"])
def test_a_module_that_calls_an_old_function_is_read_without_a_pass(call: str) -> None:
    (fact,) = see(OLD.format(decorator="", this="self", call=call)).facts
    assert isinstance(fact, LegacyFunction)
    new = OLD.format(decorator="@staticmethod", this="ctx", call="Mean.apply(x)")
    assert see(new).facts == ()


HEADS = """
import math
import torch
from torch import nn

class Detect(nn.Module):
    def __init__(self, anchors, channels=()):
        super().__init__()
        self.anchors = len(anchors)
        self.heads = nn.ModuleList(nn.Sequential(nn.Conv2d(c, c, 3), nn.Conv2d(c, 9, 1)) for c in channels)
        self.start()

    def start(self):
        for head in self.heads:
            bias = head[-1].bias.view(self.anchors, -1)
            {change}
"""


def test_a_part_of_the_last_layer_is_modified_though_no_channels_are_the_default() -> None:
    (fact,) = see(HEADS.format(change="bias[:, 4] += math.log(8)")).facts
    assert isinstance(fact, LeafChanged)
    assert see(HEADS.format(change="bias.data[:, 4] += math.log(8)")).facts == ()


CARRIED = """
import torch
from torch import nn
w = nn.Parameter(torch.randn(4, 4))
opt = torch.optim.SGD([w], 0.1)
{start}
for step in range({steps}):
    {update}
    loss = {state}.pow(2).sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
FROM_THE_THIRD = [
    ("state = torch.zeros(4)", "state = 0.5 * state + w.sum(0)", "state"),
    ("kept = {'mean': torch.zeros(4)}", "kept['mean'] = kept['mean'] / 2 + w.mean(1)", "kept['mean']"),
    ("kept = [torch.zeros(4), 0]", "kept[0] = kept[0] * 0.9 + w.sum(dim=0)", "kept[0]"),
    ("class Kept: value = torch.zeros(4)", "Kept.value = Kept.value * 0.9 + w.sum(dim=0)", "Kept.value"),
]


@pytest.mark.parametrize(("start", "update", "state"), FROM_THE_THIRD)
def test_a_graph_that_is_met_in_the_third_iteration(start: str, update: str, state: str) -> None:
    """The first iteration saves no part of the carried value, so that the second passes through it."""
    for steps, stale in (("10", True), ("2", False)):
        found = see(CARRIED.format(start=start, update=update, state=state, steps=steps))
        assert [isinstance(fact, StaleGraph) for fact in found.facts] == [True] * stale


def test_a_graph_that_saves_nothing_may_be_passed_in_every_iteration() -> None:
    program = CARRIED.format(start="state = torch.zeros(4)", update="state = state + w.sum(0)", state="state", steps=9)
    assert not see(program.replace(".pow(2)", "")).facts


LIBRARY = """
import torch
from torch import nn

MODELS = {{}}

def register(function):
    MODELS[function.__name__] = function
    return function

@register
def plain(width):
    return nn.Linear(width, width)

@register
def deep(width):
    return nn.Sequential(nn.Linear(width, width), nn.Sigmoid())

@register
def wide(width):
    return nn.Linear(width, width)

def fit(name, batches):
    net = MODELS[name](4) if name in MODELS else None
    if "wide" in MODELS:
        total = 0.0
    else:
        total = torch.zeros(())
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    carried = torch.zeros(4)
    for batch in batches:
        carried = {update}
        loss = carried.pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
"""


@pytest.mark.parametrize(
    ("update", "count"), [("0.9 * carried + net(batch)", 1), ("0.9 * carried.detach() + net(batch)", 0)]
)
def test_a_registry_is_known_by_its_first_entry(update: str, count: int) -> None:
    found = [type(fact) for fact in see(LIBRARY.format(update=update)).facts]
    assert found[:count] == [StaleGraph] * count
    assert found[count:] in ([], [Overwritten] * count)  # the step has changed the parameters of the same graph


NAMED = """
import torch
from torch import nn

class Trainer:
    def __init__(self, net):
        self.net, self.carried = net, torch.zeros(4)
        self.opt = torch.optim.SGD(net.parameters(), lr=0.1)

    def step(self, batch):
        self.carried = 0.9 * self.carried + self.net(batch)
        loss = self.carried.pow(2).mean()
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()

def run(batches):
    trainer = Trainer(nn.Linear(4, 4))
    for batch in batches:
        trainer.step(batch)

def count(items):
    step = 0
    for item in items:
        step = step + item
    return step

def chart(net, plot):
    return [plot(step) for step in net.history]
"""


def test_a_variable_that_is_called_like_a_method_leads_to_no_pass() -> None:
    sources = Sources(Program.of(NAMED, "named.py"))
    assert [name for name, _ in entries(sources)] == ["Trainer.step", "run"]


def test_who_makes_an_object_that_changes_a_leaf_is_not_entered_for_it() -> None:
    text = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(4))
        self.halve()

    def halve(self):
        self.scale[0] = 0.5

class Other(nn.Module):
    def __init__(self):
        super().__init__()

def build():
    return Net()

def halved(net):
    net.halve()
    return net
"""
    sources = Sources(Program.of(text, "net.py"))
    assert [name for name, _ in entries(sources)] == ["Net.halve", "halved"]
    assert [type(fact) for fact in analyze(Program.of(text, "net.py")).facts] == [LeafChanged]


MODES = """
import argparse
import torch
from torch import nn
{imports}
parser = argparse.ArgumentParser()
parser.add_argument("--check", action="store_true")
parser.add_argument("--kind", default="plain")
args = parser.parse_args()

class Trainer:
    def __init__(self, args):
        self.args = args
        self.net = nn.Linear(4, 4)
        for name, parameter in self.net.named_parameters():
            if name.startswith(args.frozen):
                parameter.requires_grad = False
                print(name)
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.1)
        {prepared}
        self.seen = 0

    def test(self):
        with torch.no_grad():
            print(self.net(torch.rand(2, 4)).mean())

    def fit(self):
        while True:
            for batch in range(10):
                if self.seen > self.args.steps:
                    self.test()
                    return
                hidden = torch.sigmoid(self.net(torch.rand(2, 4)))
                hidden {changed}
                self.opt.zero_grad()
                {sent}
                self.opt.step()
                self.seen += 1

if args.check:
    trainer = Trainer(args)
    trainer.test()
else:
    trainer = Trainer(args)
    trainer.fit()
"""
PLAIN = {"imports": "", "prepared": "pass", "sent": "hidden.mean().backward()"}
APEX = {
    "imports": "from apex import amp",
    "prepared": "self.net, self.opt = amp.initialize(models=self.net, optimizers=self.opt, opt_level='O1')",
    "sent": "with amp.scale_loss(hidden.mean(), self.opt) as scaled: scaled.backward()",
}
FABRIC = {
    "imports": "from lightning.fabric import Fabric",
    "prepared": "self.fabric = Fabric(); self.net, self.opt = self.fabric.setup(self.net, self.opt)",
    "sent": "self.fabric.backward(hidden.mean())",
}


@pytest.mark.parametrize("how", [PLAIN, APEX, FABRIC], ids=["plain", "apex", "fabric"])
def test_the_side_of_an_if_that_trains_is_followed(how: dict[str, str]) -> None:
    (fact,) = see(MODES.format(changed="*= 2", **how)).facts
    assert isinstance(fact, Overwritten) and fact.certainty is Certainty.CERTAIN
    assert see(MODES.format(changed="= hidden * 2", **how)).facts == ()


ASKED_TWICE = """
import argparse
import torch
from torch import nn

class Trainer:
    def __init__(self, net, args):
        self.net = net
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.1)
        if args.check:
            self.net.load_state_dict(torch.load("net.pt"))

    def test(self):
        with torch.no_grad():
            print(self.net(torch.rand(2, 4)).mean())

    def fit(self):
        for batch in range(10):
            hidden = torch.sigmoid(self.net(torch.rand(2, 4)))
            hidden *= 2
            self.opt.zero_grad()
            hidden.mean().backward()
            self.opt.step()

def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    trainer = Trainer(nn.Linear(4, 4), args)
    if args.check:
        trainer.test()
    else:
        trainer.fit()

if __name__ == "__main__":
    main()
"""


def test_an_option_that_was_asked_about_before_leads_to_a_pass() -> None:
    seen = see(ASKED_TWICE)
    assert [type(fact) for fact in seen.facts] == [Overwritten]
    assert {name for _, name in seen.trained} == {"Linear:0"}  # and not those of whatever network is given


REGISTRY = """
import torch
from torch import nn
import torch.nn.functional as F
from places import HEADS

def build(config):
    given = dict(config)
    return HEADS.get(given.pop("type"))(**given)

class Brain(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.head = build(config.head)

    def forward(self, x):
        return self.head(x)

class Learner:
    def __init__(self, config):
        self.actor, self.judge = Brain(config.actor), Brain(config.judge)
        self.actor_optimizer = torch.optim.Adam(self.actor.parameters())
        self.judge_optimizer = torch.optim.Adam(self.judge.parameters())
        self.steps, self.every = 0, config.every

    def update(self, batch):
        self.steps += 1
        states, rewards = batch
        actions = self.actor(states)
        judged = self.judge(torch.cat((states, rewards), -1))
        {early}
        self.judge_optimizer.zero_grad()
        F.mse_loss(judged, rewards).backward()
        self.judge_optimizer.step()
        if self.steps % self.every == 0:
            {late}
            loss = -hoped.mean()
            self.actor_optimizer.zero_grad()
            loss.backward()
            self.actor_optimizer.step()
"""
HOPED = "hoped = self.judge(torch.cat((states, actions), -1))"


def test_networks_of_a_registry_have_parameters_and_what_is_done_every_few_steps_is_reached() -> None:
    (fact,) = see(REGISTRY.format(early=HOPED, late="pass")).facts
    assert isinstance(fact, Overwritten) and fact.by_step
    assert fact.certainty is Certainty.LIKELY
    assert see(REGISTRY.format(early="pass", late=HOPED)).facts == ()


UNREAD_LAYERS = """
import torch
from torch import nn
from fairseq.models import BaseFairseqModel
from fairseq.modules import LayerNorm, SamePad

class Encoder(BaseFairseqModel):
    def __init__(self, args):
        super().__init__()
        self.norm = LayerNorm(16)
        self.project = nn.Linear(16, 32)
        self.places = nn.Sequential(nn.Conv1d(32, 32, 3, padding=1), SamePad(3), nn.GELU())

    def forward(self, x):
        x = self.project(self.norm(x))
        places = self.places(x.transpose(1, 2)).transpose(1, 2)
        {added}
        return x

net = Encoder(None)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for batch in range(10):
    loss = net(torch.rand(2, 8, 16)).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


def test_a_loss_that_comes_through_a_layer_that_was_not_read_has_its_graph() -> None:
    (fact,) = see(UNREAD_LAYERS.format(added="x += places")).facts
    assert isinstance(fact, Overwritten) and fact.certainty is Certainty.LIKELY
    assert see(UNREAD_LAYERS.format(added="x = x + places")).facts == ()


def test_items_of_an_unread_result_are_tensors_of_their_own() -> None:
    program = """
    import torch
    from transformers import Trainer

    class Own(Trainer):
        def compute_loss(self, model, inputs, gold=None):
            outputs = model(**inputs)
            loss = outputs["loss"] if isinstance(outputs, dict) else outputs[0]
            chosen = outputs["chosen"] if isinstance(outputs, dict) else outputs[-1]
            extra = torch.nn.functional.binary_cross_entropy(chosen, gold)
            loss += extra
            return loss + outputs[1].norm() * 0
    """
    assert see(program).facts == ()


DERIVED = """
import torch
from torch import nn

class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
    def forward(self, x):
        return torch.sigmoid(self.layer(x))

class Scaled(Base):
    def forward(self, x):
        y = super().forward(x)
        CHANGED
        return y

class Around(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Scaled()
    def forward(self, x):
        return self.inner(x).softmax(-1)

class Table(dict):
    def forward(self, x):
        x += 1
        return x
"""


@pytest.mark.parametrize(
    ("changed", "new"),
    [
        ("y *= 2", "y = y * 2"),
        ("y /= y.pow(2).sum(1, keepdim=True).sqrt()", "y = y / y.pow(2).sum(1, keepdim=True).sqrt()"),
        ("y.mul_(2)", "y = y.mul(2)"),
        ("y += 1", "y = y + 1"),
        ("torch.clamp_(y, 0.1)", "y = torch.clamp(y, 0.1)"),
    ],
)
def test_a_model_by_way_of_another_is_patched_without_a_script(changed: str, new: str) -> None:
    """Though the patched file has nothing that is changed in place, so that nobody would look at its models."""
    program = Program.of(DERIVED.replace("CHANGED", changed), "models.py")
    mended = mend(program, all_codemods())
    assert mended.patched.files[0].text == DERIVED.replace("CHANGED", new)
    assert analyze(mended.patched).facts == ()


COUNTED = """
import os
import torch
from torch import nn
from loading import load

class Bar:
    def __init__(self, total):
        self.total, self.done = total, 0

    def __iter__(self):
        return self

    def __next__(self):
        FAILS

rows = load()
net = nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for at in Bar(len(rows)):
    loss = net(rows[at]).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
FAILS = {
    "with another branch": """\
if self.done >= self.total:
            self.done = 0
            raise StopIteration
        else:
            self.done += 1
            return self.done - 1""",
    "behind a statement": """\
self.done += 1
        if self.total < self.done:
            end = "in all:" + str(self.done)
            print(end)
            raise StopIteration(end)
        return self.done - 1""",
    "in the other branch": """\
if self.done < self.total:
            self.done += 1
            return self.done - 1
        else:
            raise StopIteration""",
    "one of several": """\
self.done += 1
        if self.total is None:
            kind = TypeError
            raise kind("no total")
        elif self.done == self.total + 1:
            self.done = 0
            raise StopIteration
        return self.done - 1""",
}


@pytest.mark.parametrize("fails", FAILS.values(), ids=FAILS)
def test_a_branch_that_fails_is_not_taken_first_whatever_else_it_does(fails: str) -> None:
    seen = analyze(Program.of(COUNTED.replace("FAILS", fails), "train.py"))
    assert len(seen.passes) == 1
    assert not seen.missed
    assert seen.facts == ()


LEAVING = """
import argparse
import os
import sys
import torch
from torch import nn
from torch.utils.data import DataLoader

parser = argparse.ArgumentParser()
parser.add_argument("--score", action="store_true", default=False)

def score(model, loader):
    model.eval()
    hits, out = 0, []
    for batch in loader:
        known = [i for i in range(batch.label.size(0)) if batch.label[i].item() != -1]
        if len(known) == 1:
            hits += 1
            continue
        guesses = model(batch)[known].tolist()
        order = sorted(range(len(guesses)), key=guesses.__getitem__, reverse=True)
        if order[0] == 0 and guesses[order[0]] != guesses[order[1]]:
            hits += 1
            out.append(1)
        else:
            out.append(0)
    return hits, out

def begin(options):
    if options.score:
        loader = DataLoader(torch.load("rows.pt"), batch_size=1)
        hits, out = score(torch.load("model.pt"), loader)
        print(hits)
        LEAVE
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    out = 0
    for batch in DataLoader(torch.randn(100, 4), batch_size=4):
        loss = model(batch).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        out += loss
    print(out)

begin(parser.parse_args())
"""


@pytest.mark.parametrize("leave", ["exit()", "sys.exit(0)", "os._exit(0)", "return", "return hits", "raise SystemExit"])
@pytest.mark.parametrize("inline", [True, False])
def test_what_follows_a_branch_that_leaves_is_its_other_side(leave: str, inline: bool) -> None:
    text = LEAVING.replace("LEAVE", leave)
    if inline and "return" not in leave:
        text = text.replace("def begin(options):", "options = parser.parse_args()\nif __name__ == '__main__':")
        text = text.replace("begin(parser.parse_args())\n", "")
    seen = analyze(Program.of(text, "train.py"))
    assert len(seen.passes) == 1
    assert not seen.missed
    assert [type(fact) for fact in seen.facts] == [GraphHeld]
    assert seen.facts[0].certainty is Certainty.CERTAIN


HALF = """\
import argparse
import torch
from torch import nn
from half import Half, measure

parser = argparse.ArgumentParser()
parser.add_argument("--half", DEFAULT)
parser.add_argument("--rate", type=float, default=0.1)
args = parser.parse_args()

def made(optimizer):
    if args.half:
        optimizer = Half(optimizer)
    return optimizer

def train(batches):
    cell = nn.GRUCell(3, 4)
    optimizer = made(torch.optim.SGD(cell.parameters(), args.rate))
    h = torch.zeros(2, 4)
    for batch in batches:
        h = cell(batch, h)
        loss = h.pow(2).mean()
        optimizer.zero_grad()
        if args.half:
            done = optimizer.backward(loss)
        else:
            loss.backward()
        if measure(batch) > 0.5:
            print("a")
        if measure(batch) > 0.6:
            print("b")
        if measure(batch) > 0.7:
            print("c")
        if measure(batch) > 0.8:
            print("d")
        if measure(batch) > 0.9:
            print("e")
        optimizer.step()

train(torch.load("batches.pt"))
"""


@pytest.mark.parametrize("default", ['action="store_true"', "type=int, default=0"])
def test_a_program_that_is_lost_with_its_options_is_followed_by_their_defaults(default: str) -> None:
    seen = analyze(Program.of(HALF.replace("DEFAULT", default), "train.py"))
    assert [type(fact) for fact in seen.facts] == [StaleGraph]
