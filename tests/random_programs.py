"""Small random training loops, in which states, stores, views and changes in place meet as nobody would write them."""

from __future__ import annotations

import random

HEAD = """\
import torch
import torch.nn.functional as F
from collections import deque
from torch import nn
torch.manual_seed(0)
net = nn.Linear(4, 4)
cell = nn.GRUCell(4, 4)
act = nn.{activation}({flag})
w = nn.Parameter(torch.randn(4))
bn = nn.BatchNorm1d(4)
ln = nn.LayerNorm(4)
drop = nn.Dropout(0.0, inplace=True)
quiet = nn.Dropout(0.5, inplace=True).eval()
loud = nn.Dropout(0.5, inplace=True)
seq = nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True), nn.Linear(4, 4))
opt = torch.optim.SGD([*net.parameters(), *seq.parameters(), *cell.parameters(), w], lr=0.01)
class Box:
    pass
box = Box()
box.h = torch.zeros(3, 4)
h = torch.zeros(3, 4)
base = torch.ones(3, 4)
history = []
ring = deque(maxlen=2)
bank = {{"a": torch.zeros(3, 4)}}
rows = torch.zeros(3, 4)
mean = torch.zeros(4)
for step in range(6):
    x = torch.randn(3, 4)
"""
OPERATIONS = """\
net(A)
net(A)
cell(A, B)
torch.sigmoid(A)
A.tanh()
A.exp()
F.relu(A)
A.softmax(1)
A.sin()
A ** 2
A + B
A - B
A * B
A / (B ** 2 + 1)
A * w
A + w
act(A)
-A
A * 2
A.clone()
torch.cat([A[:1], B[1:]])
torch.stack([A, B]).mean(0)
torch.where(A > 0, A, B)
A.clamp(-1, 1)
A.detach()
F.dropout(A, 0.5)
A.view(4, 3).view(3, 4)
A.reshape(3, 4)
A.t().t()
torch.abs(A)
F.layer_norm(A, (4,))
A - A.mean(0)
torch.matmul(A, B.t()).matmul(A)
A.t().contiguous().t()
A.t().reshape(3, 4)
A.view(2, 6).reshape(3, 4)
A[:, :2].contiguous().repeat(1, 2)
A[:, :2].repeat(1, 2)
A.expand(2, 3, 4)[1]
A.expand(2, 3, 4).reshape(6, 4)[:3]
A.flatten().view(3, 4)
A.T.flatten().view(3, 4)
A.unsqueeze(1).squeeze(1)
torch.cat(A.chunk(2, 1), 1)
torch.stack(A.unbind(0))
A.gather(1, torch.zeros(3, 4, dtype=torch.long))
A[[0, 1, 2]]
A.roll(1, 0)
A.masked_fill(B > 0, 0.0)
A.index_select(0, torch.tensor([0, 1, 2]))
F.dropout(A, 0.0)
F.gelu(A)
F.silu(A)
F.softplus(A)
A.log_softmax(1)
F.normalize(A)
A.float()
A.double().float()
A.contiguous()
A.type_as(B)
torch.max(A, B)
torch.lerp(A, B, 0.5)
torch.lerp(A, B, B)
torch.addcmul(A, A, B)
A.cumsum(0)
A.norm(dim=1, keepdim=True) * A
torch.einsum('ij,ij->ij', A, B)
F.linear(A, net.weight)
bn(A)
ln(A)
drop(A)
quiet(A)
seq(A)
seq(A)
A.max(1, keepdim=True)[0] * A
F.glu(torch.cat([A, B], 1), 1)
A.pow(1)
A[None].contiguous()[0]
A.permute(1, 0).contiguous().view(3, 4)
A.view(3, 2, 2).transpose(1, 2).reshape(3, 4)
A.view(3, 2, 2).transpose(1, 2).contiguous().view(3, 4)
A.view(3, 2, 2).flatten(1)
A[:2].reshape(-1).view(2, 4).sum(0) + A
torch.where(B > 0, A, 0.0)
A.diff(dim=0).sum() * A
A.abs().sqrt()
(A > 0) * A
A.data * B
A.detach() * B
A.mean(0, keepdim=True).expand(3, 4)
A.mean(0, keepdim=True).expand(3, 4).contiguous()""".splitlines()
SMALL = "A[0]|A.mean(0)|A.sum(0)|A[:, 0].sum()|w|A.max()|0.5|A.mean()|A[-1]|A.unbind(0)[1]|A.select(0, 1)".split("|")
IN_PLACE = """\
A += B
A *= 2
A -= 0.1
A *= B
A.add_(B)
A.mul_(0.5)
A[0] = 0
A[0] = S
A[:, 1] = B[:, 0]
A[1:] += 1
A.clamp_(min=0)
F.relu(A, inplace=True)
A.zero_()
A.copy_(B)
A.masked_fill_(B > 0, 0.0)
A.view(-1)[0] = 1.0
A.t().mul_(2)
A[0].add_(S)
A.tanh_()
A.data.mul_(0.9)
with torch.no_grad(): A.mul_(0.9)
A.index_add_(0, torch.tensor([0, 2]), B[:2])
rows[step % 3] = S
rows[step % 3].copy_(A[0])
A.t().contiguous().mul_(2)
A.t().reshape(-1).mul_(2)
A.reshape(4, 3).mul_(2)
A.flatten().zero_()
A[:, :2].contiguous().zero_()
A.view(3, 2, 2).transpose(1, 2).reshape(3, 4).mul_(2)
A.sub_(B)
A.div_(2)
A.exp_()
A.sigmoid_()
A.neg_()
A.fill_(0)
A[A > 0] = 0
A[0, 0] = 1
A[1:, :2] *= 2
A.addcmul_(B, B)
A.lerp_(B, 0.1)
drop(A)
quiet(A)
loud(A)
F.dropout(A, 0.3, inplace=True)
F.dropout(A, 0.3, training=False, inplace=True)
torch.relu_(A)
F.elu_(A)
A.index_fill_(0, torch.tensor([0]), 0.0)
A.scatter_(1, torch.zeros(3, 1, dtype=torch.long), 0.5)
A.narrow(0, 0, 1).mul_(2)
A.select(0, 1).copy_(B[0])
A.diagonal().zero_()
A.data.copy_(B)
A.contiguous().add_(1)
A.clone().add_(1)
A.detach().mul_(2)
A.float().mul_(2)
A.double().mul_(2)
A[[0, 1]].mul_(2)
A[0:2].mul_(2)
A.expand(2, 3, 4).contiguous().mul_(2)""".splitlines()
STORES = """\
history.append(A)
history.append(A.detach())
ring.append(A)
ring.append(A.detach())
bank["a"] = A
bank["a"] = A.detach()
bank["b"] = A
h = A
h = A.detach()
box.h = A
box.h = A.detach()
base = A
mean = 0.9 * mean + 0.1 * A.mean(0)
mean = 0.9 * mean + 0.1 * A.mean(0).detach()
history[-1:] = [A]
bank.setdefault("c", A)
history.insert(0, A)
rows = A
rows = rows.detach()
history = history[-2:]
history.clear()
ring.clear()
bank.pop("b", None)
h = h.detach()
box.h = box.h.detach()
history = [t.detach() for t in history]
bank = {k: t.detach() for k, t in bank.items()}
if step % 2 == 1: history.clear()
if step % 2 == 1: h = h.detach()""".splitlines()
USES = """\
sum(history, 0 * x)
torch.stack([x, *history]).mean(0)
sum(ring, 0 * x)
bank["a"] + bank.get("b", x)
x + mean
x * mean
rows * 1
rows + x
history[-1] if history else x
history[0] * x if history else x
torch.cat([*ring, x])[-3:]
h * x
box.h + x
bank.get("c", x).sin()""".splitlines()
ACTIVATIONS = ("ReLU", "Tanh", "ELU", "LeakyReLU", "Sigmoid")


class Writer:
    """Writes the program of one seed; all tensors are of shape (3, 4), but for single rows and numbers."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._names = ["t0"]
        self._changes = self._random.choice((0.0, 0.12, 0.2))

    def program(self) -> str:
        chance = self._random.random
        activation = self._random.choice(ACTIVATIONS)
        flag = "inplace=True" if activation.endswith("LU") and chance() < 0.4 else ""
        lines = ["t0 = net(x)", *(self._statement() for _ in range(self._random.randrange(1, 6)))]
        terms = self._random.sample(self._names, min(len(self._names), self._random.randrange(1, 4)))
        lines.append("loss = " + " + ".join(f"{one}.{self._random.choice(('pow(2).', ''))}mean()" for one in terms))
        if chance() < 0.15:
            lines.append(self._statement())
        if chance() < 0.8:
            lines.append("opt.zero_grad()")
        lines.append("loss.backward(retain_graph=True)" if chance() < 0.15 else "loss.backward()")
        if chance() < 0.85:
            lines.append("opt.step()")
        lines += [self._filled(self._random.choice(STORES)) for _ in range(self._random.randrange(0, 3))]
        return HEAD.format(activation=activation, flag=flag) + "".join(f"    {line}\n" for line in lines)

    def _statement(self) -> str:
        kind = self._random.random()
        if kind < 0.5:
            return self._given(self._random.choice(OPERATIONS), self._random.random() < 0.25)
        if kind < 0.5 + self._changes:
            return self._filled(self._random.choice(IN_PLACE))
        if kind < 0.85:
            return self._given(self._random.choice(USES), False)
        return self._filled(self._random.choice(STORES))

    def _given(self, expression: str, again: bool) -> str:
        """``t3 = ...``, or a name that is there already."""
        value = self._filled(expression)
        name = self._random.choice(self._names) if again else f"t{len(self._names)}"
        if name not in self._names:
            self._names.append(name)
        return f"{name} = {value}"

    def _filled(self, template: str) -> str:
        text = template.replace("S", self._random.choice(SMALL)) if template.endswith(("= S", "(S)")) else template
        first, second = self._operand(), self._operand()
        return "".join({"A": first, "B": second}.get(part, part) for part in _parts(text))

    def _operand(self) -> str:
        if self._random.random() < 0.85:
            return self._random.choice(self._names)
        return self._random.choice(("x", "x", "h", "box.h", "base", 'bank["a"]'))


def _parts(template: str) -> list[str]:
    """A template in pieces of which the operands are ones by themselves."""
    found: list[str] = [""]
    for at, letter in enumerate(template):
        around = template[at - 1 : at] + template[at + 1 : at + 2]
        if letter in "AB" and not any(one.isalnum() or one in "_\"'" for one in around):
            found += [letter, ""]
        else:
            found[-1] += letter
    return found
