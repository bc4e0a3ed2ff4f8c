"""Formulas in NumPy between the tensors of a network and the loss: translated as a whole, or left alone."""

from __future__ import annotations

import difflib
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

from autofix.codemods.interpreter.analysis import analyze
from autofix.codemods.repair import mend
from autofix.codemods.rules.registry import all_codemods
from autofix.codemods.source.program import Program

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
TRAIN = """\
for _ in range(5):
    loss = {loss}
    opt.zero_grad()
    loss.backward()
    opt.step()
"""

SHAPES = {
    "a mean of squares, in a function": (
        """
        def loss_of(p, t):
            p = p.detach().numpy()
            t = t.numpy()
            return torch.tensor(np.mean((p - t) ** 2), requires_grad=True)
        """,
        "loss_of(net(x), y)",
        [
            "return torch.mean((p - t) ** 2)",
        ],
    ),
    "tensors by .data, two on a line": (
        """
        def loss_of(p, t):
            p, t = p.data.numpy(), t.data.numpy()
            err = np.square(p - t)
            return torch.from_numpy(err.sum(1)).mean()
        """,
        "loss_of(net(x), y)",
        [
            "err = torch.square(p - t)",
            "return err.sum(1).mean()",
        ],
    ),
    "a cross entropy, numpy by its own name": (
        """
        import numpy
        def bce(p, t):
            p = numpy.clip(torch.sigmoid(p).detach().numpy(), 1e-7, 1 - 1e-7)
            t = t.detach().numpy()
            return torch.tensor(-numpy.mean(t * numpy.log(p) + (1 - t) * numpy.log(1 - p)))
        """,
        "bce(net(x), (y > 0).float())",
        [
            "p = torch.clamp(torch.sigmoid(p), 1e-7, 1 - 1e-7)",
            "return -torch.mean(t * torch.log(p) + (1 - t) * torch.log(1 - p))",
        ],
    ),
    "a hinge, with dtype and requires_grad": (
        """
        def hinge(p, t, margin=1.0):
            p = p.cpu().detach().numpy()
            t = t.cpu().numpy()
            gap = np.maximum(0, margin - p * t)
            return torch.tensor(gap.mean(), dtype=torch.float32, requires_grad=True)
        """,
        "hinge(net(x), y, margin=0.5)",
        [
            "gap = torch.clamp(margin - p * t, min=0)",
            "return gap.mean().float()",
        ],
    ),
    "a module's forward": (
        """
        class Contrast(nn.Module):
            def __init__(self, margin=1.0):
                super().__init__()
                self.margin = margin
            def forward(self, a, b):
                a = a.detach().numpy()
                b = b.detach().numpy()
                d = np.linalg.norm(a - b, axis=1, keepdims=True)
                near = np.where(d < self.margin, d ** 2, np.zeros_like(d))
                return torch.from_numpy(near).sum()
        crit2 = Contrast(5.0)
        """,
        "crit2(net(x), net(y))",
        [
            "d = torch.linalg.norm(a - b, dim=1, keepdim=True)",
            "near = torch.where(d < self.margin, d ** 2, torch.zeros_like(d))",
            "return near.sum()",
        ],
    ),
    "similarities, two statements on a line": (
        """
        def cosine(a, b):
            a = a.detach().numpy(); b = b.detach().numpy()
            a = a / np.linalg.norm(a, axis=-1, keepdims=True)
            b = b / np.linalg.norm(b, axis=-1, keepdims=True)
            sim = np.dot(a, b.T)
            return torch.tensor(sim)
        """,
        "cosine(net(x), net(y)).mean()",
        [
            "a = a / torch.linalg.norm(a, dim=-1, keepdim=True)",
            "b = b / torch.linalg.norm(b, dim=-1, keepdim=True)",
            "sim = torch.matmul(a, b.T)",
            "return sim",
        ],
    ),
    "statistics are biased in NumPy": (
        """
        def spread(p):
            a = p.detach().numpy()
            z = (a - a.mean(0)) / (a.std(axis=0) + 1e-6)
            return torch.as_tensor(z.var(axis=1)).sum()
        """,
        "spread(net(x))",
        [
            "a = p",
            "z = (a - a.mean(0)) / (a.std(dim=0, correction=0) + 1e-6)",
            "return z.var(dim=1, correction=0).sum()",
        ],
    ),
    "a list of numbers that is averaged": (
        """
        def total(p, t):
            losses = []
            for i in range(3):
                a = p[:, i].detach().numpy()
                losses.append(np.mean(np.abs(a - t[:, i].numpy())))
            return torch.tensor(np.mean(losses), requires_grad=True)
        """,
        "total(net(x), y)",
        [
            "a = p[:, i]",
            "losses.append(torch.mean(torch.abs(a - t[:, i])))",
            "return torch.stack(losses).mean()",
        ],
    ),
    "a sum that begins with a number": (
        """
        def total(p, t):
            p = p.detach().numpy()
            t = t.numpy()
            out = 0.0
            for k in range(p.shape[1]):
                out += ((p[:, k] - t[:, k]) ** 2).mean()
            return torch.tensor(out / p.shape[1])
        """,
        "total(net(x), y)",
        [
            "return out / p.shape[1]",
        ],
    ),
    "constants of the module, and of the function": (
        """
        WEIGHTS = np.array([1.0, 2.0, 0.5])
        def weighted(p, t):
            p = p.detach().numpy()
            grid = np.linspace(0, 1, 3)
            return torch.from_numpy((WEIGHTS * grid * (p - t.numpy()) ** 2).mean(-1)).float()
        """,
        "weighted(net(x), y).mean()",
        [
            "grid = torch.linspace(0, 1, 3)",
            "return (torch.from_numpy(WEIGHTS).float() * grid * (p - t) ** 2).mean(-1).float()",
        ],
    ),
    "a script's loop, whose errors are printed": (
        """
        target = y.numpy()
        weights = np.ones(3)
        for epoch in range(5):
            pred = net(x)
            err = np.abs(pred.detach().numpy() - target) * weights
            loss = torch.tensor(err.mean(), requires_grad=True)
            opt.zero_grad(); loss.backward(); opt.step()
            print(f"{epoch} worst {err.max():.3f}", err.shape)
        """,
        "",
        [
            "target = y",
            "weights = torch.ones(3)",
            "err = torch.abs(pred - target) * weights",
            "loss = err.mean()",
            'print(f"{epoch} worst {err.max().item():.3f}", err.shape)',
        ],
    ),
    "attributes of an object": (
        """
        class Fit:
            def __init__(self):
                self.window = np.hanning(3)
            def step(self):
                self.pred = net(x).detach().numpy()
                self.err = (self.pred - y.numpy()) * self.window
                loss = torch.from_numpy(self.err ** 2).mean()
                opt.zero_grad(); loss.backward(); opt.step()
        fit = Fit()
        for _ in range(5):
            fit.step()
        """,
        "",
        [
            "self.pred = net(x)",
            "self.err = (self.pred - y) * torch.from_numpy(self.window).float()",
            "loss = (self.err ** 2).mean()",
        ],
    ),
    "a helper that makes arrays, for metrics as well": (
        """
        def to_np(t):
            return t.detach().cpu().numpy()
        def loss_of(p, t):
            d = to_np(p) - to_np(t)
            return torch.from_numpy(np.sqrt((d ** 2).sum(axis=1) + 1e-8)).mean()
        with torch.no_grad():
            print(np.round(to_np(net(x)), 2))
        """,
        "loss_of(net(x), y)",
        [
            "d = p - t",
            "return torch.sqrt((d ** 2).sum(dim=1) + 1e-8).mean()",
        ],
    ),
    "a formula of arrays that a metric uses as well": (
        """
        def score(a, b):
            return np.mean((a - b) ** 2)
        for _ in range(5):
            out = net(x)
            loss = torch.tensor(score(out.detach().numpy(), y.numpy()), requires_grad=True)
            opt.zero_grad(); loss.backward(); opt.step()
            print("val", score(other(x).detach().numpy(), y.numpy()))
        """,
        "",
        [
            "return torch.mean((a - b) ** 2)",
            "loss = score(out, y)",
            'print("val", score(other(x), y).item())',
        ],
    ),
    "a scaler's fields": (
        """
        from dataclasses import dataclass
        @dataclass
        class Scaler:
            mean: np.ndarray
            std: np.ndarray
            @classmethod
            def fit(cls, table):
                return cls(table.mean(axis=0), table.std(axis=0) + 1.0)
            def unscale(self, values):
                table = values.detach().cpu().numpy() * self.std + self.mean
                return torch.from_numpy(table.astype(np.float32))
        scaler = Scaler.fit(x.numpy()[:, :3])
        """,
        "((scaler.unscale(net(x)) - y) ** 2).mean()",
        [
            "table = values * torch.as_tensor(self.std, dtype=torch.float32) "
            "+ torch.as_tensor(self.mean, dtype=torch.float32)",
            "return table.float()",
        ],
    ),
    "statistics in a dictionary, and an update": (
        """
        stats = {}
        stats["scale"] = x.numpy().std(axis=1, keepdims=True)
        stats.update(shift=[0.5, 1.0, 2.0])
        def physical(p, stats):
            a = p.detach().numpy() / stats["scale"]
            a += stats["shift"]
            return torch.tensor(a, dtype=torch.float32)
        """,
        "((physical(net(x), stats) - y) ** 2).mean()",
        [
            'a = p / torch.as_tensor(stats["scale"], dtype=torch.float32)',
            'a = a + torch.as_tensor(stats["shift"], dtype=torch.float32)',
            "return a.float()",
        ],
    ),
    "lists of numbers": (
        """
        def physical(p):
            a = np.multiply(p.detach().numpy(), [1.0, 2.0, 4.0])
            return torch.tensor(a + (0.5, 1.0, 2.0), dtype=torch.float32)
        """,
        "((physical(net(x)) - y) ** 2).mean()",
        [
            "a = torch.mul(p, torch.as_tensor([1.0, 2.0, 4.0], dtype=torch.float32))",
            "return (a + torch.as_tensor((0.5, 1.0, 2.0), dtype=torch.float32)).float()",
        ],
    ),
    "numbers of which nothing is known": (
        """
        class Units:
            def __init__(self, table):
                self.scale_, self.mean_ = table.std() + 1, 2
        units = Units(x.numpy())
        def restored(p, units):
            return torch.tensor(p.detach().numpy() * units.scale_ - units.mean_)
        """,
        "((restored(net(x), units) - y) ** 2).mean()",
        [
            "return p * torch.as_tensor(units.scale_, dtype=torch.float32) "
            "- torch.as_tensor(units.mean_, dtype=torch.float32)",
        ],
    ),
    "a softmax by hand, and labels as indices": (
        """
        def ce(logits, labels):
            z = logits.detach().numpy()
            z = z - z.max(axis=1, keepdims=True)
            logp = z - np.log(np.exp(z).sum(axis=1, keepdims=True))
            return torch.tensor(-logp[np.arange(len(labels)), labels.numpy()].mean(), requires_grad=True)
        """,
        "ce(net(x), torch.tensor([0, 1, 2, 0]))",
        [
            "z = logits",
            "z = z - z.amax(dim=1, keepdim=True)",
            "logp = z - torch.log(torch.exp(z).sum(dim=1, keepdim=True))",
            "return -logp[torch.arange(len(labels)), labels].mean()",
        ],
    ),
    "joined, turned round and copied": (
        """
        def joined(a, b):
            both = np.concatenate([a.detach().numpy(), b.detach().numpy()], axis=1)
            both = both[:, ::-1] * np.arange(6)[None, :]
            return torch.from_numpy(both.copy()).float()
        """,
        "joined(net(x), other(x)).pow(2).mean()",
        [
            "both = torch.cat([a, b], dim=1)",
            "both = both.flip(1) * torch.arange(6)[None, :]",
            "return both.clone().float()",
        ],
    ),
    "all in one expression": (
        """

        """,
        "torch.from_numpy(np.tanh(net(x).detach().numpy()) + np.eye(4, 3)).mean()",
        [
            "loss = (torch.tanh(net(x)) + torch.eye(4, 3)).mean()",
        ],
    ),
    "the flag is set in a statement of its own": (
        """
        def f(p):
            q = torch.from_numpy(np.exp(p.detach().numpy()))
            q.requires_grad_()
            return q.mean()
        """,
        "f(net(x))",
        [
            "q = torch.exp(p)",
        ],
    ),
    "axes are permuted": (
        """
        def f(p):
            a = np.tanh(p.detach().numpy()).reshape(2, 2, 3)
            a = a.transpose(0, 2, 1) @ a
            g = np.einsum("bij,bij->b", a, a)
            return torch.from_numpy(g).sum()
        """,
        "f(net(x))",
        [
            "a = torch.tanh(p).reshape(2, 2, 3)",
            "a = a.permute(0, 2, 1) @ a",
            'g = torch.einsum("bij,bij->b", a, a)',
            "return g.sum()",
        ],
    ),
    "an accuracy of the same arrays": (
        """
        for _ in range(5):
            p = torch.sigmoid(net(x)).detach().numpy()
            t_ = (y > 0).float().numpy()
            loss = torch.tensor(np.mean((p - t_) ** 2), requires_grad=True)
            acc = ((p > 0.5) == t_).mean()
            opt.zero_grad(); loss.backward(); opt.step()
            print(loss.item(), acc)
        """,
        "",
        [
            "p = torch.sigmoid(net(x))",
            "t_ = (y > 0).float()",
            "loss = torch.mean((p - t_) ** 2)",
            "acc = ((p > 0.5) == t_).float().mean()",
            "print(loss.item(), acc.item())",
        ],
    ),
    "a number is made of the result": (
        """
        for _ in range(5):
            p = net(x).detach().numpy()
            value = float(np.mean(p ** 2))
            loss = torch.tensor(value, requires_grad=True)
            opt.zero_grad(); loss.backward(); opt.step()
        """,
        "",
        [
            "p = net(x)",
            "value = torch.mean(p ** 2)",
            "loss = value",
        ],
    ),
    "what is kept for a plot stays an array": (
        """
        seen = []
        def f(p, t):
            a = p.detach().numpy()
            seen.append(a)
            e = np.abs(a - t.numpy())
            seen.append(e.mean())
            return torch.tensor(e.mean(), requires_grad=True)
        """,
        "f(net(x), y)",
        [
            "a = p",
            "seen.append(a.detach().numpy())",
            "e = torch.abs(a - t)",
            "seen.append(e.mean().item())",
            "return e.mean()",
        ],
    ),
    "a lambda": (
        """
        f = lambda p, t: torch.tensor(np.mean((p.detach().numpy() - t.numpy()) ** 2))
        """,
        "f(net(x), y)",
        [
            "f = lambda p, t: torch.mean((p - t) ** 2)",
        ],
    ),
    "a tensor of two numbers": (
        """
        def f(p, t):
            a = p.detach().numpy()
            return torch.tensor([a[:, 0].mean(), a[:, 1].mean()]).sum()
        """,
        "f(net(x), y)",
        [
            "a = p",
            "return torch.stack([a[:, 0].mean(), a[:, 1].mean()]).sum()",
        ],
    ),
    "an array of two numbers": (
        """
        def f(p, t):
            a = p.detach().numpy()
            b = np.array([a[:, 0].mean(), a[:, 1].std()])
            return torch.tensor(b, dtype=torch.float).sum()
        """,
        "f(net(x), y)",
        [
            "a = p",
            "b = torch.stack([a[:, 0].mean(), a[:, 1].std(correction=0)])",
            "return b.float().sum()",
        ],
    ),
    "arrays in a list": (
        """
        def f(p, t):
            a = p.detach().numpy()
            cols = [a[:, k] * (k + 1) for k in range(3)]
            rows = np.concatenate([c[None] for c in cols])
            return torch.from_numpy(np.stack(cols, axis=1)).mean() + torch.from_numpy(rows).mean()
        """,
        "f(net(x), y)",
        [
            "a = p",
            "rows = torch.cat([c[None] for c in cols])",
            "return torch.stack(cols, dim=1).mean() + rows.mean()",
        ],
    ),
    "an inner function": (
        """
        def f(p, t):
            a = p.detach().numpy()
            def inner(z):
                return z * a
            return torch.from_numpy(inner(a)).mean()
        """,
        "f(net(x), y)",
        [
            "a = p",
            "return inner(a).mean()",
        ],
    ),
    "branches": (
        """
        def f(p, t, kind="l2"):
            a, b = p.detach().numpy(), t.numpy()
            if kind == "l2":
                e = (a - b) ** 2
            elif kind == "l1":
                e = np.abs(a - b)
            else:
                raise ValueError(kind)
            return torch.from_numpy(e).mean()
        """,
        "f(net(x), y)",
        [
            "a, b = p, t",
            "e = torch.abs(a - b)",
            "return e.mean()",
        ],
    ),
    "what torch has not is only shown": (
        """
        def f(p, t):
            a, b = p.detach().numpy(), t.numpy()
            print("median", np.median(a), a.round(2), len(a), a.size)
            return torch.from_numpy(a - b).pow(2).mean()
        """,
        "f(net(x), y)",
        [
            "a, b = p, t",
            'print("median", np.median(a.detach().numpy()), a.detach().numpy().round(2), len(a), a.numel())',
            "return (a - b).pow(2).mean()",
        ],
    ),
    "a metric of plain arrays": (
        """
        def score(a, b):
            return np.mean((a - b) ** 2)
        def f(p, t):
            return torch.tensor(score(p.detach().numpy(), t.numpy()))
        best = score(np.zeros((4, 3)), np.ones((4, 3)))
        assert best > 0.5
        """,
        "f(net(x), y)",
        [
            "return torch.mean((a - b) ** 2)",
            "return score(p, t)",
            "best = score(torch.zeros((4, 3)), torch.ones((4, 3)))",
        ],
    ),
    "NumPy by another name, and functions of it by their own": (
        """
        import numpy as N
        from numpy import exp, mean as average
        def f(p):
            a = p.detach().numpy()
            return torch.tensor(average(exp(N.abs(a))), requires_grad=True)
        """,
        "f(net(x))",
        [
            "a = p",
            "return torch.mean(torch.exp(torch.abs(a)))",
        ],
    ),
    "tabs, and comments": (
        """
        def f(p, q):
        \t# to NumPy
        \ta = p.detach().numpy()
        \tb = q.detach().cpu().numpy()  # the other one
        \tif a.shape[0] > 1:  # batches
        \t\ta = a - a.mean(axis=0, keepdims=True)  # centred
        \treturn torch.from_numpy((a * b).sum(axis=-1)).float().mean()
        """,
        "f(net(x), other(x))",
        [
            "a = p",
            "b = q  # the other one",
            "a = a - a.mean(dim=0, keepdim=True)  # centred",
            "return (a * b).sum(dim=-1).float().mean()",
        ],
    ),
    "a method, its weights and its option": (
        """
        class Loss:
            def __init__(self, power=2.0):
                self.power = power
                self.weights = np.array([0.2, 0.3, 0.5], dtype=np.float32)
            def __call__(self, p, t):
                return self.term(p, t)
            def term(self, p, t):
                gap = np.abs(p.detach().numpy() - t.numpy()) ** self.power
                return torch.from_numpy(gap @ self.weights).mean()
        loss_of = Loss(1.5)
        """,
        "loss_of(net(x), y)",
        [
            "gap = torch.abs(p - t) ** self.power",
            "return (gap @ torch.from_numpy(self.weights)).mean()",
        ],
    ),
    "soft argmax on a grid": (
        """
        def centre(p):
            prob = np.exp(p.detach().numpy())
            prob /= prob.sum(axis=1, keepdims=True)
            return torch.from_numpy((prob * np.arange(3)).sum(axis=1)).to(torch.float32)
        """,
        "centre(net(x)).mean()",
        [
            "prob = torch.exp(p)",
            "prob = prob / prob.sum(dim=1, keepdim=True)",
            "return (prob * torch.arange(3)).sum(dim=1).to(torch.float32)",
        ],
    ),
    "an argument of the command line": (
        """
        import argparse
        parser = argparse.ArgumentParser()
        parser.add_argument("--weight-of-l1", type=float, default=0.5)
        args = parser.parse_args([])
        def f(p, t):
            a = p.detach().numpy() - t.numpy()
            return torch.from_numpy(np.square(a) + args.weight_of_l1 * np.abs(a)).mean()
        """,
        "f(net(x), y)",
        [
            "a = p - t",
            "return (torch.square(a) + args.weight_of_l1 * torch.abs(a)).mean()",
        ],
    ),
    "an order by which rows are picked": (
        """
        def f(p, t):
            d = np.abs(p.detach().numpy() - t.numpy()).sum(axis=1)
            order = np.argsort(d)
            return torch.from_numpy(d[order][:2]).mean()
        """,
        "f(net(x), y)",
        [
            "d = torch.abs(p - t).sum(dim=1)",
            "order = np.argsort(d.detach().numpy())",
            "return d[order][:2].mean()",
        ],
    ),
    "a loss on another device": (
        """
        device = "cuda" if torch.cuda.is_available() else "cpu"
        net = net.to(device)
        def f(p, t):
            d = np.abs(p.detach().cpu().numpy() - t.cpu().numpy()).sum(axis=1)
            return torch.from_numpy(d).to(device).mean()
        """,
        "f(net(x.to(device)), y)",
        [
            "d = torch.abs(p.cpu() - t.cpu()).sum(dim=1)",
            "return d.to(device).mean()",
        ],
    ),
    "a history of numbers": (
        """
        history = {"mse": [], "mae": []}
        for _ in range(5):
            p = net(x).detach().numpy()
            err = p - y.numpy()
            mse = np.mean(err ** 2)
            mae = np.abs(err).mean()
            history["mse"].append(mse)
            history["mae"].append(float(mae))
            loss = torch.tensor(mse, requires_grad=True)
            opt.zero_grad(); loss.backward(); opt.step()
        print(np.mean(history["mse"]))
        """,
        "",
        [
            "p = net(x)",
            "err = p - y",
            "mse = torch.mean(err ** 2)",
            "mae = torch.abs(err).mean()",
            'history["mse"].append(mse.item())',
            'history["mae"].append(mae.item())',
            "loss = mse",
        ],
    ),
    "a running total": (
        """
        total = 0.0
        for _ in range(5):
            p = net(x).detach().numpy()
            mse = np.mean((p - y.numpy()) ** 2)
            loss = torch.tensor(mse, requires_grad=True)
            opt.zero_grad(); loss.backward(); opt.step()
            total += mse
        print(total / 5)
        """,
        "",
        [
            "p = net(x)",
            "mse = torch.mean((p - y) ** 2)",
            "loss = mse",
            "total += mse.detach()",
            "print((total / 5).item())",
        ],
    ),
    "two networks and two terms": (
        """
        def f(p, q, t):
            p, q, t = p.detach().numpy(), q.detach().numpy(), t.numpy()
            fit = ((p - t) ** 2).mean()
            tie = np.abs(p - q).max()
            return torch.tensor(fit + 0.1 * tie)
        """,
        "f(net(x), other(x), y)",
        [
            "tie = torch.abs(p - q).max()",
            "return fit + 0.1 * tie",
        ],
    ),
    "a list of arrays": (
        """
        def f(outs, t):
            outs = [o.detach().numpy() for o in outs]
            m = np.mean(outs, axis=0)
            return torch.from_numpy((m - t.numpy()) ** 2).mean()
        """,
        "f([net(x), other(x)], y)",
        [
            "m = torch.stack(outs).mean(dim=0)",
            "return ((m - t) ** 2).mean()",
        ],
    ),
    "scaled, and bounded by a number": (
        """
        def f(p, t):
            a = p.detach().numpy()
            a = (a - a.min()) / (a.max() - a.min() + 1e-8)
            m = np.minimum(a, 0.5)
            return torch.tensor(np.sum(m, axis=1), dtype=torch.float32, device=p.device).mean()
        """,
        "f(net(x), y)",
        [
            "a = p",
            "m = torch.clamp(a, max=0.5)",
            "return torch.sum(m, dim=1).float().to(p.device).mean()",
        ],
    ),
    "a setting in a dictionary": (
        """
        cfg = {"alpha": 0.3}
        ALPHA = 0.2
        def f(p, t):
            a = p.detach().numpy()
            return torch.tensor((cfg["alpha"] * a ** 2 + ALPHA * a).mean())
        """,
        "f(net(x), y)",
        [
            "a = p",
            'return (cfg["alpha"] * a ** 2 + ALPHA * a).mean()',
        ],
    ),
}

LEFT = {
    "torch returns a pair": (
        """
        def f(p, t):
            a = np.sort(p.detach().numpy(), axis=1)
            return torch.from_numpy(a - t.numpy()).pow(2).mean()
        """,
        "f(net(x), y)",
    ),
    "an array is written into": (
        """
        def f(p, t):
            a = p.detach().numpy().copy()
            a[a < 0] = 0
            return torch.from_numpy(a - t.numpy()).pow(2).mean()
        """,
        "f(net(x), y)",
    ),
    "an array is changed in place": (
        """
        def f(p, t):
            a = p.detach().numpy()
            a -= a.max()
            return torch.from_numpy(a - t.numpy()).pow(2).mean()
        """,
        "f(net(x), y)",
    ),
    "a choice has no gradient": (
        """
        def f(p, t):
            a = p.detach().numpy().argmax(axis=1)
            return torch.from_numpy(a).float().mean()
        """,
        "f(net(x), y)",
    ),
    "a cast has no gradient": (
        """
        def f(p, t):
            a = (p.detach().numpy() * 255).astype(np.uint8)
            return torch.from_numpy(a).float().mean()
        """,
        "f(net(x), y)",
    ),
    "an operand is not known": (
        """
        from elsewhere import weights
        def f(p, t):
            a = p.detach().numpy() * weights
            return torch.from_numpy(a).float().mean()
        """,
        "f(net(x), y)",
    ),
    "a function that others may call": (
        """
        def score(a, b):
            return np.mean((a - b) ** 2)
        metrics = {"mse": score}
        def f(p, t):
            return torch.tensor(score(p.detach().numpy(), t.numpy()))
        """,
        "f(net(x), y)",
    ),
    "two formulas meet in torch": (
        """

        """,
        "crit(torch.from_numpy(np.exp(net(x).detach().numpy())), torch.from_numpy(np.exp(other(x).detach().numpy())))",
    ),
    "a sum in another type": (
        """
        def f(p, t):
            return torch.tensor(p.detach().numpy().sum(dtype=np.float64))
        """,
        "f(net(x), y)",
    ),
    "a product of any number of dimensions": (
        """
        def f(p, t):
            return torch.tensor(np.dot(p.detach().numpy(), t.numpy())).mean()
        """,
        "f(net(x), y.t())",
    ),
    "a division that rounds": (
        """
        def f(p, t):
            return torch.tensor(p.detach().numpy() // 0.1).mean()
        """,
        "f(net(x), y)",
    ),
    "another order of the elements": (
        """
        def f(p, t):
            return torch.from_numpy(p.detach().numpy().reshape(3, 4, order="F")).mean()
        """,
        "f(net(x), y)",
    ),
    "another median": (
        """
        def f(p, t):
            return torch.tensor(np.median(p.detach().numpy()), requires_grad=True)
        """,
        "f(net(x), y)",
    ),
    "torch does not subtract a mask": (
        """
        def f(p, t):
            a = p.detach().numpy()
            return torch.tensor((a * (1 - (a > 0))).mean(), requires_grad=True)
        """,
        "f(net(x), y)",
    ),
    "a caller has lists": (
        """
        def score(a, b):
            return np.mean((a - b) ** 2)
        def f(p, t):
            return torch.tensor(score(p.detach().numpy(), t.numpy()))
        rows = [[1.0, 2.0, 3.0]] * 4
        print(score(rows, rows))
        """,
        "f(net(x), y)",
    ),
    "a part is computed without recording": (
        """
        def f(p, t):
            with torch.no_grad():
                aim = other(x).numpy()
            return torch.tensor(np.mean((p.detach().numpy() - aim) ** 2), requires_grad=True)
        """,
        "f(net(x), y)",
    ),
    "two formulas, of which one may be a target": (
        """
        def f(p, t):
            q = p.detach().numpy()
            aim = other(x).detach().numpy().max(axis=1)
            return torch.from_numpy(q[:, 0]), torch.from_numpy(aim)
        """,
        "crit(*f(net(x), y))",
    ),
    "noise of NumPy's generator": (
        """
        rng = np.random.default_rng(0)
        def f(p, t):
            a = p.detach().numpy() + rng.normal(size=(4, 3))
            return torch.from_numpy(a).float().mean()
        """,
        "f(net(x), y)",
    ),
    "a test of NumPy's": (
        """
        def f(p, t):
            a = p.detach().numpy()
            if np.isnan(a).any():
                raise ValueError(a)
            return torch.from_numpy(a).float().mean()
        """,
        "f(net(x), y)",
    ),
    "a divisor that torch has not": (
        """
        def f(p, t):
            d = np.abs(p.detach().numpy() - t.numpy()).sum(axis=1)
            med = np.median(d)
            return torch.from_numpy(d / med).mean()
        """,
        "f(net(x), y)",
    ),
    "another term that torch has not": (
        """
        def f(p, t):
            d = np.abs(p.detach().numpy() - t.numpy()).sum(axis=1)
            return torch.from_numpy(d).mean() + torch.tensor(np.median(d))
        """,
        "f(net(x), y)",
    ),
    "an array sorted in place": (
        """
        def f(p, t):
            d = np.abs(p.detach().numpy() - t.numpy()).sum(axis=1)
            d.sort()
            return torch.from_numpy(d).mean()
        """,
        "f(net(x), y)",
    ),
}

RIGHT = {
    "a metric": """
        def error(p, t):
            return np.abs(p.detach().numpy() - t.numpy()).mean()
        for _ in range(3):
            loss = crit(net(x), y)
            opt.zero_grad(); loss.backward(); opt.step()
            print(error(net(x), y))
        """,
    "a metric as a tensor": """
        def error(p, t):
            return torch.tensor(np.abs(p.detach().numpy() - t.numpy()).mean())
        for _ in range(3):
            out = net(x)
            loss = crit(out, y)
            opt.zero_grad(); loss.backward(); opt.step()
            print(loss.item() + error(out, y))
        """,
    "weights of NumPy's for a loss": """
        for _ in range(3):
            out = net(x)
            weights = torch.from_numpy(np.exp(-np.abs(out.detach().numpy() - y.numpy())))
            loss = (weights * (out - y) ** 2).mean()
            opt.zero_grad(); loss.backward(); opt.step()
        """,
    "targets of NumPy's": """
        for _ in range(3):
            aim = torch.from_numpy(np.tanh(other(x).detach().numpy()))
            loss = crit(net(x), aim)
            opt.zero_grad(); loss.backward(); opt.step()
        """,
}


class Stopped(Exception):
    """The first backward was reached."""


@contextmanager
def stopped_at_the_first_pass() -> Iterator[list[float]]:
    """Losses are noted rather than sent back."""
    losses: list[float] = []

    def note(loss: torch.Tensor, *_: Any, **__: Any) -> None:
        losses.append(loss.item())
        raise Stopped

    backward = torch.Tensor.backward
    torch.Tensor.backward = note  # type: ignore[assignment,method-assign]
    try:
        yield losses
    finally:
        torch.Tensor.backward = backward  # type: ignore[method-assign]


def program(text: str, loss: str) -> str:
    return HEADER + textwrap.dedent(text).lstrip("\n") + (TRAIN.format(loss=loss) if loss else "")


def first_loss(text: str) -> float:
    with stopped_at_the_first_pass() as losses, pytest.raises(Stopped):
        exec(compile(text, "program.py", "exec"), {"__name__": "program"})
    return losses[0]


@pytest.mark.parametrize(("text", "loss", "expected"), SHAPES.values(), ids=SHAPES)
def test_the_formula_keeps_the_graph(text: str, loss: str, expected: list[str]) -> None:
    """The patch adds the *expected* lines, without indentation, and the loss is as it was."""
    before = program(text, loss)
    mended = mend(Program.of(before, "program.py"), all_codemods())
    assert mended.left == (), mended.refused
    after = mended.patched.files[0].text
    compared = difflib.ndiff(before.splitlines(), after.splitlines())
    assert [line[2:].strip() for line in compared if line.startswith("+ ")] == expected
    assert first_loss(after) == pytest.approx(first_loss(before), rel=1e-5)


@pytest.mark.parametrize(("text", "loss"), LEFT.values(), ids=LEFT)
def test_what_is_not_the_same_in_torch_is_left(text: str, loss: str) -> None:
    before = program(text, loss)
    mended = mend(Program.of(before, "program.py"), all_codemods())
    assert [fact.code for fact in mended.left] == ["AF400"]
    assert mended.patched.files[0].text == before


@pytest.mark.parametrize("text", RIGHT.values(), ids=RIGHT)
def test_what_trains_is_no_finding(text: str) -> None:
    assert analyze(Program.of(program(text, ""), "program.py")).facts == ()


def test_a_library_that_measures_is_given_arrays() -> None:
    text = """
        from sklearn.metrics import accuracy_score
        for _ in range(5):
            p = torch.sigmoid(net(x)).detach().numpy()
            loss = torch.tensor(np.mean((p - y.numpy()) ** 2), requires_grad=True)
            accuracy = accuracy_score(y.numpy()[:, 0] > 0, p[:, 0] > 0.5)
            opt.zero_grad(); loss.backward(); opt.step()
            print(accuracy)
        """
    mended = mend(Program.of(program(text, ""), "program.py"), all_codemods())
    assert mended.left == (), mended.refused
    after = mended.patched.files[0].text
    assert "loss = torch.mean((p - y) ** 2)" in after
    assert "accuracy_score(y.numpy()[:, 0] > 0, (p[:, 0] > 0.5).detach().numpy())" in after


def test_a_formula_in_a_file_of_its_own() -> None:
    """The arguments that the script hands over, and its use of the result, change with the formula."""
    formula = """
        import numpy as np
        import torch
        def spectrum(wave):
            return np.abs(np.fft.rfft(wave * np.hanning(wave.shape[-1])))
        """
    script = """
        from formula import spectrum
        aim = torch.from_numpy(spectrum(y.numpy()))
        """
    text = program(script, "crit(torch.from_numpy(spectrum(net(x).detach().numpy())), aim)")
    mended = mend(Program.of(text, "train.py", {"formula.py": textwrap.dedent(formula)}), all_codemods())
    assert mended.left == (), mended.refused
    train, formula = (file.text for file in mended.patched.files)
    assert "aim = spectrum(y)" in train
    assert "loss = crit(spectrum(net(x)), aim)" in train
    assert "torch.abs(torch.fft.rfft(wave * torch.hann_window(wave.shape[-1], periodic=False)))" in formula
