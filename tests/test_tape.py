"""The symbolic tape: small programs, and their facts by autograd's rules.  Look-alikes first."""

from __future__ import annotations

import textwrap
import threading

import pytest

from autofix.codemods.facts.base import Certainty
from autofix.codemods.facts.changed import Overwritten
from autofix.codemods.facts.freed import StaleGraph
from autofix.codemods.facts.legacy import LegacyApi
from autofix.codemods.interpreter.analysis import AnalysisResult, analyze
from autofix.codemods.source.program import Program
from autofix.codemods.source.sources import Source

HEADER = """
import torch
from torch import nn
import torch.nn.functional as F
from collections import deque, namedtuple
net = nn.Linear(3, 3)
cell = nn.GRUCell(3, 3)
lstm = nn.LSTM(3, 3)
opt = torch.optim.SGD([*net.parameters(), *cell.parameters(), *lstm.parameters()], lr=0.1)
x = torch.randn(2, 3)
"""


def see(program: str) -> AnalysisResult:
    return analyze(Program.of(HEADER + textwrap.dedent(program), "program.py"))


def line_of(program: str, piece: str) -> int:
    text = HEADER + textwrap.dedent(program)
    return next(number for number, line in enumerate(text.split("\n"), 1) if piece in line)


RIGHT = {
    "all the modules of a long model are reset": """
        class Neuron(nn.Module):
            def __init__(self):
                super().__init__()
                self.reset()
            def reset(self):
                self.v = 0.0
            def forward(self, value):
                self.v = self.v + value
                return self.v
        deep = nn.Sequential(*[part for _ in range(3) for part in (nn.Linear(3, 3), nn.Dropout(), nn.Tanh(), Neuron())])
        optimizer = torch.optim.SGD(deep.parameters(), lr=0.1)
        for _ in range(9):
            optimizer.zero_grad(); deep(x).mean().backward(); optimizer.step()
            for module in (part for part in deep.modules() if callable(getattr(part, "reset", None))):
                module.reset()
        """,
    "a function that is not read may reset the state of what it is given": """
        from snn import reset_net
        class Neuron(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(3, 3)
                self.v = torch.zeros(3)
            def forward(self, value):
                self.v = self.v + self.layer(value)
                return self.v
        neuron = nn.Sequential(Neuron())
        optimizer = torch.optim.SGD(neuron.parameters(), lr=0.1)
        for _ in range(9):
            optimizer.zero_grad(); neuron(x).mean().backward(); optimizer.step()
            reset_net(neuron)
        """,
    "another item of a list is changed than the one that became a leaf": """
        space = [torch.rand(3) for _ in range(9)]
        for k in range(9):
            space[k][0] = 1.0
            space[k].requires_grad_()
        opt.zero_grad(); net(x).mean().backward(); opt.step()
        """,
    "a gradient with respect to a result leaves the graph behind that result alone": """
        image = torch.rand(2, 3, requires_grad=True)
        for _ in range(5):
            for _ in range(2):
                gradient, = torch.autograd.grad(net(image * 2.0).sum(), image)
            image = (image - 0.1 * gradient.sign()).clamp(0, 1)
        """,
    "a generator makes each output when it is asked for": """
        def outputs(batches):
            for batch in batches:
                yield net(batch)
        for out in outputs([x, x, x]):
            opt.zero_grad(); out.mean().backward(); opt.step()
        """,
    "a generator expression, and map, do so too": """
        for number, out in enumerate(net(batch) for batch in [x, x, x]):
            opt.zero_grad(); out.mean().backward(); opt.step()
        for out in map(net, [x, x, x]):
            opt.zero_grad(); out.mean().backward(); opt.step()
        """,
    "a coroutine detaches what it carries between windows": """
        def stream():
            h = torch.zeros(2, 3)
            window = yield
            while True:
                h = h.detach()
                for part in window:
                    h = cell(part, h)
                window = yield h
        running = stream()
        next(running)
        for _ in range(9):
            loss = running.send([x, x]).mean()
            opt.zero_grad(); loss.backward(); opt.step()
        """,
    "a hook stores what it sees without its graph": """
        seen = []
        net.register_forward_hook(lambda module, args, output: seen.append(output.detach()))
        for _ in range(9):
            loss = net(x).mean() + sum(one.mean() for one in seen)
            opt.zero_grad(); loss.backward(); opt.step()
        """,
    "a hook that was removed stores nothing": """
        seen = []
        handle = net.register_forward_hook(lambda module, args, output: seen.append(output))
        handle.remove()
        for _ in range(9):
            loss = net(x).mean() + sum(one.mean() for one in seen)
            opt.zero_grad(); loss.backward(); opt.step()
        """,
    "a class derived from Sequential computes with its parts": """
        class Block(nn.Sequential):
            def __init__(self):
                super().__init__(nn.Linear(3, 3), nn.Tanh())
            def forward(self, value):
                return super().forward(value) + value
        block = Block()
        optimizer = torch.optim.SGD(block.parameters(), lr=0.1)
        for _ in range(9):
            optimizer.zero_grad(); block(x).mean().backward(); optimizer.step()
        """,
    "outputs are stacked within a step": """
        for _ in range(9):
            outs = []
            h = torch.zeros(2, 3)
            for t in range(5):
                h = cell(x, h)
                outs.append(h)
            opt.zero_grad()
            torch.stack(outs).mean().backward()
            opt.step()
        """,
    "a list is cleared after the backward that used it": """
        log_probs = []
        for episode in range(9):
            for t in range(5):
                log_probs.append(net(x).mean())
            loss = torch.stack(log_probs).sum()
            opt.zero_grad(); loss.backward(); opt.step()
            del log_probs[:]
        """,
    "the state is repackaged before it is used": """
        def repackage(h):
            return h.detach() if isinstance(h, torch.Tensor) else tuple(repackage(v) for v in h)
        h = torch.zeros(1, 2, 3), torch.zeros(1, 2, 3)
        for batch in loader():
            h = repackage(h)
            out, h = lstm(batch, h)
            opt.zero_grad(); out.mean().backward(); opt.step()
        """,
    "chunks are cut where they end, by two conditions that are one": """
        h, total, k = torch.zeros(2, 3), 0, 4
        for t in range(100):
            h = cell(x, h)
            total = total + h.mean()
            if t % k == k - 1:
                opt.zero_grad(); total.backward(); opt.step()
                total = 0
            if (1 + t) % k == 0:
                h = h.detach()
        """,
    "a switch detaches and nobody turns it off": """
        h = torch.zeros(2, 3)
        for t in range(9):
            if args.truncate:
                h = h.detach()
            h = cell(x, h)
            opt.zero_grad(); h.mean().backward(); opt.step()
        """,
    "gradients of gradients keep their graph": """
        for _ in range(9):
            w = x.clone().requires_grad_(True)
            g, = torch.autograd.grad(net(w).sum(), w, create_graph=True)
            opt.zero_grad(); (net(w).mean() + g.norm()).backward(); opt.step()
        """,
    "two losses share one graph and the first pass keeps it": """
        for _ in range(9):
            h = net(x)
            opt.zero_grad()
            h.mean().backward(retain_graph=True)
            h.sum().backward()
            opt.step()
        """,
    "a second walk over nodes that saved nothing": """
        w = torch.ones(3, requires_grad=True)
        y = w + 1
        y.sum().backward()
        y.mean().backward()
        """,
    "an imported function may have cut the graph": """
        from utilities import repackage
        h = torch.zeros(2, 3)
        for t in range(9):
            h = repackage(h)
            h = cell(x, h)
            opt.zero_grad(); h.mean().backward(); opt.step()
        """,
    "a sum does not mind that its input changes": """
        h = net(x)
        y = h + 1
        h += 1
        y.sum().backward()
        """,
    "only numbers are stored": """
        log = []
        for _ in range(9):
            loss = net(x).mean()
            if log:
                loss = loss * log[-1]
            opt.zero_grad(); loss.backward(); opt.step()
            log.append(loss.item())
        """,
    "an engine with a backward of its own": """
        class Value:
            def __init__(self, data): self.data, self.grad = data, 0.0
            def backward(self): self.grad = 1.0
        v = Value(2.0)
        for _ in range(5):
            v.backward()
        """,
}

STALE = {
    "appended in a function": (
        """
        def train(model, memory):
            for i in range(9):
                h = model(x)
                memory.append(h)  # kept
                loss = h.mean() + memory[0].sum()
                opt.zero_grad(); loss.backward(); opt.step()
        train(net, [])
        """
    ),
    "an attribute of a trainer": (
        """
        class Trainer:
            def __init__(self): self.previous = None
            def step(self, batch):
                h = net(batch)
                loss = h.mean() if self.previous is None else (h - self.previous).pow(2).mean()
                opt.zero_grad(); loss.backward(); opt.step()
                self.previous = h  # kept
            def fit(self):
                for batch in loader():
                    self.step(batch)
        Trainer().fit()
        """
    ),
    "a value of a dict": (
        """
        cache = {}
        for epoch in range(5):
            for i in range(4):
                h = net(x)
                loss = h.mean()
                if i in cache:
                    loss = loss + (h - cache[i]).pow(2).sum()
                opt.zero_grad(); loss.backward(); opt.step()
                cache[i] = h  # kept
        """
    ),
    "a deque that must fill first": (
        """
        queue = deque(maxlen=64)
        for i in range(500):
            h = net(x)
            loss = h.mean()
            if len(queue) >= 32:
                loss = loss + torch.stack(list(queue)).mean()
            opt.zero_grad(); loss.backward(); opt.step()
            queue.append(h)  # kept
        """
    ),
    "a named tuple in a buffer": (
        """
        Item = namedtuple("Item", "feature label")
        buffer = []
        for i in range(9):
            h = net(x)
            loss = h.mean() + sum(item.feature.sum() for item in buffer)
            opt.zero_grad(); loss.backward(); opt.step()
            buffer.append(Item(h, i))  # kept
        """
    ),
    "an LSTM's tuple in three nested loops": (
        """
        state = torch.zeros(1, 2, 3), torch.zeros(1, 2, 3)
        for epoch in range(3):
            for sequence in loader():
                total = 0
                for frame in sequence:
                    out, state = lstm(frame, state)  # kept
                    total = total + out.mean()
                opt.zero_grad(); total.backward(); opt.step()
        """
    ),
    "a running average": (
        """
        centre = torch.zeros(3)
        while True:
            h = net(x)
            centre = 0.9 * centre + 0.1 * h.mean(0)  # kept
            loss = (h - centre).pow(2).mean()
            opt.zero_grad(); loss.backward(); opt.step()
        """
    ),
}


@pytest.mark.parametrize("program", RIGHT.values(), ids=RIGHT.keys())
def test_nothing_is_found_where(program: str) -> None:
    assert see(program).facts == ()


@pytest.mark.parametrize("program", STALE.values(), ids=STALE.keys())
def test_a_stale_graph_is_found_and_its_keeper_named(program: str) -> None:
    stale = [fact for fact in see(program).facts if isinstance(fact, StaleGraph)]
    assert stale
    assert {fact.cause.line for fact in stale} == {line_of(program, "# kept")}
    assert all(fact.certainty is Certainty.CERTAIN for fact in stale)


def test_every_role_of_a_stale_graph_to_the_column() -> None:
    program = """
    kept = []
    for i in range(9):
        h = net(x)
        kept.append(h)
        loss = F.relu(h).sum() + kept[0].exp().mean()
        loss.backward()
    """
    (fact,) = see(program).facts
    text = (HEADER + textwrap.dedent(program)).split("\n")
    said = {role.name: text[role.span.line - 1][role.span.column : role.span.end_column] for role in fact.roles()}
    loop = said.pop("loop")
    assert loop.startswith("for i")
    assert said == {
        "made": "net(x)",
        "kept": "kept.append(h)",
        "used": "kept[0].exp()",
        "walked": "F.relu(h)",
        "freed": "loss.backward()",
        "failed": "loss.backward()",
    }


def test_columns_count_code_points() -> None:
    source = Source('größe = "äöü"; wert = größe\n', "program.py")
    statement = source.tree.body[1]
    assert (source.span(statement).column, source.span(statement).end_column) == (15, 27)


def test_a_step_between_forward_and_backward_overwrites() -> None:
    program = """
    h = torch.zeros(2, 3)
    for i in range(9):
        opt.zero_grad()
        h = cell(x, h)  # kept
        h.mean().backward(retain_graph=True)
        opt.step()
    """
    (fact,) = see(program).facts
    assert isinstance(fact, Overwritten)
    assert fact.by_step
    assert fact.cause.line == line_of(program, "# kept")
    assert fact.changed.line == line_of(program, "opt.step()")


@pytest.mark.parametrize(
    ("operation", "needs"),
    [("h.sigmoid()", "result"), ("h.exp()", "result"), ("h.sin()", "input"), ("h * h", "input"), ("h + h", "nothing")],
)
def test_what_an_operation_saves_comes_from_the_table(operation: str, needs: str) -> None:
    changed = {
        place: see(
            f"h = net(x)\ny = {operation}\nwith torch.no_grad():\n    {place}.zero_()\ny.sum().backward()\n"
        ).facts
        for place in ("h", "y")
    }
    assert bool(changed["h"]) == (needs == "input")
    assert bool(changed["y"]) == (needs == "result")


def test_a_number_that_is_built_of_itself_again_and_again_has_a_short_name() -> None:
    doubled = (
        "import settings\na = settings.a\n" + "a = a * a + a\n" * 60 + "loss = (net(x) * a).mean()\nloss.backward()\n"
    )
    assert see(doubled).facts == ()
    twice = see(doubled + "if a > 3:\n    loss.backward()\nif a > 3:\n    loss.backward()\n").facts
    assert len({fact.failed for fact in twice if isinstance(fact, StaleGraph)}) == 2


@pytest.mark.parametrize(
    ("expression", "gone"),
    [("loss.data[0]", True), ("loss[0]", True), ("out.data[0]", False), ("losses.data[0]", False)],
)
def test_only_a_tensor_without_dimensions_cannot_be_indexed(expression: str, gone: bool) -> None:
    program = f"""
    out = net(x)
    losses = out.sum(1)
    loss = losses.mean()
    loss.backward()
    print({expression})
    """
    assert any(isinstance(fact, LegacyApi) for fact in see(program).facts) == gone


@pytest.mark.parametrize(
    ("operand", "is_number"),
    [("args.views", True), ("len(batches)", True), ("(step + 1)", True), ("settings['weight']", False)],
)
def test_a_loss_beside_one_number_has_no_dimensions(operand: str, *, is_number: bool) -> None:
    program = f"""
    import argparse, yaml
    parser = argparse.ArgumentParser()
    parser.add_argument("--views", type=int, default=4)
    args = parser.parse_args()
    settings = yaml.safe_load(open("settings.yaml"))
    batches = open("batches.txt").readlines()
    for step in range(10):
        loss = net(x).mean() / {operand}
        loss.backward()
        print(loss.data[0])
    """
    assert any(isinstance(fact, LegacyApi) for fact in see(program).facts) == is_number


def test_a_function_that_nobody_calls_is_read_as_if_somebody_did() -> None:
    program = """
    def train(model, loader, optimizer, criterion):
        model.train()
        hidden = None
        for inputs, targets in loader:
            output, hidden = model(inputs, hidden)  # kept
            loss = criterion(output, targets)
            optimizer.zero_grad(); loss.backward(); optimizer.step()
    """
    stale = [fact for fact in see(program).facts if isinstance(fact, StaleGraph)]
    assert {fact.cause.line for fact in stale} == {line_of(program, "# kept")}
    assert all(fact.certainty is Certainty.LIKELY for fact in stale)  # the model may detach inside


def test_a_hook_carries_a_graph_between_modules() -> None:
    program = """
    class Carrier:
        def __init__(self, source, sink):
            self.memory = None
            source.register_forward_hook(self.save)
            sink.register_forward_pre_hook(self.inject)
        def save(self, module, args, output):
            self.pending = output.mean(0)
        def inject(self, module, args):
            h = args[0] if self.memory is None else args[0] + self.memory
            self.memory = self.pending  # kept
            return (h,)
    head = nn.Linear(3, 1)
    Carrier(net, head)
    for _ in range(9):
        loss = head(net(x)).mean()
        opt.zero_grad(); loss.backward(); opt.step()
    """
    stale = [fact for fact in see(program).facts if isinstance(fact, StaleGraph)]
    assert {fact.cause.line for fact in stale} == {line_of(program, "# kept")}


def test_a_coroutine_carries_a_graph_between_windows() -> None:
    program = """
    def stream():
        h = torch.zeros(2, 3)
        window = yield
        while True:
            for part in window:
                h = cell(part, h)  # kept
            window = yield h
    running = stream()
    next(running)
    for _ in range(9):
        loss = running.send([x, x]).mean()
        opt.zero_grad(); loss.backward(); opt.step()
    """
    stale = [fact for fact in see(program).facts if isinstance(fact, StaleGraph)]
    assert {fact.cause.line for fact in stale} == {line_of(program, "# kept")}


def test_no_thread_of_a_generator_is_left_behind() -> None:
    before = threading.active_count()
    see("""
    def forever():
        while True:
            yield net(x)
    endless = forever()
    next(endless).mean().backward()
    """)
    assert threading.active_count() == before


def test_a_program_without_torch_is_not_read() -> None:
    assert analyze(Program.of("loss.backward()\n", "program.py")) == AnalysisResult()
