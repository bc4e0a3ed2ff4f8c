"""Structures of public repositories that the interpreter once lost the graph in, or mistook for a mistake."""

from __future__ import annotations

import textwrap

import pytest

from autofix.codemods.facts.base import Certainty, Doubt
from autofix.codemods.facts.freed import StaleGraph
from autofix.codemods.facts.kept import GraphCopied, GraphEscapes, GraphHeld
from autofix.codemods.interpreter.analysis import analyze
from autofix.codemods.source.program import Program
from autofix.engine import analyse

HEAD = """\
import torch
from torch import nn
from torch.nn.parallel import DataParallel, DistributedDataParallel

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(4, 8, batch_first=True)
        self.head = nn.Linear(8, 4)

    def forward(self, x, state=None):
        out, state = self.rnn(x, state)
        return self.head(out), state

class Engine:
    def __init__(self, model):
        self.model = model

    def rollout(self, x):
        model = UNWRAPPED
        with torch.no_grad():
            return model(x)[0]

def train(model, engine, optimizer, batches):
    state = None
    for x in batches:
        target = engine.rollout(x)
        net = ITSELF
        out, state = net(x, state)
        loss = (out - target).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        STATE

model = WRAPPED
train(model, Engine(model), torch.optim.AdamW(model.parameters()), [torch.rand(2, 3, 4) for _ in range(3)])
"""


@pytest.mark.parametrize("wrapped", ["Model()", "DataParallel(Model())", "DistributedDataParallel(Model())"])
@pytest.mark.parametrize(
    "unwrapped",
    [
        "{0}.module if isinstance({0}, DistributedDataParallel) else {0}",
        "{0}.module if isinstance({0}, (DataParallel, DistributedDataParallel)) else {0}",
        '{0}.module if hasattr({0}, "module") else {0}',
        'getattr({0}, "module", {0})',
    ],
)
def test_a_model_is_taken_out_of_its_wrapper(unwrapped: str, wrapped: str) -> None:
    text = HEAD.replace("UNWRAPPED", unwrapped.format("self.model")).replace("ITSELF", unwrapped.format("model"))
    text = text.replace("WRAPPED", wrapped)
    assert [finding.code for finding in analyse(text.replace("STATE", "pass"), "train.py").findings] == ["AF102"]
    assert analyse(text.replace("STATE", "state = state.detach()"), "train.py").findings == ()


FEATURES = """\
import numpy as np
import torch
from torch import nn
from torchvision import models

vgg = LAYERS
for parameter in vgg.parameters():
    parameter.requires_grad_(False)

def get_features(image, model):
    layers = {"0": "conv1_1", "2": "conv2_1"}
    features, x = {}, image
    for name, layer in model.CHILDREN:
        x = layer(x)
        if name in layers:
            features[layers[name]] = x
    return features

net = nn.Conv2d(3, 3, 3, padding=1)
content = torch.rand(1, 3, 16, 16)
wanted = get_features(content, vgg)
optimizer = torch.optim.Adam(net.parameters())
losses = []
for epoch in range(3):
    found = get_features(net(content), vgg)
    loss = torch.mean((found["conv2_1"] - wanted["conv2_1"]) ** 2)
    losses.append(loss)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(np.array(losses))
"""


@pytest.mark.parametrize("children", ["_modules.items()", "named_children()"])
@pytest.mark.parametrize(
    "layers", ["models.vgg19().features", "nn.Sequential(nn.Conv2d(3, 3, 3), nn.ReLU(), nn.Conv2d(3, 3, 3))"]
)
def test_features_are_read_by_the_names_of_their_layers(layers: str, children: str) -> None:
    text = FEATURES.replace("LAYERS", layers).replace("CHILDREN", children)
    assert [finding.code for finding in analyse(text, "train.py").findings] == ["AF501"]
    assert analyse(text.replace("append(loss)", "append(loss.item())"), "train.py").findings == ()


GRAPH = """\
import numpy as np
import torch
from torch import nn
ORDERED
class Graph(nn.Module):
    def __init__(self, adjacency):
        super().__init__()
        self.order = ORDER
        self.adjacency = adjacency
        self.made = [EMPTY for i in range(adjacency.shape[0])]
        self.blocks = nn.ModuleList(nn.Linear(4, 1) for i in range(adjacency.shape[0]))

    def forward(self, noise):
        for i in self.order:
            parents = [self.made[j] for j in np.nonzero(self.adjacency[:, i])[0]]
            self.made[i] = self.blocks[i](torch.cat([*parents, noise], 1)).tanh()
        return torch.cat(self.made, 1)

def learn(adjacency, data):
    model = Graph(adjacency)
    optimizer = torch.optim.Adam(model.parameters())
    for epoch in range(5):
        optimizer.zero_grad()
        loss = (model(torch.randn(16, 3)) - data).pow(2).mean()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("ordered", "order"),
    [
        ("", "[i for i in range(adjacency.shape[0])]"),
        ("import networkx as nx", "list(nx.topological_sort(nx.DiGraph(adjacency)))"),
    ],
)
def test_a_list_of_none_is_filled_before_it_is_read(ordered: str, order: str) -> None:
    """With ``None`` in the places that were not filled yet, the first forward pass would fail where they are read."""
    text = GRAPH.replace("ORDERED", ordered).replace("ORDER", order)
    assert analyse(text.replace("EMPTY", "None"), "train.py").findings == ()
    assert [finding.code for finding in analyse(text.replace("EMPTY", "torch.zeros(16, 1)"), "train.py").findings]


INFERENCE = """\
import torch
from torch import nn

encoder, embedding, head = nn.Linear(8, 8), nn.Embedding(16, 8), nn.Linear(8, 16)
optimizer = torch.optim.Adam(head.parameters())
for step in range(3):
MADE
    loss = head(READ).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("made", "read"),
    [
        (
            "    with torch.no_grad():\n        with torch.inference_mode():\n            x = torch.rand(2, 8)",
            "x",
        ),
        ("    with torch.inference_mode():\n        x = torch.rand(2, 8)", "x"),
        ("    with torch.inference_mode():\n        x = head(torch.rand(2, 8)).argmax(1)", "embedding(x)"),
        (
            "    with torch.inference_mode():\n        with torch.no_grad():\n            x = torch.zeros(2, 8)",
            "encoder(x)",
        ),
    ],
)
def test_a_tensor_made_in_inference_mode_is_saved_for_no_pass(made: str, read: str) -> None:
    text = INFERENCE.replace("MADE", made).replace("READ", read)
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved"):
        exec(compile(text, "train.py", "exec"), {})
    analysis = analyse(text, "train.py")
    assert [(finding.code, finding.fixed) for finding in analysis.findings] == [("AF411", True)]
    exec(compile(analysis.patched, "train.py", "exec"), {})


INDICES = """\
import torch
from torch import nn

embedding = nn.Embedding(16, 8)
tokens = torch.zeros(2, 5, dtype=torch.long)
loss = torch.zeros(())
for step in range(4):
    out = embedding(tokens[:, step])
    loss = loss + out.sum()
    tokens[:, step + 1] = out.argmax(1)
loss.backward()
"""


def test_an_embedding_saves_its_indices() -> None:
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        exec(compile(INDICES, "train.py", "exec"), {})
    assert [finding.code for finding in analyse(INDICES, "train.py").findings] == ["AF201"]


MINIMAX = """\
import torch
from torch import nn

model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 4))
optimizer = torch.optim.Adam(model.parameters())
for step in range(3):
    optimizer.zero_grad()
    x = torch.randn(8, 4)
    out = model(x)
    error = (out - x).pow(2).mean()
    first = error - 3 * out.abs().mean()
    second = error + 3 * out.pow(2).mean()
    first.backward(retain_graph=True)
    optimizer.step()
    second.backward()
    optimizer.step()
"""


def test_a_second_step_of_one_optimizer_stays_a_step_of_its_own_loss() -> None:
    analysis = analyse(MINIMAX, "train.py")
    assert [(finding.code, finding.fixed) for finding in analysis.findings] == [("AF202", True)]
    behind = [line.strip() for line in analysis.patched.partition("first.backward()\n")[2].splitlines()]
    assert [line.partition(" ")[0] for line in behind] == [
        "optimizer.step()",
        "out",
        "error",
        "second",
        "second.backward()",
        "optimizer.step()",
    ]


TARGETS = """\
import torch
from torch import nn
from torch.nn import functional as F

actor, critic, value = nn.Linear(4, 4), nn.Linear(4, 1), nn.Linear(4, 1)
actor_optimizer, critic_optimizer, value_optimizer = (
    torch.optim.Adam(net.parameters()) for net in (actor, critic, value)
)
for step in range(3):
    states, rewards = torch.randn(8, 4), torch.randn(8, 1)
    critic_loss = F.mse_loss(critic(states), rewards)
    scores = critic(actor(states))
    value_loss = F.mse_loss(value(states), scores.detach())
    critic_optimizer.zero_grad()
    critic_loss.backward()
    critic_optimizer.step()
    value_optimizer.zero_grad()
    value_loss.backward()
    value_optimizer.step()
    print(value_loss.item())
    actor_loss = -scores.mean()
    actor_optimizer.zero_grad()
    actor_loss.backward()
    actor_optimizer.step()
"""


def test_a_loss_that_did_not_fail_keeps_its_value() -> None:
    analysis = analyse(TARGETS.replace("nn.Linear(4, 1), nn.Linear(4, 1)", f"{DEEP}, nn.Linear(4, 1)"), "train.py")
    assert [(finding.code, finding.fixed) for finding in analysis.findings] == [("AF202", True)]
    assert analysis.patched.count("scores = critic(actor(states))") == 2
    assert "print(value_loss.item())\n    scores = critic(actor(states))\n    actor_loss" in analysis.patched


DEEP = "nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))"
CYCLE = """\
import torch
from torch import nn

encoder, judge = nn.Linear(4, 4), nn.Linear(6, 1)
maker = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 6))
maker_optimizer = torch.optim.Adam([*maker.parameters(), *encoder.parameters()])
judge_optimizer = torch.optim.SGD(judge.parameters(), lr=0.01)
for step in range(3):
    real, text = torch.randn(8, 6), torch.randn(8, 4)
    code = encoder(text)
    fake = maker(code.detach())
    maker_loss = (judge(fake) - 1).pow(2).mean() + (code - text).pow(2).mean()
    maker_optimizer.zero_grad()
    maker_loss.backward(retain_graph=True)
    maker_optimizer.step()
    judge_optimizer.zero_grad()
    judge_loss = (judge(real) - 1).pow(2).mean() + judge(fake).pow(2).mean()
    judge_loss.backward()
    judge_optimizer.step()
"""


def test_a_cut_behind_the_maker_is_none_of_the_judges_business() -> None:
    analysis = analyse(CYCLE, "train.py")
    assert [finding.fixed for finding in analysis.findings] == [True]
    assert "judge(fake.detach()).pow(2)" in analysis.patched


TOTAL = """\
import torch
from torch import nn

class Meter:
    def __init__(self):
        self.total = START

net = nn.Linear(4, 4)
optimizer = torch.optim.Adam(net.parameters())
for batch in torch.randn(3, 8, 4):
    BODY
    optimizer.zero_grad()
    loss.sum().backward()
    optimizer.step()
"""
PENALTY = """\
import torch

def penalty(net):
    total = START
    for parameter in net.parameters():
        total += parameter.pow(2).sum()
    return total
"""
TOTALS = {
    "a name": (("loss = START", "loss += net(batch).pow(2).mean()"), "loss = loss + net(batch).pow(2).mean()"),
    "an attribute": (
        ("meter = Meter()", "meter.total += net(batch).pow(2).mean()", "loss = meter.total * 0.5"),
        "meter.total = meter.total + net(batch).pow(2).mean()",
    ),
    "an item": (
        ("parts = dict(ce=START)", "parts['ce'] += net(batch).pow(2).mean()", "loss = parts['ce']"),
        "parts['ce'] = parts['ce'] + net(batch).pow(2).mean()",
    ),
    "another function": (
        ("loss = net(batch).pow(2).mean() + penalty(net)",),
        "total = total + parameter.pow(2).sum()",
    ),
}


def with_total(body: tuple[str, ...]) -> str:
    text = TOTAL.replace("BODY", "\n    ".join(body))
    return PENALTY + text if "penalty(" in text else text


@pytest.mark.parametrize(("body", "repaired"), TOTALS.values(), ids=TOTALS)
def test_a_total_of_losses_that_requires_grad_becomes_a_new_tensor(body: tuple[str, ...], repaired: str) -> None:
    text = with_total(body)
    analysis = analyse(text.replace("START", "torch.zeros(1, requires_grad=True)"), "train.py")
    assert {(finding.code, finding.fixed) for finding in analysis.findings} == {("AF301", True)}
    assert repaired in analysis.patched
    assert "no_grad" not in analysis.patched


@pytest.mark.parametrize("body", [body for body, _ in TOTALS.values()], ids=TOTALS)
@pytest.mark.parametrize("start", ["torch.zeros(1, requires_grad=True).cuda()", "torch.zeros(1)"])
def test_a_total_of_losses_is_a_leaf_no_more_on_a_gpu(body: tuple[str, ...], start: str) -> None:
    assert analyse(with_total(body).replace("START", start), "train.py").findings == ()


def test_what_a_function_adds_up_for_unknown_parameters_is_no_update() -> None:
    analysis = analyse(PENALTY.replace("START", "torch.zeros(1, requires_grad=True)"), "penalty.py")
    assert [(finding.code, finding.fixed) for finding in analysis.findings] == [("AF300", False)]


GIVEN = """
import torch
from torch import nn
from torch.nn.utils import stateless

class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(2, 4)), nn.Parameter(torch.ones(2))

    def forward(self, x):
        return x @ self.weight.T + self.bias

net, hyper = NET, nn.Linear(3, 10)
optimizer = torch.optim.Adam(hyper.parameters())
for step in range(3):
    made = hyper(torch.randn(3))
    weight, bias = made[:8].view(2, 4), made[8:]
    PUT
    loss = net(torch.randn(5, 4)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
PUT = {
    "attributes": "del net.weight, net.bias; net.weight, net.bias = weight, bias",
    "their table": "net._parameters['weight'] = weight; net._parameters['bias'] = bias",
    "a table with a name": "table = net._parameters; table['weight'], table['bias'] = weight, bias",
    "one by one": "for name, p in list(net._parameters.items()): net._parameters[name] = p.detach() * made.sum()",
    "by setattr": "for name, new in (('weight', weight), ('bias', bias)): delattr(net, name); setattr(net, name, new)",
}


OF_ONES_OWN = ("attributes", "their table", "a table with a name")


@pytest.mark.parametrize(
    ("put", "net"),
    [*((put, "nn.Linear(4, 2)") for put in PUT.values()), *((PUT[name], "Own()") for name in OF_ONES_OWN)],
    ids=[*PUT, *(f"{name} of a module of one's own" for name in OF_ONES_OWN)],
)
def test_what_is_put_in_the_place_of_parameters_is_trained(put: str, net: str) -> None:
    seen = analyze(Program.of(GIVEN.replace("PUT", put).replace("NET", net), "train.py"))
    assert f"Linear:{seen_before(net)}" in {name for _, name in seen.trained}
    assert seen.facts == ()


def seen_before(net: str) -> int:
    """The number of parameters that were made before those of the network that makes others."""
    return {"nn.Linear(4, 2)": 1, "Own()": 2}[net]


LOADED = """
import torch
from torch import nn

from loading import batches

class Trainer:
    def __init__(self, net):
        self.net, self.seen = net, []
        self.optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def losses(self, batch):
        loss = nn.functional.mse_loss(self.net(batch["x"]), batch["y"])
        return {"loss": loss, "plain": loss.item()}

    def step(self, batch):
        self.optimizer.zero_grad()
        ADD
        batch["loss"].backward()
        self.optimizer.step()
        return batch

    def train(self):
        for batch in batches():
            self.seen.append(self.step(batch)["KEPT"])

Trainer(nn.Linear(4, 1)).train()
"""
ADDED = {
    "updated": "batch.update(self.losses(batch))",
    "updated by what is written": "batch.update({**self.losses(batch)})",
    "updated by name": "batch.update(**self.losses(batch))",
    "updated by names": "found = self.losses(batch); batch.update(loss=found['loss'], plain=found['plain'])",
    "joined in place": "batch |= self.losses(batch)",
    "joined": "batch = batch | self.losses(batch)",
    "joined the other way round": "batch = self.losses(batch) | batch",
}


@pytest.mark.parametrize("add", ADDED.values(), ids=ADDED)
def test_what_is_added_to_a_batch_that_was_loaded_is_known(add: str) -> None:
    text = LOADED.replace("ADD", add)
    analysis = analyse(text.replace("KEPT", "loss"), "train.py")
    assert [(finding.code, finding.fixed) for finding in analysis.findings] == [("AF601", True)]
    assert not analysis.missed
    assert analyse(text.replace("KEPT", "plain"), "train.py").findings == ()


SOMETIMES = """
import torch
from torch import nn

net, critic = nn.Linear(4, 4), nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
kept = START
for step in range(200):
    optimizer.zero_grad()
    loss = net(torch.randn(8, 4)).pow(2).mean()
    extra = NONE
    if step > 100:
        extra = critic(net(torch.randn(8, 4))).mean()
        loss = loss + extra
    loss.backward()
    optimizer.step()
    KEEP
"""
EITHER = "extra.detach() if isinstance(extra, torch.Tensor) else extra"
KEEPS = {
    "in a list": ("[]", "0.0", "kept.append(extra)"),
    "in a list of pairs": ("[]", "None", "kept.append((step, extra))"),
    "in a list of dictionaries": ("[]", "0", 'kept.append({"step": step, "extra": extra})'),
    "in lists by name": ('{"extra": []}', "0.0", 'kept["extra"].append(extra)'),
    "in a longer list": ("[]", "0.0", "kept = kept + [extra]"),
    "in a sum": ("0.0", "0.0", "kept += extra"),
}


@pytest.mark.parametrize(("start", "none", "keep"), KEEPS.values(), ids=KEEPS)
def test_what_is_a_tensor_in_later_iterations_only_is_detached_there(start: str, none: str, keep: str) -> None:
    text = SOMETIMES.replace("START", start).replace("NONE", none)
    analysis = analyse(text.replace("KEEP", keep), "train.py")
    assert [(finding.code, finding.safe) for finding in analysis.findings] == [("AF601", True)]
    before, _, after = keep.rpartition("extra")
    assert f"    {before}{EITHER}{after}\n" in analysis.patched
    assert analyse(analysis.patched, "train.py").findings == ()


ADAPTED = """
from copy import copy, deepcopy

import torch
from torch import nn
from somewhere import Backbone

class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = Backbone("base")
        for name, parameter in self.body.named_parameters():
            parameter.requires_grad = "pooler" not in name

    def forward(self, x):
        return self.body(x)

model = MODEL
outer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(9, 5, 4):
    task = COPY
    inner = torch.optim.SGD(task.parameters(), lr=0.01)
    begun = model(x).tanh()
    inner.zero_grad()
    task(x).pow(2).mean().backward()
    inner.step()
    outer.zero_grad()
    begun.mean().backward()
    outer.step()
"""


@pytest.mark.parametrize("model", ["Encoder()", "Backbone('base')", "nn.Sequential(Encoder(), nn.Tanh())"])
@pytest.mark.parametrize(("copy", "number"), [("deepcopy(model)", 0), ("model", 1)])
def test_the_copy_of_a_model_that_was_not_read_is_trained_by_itself(model: str, copy: str, number: int) -> None:
    seen = analyze(Program.of(ADAPTED.replace("MODEL", model).replace("COPY", copy), "train.py"))
    assert len(seen.facts) == number
    assert len(seen.passes) == 2


LOSSES = """
import copy

import numpy as np
import torch

def train(store, loader):
    model = store.model
    optimizer = torch.optim.Adam(model.parameters())
    kept = []
    for samples in loader:
        losses = model.losses(samples)
        optimizer.zero_grad()
        losses.total().backward()
        optimizer.step()
        kept.append(KEEP)
    first = copy.deepcopy(kept[0])
    return first, np.mean(kept)
"""


@pytest.mark.parametrize("keep", ["losses.as_numbers()", "losses.report()['total']", "losses.report(1).total"])
def test_what_a_method_that_tensors_lack_gives_may_be_numbers(keep: str) -> None:
    assert analyze(Program.of(LOSSES.replace("KEEP", keep), "train.py")).facts == ()


def test_a_method_that_tensors_have_gives_a_tensor() -> None:
    text = LOSSES.replace("total().", "").replace("KEEP", "losses.mean()")
    assert {type(fact) for fact in analyze(Program.of(text, "train.py")).facts} == {
        GraphCopied,
        GraphEscapes,
        GraphHeld,
    }


ENGINE = """
import torch
from torch import nn
from framework import Engine

HELPER
def main(loader):
    model, cell = nn.Linear(4, 1), nn.GRUCell(4, 4)
    opt = torch.optim.Adam([*model.parameters(), *cell.parameters()])
    state = {"h": torch.zeros(8, 4)}

    def learn(engine, batch):
        x, y = batch
        state["h"] = cell(x, state["h"]CUT)
        loss = nn.functional.mse_loss(model(state["h"]), y)
        opt.zero_grad()
        loss.backward()
        opt.step()

    engine = HANDED
    HANDLER
    engine.run(loader)


main(torch.load("batches.pt"))
"""


def handed(handed: str = "Engine(learn)", *, cut: str = "", handler: str = "", helper: str = "") -> str:
    text = ENGINE.replace("HANDED", handed).replace("CUT", cut).replace("HELPER", helper)
    return text.replace("HANDLER", textwrap.indent(handler, "    ").strip())


@pytest.mark.parametrize(
    "given", ["Engine(learn)", "Engine(process=learn)", "Engine(steps=2, name='x').with_step(learn)"]
)
def test_a_training_step_that_is_handed_over_is_called_for_each_batch(given: str) -> None:
    seen = analyze(Program.of(handed(given), "train.py"))
    assert [(type(fact), fact.certainty) for fact in seen.facts] == [(StaleGraph, Certainty.LIKELY)]
    assert not analyze(Program.of(handed(given, cut=".detach()"), "train.py")).facts


@pytest.mark.parametrize(
    "handler",
    [
        'def clear(engine):\n    state["h"] = torch.zeros(8, 4)\nengine.add("start", clear)',
        '@engine.on("start")\ndef clear(engine):\n    state["h"].detach_()',
        '@engine.on("start")\ndef clear(engine):\n    state.clear()',
    ],
)
def test_what_else_the_program_hands_over_may_reset_the_state(handler: str) -> None:
    assert not analyze(Program.of(handed(handler=handler), "train.py")).facts


def test_a_function_that_trains_in_a_loop_of_its_own_is_called_once() -> None:
    text = """
import torch
from torch import nn
from framework import launch

net = nn.Linear(3, 3)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
start = net(torch.ones(1, 3)).mean()

def work(rank):
    first = start
    for _ in range(3):
        loss = net(torch.randn(2, 3)).mean()
        if first is not None:
            loss, first = loss + first, None
        opt.zero_grad(); loss.backward(); opt.step()

launch(work, 1)
"""
    seen = analyze(Program.of(text, "train.py"))
    assert seen.facts == ()
    assert len(seen.passes) == 1


def test_a_function_that_a_module_hands_over_is_entered_once() -> None:
    text = """
import torch
from torch import nn
from console import app

net = nn.Linear(3, 3)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
seen = []

@app.command()
def train(epochs):
    for _ in range(epochs):
        seen.append(net(torch.randn(2, 3)).mean())
    opt.zero_grad()
    torch.stack(seen).sum().backward()
    opt.step()

@app.command()
def other(epochs):
    net(torch.randn(2, 3)).mean().backward()
    opt.step()
"""
    seen = analyze(Program.of(text, "train.py"))
    assert seen.facts == ()
    assert len(seen.passes) == 2


def test_a_mistake_within_one_call_of_a_function_that_is_handed_over_is_certain() -> None:
    text = handed().replace("        opt.step()", "        opt.step()\n        loss.backward()")
    text = text.replace('state["h"] = cell(x, state["h"])', 'state["h"] = cell(x, torch.zeros(8, 4))')
    assert {fact.certainty for fact in analyze(Program.of(text, "train.py")).facts} == {Certainty.CERTAIN}


@pytest.mark.parametrize(
    "begin", ["deepspeed.initialize(model=net, model_parameters=net.parameters())", "deepspeed.initialize(None, net)"]
)
def test_the_engine_of_deepspeed_behaves_as_its_model(begin: str) -> None:
    text = f"""
import deepspeed
import torch
from torch import nn

net = nn.LSTM(4, 4)
engine, optimizer, _, _ = {begin}
state = None
for step in range(10):
    out, state = engine(torch.randn(3, 2, 4), state)
    engine.backward(out.pow(2).mean())
    engine.step()
"""
    seen = analyze(Program.of(text, "train.py"))
    assert StaleGraph in map(type, seen.facts)
    assert {fact.certainty for fact in seen.facts} == {Certainty.CERTAIN}
    right = text.replace("    engine.step()", "    engine.step()\n    state = tuple(one.detach() for one in state)")
    assert not analyze(Program.of(right, "train.py")).facts


RECORD = """
import torch
from somewhere import build

model = build("base")
optimizer = torch.optim.Adam(model.parameters())
key, losses, total = "loss", [], 0
for batch in build("data"):
    out = model(batch)
    optimizer.zero_grad()
    ITEM.backward()
    optimizer.step()
    KEEP
print(losses, total)
"""
ITEMS = ["out.loss", "out['loss']", "out[0]", "out[key]", "(out.loss / 4)"]


@pytest.mark.parametrize("item", ITEMS)
@pytest.mark.parametrize("keep", ["losses.append(ITEM)", "total += ITEM", "losses += [ITEM]"])
def test_an_item_that_was_sent_back_has_a_graph_when_it_is_read_again(item: str, keep: str) -> None:
    read = item.strip("()").partition(" ")[0] if "/" in item else item
    analysis = analyse(RECORD.replace("ITEM", item, 1).replace("KEEP", keep.replace("ITEM", read)), "train.py")
    assert [(finding.code, finding.safe) for finding in analysis.findings] == [("AF601", True)]
    assert f"{read}.detach()" in analysis.patched


OTHERS = {
    "another item": "losses.append(out.logits)",
    "another key": "losses.append(out['logits'])",
    "the item of a second result": "out = model(batch); losses.append(out.loss)",
    "an item put in its place": "out.loss = out.loss.detach(); losses.append(out.loss)",
    "an item put in its place by a key": "out['loss'] = out['loss'].detach(); losses.append(out['loss'])",
    "detached in place": "out.loss.detach_(); losses.append(out.loss)",
    "detached in place by a name": "loss = out.loss; loss.detach_(); total += out.loss",
}


@pytest.mark.parametrize("keep", OTHERS.values(), ids=OTHERS)
@pytest.mark.parametrize("item", ["out.loss", "out['loss']"])
def test_an_item_that_was_not_sent_back_may_have_no_graph(item: str, keep: str) -> None:
    if item != "out.loss":
        keep = keep.replace("out.loss", item)
    analysis = analyse(RECORD.replace("ITEM", item).replace("KEEP", keep), "train.py")
    assert not [finding for finding in analysis.findings if finding.safe]


EVALUATED = """
import torch
from torch import nn

class Trainer:
    def __init__(self, model, train_data, dev_data=None):
        self.model, self.train_data, self.dev_data = model, train_data, dev_data
        self.optimizer = torch.optim.Adam(model.parameters())

    def train(self):
        for epoch in range(100):
            losses = []
            for batch in self.train_data:
                loss = self.model(batch).mean()
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                losses.append(self.model(batch).abs().mean())
            mean = torch.stack(losses).mean()
            if self.dev_data is not None:
                AGAIN
                for batch in self.dev_data:
                    losses.append(self.model(batch).mean().detach())
                worst = max(losses)
                SEND
            print(mean)
"""


@pytest.mark.parametrize(
    ("again", "send", "number"),
    [("losses = []", "print(worst)", 1), ("losses = list()", "worst.backward()", 1), ("pass", "worst.backward()", 0)],
)
def test_a_reader_of_a_newer_list_of_the_same_name_has_no_use_for_the_older(again: str, send: str, number: int) -> None:
    analysis = analyse(EVALUATED.replace("AGAIN", again).replace("SEND", send), "train.py")
    assert len(analysis.findings) == number


AGENT = """\
import torch
from torch import nn

class Agent:
    def __init__(self):
        self.model, self.cell = nn.Linear(4, 1), nn.GRUCell(4, 4)
        self.opt = torch.optim.Adam([*self.model.parameters(), *self.cell.parameters()])
        self.h = torch.zeros(8, 4)
        INIT

    def learn(self, x, y):
        self.h = self.cell(x, self.h)
        loss = nn.functional.mse_loss(self.model(self.h), y)
        UPDATE
        CUT
"""
UPDATES = {
    "itself": "self.opt.zero_grad(); loss.backward(); self.opt.step()",
    "in a method": """self.update(loss)

    def update(self, loss):
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()""",
    "in its turn": """self.opt.step(); self.opt.zero_grad()

    def step(self, loss):
        loss.backward()""",
}


def agent(update: str = UPDATES["itself"], init: str = "pass", cut: str = "pass", method: str = "") -> str:
    text = AGENT.replace("UPDATE", update).replace("INIT", init).replace("CUT", cut)
    return f"{text}\n{method}" if method else text


@pytest.mark.parametrize("update", ["itself", "in a method"])
def test_a_method_that_is_a_training_step_is_called_for_each_batch(update: str) -> None:
    seen = analyze(Program.of(agent(UPDATES[update]), "agent.py"))
    (fact,) = seen.facts
    assert isinstance(fact, StaleGraph)
    assert fact.certainty is Certainty.LIKELY
    assert fact.reason is Doubt.ENTERED
    assert fact.loop is not None
    assert fact.loop.line == 11
    assert {role.phrase for role in fact.roles() if role.name == "loop"} == {"across calls of this method"}


RESET = "    def reset(self):\n        self.h = torch.zeros(8, 4)\n"


@pytest.mark.parametrize(
    "text",
    [
        agent(cut="self.h = self.h.detach()"),
        agent(method=RESET),
        agent(init="self.reset()", method=RESET),
        agent(init="self.reset()", method=RESET.replace("self.h = torch.zeros(8, 4)", "self.h.detach_()")),
        agent(method="def begin(agent):\n    agent.h = None\n"),
        agent(UPDATES["in its turn"]),
        agent().replace("        self.h = self.cell", "        for _ in range(1):\n            self.h = self.cell"),
    ],
    ids=["detached", "reset", "reset at first", "detached at first", "set by others", "no step", "still a step"],
)
def test_a_state_that_others_may_reset_between_two_calls_is_no_mistake(text: str) -> None:
    loops = "for _ in range(1)" in text
    assert bool(analyze(Program.of(text, "agent.py")).facts) is loops


MODED = AGENT.replace("INIT", "self.learning = False")
MODED = MODED.replace(
    "        self.h = self.cell", "        if not self.learning:\n            return\n        self.h = self.cell"
)


@pytest.mark.parametrize("cut", ["pass", "self.h = self.h.detach()"])
@pytest.mark.parametrize("kind", ['self.learning = kind == "train"', "self.learning = True", None])
def test_a_flag_that_another_method_sets_may_be_on(kind: str | None, cut: str) -> None:
    text = MODED.replace("UPDATE", UPDATES["itself"]).replace("CUT", cut)
    text += f"\n    def mode(self, kind):\n        {kind}\n" if kind is not None else ""
    seen = analyze(Program.of(text, "agent.py"))
    assert bool(seen.passes) is (kind is not None)
    assert bool(seen.facts) is (kind is not None and cut == "pass")


def test_an_argument_that_is_none_by_default_may_be_given() -> None:
    text = agent().replace("x, y):", "x=None, y=None):\n        if x is None:\n            raise ValueError")
    seen = analyze(Program.of(text, "agent.py"))
    assert seen.passes
    assert [type(fact) for fact in seen.facts] == [StaleGraph]


BUILT = agent().replace("__init__(self)", "__init__(self, size):\n        self.size = size\n\n    def build(self)")


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (BUILT, [14]),
        (BUILT.replace("self.cell(x", "self.cell(self.x") + "\n    def feed(self, x):\n        self.x = x\n", [14]),
        (f"{BUILT}\n{RESET}", []),
        (BUILT.replace("self.h = torch.zeros(8, 4)", f"self.reset()\n\n{RESET}"), []),
    ],
    ids=["set up once", "fed for each batch", "reset", "reset at first"],
)
def test_a_method_that_makes_the_network_is_called_once(text: str, lines: list[int]) -> None:
    facts = analyze(Program.of(text, "agent.py")).facts
    assert [fact.loop.line for fact in facts if isinstance(fact, StaleGraph) and fact.loop is not None] == lines
    assert len(facts) == len(lines)


def test_a_state_that_is_cut_behind_the_step_of_a_network_made_by_a_method_is_no_mistake() -> None:
    built = agent(cut="self.h = self.h.detach()").replace("__init__(self)", "build(self)")
    seen = analyze(Program.of(built, "agent.py"))
    assert seen.facts == ()
    assert seen.passes


def test_what_prepares_a_method_is_called_for_each_batch_as_well() -> None:
    text = """\
import torch
from torch import nn

class Model:
    def __init__(self):
        self.net = nn.Linear(4, 1)
        self.opt = torch.optim.Adam(self.net.parameters())

    def set_input(self, x, y):
        self.x, self.y = x, y

    def forward(self):
        self.out = self.net(self.x)

    def optimize(self):
        self.opt.zero_grad()
        nn.functional.mse_loss(self.out, self.y).backward()
        self.opt.step()
"""
    seen = analyze(Program.of(text, "model.py"))
    assert seen.facts == ()
    assert seen.passes == {17}


def test_a_training_step_of_a_base_class_in_another_file_is_called_for_each_batch() -> None:
    base = """\
class Base:
    def fit(self, x, y):
        for part in x:
            self.note(part)
        self.learn(x, y)
    def note(self, part):
        print(part)
"""
    text = (
        agent().replace("class Agent:", "class Agent(Base):").replace("import torch", "from base import Base, torch", 1)
    )
    program = Program.of(text, "agent.py", {"base.py": f"import torch\n{'# a line' * 40}\n" + "#\n" * 40 + base})
    (fact,) = analyze(program).facts
    assert isinstance(fact, StaleGraph)
    assert fact.loop is not None
    assert fact.loop.path == "base.py"


def test_a_caller_that_is_followed_makes_it_certain() -> None:
    main = """\
import torch
from agent import Agent

agent = Agent()
for _ in range(3):
    agent.learn(torch.randn(8, 4), torch.randn(8, 1))
"""
    program = Program.of(main, "main.py", {"agent.py": agent()})
    assert {fact.certainty for fact in analyze(program).facts} == {Certainty.CERTAIN}


STYLE = """\
import torch
from torch import nn
from torchvision import models
vgg = models.vgg19(pretrained=True).features

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 3, 3, padding=1), nn.ReLU())

    def forward(self, x):
        out = self.first(x)
        out += x
        return out

def features(x):
    found = []
    for layer in LAYERS:
        x = layer(x)
        found.append(x)
    return found

net, image = Block(), torch.rand(1, 3, 16, 16)
wanted = features(image)
optimizer = torch.optim.Adam(net.parameters())
for _ in range(3):
    loss = sum((one - other).pow(2).mean() for one, other in zip(features(net(image)), wanted))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize("layers", ["vgg.children()", "vgg._modules.values()", "list(vgg.children())[:9]"])
def test_what_goes_through_the_layers_of_an_unread_network_is_trained(layers: str) -> None:
    facts = analyze(Program.of(STYLE.replace("LAYERS", layers), "train.py")).facts
    assert [(fact.kind, fact.certainty) for fact in facts] == [("overwritten", Certainty.LIKELY)]


BACKBONE = """\
import timm
import torch
import torchvision
from torch import nn
from torchvision.models import resnet18

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 64, 3)
        self.body = MADE
        self.head = nn.Linear(512, 10)

    def forward(self, x):
        x = torch.relu(self.stem(x))
        x[:, :, 0] = 0
        x = CALLED
        return self.head(x.mean((2, 3)))

net = Net()
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for _ in range(3):
    loss = net(torch.randn(2, 3, 8, 8)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("made", "called"),
    [
        ("resnet18()", "self.body.layer4(self.body.layer3(x))"),
        ("resnet18(weights=None).layer1", "self.body(x)"),
        ("torchvision.models.vgg16().features", "self.body[3](x)"),
        ("torchvision.models.detection.fasterrcnn_resnet50_fpn()", "self.body.backbone.body(x)"),
        ("timm.create_model('vit')", "self.body.forward_features(x)"),
    ],
)
def test_parts_of_a_network_of_a_library_carry_the_graph_on(made: str, called: str) -> None:
    text = BACKBONE.replace("MADE", made).replace("CALLED", called)
    facts = analyze(Program.of(text, "train.py")).facts
    assert [(fact.kind, fact.certainty) for fact in facts] == [("overwritten", Certainty.LIKELY)]


def test_what_is_no_network_of_a_library_may_cut_the_graph() -> None:
    text = BACKBONE.replace("MADE", "torchvision.models.ResNet18_Weights.DEFAULT.transforms()")
    assert not analyze(Program.of(text.replace("CALLED", "self.body.adapted(x)"), "train.py")).facts


LARGE = f"""\
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential({"nn.Linear(3, 3), " * 70})
        self.hidden = nn.Linear(3, 3)
        self.head = nn.Linear(3, 3)

    def forward(self, x):
        with torch.no_grad():
            x = self.body(x)
        return self.head(self.hidden(x).relu())

net = Net()
params = []
LISTED
optimizer = torch.optim.Adam(params)
for x in torch.randn(3, 2, 3):
    out = net(x)
    optimizer.zero_grad()
    out.mean().backward(retain_graph=True)
    optimizer.step()
    out.pow(2).mean().backward()
"""
LISTS = {
    "items": """
for name, p in net.named_parameters():
    if p.requires_grad:
        params.append(p)
""",
    "layers": """
for layer in net.modules():
    if isinstance(layer, nn.Linear):
        params.append(layer.weight)
        params.append(layer.bias)
""",
    "mapping": """
found = {}
for name, p in net.named_parameters():
    found[name] = p
params.extend(found.values())
""",
}


@pytest.mark.parametrize("listed", LISTS.values(), ids=LISTS)
def test_a_loop_that_lists_the_parameters_of_a_large_network_reaches_them_all(listed: str) -> None:
    facts = analyze(Program.of(LARGE.replace("LISTED", listed), "train.py")).facts
    assert [(fact.kind, fact.certainty) for fact in facts] == [("overwritten", Certainty.CERTAIN)]


RESUMED = """\
import sys
import torch
from torch import nn

class Agent:
    def __init__(self):
        self.policy = nn.Linear(4, 2)
        self.log_alpha = torch.zeros(1, requires_grad=True)
        self.optimizer = torch.optim.Adam([self.log_alpha])

    def learn(self, x):
        entropy = self.policy(x).log_softmax(1).detach()
        loss = (self.log_alpha * (entropy + 1)).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

agent = Agent()
state = torch.load(sys.argv[1])
RESTORED
for _ in range(3):
    agent.learn(torch.randn(2, 4))
"""
RESTORED = {
    "item": 'agent.log_alpha = state["log_alpha"]',
    "moved": 'agent.log_alpha = state["agent"]["log_alpha"].to("cpu")',
    "get": 'agent.log_alpha = state.get("log_alpha")',
    "setattr": 'for name in ("log_alpha", "other"):\n    setattr(agent, name, state[name])',
    "pair": 'agent.log_alpha, epoch = state["log_alpha"], state["epoch"]',
    "optimizer": 'agent.log_alpha = state["log_alpha"]\nagent.optimizer = torch.optim.Adam([agent.log_alpha])',
}


@pytest.mark.parametrize("restored", RESTORED.values(), ids=RESTORED)
def test_a_loaded_tensor_in_the_place_of_a_leaf_may_require_a_gradient(restored: str) -> None:
    assert not analyze(Program.of(RESUMED.replace("RESTORED", restored), "train.py")).facts


def test_a_loaded_tensor_that_an_optimizer_is_given_may_require_a_gradient() -> None:
    text = """
        import torch
        state = torch.load("state.pt")
        latent = state["latent"]
        optimizer = torch.optim.SGD([latent], 0.1)
        for _ in range(3):
            loss = (latent * torch.randn(3)).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        """
    assert not analyze(Program.of(textwrap.dedent(text), "train.py")).facts


def test_loaded_data_have_no_graph() -> None:
    text = """
        import torch
        from torch import nn
        net, data = nn.Linear(3, 2), torch.load("data.pt")
        for _ in range(3):
            loss = (net(data["x"]).detach() - data["y"]).pow(2).mean()
            loss.backward()
        """
    facts = analyze(Program.of(textwrap.dedent(text), "train.py")).facts
    assert [(fact.kind, fact.certainty) for fact in facts] == [("cut graph", Certainty.CERTAIN)]


ZOO = """\
import sys
import torch
from torch import nn

ARCHITECTURES = {"small": ("Net", 3)}

class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc = nn.Linear(width, width)

    def forward(self, x):
        out = torch.relu(self.fc(x))
        out += x
        return out

def build(name):
    kind, width = ARCHITECTURES[name]
    return KIND(width)
"""
TRAINED = """\
import torch
from zoo.models import build
net = build("small")
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for _ in range(3):
    loss = net(torch.rand(2, 3)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    "kind",
    [
        "getattr(sys.modules[__name__], kind)",
        "sys.modules[__name__].__dict__[kind]",
        "vars(sys.modules['zoo.models'])[kind]",
        "globals()[kind]",
    ],
)
def test_a_class_is_looked_up_in_the_module_that_runs(kind: str) -> None:
    others = {"zoo/__init__.py": "", "zoo/models.py": ZOO.replace("KIND", kind)}
    facts = analyze(Program.of(TRAINED, "train.py", others)).facts
    assert [(fact.kind, fact.certainty) for fact in facts] == [("overwritten", Certainty.CERTAIN)]


CRITIC = """\
import torch
from torch import nn
maker = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))
critic = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
makers, critics = torch.optim.Adam(maker.parameters()), torch.optim.Adam(critic.parameters())

def improve_maker(scores):
    scores.mean().backward(retain_graph=True)
    makers.step()

def improve_critic(real_scores, fake_scores):
    LOSS.mean().backward()
    critics.step()

for step in range(3):
    z, real = torch.randn(3, 4), torch.randn(3, 4)
    makers.zero_grad()
    critics.zero_grad()
    fake = maker(z)
    fake_scores = critic(fake)
    real_scores = critic(real)
    improve_maker(fake_scores)
    improve_critic(real_scores, fake_scores)
"""


@pytest.mark.parametrize("loss", ["(fake_scores - real_scores)", "(fake_scores + 1 - real_scores)"])
def test_a_critic_goes_on_learning_from_its_own_scores(loss: str) -> None:
    analysis = analyse(CRITIC.replace("LOSS", loss), "train.py")
    patched = analysis.patch.patched.files[0].text
    assert "fake_scores.detach()" not in patched
    assert "    fake_scores = critic(fake.detach())\n    improve_critic" in patched
    exec(patched, {})


AHEAD = """\
import torch
import torch.nn.functional as F
from torch import nn
from library import make, transform

MADE
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for _ in range(3):
    x = torch.randn(4, 3)
    out = AHEAD
    for _ in range(4):
        loss = LOSS
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("made", "ahead", "loss", "certainty"),
    [
        ("net = nn.Linear(3, 3)", "net(x) * 2", "F.mse_loss(net(x), out)", Certainty.CERTAIN),
        ("net = nn.Linear(3, 3)", "transform(net(x)) * 2", "F.mse_loss(net(x), out)", Certainty.LIKELY),
        (
            "net = nn.Linear(3, 3)",
            "torch.cat([transform(net(x)).exp(), x])",
            "(net(x).mean() * out).mean()",
            Certainty.LIKELY,
        ),
        ("net = nn.Linear(3, 3)", "transform(net(x)) * 2", "out.square().mean()", Certainty.CERTAIN),
        ("net = nn.Linear(3, 3)", "transform(net(x)) + net(x)", "F.mse_loss(net(x), out.exp())", Certainty.CERTAIN),
        ("net = make()", "net(x).exp()", "F.mse_loss(net(x), out)", Certainty.CERTAIN),
        ("net = make()", "net.forward(x).exp()", "F.mse_loss(net(x), out)", Certainty.CERTAIN),
        ("net = make()", "net.act(x).exp()", "F.mse_loss(net(x), out)", Certainty.LIKELY),
        ("net = make()", "x + 0.9 * net.act(x)", "F.mse_loss(net(x), out)", Certainty.LIKELY),
        ("net = make()", "net.act(x).exp()", "out.mean()", Certainty.CERTAIN),
    ],
)
def test_what_is_computed_of_an_unread_result_may_have_no_graph(
    made: str, ahead: str, loss: str, certainty: Certainty
) -> None:
    text = AHEAD.replace("MADE", made).replace("AHEAD", ahead).replace("LOSS", loss)
    facts = analyze(Program.of(text, "train.py")).facts
    assert [fact.certainty for fact in facts if isinstance(fact, StaleGraph)] == [certainty]


REGISTERED = """\
import torch
import torch.nn.functional as F
from torch import nn

REGISTRY = {}

def build(config):
    options = config.copy()
    return REGISTRY.get(options.pop("type"))(**options)

def register(cls):
    REGISTRY[cls.__name__] = cls
    return cls

@register
class Net(nn.Module):
    def __init__(self, sizes, layer=nn.Linear, activation=F.relu):
        super().__init__()
        self.activation = activation
        self.hidden = nn.Linear(sizes.first, sizes.second)
        self.last = layer(sizes.second, 1)

    def forward(self, x):
        return self.last(self.activation(self.hidden(x)))

class Learner:
    def __init__(self, config):
        self.value, self.q = build(config.value), build(config.q)
        self.of_value = torch.optim.Adam(self.value.parameters(), lr=config.rate)
        self.of_q = torch.optim.Adam(self.q.parameters(), lr=config.rate)

    def update(self, states, rewards):
        first, second = F.mse_loss(self.q(states), rewards), F.mse_loss(self.value(states), rewards)
        ACTOR
        self.of_q.zero_grad()
        first.backward()
        self.of_q.step()
        self.of_value.zero_grad()
        second.backward()
        self.of_value.step()
        LAST
"""


def test_networks_that_are_built_of_options_have_activations_of_their_own() -> None:
    text = REGISTERED.replace("ACTOR", "pass").replace("LAST", "pass")
    assert analyse(text, "train.py").findings == ()
    text = REGISTERED.replace("ACTOR", "third = self.q(states).mean() + first").replace("LAST", "third.backward()")
    assert analyse(text, "train.py").findings


PASSED_ON = """\
import torch
from torch import nn
from graphs import Layer

class Conv(Layer):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 4))

    def forward(self, x, edges):
        return self.propagate(edges, x=x @ self.weight)

    def propagate(self, edges, **given):
        sorted_out = self.inspector.distribute(edges, given)
        return self.update(self.message(**sorted_out)) + self.offset

conv, head = Conv(), nn.Linear(4, 2)
x = torch.randn(8, 4).requires_grad_(True)
out = head(VALUE)
(gradient,) = torch.autograd.grad(torch.unbind(out[:, 0]), x, retain_graph=True)
"""


@pytest.mark.parametrize(
    "value",
    [
        "torch.relu(conv(x, edges))",
        "nn.ReLU()(conv(x, edges))",
        "2 * conv(x, edges)",
        "conv(x, edges)[0]",
        "conv(x, edges).features",
    ],
)
def test_what_unread_code_gives_may_be_computed_with_what_it_was_given(value: str) -> None:
    assert analyse(PASSED_ON.replace("VALUE", value), "train.py").findings == ()


@pytest.mark.parametrize("value", ["torch.randn(8, 4)", "torch.randn(8, 4) * options.scale"])
def test_a_gradient_of_what_has_no_part_in_the_loss_is_a_mistake(value: str) -> None:
    text = PASSED_ON.replace("VALUE", value).replace("from graphs import Layer", "from graphs import Layer, options")
    assert [finding.code for finding in analyse(text, "train.py").findings] == ["AF420"]


FUNCTIONAL = """\
import torch
import torch.nn.functional as F
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.one = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
        self.two = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
        self.out = nn.Linear(3, 2)

    def applied(self, x, given):
        for block in ("one", "two"):
            x = F.linear(x, given[f"{block}.0.weight"], given[f"{block}.0.bias"])
            x = F.batch_norm(x, None, None, SCALE, SHIFT, True)
        return F.linear(x, given["out.weight"], given["out.bias"])
"""
FAST_WEIGHTS = """\
import torch
from collections import OrderedDict
from nets import Net

net = Net()
for x in torch.randn(3, 4, 3):
    fast = OrderedDict(net.named_parameters())
    for _ in range(2):
        grads = torch.autograd.grad(net.applied(x, fast).mean(), fast.values(), create_graph=True)
        fast = OrderedDict((name, p - 0.1 * g) for (name, p), g in zip(fast.items(), grads))
    net.applied(x, fast).mean().backward()
"""


@pytest.mark.parametrize(
    ("scale", "shift", "codes"),
    [
        ('given[f"{block}.1.weight"]', 'given[f"{block}.1.bias"]', []),
        ('given.get(f"{block}.1.weight")', 'given.get(f"{block}.1.bias")', []),
        ('given.get(block + ".1.weight")', 'given.get(f"{block}.1.bias", None)', []),
        ("None", "None", ["AF421"]),
    ],
)
def test_parameters_have_names_by_which_another_file_looks_them_up(scale: str, shift: str, codes: list[str]) -> None:
    nets = FUNCTIONAL.replace("SCALE", scale).replace("SHIFT", shift)
    found = analyse(FAST_WEIGHTS, "train.py", others={"nets.py": nets}).findings
    assert [finding.code for finding in found] == codes


GUIDED_BY_TEXT = """\
import torch
from torch import nn
from somewhere import load, tokenize

class Guide:
    def __init__(self):
        self.model = load("base")
        self.model.eval()
        FREEZE
        self.text = None

    def prepare(self, texts):
        self.text = self.model.MAKES(tokenize(texts))

    def __call__(self, images):
        return -(images * self.text).sum(1).mean()

net, guide = nn.Linear(4, 4), Guide()
optimizer = torch.optim.Adam(GIVEN)
guide.prepare(["a sea"])
for x in torch.randn(5, 3, 4):
    loss = guide(net(x))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
ALL = "for p in self.model.parameters():\n            "
NAMED = "for name, p in self.model.named_parameters():\n            "


@pytest.mark.parametrize("makes", ["encode_text", "forward", "__call__"])
@pytest.mark.parametrize(
    ("freeze", "given", "found"),
    [
        (ALL + "p.requires_grad = False", "net.parameters()", False),
        (ALL + "p.requires_grad_(False)", "net.parameters()", False),
        (NAMED + "p.requires_grad = False", "net.parameters()", False),
        (ALL + "p.requires_grad = FLAG", "net.parameters()", False),
        (ALL + "p.requires_grad = True", "net.parameters()", True),
        (NAMED + "if 'norm' in name: p.requires_grad = False", "net.parameters()", True),
        (ALL + "p.requires_grad = False", "[*net.parameters(), *guide.model.parameters()]", True),
    ],
)
def test_an_unread_model_that_a_loop_freezes_may_give_no_graph(
    freeze: str, given: str, makes: str, *, found: bool
) -> None:
    text = GUIDED_BY_TEXT.replace("FREEZE", freeze).replace("GIVEN", given).replace(".MAKES", f".{makes}")
    text = text.replace("import load,", "import FLAG, load,")
    assert bool(analyse(text.replace(".__call__(", "("), "train.py").findings) is found


IN_PARTS = """\
import math
import random
import time
import numpy as np
import torch.nn.functional as F
from elsewhere import batches, build, settings

class Trainer:
    def __init__(self):
        self.predict, self.optimizer = build(settings.model), build(settings.optimizer)

    def loss_of(self, guess, target):
        if settings.loss == "mae":
            return F.l1_loss(guess, target)
        raise ValueError(settings.loss)

    def update(self, batch):
        rows, kept = batch["x"].shape[0], []
        COUNTED
        self.optimizer.zero_grad()
        for at in range(0, rows, settings.rows):
            loss = LOSS
            loss APPLIED parts
            loss.backward()
            kept.append(loss)
        self.optimizer.step()

trainer = Trainer()
for batch in batches:
    trainer.update(batch)
"""
OWN = 'self.loss_of(self.predict(batch["x"][at]), batch["y"][at])'


@pytest.mark.parametrize("applied", ["/=", "*=", "+="])
@pytest.mark.parametrize(
    "counted",
    [
        "math.ceil(rows / settings.rows)",
        "np.ceil(rows / settings.rows)",
        "max(1, rows // settings.rows)",
        "time.time()",
        "random.random()",
    ],
)
def test_a_number_that_a_loss_is_scaled_by_has_no_graph(counted: str, applied: str) -> None:
    text = IN_PARTS.replace("COUNTED", f"parts = {counted}").replace("LOSS", OWN).replace("APPLIED", applied)
    assert analyse(text, "train.py").findings == ()


@pytest.mark.parametrize("applied", ["/=", "*="])
def test_an_unread_loss_that_a_number_scales_has_a_graph(applied: str) -> None:
    text = IN_PARTS.replace("COUNTED", "parts = math.ceil(rows / settings.rows)").replace("APPLIED", applied)
    text = text.replace("LOSS", 'self.predict(batch["x"][at])').replace("rows, kept = batch", "rows = batch")
    text = text.replace(".shape[0], []", ".shape[0]").replace("trainer = Trainer()", "kept = []\ntrainer = Trainer()")
    assert [finding.code for finding in analyse(text, "train.py").findings] == ["AF601"]


WITH_A_FILE = """\
import argparse
from pathlib import Path
import torch
from torch import nn
from elsewhere import batches, load, settings

parser = argparse.ArgumentParser()
parser.add_argument("--scales", default=DEFAULT)
args = parser.parse_args()
READ
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4), nn.Tanh())
optimizer = torch.optim.Adam(net.parameters())
for x in batches:
    guess = net(x)
    if scales is not None:
        guess /= scales
    loss = (guess - x).abs().sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    "read",
    [
        'scales = None if args.scales == "" else load(args.scales)',
        'scales = load(args.scales) if args.scales != "" else None',
        'if args.scales == "":\n    scales = None\nelse:\n    scales = load(args.scales)',
        'if "" == args.scales:\n    scales = None\nelse:\n    scales = load(args.scales)',
        'scales = None\nif args.scales != "":\n    scales = load(args.scales)',
    ],
)
@pytest.mark.parametrize("default", ['Path(__file__).parent / "a.csv"', 'settings.folder + "/scales.csv"', '"a.csv"'])
def test_a_text_that_nobody_knows_is_hardly_empty(default: str, read: str) -> None:
    text = WITH_A_FILE.replace("DEFAULT", default).replace("READ", read)
    assert [finding.code for finding in analyse(text, "train.py").findings] == ["AF201"]


ATTACKED = """\
import torch
import torchvision
from torch import nn
from torch.utils.data import DataLoader
from torchvision import transforms

read = transforms.Compose([transforms.ToTensor()])
loader = DataLoader(torchvision.datasets.MNIST(".", transform=read), batch_size=8)
net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.LazyLinear(10))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for TAKEN:
    FLAG
    loss = nn.functional.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    USE
"""
FLAGS = [
    "x.requires_grad = True",
    "x.requires_grad_()",
    "x = x.cuda(); x.requires_grad_(True)",
    "x = x.requires_grad_()",
]


@pytest.mark.parametrize("flag", FLAGS)
@pytest.mark.parametrize(
    ("use", "codes"),
    [
        ("x += 0.1 * x.grad.sign()", ["AF301"]),
        ("x.add_(x.grad.sign(), alpha=0.1).clamp_(0, 1)", ["AF301"]),
        ("for row in x.clone(): row.clamp_(0, 1)", ["AF210"]),
        ("with torch.no_grad(): x += 0.1 * x.grad.sign()", []),
        ("x.data += 0.1 * x.grad.sign()", []),
        ("x = (x + 0.1 * x.grad.sign()).clamp(0, 1)", []),
        ("x.requires_grad_(False); x += 1", []),
        ("print(x.detach().cpu().numpy())", []),
    ],
)
@pytest.mark.parametrize("taken", ["x, y in loader", "at, (x, y) in enumerate(loader)"])
def test_data_that_are_flagged_are_leaves(taken: str, flag: str, use: str, codes: list[str]) -> None:
    text = ATTACKED.replace("TAKEN", taken).replace("FLAG", flag).replace("USE", use)
    assert [finding.code for finding in analyse(text, "train.py").findings] == codes


@pytest.mark.parametrize("read", ["read(open('a'))", "read(open('a')).unsqueeze(0)", "next(iter(loader))[0]"])
def test_a_picture_that_is_flagged_is_a_leaf(read: str) -> None:
    text = ATTACKED.replace("TAKEN", "y in range(3)").replace("FLAG", f"x = {read}\n    x.requires_grad = True")
    found = analyse(text.replace("USE", "x[0] = 0"), "train.py").findings
    assert [finding.code for finding in found] == ["AF301"]


@pytest.mark.parametrize("made", ["load()", "load().features", "[load()]"])
def test_what_may_be_a_result_is_no_leaf(made: str) -> None:
    text = ATTACKED.replace("TAKEN", "x, y in loader").replace("FLAG", f"z = {made}\n    z.requires_grad = True")
    text = text.replace("import torchvision\n", "import torchvision\nfrom elsewhere import load\n")
    assert analyse(text.replace("USE", "z += 1"), "train.py").findings == ()


CHAINED = """\
import torch
from torch import nn
from torchvision import transforms

class Centred:
    def __init__(self, means):
        self.means = means

    def __call__(self, pictures):
        for channel, mean in zip(pictures, self.means):
            channel.sub_(mean)
        return pictures

def bent(pictures):
    return pictures.exp()

def moved(pictures):
    pictures += 1
    return pictures

net = nn.Linear(8, 3)
steps = STEPS
table = {"attack": transforms.Compose(steps)}
GROWN
prepare = table["attack"]
pictures = torch.rand(2, 8, 8, requires_grad=FLAG)
net(prepare(pictures * 2)).sum().backward()
"""


@pytest.mark.parametrize(
    ("steps", "grown", "flag", "codes"),
    [
        ("[Centred([0.5, 0.4])]", "", True, ["AF210"]),
        ("[torch.clone, Centred([0.5, 0.4])]", "", True, ["AF210"]),
        ("[bent, moved]", "", True, ["AF201"]),
        ("[bent]", "steps.append(moved)", True, ["AF201"]),
        ("[bent, torch.clone, moved]", "", True, []),
        ("[moved, bent]", "", True, []),
        ("[transforms.Resize(8), Centred([0.5, 0.4])]", "", False, []),
        ("[Centred([0.5, 0.4])]", "", False, []),
        ("[bent]", "steps.extend(others)", True, []),
    ],
)
def test_the_programs_own_transforms_of_a_chain_are_run(steps: str, grown: str, flag: bool, codes: list[str]) -> None:
    text = CHAINED.replace("STEPS", steps).replace("GROWN", grown).replace("FLAG", str(flag))
    assert [finding.code for finding in analyse(text, "train.py").findings] == codes


CLEARED = """\
import torch
from torch import nn

class Memory:
    def __init__(self):
        self.rows = []

    def push(self, rows):
        for row in rows:
            self.rows.append(row)

    def clear(self):
        self.rows = []

net = nn.Linear(3, 1)
memory = Memory()
for _ in range(4):
    memory.push([torch.tanh(net(torch.randn(1, 3))) for _ in range(3)])
    for _ in range(2):
        torch.cat(memory.rows).mean().backward()
    memory.clear()
"""


def test_a_container_that_is_emptied_carries_nothing_on() -> None:
    assert [finding.cause.line for finding in analyse(CLEARED, "train.py").findings] == [10]
