"""Patches that keep the author's intention: sums, histories, memories, weights and cuts of the script."""

from __future__ import annotations

import difflib
import textwrap

import pytest

from autofix.codemods.facts.base import Certainty
from autofix.codemods.interpreter.analysis import analyze
from autofix.codemods.repair import mend
from autofix.codemods.rules.registry import all_codemods
from autofix.codemods.source.program import Program

HEADER = """\
import argparse
import copy
import random
from collections import deque, namedtuple
from typing import NamedTuple
import torch
from torch import nn
from torch.func import functional_call
from torch.nn import functional as F
from torch.utils import _pytree as pytree
"""

CHANGES = {
    "a running sum is sent back after its loop": (
        """
        cell, out = nn.GRUCell(3, 6), nn.Linear(6, 4)
        opt = torch.optim.SGD([*cell.parameters(), *out.parameters()], 0.05)
        for epoch in range(4):
            opt.zero_grad()
            h, loss = torch.zeros(2, 6), 0
            for t in range(5):
                h = cell(torch.randn(2, 3), h)
                loss += F.cross_entropy(out(h), torch.randint(0, 4, (2,)))
                loss.backward()
            opt.step()
        """,
        ["-        loss.backward()", "+    loss.backward()"],
    ),
    **{
        f"{sums}, is sent back after its loop": (
            f"""
            cell, out = nn.GRUCell(3, 6), nn.Linear(6, 4)
            opt = torch.optim.SGD([*cell.parameters(), *out.parameters()], 0.05)
            for epoch in range(4):
                opt.zero_grad()
                h, losses, loss = torch.zeros(2, 6), [], None
                for t in range(5):
                    h = cell(torch.randn(2, 3), h)
                    part = F.cross_entropy(out(h), torch.randint(0, 4, (2,)))
                    losses.append(part)
                    loss = {sums}
                    loss.backward()
                opt.step()
            """,
            [
                *(f"-        loss = {sums}" for _ in range(moves)),
                "-        loss.backward()",
                *(f"+    loss = {sums}" for _ in range(moves)),
                "+    loss.backward()",
            ],
        )
        for sums, moves in (
            ("sum(losses)", 1),
            ("torch.stack(losses).sum()", 1),
            ("part if loss is None else loss + part", 0),
        )
    },
    "two names that change places stand for each other's tensors": (
        """
        class Coupling(nn.Module):
            def __init__(self):
                super().__init__()
                self.net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 4))
            def forward(self, x):
                a, b = x.chunk(2, 1)
                if x.size(0) > 4:
                    a, b = b, a
                s, t = self.net(a).chunk(2, 1)
                b *= s.exp()
                b += t
                return torch.cat((b, a), 1)
        flow = nn.Sequential(Coupling(), Coupling())
        opt = torch.optim.Adam(flow.parameters(), 1e-2)
        for step in range(4):
            opt.zero_grad()
            flow(torch.randn(8, 4) * 2 + 1).pow(2).mean().backward()
            opt.step()
        """,
        ["-        b *= s.exp()", "+        b = b * s.exp()"],
    ),
    "the statement that adds to a running sum stays in its loop": (
        """
        cell, out = nn.GRUCell(3, 6), nn.Linear(6, 4)
        opt = torch.optim.SGD([*cell.parameters(), *out.parameters()], 0.05)
        def train(xs, ys):
            opt.zero_grad()
            h, loss = torch.zeros(2, 6), 0
            for x, y in zip(xs, ys):
                h = cell(x, h)
                loss = loss + F.cross_entropy(out(h), y)
                loss.backward()
            opt.step()
            return loss.item() / len(xs)
        for epoch in range(4):
            print(train(torch.randn(5, 2, 3), torch.randint(0, 4, (5, 2))))
        """,
        ["-        loss.backward()", "+    loss.backward()"],
    ),
    "a term of a sum is not sent back by itself": (
        """
        net = nn.Linear(3, 2)
        opt = torch.optim.Adam(net.parameters(), 1e-2)
        for epoch in range(3):
            x, y = torch.randn(8, 3), torch.randint(0, 2, (8,))
            opt.zero_grad()
            first = F.cross_entropy(net(x[:4]), y[:4])
            first.backward()
            second = F.cross_entropy(net(x[4:]), y[4:])
            (first + second).backward()
            opt.step()
        """,
        ["-    first.backward()"],
    ),
    "a history that is filled once in an episode is no companion of the log-probabilities": (
        """
        class Agent(nn.Module):
            def __init__(self):
                super().__init__()
                self.policy = nn.Linear(3, 2)
                self.log_probs, self.rewards, self.returns = [], [], []
        agent = Agent()
        opt = torch.optim.Adam(agent.parameters(), 1e-2)
        for episode in range(4):
            for t in range(5):
                drawn = torch.distributions.Categorical(logits=agent.policy(torch.randn(3)))
                action = drawn.sample()
                agent.log_probs.append(drawn.log_prob(action))
                agent.rewards.append(float(action))
            total = sum(agent.rewards)
            agent.returns.append(total)
            loss = torch.stack([-one * total for one in agent.log_probs]).sum()
            opt.zero_grad()
            loss.backward()
            opt.step()
            agent.rewards = []
        print(sum(agent.returns) / len(agent.returns))
        """,
        ["+    agent.log_probs.clear()"],
    ),
    "rewards that are filled from outside are emptied with the log-probabilities": (
        """
        class Agent(nn.Module):
            def __init__(self):
                super().__init__()
                self.policy = nn.Linear(3, 2)
                self.log_probs, self.rewards = [], []
                self.returns, self.losses = [], []
            def act(self, state):
                drawn = torch.distributions.Categorical(logits=self.policy(state))
                action = drawn.sample()
                self.log_probs.append(drawn.log_prob(action))
                return action.item()
            def update(self):
                total = sum(self.rewards)
                self.returns.append(total)
                loss = sum(-one * total for one in self.log_probs)
                opt.zero_grad()
                loss.backward()
                opt.step()
                self.losses.append(loss.item())
        agent = Agent()
        opt = torch.optim.Adam(agent.parameters(), 1e-2)
        for episode in range(4):
            for t in range(5):
                agent.rewards.append(agent.act(torch.randn(3)) - 0.5)
            agent.update()
        print(agent.returns[-1], sum(agent.losses) / 4)
        """,
        ["+        self.log_probs.clear()", "+        self.rewards.clear()"],
    ),
    "features that hooks of a constructor keep are emptied together": (
        """
        class Distiller:
            def __init__(self, student, teacher):
                self.student, self.teacher = student, teacher
                self.mine, self.goals = [], []
                student[1].register_forward_hook(lambda module, args, out: self.mine.append(out))
                teacher[1].register_forward_hook(lambda module, args, out: self.goals.append(out))
                self.opt = torch.optim.SGD(student.parameters(), 0.05)
            def step(self, x):
                loss = self.student(x).pow(2).mean()
                self.teacher(x)
                for i in range(len(self.mine)):
                    loss = loss + F.mse_loss(self.mine[i], self.goals[i])
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()
        student = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 3))
        teacher = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 3)).requires_grad_(False)
        distiller = Distiller(student, teacher)
        for step in range(5):
            distiller.step(torch.randn(10, 6))
        """,
        ["+        self.mine.clear()", "+        self.goals.clear()"],
    ),
    "a weighted mean is the sum of its shares": (
        """
        criterion = nn.CrossEntropyLoss(reduction="none")
        net = nn.Linear(4, 3)
        opt = torch.optim.SGD(net.parameters(), 0.1)
        for step in range(4):
            x, y, w = torch.randn(8, 4), torch.randint(0, 3, (8,)), torch.rand(8)
            loss = criterion(net(x), y) * w / w.sum()
            opt.zero_grad()
            loss.backward()
            opt.step()
        """,
        ["-    loss = criterion(net(x), y) * w / w.sum()", "+    loss = (criterion(net(x), y) * w / w.sum()).sum()"],
    ),
    "shares that have a name": (
        """
        net = nn.Linear(4, 3)
        opt = torch.optim.SGD(net.parameters(), 0.1)
        def train(x, y, w):
            shares = w / torch.sum(w)
            loss = shares * F.cross_entropy(net(x), y, reduction="none")
            opt.zero_grad()
            loss.backward()
            opt.step()
        for step in range(4):
            train(torch.randn(8, 4), torch.randint(0, 3, (8,)), torch.rand(8))
        """,
        [
            '-    loss = shares * F.cross_entropy(net(x), y, reduction="none")',
            '+    loss = (shares * F.cross_entropy(net(x), y, reduction="none")).sum()',
        ],
    ),
    "a sum over one dimension makes no shares": (
        """
        net = nn.Linear(4, 3)
        opt = torch.optim.SGD(net.parameters(), 0.1)
        for step in range(4):
            x, w = torch.randn(8, 4), torch.rand(8, 3)
            loss = net(x) * w / w.sum(1, keepdim=True)
            opt.zero_grad()
            loss.backward()
            opt.step()
        """,
        [
            "-    loss = net(x) * w / w.sum(1, keepdim=True)",
            "+    loss = (net(x) * w / w.sum(1, keepdim=True)).mean()",
        ],
    ),
    "a weight keeps the author's cut": (
        """
        net, weigher = nn.Linear(3, 2), nn.Sequential(nn.Linear(1, 4), nn.ReLU(), nn.Linear(4, 1), nn.Sigmoid())
        opt = torch.optim.SGD(net.parameters(), 0.1)
        weigher_opt = torch.optim.Adam(weigher.parameters(), 1e-2)
        for step in range(4):
            x, y = torch.randn(8, 3), torch.randint(0, 2, (8,))
            cost = F.cross_entropy(net(x), y, reduction="none")
            w = weigher(cost.detach().view(-1, 1)).squeeze(1)
            weigher_opt.zero_grad()
            (w.mean() - 0.5).pow(2).backward()
            weigher_opt.step()
            cost = F.cross_entropy(net(x), y, reduction="none")
            opt.zero_grad()
            (cost * w).mean().backward()
            opt.step()
        """,
        ["-    (cost * w).mean().backward()", "+    (cost * w.detach()).mean().backward()"],
    ),
    "two losses of one sample, and no step between them, are of one sample still": (
        """
        enc, dec = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5)), nn.Linear(4, 3)
        first, second = (torch.optim.SGD(one.parameters(), 0.05) for one in (enc, dec))
        for step in range(3):
            x = torch.randn(5, 3)
            z = enc(x) + 0.1 * torch.randn(5, 4)
            prior = z.pow(2).mean()
            rebuilt = (dec(z) - x).pow(2).mean()
            first.zero_grad()
            second.zero_grad()
            prior.backward()
            rebuilt.backward()
            first.step()
            second.step()
        """,
        ["-    prior.backward()", "+    prior.backward(retain_graph=True)"],
    ),
    "a batch is not taken from its iterator again": (
        """
        enc, head = nn.Linear(4, 6), nn.Linear(6, 2)
        opt = torch.optim.SGD([*enc.parameters(), *head.parameters()], 0.05)
        stream = iter([(torch.randn(8, 4), torch.randint(0, 2, (8,))) for _ in range(30)])
        for epoch in range(3):
            features, y = enc(next(stream)[0]), next(stream)[1]
            for k in range(2):
                loss = F.cross_entropy(head(features), y)
                opt.zero_grad()
                loss.backward()
                opt.step()
        """,
        [],
    ),
    "a state is cut between updates, not in the loop whose steps are read backwards": (
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.cell, self.value = nn.LSTMCell(3, 6), nn.Linear(6, 1)
            def forward(self, x, state):
                h, c = self.cell(x, state)
                return self.value(h), (h, c)
        net = Net()
        opt = torch.optim.SGD(net.parameters(), 1e-2)
        state = (torch.zeros(2, 6), torch.zeros(2, 6))
        for update in range(4):
            values = []
            for t in range(4):
                value, state = net(torch.randn(2, 3), state)
                values.append(value)
            loss = 0
            for t in reversed(range(4)):
                loss = loss + values[t].pow(2).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
        """,
        ["+    state = tuple(layer.detach() for layer in state)"],
    ),
    "an advantage is a number to the policy, by whatever name it is handed on": (
        """
        actor, critic = nn.Linear(4, 2), nn.Linear(4, 1)
        opt = torch.optim.Adam([*actor.parameters(), *critic.parameters()], 1e-2)
        def update(advantages, log_probs, returns, values):
            policy_loss = -(advantages * log_probs).sum()
            value_loss = F.smooth_l1_loss(returns, values).sum()
            opt.zero_grad()
            policy_loss.backward()
            value_loss.backward()
            opt.step()
        for episode in range(3):
            log_probs, values, returns = [], [], torch.rand(5, 1)
            for t in range(5):
                state = torch.randn(4)
                drawn = torch.distributions.Categorical(F.softmax(actor(state), -1))
                log_probs.append(drawn.log_prob(drawn.sample()))
                values.append(critic(state))
            values = torch.stack(values)
            update(returns - values, torch.stack(log_probs), returns, values)
        """,
        [
            "-    policy_loss = -(advantages * log_probs).sum()",
            "+    policy_loss = -(advantages.detach() * log_probs).sum()",
        ],
    ),
    "a keyword goes among the unpacked ones": (
        """
        trunk = nn.Sequential(nn.Linear(3, 6), nn.Tanh())
        heads = nn.ModuleList(nn.Linear(6, 1) for _ in range(3))
        opt = torch.optim.SGD([*trunk.parameters(), *heads.parameters()], lr=0.05)
        for step in range(4):
            features = trunk(torch.randn(8, 3))
            opt.zero_grad()
            for i, head in enumerate(heads):
                options = {} if i == 1 else {"retain_graph": True}
                head(features).pow(2).mean().backward(**options)
            opt.step()
        """,
        [
            "-        head(features).pow(2).mean().backward(**options)",
            '+        head(features).pow(2).mean().backward(**{**options, "retain_graph": True})',
        ],
    ),
    "weights of meta-learning are not changed under no_grad": (
        """
        net = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
        meta = torch.optim.Adam(net.parameters(), 5e-3)
        def loss_of(params, x, y):
            return F.mse_loss(functional_call(net, params, (x,)), y)
        for step in range(4):
            meta.zero_grad()
            x, y = torch.randn(10, 1), torch.randn(10, 1)
            fast = dict(net.named_parameters())
            grads = torch.autograd.grad(loss_of(fast, x[:5], y[:5]), list(fast.values()), create_graph=True)
            for p, g in zip(fast.values(), grads):
                p -= 0.05 * g
            loss_of(fast, x[5:], y[5:]).backward()
            meta.step()
        """,
        [],
    ),
    "a memory of limited length beside another one is not emptied": (
        """
        class Memory:
            def __init__(self, size):
                self.items, self.priorities = deque(maxlen=size), deque(maxlen=size)
            def push(self, item):
                self.items.append(item)
                self.priorities.append(1.0)
            def drawn(self, count):
                weights = torch.tensor(list(self.priorities))
                index = torch.multinomial(weights / weights.sum(), count)
                return [torch.stack(one) for one in zip(*[self.items[i] for i in index.tolist()])]
        q = nn.Linear(3, 2)
        opt = torch.optim.Adam(q.parameters(), 1e-2)
        memory = Memory(50)
        for t in range(40):
            state = torch.randn(3)
            memory.push((state, 0.1 * q(state)[0]))
            if t < 12:
                continue
            states, wanted = memory.drawn(6)
            loss = (q(states)[:, 0] - wanted).pow(2).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
        """,
        [],
    ),
    "the optimizer of a subclass that has no constructor": (
        """
        class Clipped(torch.optim.Adam):
            def step(self, closure=None):
                nn.utils.clip_grad_norm_(self.param_groups[0]["params"], 1.0)
                return super().step(closure)
        policy, critic = nn.Linear(4, 2), nn.Linear(6, 1)
        policy_opt, critic_opt = Clipped(policy.parameters(), lr=3e-4), Clipped(critic.parameters(), lr=3e-4)
        for step in range(3):
            x, y = torch.randn(16, 4), torch.randn(16, 1)
            act = policy(x)
            policy_loss = -critic(torch.cat([x, act], 1)).mean()
            critic_loss = (critic(torch.cat([x, act.detach()], 1)) - y).pow(2).mean()
            critic_opt.zero_grad()
            critic_loss.backward()
            critic_opt.step()
            policy_opt.zero_grad()
            policy_loss.backward()
            policy_opt.step()
        """,
        [
            "-    policy_loss = -critic(torch.cat([x, act], 1)).mean()",
            "+    policy_loss = -critic(torch.cat([x, act], 1)).mean()",
        ],
    ),
    "layers that are found by an unknown number in their names": (
        """
        parser = argparse.ArgumentParser()
        parser.add_argument("--scales", type=int, default=2)
        args = parser.parse_args()
        class Scales(nn.Module):
            def __init__(self, count):
                super().__init__()
                self.count = count
                for i in range(count):
                    setattr(self, "scale" + str(i) + "_out", nn.Linear(4, 4))
            def forward(self, x):
                return [getattr(self, f"scale{self.count - 1 - i}_out")(x) for i in range(self.count)]
        gen, critic = nn.Linear(4, 4), Scales(args.scales)
        gen_opt, critic_opt = torch.optim.Adam(gen.parameters()), torch.optim.Adam(critic.parameters())
        for step in range(3):
            x = torch.randn(16, 4)
            made = gen(x)
            critic_loss = sum(one.mean() for one in critic(made.detach())) - sum(one.mean() for one in critic(x))
            gen_loss = -sum(one.pow(2).mean() for one in critic(made))
            critic_opt.zero_grad()
            critic_loss.backward()
            critic_opt.step()
            gen_opt.zero_grad()
            gen_loss.backward()
            gen_opt.step()
        """,
        [
            "-    gen_loss = -sum(one.pow(2).mean() for one in critic(made))",
            "+    gen_loss = -sum(one.pow(2).mean() for one in critic(made))",
        ],
    ),
    **{
        f"a named tuple that is made by {made}": (
            f"""
            class State(NamedTuple):
                h: torch.Tensor
                c: torch.Tensor
                @classmethod
                def zeros(cls):
                    return cls(torch.zeros(3, 6), torch.zeros(3, 6))
            cell = nn.LSTMCell(2, 6)
            opt = torch.optim.SGD(cell.parameters(), 0.05)
            state = State.zeros()
            for step in range(4):
                state = {made}(cell(torch.randn(3, 2), state))
                opt.zero_grad()
                state.h.square().mean().backward()
                opt.step()
            """,
            ["+    state = type(state)(*(layer.detach() for layer in state))"],
        )
        for made in ("State._make", "(lambda pair: State(*pair))", "(lambda pair: State(c=pair[1], h=pair[0]))")
    },
    **{
        f"the update by {losses} of a sequence comes out of the loop over its steps": (
            f"""
            cell, out = nn.GRUCell(3, 6), nn.Linear(6, 1)
            opt = torch.optim.Adam([*cell.parameters(), *out.parameters()], 1e-3)
            h = torch.zeros(2, 6)
            for it in range(4):
                parts = []
                for t in range(5):
                    h = cell(torch.randn(2, 3), h)
                    parts.append({part})
                    loss = {losses}
                    opt.zero_grad(); loss.backward(); opt.step()
                h = h.detach()
            """,
            [
                f"-        loss = {losses}",
                "-        opt.zero_grad(); loss.backward(); opt.step()",
                f"+    loss = {losses}",
                "+    opt.zero_grad(); loss.backward(); opt.step()",
            ],
        )
        for part, losses in (
            ("out(h).pow(2).mean()", "torch.stack(parts).mean()"),
            ("out(h)", "F.mse_loss(torch.cat(parts, 1), torch.zeros(2, t + 1))"),
        )
    },
    "an update by a running sum comes out of the loop, and a report stays in it": (
        """
        class Trainer:
            def __init__(self):
                self.rnn, self.fc = nn.LSTMCell(3, 6), nn.Linear(6, 2)
                self.opt = torch.optim.SGD([*self.rnn.parameters(), *self.fc.parameters()], 0.1)
            def fit(self, seq):
                self.state, loss = (torch.zeros(2, 6), torch.zeros(2, 6)), 0
                for x in seq:
                    self.opt.zero_grad()
                    self.state = self.rnn(x, self.state)
                    loss = loss + self.fc(self.state[0]).pow(2).mean()
                    loss.backward()
                    nn.utils.clip_grad_norm_(self.rnn.parameters(), 1.0)
                    self.opt.step()
                    print(loss.item())
        trainer = Trainer()
        for epoch in range(3):
            trainer.fit(torch.randn(5, 2, 3))
        """,
        [
            "-            self.opt.zero_grad()",
            "-            loss.backward()",
            "-            nn.utils.clip_grad_norm_(self.rnn.parameters(), 1.0)",
            "-            self.opt.step()",
            "+        self.opt.zero_grad()",
            "+        loss.backward()",
            "+        nn.utils.clip_grad_norm_(self.rnn.parameters(), 1.0)",
            "+        self.opt.step()",
        ],
    ),
    "an update by each batch of a loader stays in its loop": (
        """
        cell, out = nn.GRUCell(3, 6), nn.Linear(6, 1)
        opt = torch.optim.Adam([*cell.parameters(), *out.parameters()], 1e-3)
        loader = torch.utils.data.DataLoader(torch.randn(20, 3), batch_size=2)
        for epoch in range(4):
            h, losses = torch.zeros(2, 6), []
            for x in loader:
                h = cell(x, h)
                losses.append(out(h).pow(2).mean())
                opt.zero_grad()
                sum(losses).backward()
                opt.step()
        """,
        ["+        h = h.detach()", "+        losses[-1] = losses[-1].detach()"],
    ),
    "a loss without a name leaves the loop, too": (
        """
        cell, out = nn.GRUCell(3, 6), nn.Linear(6, 1)
        opt = torch.optim.Adam([*cell.parameters(), *out.parameters()], 1e-3)
        for epoch in range(4):
            h, losses = torch.zeros(2, 6), []
            for t in range(6):
                h = cell(torch.randn(2, 3), h)
                losses.append(out(h).pow(2).mean())
                opt.zero_grad()
                sum(losses).backward()
                opt.step()
        """,
        [
            *(f"-        {line}" for line in ("opt.zero_grad()", "sum(losses).backward()", "opt.step()")),
            *(f"+    {line}" for line in ("opt.zero_grad()", "sum(losses).backward()", "opt.step()")),
        ],
    ),
    **{
        f"a state that is written over by {how} is collected in a list": (
            f"""
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.cell = nn.GRUCell(3, 5)
                def forward(self, x):
                    h, outs = torch.zeros(2, 5), []
                    for t in range(x.shape[1]):
                        {how}
                        outs.append(h)
                    return torch.stack(outs, 1)
            net = Net()
            opt = torch.optim.Adam(net.parameters(), 1e-2)
            for _ in range(3):
                loss = net(torch.randn(2, 6, 3)).pow(2).mean()
                opt.zero_grad()
                loss.backward()
                opt.step()
            """,
            [f"-            {how}", f"+            h = {value}"],
        )
        for how, value in (
            ("h[:] = self.cell(x[:, t], h)", "self.cell(x[:, t], h)"),
            ("h.copy_(0.5 * h + torch.tanh(self.cell(x[:, t], h)))", "0.5 * h + torch.tanh(self.cell(x[:, t], h))"),
        )
    },
    "what is written into all of a tensor may be smaller": (
        """
        net = nn.Linear(4, 4)
        opt = torch.optim.SGD(net.parameters(), 0.1)
        for _ in range(3):
            z, outs = torch.randn(2, 4), []
            for t in range(4):
                z[:] = torch.sigmoid(net(z)).mean(0)
                outs.append(z)
            loss = torch.stack(outs).pow(2).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
        """,
        [],
    ),
    **{
        f"a frozen teacher follows its student by {update} without no_grad": (
            f"""
            student = nn.Linear(3, 2)
            teacher = copy.deepcopy(student)
            for p in teacher.parameters():
                p.requires_grad = False
            opt = torch.optim.SGD(student.parameters(), 0.1)
            def follow(rate):
                for q, p in zip(teacher.parameters(), student.parameters()):
                    {update}
            for step in range(5):
                x = torch.randn(4, 3)
                loss = (student(x) - teacher(x)).square().mean()
                opt.zero_grad()
                loss.backward()
                opt.step()
                follow(0.1)
            """,
            [
                "-    for q, p in zip(teacher.parameters(), student.parameters()):",
                f"-        {update}",
                "+    with torch.no_grad():",
                "+        for q, p in zip(teacher.parameters(), student.parameters()):",
                f"+            {update}",
            ],
        )
        for update in (
            "q.mul_(1 - rate).add_(p, alpha=rate)",
            "q.copy_(rate * p + (1 - rate) * q)",
            "q += rate * (p - q)",
        )
    },
    "an encoder learns by what the critic sees of its code, too, and the generator's step comes between": (
        """
        E, G, D = nn.Linear(4, 3), nn.Linear(3, 4), nn.Sequential(nn.Linear(7, 1), nn.Sigmoid())
        opts = {name: torch.optim.Adam(one.parameters(), 1e-3) for name, one in (("E", E), ("G", G))}
        for step in range(4):
            x = torch.randn(5, 4)
            code = E(x)
            fake = G(code)
            score = D(torch.cat([fake, code], 1)).view(-1)
            loss = F.binary_cross_entropy(score, torch.ones(5)) + (fake - x).pow(2).mean()
            for one in opts.values():
                one.zero_grad()
            loss.backward()
            opts["G"].step()
            loss = F.binary_cross_entropy(score, torch.ones(5))
            loss.backward()
            opts["E"].step()
        """,
        [
            "-    loss.backward()",
            "+    loss.backward(retain_graph=True)",
            "+    fake = G(code)",
            "+    score = D(torch.cat([fake, code], 1)).view(-1)",
        ],
    ),
    "what is sent back before it is stored is a record, and not emptied": (
        """
        net = nn.Linear(4, 3)
        opt = torch.optim.SGD(net.parameters(), 0.05)
        seen = []
        for step in range(5):
            loss = net(torch.randn(6, 4)).pow(2).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            seen.append(loss)
            if step > 0:
                (0.01 * sum(seen)).backward()
        """,
        [
            "-    loss.backward()",
            "+    loss.backward(retain_graph=True)",
            "+        for index in range(len(seen)):",
            "+            seen[index] = seen[index].detach()",
        ],
    ),
    "a model that is frozen for its first epochs has nothing to train in them": (
        """
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.backbone, self.head = nn.Linear(4, 8), nn.Linear(8, 2)
            def freeze(self, on=True):
                for p in self.parameters():
                    p.requires_grad = not on
                return self
            def forward(self, x):
                return self.head(self.backbone(x).relu())
        model = Model().freeze()
        opt = torch.optim.Adam(model.head.parameters(), 1e-2)
        for epoch in range(4):
            if epoch == 2:
                model.freeze(False)
            loss = F.cross_entropy(model(torch.randn(8, 4)), torch.randint(0, 2, (8,)))
            opt.zero_grad()
            loss.backward()
            opt.step()
        """,
        ["+model.head.requires_grad_(True)"],
    ),
    "a distribution is made of detached tensors": (
        """
        net = nn.Linear(3, 4)
        opt = torch.optim.SGD(net.parameters(), 0.1)
        class Agent:
            def __init__(self):
                self.prior = torch.distributions.Normal(torch.zeros(2), torch.ones(2))
            def train(self, x):
                mean, raw = net(x).chunk(2, -1)
                now = torch.distributions.Normal(mean, F.softplus(raw))
                loss = torch.distributions.kl_divergence(now, self.prior).mean()
                opt.zero_grad()
                loss.backward()
                opt.step()
                self.prior = torch.distributions.Normal(now.loc, now.scale)
        agent = Agent()
        for x in torch.randn(4, 5, 3):
            agent.train(x)
        """,
        [
            "-        self.prior = torch.distributions.Normal(now.loc, now.scale)",
            "+        self.prior = torch.distributions.Normal(now.loc.detach(), now.scale.detach())",
        ],
    ),
    "a distribution has no detach": (
        """
        net = nn.Linear(3, 2)
        opt = torch.optim.SGD(net.parameters(), 0.1)
        kept = []
        for x in torch.randn(4, 5, 3):
            now = torch.distributions.Categorical(logits=net(x))
            loss = -now.entropy().mean()
            if kept:
                loss = loss + torch.distributions.kl_divergence(kept[-1], now).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            kept.append(now)
        """,
        ["+    now = type(now)(logits=now.logits.detach())"],
    ),
    **{
        f"a loss of nothing but a draw from {kind}": (
            f"""
            net = nn.Linear(3, 4)
            opt = torch.optim.SGD(net.parameters(), 0.1)
            for x in torch.randn(4, 5, 3):
                z = torch.distributions.{kind}(net(x)).sample()
                opt.zero_grad()
                z.pow(2).mean().backward()
                opt.step()
            """,
            changed,
        )
        for kind, changed in (
            ("Bernoulli", []),
            (
                "Exponential",
                [
                    "-    z = torch.distributions.Exponential(net(x)).sample()",
                    "+    z = torch.distributions.Exponential(net(x)).rsample()",
                ],
            ),
        )
    },
    "what the network gave before the training is a target": (
        """
        net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))
        opt = torch.optim.SGD(net.parameters(), 0.1)
        def tune(anchor, data):
            soft = F.softmax(net(anchor) / 2, 1)
            for x, y in data:
                now = F.log_softmax(net(anchor) / 2, 1)
                loss = F.cross_entropy(net(x), y) + F.kl_div(now, soft, reduction="batchmean")
                opt.zero_grad()
                loss.backward()
                opt.step()
        tune(torch.randn(6, 3), list(zip(torch.randn(4, 5, 3), torch.randint(2, (4, 5)))))
        """,
        ["-    soft = F.softmax(net(anchor) / 2, 1)", "+    soft = F.softmax(net(anchor) / 2, 1).detach()"],
    ),
    "two heads of one network are not compared": (
        """
        net, one, two = nn.Linear(3, 4), nn.Linear(4, 2), nn.Linear(4, 2)
        opt = torch.optim.SGD([*net.parameters(), *one.parameters(), *two.parameters()], 0.1)
        x = torch.randn(6, 3)
        h = net(x)
        for k in range(5):
            loss = one(h).pow(2).mean() + two(net(x)).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
        """,
        ["-h = net(x)", "+    h = net(x)"],
    ),
    "what is computed anew at the end of each epoch stays as it is in it": (
        """
        net = nn.Linear(3, 4)
        opt = torch.optim.SGD(net.parameters(), 0.1)
        x = torch.randn(5, 3)
        proto = net(x).mean(0)
        for epoch in range(3):
            for k in range(4):
                loss = (net(torch.randn(5, 3)) - proto).pow(2).mean()
                opt.zero_grad()
                loss.backward()
                opt.step()
            proto = net(x).mean(0)
        """,
        [
            "-proto = net(x).mean(0)",
            "+proto = net(x).mean(0).detach()",
            "-    proto = net(x).mean(0)",
            "+    proto = net(x).mean(0).detach()",
        ],
    ),
    "a prior that becomes the posterior after each task is not made for each batch": (
        """
        Normal = torch.distributions.Normal
        class Posterior(nn.Module):
            def __init__(self):
                super().__init__()
                self.mean, self.rho = nn.Parameter(torch.zeros(3)), nn.Parameter(torch.zeros(3))
                self.prior = Normal(torch.zeros(3), torch.ones(3))
            def now(self):
                return Normal(self.mean, F.softplus(self.rho))
            def next_task(self):
                self.prior = Normal(self.mean.detach(), self.now().scale)
        model = Posterior()
        opt = torch.optim.SGD(model.parameters(), 0.1)
        for task in range(3):
            for x in torch.randn(2, 4, 3):
                cost = torch.distributions.kl_divergence(model.now(), model.prior).sum()
                opt.zero_grad()
                ((x @ model.now().rsample() - 1).pow(2).mean() + cost).backward()
                opt.step()
            model.next_task()
        """,
        [
            "-        self.prior = Normal(self.mean.detach(), self.now().scale)",
            "+        self.prior = Normal(self.mean.detach(), self.now().scale.detach())",
        ],
    ),
    **{
        f"a moving average by {weights} behind the pass is a number to the next one": (
            f"""
            net = nn.Linear(3, 3)
            opt = torch.optim.SGD(net.parameters(), 0.1)
            m = 0.9
            def vector():
                return torch.cat([p.view(-1) for p in net.parameters()])
            mean = vector().detach()
            for x in torch.randn(4, 2, 3):
                loss = net(x).pow(2).mean() + 0.5 * (vector() - mean).pow(2).sum()
                opt.zero_grad()
                loss.backward()
                opt.step()
                mean = {weights}
            """,
            [f"-    mean = {weights}", f"+    mean = ({weights}).detach()"],
        )
        for weights in ("0.9 * mean + 0.1 * vector()", "(1 - m) * vector() + m * mean")
    },
    "a moving average of this very batch keeps the gradient of the batch": (
        """
        net = nn.Linear(3, 4)
        opt = torch.optim.SGD(net.parameters(), 0.1)
        mean = torch.zeros(4)
        for x in torch.randn(5, 6, 3):
            z = net(x)
            mean = 0.9 * mean + 0.1 * z.mean(0)
            loss = (z - mean).pow(2).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
        """,
        ["+    mean = mean.detach()"],
    ),
    **{
        f"{made} is a target of the loop": (
            f"""
            net = nn.Linear(3, 4)
            opt = torch.optim.SGD(net.parameters(), 0.1)
            s, following, r = torch.randn(6, 3), torch.randn(6, 3), torch.randn(6, 1)
            for iteration in range(3):
                target = {made}
                for k in range(3):
                    loss = {loss}
                    opt.zero_grad()
                    loss.backward()
                    opt.step()
            """,
            [f"-    target = {made}", f"+    target = {detached}.detach()"],
        )
        for made, detached, loss in (
            (
                "r + 0.9 * net(following).max(1, keepdim=True)[0]",
                "(r + 0.9 * net(following).max(1, keepdim=True)[0])",
                "F.smooth_l1_loss(net(s)[:, :1], target)",
            ),
            ("net(following).softmax(1)", "net(following).softmax(1)", "F.cross_entropy(net(s), target)"),
            ("net(following).mean(0)", "net(following).mean(0)", "(net(s) - target).pow(2).mean()"),
        )
    },
    "an anchor beside other outputs of its network is trained, too": (
        """
        net = nn.Linear(3, 4)
        opt = torch.optim.SGD(net.parameters(), 0.1)
        x = torch.randn(6, 3)
        anchor = net(x)
        for k in range(3):
            loss = F.triplet_margin_loss(anchor, net(torch.randn(6, 3)), net(torch.randn(6, 3)))
            opt.zero_grad()
            loss.backward()
            opt.step()
        """,
        ["-anchor = net(x)", "+    anchor = net(x)"],
    ),
    "random numbers are drawn once, and what is computed of them goes into the loop": (
        """
        gen, head = nn.Linear(3, 4), nn.Linear(4, 1)
        opt = torch.optim.SGD([*gen.parameters(), *head.parameters()], 0.1)
        y = torch.randn(5, 1)
        code = gen(torch.randn(5, 3)).tanh()
        for k in range(3):
            loss = F.mse_loss(head(code), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
        """,
        ["-code = gen(torch.randn(5, 3)).tanh()", "+noise = torch.randn(5, 3)", "+    code = gen(noise).tanh()"],
    ),
    **{
        f"weights by {softmax} have a sum of one": (
            f"""
            net = nn.Linear(3, 4)
            opt = torch.optim.SGD(net.parameters(), 0.1)
            for k in range(3):
                x, y = torch.randn(6, 3), torch.randint(4, (6,))
                w = {softmax}
                loss = w * F.cross_entropy(net(x), y, reduction="none")
                opt.zero_grad()
                loss.backward()
                opt.step()
            """,
            changed,
        )
        for softmax, changed in (
            (
                "torch.softmax(torch.rand(6), 0)",
                [
                    '-    loss = w * F.cross_entropy(net(x), y, reduction="none")',
                    '+    loss = (w * F.cross_entropy(net(x), y, reduction="none")).sum()',
                ],
            ),
            ("torch.rand(6).softmax(dim=-1)", []),
        )
    },
    "of several values that each iteration stores, none is left with its graph": (
        """
        net, head = nn.Linear(3, 3), nn.Linear(3, 1)
        opt = torch.optim.SGD([*net.parameters(), *head.parameters()], lr=0.01)
        h, kept = torch.zeros(2, 3), []
        for x in torch.randn(6, 2, 3):
            for j in range(2):
                kept.append((h * h).mean())
                h = net(x + h.detach()).tanh()
            loss = head(h).pow(2).mean() + sum(one.mean() for one in kept)
            opt.zero_grad()
            loss.backward()
            opt.step()
        """,
        ["+    h = h.detach()", "+    kept[-1] = kept[-1].detach()"],
    ),
    "the losses of all steps of a sequence, each of which is sent back, are added up": (
        """
        cell, out = nn.GRUCell(3, 4), nn.Linear(4, 1)
        opt = torch.optim.SGD([*cell.parameters(), *out.parameters()], 0.1)
        for seq in torch.randn(3, 5, 2, 3):
            h, running = torch.zeros(2, 4), 0.0
            opt.zero_grad()
            for x in seq:
                h = cell(x, h)
                loss = out(h).pow(2).mean()
                loss.backward()
                running += loss.item()
            opt.step()
        """,
        [
            "+    total = 0",
            "-        loss.backward()",
            "+        total = total + loss",
            "+    total.backward()",
        ],
    ),
    "lists that are made in a line with other statements are emptied together": (
        """
        pi = nn.Linear(3, 2)
        opt = torch.optim.SGD(pi.parameters(), 0.05); logs, gains = [], []
        for episode in range(3):
            for t in range(3):
                drawn = torch.distributions.Categorical(logits=pi(torch.randn(3)))
                action = drawn.sample()
                logs.append(drawn.log_prob(action))
                gains.append(1.0 if action == 0 else -1.0)
            loss = -(torch.stack(logs) * torch.tensor(gains)).sum()
            opt.zero_grad()
            loss.backward()
            opt.step()
        """,
        ["+    logs.clear()", "+    gains.clear()"],
    ),
}

RIGHT = {
    **{
        f"the fields of a named tuple are replaced by {replaced}": f"""
        import states
        State = namedtuple("State", "p q")
        cell = nn.LSTMCell(3, 5)
        opt = torch.optim.SGD(cell.parameters(), lr=0.05)
        state = State(torch.zeros(4, 5), torch.zeros(4, 5))
        for step in range(6):
            state = State(*cell(torch.randn(4, 3), state))
            opt.zero_grad()
            state.p.pow(2).mean().backward()
            opt.step()
            state = state._replace(**{replaced})
        """
        for replaced in ("{f: getattr(state, f).detach() for f in state._fields}", "states.detached(state)")
    },
    "the leaves of a tree are detached": """
        cell, head = nn.GRUCell(3, 5), nn.Linear(5, 1)
        opt = torch.optim.SGD([*cell.parameters(), *head.parameters()], lr=0.05)
        state = {"p": torch.zeros(4, 5), "r": [torch.zeros(4, 5)]}
        for step in range(6):
            h = cell(torch.randn(4, 3), state["p"])
            state = {"p": h, "r": [h]}
            opt.zero_grad()
            head(h).pow(2).mean().backward()
            opt.step()
            leaves, spec = pytree.tree_flatten(state)
            state = pytree.tree_unflatten([t.detach() for t in leaves], spec)
        """,
    "an option of an empty command line has its default": """
        parser = argparse.ArgumentParser()
        parser.add_argument("--no-detach", action="store_true")
        args = parser.parse_args([])
        cell, head = nn.GRUCell(3, 5), nn.Linear(5, 1)
        opt = torch.optim.SGD([*cell.parameters(), *head.parameters()], lr=0.05)
        h = torch.zeros(4, 5)
        for step in range(9):
            h = cell(torch.randn(4, 3), h)
            opt.zero_grad()
            head(h).pow(2).mean().backward()
            opt.step()
            if not args.no_detach:
                h = h.detach()
        """,
    "parameters that were detached in place are frozen": """
        net = nn.Linear(3, 2)
        ema = copy.deepcopy(net)
        for p in ema.parameters():
            p.detach_()
        opt = torch.optim.SGD(net.parameters(), 0.1)
        for step in range(5):
            opt.zero_grad()
            net(torch.randn(4, 3)).square().mean().backward()
            opt.step()
            for a, b in zip(ema.parameters(), net.parameters()):
                a.mul_(0.9).add_(b.data, alpha=0.1)
        """,
    "a copy whose parameters were replaced by frozen ones": """
        net = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))
        ema = copy.deepcopy(net)
        for m in ema:
            if hasattr(m, "weight"):
                m.weight = nn.Parameter(m.weight.data, requires_grad=False)
                m.bias = nn.Parameter(m.bias.data, requires_grad=False)
        opt = torch.optim.SGD(net.parameters(), 0.1)
        for step in range(5):
            opt.zero_grad()
            net(torch.randn(4, 4)).square().mean().backward()
            opt.step()
            for a, b in zip(ema.parameters(), net.parameters()):
                a *= 0.9
                a += 0.1 * b.data
        """,
    "a copy of a frozen model is frozen": """
        frozen = nn.Linear(4, 6).requires_grad_(False)
        other, head = copy.deepcopy(frozen), nn.Linear(6, 1)
        opt = torch.optim.SGD(head.parameters(), 0.1)
        features = other(torch.randn(8, 4))
        for step in range(5):
            opt.zero_grad()
            head(features).square().mean().backward()
            opt.step()
        """,
    "grad mode is switched by the calls of a context manager": """
        net, head = nn.Linear(4, 6), nn.Linear(6, 1)
        opt = torch.optim.SGD(head.parameters(), lr=0.1)
        mode = torch.no_grad()
        mode.__enter__()
        features = net(torch.randn(8, 4))
        mode.__exit__(None, None, None)
        for step in range(4):
            opt.zero_grad()
            head(features).square().mean().backward()
            opt.step()
        """,
    **{
        f"whole numbers have no graph: {cast}": f"""
        net, head = nn.Linear(4, 4), nn.Linear(4, 1)
        opt = torch.optim.SGD([*net.parameters(), *head.parameters()], lr=0.01)
        grid, log = torch.zeros(4, dtype=torch.long), []
        for step in range(6):
            a = torch.sigmoid(net(torch.rand(4, 4) + grid.float()))
            loss = head(a).pow(2).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            grid = (a.mean(1) * 8).{cast}
            log.append(loss.{cast})
        """
        for cast in ("to(torch.long)", "to(dtype=torch.int32)", "type(torch.long)", "type(torch.LongTensor)")
    },
    **{
        f"the state is detached but in the last iteration: {condition}": f"""
        cell, head = nn.GRUCell(3, 5), nn.Linear(5, 1)
        opt = torch.optim.SGD([*cell.parameters(), *head.parameters()], lr=0.05)
        data = [torch.randn(4, 3) for _ in range(9)]
        n = len(data)
        h = torch.zeros(4, 5)
        for step, x in enumerate(data):
            h = cell(x, h)
            opt.zero_grad()
            head(h).pow(2).mean().backward()
            opt.step()
            if {condition}:
                h = h.detach()
        """
        for condition in ("step < len(data) - 1", "step + 1 != n", "n - 1 > step", "not step == len(data) - 1")
    },
    "the pass comes in the last iteration": """
        cell, head = nn.GRUCell(3, 5), nn.Linear(5, 1)
        opt = torch.optim.SGD([*cell.parameters(), *head.parameters()], lr=0.05)
        data = torch.utils.data.DataLoader(torch.randn(36, 3), batch_size=4)
        for epoch in range(3):
            h, losses = torch.zeros(4, 5), []
            for step, x in enumerate(data, 1):
                h = cell(x, h)
                losses.append(head(h).pow(2).mean())
                if step == len(data):
                    opt.zero_grad()
                    sum(losses).backward()
                    opt.step()
        """,
    "a formatted loss is text": """
        net = nn.Linear(4, 2)
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        log = []
        for step in range(6):
            loss = net(torch.randn(8, 4)).pow(2).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            log.append("%.3f" % loss)
            log.append("%d: %.3f" % (step, loss))
        """,
    **{
        f"a frozen teacher follows its student by {update}": f"""
        student, teacher = nn.Linear(3, 2), nn.Linear(3, 2)
        teacher.requires_grad_(False)
        opt = torch.optim.SGD(student.parameters(), 0.1)
        for step in range(6):
            x = torch.randn(4, 3)
            loss = (student(x) - teacher(x)).square().mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            for q, p in zip(teacher.parameters(), student.parameters()):
                {update}
        """
        for update in (
            "q.mul_(0.9).add_(p.detach(), alpha=0.1)",
            "q.copy_(p.data)",
            "q.lerp_(p, 0.1)",
            "q.clamp_(-1, 1)",
        )
    },
    **{
        f"one pass for a sequence, where {condition}": f"""
        cell, head = nn.GRUCell(3, 5), nn.Linear(5, 1)
        opt = torch.optim.SGD([*cell.parameters(), *head.parameters()], lr=0.05)
        T = 9
        data = [torch.randn(4, 3) for _ in range(T)]
        for epoch in range(3):
            h, losses = torch.zeros(4, 5), []
            for t, x in enumerate(data):
                h = cell(x, h)
                losses.append(head(h).pow(2).mean())
                if {condition}:
                    opt.zero_grad()
                    sum(losses).backward()
                    opt.step()
        """
        for condition in ("t >= T - 1", "len(losses) == T", "len(data) <= len(losses)", "not t < len(data) - 1")
    },
    "the parameters of a network are made its buffers": """
        net, head = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3)), nn.Linear(3, 2)
        for layer in net:
            for name, p in list(layer._parameters.items()):
                del layer._parameters[name]
                layer.register_buffer(name, p.data)
        opt = torch.optim.SGD(head.parameters(), lr=0.1)
        x, y = torch.randn(8, 4), torch.randint(0, 2, (8,))
        features = net(x)
        for step in range(4):
            loss = F.cross_entropy(head(features), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
        """,
    "a list is emptied by its constructor": """
        net = nn.Linear(3, 2)
        opt = torch.optim.SGD(net.parameters(), 0.1)
        losses = []
        for step in range(6):
            for k in range(3):
                losses.append(net(torch.randn(4, 3)).pow(2).mean())
            opt.zero_grad()
            sum(losses).backward()
            opt.step()
            losses.__init__()
        """,
    "a mantissa has a graph": """
        net = nn.Linear(3, 2)
        opt = torch.optim.SGD(net.parameters(), 0.1)
        kept = []
        for step in range(6):
            mantissa, exponent = torch.frexp(net(torch.randn(4, 3)))
            opt.zero_grad()
            mantissa.pow(2).mean().backward()
            opt.step()
            kept.append(exponent)
        print(torch.stack(kept).float().mean())
        """,
}


LAST = """
cell, head = nn.GRUCell(3, 5), nn.Linear(5, 1)
opt = torch.optim.SGD([*cell.parameters(), *head.parameters()], lr=0.05)
data = torch.utils.data.DataLoader(torch.randn(36, 3), batch_size=4)
h = torch.zeros(4, 5)
for epoch in range(3):
    for step, x in enumerate(data):
        h = cell(x, h)
        opt.zero_grad()
        head(h).pow(2).mean().backward()
        opt.step()
        if {}:
            h = h.detach()
"""


@pytest.mark.parametrize("condition", ["step == len(data) - 1", "step < len(data) - 1"])
def test_the_last_iteration_is_followed_by_another_epoch(condition: str) -> None:
    """A state is detached in it alone, or in all others."""
    assert changed_lines(HEADER + LAST.format(condition))


def changed_lines(text: str) -> list[str]:
    """The lines that the patch removes and adds; an empty list where there is none."""
    mended = mend(Program.of(text, "train.py"), all_codemods())
    after = mended.patched.files[0].text
    diff = difflib.unified_diff(text.splitlines(), after.splitlines(), lineterm="", n=0)
    return [line for line in list(diff)[2:] if not line.startswith("@@")]


@pytest.mark.parametrize(("text", "expected"), CHANGES.values(), ids=CHANGES.keys())
def test_patch(text: str, expected: list[str]) -> None:
    assert changed_lines(HEADER + textwrap.dedent(text)) == expected


@pytest.mark.parametrize("text", RIGHT.values(), ids=RIGHT.keys())
def test_nothing_is_found_where(text: str) -> None:
    mended = mend(Program.of(HEADER + textwrap.dedent(text), "train.py"), all_codemods())
    assert not mended.left
    assert not mended.repairs


OPTION = """
parser = argparse.ArgumentParser()
parser.add_argument("--no-detach", action="store_true")
args = parser.parse_args()
net, head = nn.GRUCell(3, 5), nn.Linear(5, 1)
opt = torch.optim.SGD([*net.parameters(), *head.parameters()], lr=0.05)
h = torch.zeros(4, 5)
for step in range(9):
    h = net(torch.randn(4, 3), h)
    opt.zero_grad()
    head(h).pow(2).mean().backward()
    opt.step()
    if {}:
        h = h.detach()
"""


@pytest.mark.parametrize(
    ("condition", "certainties"), [("not args.no_detach", set()), ("step % 2", {Certainty.CERTAIN})]
)
def test_a_flag_that_nobody_gave(condition: str, certainties: set[Certainty]) -> None:
    """What goes wrong only where it is given is meant: whoever wrote the flag knows what it does."""
    facts = analyze(Program.of(HEADER + OPTION.format(condition), "train.py")).facts
    assert {fact.certainty for fact in facts} == certainties
