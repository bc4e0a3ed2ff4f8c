"""Training scripts that were written twice: with a mistake, and as they were meant.

Each family of mistakes is written in many shapes: flat, in a function, as a trainer's method; states in names,
attributes, dictionaries, lists and tuples; in one loop or in two.  What a repair makes of the one must train like the
other.
"""

from __future__ import annotations

import random
import re
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field

HEAD = """\
import torch
import torch.nn as nn
import torch.nn.functional as F
from collections import deque
torch.manual_seed(3)
DATA = [torch.randn(4, 3) for _ in range(12)]
GOAL = [torch.randn(4, 3) for _ in range(12)]
"""


@dataclass
class Pair:
    """Lines of a script, with the mistake and without: setup, body of each iteration, end of each epoch."""

    models: dict[str, str]
    """The networks, by the names that the script has for them."""
    setup: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    meant: list[str] = field(default_factory=list)
    meant_setup: list[str] | None = None
    classes: str = ""
    meant_classes: str = ""
    flat: bool = False
    """Whether the script is written without functions."""
    optimizers: dict[str, list[str]] = field(default_factory=dict)
    """The optimizers, by name, and the networks that each of them trains; one for all where none is named."""


class Writer:
    """Writes the scripts of one seed."""

    def __init__(self, seed: int, family: str = "") -> None:
        self.random = random.Random(seed)
        self.family = family or self.random.choice(list(FAMILIES))

    def pick(self, *choices: str) -> str:
        return self.random.choice(choices)

    def scripts(self) -> tuple[str, str]:
        """The script with the mistake, and the one that was meant."""
        pair = FAMILIES[self.family](self)
        layout = self.random.choice((_flat, _epochs) if pair.flat else LAYOUTS)
        rate = self.pick("0.1", "0.05")
        kind = self.pick("SGD", "SGD", "Adam", "AdamW")
        optimizers = [
            f"{name} = torch.optim.{kind}([p for one in ({', '.join(nets)},) for p in one.parameters()], lr={rate})"
            for name, nets in (pair.optimizers or {"opt": list(pair.models)}).items()
        ]
        made = [f"{name} = {code}" for name, code in pair.models.items()]
        found = []
        meant = pair.meant_setup or pair.setup, pair.meant, pair.meant_classes or pair.classes
        for setup, body, classes in ((pair.setup, pair.broken, pair.classes), meant):
            text = HEAD + classes + "\n".join([*made, *optimizers, ""])
            text += layout(setup, body, pair)
            text += f"FINAL = [p for one in ({', '.join(pair.models)},) for p in one.parameters()]\n"
            found.append(text)
        return found[0], found[1]


def _indented(lines: list[str], depth: int) -> str:
    return textwrap.indent("\n".join(lines), "    " * depth) + "\n"


def _flat(setup: list[str], body: list[str], pair: Pair) -> str:
    return _indented(setup, 0) + "for x, y in zip(DATA, GOAL):\n" + _indented(body, 1)


def _epochs(setup: list[str], body: list[str], pair: Pair) -> str:
    loops = "for epoch in range(2):\n    for i in range(6):\n        x, y = DATA[i], GOAL[i]\n"
    return _indented(setup, 0) + loops + _indented(body, 2)


def _function(setup: list[str], body: list[str], pair: Pair) -> str:
    head = "def train(data, goal):\n" + _indented(setup, 1) + "    for x, y in zip(data, goal):\n"
    return head + _indented(body, 2) + "train(DATA, GOAL)\n"


def _method(setup: list[str], body: list[str], pair: Pair) -> str:
    """A trainer holds the setup; the names of the script become attributes."""
    names = _names_of(setup)
    own = [_as_attributes(line, names) for line in setup]
    steps = [_as_attributes(line, names) for line in body]
    return (
        "class Trainer:\n    def __init__(self):\n"
        + _indented(own or ["pass"], 2)
        + "    def step(self, x, y):\n"
        + _indented(steps, 2)
        + "trainer = Trainer()\nfor x, y in zip(DATA, GOAL):\n    trainer.step(x, y)\n"
    )


def _as_attributes(line: str, names: list[str], owner: str = "self") -> str:
    for name in names:
        line = re.sub(rf"(?<![\w.]){name}(?!\w)(?!=[^=])", f"{owner}.{name}", line)
    return line


def _names_of(setup: list[str]) -> list[str]:
    """The names that are set up, as a list."""
    kept = [line.partition(" = ")[0] for line in setup if " = " in line and line[:1].isalpha()]
    return [name.strip() for one in kept for name in one.split(",") if name.strip().isidentifier()]


def _split(setup: list[str], body: list[str], pair: Pair) -> str:
    """One method computes the loss, another one learns from it; they share the trainer's attributes."""
    starts = [at for at, line in enumerate(body) if line.endswith("zero_grad()") or ".backward(" in line]
    at = min(starts) if starts else 0
    first, then = body[:at], body[at:]
    local = {name for line in first if " = " in line for name in re.findall(r"\w+", line.partition(" = ")[0])} - {
        "loss"
    }
    used = {name for line in then for name in re.findall(r"(?<![\w.])\w+", line)}
    several = any(line.startswith(" ") for line in body[at - 1 : at + 1])
    if not first or several or local & used or sum(".backward(" in line for line in body) != 1 or "loss" not in used:
        return _method(setup, body, pair)
    names = _names_of(setup)
    own = [_as_attributes(line, names) for line in setup]
    return (
        "class Trainer:\n    def __init__(self):\n"
        + _indented(own or ["pass"], 2)
        + "    def compute(self, x, y):\n"
        + _indented([_as_attributes(line, names) for line in [*first, "return loss"]], 2)
        + "    def learn(self, loss, x, y):\n"
        + _indented([_as_attributes(line, names) for line in then], 2)
        + "trainer = Trainer()\nfor x, y in zip(DATA, GOAL):\n    trainer.learn(trainer.compute(x, y), x, y)\n"
    )


def _nested(setup: list[str], body: list[str], pair: Pair) -> str:
    """A function in a function, to which the names of the setup are not local."""
    names = _names_of(setup)
    outer = [f"nonlocal {', '.join(names)}"] if names else []
    return (
        "def main():\n"
        + _indented([*setup, "def step(x, y):"], 1)
        + _indented([*outer, *body], 2)
        + "    for at in range(len(DATA)):\n        step(DATA[at], GOAL[at])\nmain()\n"
    )


def _namespace(setup: list[str], body: list[str], pair: Pair) -> str:
    """An object has the setup as its attributes, and is given to a function."""
    names = _names_of(setup)
    own = [_as_attributes(line, names, "run") for line in setup]
    return (
        "from types import SimpleNamespace\nrun = SimpleNamespace()\n"
        + _indented(own, 0)
        + "def step(run, batch):\n    x, y = batch\n"
        + _indented([_as_attributes(line, names, "run") for line in body], 1)
        + "for batch in zip(DATA, GOAL):\n    step(run, batch)\n"
    )


LAYOUTS = (_flat, _function, _method, _epochs, _split, _nested, _namespace)


def _update(writer: Writer, loss: str, opt: str = "opt") -> list[str]:
    """The three lines of an update."""
    lines = [f"{loss}.backward()", f"{opt}.step()"]
    return [f"{opt}.zero_grad()", *lines] if writer.random.random() < 0.7 else [*lines, f"{opt}.zero_grad()"]


def _recurrent(writer: Writer) -> Pair:
    cell = writer.pick("nn.GRUCell(3, 3)", "nn.RNNCell(3, 3)", "nn.Linear(6, 3)", "nn.LSTMCell(3, 3)", "nn.GRU(3, 3)")
    name = writer.pick("h", "state", "hidden", "memory")
    place = writer.pick("{}", "box['{}']", "slots[0]", "holder.{}").format(name)
    setup = {"b": ["box = {}"], "s": ["slots = [None]"]}.get(place[:1] if "[" in place else "", [])
    classes = ""
    if place.startswith("holder"):
        classes, setup = "class Holder:\n    pass\n", ["holder = Holder()"]
    start = {"nn.LSTMCell(3, 3)": "(torch.zeros(4, 3), torch.zeros(4, 3))", "nn.GRU(3, 3)": "torch.zeros(1, 4, 3)"}
    setup = [*setup, f"{place} = {start.get(cell, 'torch.zeros(4, 3)')}"]
    first, then = f"{place}", "{0}.detach()"
    if cell.startswith("nn.Linear"):
        lines = [f"{place} = torch.tanh(cell(torch.cat([x, {place}], 1)))", f"out = head({place})"]
    elif cell.startswith("nn.LSTMCell"):
        lines = [f"{place} = cell(x, {place})", f"out = head({place}[0])"]
        then = "tuple(part.detach() for part in {0})"
    elif cell.startswith("nn.GRU("):
        lines = [f"seq, {place} = cell(x[None], {place})", "out = head(seq[0])"]
    else:
        lines = [f"{place} = cell(x, {place})", f"out = head({place})"]
    if writer.random.random() < 0.3 and not cell.startswith("nn.LSTMCell") and not cell.startswith("nn.GRU("):
        lines = [lines[0].replace(f"{place} =", "new =", 1), "out = head(new)", f"{place} = new"]
    loss = writer.pick("loss = F.mse_loss(out, y)", "loss = (out - y).pow(2).mean()")
    body = [*lines, loss, *_update(writer, "loss")]
    cut = f"{place} = {then.format(first)}"
    return Pair({"cell": cell, "head": "nn.Linear(3, 3)"}, setup, body, [cut, *body], classes=classes)


def _windowed(writer: Writer) -> Pair:
    """Truncated back-propagation through time, without the cut at the end of a window."""
    lines = ["h = cell(x, h)", "loss = loss + F.mse_loss(head(h), y)", "count += 1"]
    setup = ["h = torch.zeros(4, 3)", "loss, count = 0.0, 0"]
    window = ["    opt.zero_grad()", "    loss.backward()", "    opt.step()", "    loss = 0.0"]
    if writer.random.random() < 0.4:
        lines = ["h = cell(x, h)", "terms.append(F.mse_loss(head(h), y))", "count += 1"]
        setup = ["h = torch.zeros(4, 3)", "terms, count = [], 0"]
        window = ["    opt.zero_grad()", "    sum(terms).backward()", "    opt.step()", "    terms.clear()"]
    body = [*lines, "if count % 3 == 0:", *window]
    cell = writer.pick("nn.GRUCell(3, 3)", "nn.RNNCell(3, 3)")
    return Pair({"cell": cell, "head": "nn.Linear(3, 3)"}, setup, body, [*body, "    h = h.detach()"])


def _stored(writer: Writer) -> Pair:
    """A list, deque or dictionary of earlier outputs, read before or after the new one is stored."""
    store = writer.pick("history", "bank", "queue", "past")
    kind = writer.pick("list", "deque", "window", "dict")
    made = {"deque": "deque(maxlen=4)", "dict": "{}"}.get(kind, "[]")
    values = f"{store}.values()" if kind == "dict" else store
    put = f"{store}[len({store}) % 4] = {{}}" if kind == "dict" else f"{store}.append({{}})"
    drop = [f"if len({store}) > 4:", f"    {store}.pop(0)"] if kind == "window" else []
    use = writer.pick("torch.stack(list({})).mean(0)", "sum({}) / 4").format(values)
    loss = writer.pick(
        "loss = F.mse_loss(out, y) + 0.1 * F.mse_loss(out, old)", "loss = F.mse_loss(out - 0.3 * old, y)"
    )
    if writer.random.random() < 0.5:  # read first
        body = ["out = net(x)", f"old = {use} if {store} else torch.zeros(4, 3)", loss, *_update(writer, "loss")]
        return Pair(
            _net(writer),
            [f"{store} = {made}"],
            [*body, put.format("out"), *drop],
            [*body, put.format("out.detach()"), *drop],
        )
    body = ["out = net(x)", put.format("out"), *drop, f"old = {use}", loss, *_update(writer, "loss")]
    again = f"{store}[(len({store}) - 1) % 4]" if kind == "dict" else f"{store}[-1]"
    if kind == "dict":
        body = ["out = net(x)", f"at = len({store}) % 4", f"{store}[at] = out", *body[2:]]
        again = f"{store}[at]"
    return Pair(_net(writer), [f"{store} = {made}"], body, [*body, f"{again} = {again}.detach()"])


def _net(writer: Writer) -> dict[str, str]:
    return {
        "net": writer.pick(
            "nn.Linear(3, 3)",
            "nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 3))",
            "nn.Sequential(nn.Linear(3, 3), nn.ReLU())",
        )
    }


def _average(writer: Writer) -> Pair:
    """A running mean, a baseline or a centre of the network's outputs."""
    name = writer.pick("mean", "center", "baseline", "running")
    value = writer.pick("out.mean(0)", "out.mean()", "F.mse_loss(out, y)")
    rule = writer.pick("0.9 * {0} + 0.1 * {1}", "{0} + 0.1 * ({1} - {0})", "torch.lerp({0}, {1}, 0.1)")
    rule = rule if "lerp" not in rule or value == "out.mean(0)" else "0.9 * {0} + 0.1 * {1}"
    setup = [f"{name} = torch.zeros({'3' if value == 'out.mean(0)' else '()'})"]
    loss = f"loss = ((out - y - {name}) ** 2).mean()"
    if writer.random.random() < 0.5:  # after its update: the newest value trains
        body = ["out = net(x)", f"{name} = {rule.format(name, value)}", loss, *_update(writer, "loss")]
        meant = ["out = net(x)", f"{name} = {rule.format(f'{name}.detach()', value)}", *body[2:]]
        return Pair(_net(writer), setup, body, meant)
    body = ["out = net(x)", loss, *_update(writer, "loss")]
    meant = [*body, f"{name} = {rule.format(name, value.replace('out', 'out.detach()'))}"]
    return Pair(_net(writer), setup, [*body, f"{name} = {rule.format(name, value)}"], meant)


def _hoisted(writer: Writer) -> Pair:
    """Features that are computed once, before the loop."""
    inside = writer.random.random() < 0.5  # whether the encoder is trained
    made = writer.pick(
        "feats = encoder(DATA[0])",
        "feats = torch.relu(encoder(DATA[0]))",
        "table = encoder(DATA[0])\nfeats = table * 2",
    )
    setup = made.split("\n")
    body = [
        writer.pick("out = head(feats) + x", "out = head(feats * x)"),
        "loss = F.mse_loss(out, y)",
        *_update(writer, "loss"),
    ]
    nets = {"encoder": "nn.Linear(3, 3)", "head": "nn.Linear(3, 3)"}
    if inside:
        return Pair(nets, setup, body, [*setup, *body], meant_setup=["pass"])
    return Pair(nets, setup, body, ["feats = feats.detach()", *body], optimizers={"opt": ["head"]})


def _computed(writer: Writer) -> Pair:
    """Several values of the parameters that build on each other, computed before the loop, and read here and there."""
    gain, shift, table = writer.pick("gain", "scale"), writer.pick("shift", "bias"), writer.pick("table", "basis")
    first = writer.pick(
        f"{gain} = F.softplus(net.weight)", f"{gain} = net.weight.exp()", f"{gain} = torch.tanh(net.weight)"
    )
    second = writer.pick(f"{shift} = torch.tanh(net.bias)", f"{shift} = {gain}.mean(0)", f"{shift} = net.bias * 2")
    third = writer.pick(
        f"{table} = {gain} + {shift}",
        f"{table} = torch.outer({shift}, {shift}) @ {gain}",
        f"mixed = {gain} * {shift}\n{table} = mixed / (1 + mixed.pow(2))",
    )
    setup = [first, second, *third.split("\n")]
    if writer.random.random() < 0.2:
        setup = [first.replace(" = ", f", {shift} = ").replace("\n", ""), *third.split("\n")]
        setup[0] += ", torch.tanh(net.bias)"
    terms = [f"{gain}.pow(2).mean()", f"{shift}.abs().mean()", f"0.1 * {gain}.sum()", f"({shift} - 1).pow(2).sum()"]
    extra = writer.random.sample(terms, writer.random.choice((0, 1, 2)))
    body = [
        writer.pick(f"out = head(x @ {table})", f"out = head(x) @ {table} + {shift}", f"out = x @ {table} * head(x)"),
        " + ".join(["loss = F.mse_loss(out, y)", *extra]),
        *_update(writer, "loss"),
    ]
    nets = {"net": "nn.Linear(3, 3)", "head": "nn.Linear(3, 3)"}
    return Pair(nets, setup, body, [*setup, *body], meant_setup=["pass"])


def _step(opt: str, loss: str) -> list[str]:
    return [f"{opt}.zero_grad()", f"{loss}.backward()", f"{opt}.step()"]


def _gan(writer: Writer) -> Pair:
    """The usual ways to train a generator and a discriminator, with the graph of one batch in both losses."""
    g, d = writer.pick("gen", "painter"), writer.pick("disc", "critic")
    nets = {
        g: "nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 3))",
        d: "nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))",
    }
    optimizers = {"opt_g": [g], "opt_d": [d]}
    terms = (
        "",
        "F.mse_loss(fake, y)",
        "0.1 * fake.abs().mean()",
        f"F.mse_loss({g}(y), y)",
        f"{g}(x.flip(0)).abs().mean()",
    )
    extra = writer.pick(*terms)
    kind = writer.pick("not detached", "not detached", "shared output", "shared detached")
    critic_first = kind == "shared detached" or writer.random.random() < 0.6
    at_once = kind == "not detached" and writer.random.random() < 0.2
    all_at_first = at_once or (critic_first and writer.random.random() < 0.3)
    helper = writer.pick("", "", "aim", "judge")
    classes = {
        "": "",
        "aim": "def aim(net, image, sign):\n    return F.softplus(sign * net(image)).mean()\n",
        "judge": f"def judge(image, sign):\n    return F.softplus(sign * {d}(image)).mean()\n",
    }[helper]

    def of(image: str, sign: int) -> str:
        if helper and kind == "not detached":
            return f"aim({d}, {image}, {sign})" if helper == "aim" else f"judge({image}, {sign})"
        scored = image if image.startswith("score") else f"{d}({image})"
        return f"F.softplus({'-' if sign < 0 else ''}{scored}).mean()"

    def turns(first: str, second: str, made: list[str]) -> list[str]:
        """The program's step, with the value that each of its two losses takes for the fake."""
        for_critic, for_painter = (first, second) if critic_first else (second, first)
        steps = [
            ("opt_d", "d_loss", [f"d_loss = {of(for_critic, 1)} + {of('y', -1)}"]),
            ("opt_g", "g_loss", [f"g_loss = {' + '.join(filter(None, (of(for_painter, -1), extra)))}"]),
        ]
        body = ["opt_g.zero_grad()", "opt_d.zero_grad()"] if all_at_first else []
        body += [f"fake = {g}(x)", *made]
        for opt, loss, lines in steps if critic_first else reversed(steps):
            step = _step(opt, loss)
            body += [*lines, *(line for line in step if not (all_at_first and "zero_grad" in line))]
        if at_once:
            body = [*(line for line in body if ".step()" not in line), "opt_g.step()", "opt_d.step()"]
        return body

    free, whole = ("fake.detach()", "fake") if critic_first else ("fake", "fake.detach()")
    meant = turns(free, whole, [])
    if kind == "not detached":
        broken = turns("fake", "fake", [])
    else:
        broken = turns(
            "score", "score", [f"score = {d}(fake.detach())" if kind == "shared detached" else f"score = {d}(fake)"]
        )
    if writer.random.random() < 0.3:  # the folk fix
        first = next(at for at, line in enumerate(broken) if line.endswith(".backward()"))
        broken[first] = broken[first].replace("backward()", "backward(retain_graph=True)")
    return Pair(nets, [], broken, meant, optimizers=optimizers, classes=classes if kind == "not detached" else "")


def _two_losses(writer: Writer) -> Pair:
    """Two losses of one network, sent backward one after the other for one step."""
    nets = {"trunk": "nn.Linear(3, 4)", "left": "nn.Linear(4, 3)", "right": "nn.Linear(4, 3)"}
    made = ["z = torch.tanh(trunk(x))", "first = F.mse_loss(left(z), y)", "second = right(z).pow(2).mean()"]
    weight = writer.pick("", "0.5 * ")
    second = f"({weight}second)" if weight else "second"
    broken = [*made, "opt.zero_grad()", "first.backward()", f"{second}.backward()", "opt.step()"]
    meant = [*made, "opt.zero_grad()", f"(first + {weight}second).backward()", "opt.step()"]
    if writer.random.random() < 0.3:
        broken = [
            *made,
            "losses = [first, second]",
            "opt.zero_grad()",
            "for loss in losses:",
            "    loss.backward()",
            "opt.step()",
        ]
        meant = [*made, "opt.zero_grad()", "(first + second).backward()", "opt.step()"]
    return Pair(nets, [], broken, meant)


def _total(writer: Writer) -> Pair:
    """A total that goes on after it was sent backward."""
    name = writer.pick("total", "running", "epoch_loss")
    add = writer.pick("{0} += loss", "{0} = {0} + loss")
    body = ["loss = F.mse_loss(net(x), y)", add.format(name), "opt.zero_grad()", f"{name}.backward()", "opt.step()"]
    meant = ["loss = F.mse_loss(net(x), y)", "opt.zero_grad()", "loss.backward()", "opt.step()"]
    return Pair(_net(writer), [f"{name} = 0.0"], body, meant)


def _episodes(writer: Writer) -> Pair:
    """Log-probabilities and rewards that are not cleared after the episode's update."""
    logs, rewards = writer.pick("log_probs", "saved", "actions"), writer.pick("rewards", "returns_")
    setup = writer.pick(f"{logs}, {rewards} = [], []", f"{logs} = []\n{rewards} = []").split("\n")
    body = [
        "for t in range(3):",
        f"    {logs}.append(F.log_softmax(net(x[t]), -1)[0])",
        f"    {rewards}.append(float(y[t, 0]))",
        f"loss = -sum(l * r for l, r in zip({logs}, {rewards}))"
        if writer.random.random() < 0.5
        else f"loss = -(torch.stack({logs}) * torch.tensor({rewards})).sum()",
        *_update(writer, "loss"),
    ]
    wrong = writer.random.random()
    broken = [*body, f"{rewards}.clear()"] if wrong < 0.3 and "zip" not in body[3] else body
    if wrong > 0.7 and "zip" not in body[3]:
        broken = [*body[:-1], f"{rewards}[:] = []", body[-1]]
    return Pair(_net(writer), setup, broken, [*body, f"{logs}.clear()", f"{rewards}.clear()"])


def _memory(writer: Writer) -> Pair:
    """A memory matrix that is written and read, in a module or beside it."""
    write = writer.pick("0.9 * {0} + 0.1 * torch.outer(key, value)", "{0} + torch.outer(key, value)")
    lines = ["key, value = net(x).mean(0), net(y).mean(0)"]
    name = writer.pick("mem", "matrix", "notes")
    if writer.random.random() < 0.5:
        body = [
            *lines,
            f"{name} = {write.format(name)}",
            f"out = x @ {name}",
            "loss = F.mse_loss(out, y)",
            *_update(writer, "loss"),
        ]
        meant = [*body, f"{name} = {name}.detach()"]
    else:
        body = [
            *lines,
            f"out = x @ {name} + net(x)",
            "loss = F.mse_loss(out, y)",
            *_update(writer, "loss"),
            f"{name} = {write.format(name)}",
        ]
        meant = [*body, f"{name} = {name}.detach()"]
    nets = {"net": "nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 3))"}
    return Pair(nets, [f"{name} = torch.zeros(3, 3)"], body, meant)


def _critic(writer: Writer) -> Pair:
    """Temporal differences whose value is carried from one step to the next."""
    target = writer.pick("next_value", "next_value.detach()")
    body = [
        "next_value = net(y).mean(1)",
        f"delta = x[:, 0] + 0.9 * {target} - value",
        "loss = delta.pow(2).mean()",
        *_update(writer, "loss"),
        "value = next_value",
    ]
    setup = ["value = net(DATA[0]).mean(1)"]
    meant = [*body[:-1], "value = net(y).mean(1)"]
    nets = {"net": "nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 3))"}
    return Pair(nets, setup, body, meant)


def _advantage(writer: Writer) -> Pair:
    """A policy and its critic, whose error weighs the policy's likelihoods and trains the critic itself."""
    nets = {
        "policy": "nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 3))",
        "critic": "nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1))",
    }
    made = ["action = y.argmax(1)"]
    made += writer.random.choice(
        (
            ["logp = torch.distributions.Categorical(logits=policy(x)).log_prob(action)"],
            ["dist = torch.distributions.Categorical(logits=policy(x))", "logp = dist.log_prob(action)"],
            ["logp = F.log_softmax(policy(x), -1).gather(1, action[:, None]).squeeze(1)"],
        )
    )
    made += ["value = critic(x).squeeze(-1)", "gap = y.sum(1) - value"]
    weight = writer.pick("gap", "gap", "(y.sum(1) - value)", "gap.clamp(-5, 5)")
    bonus = writer.pick("", " - 0.01 * policy(x).softmax(-1).pow(2).sum(-1).mean()")
    first = "p_loss = -(logp * {0}).mean()" + bonus
    second = writer.pick("v_loss = gap.pow(2).mean()", "v_loss = F.mse_loss(value, y.sum(1))")
    joint = writer.random.random() < 0.3
    pairs = [("opt", "p_loss"), ("opt", "v_loss")] if joint else [("opt_p", "p_loss"), ("opt_v", "v_loss")]
    if writer.random.random() < 0.4:
        pairs.reverse()
    layout = "late" if joint else writer.pick("own", "own", "top", "late")
    sends = [f"{loss}.backward()" for _, loss in pairs]
    zeros, steps = ([f"{opt}.{what}()" for opt, _ in dict.fromkeys(pairs)] for what in ("zero_grad", "step"))
    if joint:
        zeros, steps = zeros[:1], steps[:1]
    if layout == "late":
        tail = [*zeros, *sends, *steps]
    else:
        before = zeros if layout == "top" else []
        turns = (
            [*([] if layout == "top" else [zero]), send, step]
            for zero, send, step in zip(zeros, sends, steps, strict=True)
        )
        tail = [*before, *(line for turn in turns for line in turn)]
    broken = [*made, first.format(weight), second, *tail]
    meant = [*made, first.format(f"{weight}.detach()"), second, *tail]
    optimizers = {"opt": ["policy", "critic"]} if joint else {"opt_p": ["policy"], "opt_v": ["critic"]}
    return Pair(nets, [], broken, meant, optimizers=optimizers)


def _overwritten(writer: Writer) -> Pair:
    """A tensor that an operation saved, changed in place."""
    act = writer.pick("torch.sigmoid", "torch.tanh", "torch.exp", "F.softmax")
    call = f"{act}(net(x), -1)" if act == "F.softmax" else f"{act}(net(x))"
    change, new = writer.random.choice(
        (
            ("h += 1", "h = h + 1"),
            ("h *= 2", "h = h * 2"),
            ("h.mul_(0.5)", "h = h * 0.5"),
            ("h[:, 0] = 0", "h = torch.cat([torch.zeros(4, 1), h[:, 1:]], 1)"),
            ("h.clamp_(min=0.1)", "h = h.clamp(min=0.1)"),
            ("h.add_(x)", "h = h + x"),
            ("h[0] *= 3", "h = torch.cat([h[:1] * 3, h[1:]])"),
            ("h.masked_fill_(x > 0, 0.0)", "h = h.masked_fill(x > 0, 0.0)"),
            ("F.relu(h, inplace=True)", "h = F.relu(h)"),
        )
    )
    tail = ["loss = F.mse_loss(head(h), y)", *_update(writer, "loss")]
    nets = {**_net(writer), "head": "nn.Linear(3, 3)"}
    return Pair(nets, [], [f"h = {call}", change, *tail], [f"h = {call}", new, *tail])


def _leaf(writer: Writer) -> Pair:
    """Parameters that are changed by hand while autograd records."""
    broken, meant = writer.random.choice(
        (
            ("p -= 0.1 * p.grad", "p.data -= 0.1 * p.grad"),
            ("p.sub_(0.1 * p.grad)", "p.data.sub_(0.1 * p.grad)"),
            ("p.add_(p.grad, alpha=-0.1)", "p.data.add_(p.grad, alpha=-0.1)"),
            ("p.clamp_(-1, 1)", "p.data.clamp_(-1, 1)"),
        )
    )
    body = ["loss = F.mse_loss(net(x), y)", "net.zero_grad()", "loss.backward()", "for p in net.parameters():"]
    return Pair(_net(writer), [], [*body, f"    {broken}"], [*body, f"    {meant}"])


def _ppo(writer: Writer) -> Pair:
    """Old log-probabilities with their graph, in several epochs over one rollout."""
    ratio = writer.pick("ratio = (new - old).exp()", "ratio = torch.exp(new - old)")
    made = "old = F.log_softmax(net(x), -1)[:, 0]"
    inner = [
        "for _ in range(3):",
        "    new = F.log_softmax(net(x), -1)[:, 0]",
        f"    {ratio}",
        "    loss = -torch.min(ratio * y[:, 0], ratio.clamp(0.8, 1.2) * y[:, 0]).mean()",
        "    opt.zero_grad()",
        "    loss.backward()",
        "    opt.step()",
    ]
    return Pair(_net(writer), [], [made, *inner], [f"{made}.detach()", *inner])


def _closure(writer: Writer) -> Pair:
    """A closure for LBFGS that does not compute its loss anew."""
    before = ["loss = F.mse_loss(net(x), y)"]
    inside = ["def closure():", "    opt.zero_grad()"]
    after = ["    loss.backward()", "    return loss", "opt.step(closure)"]
    return Pair(
        _net(writer),
        ["opt = torch.optim.LBFGS(net.parameters(), lr=0.1, max_iter=3)"],
        [*before, *inside, *after],
        [*inside, *(f"    {one}" for one in before), *after],
        optimizers={"unused": ["net"]},
    )


def _outer_loop(writer: Writer) -> Pair:
    """A value that the outer loop computes, sent backward in an inner loop."""
    made = writer.pick("z = torch.tanh(trunk(x))", "z = trunk(x) * 2")
    inner = [
        "for t in range(3):",
        "    loss = F.mse_loss(head(z), y * t)",
        "    opt.zero_grad()",
        "    loss.backward()",
        "    opt.step()",
    ]
    nets = {"trunk": "nn.Linear(3, 4)", "head": "nn.Linear(4, 3)"}
    return Pair(nets, [], [made, *inner], [inner[0], f"    {made}", *inner[1:]])


def _module_state(writer: Writer) -> Pair:
    """A module that keeps its state from one call to the next."""
    name = writer.pick("h", "state", "_memory")
    first = writer.pick("None", "zeros")
    read = f"self.{name} if self.{name} is not None else torch.zeros(4, 3)" if first == "None" else f"self.{name}"
    store = writer.pick(f"self.{name} = new", f"self.{name} = self.cell(x, old)\n        new = self.{name}")
    compute = "" if "cell" in store else "        new = self.cell(x, old)\n"

    def classes(old: str, stored: str) -> str:
        return (
            "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
            f"        self.cell = nn.GRUCell(3, 3)\n        self.out = nn.Linear(3, 3)\n"
            f"        self.{name} = {'None' if first == 'None' else 'torch.zeros(4, 3)'}\n"
            f"    def forward(self, x):\n        old = {old}\n{compute}        {stored}\n        return self.out(new)\n"
        )

    body = ["loss = F.mse_loss(net(x), y)", *_update(writer, "loss")]
    cut = f"(self.{name}.detach() if self.{name} is not None else torch.zeros(4, 3))"
    cut = cut if first == "None" else f"self.{name}.detach()"
    return Pair({"net": "Net()"}, [], body, body, classes=classes(read, store), meant_classes=classes(cut, store))


def _layers(writer: Writer) -> Pair:
    """A state for each layer, in a list, a dictionary or a tuple."""
    kind = writer.pick("list", "dict", "tuple")
    nets = {"low": "nn.GRUCell(3, 3)", "high": "nn.GRUCell(3, 3)", "head": "nn.Linear(3, 3)"}
    zeros = "torch.zeros(4, 3)"
    if kind == "tuple":
        setup = [f"hs = ({zeros}, {zeros})"]
        lines = ["a = low(x, hs[0])", "b = high(a, hs[1])", "out = head(b)"]
        carry, cut = ["hs = (a, b)"], ["hs = (a.detach(), b.detach())"]
    else:
        keys = ("0", "1") if kind == "list" else ("'low'", "'high'")
        setup = [f"hs = [{zeros}, {zeros}]" if kind == "list" else f"hs = {{'low': {zeros}, 'high': {zeros}}}"]
        lines = [f"hs[{keys[0]}] = low(x, hs[{keys[0]}])", f"hs[{keys[1]}] = high(hs[{keys[0]}], hs[{keys[1]}])"]
        lines.append(f"out = head(hs[{keys[1]}])")
        carry, cut = [], [f"hs[{key}] = hs[{key}].detach()" for key in keys]
    body = [*lines, "loss = F.mse_loss(out, y)", *_update(writer, "loss")]
    return Pair(nets, setup, [*body, *carry], [*body, *cut])


def _hooked(writer: Writer) -> Pair:
    """Outputs that a hook collects for a penalty, and nobody clears."""
    store = writer.pick("acts", "taps", "seen")
    hook = writer.pick(f"lambda m, i, o: {store}.append(o)", "keep")
    setup = [f"{store} = []"]
    if hook == "keep":
        setup += ["def keep(module, args, out):", f"    {store}.append(out)"]
    setup.append(f"net[0].register_forward_hook({hook})")
    penalty = writer.pick(
        f"sum(a.abs().mean() for a in {store})", f"torch.stack([a.pow(2).mean() for a in {store}]).sum()"
    )
    body = [f"loss = F.mse_loss(net(x), y) + 0.1 * {penalty}", *_update(writer, "loss")]
    nets = {"net": "nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 3))"}
    return Pair(nets, setup, body, [*body, f"{store}.clear()"], flat=True)


def _cached(writer: Writer) -> Pair:
    """A value of parameters that is computed once."""
    name = writer.pick("kernel", "weight_", "_table")
    value = writer.pick("self.base.weight.softmax(-1)", "self.base(torch.eye(3))", "F.normalize(self.base.weight)")
    how = writer.pick("init", "lazy", "cached_property")
    head = "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    head += "        self.base = nn.Linear(3, 3)\n"
    anew = f"{head}    def forward(self, x):\n        return x @ {value}\n"
    if how == "init":
        wrong = f"{head}        self.{name} = {value}\n    def forward(self, x):\n        return x @ self.{name}\n"
    elif how == "lazy":
        wrong = (
            f"{head}        self.{name} = None\n    def forward(self, x):\n        if self.{name} is None:\n"
            f"            self.{name} = {value}\n        return x @ self.{name}\n"
        )
    else:
        wrong = (
            f"from functools import cached_property\n{head}    @cached_property\n    def {name}(self):\n"
            f"        return {value}\n    def forward(self, x):\n        return x @ self.{name}\n"
        )
    body = ["loss = F.mse_loss(net(x), y)", *_update(writer, "loss")]
    return Pair({"net": "Net()"}, [], body, body, classes=wrong, meant_classes=anew)


def _buffer(writer: Writer) -> Pair:
    """Statistics in a buffer that is updated from activations with their graph."""
    rule = writer.pick("self.mean = 0.9 * self.mean + 0.1 * {0}", "self.mean = self.mean + 0.1 * ({0} - self.mean)")
    value = "h{0}.mean(0)"

    def classes(update: str) -> str:
        return (
            "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
            "        self.layer = nn.Linear(3, 3)\n        self.out = nn.Linear(3, 3)\n"
            "        self.register_buffer('mean', torch.zeros(3))\n"
            f"    def forward(self, x):\n        h = torch.tanh(self.layer(x))\n{update}"
            "        return self.out(h - self.mean)\n"
        )

    wrong = f"        {rule.format(value.format(''))}\n"
    meant = "        self.mean = self.mean.detach()\n" + wrong
    body = ["loss = F.mse_loss(net(x), y)", *_update(writer, "loss")]
    return Pair({"net": "Net()"}, [], body, body, classes=classes(wrong), meant_classes=classes(meant))


def _cut(writer: Writer) -> Pair:
    """A loss that lost its graph on its way."""
    loss = "F.mse_loss(net(x), y)"
    wrong, meant = writer.random.choice(
        (
            (f"loss = torch.tensor({loss})", f"loss = {loss}"),
            (f"loss = torch.tensor({loss}.item(), requires_grad=True)", f"loss = {loss}"),
            (f"loss = {loss}.detach()", f"loss = {loss}"),
            (f"loss = {loss}.data", f"loss = {loss}"),
            ("loss = F.mse_loss(net(x).detach(), y)", f"loss = {loss}"),
            (
                "loss = torch.from_numpy(net(x).detach().numpy()).sub(y).pow(2).mean()",
                "loss = net(x).sub(y).pow(2).mean()",
            ),
            (
                "loss = torch.tensor([F.mse_loss(net(a), b) for a, b in zip(x, y)]).mean()",
                "loss = torch.stack([F.mse_loss(net(a), b) for a, b in zip(x, y)]).mean()",
            ),
            ("with torch.no_grad():\n    out = net(x)\nloss = F.mse_loss(out, y)", f"loss = {loss}"),
            (f"loss = torch.FloatTensor([{loss}.item()])", f"loss = {loss}"),
        )
    )
    tail = _update(writer, "loss")
    return Pair(_net(writer), [], [*wrong.split("\n"), *tail], [meant, *tail])


def _unreduced(writer: Writer) -> Pair:
    """A loss of several elements."""
    loss = writer.pick(
        "F.mse_loss(net(x), y, reduction='none')", "(net(x) - y).pow(2)", "F.l1_loss(net(x), y, reduction='none')"
    )
    tail = _update(writer, "loss")
    return Pair(_net(writer), [], [f"loss = {loss}", *tail], [f"loss = {loss}.mean()", *tail])


def _preallocated(writer: Writer) -> Pair:
    """Outputs that are written into a tensor row by row, and read back."""
    made = writer.pick("torch.zeros(5, 4, 3)", "torch.empty(5, 4, 3)", "x.new_zeros(5, 4, 3)")
    act = writer.pick("torch.tanh", "torch.sigmoid")
    wrong = [
        f"outs = {made}",
        "outs[0] = x",
        "for t in range(4):",
        f"    outs[t + 1] = {act}(net(outs[t]))",
        "loss = F.mse_loss(outs[4], y) + outs.mean()",
    ]
    meant = [
        "outs = [x]",
        "for t in range(4):",
        f"    outs.append({act}(net(outs[t])))",
        "outs = torch.stack(outs)",
        "loss = F.mse_loss(outs[4], y) + outs.mean()",
    ]
    tail = _update(writer, "loss")
    nets = {"net": "nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 3))"}
    return Pair(nets, [], [*wrong, *tail], [*meant, *tail])


def _served(writer: Writer) -> Pair:
    """Features that a loader hands out, of an encoder that is not trained."""
    made = writer.pick("feats = encoder(torch.cat(DATA))", "feats = torch.relu(encoder(torch.cat(DATA)))")
    setup = [made, "pairs = torch.utils.data.TensorDataset(feats, torch.cat(GOAL))"]
    inner = ["for f, g in torch.utils.data.DataLoader(pairs, batch_size=8):", "    loss = F.mse_loss(head(f), g)"]
    inner += [f"    {one}" for one in _update(writer, "loss")]
    nets = {"encoder": "nn.Linear(3, 3)", "head": "nn.Linear(3, 3)"}
    meant = [f"{made}.detach()", *setup[1:]]
    return Pair(nets, setup, inner, inner, meant_setup=meant, optimizers={"opt": ["head"]})


def _ahead(writer: Writer) -> Pair:
    """Outputs that are computed ahead, and sent back one by one with a step after each."""
    given = writer.pick("p", "torch.tanh(p)", "hidden")
    inner = ["hidden = torch.tanh(p)"] if given == "hidden" else []
    cut = writer.pick("F.mse_loss({}, y)", "{}.pow(2).mean()", "({} - y).abs().mean()")
    tail = [f"    {one}" for one in _update(writer, "loss")]
    if writer.random.random() < 0.3:
        made = [f"outs = {{k: net({given}) for k, p in enumerate(parts)}}"]
        if inner:
            made = ["outs = {}", "for k, p in enumerate(parts):", f"    {inner[0]}", f"    outs[k] = net({given})"]
        read = writer.random.choice(
            [["for k, out in outs.items():"], ["for out in outs.values():"], ["for k in outs:", "    out = outs[k]"]]
        )
    else:
        made = [f"outs = [net({given}) for p in parts]"]
        if inner or writer.random.random() < 0.5:
            kept = writer.pick(f"outs.append(net({given}))", f"outs += [net({given})]")
            made = ["outs = []", "for p in parts:", *(f"    {one}" for one in inner), f"    {kept}"]
        read = writer.random.choice(
            [
                ["for out in outs:"],
                ["for k, out in enumerate(outs):"],
                ["for out, goal in zip(outs, parts):"],
                ["for p, out in zip(parts, outs):"],
                ["for k in range(len(outs)):", "    out = outs[k]"],
            ]
        )
    first = ["parts = [x, 0.5 * x, x + 1.0]"]
    wrong = [*first, *made, *read, f"    loss = {cut.format('out')}", *tail]
    meant = [
        *first,
        "for p in parts:",
        *(f"    {one}" for one in inner),
        f"    loss = {cut.format(f'net({given})')}",
        *tail,
    ]
    return Pair({"net": "nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 3))"}, [], wrong, meant)


FAMILIES: dict[str, Callable[[Writer], Pair]] = {
    "recurrent": _recurrent,
    "windowed": _windowed,
    "stored": _stored,
    "average": _average,
    "hoisted": _hoisted,
    "computed": _computed,
    "gan": _gan,
    "two losses": _two_losses,
    "total": _total,
    "episodes": _episodes,
    "memory": _memory,
    "critic": _critic,
    "advantage": _advantage,
    "overwritten": _overwritten,
    "leaf": _leaf,
    "ppo": _ppo,
    "closure": _closure,
    "outer loop": _outer_loop,
    "module state": _module_state,
    "layers": _layers,
    "hooked": _hooked,
    "cached": _cached,
    "buffer": _buffer,
    "cut": _cut,
    "unreduced": _unreduced,
    "preallocated": _preallocated,
    "served": _served,
    "ahead": _ahead,
}
