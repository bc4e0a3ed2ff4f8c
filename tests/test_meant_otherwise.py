"""Patches keep what the author means by other parts of a line: leaves, handles of hooks, values that are learned by."""

from __future__ import annotations

import pytest

from autofix.codemods.facts.changed import LeafChanged
from autofix.codemods.interpreter.analysis import analyze
from autofix.codemods.repair import mend
from autofix.codemods.rules.registry import all_codemods
from autofix.codemods.source.program import Program


def patched(text: str) -> str:
    """The patched script, in which nothing is left to find; the script itself where there is no patch."""
    mended = mend(Program.of(text, "train.py"), all_codemods())
    return mended.patched.files[0].text


FAST_WEIGHTS = """\
import torch
from torch import nn
hyper = nn.Parameter(torch.zeros(()))
outer = torch.optim.Adam([hyper], lr=0.1)
x, y = torch.randn(16, 4), torch.randn(16, 1)
first = torch.randn(4, 1, requires_grad=True)
params = {begun}
for epoch in range(3):
    fast = params
    for k in range(3):
        inner = (torch.tanh(x @ {read}) - y).pow(2).mean() + hyper.exp() * {read}.pow(2).sum()
        grads = torch.autograd.grad(inner, {each}, create_graph=True)
        fast = {updated}
    loss = (torch.tanh(x @ {read}) - y).pow(2).mean()
    outer.zero_grad()
    loss.backward()
    outer.step()
    {carried}
"""
LIST = {"begun": "[first]", "read": "fast[0]", "each": "fast", "updated": "[p - 0.05 * g for p, g in zip(fast, grads)]"}
DICT = {
    "begun": '{"w": first}',
    "read": 'fast["w"]',
    "each": "list(fast.values())",
    "updated": "{k: p - 0.05 * g for (k, p), g in zip(fast.items(), grads)}",
}
ALONE = {"begun": "first", "read": "fast", "each": "fast", "updated": "fast - 0.05 * grads[0]"}
LEAVES = {
    "a list": (
        LIST,
        "params = [p.requires_grad_() for p in fast]",
        "params = [p.detach().requires_grad_() for p in fast]",
    ),
    "a dictionary": (
        DICT,
        "params = {k: p.requires_grad_() for k, p in fast.items()}",
        "params = {k: p.detach().requires_grad_() for k, p in fast.items()}",
    ),
    "a tensor": (ALONE, "params = fast.requires_grad_(True)", "params = fast.detach().requires_grad_(True)"),
}


@pytest.mark.parametrize("name", LEAVES)
def test_what_is_made_to_require_grad_is_detached_before(name: str) -> None:
    parts, carried, wanted = LEAVES[name]
    text = FAST_WEIGHTS.format(**parts, carried=carried)
    assert patched(text) == FAST_WEIGHTS.format(**parts, carried=wanted)


def test_weights_that_a_gradient_is_asked_for_are_not_left_without_one() -> None:
    text = FAST_WEIGHTS.format(**LIST, carried="params = fast")
    assert patched(text) == text


RECORDER = """\
import torch
from torch import nn
class Recorder:
    def __init__(self, model):
        self.acts, self.handles = [], []
        self.attach(model)
    def attach(self, model):
        for m in model.children():
            {}
    def hook(self, mod, inp, out):
        self.acts.append(out)
    def penalty(self):
        return torch.stack([a.mean() for a in self.acts]).abs().mean()
net = nn.Sequential(nn.Linear(4, 3), nn.Tanh())
rec = Recorder(net)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for i in range(3):
    loss = net(torch.randn(6, 4)).pow(2).mean() + 0.01 * rec.penalty()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
HANDLES = (
    "self.handles.append(m.register_forward_hook(self.hook))",
    "handle = m.register_forward_hook(self.hook)\n            self.handles += [handle]",
    "handle = m.register_forward_hook(self.hook)\n            self.handles.append(handle)",
)


@pytest.mark.parametrize("kept", HANDLES)
def test_handles_of_hooks_are_not_emptied_with_what_the_hooks_fill(kept: str) -> None:
    text = RECORDER.format(kept)
    assert patched(text) == f"{text}    rec.acts.clear()\n"


def test_a_list_that_is_filled_before_the_training_is_not_emptied_in_it() -> None:
    text = """\
import torch
from torch import nn
def train():
    acts, names = [], []
    net = nn.Sequential(nn.Linear(4, 3), nn.Tanh())
    for n, m in net.named_children():
        names.append(n)
        m.register_forward_hook(lambda mod, i, o: acts.append(o))
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for i in range(3):
        loss = net(torch.randn(6, 4)).pow(2).mean() + 0.01 * torch.stack(acts).abs().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(names)
train()
"""
    assert "acts.clear()" in patched(text)
    assert "names.clear()" not in patched(text)


LEARNED = """\
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.emit = nn.Linear(3, 4)
        self.start = nn.Parameter(torch.zeros(4))
    def forward(self, x, tags):
        e = self.emit(x)
        {}
        return self.start[tags].sum() + e[1:].pow(2).sum() + (e * self.start).sum()
net = Net()
opt = torch.optim.SGD(net.parameters(), 0.1)
for _ in range(3):
    loss = net(torch.randn(8, 3), torch.tensor([0, 2]))
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


@pytest.mark.parametrize(
    "change", ["self.start[tags] += e[0, tags]", "self.start += e.mean(0)", "self.start.add_(e[0])"]
)
def test_a_value_that_others_learn_by_is_not_added_under_no_grad(change: str) -> None:
    mended = mend(Program.of(LEARNED.format(change), "train.py"), all_codemods())
    assert [type(fact) for fact in mended.left] == [LeafChanged]
    assert not mended.repairs


AVERAGES = (
    "self.start.mul_(0.9).add_(0.1 * e.mean(0))",
    "self.start += 0.1 * (e.mean(0) - self.start)",
    "self.start.lerp_(e.mean(0), 0.1)",
)


@pytest.mark.parametrize("change", AVERAGES)
def test_a_moving_average_is_taken_under_no_grad(change: str) -> None:
    assert f"        with torch.no_grad():\n            {change}\n" in patched(LEARNED.format(change))


ON_PARAMETERS = """\
import torch
import torch.nn.functional as F
from torch import nn
torch.manual_seed(0)
class Adapted(nn.Linear):
    def forward(self, x):
        if self.weight.fast is not None:
            return F.linear(x, self.weight.fast, self.bias.fast)
        return super().forward(x)
net, scale = Adapted(4, 3), nn.Parameter(torch.ones(4))
for weight in net.parameters():
    weight.fast = None
opt = torch.optim.Adam(net.parameters())
meta = torch.optim.Adam([scale])
for step in range(3):
    for weight in net.parameters():
        weight.fast = None
    inner = F.cross_entropy(net(torch.randn(8, 4) * scale), torch.randint(3, (8,)))
    grads = torch.autograd.grad(inner, list(net.parameters()), create_graph=True)
SET
    outer = F.cross_entropy(net(torch.randn(8, 4)), torch.randint(3, (8,)))
    opt.zero_grad()
    for weight, grad in zip(net.parameters(), grads):
        weight.grad = grad.detach()
    opt.step()
    meta.zero_grad()
    outer.backward()
    meta.step()
"""
WAYS_TO_SET = (
    "    for weight, grad in zip(net.parameters(), grads):\n        weight.fast = weight - 0.1 * grad",
    "    for at, weight in enumerate(net.parameters()):\n        weight.fast = weight - 0.1 * grads[at]",
    "    net.weight.fast, net.bias.fast = net.weight - 0.1 * grads[0], net.bias - 0.1 * grads[1]",
    "    for (name, weight), grad in zip(net.named_parameters(), grads):\n        weight.fast = weight - 0.1 * grad",
)


@pytest.mark.parametrize("way", WAYS_TO_SET)
def test_what_is_set_on_the_parameters_is_read_by_their_names(way: str) -> None:
    text = ON_PARAMETERS.replace("SET", way)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        exec(compile(text, "train.py", "exec"), {})
    exec(compile(patched(text), "train.py", "exec"), {})


@pytest.mark.parametrize("way", WAYS_TO_SET)
def test_what_is_set_back_on_the_parameters_is_no_longer_there(way: str) -> None:
    text = ON_PARAMETERS.replace("SET", way).replace("    opt.step()\n", "") + "    opt.step()\n"
    assert analyze(Program.of(text, "train.py")).facts == ()
    exec(compile(text, "train.py", "exec"), {})


CONSTANT = """\
import torch
from torch import nn
class Links(nn.Module):
    def __init__(self, links):
        super().__init__()
        MADE
        self.weight = nn.Parameter(torch.ones_like(links) / 2)
        self.layer = nn.Linear(3, 3)
    def forward(self, x):
        TAKEN
        CHANGED
        return links @ self.layer(x)
net = Links(torch.eye(4))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    opt.zero_grad()
    net(torch.randn(4, 3)).pow(2).mean().backward()
    opt.step()
"""


@pytest.mark.parametrize(
    ("taken", "changed", "fixed"),
    [
        ("links = self.links", "links *= self.weight", "links = links * self.weight"),
        ("links = self.links", "links.mul_(self.weight)", "links = links.mul(self.weight)"),
        (
            "self.links = self.links.to(x.device); links = self.links",
            "links *= self.weight",
            "links = links * self.weight",
        ),
        ("if x is not None: links = self.links", "links *= self.weight", "links = links * self.weight"),
    ],
)
@pytest.mark.parametrize("made", ["self.links = links", "self.register_buffer('links', links)"])
def test_a_constant_is_not_changed_in_every_call(made: str, taken: str, changed: str, fixed: str) -> None:
    text = CONSTANT.replace("MADE", made).replace("TAKEN", taken)
    with pytest.raises(RuntimeError):
        exec(compile(text.replace("CHANGED", changed), "train.py", "exec"), {})
    assert patched(text.replace("CHANGED", changed)) == text.replace("CHANGED", fixed)


@pytest.mark.parametrize(
    "changed", ["links *= self.layer(x) @ x.t()", "links *= 0.9\n        links += self.layer(x) @ x.t()"]
)
def test_a_state_that_a_method_changes_is_no_constant(changed: str) -> None:
    text = CONSTANT.replace("MADE", "self.links = links").replace("TAKEN", "links = self.links")
    after = patched(text.replace("CHANGED", changed))
    assert "links = links *" not in after
    assert "links = links +" not in after


IMAGINED = """\
import torch
from torch import nn
cell, decode, actor, value = nn.GRUCell(2, 8), nn.Linear(8, 5), nn.Linear(8, 2), nn.Linear(8, 1)
world = torch.optim.Adam([*cell.parameters(), *decode.parameters()], 1e-3)
policy = torch.optim.Adam(actor.parameters(), 1e-3)
def observe(actions):
    state, states = torch.zeros(3, 8), []
    for action in actions:
        state = cell(action, state)
        states.append(state)
    return {{"state": torch.stack(states)}}
def imagine(start):
    {begun}
    for _ in range(3):
        state = cell(torch.tanh(actor(state)), state)
    return state
for step in range(4):
    actions, seen = torch.randn(4, 3, 2), torch.randn(4, 3, 5)
    post = observe(actions)
    loss = (decode(post["state"]) - seen).pow(2).mean()
    world.zero_grad()
    loss.backward()
    world.step()
    gain = -value(imagine(post)).mean()
    policy.zero_grad()
    gain.backward()
    policy.step()
"""


@pytest.mark.parametrize(
    "begun",
    [
        'state = start["state"].reshape(-1, 8)',
        'state = {k: v.reshape(-1, 8) for k, v in start.items()}["state"]',
    ],
)
def test_a_record_of_another_loss_is_detached_before_that_is_computed(begun: str) -> None:
    """Computed anew behind the first loss's step, the states would cost twice, and their gradient nobody uses."""
    text = IMAGINED.format(begun=begun)
    gain = "    gain = -value"
    assert patched(text) == text.replace(
        gain, f"    post = {{key: item.detach() for key, item in post.items()}}\n{gain}"
    )


@pytest.mark.parametrize(
    ("begun", "meant"),
    [
        ('state = start["state"].reshape(-1, 8)', 'state = start["state"].detach().reshape(-1, 8)'),
        (
            'state = {k: v.reshape(-1, 8) for k, v in start.items()}["state"]',
            'state = {k: v.detach().reshape(-1, 8) for k, v in start.items()}["state"]',
        ),
    ],
)
def test_a_record_without_a_name_is_detached_where_its_parts_are_read(begun: str, meant: str) -> None:
    held = IMAGINED.replace("post = observe", "kept = [observe").replace("(actions)\n    loss", "(actions)]\n    loss")
    held = held.replace("post", "kept[0]")
    assert patched(held.format(begun=begun)) == held.format(begun=meant)


ROLLOUT = """\
import torch
from torch import nn
net = nn.Linear(3, 3)
opt = torch.optim.Adam(net.parameters(), 1e-2)
seen, values, old = torch.zeros(5, 2, 3), torch.zeros(4, 2, 1), torch.zeros(4, 2, 1)
def judge(x):
    scores = net(x)
    choice = torch.distributions.Categorical(logits=scores[..., :2])
    return scores[..., 2:], choice.log_prob(choice.sample()).unsqueeze(-1)
for update in range(3):
    for step in range(4):
        {acted}
        seen[step + 1] = torch.randn(2, 3)
        {stored}
    advantage = torch.randn(4, 2, 1) - values
    for epoch in range(2):
        value, new = judge(seen[:-1])
        ratio = (new - old).exp()
        loss = -(ratio * advantage).mean() + (value - 1).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
"""


@pytest.mark.parametrize(
    "stored",
    [
        "values[step], old[step] = value, log_prob",
        "values[step].copy_(value)\n        old[step].copy_(log_prob)",
        "values[step] = value\n        old[step] = log_prob",
    ],
)
def test_what_a_rollout_writes_into_buffers_is_computed_without_a_graph(stored: str) -> None:
    """Read detached, the buffers would keep the graphs of all rollouts."""
    acted = "value, log_prob = judge(seen[step])"
    meant = f"with torch.no_grad():\n            {acted}"
    assert patched(ROLLOUT.format(acted=acted, stored=stored)) == ROLLOUT.format(acted=meant, stored=stored)
