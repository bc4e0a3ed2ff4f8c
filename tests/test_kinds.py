"""Cut, unreduced, held and escaping graphs, and stores that nobody clears: each mistake in many shapes."""

from __future__ import annotations

import difflib
import textwrap

import pytest

from autofix.codemods.repair import mend
from autofix.codemods.rules.registry import all_codemods
from autofix.codemods.source.program import Program
from autofix.engine import analyse

HEADER = """\
import copy
import numpy as np
import torch
from torch import nn
import torch.nn.functional as F
torch.manual_seed(0)
net, other = nn.Linear(3, 3), nn.Linear(3, 3)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
x = torch.randn(4, 3)
y = torch.randn(4, 3)
crit = nn.MSELoss()
"""

SHAPES = {
    "numbers are summed and made a tensor again": (
        """
        for _ in range(5):
            total = 0
            for t in range(3):
                loss = crit(net(x), y)
                total += loss.item()
            opt.zero_grad()
            torch.tensor(total).backward()
            opt.step()
        """,
        ["total += loss", "total.backward()"],
    ),
    "a copy that requires grad hides the error": (
        """
        for _ in range(5):
            out = net(x)
            loss = torch.tensor(crit(out, y).item(), requires_grad=True)
            opt.zero_grad()
            loss.backward()
            opt.step()
        """,
        ["loss = crit(out, y)"],
    ),
    "requires_grad is set on a loss without a graph": (
        """
        for _ in range(5):
            out = net(x).detach()
            loss = crit(out, y)
            loss.requires_grad = True
            opt.zero_grad()
            loss.backward()
            opt.step()
        """,
        ["out = net(x)"],
    ),
    "a formula in NumPy": (
        """
        for _ in range(5):
            out = net(x)
            p = torch.from_numpy(np.exp(out.detach().numpy()))
            loss = crit(p, y)
            opt.zero_grad()
            loss.backward()
            opt.step()
        """,
        ["p = torch.exp(out)"],
    ),
    "the mean of numbers": (
        """
        for _ in range(5):
            losses = []
            for i in range(4):
                losses.append(crit(net(x), y).item())
            loss = torch.tensor(np.mean(losses))
            opt.zero_grad(); loss.backward(); opt.step()
        """,
        ["losses.append(crit(net(x), y))", "loss = torch.stack(losses).mean()"],
    ),
    "the last layer under no_grad": (
        """
        for _ in range(5):
            with torch.no_grad():
                z = other(x)
                out = net(z)
            loss = crit(out, y)
            opt.zero_grad(); loss.backward(); opt.step()
        """,
        ["out = net(z)"],
    ),
    "a decorator of the forward pass": (
        """
        @torch.no_grad()
        def predict(model, x):
            return model(x)
        for _ in range(5):
            loss = crit(predict(net, x), y)
            opt.zero_grad(); loss.backward(); opt.step()
        """,
        [],
    ),
    "a switch that an evaluation leaves off": (
        """
        def evaluate(model):
            model.eval()
            torch.set_grad_enabled(False)
            total = 0
            for _ in range(3):
                total += crit(model(x), y).item()
            print(total)
        for _ in range(5):
            loss = crit(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            evaluate(net)
        """,
        [
            "with torch.no_grad():",
            "total = 0",
            "for _ in range(3):",
            "total += crit(model(x), y).item()",
            "print(total)",
        ],
    ),
    "a switch that is off from the beginning": (
        """
        torch.set_grad_enabled(False)
        base = crit(net(x), y).item()
        for _ in range(5):
            loss = crit(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
        """,
        [],
    ),
    "a loss function that returns a number": (
        """
        def loss_fn(a, b):
            return float(((a - b) ** 2).mean())
        for _ in range(5):
            loss = torch.tensor(loss_fn(net(x), y))
            opt.zero_grad(); loss.backward(); opt.step()
        """,
        ["return ((a - b) ** 2).mean()", "loss = loss_fn(net(x), y)"],
    ),
    "a gradient penalty without create_graph": (
        """
        D = nn.Linear(3, 1)
        od = torch.optim.Adam(D.parameters())
        for _ in range(5):
            r = x.clone().requires_grad_(True)
            g, = torch.autograd.grad(D(r).sum(), r)
            gp = ((g.norm(2, dim=1) - 1) ** 2).mean()
            od.zero_grad(); gp.backward(); od.step()
        """,
        ["g, = torch.autograd.grad(D(r).sum(), r, create_graph=True)"],
    ),
    "a criterion without reduction": (
        """
        crit = nn.MSELoss(reduction="none")
        for _ in range(5):
            loss = crit(net(x), y)
            opt.zero_grad(); loss.backward(); opt.step()
            print(loss.item())
        """,
        ["loss = crit(net(x), y).mean()"],
    ),
    "losses with weights": (
        """
        w = torch.rand(4)
        lab = torch.randint(0, 3, (4,))
        for _ in range(5):
            per = F.cross_entropy(net(x), lab, reduction="none")
            loss = per * w
            opt.zero_grad()
            loss.backward()
            opt.step()
            hard = per.topk(2)
        """,
        ["loss = (per * w).mean()"],
    ),
    "a formula for each element": (
        """
        for start in range(0, 4, 2):
            out = net(x[start:start + 2])
            loss = (out - y[start:start + 2]) ** 2
            opt.zero_grad()
            loss.backward()
            opt.step()
        """,
        ["loss = ((out - y[start:start + 2]) ** 2).mean()"],
    ),
    "a loss for each row": (
        """
        class Loss(nn.Module):
            def forward(self, a, b):
                return (a - b).pow(2).sum(dim=1)
        lf = Loss()
        for _ in range(4):
            opt.zero_grad()
            loss = lf(net(x), y)
            print(loss[0].item())
            loss.backward()
            opt.step()
        """,
        ["loss.mean().backward()"],
    ),
    "a sum for the log": (
        """
        total = 0
        for i in range(100):
            loss = crit(net(x), y)
            opt.zero_grad(); loss.backward(); opt.step()
            total += loss
        print(total / 100)
        """,
        ["total += loss.detach()"],
    ),
    "a list for the log": (
        """
        def train(model, opt, steps):
            losses = []
            for i in range(steps):
                loss = crit(model(x), y)
                opt.zero_grad()
                loss.backward()
                opt.step()
                losses.append(loss)
            return torch.stack(losses).mean().item()
        print(train(net, opt, 50))
        """,
        ["losses.append(loss.detach())"],
    ),
    "a sum with a product": (
        """
        from torch.utils.data import DataLoader, TensorDataset
        loader = DataLoader(TensorDataset(x, y), batch_size=2)
        history = {"train": []}
        for epoch in range(10):
            running = 0.0
            for xb, yb in loader:
                loss = crit(net(xb), yb)
                running = running + loss * xb.size(0)
                opt.zero_grad(); loss.backward(); opt.step()
            history["train"].append(running / 4)
        """,
        ["running = running + (loss * xb.size(0)).detach()"],
    ),
    "an evaluation that collects outputs": (
        """
        def evaluate(model, batches):
            model.eval()
            outs = []
            for b in batches:
                outs.append(model(b))
            return torch.cat(outs)
        for i in range(20):
            net.train()
            loss = crit(net(x), y)
            opt.zero_grad(); loss.backward(); opt.step()
            print(evaluate(net, [x] * 30).mean().item())
        """,
        ["with torch.no_grad():", "for b in batches:", "outs.append(model(b))"],
    ),
    "a meter": (
        """
        class Meter:
            def __init__(self): self.total, self.n = 0., 0
            def update(self, v, n=1):
                self.total += v * n
                self.n += n
            @property
            def avg(self): return self.total / self.n
        m = Meter()
        for i in range(30):
            loss = crit(net(x), y)
            opt.zero_grad(); loss.backward(); opt.step()
            m.update(loss)
            print(m.avg.item())
        """,
        ["m.update(loss.detach())"],
    ),
    "a training loop that nobody calls": (
        """
        def train(model, loader, criterion, optimizer):
            model.train()
            epoch_loss = 0
            for a, b in loader:
                optimizer.zero_grad()
                loss = criterion(model(a), b)
                loss.backward()
                optimizer.step()
                epoch_loss += loss
            print(epoch_loss.item() / len(loader))
        """,
        ["epoch_loss += loss.detach()"],
    ),
    "an array of an output": (
        """
        for _ in range(3):
            out = net(x)
            loss = crit(out, y)
            opt.zero_grad(); loss.backward(); opt.step()
            print(np.asarray(out).mean())
        """,
        ["print(np.asarray(out.detach()).mean())"],
    ),
    "arrays are joined": (
        """
        outs = []
        for _ in range(3):
            out = net(x)
            loss = crit(out, y)
            opt.zero_grad(); loss.backward(); opt.step()
            outs.append(out)
        print(np.concatenate(outs).shape)
        """,
        ["print(np.concatenate([item.detach() for item in outs]).shape)"],
    ),
    "a model that keeps its features is copied": (
        """
        class M(nn.Module):
            def __init__(self):
                super().__init__()
                self.l = nn.Linear(3, 3); self.h = nn.Linear(3, 3)
                self.features = None
            def forward(self, x):
                self.features = self.l(x).relu()
                return self.h(self.features)
        m = M()
        mo = torch.optim.SGD(m.parameters(), lr=0.1)
        best = None
        for epoch in range(4):
            loss = crit(m(x), y)
            mo.zero_grad(); loss.backward(); mo.step()
            if best is None or loss.item() < best[0]:
                best = (loss.item(), copy.deepcopy(m))
        """,
        ["m.features = m.features.detach()"],
    ),
    "a snapshot is copied": (
        """
        for epoch in range(4):
            out = net(x)
            loss = crit(out, y)
            opt.zero_grad(); loss.backward(); opt.step()
            snap = {"out": out, "loss": loss, "epoch": epoch}
            best = copy.deepcopy(snap)
        """,
        ['snap = {"out": out.detach(), "loss": loss.detach(), "epoch": epoch}'],
    ),
    "a loss goes through a pipe": (
        """
        import torch.multiprocessing as mp
        a, b = mp.Pipe()
        q = mp.SimpleQueue()
        for epoch in range(4):
            out = net(x)
            loss = crit(out, y)
            opt.zero_grad(); loss.backward(); opt.step()
            a.send((epoch, loss))
            b.recv()
        """,
        ["a.send((epoch, loss.detach()))"],
    ),
    "two lists that nobody clears": (
        """
        log_probs, rewards = [], []
        for ep in range(6):
            for t in range(4):
                d = torch.distributions.Categorical(logits=net(x[0]))
                a = d.sample()
                log_probs.append(d.log_prob(a))
                rewards.append(1.0)
            loss = -(torch.stack(log_probs) * torch.tensor(rewards)).sum()
            opt.zero_grad()
            loss.backward()
            opt.step()
        """,
        ["log_probs.clear()", "rewards.clear()"],
    ),
    "a closure around a loss from outside": (
        """
        lb = torch.optim.LBFGS(net.parameters(), max_iter=4)
        for i in range(4):
            out = net(x)
            loss = crit(out, y)
            def closure():
                lb.zero_grad()
                loss.backward()
                return loss
            lb.step(closure)
            print(i, loss.item())
        """,
        ["out = net(x)", "loss = crit(out, y)", "loss = lb.step(closure)"],
    ),
    "a helper that already went backward": (
        """
        class T:
            def compute(self):
                loss = crit(net(x), y)
                loss.backward()
                return loss
            def fit(self):
                for i in range(4):
                    opt.zero_grad()
                    loss = self.compute()
                    loss.backward()
                    opt.step()
        T().fit()
        """,
        [],
    ),
    "a row of a result is changed": (
        """
        for _ in range(4):
            h = net(x)
            e = h.exp()
            row = e[0]
            row += 1
            loss = e.sum()
            opt.zero_grad(); loss.backward(); opt.step()
        """,
        ["e = h.exp().clone()"],
    ),
    "columns are mixed in place": (
        """
        for _ in range(4):
            h = net(x)
            h[:, 0] = h[:, 1] * h[:, 2]
            h[:, 1] = h[:, 0].tanh()
            loss = crit(h, y)
            opt.zero_grad(); loss.backward(); opt.step()
        """,
        ["h[:, 0] = h[:, 1].clone() * h[:, 2].clone()"],
    ),
    "an initialisation by apply": (
        """
        def init(m):
            if isinstance(m, nn.Linear):
                m.weight.normal_(0, 0.1)
                m.bias.fill_(0)
        net.apply(init)
        loss = crit(net(x), y); loss.backward()
        """,
        ["with torch.no_grad():", "m.weight.normal_(0, 0.1)", "m.bias.fill_(0)"],
    ),
    "both losses of two adversaries before either update": (
        """
        judge, maker = nn.Linear(3, 1), nn.Linear(3, 3)
        oj, om = torch.optim.Adam(judge.parameters()), torch.optim.Adam(maker.parameters())
        def losses():
            made = maker(x)
            return judge(made.detach()).mean() - judge(y).mean(), (judge(made) - 1).pow(2).mean()
        for _ in range(9):
            of_judge, of_maker = losses()
            oj.zero_grad()
            of_judge.backward()
            oj.step()
            om.zero_grad()
            of_maker.backward()
            om.step()
        """,
        ["om.zero_grad()", "of_maker.backward(inputs=[p for group in om.param_groups for p in group['params']])"],
    ),
    "a penalty on the gradient of scores": (
        """
        def penalty(critic, real):
            mixed = (real * 0.5).requires_grad_(True)
            score = critic(mixed)
            slope, = torch.autograd.grad(score, mixed, create_graph=True)
            return (slope.norm(dim=1) - 1).pow(2).mean()
        for _ in range(5):
            real = torch.randn(16, 3)
            loss = penalty(net, real) + net(real).mean()
            opt.zero_grad(); loss.backward(); opt.step()
        """,
        ["slope, = torch.autograd.grad(score.sum(), mixed, create_graph=True)"],
    ),
    "forces of the energies of a batch": (
        """
        class Field(nn.Module):
            def __init__(self):
                super().__init__()
                self.body = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))
            def force(self, where):
                self.where = where.detach().clone().requires_grad_()
                self.energy = self.body(self.where)
                return -torch.autograd.grad(self.energy, self.where, create_graph=True)[0]
        field = Field(); fo = torch.optim.Adam(field.parameters())
        for _ in range(5):
            loss = (field.force(torch.randn(8, 2)) - 1).pow(2).mean()
            fo.zero_grad(); loss.backward(); fo.step()
        """,
        ["return -torch.autograd.grad(self.energy.sum(), self.where, create_graph=True)[0]"],
    ),
    "a gradient for a list of inputs, with retain_graph": (
        """
        heads = {"a": nn.Linear(3, 1), "b": nn.Linear(3, 1)}
        ho = torch.optim.SGD([p for h in heads.values() for p in h.parameters()], lr=.1)
        for epoch in range(3):
            for name, head in heads.items():
                z = torch.randn(4, 3, requires_grad=True)
                out = head(z).squeeze(-1)
                g = torch.autograd.grad(out, [z], retain_graph=True, create_graph=True)[0]
                loss = g.pow(2).sum() + out.mean()
                ho.zero_grad(); loss.backward(); ho.step()
        """,
        ["g = torch.autograd.grad(out.sum(), [z], retain_graph=True, create_graph=True)[0]"],
    ),
    "a masked mean over time alone, of padded sequences": (
        """
        emb = nn.Embedding(10, 3)
        def nll(tokens, mask):
            logp = net(emb(tokens)).log_softmax(-1)
            picked = -logp.gather(-1, (tokens % 3).unsqueeze(-1)).squeeze(-1)
            return (picked * mask).sum(dim=1) / mask.sum(dim=1)
        for _ in range(5):
            tokens = nn.utils.rnn.pad_sequence([torch.randint(1, 10, (k,)) for k in range(2, 7)], batch_first=True)
            loss = nll(tokens, (tokens > 0).float())
            opt.zero_grad(); loss.backward(); opt.step()
        """,
        ["return ((picked * mask).sum(dim=1) / mask.sum(dim=1)).mean()"],
    ),
    "a loss for each token, averaged over time in a dict": (
        """
        each = nn.CrossEntropyLoss(reduction="none")
        class Runner:
            def __init__(self): self.losses = {}
            def step(self, seq, keep):
                out = net(seq).transpose(1, 2)
                token = each(out, torch.zeros(8, 5, dtype=torch.long)) * keep
                self.losses["xent"] = token.mean(-1)
                opt.zero_grad()
                self.losses["xent"].backward()
                opt.step()
        r = Runner()
        for _ in range(5):
            r.step(torch.randn(8, 5, 3), torch.ones(8, 5))
        """,
        ['self.losses["xent"].mean().backward()'],
    ),
    "losses that are stacked and not reduced": (
        """
        for _ in range(5):
            parts = []
            for k in range(3):
                parts.append(crit(net(x[k]), y[k]))
            opt.zero_grad()
            torch.stack(parts).backward()
            opt.step()
        """,
        ["torch.stack(parts).mean().backward()"],
    ),
    "a mean over the columns of a batch": (
        """
        for _ in range(5):
            err = (net(x) - y).pow(2).mean(dim=(1,))
            opt.zero_grad(); err.backward(); opt.step()
        """,
        ["err = (net(x) - y).pow(2).mean(dim=(1,)).mean()"],
    ),
    "an inner step on a loss for each element": (
        """
        each = nn.MSELoss(reduction="none")
        for _ in range(5):
            inner = each(net(torch.randn(6, 3)), torch.zeros(6, 3))
            g = torch.autograd.grad(inner, list(net.parameters()), create_graph=True)
            fast = [p - 0.1 * q for p, q in zip(net.parameters(), g)]
            loss = F.linear(x, fast[0], fast[1]).pow(2).mean()
            opt.zero_grad(); loss.backward(); opt.step()
        """,
        ["inner = each(net(torch.randn(6, 3)), torch.zeros(6, 3)).mean()"],
    ),
    "the best score of each row": (
        """
        for _ in range(5):
            best, _ = net(torch.randn(9, 3)).max(dim=1)
            loss = 1 - best
            opt.zero_grad(); loss.backward(); opt.step()
        """,
        ["loss = (1 - best).mean()"],
    ),
    "a meter that shows its mean": (
        """
        class Meter:
            def __init__(self): self.total = self.count = 0
            def update(self, value, n=1):
                self.total += value * n
                self.count += n
            @property
            def mean(self): return self.total / self.count
            def __str__(self): return f"{self.mean:.4f}"
        meter = Meter()
        for step in range(50):
            loss = crit(net(x), y)
            opt.zero_grad(); loss.backward(); opt.step()
            meter.update(loss, len(x))
            if step % 10 == 9: print(step, meter)
        """,
        ["meter.update(loss.detach(), len(x))"],
    ),
    "a meter is given tensors here and numbers there": (
        """
        class Meter:
            def __init__(self): self.total = 0.0
            def add(self, value):
                self.total = self.total + value
            def show(self): print(float(self.total))
        train, test = Meter(), Meter()
        for step in range(50):
            loss = crit(net(x), y)
            opt.zero_grad(); loss.backward(); opt.step()
            train.add(loss)
            with torch.no_grad():
                test.add(crit(net(x), y).item())
        train.show(); test.show()
        """,
        ["train.add(loss.detach())"],
    ),
    "rows of a log are tuples": (
        """
        log = []
        for step in range(50):
            out = net(x)
            loss = crit(out, y)
            opt.zero_grad(); loss.backward(); opt.step()
            log.append((step, loss, out.abs().max()))
        for step, loss, top in log:
            print(step, float(loss), float(top))
        """,
        ["log.append((step, loss.detach(), out.abs().max().detach()))"],
    ),
    "rows of a log are dicts": (
        """
        def train(history):
            for step in range(50):
                out = net(x)
                loss = crit(out, y)
                opt.zero_grad(); loss.backward(); opt.step()
                history.append({"step": step, "loss": loss, "mae": (out - y).abs().mean()})
        history = []
        train(history)
        print(max(float(row["mae"]) for row in history), history[-1]["loss"].item())
        """,
        ['history.append({"step": step, "loss": loss.detach(), "mae": (out - y).abs().mean().detach()})'],
    ),
    "rows of a log are objects": (
        """
        from dataclasses import dataclass
        @dataclass
        class Record:
            epoch: int
            loss: torch.Tensor
            norm: torch.Tensor = None
        class Log:
            def __init__(self): self.records = []
            def write(self, record): self.records.append(record)
            def last(self): return self.records[-1].loss.item()
        log = Log()
        for epoch in range(40):
            loss = crit(net(x), y)
            opt.zero_grad(); loss.backward(); opt.step()
            log.write(Record(epoch, loss))
        print(log.last())
        """,
        ["log.write(Record(epoch, loss.detach()))"],
    ),
    "averages in a dict": (
        """
        ema = {}
        for step in range(50):
            out = net(x)
            parts = {"fit": crit(out, y), "size": out.pow(2).mean()}
            loss = parts["fit"] + 0.1 * parts["size"]
            opt.zero_grad(); loss.backward(); opt.step()
            for name, value in parts.items():
                if name not in ema:
                    ema[name] = value
                else:
                    ema[name] = 0.9 * ema[name] + 0.1 * value
        print({name: float(value) for name, value in ema.items()})
        """,
        ["ema[name] = (0.9 * ema[name] + 0.1 * value).detach()"],
    ),
    "a callback collects what it is given in a dict": (
        """
        class Recorder:
            def __init__(self): self.seen = []
            def after(self, out): self.seen.append(out["loss"])
        class Loop:
            def __init__(self, hooks): self.hooks = hooks
            def run(self):
                for _ in range(30):
                    loss = crit(net(x), y)
                    opt.zero_grad(); loss.backward(); opt.step()
                    for hook in self.hooks: hook.after({"loss": loss})
        recorder = Recorder()
        Loop([recorder]).run()
        print([f"{one:.3f}" for one in recorder.seen])
        """,
        ['for hook in self.hooks: hook.after({"loss": loss.detach()})'],
    ),
    "a replay memory of recurrent states": (
        """
        import collections, random
        class Replay:
            def __init__(self): self.items = collections.deque(maxlen=500)
            def push(self, *step): self.items.append(tuple(step))
            def draw(self, k): return random.sample(self.items, k)
        cell = nn.GRUCell(3, 3); head = nn.Linear(3, 2)
        po = torch.optim.Adam([*cell.parameters(), *head.parameters()])
        replay = Replay()
        for episode in range(30):
            h = torch.zeros(1, 3)
            for t in range(10):
                o = torch.randn(1, 3)
                new = cell(o, h)
                action = head(new).argmax(1)
                replay.push(o, h, action)
                h = new
            if len(replay.items) > 20:
                batch = replay.draw(8)
                os_, hs, acts = [torch.cat(part) for part in zip(*batch)]
                q = head(cell(os_, hs.detach())).gather(1, acts[:, None])
                loss = q.pow(2).mean()
                po.zero_grad(); loss.backward(); po.step()
        """,
        ["replay.push(o, h.detach(), action)"],
    ),
    "only the best and the worst are looked at": (
        """
        scores = []
        for epoch in range(30):
            loss = crit(net(x), y)
            opt.zero_grad(); loss.backward(); opt.step()
            scores.append(-loss)
        print(max(scores).item(), min(scores).item())
        """,
        ["scores.append((-loss).detach())"],
    ),
    "a result is written into a buffer": (
        """
        buffer = torch.empty(4, 3)
        for _ in range(5):
            torch.tanh(net(x), out=buffer)
            opt.zero_grad(); buffer.sum().backward(); opt.step()
        """,
        ["buffer = torch.tanh(net(x))"],
    ),
    "a result is written into a buffer and has a name": (
        """
        class Cache:
            def __init__(self): self.space = {"h": torch.empty(4, 3)}
        cache = Cache()
        for _ in range(5):
            h = torch.mm(x, net.weight.t(), out=cache.space["h"])
            opt.zero_grad(); crit(h, y).backward(); opt.step()
        """,
        ['h = cache.space["h"] = torch.mm(x, net.weight.t())'],
    ),
    "statistics are updated in place, one after the other": (
        """
        mean, square = torch.zeros(3), torch.ones(3)
        for _ in range(5):
            h = net(x)
            mean.mul_(0.9).add_(0.1 * h.mean(0))
            square *= 0.9
            square += 0.1 * h.pow(2).mean(0)
            opt.zero_grad(); crit((h - mean) / square.sqrt(), y).backward(); opt.step()
        """,
        ["square = square.detach()", "mean = mean.detach()"],
    ),
    "a loop that detaches names and not states": (
        """
        cell = nn.LSTMCell(3, 3)
        opt = torch.optim.SGD(cell.parameters(), lr=0.1)
        def cut(states):
            for state in states:
                state = state.detach()
            return states
        states = (torch.zeros(4, 3), torch.zeros(4, 3))
        for _ in range(5):
            states = cell(x, states)
            opt.zero_grad(); crit(states[0], y).backward(); opt.step()
            states = cut(states)
        """,
        ["state.detach_()"],
    ),
    "a loop that detaches names of views": (
        """
        rnn = nn.GRU(3, 3)
        opt = torch.optim.SGD(rnn.parameters(), lr=0.1)
        states = [torch.zeros(1, 3)]
        for _ in range(5):
            for state in states:
                state = state.detach()
            out, _ = rnn(x, states[0])
            opt.zero_grad(); crit(out, y).backward(); opt.step()
            states = [out[-1:]]
        """,
        ["states[:] = [state.detach() for state in states]"],
    ),
    "values collected before the epochs, in two targets": (
        """
        opt = torch.optim.SGD([*net.parameters(), *other.parameters()], lr=0.1)
        for rollout in range(3):
            values = []
            for state in x:
                values.append(other(state)[0])
            gains = y.sum(1) - torch.stack(values)
            targets = gains + torch.stack(values)
            for epoch in range(4):
                loss = -(net(x).log_softmax(1)[:, 0] * gains).mean() + (other(x)[:, 0] - targets).pow(2).mean()
                opt.zero_grad(); loss.backward(); opt.step()
        """,
        [
            "targets = (gains + torch.stack(values)).detach()",
            "loss = -(net(x).log_softmax(1)[:, 0] * gains.detach()).mean() + (other(x)[:, 0] - targets).pow(2).mean()",
        ],
    ),
    "a monitor that the caller resets too seldom": (
        """
        class Monitor:
            def __init__(self): self.seen = {}
            def add(self, key, h):
                self.seen.setdefault(key, []).append(h)
            def term(self): return sum(h.abs().mean() for hs in self.seen.values() for h in hs)
            def reset(self):
                self.seen.clear()
        def fit(m, batches):
            for batch in batches:
                h = net(batch)
                m.add("h", h)
                opt.zero_grad(); (crit(h, y) + m.term()).backward(); opt.step()
        monitor = Monitor()
        for epoch in range(3):
            monitor.reset()
            fit(monitor, [x, x + 1, x + 2])
        """,
        ["m.reset()"],
    ),
    "a new head is frozen with the rest, all of which the optimizer has": (
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.body, self.head = nn.Linear(3, 4), nn.Linear(4, 2)
            def forward(self, x):
                return self.head(self.body(x))
        model = Net()
        model.head = nn.Linear(4, 3)
        for p in model.parameters():
            p.requires_grad = False
        opt = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(5):
            opt.zero_grad(); crit(model(x), y).backward(); opt.step()
        """,
        ["model.head = nn.Linear(4, 3)"],
    ),
    "a state is repackaged by its class": (
        """
        from torch.autograd import Variable
        def repackage(h):
            if type(h) == Variable:
                return Variable(h.data)
            return tuple(repackage(v) for v in h)
        rnn = nn.LSTM(3, 3)
        opt = torch.optim.SGD(rnn.parameters(), lr=0.1)
        state = (torch.zeros(1, 3), torch.zeros(1, 3))
        for _ in range(5):
            state = repackage(state)
            out, state = rnn(x, state)
            opt.zero_grad(); crit(out, y).backward(); opt.step()
        """,
        ["if isinstance(h, torch.Tensor):"],
    ),
    "a batch is wrapped unless it is a variable": (
        """
        from torch.autograd import Variable as V
        def wrapped(value):
            return V(value) if type(value) is not V else value
        for _ in range(5):
            opt.zero_grad(); crit(net(wrapped(x)), y).backward(); opt.step()
        """,
        ["return V(value) if not isinstance(value, torch.Tensor) else value"],
    ),
    "a list of losses is copied": (
        """
        for _ in range(5):
            losses = [crit(net(x), y) for _ in range(3)]
            loss = torch.tensor(losses, requires_grad=True).mean()
            opt.zero_grad(); loss.backward(); opt.step()
        """,
        ["loss = torch.stack(losses).mean()"],
    ),
    "a fake in a dictionary that helpers share": (
        """
        opt_d = torch.optim.SGD(other.parameters(), lr=0.1)
        def judge(b):
            loss = F.softplus(other(b["fake"])).mean()
            opt_d.zero_grad(); loss.backward(); opt_d.step()
        def forge(b):
            loss = F.softplus(-other(b["fake"])).mean()
            opt.zero_grad(); loss.backward(); opt.step()
        for _ in range(5):
            batch = {"real": y, "fake": net(x)}
            judge(batch)
            forge(batch)
        """,
        ['loss = F.softplus(other(b["fake"].detach())).mean()'],
    ),
    "old probabilities in a record": (
        """
        old = {"p": net(x).log_softmax(1)}
        for _ in range(5):
            ratio = (net(x).log_softmax(1) - old["p"]).exp()
            opt.zero_grad(); (-ratio * y).mean().backward(); opt.step()
        """,
        ['old = {"p": net(x).log_softmax(1).detach()}'],
    ),
    "chunks as long as an argument says": (
        """
        import argparse
        parser = argparse.ArgumentParser()
        group = parser.add_argument_group("training")
        group.add_argument("--chunk-length", type=int, default=8)
        args = parser.parse_args()
        cell = nn.LSTMCell(3, 3)
        opt = torch.optim.SGD(cell.parameters(), lr=0.1)
        h, c = torch.zeros(4, 3), torch.zeros(4, 3)
        loss = 0
        for t in range(64):
            h, c = cell(x, (h, c))
            loss = loss + crit(h, y)
            if (t + 1) % args.chunk_length == 0:
                opt.zero_grad(); loss.backward(); opt.step()
                loss = 0
                h = h.detach()
        """,
        ["c = c.detach()"],
    ),
    "an activation that an argument picks": (
        """
        import argparse
        parser = argparse.ArgumentParser()
        parser.add_argument("--act", choices=["relu", "elu"], default="relu")
        args = parser.parse_args()
        act = {"relu": lambda: nn.ReLU(inplace=True), "elu": lambda: nn.ELU()}[args.act]()
        for _ in range(5):
            opt.zero_grad(); act(torch.tanh(net(x))).sum().backward(); opt.step()
        """,
        ['act = {"relu": lambda: nn.ReLU(), "elu": lambda: nn.ELU()}[args.act]()'],
    ),
    "a loss of windows that is weighted and not reduced": (
        """
        weights, data = torch.load("w.pt"), torch.load("d.pt")
        for at in range(0, 64, 16):
            now = torch.arange(len(data))[at : at + 16]
            loss = nn.MSELoss(reduction="none")(net(data[now]), data[now]) * weights[now]
            opt.zero_grad(); loss.backward(); opt.step()
        """,
        ['loss = (nn.MSELoss(reduction="none")(net(data[now]), data[now]) * weights[now]).mean()'],
    ),
    "a loss of batches that a shuffled order is split into": (
        """
        data = torch.load("d.pt")
        for _, now in enumerate(torch.randperm(len(data)).split(16)):
            loss = nn.MSELoss(reduction="none")(net(data[now]), data[now])
            opt.zero_grad(); loss.backward(); opt.step()
        """,
        ['loss = nn.MSELoss(reduction="none")(net(data[now]), data[now]).mean()'],
    ),
    "a loss for each example that is assigned beside a number": (
        """
        each, total = nn.CrossEntropyLoss(reduction="none"), 0.0
        for _ in range(5):
            loss, count = (each(net(x), y.argmax(1)), 1)
            opt.zero_grad(); loss.backward(); opt.step()
            total += loss.item() * count
        """,
        ["loss, count = (each(net(x), y.argmax(1)).mean(), 1)"],
    ),
    "a loss for each example, in an item that is logged": (
        """
        each, log, total = nn.CrossEntropyLoss(reduction="none"), {}, 0.0
        for _ in range(5):
            log["loss"] = each(net(x), y.argmax(1))
            opt.zero_grad(); log["loss"].backward(); opt.step()
            total += float(log["loss"])
        """,
        ['log["loss"] = each(net(x), y.argmax(1)).mean()'],
    ),
    "a loss for each example by one of two branches, which is logged as a number": (
        """
        each, total = nn.CrossEntropyLoss(reduction="none"), 0.0
        for step in range(5):
            if step % 2:
                loss = each(net(x), y.argmax(1))
            else:
                loss = 2 * each(net(x), y.argmax(1))
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        """,
        ["loss = loss.mean()"],
    ),
    "two pieces that a constructor takes of one tensor and several methods read": (
        """
        class Mixture(nn.Module):
            def __init__(self):
                super().__init__()
                self.raw = nn.Linear(3, 6)
                self.x0 = torch.ones(1, 3)
                self.scale, self.shift = self.raw(self.x0).chunk(2, -1)
            def forward(self, x):
                return x * self.scale + self.shift
            def prior(self):
                return (self.scale * self.shift).sum()
        model = Mixture()
        opt = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(5):
            loss = crit(model(x), y) + 0.1 * model.prior()
            opt.zero_grad(); loss.backward(); opt.step()
        """,
        [
            "",
            "@property",
            "def scale(self):",
            "return self.raw(self.x0).chunk(2, -1)[0]",
            "",
            "@property",
            "def shift(self):",
            "return self.raw(self.x0).chunk(2, -1)[1]",
        ],
    ),
    "a scale that a constructor computes beside a number and several methods read": (
        """
        class Scaled(nn.Module):
            def __init__(self):
                super().__init__()
                self.raw = nn.Parameter(torch.zeros(3))
                self.scale, self.size = self.raw.exp(), 3
            def forward(self, x):
                return x * self.scale / self.size
            def prior(self):
                return self.scale.sum()
        model = Scaled()
        opt = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(5):
            loss = crit(model(x), y) + 0.1 * model.prior()
            opt.zero_grad(); loss.backward(); opt.step()
        """,
        ["self.size = 3", "", "@property", "def scale(self):", "return self.raw.exp()"],
    ),
    "a loss that is made a Variable beside a number": (
        """
        from torch.autograd import Variable
        def step(x):
            return Variable(crit(net(x), y), requires_grad=True), 1
        for _ in range(3):
            loss, n = step(x)
            opt.zero_grad(); loss.backward(); opt.step()
        """,
        ["return crit(net(x), y), 1"],
    ),
    "losses in a dictionary that are Variables": (
        """
        losses = {}
        for _ in range(3):
            losses["a"] = torch.autograd.Variable(crit(net(x), y), True)
            losses["b"] = torch.autograd.Variable(net(x).abs().mean(), True)
            opt.zero_grad(); sum(losses.values()).backward(); opt.step()
        """,
        ['losses["a"] = crit(net(x), y)', 'losses["b"] = net(x).abs().mean()'],
    ),
    "an attribute that is a Variable of a loss and does not require grad": (
        """
        class Step:
            def run(self):
                self.loss = torch.autograd.Variable(crit(net(x), y))
                opt.zero_grad(); self.loss.backward(); opt.step()
        step = Step()
        for _ in range(3):
            step.run()
        """,
        ["self.loss = crit(net(x), y)"],
    ),
    "a window that is not emptied, in an episode that ends with a pass": (
        """
        import gym
        env = gym.make("CartPole-v1")
        for episode in range(10):
            done, logs, t = False, [], 0
            while not done:
                logs.append(net(x).mean(1))
                t += 1
                done = env.step(1)[2]
                if t % 5 == 0 or done:
                    loss = torch.cat(logs).sum()
                    opt.zero_grad(); loss.backward(); opt.step()
        """,
        ["logs.clear()"],
    ),
    "a state that an episode carries on, and whose end is only told": (
        """
        import gym
        env = gym.make("CartPole-v1")
        for episode in range(10):
            done, h, log = False, torch.zeros(4, 3), []
            while not done:
                h = torch.tanh(net(x) + h)
                opt.zero_grad(); h.mean().backward(); opt.step()
                done = env.step(1)[2]
                if done:
                    log.append(h.mean().item())
        """,
        ["h = h.detach()"],
    ),
    "a loop that counts up frees the graph at first": (
        """
        import sys
        count = int(sys.argv[1])
        for _ in range(3):
            h = net(x).tanh()
            losses = [(h * i).sum() for i in range(count)]
            opt.zero_grad()
            for i in range(count):
                losses[i].backward(retain_graph=i > 0)
            opt.step()
        """,
        ["losses[i].backward(retain_graph=True)"],
    ),
    "a parameter that is moved to the GPU of a device": (
        """
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        class Model:
            def __init__(self):
                start = torch.randn(3, 3) * 0.01
                self.weight = nn.Parameter(start).to(device)
        model = Model()
        opt = torch.optim.SGD([model.weight], lr=0.1)
        for _ in range(5):
            opt.zero_grad(); (x.to(device) @ model.weight).sum().backward(); opt.step()
        """,
        ["self.weight = nn.Parameter(start.to(device))"],
    ),
    "a leaf that is moved to the GPU, in a function that makes several": (
        """
        def make(*shape):
            return torch.zeros(*shape, requires_grad=True).cuda()
        groups = {"w": make(3, 3), "b": make(3)}
        opt = torch.optim.Adam([{"params": [groups["w"]]}, {"params": [groups["b"]], "lr": 1}])
        for _ in range(5):
            opt.zero_grad(); (groups["w"] + groups["b"]).pow(2).sum().backward(); opt.step()
        """,
        ["return torch.zeros(*shape).cuda().requires_grad_()"],
    ),
    "a parameter that is changed in a script without a pass": (
        """
        net.weight[:, 0] -= 1.0
        print(net.weight)
        """,
        ["with torch.no_grad():", "net.weight[:, 0] -= 1.0"],
    ),
    "a row of a parameter that is filled in a script without a pass": (
        """
        net.bias[1].fill_(2.0)
        """,
        ["with torch.no_grad():", "net.bias[1].fill_(2.0)"],
    ),
    "a view of a parameter that is filled in a script without a pass": (
        """
        net.weight.view(-1)[1].fill_(2.0)
        """,
        ["with torch.no_grad():", "net.weight.view(-1)[1].fill_(2.0)"],
    ),
    "a named view of a parameter that is changed in a script without a pass": (
        """
        part = net.bias.view(3, 1)
        part[:, 0] += 2.0
        """,
        ["with torch.no_grad():", "part[:, 0] += 2.0"],
    ),
    "a leaf that a helper fills in a script without a pass": (
        """
        def start(layer):
            layer.bias.fill_(0.1)
        start(other)
        """,
        ["with torch.no_grad():", "layer.bias.fill_(0.1)"],
    ),
    "outputs of steps, each with an empty dictionary": (
        """
        def step(x):
            return {"loss": crit(net(x), y), "metrics": {}, "tags": ["a"]}
        outputs = []
        for _ in range(100):
            opt.zero_grad()
            output = step(x)
            output["loss"].backward()
            opt.step()
            outputs.append(output)
        print(sum(one["loss"].item() for one in outputs))
        """,
        [
            "outputs.append({key: value.detach() if isinstance(value, torch.Tensor) else value "
            "for key, value in output.items()})"
        ],
    ),
    "totals by the keys of a dictionary of losses": (
        """
        from collections import defaultdict
        total = defaultdict(lambda: torch.tensor(0.0))
        for _ in range(100):
            losses = {"a": crit(net(x), y), "b": net(x).abs().mean()}
            opt.zero_grad(); sum(list(losses.values())).backward(); opt.step()
            for key, value in losses.items():
                total[key] += value * 8
        print(total)
        """,
        ["total[key] += (value * 8).detach()"],
    ),
    "three sums beside each other": (
        """
        first = second = both = 0
        for _ in range(100):
            a, b = crit(net(x), y), net(x).abs().mean()
            loss = a + b
            opt.zero_grad(); loss.backward(); opt.step()
            both += loss
            first += a
            second += b
        print(first.item(), second.item(), both.item())
        """,
        ["both += loss.detach()", "first += a.detach()", "second += b.detach()"],
    ),
    "an output is changed that a loader's targets are compared with, and prelu saves it": (
        """
        from torch.utils.data import DataLoader, TensorDataset
        slope = nn.Parameter(torch.ones(1))
        opt = torch.optim.SGD([*net.parameters(), slope], lr=0.1)
        for a, b in DataLoader(TensorDataset(x, y), 2):
            pred = net(a)
            loss = ((pred.detach() - b.cos()) ** 2).mean()
            opt.zero_grad(); loss.backward(); opt.step()
            h = net(a) + 1
            out = F.prelu(h, slope)
            h *= 2
            opt.zero_grad(); out.mean().backward(); opt.step()
        """,
        ["loss = ((pred - b.cos()) ** 2).mean()", "h = h * 2"],
    ),
}

GONE = {
    "three passes over one loss, one of them in a helper": (
        """
        def update(x, y):
            opt.zero_grad()
            loss = crit(net(x), y)
            loss.backward()
            return loss
        for _ in range(5):
            loss = update(x, y)
            loss.backward()
            loss.backward()
            opt.step()
        """,
        ["loss.backward()", "loss.backward()"],
    ),
    "a loss that becomes a Variable of itself": (
        """
        from torch.autograd import Variable
        for _ in range(3):
            loss = crit(net(x), y)
            loss = Variable(loss, requires_grad=True)
            opt.zero_grad(); loss.backward(); opt.step()
        """,
        ["loss = Variable(loss, requires_grad=True)"],
    ),
}
"""Programs, and the lines that the patch takes away."""

BRANCHED = {
    "features of two branches": """
        if args.wide:
            feats = net(x) * 2
        else:
            feats = net(x)
        for _ in range(5):
            loss = crit(other(feats), y)
            opt.zero_grad(); loss.backward(); opt.step()
        """,
    "features, and others for a flag": """
        feats = net(x)
        if args.wide:
            feats = net(x) * 2
        for _ in range(5):
            loss = crit(other(feats), y)
            opt.zero_grad(); loss.backward(); opt.step()
        """,
    "an item of a dictionary": """
        state = {}
        if args.wide:
            state["f"] = net(x) * 2
        else:
            state["f"] = net(x)
        for _ in range(5):
            loss = crit(other(state["f"]), y)
            opt.zero_grad(); loss.backward(); opt.step()
        """,
    "an attribute that a constructor computes": """
        class Scaled(nn.Module):
            def __init__(self):
                super().__init__()
                self.raw = nn.Parameter(torch.zeros(3))
                if args.wide:
                    self.scale = self.raw.exp() * 2
                else:
                    self.scale = self.raw.exp()
            def forward(self, x):
                return x * self.scale
        model = Scaled()
        opt = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(5):
            loss = crit(model(x), y)
            opt.zero_grad(); loss.backward(); opt.step()
        """,
    "a score by a way that may fail": """
        critics = torch.optim.SGD(other.parameters(), lr=0.1)
        for _ in range(5):
            fake = net(torch.randn(4, 3))
            try:
                score = other(fake - y) / len(args.wide)
            except TypeError:
                score = other(fake)
            loss = score.mean() - other(y).mean()
            critics.zero_grad(); loss.backward(); critics.step()
            loss = -score.mean()
            opt.zero_grad(); loss.backward(); opt.step()
        """,
}
"""Values that one of two branches gives, where a script is started without arguments."""

REPORTED = {
    "what a constructor unpacks by a star is no property": """
        class Mixture(nn.Module):
            def __init__(self):
                super().__init__()
                self.raw = nn.Parameter(torch.zeros(3))
                self.weights, *_ = self.both()
            def forward(self, x):
                return x * self.weights
            def prior(self):
                return self.weights.sum()
            def both(self):
                return torch.log_softmax(self.raw, 0), torch.ones(3)
        model = Mixture()
        opt = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(5):
            loss = crit(model(x), y) + 0.1 * model.prior()
            opt.zero_grad(); loss.backward(); opt.step()
        """,
    "one of two rows that a constructor unpacks is no property": """
        class Head(nn.Module):
            def __init__(self):
                super().__init__()
                self.raw = nn.Linear(3, 3)
                self.scale, self.unused = self.raw(torch.tensor([[1.0, 1.0, 1.0], [2.0, 2.0, 2.0]]))
            def forward(self, x):
                return x * self.scale
            def prior(self):
                return self.scale.pow(2).sum()
        model = Head()
        opt = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(5):
            loss = crit(model(x), y) + 0.1 * model.prior()
            opt.zero_grad(); loss.backward(); opt.step()
        """,
    "an unreduced loss of two names is not reduced under one of them": """
        each, total = nn.CrossEntropyLoss(reduction="none"), 0.0
        for _ in range(5):
            loss = logged = each(net(x), y.argmax(1))
            opt.zero_grad(); loss.backward(); opt.step()
            total += logged.item()
        """,
}
"""Mistakes that are reported, and left: no patch for them is known to be right."""


def program(text: str) -> str:
    return HEADER + textwrap.dedent(text)


@pytest.mark.parametrize(("text", "expected"), SHAPES.values(), ids=SHAPES.keys())
def test_shape(text: str, expected: list[str]) -> None:
    """The patch adds the *expected* lines, without indentation, and the patched text is repaired in full."""
    before = program(text)
    mended = mend(Program.of(before, "program.py"), all_codemods())
    assert mended.left == (), mended.refused
    compared = difflib.ndiff(before.splitlines(), mended.patched.files[0].text.splitlines())
    assert [line[2:].strip() for line in compared if line.startswith("+ ")] == expected


@pytest.mark.parametrize(("text", "expected"), GONE.values(), ids=GONE.keys())
def test_what_goes_goes_at_once(text: str, expected: list[str]) -> None:
    before = program(text)
    mended = mend(Program.of(before, "program.py"), all_codemods())
    assert mended.left == (), mended.refused
    compared = list(difflib.ndiff(before.splitlines(), mended.patched.files[0].text.splitlines()))
    assert [line[2:].strip() for line in compared if line.startswith("- ")] == expected
    assert not any(line.startswith("+ ") for line in compared)


def _with_option(text: str) -> str:
    parser = "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--wide', action='store_true')\n"
    return parser + "args = parser.parse_args()\n" + program(text)


BOTH_SIDES = """
        critics = torch.optim.SGD(other.parameters(), lr=0.1)
        class Game:
            def play(self, z):
                self.fake = net(z)
                if args.wide:
                    self.score = other(self.fake) - other(y).mean()
                else:
                    self.score = other(self.fake)
                loss = self.score.mean() - other(y).mean()
                critics.zero_grad(); loss.backward(); critics.step()
                loss = -self.score.mean()
                opt.zero_grad(); loss.backward(); opt.step()
        game = Game()
        for _ in range(5):
            game.play(torch.randn(4, 3))
"""


def test_what_each_branch_computes_is_computed_anew_on_each() -> None:
    before = _with_option(BOTH_SIDES)
    patched = analyse(before, "program.py").patched
    for line, times in (
        ("if args.wide:", 2),
        ("self.score = other(self.fake.detach()) - other(y).mean()", 1),
        ("self.score = other(self.fake.detach())\n", 1),
        ("self.score = other(self.fake) - other(y).mean()", 1),
        ("self.score = other(self.fake)\n", 1),
    ):
        assert patched.count(line) == times, line


@pytest.mark.parametrize("text", BRANCHED.values(), ids=BRANCHED.keys())
def test_what_another_branch_computes_is_not_computed_anew(text: str) -> None:
    before = _with_option(text)
    found = analyse(before, "program.py")
    assert found.findings
    assert found.patched == before
    told = [(finding.cause.line, finding.code) for finding in found.findings]
    assert len(told) == len({line for line, _ in told}), told


@pytest.mark.parametrize("text", REPORTED.values(), ids=REPORTED.keys())
def test_it_is_reported_and_left(text: str) -> None:
    before = program(text)
    mended = mend(Program.of(before, "program.py"), all_codemods())
    assert mended.left
    assert mended.patched.files[0].text == before


def test_a_buffer_with_another_name_is_given_the_result_by_both() -> None:
    """A reader of the buffer under its other name would no longer see the result."""
    text = program("""
        space = {"h": torch.empty(4, 3)}
        buffer = space["h"]
        for _ in range(5):
            torch.mm(x, net.weight.t(), out=buffer)
            opt.zero_grad(); (crit(net(x), y) + space["h"].sum()).backward(); opt.step()
        """)
    mended = mend(Program.of(text, "program.py"), all_codemods())
    written = ("torch.mm(x, net.weight.t(), out=buffer)", 'buffer = space["h"] = torch.mm(x, net.weight.t())')
    assert mended.patched.files[0].text == text.replace(*written)


def test_what_is_computed_by_argmax_is_reported_and_left() -> None:
    """Nothing rewrites a choice into something that has a gradient."""
    text = program("""
        loss = crit(net(x).argmax(1).float(), y[:, 0])
        loss.backward()
        """)
    mended = mend(Program.of(text, "program.py"), all_codemods())
    assert [fact.code for fact in mended.left] == ["AF400"]
    assert mended.patched.files[0].text == text


@pytest.mark.parametrize(
    "formula", ["np.exp(-gap)", "1 - gap", "gap[:, None].mean(1)", "(gap + 1) ** -1", "np.sqrt(gap)"]
)
def test_a_formula_in_numpy_is_followed_to_the_loss(formula: str) -> None:
    text = program(f"""
        def alike(a, b):
            a, b = a.detach().numpy(), b.detach().numpy()
            gap = np.abs(a - b).sum(axis=1)
            return torch.from_numpy({formula})
        loss = crit(alike(net(x), net(y)), y[:, 0])
        loss.backward()
        """)
    mended = mend(Program.of(text, "program.py"), all_codemods())
    assert [fact.code for fact in mended.left] == ["AF400"]


def test_where_two_values_lost_their_graphs_nobody_guesses() -> None:
    text = program("""
        loss = crit(net(x).detach(), other(x).detach())
        loss.backward()
        """)
    mended = mend(Program.of(text, "program.py"), all_codemods())
    assert [fact.code for fact in mended.left] == ["AF400"]
    assert mended.patched.files[0].text == text
