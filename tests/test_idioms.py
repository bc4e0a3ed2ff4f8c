"""Many ways to write one thing: states that are cut, layers that write over their input, tensors with two names."""

from __future__ import annotations

import textwrap

import pytest

from autofix.codemods.facts.cut import NotScalar
from autofix.codemods.interpreter.analysis import analyze
from autofix.codemods.repair import mend
from autofix.codemods.rules.registry import all_codemods
from autofix.codemods.source.program import Program

SLOTS = """\
import torch
from torch import nn
net = nn.Linear(3, 3)
opt = torch.optim.SGD(net.parameters(), 0.1)
slots = {{"a": torch.zeros(2, 3), "b": torch.zeros(2, 3)}}
for step in range(10):
    x = torch.randn(2, 3)
    for k in ("a", "b"):
        slots[k] = net(x + slots[k])
    loss = sum(v.pow(2).mean() for v in slots.values())
    opt.zero_grad()
    loss.backward()
    opt.step()
{cut}
"""

STATES = """\
import torch
from torch import nn
net = nn.Linear(3, 3)
opt = torch.optim.SGD(net.parameters(), 0.1)
hs = [torch.zeros(2, 3), torch.zeros(2, 3)]
for step in range(10):
    x = torch.randn(2, 3)
    for i in range(2):
        hs[i] = net(x + hs[i])
    loss = sum(v.pow(2).mean() for v in hs)
    opt.zero_grad()
    loss.backward()
    opt.step()
{cut}
"""

MODULE = """\
import contextlib
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(3, 4)
        self.out = nn.Linear(4, 1)
        self.h = self.c = None
    def forward(self, x):
        if self.h is None:
            self.h, self.c = torch.zeros(2, 4), torch.zeros(2, 4)
        self.h, self.c = self.cell(x, (self.h, self.c))
        return self.out(self.h)
    def cut(self):
        self.h = self.c = None
    @property
    def state(self):
        return self.h, self.c
    @state.setter
    def state(self, pair):
        self.h, self.c = pair
    @state.deleter
    def state(self):
        self.h = self.c = None
net = Net()
opt = torch.optim.SGD(net.parameters(), 0.1)
for step in range(10):
    loss = net(torch.randn(2, 3)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
{cut}
"""

CUTS = {
    SLOTS: [
        "slots |= {k: v.detach() for k, v in slots.items()}",
        "slots.update((k, v.detach()) for k, v in slots.items())",
        "slots.update(zip(slots, [v.detach() for v in slots.values()]))",
        "slots.update(map(lambda kv: (kv[0], kv[1].detach()), slots.items()))",
        "slots.update(a=slots['a'].detach(), b=slots['b'].detach())",
        "for k in list(slots): slots.__setitem__(k, slots[k].detach())",
        "slots = dict(zip(slots.keys(), map(torch.Tensor.detach, slots.values())))",
        "slots = dict.fromkeys(slots, torch.zeros(2, 3))",
        "slots.clear()\nslots.update(a=torch.zeros(2, 3), b=torch.zeros(2, 3))",
        "for k in reversed(slots): slots[k] = slots[k].detach()",
    ],
    STATES: [
        "hs[:] = map(torch.Tensor.detach, hs)",
        "hs[:] = (h.detach() for h in hs)",
        "hs[0], hs[1] = (h.detach() for h in hs)",
        "hs.__setitem__(0, hs[0].detach())\nhs.__setitem__(1, hs[1].detach())",
        "for i in torch.arange(2).tolist(): hs[i] = hs[i].detach()",
        "hs.append(hs.pop(0).detach())\nhs.append(hs.pop(0).detach())",
        "a, *rest = hs\nhs = [a.detach(), *(t.detach() for t in rest)]",
        "with torch.no_grad(): hs = [h.clone() for h in hs]",
        "hs = [getattr(h, 'detach')() for h in hs]",
        "del hs[:]\nhs += [torch.zeros(2, 3)] * 2",
        "hs = [h if h.is_leaf else h.detach() for h in hs]",
        "match hs:\n    case [a, b]:\n        hs = [a.detach(), b.detach()]",
        "match hs:\n    case []:\n        pass\n    case [a, *rest]:\n"
        "        hs = [a.detach(), *(r.detach() for r in rest)]",
        "match ('cut', hs):\n    case ('keep' | 'hold', _):\n        pass\n"
        "    case (str(how), list(part)) if how == 'cut':\n        hs = [p.detach() for p in part]",
        "match {'how': 'cut', 'hs': hs}:\n    case {'how': 'keep'}:\n        pass\n    case {'hs': [a, b], **rest}:\n"
        "        hs = [a.detach(), b.detach()]",
        "match hs[0]:\n    case None | torch.Tensor(requires_grad=False):\n        pass\n"
        "    case torch.Tensor() as a:\n        hs = [h.detach() for h in hs]",
        "i = 0\nwhile i < len(hs):\n    hs[i] = hs[i].detach()\n    i += 1",
        "i = len(hs)\nwhile i:\n    i -= 1\n    hs[i] = hs[i].detach()",
        "i = len(hs) - 1\nwhile 0 <= i:\n    hs[i] = hs[i].detach()\n    i = i - 1",
    ],
    MODULE: [
        "net.__setattr__('h', net.h.detach())\nnet.__setattr__('c', net.c.detach())",
        "type(net).cut(net)",
        "del net.state",
        "net.state = tuple(t.detach() for t in net.state)",
        "net.__dict__.update(h=net.h.detach(), c=net.c.detach())",
        "getattr(net, 'cut')()",
        "with contextlib.ExitStack() as stack: stack.callback(net.cut)",
        "[m.cut() for m in net.modules() if isinstance(m, Net)]",
    ],
}
WAYS = [(shape, cut) for shape, cuts in CUTS.items() for cut in cuts]


def program(text: str) -> Program:
    return Program.of(text, "script.py")


@pytest.mark.parametrize(("shape", "cut"), WAYS, ids=[cut.partition("\n")[0] for _, cut in WAYS])
def test_a_state_that_is_cut_in_whatever_way_is_no_mistake(shape: str, cut: str) -> None:
    assert analyze(program(shape.format(cut=textwrap.indent(cut, "    ")))).facts == ()


@pytest.mark.parametrize("shape", CUTS, ids=["mapping", "list", "module"])
def test_the_same_states_are_mistakes_where_nothing_cuts_them(shape: str) -> None:
    assert analyze(program(shape.format(cut="    pass"))).facts


@pytest.mark.parametrize("count", [3, 5])
def test_a_while_that_counts_down_reaches_every_state(count: int) -> None:
    cut = "i = len(hs)\nwhile i > 0:\n    i -= 1\n    hs[i] = hs[i].detach()"
    text = STATES.format(cut=textwrap.indent(cut, "    "))
    text = text.replace("[torch.zeros(2, 3), torch.zeros(2, 3)]", f"[torch.zeros(2, 3) for _ in range({count})]")
    text = text.replace("for i in range(2):\n        hs[i] = net(x + hs[i])", "hs = [net(x + h) for h in hs]")
    assert analyze(program(text)).facts == ()
    assert analyze(program(text.replace("hs[i].detach()", "hs[i]"))).facts


def test_a_failure_that_a_script_provokes_and_catches_is_no_mistake() -> None:
    text = """\
import torch
loss = torch.nn.Linear(3, 1)(torch.randn(2, 3)).sigmoid().mean()
loss.backward()
try:
    loss.backward()
except RuntimeError as error:
    print(error)
"""
    assert analyze(program(text)).facts == ()
    for other in ("except ValueError as error:", "except RuntimeError as error:\n    raise", "finally:"):
        assert analyze(program(text.replace("except RuntimeError as error:", other))).facts
    in_a_loop = text.replace("try:\n    loss.backward()", "for _ in range(3):\n  try:\n    loss.backward()")
    in_a_loop = in_a_loop.replace("except", "  except")
    assert analyze(program(in_a_loop)).facts == ()
    assert analyze(program(f"{in_a_loop}  trainer.step()\n")).facts


def test_a_gradient_by_the_chain_rule_says_that_an_unread_call_has_cut() -> None:
    text = """\
import torch
from estimators import relax
net = torch.nn.Linear(3, 3)
logits = net(torch.randn(2, 3))
g = relax(logits, logits.sigmoid())
(g ** 2).sum().backward()
logits.backward({given})
"""
    assert analyze(program(text.format(given="g"))).facts == ()
    assert analyze(program(text.format(given="torch.ones(2, 3)"))).facts


def patched(text: str) -> str:
    return mend(program(text), all_codemods()).patched.files[0].text


LAYER = """\
import torch
import torch.nn.functional as F
from torch import nn
net = nn.Linear(4, 4)
opt = torch.optim.SGD(net.parameters(), 0.1)
for step in range(5):
    h = torch.sigmoid(net(torch.randn(8, 4)))
    out = {call}
    opt.zero_grad()
    (out - 1).pow(2).mean().backward()
    opt.step()
"""


@pytest.mark.parametrize(
    ("call", "better"),
    [
        ("F.dropout(h, 0.5, True, True)", "F.dropout(h, 0.5, True)"),
        ("F.relu(h, True)", "F.relu(h)"),
        ("F.leaky_relu(h, 0.1, True)", "F.leaky_relu(h, 0.1)"),
        ("F.hardtanh(h, -1.0, 1.0, True)", "F.hardtanh(h, -1.0, 1.0)"),
        ("F.rrelu(h, 0.1, 0.3, True, True)", "F.rrelu(h, 0.1, 0.3, True)"),
    ],
)
def test_a_flag_by_position_is_taken_away(call: str, better: str) -> None:
    assert patched(LAYER.format(call=call)) == LAYER.format(call=better)


@pytest.mark.parametrize("call", ["F.dropout(h, 0.5, True, False)", "F.dropout(h, 0.5, True)", "F.elu(h, 1.0)"])
def test_other_arguments_in_its_place_are_no_mistake(call: str) -> None:
    assert analyze(program(LAYER.format(call=call))).facts == ()


SMOOTHED = """\
import torch
from torch import nn
net = nn.Linear(3, 3)
alpha = nn.Parameter(torch.full((3,), 0.5))
opt = torch.optim.SGD([*net.parameters(), alpha], 0.1)
def decay(level):
    level.mul_(0.9)
for step in range(10):
    x = torch.rand(2, 4, 3) + 0.1
    banks = [x[:, 0].clone(), x[:, 1].clone()]
    level = x[:, 0].clone()
    other = level
    outs = []
    for t in range(4):
        {inside}
    loss = torch.stack(outs).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


@pytest.mark.parametrize(
    ("inside", "line", "better"),
    [
        (
            "now = banks[0]\n        outs.append(net(x[:, t]) * now.pow(alpha))",
            "now.mul_(0.9)",
            "banks[0] = now.mul(0.9)",
        ),
        ("now = banks[0]\n        outs.append(net(x[:, t]) * now.pow(alpha))", "now += 1", "banks[0] = now + 1"),
        ("outs.append(net(x[:, t]) * level.pow(alpha))", "other.mul_(0.9)", "other = level = other.mul(0.9)"),
        ("outs.append(net(x[:, t]) * level.pow(alpha))", "level.mul_(0.9)", "level = level.mul(0.9)"),
        (
            "now, then = banks[t % 2], banks[1 - t % 2]\n        outs.append(net(x[:, t]) * now.pow(alpha))",
            "torch.lerp(now, x[:, t], 0.2, out=then)",
            "banks[1 - t % 2] = torch.lerp(now, x[:, t], 0.2)",
        ),
    ],
)
def test_a_new_tensor_is_put_where_others_read_it(inside: str, line: str, better: str) -> None:
    before, after = (SMOOTHED.format(inside=f"{inside}\n        {one}") for one in (line, better))
    assert patched(before) == after


@pytest.mark.parametrize("change", ["decay(level)", "for one in (level,):\n            one.mul_(0.9)"])
def test_what_is_saved_is_a_clone_where_the_other_names_are_not_known(change: str) -> None:
    before = SMOOTHED.format(inside=f"outs.append(net(x[:, t]) * level.pow(alpha))\n        {change}")
    assert patched(before) == before.replace("level.pow", "level.clone().pow")


@pytest.mark.parametrize(
    ("shape", "line", "better"),
    [
        (
            SLOTS,
            "for k, v in slots.items():\n    v = v.detach()",
            "for k, v in slots.items():\n    slots[k] = v.detach()",
        ),
        (
            STATES,
            "for i, h in enumerate(hs):\n    h = h.detach()",
            "for i, h in enumerate(hs):\n    hs[i] = h.detach()",
        ),
        (STATES, "for h in hs:\n    h = h.detach()", "for h in hs:\n    h.detach_()"),
        (MODULE, "h, c = net.h.detach(), net.c.detach()", "net.h, net.c = net.h.detach(), net.c.detach()"),
        (MODULE, "net.h.detach()\nnet.c.detach()", "net.h = net.h.detach()\nnet.c = net.c.detach()"),
    ],
)
def test_a_cut_that_misses_is_made_to_hit(shape: str, line: str, better: str) -> None:
    before, after = (shape.format(cut=textwrap.indent(one, "    ")) for one in (line, better))
    assert patched(before) == after


def test_a_cut_beside_its_window_moves_to_where_the_window_ends() -> None:
    text = """\
import torch
from torch import nn
net = nn.Linear(3, 3)
opt = torch.optim.SGD(net.parameters(), 0.1)
h, total = torch.zeros(2, 3), 0.0
for t in range(40):
    h = net(torch.randn(2, 3) + h).tanh()
    total = total + h.pow(2).mean(){beside}
    if (t + 1) % 4 == 0:
        opt.zero_grad()
        total.backward()
        opt.step(){behind}
        total = 0.0
"""
    cut = "h = h.detach()"
    before = text.format(beside=f"\n    if t > 0 and t % 4 == 0:\n        {cut}", behind="")
    assert patched(before) == text.format(beside="", behind=f"\n        {cut}")


def test_what_is_forgotten_is_cut_beside_what_is_not() -> None:
    text = STATES.replace("hs = [torch.zeros(2, 3), torch.zeros(2, 3)]", "h, g = torch.zeros(2, 3), torch.zeros(2, 3)")
    text = text.replace(
        "    for i in range(2):\n        hs[i] = net(x + hs[i])\n", "    h, g = net(x + h), net(x - g)\n"
    )
    text = text.replace("sum(v.pow(2).mean() for v in hs)", "(h * g).mean()")
    before, after = (
        text.format(cut=f"    if step % 2:\n        h = h.detach(){more}") for more in ("", "\n        g = g.detach()")
    )
    before = before.replace("    opt.zero_grad", "    if step % 2:\n        opt.zero_grad").replace(
        "    loss.backward()", "        loss.backward()"
    )
    after = after.replace("    opt.zero_grad", "    if step % 2:\n        opt.zero_grad").replace(
        "    loss.backward()", "        loss.backward()"
    )
    before, after = (one.replace("    opt.step()", "        opt.step()") for one in (before, after))
    assert patched(before) == after


COLLECTED = """\
import torch
from torch import nn
class Part(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(3, 3)
        self.terms = []
    def forward(self, x):
        p = self.gate(x).softmax(-1)
        self.terms.append(p.pow(2).sum())
        return p * x
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.part = {part}
    def forward(self, x):
        {forward}
net = Net()
opt = torch.optim.SGD(net.parameters(), 0.1)
for step in range(10):
    {reset}
    out = net(torch.randn(4, 3))
    loss = out.pow(2).mean() + sum(sum(m.terms) for m in net.modules() if isinstance(m, Part))
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


@pytest.mark.parametrize(
    ("part", "forward", "reset", "better"),
    [
        ("Part()", "return self.part(x)", "net.terms = []", "net.part.terms = []"),
        (
            "nn.ModuleList([Part(), Part()])",
            "return self.part[1](self.part[0](x))",
            "net.terms = []",
            "for layer in net.part:\n        layer.terms = []",
        ),
    ],
)
def test_the_attribute_of_the_object_that_has_it_is_emptied(part: str, forward: str, reset: str, better: str) -> None:
    before, after = (COLLECTED.format(part=part, forward=forward, reset=one) for one in (reset, better))
    assert patched(before) == after


def test_what_is_returned_is_the_new_tensor_and_not_the_old_buffer() -> None:
    text = SMOOTHED.format(
        inside="outs.append(net(x[:, t]) * banks[t % 2].pow(alpha))\n        push(banks, t, x[:, t])"
    )
    call = "torch.lerp(banks[t % 2], new, 0.2, out=then)"
    text = text.replace(
        "for step", f"def push(banks, t, new):\n    then = banks[1 - t % 2]\n    return {call}\nfor step", 1
    )
    place, plain = "banks[1 - t % 2]", "torch.lerp(banks[t % 2], new, 0.2)"
    assert patched(text) == text.replace(f"return {call}", f"{place} = {plain}\n    return {place}")


WRITTEN = """\
import torch
import torch.nn.functional as F
from torch import nn
net = nn.Linear(4, 4)
opt = torch.optim.SGD(net.parameters(), 0.1)
for step in range(5):
    x = torch.randn(4, 4)
    h = net(x)
    y = {made}
    {change}
    opt.zero_grad()
    (h + y).pow(2).mean().backward()
    opt.step()
"""


@pytest.mark.parametrize(
    ("made", "change", "better"),
    [
        ("h * 2", "y *= y", {"    y *= y": "    y = y * y"}),
        ("h.exp()", "y.view(-1)[0] = 1.0", {"y = h.exp()": "y = h.exp().clone()"}),
        ("torch.sigmoid(h)", "y.view(-1)[0] = 1.0", {"torch.sigmoid(h)": "torch.sigmoid(h).clone()"}),
        ("h.tanh()", "F.relu(y, inplace=True)", {"    F.relu(y, inplace=True)": "    y = F.relu(y)"}),
        ("h.tanh()", "F.relu(y, True)", {"    F.relu(y, True)": "    y = F.relu(y)"}),
        ("h + 0", "x.t().mul_(2)", {"net(x)": "net(x.clone())"}),
        ("h.exp()", "y.T.mul_(2)", {"y = h.exp()": "y = h.exp().clone()"}),
    ],
)
def test_what_is_saved_stays_what_it_was(made: str, change: str, better: dict[str, str]) -> None:
    before = after = WRITTEN.format(made=made, change=change)
    for old, new in better.items():
        after = after.replace(old, new)
    assert patched(before) == after != before


SEVERAL = """\
import torch
import torch.nn.functional as F
from torch import nn
net, head = nn.Linear(4, 8), nn.Linear(4, 4)
x = torch.randn(32, 4)
places = torch.randint(0, 8, (32,))
{made}
loss.backward()
"""


@pytest.mark.parametrize(
    "made",
    [
        "mean, _ = net(x).chunk(2, -1)\nloss = head(mean)",
        "mean, width = net(x).split(4, dim=1)\nloss = mean + torch.randn_like(mean) * width.exp()",
        "loss = net(torch.poisson(x.exp()))",
        "loss = net(x @ torch.randn(4, 4))",
        "loss = net(torch.cat([x[:, :2], x[:, 2:]], -1))",
        "loss = F.cosine_similarity(net(x), net(x) + 1)",
        "loss = F.pairwise_distance(net(x), net(x) + 1)",
        "loss = torch.cdist(net(x), net(x))",
        'loss = torch.einsum("bi,bi->b", net(x), net(x))',
        "loss = torch.bmm(net(x)[:, None], net(x)[:, :, None]).squeeze()",
        "loss = net(x)[torch.arange(32), places]",
        "loss = net(x).log_softmax(-1)[range(32), places]",
        'loss = F.kl_div(net(x).log_softmax(-1), torch.ones(32, 8), reduction="none").sum(-1)',
        "loss = net(x).diff(dim=1).abs().mean(1)",
        "loss = torch.addcmul(net(x), net(x), net(x))",
    ],
)
def test_a_loss_of_several_elements_is_one_for_each_row(made: str) -> None:
    (fact,) = analyze(program(SEVERAL.format(made=made))).facts
    assert isinstance(fact, NotScalar)
    assert analyze(program(SEVERAL.format(made=made + "\nloss = loss.mean()"))).facts == ()


@pytest.mark.parametrize(
    "made",
    [
        "loss = torch.cat([net(x)[:1].mean(1), net(x).mean()[None]]).sum()",
        "loss, _ = net(x).sum(0).mean()[None].split(1)[0], 1",
        'loss = torch.einsum("bi,bi->", net(x), net(x))',
        "loss = net(x)[0, places[0]]",
        "loss = net(x).chunk(32)[0].mean(1)",
        "loss = F.cosine_similarity(net(x).mean(0), net(x).sum(0), dim=0)",
        'loss = F.kl_div(net(x).log_softmax(-1), torch.ones(32, 8), reduction="batchmean")',
    ],
)
def test_a_loss_of_one_element_is_none_of_several(made: str) -> None:
    assert analyze(program(SEVERAL.format(made=made))).facts == ()


OBJECTIVES = """\
import torch
from torch import nn
actor, critic = nn.Linear(3, 1), nn.Linear(4, 1)
opts = {{"critic": torch.optim.Adam(critic.parameters()), "actor": torch.optim.Adam(actor.parameters())}}
def q(s, a):
    return critic(torch.cat([s, a], -1)).tanh()
def critic_loss(s, a):
    return q(s, a).pow(2).mean()
def actor_loss(s, _):
    return -q(s, actor(s)).mean()
for step in range(20):
    s, a = torch.randn(8, 3), torch.randn(8, 1)
    losses = {losses}
    for {head}:
        {taken}opts[name].zero_grad()
        loss.backward()
        opts[name].step()
"""


@pytest.mark.parametrize(
    ("losses", "head", "taken", "late"),
    [
        (
            '{"critic": critic_loss(s, a), "actor": actor_loss(s, a)}',
            "name in opts",
            "loss = losses[name]",
            ('{"critic": critic_loss, "actor": actor_loss}', "name in opts", "loss = losses[name](s, a)"),
        ),
        (
            '{"critic": critic_loss(s, a), "actor": actor_loss(s, None)}',
            "name, loss in losses.items()",
            "",
            (
                '{"critic": lambda: critic_loss(s, a), "actor": lambda: actor_loss(s, None)}',
                "name, compute in losses.items()",
                "loss = compute()",
            ),
        ),
        (
            "[critic_loss(s, a), actor_loss(s, a)]",
            "name, loss in zip(opts, losses)",
            "",
            ("[critic_loss, actor_loss]", "name, compute in zip(opts, losses)", "loss = compute(s, a)"),
        ),
    ],
)
def test_objectives_computed_ahead_are_computed_in_turn(
    losses: str, head: str, taken: str, late: tuple[str, str, str]
) -> None:
    before, after = (
        OBJECTIVES.format(losses=one[0], head=one[1], taken=f"{one[2]}\n        " if one[2] else "")
        for one in ((losses, head, taken), late)
    )
    assert patched(before) == after


HELD = """\
import torch
from collections import defaultdict
from torch import nn
net = nn.Linear(3, 3)
opt = torch.optim.SGD(net.parameters(), 0.01)
{log}
for epoch in range(12):
    for it in range(9):
        out = net(torch.randn(2, 3))
        loss = out.pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        {keep}
print(float({read}))
"""


@pytest.mark.parametrize(
    ("log", "keep", "read"),
    [
        ("log = defaultdict(dict)", 'log[epoch]["loss"] = @', 'log[0]["loss"]'),
        ("log = defaultdict(dict)", "log[epoch][it] = @", "log[0][0]"),
        ("log = {}", "log[epoch, it] = @", "log[0, 0]"),
        ("log = {}", 'log[f"{epoch}/{it}"] = @', 'log["0/0"]'),
        ("log = [None] * 12", "log[epoch] = @", "log[0]"),
        ("log = [[None] * 9 for _ in range(12)]", "log[epoch][it] = @", "log[0][0]"),
        ("log = []", "log = log + [@]", "log[0]"),
        ("log = ()", "log = (*log, @)", "log[0]"),
        ("log = []", "log.append(dict(loss=@, it=it))", 'log[0]["loss"]'),
        ("log = torch.zeros(12)", "log[epoch] += @", "log[0]"),
        ("log = torch.zeros(12, 9)", "log[epoch, it] = @", "log[0, 0]"),
    ],
)
def test_what_is_kept_for_each_epoch_is_kept_without_its_graph(log: str, keep: str, read: str) -> None:
    before, after = (
        HELD.format(log=log, keep=keep.replace("@", value), read=read) for value in ("loss", "loss.detach()")
    )
    assert patched(before) == after
    assert analyze(program(after)).facts == ()


@pytest.mark.parametrize(
    ("log", "keep", "read"),
    [
        ("log = [None] * 9", "log[it] = loss", "log[0]"),  # as many as there are, in every epoch the same places
        ("log = {}", "log[it] = loss", "log[0]"),
        ("log = {}", 'log["last"] = loss', 'log["last"]'),
        ("log = [{}, {}]", 'log[it % 2]["loss"] = loss', 'log[0]["loss"]'),
        ("log = torch.zeros(9)", "log = torch.zeros(9)", "log[0]"),
    ],
)
def test_what_is_written_over_in_every_epoch_does_not_grow(log: str, keep: str, read: str) -> None:
    assert analyze(program(HELD.format(log=log, keep=keep, read=read))).facts == ()
