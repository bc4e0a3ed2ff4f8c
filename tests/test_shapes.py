"""Shapes of mistakes as people report them: the lines that the patch adds, and look-alikes that stay as they are."""

from __future__ import annotations

import ast
import difflib
import textwrap

import pytest

from autofix.codemods.repair import mend
from autofix.codemods.rules.registry import all_codemods
from autofix.codemods.source.program import Program

HEADER = """\
import torch
from torch import nn
import torch.nn.functional as F
net, other = nn.Linear(3, 3), nn.Linear(3, 3)
opt = torch.optim.SGD([*net.parameters(), *other.parameters()], lr=0.1)
crit = nn.MSELoss()
x, y = torch.randn(4, 3), torch.randn(4, 3)
"""
STEP = "opt.zero_grad(); loss.backward(); opt.step()"

SHAPES = {
    "a generator's loss first, its graph kept for the critic's loss": (
        """
        critic = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
        critics = torch.optim.SGD(critic.parameters(), lr=0.1)
        makes = nn.Sequential(net, nn.Tanh(), other)
        for _ in range(3):
            fake = makes(x)
            opt.zero_grad()
            F.softplus(-critic(fake)).mean().backward(retain_graph=True)
            opt.step()
            critics.zero_grad()
            (critic(fake).mean() - critic(y).mean()).backward()
            critics.step()
        """,
        ["F.softplus(-critic(fake)).mean().backward()", "(critic(fake.detach()).mean() - critic(y).mean()).backward()"],
    ),
    "a critic's answer for both losses, its graph kept over the step, and all gradients zeroed before": (
        """
        critic = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
        critics = torch.optim.SGD(critic.parameters(), lr=0.1)
        for _ in range(3):
            opt.zero_grad(); critics.zero_grad()
            fake = net(x)
            answer = critic(fake)
            (answer.mean() - critic(y).mean()).backward(retain_graph=True)
            critics.step()
            (F.softplus(-answer).mean() + F.l1_loss(fake, y)).backward()
            opt.step()
        """,
        [
            "answer = critic(fake.detach())",
            "(answer.mean() - critic(y).mean()).backward()",
            "critics.step()",
        ],
    ),
    "an advantage that a method returns, by another name in the actor's, both graphs kept": (
        """
        class Judge(nn.Module):
            def __init__(self):
                super().__init__()
                self.hidden, self.value = nn.Linear(3, 4), nn.Linear(4, 1)
            def forward(self, state):
                return self.value(torch.relu(self.hidden(state)))
        class Critic:
            def __init__(self):
                self.judge = Judge()
                self.steps = torch.optim.SGD(self.judge.parameters(), lr=0.1)
            def learn(self, state, reward, later):
                now, then = self.judge(state), self.judge(later)
                surprise = reward + 0.9 * then - now
                loss = surprise.pow(2).mean()
                self.steps.zero_grad(); loss.backward(retain_graph=True); self.steps.step()
                return surprise
        class Actor:
            def learn(self, state, gain):
                likely = torch.log(torch.softmax(net(state), 1)[:, 0])
                loss = -torch.mean(likely * gain)
                opt.zero_grad(); loss.backward(retain_graph=True); opt.step()
        critic, actor = Critic(), Actor()
        for _ in range(3):
            advantage = critic.learn(x, 1.0, y)
            actor.learn(x, advantage)
        """,
        [
            "self.steps.zero_grad(); loss.backward(); self.steps.step()",
            "loss = -torch.mean(likely * gain.detach())",
            "opt.zero_grad(); loss.backward(); opt.step()",
        ],
    ),
    "a surprise that a method returns, by another name where it weighs an action, both graphs kept": (
        """
        class Judge(nn.Module):
            def __init__(self):
                super().__init__()
                self.hidden, self.value = nn.Linear(3, 4), nn.Linear(4, 1)
            def forward(self, state):
                return self.value(torch.relu(self.hidden(state)))
        class Critic:
            def __init__(self):
                self.judge = Judge()
                self.steps = torch.optim.SGD(self.judge.parameters(), lr=0.1)
            def learn(self, state, reward, later):
                now, then = self.judge(state), self.judge(later)
                surprise = reward + 0.9 * then - now
                loss = surprise.pow(2).mean()
                self.steps.zero_grad(); loss.backward(retain_graph=True); self.steps.step()
                return surprise
        class Actor:
            def learn(self, state, gain):
                action = net(state)[:, 0]
                loss = -torch.mean(action * gain)
                opt.zero_grad(); loss.backward(retain_graph=True); opt.step()
        critic, actor = Critic(), Actor()
        for _ in range(3):
            advantage = critic.learn(x, 1.0, y)
            actor.learn(x, advantage)
        """,
        ["loss = -torch.mean(action * gain.detach())"],
    ),
    "a reset of the whole that nothing calls, and that calls the resets of its parts": (
        """
        class Cell(nn.Module):
            def __init__(self):
                super().__init__()
                self.state = None
            def reset(self):
                self.state = None
            def forward(self, x):
                self.state = x if self.state is None else 0.9 * self.state + x
                return torch.sigmoid(self.state)
        class Stack(nn.Module):
            def __init__(self):
                super().__init__()
                self.parts = nn.ModuleList([nn.Linear(3, 4), Cell(), nn.Linear(4, 3), Cell()])
            def reset_state(self):
                for part in self.parts:
                    if isinstance(part, Cell):
                        part.reset()
            def forward(self, x):
                for part in self.parts:
                    x = part(x)
                return x
        model = Stack()
        steps = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(4):
            loss = crit(model(x) + model(y), y)
            steps.zero_grad()
            loss.backward()
            steps.step()
        """,
        ["model.reset_state()"],
    ),
    "three losses over one graph, each sent back when it is computed": (
        """
        for _ in range(3):
            opt.zero_grad()
            z = torch.tanh(net(x))
            near = crit(z, y)
            near.backward()
            far = z.abs().mean()
            (0.1 * far).backward()
            flat = z.pow(2).mean()
            flat.backward()
            opt.step()
        """,
        ["(near + 0.1 * far + flat).backward()"],
    ),
    "four losses over one graph, by a function of torch's": (
        """
        opt = torch.optim.SGD([*net.parameters(), *other.parameters()], lr=0.1)
        for _ in range(3):
            opt.zero_grad()
            z = torch.tanh(net(x))
            one, two, three, four = crit(z, y), z.abs().mean(), crit(other(z), x), other(z).pow(2).mean()
            torch.autograd.backward(one)
            torch.autograd.backward(two)
            torch.autograd.backward(three)
            torch.autograd.backward(four)
            opt.step()
        """,
        ["torch.autograd.backward(one + two + three + four)"],
    ),
    "two losses that a scaler scales": (
        """
        scaler = torch.amp.GradScaler("cpu", enabled=False)
        for _ in range(3):
            opt.zero_grad()
            z = net(x)
            near, far = crit(z, y), z.abs().mean()
            scaler.scale(near).backward()
            scaler.scale(0.1 * far).backward()
            scaler.step(opt)
            scaler.update()
        """,
        ["scaler.scale(near + 0.1 * far).backward()"],
    ),
    "two losses that a function of torch's sends back": (
        """
        for _ in range(3):
            opt.zero_grad()
            z = net(x)
            near, far = crit(z, y), z.abs().mean()
            torch.autograd.backward(near)
            torch.autograd.backward(0.1 * far)
            opt.step()
        """,
        ["torch.autograd.backward(near + 0.1 * far)"],
    ),
    "losses in a list, and the total of their stack": (
        """
        for _ in range(3):
            opt.zero_grad()
            parts = []
            for layer in (net, other):
                part = crit(layer(x), y)
                part.backward()
                parts.append(part)
            torch.stack(parts).sum().backward()
            opt.step()
        """,
        [],
    ),
    "losses in a dictionary, and their sum": (
        """
        for _ in range(3):
            opt.zero_grad()
            losses = {}
            for name, layer in (("a", net), ("b", other)):
                losses[name] = crit(layer(x), y)
                losses[name].backward()
            total = sum(losses.values())
            total.backward()
            opt.step()
        """,
        [],
    ),
    "a window of what a module has computed, with what it computes now": (
        """
        class Smooth(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner, self.outer = nn.Linear(3, 3), nn.Linear(3, 3)
                self.recent = []

            def forward(self, x):
                h = torch.tanh(self.inner(x))
                self.recent.append(h)
                return self.outer(torch.stack(self.recent[-4:]).mean(0))

        model = Smooth()
        opt = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(6):
            opt.zero_grad()
            crit(model(x), y).backward()
            opt.step()
        """,
        ["if self.recent:", "self.recent[-1] = self.recent[-1].detach()"],
    ),
    "a window of what a method has computed, in a deque with the newest first": (
        """
        from collections import deque

        class Filter:
            def __init__(self):
                self.window = deque(maxlen=3)

            def __call__(self, value):
                self.window.appendleft(value)
                return sum(self.window) / len(self.window)

        smooth = Filter()
        for _ in range(6):
            opt.zero_grad()
            crit(smooth(net(x)), y).backward()
            opt.step()
        """,
        ["if self.window:", "self.window[0] = self.window[0].detach()"],
    ),
    "the losses of a loop, and their sum behind it": (
        """
        for _ in range(3):
            opt.zero_grad()
            total = torch.zeros(())
            for layer in (net, other):
                part = crit(layer(x), y)
                part.backward()
                total += part
            total.backward()
            opt.step()
        """,
        [],
    ),
    "an advantage over the critic's step, both losses computed before it": (
        """
        critic = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
        critics = torch.optim.SGD(critic.parameters(), lr=0.1)
        def policy_loss(dist, gain):
            return -(dist.log_prob(torch.zeros(4, 3)) * gain).mean()
        for _ in range(3):
            gain = y - critic(x)
            value_loss, actor_loss = gain.pow(2).mean(), policy_loss(torch.distributions.Normal(net(x), 1.0), gain)
            critics.zero_grad(); value_loss.backward(retain_graph=True); critics.step()
            opt.zero_grad(); actor_loss.backward(); opt.step()
        """,
        [
            "return -(dist.log_prob(torch.zeros(4, 3)) * gain.detach()).mean()",
            "critics.zero_grad(); value_loss.backward(); critics.step()",
        ],
    ),
    "a critic's loss and a generator's, and both steps behind them": (
        """
        critic = nn.Linear(3, 1)
        critics = torch.optim.SGD(critic.parameters(), lr=0.1)
        for _ in range(3):
            fake = net(x)
            opt.zero_grad(); critics.zero_grad()
            (critic(fake).pow(2).mean() + (net(y) - y).abs().mean()).backward()
            (critic(y).pow(2).mean() + (critic(fake) - 1).pow(2).mean()).backward()
            opt.step(); critics.step()
        """,
        ["(critic(y).pow(2).mean() + (critic(fake.detach()) - 1).pow(2).mean()).backward()"],
    ),
    "a head that two losses ask about one code, and one of them about another": (
        """
        head = nn.Linear(3, 1)
        heads = torch.optim.SGD(head.parameters(), lr=0.1)
        for _ in range(3):
            code = torch.tanh(net(x))
            opt.zero_grad(); heads.zero_grad()
            head(code).pow(2).mean().backward()
            (head(code + 0.1) - head(torch.tanh(net(y)))).pow(2).mean().backward()
            opt.step(); heads.step()
        """,
        [
            "(head(code).pow(2).mean() + (head(code + 0.1) - head(torch.tanh(net(y)))).pow(2).mean()).backward()",
        ],
    ),
    "an advantage of a network whose trunk both losses train": (
        """
        score = nn.Linear(3, 1)
        opt.add_param_group(dict(params=score.parameters()))
        for _ in range(3):
            shared = torch.relu(net(x))
            dist = torch.distributions.Categorical(logits=other(shared))
            gap = y[:, 0] - score(shared)[:, 0]
            opt.zero_grad()
            (-(dist.log_prob(torch.zeros(4)) * gap).mean()).backward()
            (0.5 * gap.pow(2).mean()).backward()
            opt.step()
        """,
        ["((-(dist.log_prob(torch.zeros(4)) * gap.detach()).mean()) + 0.5 * gap.pow(2).mean()).backward()"],
    ),
    "an advantage in the losses that a loop sends back in turn": (
        """
        policy, critic = (torch.optim.SGD(one.parameters(), lr=0.1) for one in (net, other))
        def losses():
            dist = torch.distributions.Normal(net(x)[:, 0], 1.0)
            gap = y[:, 0] - other(x).mean(1)
            return -(dist.log_prob(y[:, 1]) * gap).mean(), gap.square().mean()
        for _ in range(3):
            for optimizer, loss in zip((policy, critic), losses()):
                optimizer.zero_grad(); loss.backward(); optimizer.step()
        """,
        ["return -(dist.log_prob(y[:, 1]) * gap.detach()).mean(), gap.square().mean()"],
    ),
    "a meter that sums what it is given by name": (
        f"""
        class Meter:
            def __init__(self): self.sums = {{}}
            def add(self, **values):
                for name, value in values.items():
                    self.sums[name] = self.sums.get(name, 0) + value
        for epoch in range(2):
            meter = Meter()
            for _ in range(50):
                out = net(x)
                loss = crit(out, y)
                {STEP}
                meter.add(loss=loss, size=out.abs().mean())
        """,
        ["meter.add(loss=loss.detach(), size=out.abs().mean().detach())"],
    ),
    "three stages, each with an optimizer of its own": (
        """
        last = nn.Linear(3, 3)
        first, second, third = (torch.optim.SGD(one.parameters(), lr=0.1) for one in (net, other, last))
        for _ in range(3):
            a = net(x)
            b = other(torch.tanh(a))
            c = last(torch.tanh(b))
            losses = crit(a, y), crit(b, y), crit(c, y)
            first.zero_grad(); losses[0].backward(); first.step()
            second.zero_grad(); losses[1].backward(); second.step()
            third.zero_grad(); losses[2].backward(); third.step()
        """,
        ["b = other(torch.tanh(a.detach()))", "c = last(torch.tanh(b.detach()))"],
    ),
    "an advantage that weighs likelihoods, before one step of all": (
        """
        for _ in range(3):
            dist = torch.distributions.Categorical(logits=net(x))
            action = dist.sample()
            gap = y[:, 0] - other(x).mean(1)
            opt.zero_grad()
            (-(dist.log_prob(action) * gap).mean()).backward()
            gap.pow(2).mean().backward()
            opt.step()
        """,
        ["(-(dist.log_prob(action) * gap.detach()).mean()).backward()"],
    ),
    "an advantage that is scaled and weighs a ratio twice": (
        """
        policy, critic = (torch.optim.SGD(one.parameters(), lr=0.1) for one in (net, other))
        for _ in range(3):
            with torch.no_grad():
                dist = torch.distributions.Categorical(logits=net(x))
                action = dist.sample()
                old = dist.log_prob(action)
            for _ in range(2):
                new = torch.distributions.Categorical(logits=net(x)).log_prob(action)
                value = other(x).mean(1)
                gap = y[:, 0] - value
                gap = (gap - gap.mean()) / (gap.std() + 1e-6)
                ratio = (new - old).exp()
                first = -torch.min(ratio * gap, ratio.clamp(0.8, 1.2) * gap).mean()
                second = crit(value, y[:, 0])
                policy.zero_grad(); critic.zero_grad()
                first.backward(); second.backward()
                policy.step(); critic.step()
        """,
        ["first = -torch.min(ratio * gap.detach(), ratio.clamp(0.8, 1.2) * gap.detach()).mean()"],
    ),
    "the shares of a mixture, which the likelihoods that they weigh train": (
        """
        for _ in range(3):
            share = net(x).softmax(-1)
            found = torch.distributions.Normal(other.weight.sum(0), 1.0).log_prob(x)
            opt.zero_grad()
            (-(share * found).sum(-1).mean()).backward()
            (share * (share + 1e-6).log()).sum(-1).mean().backward()
            opt.step()
        """,
        ["((-(share * found).sum(-1).mean()) + (share * (share + 1e-6).log()).sum(-1).mean()).backward()"],
    ),
    "a generator that learns from another batch, too, before its critic does": (
        """
        critic = nn.Linear(3, 1)
        critics = torch.optim.SGD(critic.parameters(), lr=0.1)
        for _ in range(3):
            fake = net(x)
            loss = critic(fake).mean() + (net(y) - y).abs().mean()
            opt.zero_grad(); loss.backward(); opt.step()
            loss = critic(y).mean() - critic(fake).mean()
            critics.zero_grad(); loss.backward(); critics.step()
        """,
        ["loss = critic(y).mean() - critic(fake.detach()).mean()"],
    ),
    "a critic that learns first, with all gradients set to zero before": (
        """
        critic = nn.Linear(3, 1)
        critics = torch.optim.SGD(critic.parameters(), lr=0.1)
        for _ in range(3):
            opt.zero_grad(); critics.zero_grad()
            fake = net(x)
            loss = critic(y).pow(2).mean() + (critic(fake) - 1).pow(2).mean()
            loss.backward(); critics.step()
            loss = critic(fake).pow(2).mean() + (net(y) - y).abs().mean()
            loss.backward(); opt.step()
        """,
        ["loss = critic(y).pow(2).mean() + (critic(fake.detach()) - 1).pow(2).mean()"],
    ),
    "two heads that learn in turn, and what they share with both": (
        """
        one, two = nn.Linear(3, 1), nn.Linear(3, 1)
        first, second = (torch.optim.SGD(head.parameters(), lr=0.1) for head in (one, two))
        for _ in range(3):
            opt.zero_grad(); first.zero_grad(); second.zero_grad()
            shared = torch.tanh(net(x))
            one(shared).pow(2).mean().backward(); first.step()
            two(shared).pow(2).mean().backward(); second.step()
            opt.step()
        """,
        ["shared = torch.tanh(net(x))"],
    ),
    "two fakes that a helper judges for both losses": (
        """
        judge_a, judge_b = nn.Linear(3, 1), nn.Linear(3, 1)
        critics = torch.optim.SGD([*judge_a.parameters(), *judge_b.parameters()], lr=0.1)
        def goal(judge, image, real):
            score = judge(image)
            return F.mse_loss(score, torch.full_like(score, float(real)))
        for _ in range(3):
            fakes = {"b": net(x), "a": other(y)}
            loss = goal(judge_b, fakes["b"], True) + goal(judge_a, fakes["a"], True) + crit(other(fakes["b"]), x)
            opt.zero_grad(); loss.backward(); opt.step()
            critics.zero_grad()
            first = goal(judge_a, x, True) + goal(judge_a, fakes["a"], False)
            second = goal(judge_b, y, True) + goal(judge_b, fakes["b"], False)
            (first + second).backward()
            critics.step()
        """,
        [
            'first = goal(judge_a, x, True) + goal(judge_a, fakes["a"].detach(), False)',
            'second = goal(judge_b, y, True) + goal(judge_b, fakes["b"].detach(), False)',
        ],
    ),
    "a pair of fakes in one loss of the critics": (
        """
        judge_a, judge_b = nn.Linear(3, 1), nn.Linear(3, 1)
        critics = torch.optim.SGD([*judge_a.parameters(), *judge_b.parameters()], lr=0.1)
        def goal(judge, image, real): return (judge(image) - float(real)).pow(2).mean()
        for _ in range(3):
            left, right = net(x), other(y)
            loss = goal(judge_b, left, True) + goal(judge_a, right, True) + crit(other(left), x)
            opt.zero_grad(); loss.backward(); opt.step()
            loss = goal(judge_a, x, True) + goal(judge_a, right, False) + goal(judge_b, left, False)
            critics.zero_grad(); loss.backward(); critics.step()
        """,
        ["loss = goal(judge_a, x, True) + goal(judge_a, right.detach(), False) + goal(judge_b, left.detach(), False)"],
    ),
    "what a critic said of the last state, kept behind a branch that learns from it": (
        f"""
        class Learner:
            def __init__(self):
                self.last = None
            def observe(self, state, reward):
                value = other(torch.tanh(net(state)))
                if self.last is not None:
                    loss = (reward + 0.9 * value.detach() - self.last).pow(2).mean()
                    {STEP}
                self.last = value
        learner = Learner()
        for number in range(5):
            learner.observe(torch.randn(3), float(number))
        """,
        ["self.last = other(torch.tanh(net(state)))"],
    ),
    "lists that a comprehension empties as an epoch begins, and not as a step does": (
        f"""
        class Tap:
            def __init__(self, layer):
                self.found = []
                layer.register_forward_hook(lambda _, args, out: self.found.append(out))
        def main():
            taps = [Tap(one) for one in (net, other)]
            for epoch in range(2):
                [tap.found.clear() for tap in taps]
                for _ in range(3):
                    loss = crit(other(net(x)), y) + sum(torch.stack(tap.found).abs().mean() for tap in taps)
                    {STEP}
        main()
        """,
        ["[tap.found.clear() for tap in taps]"],
    ),
    "kept from a warm-up on": (
        f"""
        kept = []
        for step in range(60):
            z = net(x)
            loss = crit(z, y) + sum((z - one).pow(2).mean() for one in kept)
            {STEP}
            if step > 20:
                kept.append(z)
        """,
        ["kept.append(z.detach())"],
    ),
    "a loss that is added after a warm-up, with a counter of the trainer": (
        f"""
        class Run:
            def __init__(self):
                self.done, self.last = 0, None
            def step(self):
                self.done += 1
                z = net(x)
                loss = crit(z, y)
                if self.done > 4 and self.last is not None:
                    loss = loss + (z - self.last).pow(2).mean()
                self.last = z
                {STEP}
        run = Run()
        for _ in range(10):
            run.step()
        """,
        ["self.last = z.detach()"],
    ),
    "a global list, and functions on one line each": (
        """
        kept = []
        def add(): kept.append(net(x))
        def loss_of(): return crit(torch.stack(kept).sum(0), y)
        def step(loss): opt.zero_grad(); loss.backward(); opt.step()
        for number in range(3):
            add(); add()
            if number > 0: step(loss_of())
        """,
        ["def step(loss):", "opt.zero_grad(); loss.backward(); opt.step()", "kept.clear()"],
    ),
    "a global list whose last items two repairs would cure one by one": (
        """
        kept = []
        def add():
            kept.append(net(x))
        def step(loss):
            opt.zero_grad()
            loss.backward()
            opt.step()
        for _ in range(3):
            add()
            add()
            step(crit(torch.stack(kept).sum(0), y))
        """,
        ["kept.clear()"],
    ),
    "a memory of pairs that is sampled from once it is full enough": (
        f"""
        import random
        memory = []
        for step in range(60):
            memory.append((x, 1.0 + 0.9 * net(x).max()))
            if len(memory) >= 8:
                batch = random.sample(memory, 8)
                seen = torch.stack([one for one, _ in batch])
                others = torch.stack([one for one, _ in batch])
                goals = torch.stack([two for _, two in batch])
                loss = (net(seen).mean((1, 2)) - goals).pow(2).mean()
                {STEP}
        """,
        ["memory.append((x, (1.0 + 0.9 * net(x).max()).detach()))"],
    ),
    "a bank of limited length that a loop on one line fills": (
        f"""
        from collections import deque
        class Bank:
            def __init__(self, size): self.items = deque(maxlen=size)
            def push(self, z, y):
                for one, label in zip(z, y): self.items.append((one, label))
            def tensors(self):
                ones, labels = zip(*self.items)
                return torch.stack(ones), torch.stack(labels)
        bank = Bank(32)
        for _ in range(5):
            z = net(x)
            bank.push(z, y)
            ones, labels = bank.tensors()
            loss = (z @ ones.T).logsumexp(1).mean() + labels.float().mean()
            {STEP}
        """,
        ["for one, label in zip(z, y): self.items.append((one.detach(), label))"],
    ),
    "a batch whose one half is changed in place beside the other, which a layer saved": (
        f"""
        from torch.utils.data import DataLoader, TensorDataset
        half = nn.Linear(2, 2)
        opt = torch.optim.SGD(half.parameters(), lr=0.1)
        for (batch,) in DataLoader(TensorDataset(torch.randn(8, 4)), batch_size=4):
            z = batch.clone()
            fixed, moved = z[:, :2], z[:, 2:]
            moved.add_(half(fixed))
            loss = z.pow(2).mean()
            {STEP}
        """,
        ["moved.add_(half(fixed.clone()))"],
    ),
    "a dataclass that is made anew in each step, over windows of three": (
        f"""
        from dataclasses import dataclass
        @dataclass
        class State:
            low: torch.Tensor
            high: torch.Tensor
            steps: int = 0
        def advance(state):
            low = torch.tanh(net(x + state.low))
            return State(low, torch.tanh(other(low + state.high)), state.steps + 1)
        state = State(torch.zeros(4, 3), torch.zeros(4, 3))
        for window in range(5):
            loss = 0.0
            for _ in range(3):
                state = advance(state)
                loss = loss + crit(state.high, y)
            {STEP}
        """,
        ["state.low = state.low.detach()", "state.high = state.high.detach()"],
    ),
    "the same with a frozen one": (
        f"""
        from dataclasses import dataclass, replace
        @dataclass(frozen=True)
        class State:
            low: torch.Tensor
            high: torch.Tensor
            steps: int = 0
        def advance(state):
            low = torch.tanh(net(x + state.low))
            return replace(state, low=low, high=torch.tanh(other(low + state.high)), steps=state.steps + 1)
        state = State(torch.zeros(4, 3), torch.zeros(4, 3))
        for window in range(5):
            loss = 0.0
            for _ in range(3):
                state = advance(state)
                loss = loss + crit(state.high, y)
            {STEP}
        """,
        ["state = type(state)(low=state.low.detach(), high=state.high.detach(), steps=state.steps)"],
    ),
    "the same with a named tuple": (
        f"""
        from typing import NamedTuple
        class State(NamedTuple):
            low: torch.Tensor
            high: torch.Tensor
            steps: int = 0
        def advance(state):
            low = torch.tanh(net(x + state.low))
            return state._replace(low=low, high=torch.tanh(other(low + state.high)), steps=state.steps + 1)
        state = State(torch.zeros(4, 3), torch.zeros(4, 3))
        for window in range(5):
            loss = 0.0
            for _ in range(3):
                state = advance(state)
                loss = loss + crit(state.high, y)
            {STEP}
        """,
        ["state = state._replace(low=state.low.detach(), high=state.high.detach())"],
    ),
    "states and a counter in one dictionary, over windows of three": (
        f"""
        def advance(state):
            low = torch.tanh(net(x + state["low"]))
            return {{"low": low, "high": torch.tanh(other(low + state["high"])), "steps": state["steps"] + 1}}
        state = {{"low": torch.zeros(4, 3), "high": torch.zeros(4, 3), "steps": 0}}
        for window in range(5):
            loss = 0.0
            for _ in range(3):
                state = advance(state)
                loss = loss + crit(state["high"], y)
            {STEP}
        """,
        ['state = {**state, "low": state["low"].detach(), "high": state["high"].detach()}'],
    ),
    "lists of states by their names, kept by an object": (
        f"""
        class Memory:
            def __init__(self):
                self.states = {{"low": [torch.zeros(4, 3)] * 2, "high": [torch.zeros(4, 3)] * 2}}
            def advance(self):
                low = [torch.tanh(net(x + one)) for one in self.states["low"]]
                high = [torch.tanh(other(sum(low) + one)) for one in self.states["high"]]
                self.states = {{"low": low, "high": high}}
                return sum(high)
        memory = Memory()
        for window in range(5):
            loss = 0.0
            for _ in range(3):
                loss = loss + crit(memory.advance(), y)
            {STEP}
        """,
        ["memory.states = {key: [part.detach() for part in state] for key, state in memory.states.items()}"],
    ),
    "a state that functools.reduce carries through a chunk": (
        f"""
        import functools
        state = torch.zeros(4, 3)
        for chunk in torch.randn(6, 5, 4, 3):
            state = functools.reduce(lambda kept, step: torch.tanh(net(kept + step)), chunk, state)
            loss = crit(state, y)
            {STEP}
        """,
        ["state = state.detach()"],
    ),
    "states that itertools.accumulate hands out": (
        f"""
        import itertools, operator
        from functools import reduce
        state = torch.zeros(4, 3)
        for chunk in torch.randn(6, 5, 4, 3):
            states = list(itertools.accumulate(chunk, lambda kept, step: torch.tanh(net(kept + step)), initial=state))
            state = states[-1]
            loss = reduce(operator.add, [crit(one, y) for one in states[1:]])
            {STEP}
        """,
        ["state = states[-1].detach()"],
    ),
    "a store that a hook gets by functools.partial, emptied once an epoch": (
        f"""
        import functools
        def keep(store, name, module, args, output):
            store.setdefault(name, []).append(output)
        def main():
            seen = {{}}
            net.register_forward_hook(functools.partial(keep, seen, "net"))
            for epoch in range(3):
                seen.clear()
                for _ in range(4):
                    loss = crit(other(net(x)), y) + sum(torch.stack(kept).abs().mean() for kept in seen.values())
                    {STEP}
        main()
        """,
        ["seen.clear()"],
    ),
    "lists of several names that lambdas fill": (
        f"""
        seen = {{"net": [], "other": []}}
        def keeping(name):
            return lambda module, args, output: seen[name].append(output)
        net.register_forward_hook(keeping("net"))
        other.register_forward_hook(keeping("other"))
        for _ in range(4):
            loss = crit(other(net(x)), y) + sum(torch.stack(kept).abs().mean() for kept in seen.values())
            {STEP}
        """,
        ["for values in seen.values():", "values.clear()"],
    ),
    "states of nodes that come again in other edges": (
        f"""
        states = {{node: torch.zeros(4, 3) for node in range(9)}}
        for one, two in torch.randint(0, 9, (20, 2)).tolist():
            sent = net(states[one] + states[two])
            states[one] = torch.tanh(other(sent + states[one]))
            states[two] = torch.tanh(other(sent - states[two]))
            loss = crit(states[one] + states[two], y)
            {STEP}
        """,
        ["for key in states:", "states[key] = states[key].detach()"],
    ),
    "the same where the nodes are objects in a list": (
        f"""
        class Node:
            def __init__(self):
                self.state = torch.zeros(4, 3)
        nodes = [Node() for _ in range(9)]
        for one, two in zip(torch.randint(0, 9, (20,)).tolist(), torch.randint(0, 9, (20,)).tolist()):
            sent = net(nodes[one].state + nodes[two].state)
            nodes[one].state = torch.tanh(other(sent + nodes[one].state))
            nodes[two].state = torch.tanh(other(sent - nodes[two].state))
            loss = crit(nodes[one].state + nodes[two].state, y)
            {STEP}
        """,
        ["nodes[one].state = nodes[one].state.detach()", "nodes[two].state = nodes[two].state.detach()"],
    ),
    "the same where a loop over the two of an edge sets them": (
        f"""
        states = [torch.zeros(4, 3) for _ in range(9)]
        for one, two in torch.randint(0, 9, (20, 2)).tolist():
            sent = net(states[one] + states[two])
            for node in (one, two):
                states[node] = torch.tanh(other(sent + states[node]))
            loss = crit(states[one] + states[two], y)
            {STEP}
        """,
        ["for node in (one, two):", "states[node] = states[node].detach()"],
    ),
    "episodes in a list, of which each has lists of its own": (
        f"""
        from dataclasses import dataclass, field
        @dataclass
        class Episode:
            terms: list = field(default_factory=list)
            rewards: list = field(default_factory=list)
        class Buffer:
            def __init__(self):
                self.episodes = []
            def new(self):
                self.episodes.append(Episode())
                return self.episodes[-1]
            def loss(self):
                return sum((torch.stack(one.terms) * torch.tensor(one.rewards)).sum() for one in self.episodes)
        buffer = Buffer()
        for _ in range(6):
            episode = buffer.new()
            for t in range(4):
                episode.terms.append(net(x).mean()); episode.rewards.append(float(t))
            loss = buffer.loss()
            {STEP}
        """,
        ["buffer.episodes.clear()"],
    ),
    "two lists that one line fills": (
        f"""
        terms, rewards = [], []
        for _ in range(6):
            for t in range(4):
                terms.append(net(x).mean()); rewards.append(float(t))
            loss = (torch.stack(terms) * torch.tensor(rewards)).sum()
            {STEP}
        """,
        ["terms.clear()", "rewards.clear()"],
    ),
    "averages that are None at first": (
        f"""
        averages = dict.fromkeys(("net", "other"))
        def smoothed(name, value):
            old = averages[name]
            averages[name] = value if old is None else 0.9 * old + 0.1 * value
            return averages[name]
        for _ in range(6):
            loss = smoothed("net", net(x).mean()) + smoothed("other", other(x).mean())
            {STEP}
        """,
        ["averages[name] = value if old is None else 0.9 * old.detach() + 0.1 * value"],
    ),
    "a recurrent state beside a loss in which something else is detached": (
        f"""
        class Runner:
            def __init__(self):
                self.h = torch.zeros(4, 3)
            def rollout(self):
                taken = []
                for _ in range(3):
                    self.h = torch.tanh(net(x + self.h))
                    taken.append((other(self.h), self.h.mean()))
                return taken
            def update(self, taken):
                loss = 0.0
                for value, score in reversed(taken):
                    gain = y - value
                    loss = loss - score * gain.detach().mean() + gain.pow(2).mean()
                {STEP}
        runner = Runner()
        for _ in range(6):
            runner.update(runner.rollout())
        """,
        ["self.h = self.h.detach()"],
    ),
    "a class that is a list, of losses": (
        f"""
        class Terms(list):
            def add(self, value):
                self.append(value)
            def total(self):
                return torch.stack(self).sum()
        terms = Terms()
        for _ in range(4):
            for _ in range(3):
                terms.add(net(x).pow(2).mean())
            loss = terms.total()
            {STEP}
        """,
        ["terms.clear()"],
    ),
    "a class that is a dictionary, of a running mean": (
        f"""
        from collections import UserDict
        class Memory(UserDict):
            def recall(self, key, like):
                return self[key] if key in self else torch.zeros_like(like)
        class Options(dict):
            __getattr__ = dict.__getitem__
        options, memory = Options(decay=0.9), Memory()
        for _ in range(4):
            z = torch.tanh(net(x))
            old = memory.recall("z", z)
            memory["z"] = options.decay * old + (1 - options.decay) * z
            loss = crit(z, y) + (memory["z"] - old).abs().mean()
            {STEP}
        """,
        ['memory["z"] = memory["z"].detach()'],
    ),
    "a class that is a dictionary, with a constructor of its own": (
        f"""
        class State(dict):
            def __init__(self, **given):
                super().__init__(**given)
                self.steps = 0
            def advance(self):
                self["h"] = torch.tanh(net(x + self["h"]))
                self.steps += 1
                return self["h"]
        state = State(h=torch.zeros(4, 3))
        for _ in range(4):
            loss = crit(state.advance(), y)
            {STEP}
        """,
        ['self["h"] = self["h"].detach()'],
    ),
    "a prior of the parameters that functional_call is given": (
        f"""
        from torch.func import functional_call
        params = dict(net.named_parameters())
        prior = torch.sigmoid(functional_call(net, params, (x,))).mean()
        for _ in range(4):
            loss = crit(functional_call(net, params, (x,)), y) + 0.1 * prior
            {STEP}
        """,
        ["prior = torch.sigmoid(functional_call(net, params, (x,))).mean()"],
    ),
    "a hinge of numbers, bounded by Python's own max": (
        f"""
        def hinge(good, bad, margin=0.3):
            return max(0.0, margin - good.mean().item() + bad.mean().item())
        for _ in range(4):
            loss = torch.as_tensor(hinge(net(x), other(x)))
            {STEP}
        """,
        ["return (margin - good.mean() + bad.mean()).clamp(min=0.0)", "loss = hinge(net(x), other(x))"],
    ),
    "a block that turns recording off and leaves it off": (
        f"""
        class Evaluation:
            def __enter__(self):
                net.eval()
                torch.set_grad_enabled(False)
                return self
            def __exit__(self, *raised):
                net.train()
        for _ in range(4):
            loss = crit(net(x), y)
            {STEP}
            with Evaluation():
                print(crit(net(x), y).item())
        """,
        ["torch.set_grad_enabled(True)"],
    ),
    "a loss for each class": (
        f"""
        for _ in range(4):
            scores = net(x).log_softmax(1)
            loss = torch.stack([-scores[:, k].mean() for k in range(9)])
            {STEP}
        """,
        ["opt.zero_grad(); loss.mean().backward(); opt.step()"],
    ),
    "a log that takes tensors and numbers": (
        f"""
        rows = []
        def log(**given):
            rows.append({{name: one.numpy() if torch.is_tensor(one) else one for name, one in given.items()}})
        for step in range(4):
            out = net(x)
            loss = crit(out, y)
            {STEP}
            log(step=step, out=out, loss=loss.item())
        """,
        [
            "rows.append({name: one.detach().numpy() if torch.is_tensor(one) else one for name, one in given.items()})",
        ],
    ),
    "a field that is marched in place, of which some steps are kept and read by their numbers": (
        f"""
        SNAPS = (4, 9)
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        for epoch in range(50):
            u = x.clone()
            kept = {{}}
            for k in range(10):
                u[:, 1:] = u[:, 1:] + net(u)[:, 1:]
                if k in SNAPS:
                    kept[k] = u.clone()
            loss = sum(kept[k].pow(2).mean() for k in SNAPS)
            {STEP}
        """,
        ["u[:, 1:] = u[:, 1:] + net(u.clone())[:, 1:]"],
    ),
    "errors that are kept by time step, and of which the numbers are read": (
        f"""
        from collections import defaultdict
        book = defaultdict(list)
        for _ in range(50):
            steps = torch.randint(0, 9, (4,))
            errors = (net(x) - y).pow(2).mean(1)
            loss = errors.mean()
            {STEP}
            for step, error in zip(steps.tolist(), errors):
                book[step].append(error)
            if len(book) == 9 and min(map(len, book.values())) > 3:
                print([sum(error.item() for error in book[step][-3:]) for step in range(9)])
        """,
        ["book[step].append(error.detach())"],
    ),
    "the same in a list of lists": (
        f"""
        book = [[] for _ in range(9)]
        for _ in range(50):
            steps = torch.randint(0, 9, (4,))
            errors = (net(x) - y).pow(2).mean(1)
            loss = errors.mean()
            {STEP}
            for step, error in zip(steps.tolist(), errors):
                book[step].append(error)
        """,
        ["book[step].append(error.detach())"],
    ),
    "the first of many losses, by which the later ones are divided": (
        f"""
        first = {{}}
        for _ in range(5):
            loss = 0.0
            for name, layer in (("a", net), ("b", other)):
                term = crit(layer(x), y)
                if name not in first:
                    first[name] = term
                loss = loss + term / first[name]
            {STEP}
        """,
        ["first[name] = term.detach()"],
    ),
    "the first mean of all outputs": (
        f"""
        start = None
        for _ in range(5):
            out = net(x)
            if start is None:
                start = out.mean(0)
            loss = crit(out, y) + (out.mean(0) - start).pow(2).sum()
            {STEP}
        """,
        ["start = start.detach()"],
    ),
    "what was now is before, and there is nothing at first": (
        f"""
        class Path(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer, self.kept = nn.Linear(3, 3), {{}}
            def forward(self, x):
                out = torch.tanh(self.layer(x))
                self.kept["before"], self.kept["now"] = self.kept.get("now"), out
                return out
        path = Path()
        opt = torch.optim.SGD(path.parameters(), lr=0.1)
        for _ in range(5):
            loss = crit(path(x), y)
            if path.kept["before"] is not None:
                loss = loss + crit(path.kept["now"], path.kept["before"])
            {STEP}
        """,
        ['if self.kept["before"] is not None:', 'self.kept["before"] = self.kept["before"].detach()'],
    ),
    "a curve that NumPy grows": (
        f"""
        import numpy as np
        curve = np.array([])
        for _ in range(5):
            loss = crit(net(x), y)
            {STEP}
            curve = np.append(curve, loss)
        """,
        ["curve = np.append(curve, loss.detach())"],
    ),
    "features that a loader hands out": (
        f"""
        from torch.utils.data import DataLoader, TensorDataset
        opt = torch.optim.SGD(other.parameters(), lr=0.1)
        features = net(x)
        loader = DataLoader(TensorDataset(features, y), batch_size=2)
        for epoch in range(3):
            for batch, goal in loader:
                loss = crit(other(batch), goal)
                {STEP}
        """,
        ["with torch.no_grad():", "features = net(x)"],
    ),
    "features that a dataset of one's own holds, of which a part is handed out": (
        f"""
        from torch.utils.data import DataLoader, Dataset, random_split
        class Codes(Dataset):
            def __init__(self, encoder, x):
                self.codes = encoder(x)
            def __len__(self):
                return len(self.codes)
            def __getitem__(self, at):
                return self.codes[at]
        opt = torch.optim.SGD(other.parameters(), lr=0.1)
        train, val = random_split(Codes(net, x), [3, 1])
        for epoch in range(3):
            for batch in DataLoader(train, batch_size=1):
                loss = other(batch).pow(2).mean()
                {STEP}
        """,
        ["with torch.no_grad():", "self.codes = encoder(x)"],
    ),
    "features that workers hand out": (
        f"""
        from torch.utils.data import DataLoader, TensorDataset
        opt = torch.optim.SGD(other.parameters(), lr=0.1)
        loader = DataLoader(TensorDataset(net(x), y), batch_size=2, num_workers=2)
        for batch, goal in loader:
            loss = crit(other(batch), goal)
            {STEP}
        """,
        ["loader = DataLoader(TensorDataset(net(x).detach(), y), batch_size=2, num_workers=2)"],
    ),
    "features that workers compute": (
        f"""
        from torch.utils.data import DataLoader, Dataset
        class Encoded(Dataset):
            def __init__(self, encoder, x):
                self.encoder, self.x = encoder, x
            def __len__(self):
                return len(self.x)
            def __getitem__(self, at):
                code = self.encoder(self.x[at])
                return code, self.x[at]
        opt = torch.optim.SGD(other.parameters(), lr=0.1)
        for batch, goal in DataLoader(Encoded(net, x), batch_size=2, num_workers=1):
            loss = crit(other(batch), goal)
            {STEP}
        """,
        ["code = self.encoder(self.x[at]).detach()"],
    ),
    "lists in a mapping that makes them itself": (
        f"""
        from collections import defaultdict
        terms = defaultdict(list)
        for _ in range(5):
            for name in ("a", "b"):
                terms[name].append(crit(net(x), y))
            loss = sum(torch.stack(found).mean() for found in terms.values())
            {STEP}
        """,
        ["terms.clear()"],
    ),
    "lists in a mapping that was made with them": (
        f"""
        terms = {{name: [] for name in ("a", "b")}}
        for _ in range(5):
            for name in ("a", "b"):
                terms[name].append(crit(net(x), y))
            loss = sum(torch.stack(found).mean() for found in terms.values())
            {STEP}
        """,
        ["for values in terms.values():", "values.clear()"],
    ),
    "lists in a list": (
        f"""
        terms = [[], []]
        for _ in range(5):
            for at in range(2):
                terms[at].append(crit(net(x), y))
            loss = sum(torch.stack(found).mean() for found in terms)
            {STEP}
        """,
        ["for values in terms:", "values.clear()"],
    ),
    "a probe whose hooks fill lists by name": (
        f"""
        from collections import defaultdict
        class Probe:
            def __init__(self, root):
                self.log = defaultdict(list)
                root.register_forward_hook(self.hook("root"))
            def hook(self, name):
                def keep(module, args, out):
                    self.log[name].append(out)
                return keep
            def cost(self):
                return sum(out.abs().mean() for outs in self.log.values() for out in outs)
        probe = Probe(net)
        def step():
            loss = crit(net(x), y) + probe.cost()
            {STEP}
        for _ in range(5):
            step()
        """,
        ["probe.log.clear()"],
    ),
    "a generator's loss that reads what the discriminator made of the fake detached": (
        """
        noise, real = torch.randn(4, 3), torch.randn(4, 3)
        first, second = (torch.optim.SGD(part.parameters(), lr=0.1) for part in (net, other))
        for _ in range(5):
            fake = net(noise)
            second.zero_grad()
            score = other(fake.detach())
            (other(real).relu().mean() - score.mean()).backward()
            second.step()
            first.zero_grad()
            (-score.mean()).backward()
            first.step()
        """,
        ["score = other(fake)"],
    ),
    "the same by another name, with a term of its own and a graph that is kept": (
        """
        first, second = (torch.optim.SGD(part.parameters(), lr=0.1) for part in (net, other))
        for _ in range(5):
            fake = net(x)
            constant = fake.detach()
            score = other(other(constant).relu())
            second.zero_grad()
            score.mean().backward(retain_graph=True)
            second.step()
            loss = crit(fake, y) - score.mean()
            first.zero_grad()
            loss.backward()
            first.step()
        """,
        ["score.mean().backward()", "score = other(other(fake).relu())"],
    ),
    "the generator first": (
        """
        first, second = (torch.optim.SGD(part.parameters(), lr=0.1) for part in (net, other))
        for _ in range(5):
            fake = net(x)
            score = other(fake.detach())
            first.zero_grad()
            (-score.mean()).backward()
            first.step()
            second.zero_grad()
            (score.mean() - other(y).mean()).backward()
            second.step()
        """,
        ["(-other(fake).mean()).backward()"],
    ),
    "a critic's value that the next step is to learn from": (
        f"""
        value = net(x)
        for _ in range(5):
            following = torch.randn(4, 3)
            next_value = net(following)
            loss = (1 + 0.9 * next_value - value).pow(2).mean()
            {STEP}
            value = next_value
        """,
        ["value = net(following)"],
    ),
    "the same beside others": (
        f"""
        state = x
        critic = nn.Sequential(net, nn.Tanh(), other)
        value = critic(state)
        for _ in range(5):
            following = torch.randn(4, 3)
            next_value = critic(following)
            loss = (1 + 0.9 * next_value.detach() - value).pow(2).mean()
            {STEP}
            state, value = following, next_value
        """,
        ["state, value = following, critic(following)"],
    ),
    "an output that is to be smooth over time": (
        f"""
        last = net(x)
        for _ in range(5):
            out = net(torch.randn(4, 3))
            loss = crit(out, y) + 0.1 * (out - last).pow(2).mean()
            {STEP}
            last = out
        """,
        ["last = out.detach()"],
    ),
    "features that a kernel reads twice, and that another pass trains": (
        f"""
        scale = nn.Parameter(torch.ones(3))
        opt = torch.optim.SGD([scale], lr=0.1)
        def kernel(a, b):
            return torch.exp(-(a[:, None] - b[None]).pow(2) * scale).sum(-1)
        out = net(x)
        for _ in range(5):
            loss = kernel(out, out).mean()
            {STEP}
        crit(out, y).backward()
        """,
        ["loss = kernel(out.detach(), out.detach()).mean()"],
    ),
    "lists that belong to an object and were given to it from outside": (
        f"""
        class Agent(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(3, 2)
        agent = Agent()
        agent.terms, agent.rewards = [], []
        opt = torch.optim.SGD(agent.parameters(), lr=0.1)
        def learn():
            loss = sum(r * t.mean() for r, t in zip(agent.rewards, agent.terms))
            {STEP}
        for _ in range(5):
            for _ in range(3):
                agent.terms.append(agent.layer(x).log_softmax(-1))
                agent.rewards.append(float(torch.rand(())))
            learn()
        """,
        ["agent.terms.clear()", "agent.rewards.clear()"],
    ),
    "an encoder in a group of its own, behind a decorator that records nothing": (
        f"""
        class Pair(nn.Module):
            def __init__(self):
                super().__init__()
                self.tower, self.head = nn.Linear(3, 3), nn.Linear(3, 1)
            @torch.no_grad()
            def embed(self, x):
                return F.normalize(self.tower(x))
            def forward(self, x):
                return self.head(self.embed(x))
        pair = Pair()
        opt = torch.optim.SGD([dict(params=pair.tower.parameters()), dict(params=pair.head.parameters())], lr=0.1)
        for _ in range(5):
            loss = crit(pair(x), y[:, :1])
            {STEP}
        """,
        [],
    ),
    "a loss that a function returns beside others": (
        f"""
        def objective(x, y):
            out = net(x)
            each = F.mse_loss(out, y, reduction="none")
            loss = each.sum(-1) + 0.1 * out.abs().sum(-1)
            return loss, each.mean().item()
        for _ in range(5):
            loss, error = objective(x, y)
            {STEP}
        """,
        ["loss = (each.sum(-1) + 0.1 * out.abs().sum(-1)).mean()"],
    ),
    "the same in a dictionary": (
        """
        def objective(x, y):
            out = net(x)
            each = F.mse_loss(out, y, reduction="none")
            return {"loss": each, "out": out}
        for _ in range(5):
            found = objective(x, y)
            opt.zero_grad()
            found["loss"].backward()
            opt.step()
        """,
        ['each = F.mse_loss(out, y, reduction="none").mean()'],
    ),
    "a loss that somebody else reads element by element": (
        f"""
        def objective(x, y):
            out = net(x)
            each = F.mse_loss(out, y, reduction="none")
            return each, each.amax(1)
        for _ in range(5):
            loss, worst = objective(x, y)
            {STEP}
        """,
        ["opt.zero_grad(); loss.mean().backward(); opt.step()"],
    ),
    "a method that is given what it keeps by its own object": (
        f"""
        class Probe(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer, self.log = nn.Linear(3, 3), []
            def note(self, out):
                self.log.append(out.norm())
            def forward(self, x):
                out = self.layer(x)
                self.note(out)
                return out
        probe = Probe()
        opt = torch.optim.SGD(probe.parameters(), lr=0.1)
        for _ in range(5):
            loss = crit(probe(x), y)
            {STEP}
        """,
        ["self.log.append(out.detach().norm())"],
    ),
    "a window that loses its first item before it is read": (
        f"""
        window = []
        for _ in range(50):
            window.append(net(x))
            if len(window) > 4:
                window.pop(0)
            loss = crit(torch.stack(window).mean(0), y)
            {STEP}
        """,
        ["window[-1] = window[-1].detach()"],
    ),
    "the same by del, in a while": (
        f"""
        window = []
        for _ in range(50):
            window.append(net(x))
            while len(window) > 4:
                del window[0]
            loss = crit(torch.stack(window).mean(0), y)
            {STEP}
        """,
        ["window[-1] = window[-1].detach()"],
    ),
    "the same by a slice, of a length that is not known": (
        f"""
        import settings
        window = []
        for _ in range(50):
            window.append(net(x))
            if len(window) > settings.WINDOW:
                window = window[1:]
            loss = crit(torch.stack(window).mean(0), y)
            {STEP}
        """,
        ["window[-1] = window[-1].detach()"],
    ),
    "a bank that a module fills and reads, and a loop elsewhere": (
        """
        class Bank(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer, self.bank = nn.Linear(3, 3), []
            def forward(self, x):
                out = self.layer(x)
                self.bank.append(out)
                keys = torch.cat(self.bank)
                return out @ keys.T
        class Trainer:
            def __init__(self):
                self.model = Bank()
                self.opt = torch.optim.SGD(self.model.parameters(), lr=0.1)
            def update(self, x):
                self.opt.zero_grad()
                self.model(x).logsumexp(-1).mean().backward()
                self.opt.step()
        trainer = Trainer()
        for _ in range(5):
            trainer.update(x)
        """,
        ["self.bank[-1] = self.bank[-1].detach()"],
    ),
    "a mask that is flattened under its own name": (
        f"""
        def overlap(logits, mask):
            pred = (logits.sigmoid() > 0.5).float()
            pred, mask = pred.flatten(1), mask.flatten(1)
            return 1 - (pred * mask).sum() / (pred + mask).sum()
        for _ in range(5):
            loss = overlap(net(x), (y > 0).float())
            {STEP}
        """,
        ["pred = logits.sigmoid()"],
    ),
    "modules that are told to work in place after they were made": (
        f"""
        net2 = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Dropout(0.1), nn.Linear(3, 3))
        for layer in net2.modules():
            if isinstance(layer, (nn.ReLU, nn.Dropout)):
                layer.inplace = True
        for _ in range(5):
            loss = crit(net2(x), y)
            {STEP}
        """,
        ["layer.inplace = False"],
    ),
    "a flag of a leaky unit without a keyword": (
        f"""
        act = nn.LeakyReLU(0.1, True)
        for _ in range(5):
            loss = crit(act(torch.tanh(net(x))), y)
            {STEP}
        """,
        ["act = nn.LeakyReLU(0.1)"],
    ),
    "an item of a list that is added to": (
        f"""
        for _ in range(5):
            maps = [torch.relu(net(x)) for _ in range(3)]
            for i in range(2, 0, -1):
                maps[i - 1] += maps[i]
            loss = sum(crit(one, y) for one in maps)
            {STEP}
        """,
        ["maps[i - 1] = maps[i - 1] + maps[i]"],
    ),
    "columns of an item that are written one by one": (
        f"""
        def squash(column):
            return column * torch.sigmoid(column)
        for _ in range(5):
            out = net(x), 1
            for j in range(3):
                out[0][:, j] = squash(out[0][:, j])
            loss = crit(out[0], y)
            {STEP}
        """,
        ["out[0][:, j] = squash(out[0][:, j].clone())"],
    ),
    "buffers that a call knows by other names": (
        f"""
        class Normed(nn.Linear):
            def __init__(self, a, b):
                super().__init__(a, b)
                self.register_buffer("u", torch.randn(b))
                self.register_buffer("v", torch.randn(a))
            def forward(self, data):
                with torch.no_grad():
                    self.v.copy_(F.normalize(self.weight.t() @ self.u, dim=0))
                    self.u.copy_(F.normalize(self.weight @ self.v, dim=0))
                u, v = self.u, self.v
                return F.linear(data, self.weight / torch.dot(u, torch.mv(self.weight, v)), self.bias)
        critic = Normed(3, 3)
        opt.add_param_group(dict(params=critic.parameters()))
        for _ in range(5):
            loss = crit(critic(x), y) - crit(critic(y), x)
            {STEP}
        """,
        ["u, v = self.u.clone(), self.v.clone()"],
    ),
    "a step in front of a pass that only runs where there is a loss": (
        """
        opt1, opt2 = torch.optim.Adam(net.parameters()), torch.optim.Adam(other.parameters())
        def update(first=None, second=None):
            if first is not None:
                first.backward()
            opt1.step()
            if second is not None:
                second.backward()
            opt2.step()
        for _ in range(5):
            opt1.zero_grad(); opt2.zero_grad()
            fake = other(x)
            update(crit(net(y), net(fake.detach())), -net(torch.tanh(net(fake))).mean())
        """,
        [
            "if second is not None:",
            "second.backward(inputs=[p for group in opt2.param_groups for p in group['params']])",
        ],
    ),
    "a total that goes on after a step of SAM's": (
        """
        for _ in range(5):
            loss = 0
            for head in (net, other):
                loss += crit(head(x), y)
            loss.backward()
            with torch.no_grad():
                for p in net.parameters():
                    p.add_(0.1 * p.grad)
            opt.zero_grad()
            for head in (net, other):
                loss += crit(head(x), y)
            loss.backward()
            opt.step()
        """,
        ["loss = 0"],
    ),
    "a list of losses that goes on after a step": (
        """
        for _ in range(5):
            losses = []
            for _ in range(3):
                losses.append(crit(net(x), y))
            opt.zero_grad(); torch.stack(losses).mean().backward(); opt.step()
            for _ in range(3):
                losses.append(crit(net(y), x))
            opt.zero_grad(); torch.stack(losses).mean().backward(); opt.step()
        """,
        ["losses = []"],
    ),
    "a second output that nobody reads": (
        """
        for _ in range(5):
            out = net(x)
            loss = crit(out, y)
            loss.backward()
            with torch.no_grad():
                for p in net.parameters():
                    p.add_(0.1 * p.grad)
            opt.zero_grad()
            out2 = net(x)
            again = crit(out, y)
            again.backward()
            opt.step()
        """,
        ["out = net(x)"],
    ),
    "states of modules somewhere below a network": (
        f"""
        class Leaky(nn.Module):
            def __init__(self):
                super().__init__()
                self.mem = None
            def forward(self, current):
                if self.mem is None:
                    self.mem = torch.zeros_like(current)
                self.mem = 0.9 * self.mem + current
                return torch.sigmoid(self.mem - 1)
        deep = nn.Sequential(net, Leaky(), other, Leaky())
        for _ in range(5):
            loss = sum(crit(deep(x), y) for _ in range(4))
            {STEP}
        """,
        [
            "for module in deep.modules():",
            "if isinstance(module, Leaky):",
            "module.mem = module.mem.detach()",
        ],
    ),
    "a mean of all losses so far, sent back for each of them": (
        """
        for _ in range(5):
            opt.zero_grad()
            losses = []
            for _ in range(3):
                losses.append(crit(net(x), y))
                objective = sum(losses) / 3
                objective.backward()
            opt.step()
            print(objective.item())
        """,
        ["objective = sum(losses) / 3", "objective.backward()"],
    ),
    "a total that is sent back whenever something is added": (
        """
        for _ in range(5):
            opt.zero_grad()
            total = 0
            for _ in range(3):
                total = total + crit(net(x), y)
                total.backward()
                print(total.item())
            opt.step()
        """,
        ["total.backward()"],
    ),
    "parts of one output that a generator hands out": (
        """
        def parts():
            grid = net(x)
            for at in range(3):
                yield grid[:, at]
        for _ in range(5):
            opt.zero_grad()
            for part in parts():
                loss = other(part.unsqueeze(1).expand(-1, 3)).pow(2).mean()
                loss.backward()
            opt.step()
        """,
        ["total = 0", "total = total + loss", "total.backward()"],
    ),
    "what is chosen by the command line, if anything is given": (
        f"""
        import sys
        def drift(q, by):
            q += by
            return q
        def run(name="drift"):
            for _ in range(5):
                q = torch.zeros(4, 3)
                for _ in range(2):
                    q = {{"drift": drift}}[name](q, net(q))
                loss = crit(net(q), y)
                {STEP}
        run(*(sys.argv[1:2] or ["drift"]))
        """,
        ["q = q + by"],
    ),
    "a class that is looked up among the globals": (
        f"""
        import argparse
        class Plain(nn.Module):
            def forward(self, data):
                out = net(data).sigmoid()
                out += 1
                return out
        parser = argparse.ArgumentParser()
        parser.add_argument("--model", default="Plain")
        model = globals()[parser.parse_args().model]()
        for _ in range(5):
            loss = crit(model(x), y)
            {STEP}
        """,
        ["out = out + 1"],
    ),
    "a class that a configuration in JSON names": (
        f"""
        import json
        config = json.loads('{{"model": {{"name": "plain", "by": [1, 2]}}}}')
        class Plain(nn.Module):
            def __init__(self, by):
                super().__init__()
                self.by = by[1]
            def forward(self, data):
                out = net(data).sigmoid()
                out += self.by
                return out
        def build(name, by):
            return {{"plain": Plain, "other": nn.Identity}}[name](by)
        model = build(**config["model"])
        for _ in range(5):
            loss = crit(model(x), y)
            {STEP}
        """,
        ["out = out + self.by"],
    ),
    "losses that a list hands over as numbers, beside weights that train": (
        """
        log_var = nn.Parameter(torch.zeros(2))
        both = torch.optim.Adam([{"params": net.parameters()}, {"params": [log_var], "lr": 0.01}])
        for _ in range(5):
            parts = {"a": crit(net(x), y), "b": net(y).abs().mean()}
            values = torch.as_tensor([parts[k] for k in ("a", "b")])
            loss = (torch.exp(-log_var) * values + log_var).sum()
            both.zero_grad(); loss.backward(); both.step()
        """,
        ['values = torch.stack([parts[k] for k in ("a", "b")])'],
    ),
    "grad mode that a context manager leaves off": (
        f"""
        from contextlib import contextmanager
        @contextmanager
        def evaluation(model):
            model.eval()
            torch.set_grad_enabled(False)
            yield model
            model.train()
        for epoch in range(5):
            loss = crit(net(x), y)
            {STEP}
            with evaluation(net) as quiet:
                print(quiet(x).mean().item())
        """,
        ["with torch.no_grad():", "yield model", "model.train()"],
    ),
    "a reset that gives the name of each list another one": (
        f"""
        seen = {{"a": [], "b": []}}
        def keep(module, args, out):
            seen["a"].append(out)
        net.register_forward_hook(keep)
        def reset(store):
            for outs in store.values():
                outs = []
        for _ in range(5):
            reset(seen)
            loss = crit(net(x), y) + sum(out.abs().mean() for out in seen["a"])
            {STEP}
        """,
        ["outs.clear()"],
    ),
    "a function that makes the loss function, and computes something once": (
        f"""
        def objective_of(model, side):
            table = model(side)
            def objective(rows):
                return crit(table[rows], other(y)[rows])
            return objective
        objective = objective_of(net, x)
        for _ in range(5):
            loss = objective(torch.tensor([0, 1]))
            {STEP}
        """,
        ["table = model(side)"],
    ),
    "parts of a tensor in a dictionary that are added to": (
        f"""
        def split(h):
            return {{"left": h[:, :1], "right": h[:, 1:]}}
        for _ in range(5):
            h = net(x)
            gate = torch.sigmoid(other(h))
            parts = split(h)
            for name in parts:
                parts[name] += gate.mean()
            loss = (gate * torch.cat(list(parts.values()), dim=1)).sum()
            {STEP}
        """,
        ["parts[name] = parts[name] + gate.mean()"],
    ),
    "a container of modules of a class of one's own": (
        f"""
        class Heads(nn.ModuleDict):
            def forward(self, data):
                return {{name: head(data) for name, head in self.items()}}
        heads = Heads({{"a": net, "b": other}})
        for _ in range(5):
            gate = torch.sigmoid(heads(x)["a"])
            gate += 1
            loss = gate.sum()
            {STEP}
        """,
        ["gate = gate + 1"],
    ),
    "a state that begins with a parameter, and a method that nobody calls": (
        """
        class Evolving(nn.Module):
            def __init__(self):
                super().__init__()
                self.first = nn.Parameter(torch.eye(3))
                self.cell = nn.GRU(3, 3)
                self.weight = None
            def restart(self):
                self.weight = None
            def forward(self, data):
                w = self.first if self.weight is None else self.weight
                _, w = self.cell(w[None], w[None])
                self.weight = w.squeeze(0)
                return data @ self.weight
        model = Evolving()
        own = torch.optim.SGD(model.parameters(), lr=0.1)
        for epoch in range(5):
            loss = crit(model(x), y)
            own.zero_grad(); loss.backward(); own.step()
        """,
        ["model.restart()"],
    ),
    "a cache behind a bare return, of what a gradient is asked for": (
        f"""
        class Table:
            known = None
            def setup(self, cell):
                if self.known is not None and torch.equal(cell, self.known):
                    return
                self.known = cell.detach().clone()
                self.inverse = torch.linalg.inv(cell)
            def energy(self, data, cell):
                self.setup(cell)
                return (data @ self.inverse).pow(2).sum()
        table = Table()
        for _ in range(5):
            cell = torch.eye(3).requires_grad_(True)
            energy = table.energy(net(x), cell)
            stress = torch.autograd.grad(energy, cell, create_graph=True)[0]
            loss = energy + stress.pow(2).mean()
            {STEP}
        """,
        [],
    ),
    "reentrant checkpoints of which no input requires grad": (
        f"""
        from torch.utils.checkpoint import checkpoint
        for _ in range(5):
            out = checkpoint(net, x, use_reentrant=True)
            loss = crit(out, y)
            {STEP}
        """,
        ["out = checkpoint(net, x, use_reentrant=False)"],
    ),
    "the best of several values, by its name": (
        f"""
        last = torch.zeros(())
        for _ in range(5):
            best = net(x).max(1).values
            loss = (best * last).sum() + best.sum()
            last = best.mean()
            {STEP}
        """,
        ["last = best.mean().detach()"],
    ),
    "two parts of one output, one for each loss": (
        """
        critic = nn.Linear(3, 1)
        own, theirs = torch.optim.SGD(net.parameters(), lr=0.1), torch.optim.SGD(critic.parameters(), lr=0.1)
        for _ in range(5):
            now, following = torch.tanh(net(torch.stack([x, y]))).unbind(0)
            goal = 0.9 * other(following) + 1
            first = now.pow(2).mean()
            second = crit(critic(y), goal[:, :1])
            own.zero_grad(); first.backward(); own.step()
            theirs.zero_grad(); second.backward(); theirs.step()
        """,
        ["following = following.detach()"],
    ),
    "a memory that is updated behind the step and read by the next iteration": (
        """
        cell = nn.GRUCell(3, 3)
        opt.add_param_group(dict(params=cell.parameters()))
        memory = torch.zeros(4, 3)
        for _ in range(9):
            loss = crit(net(memory) + other(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            memory = cell(memory, memory)
        """,
        ["memory = memory.detach()"],
    ),
    "a state that is emptied in place, and keeps the way to what it was": (
        f"""
        class Cell(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("v", torch.zeros(4, 3))
            def reset(self):
                for buffer in self.buffers():
                    buffer.zero_()
            def forward(self, data):
                self.v = 0.9 * self.v + data
                return self.v
        cell = Cell()
        for _ in range(9):
            cell.reset()
            loss = crit(cell(net(x)), y)
            {STEP}
        """,
        ["buffer.detach_()"],
    ),
    "weights times a loss for each of who knows how many": (
        f"""
        each = nn.SmoothL1Loss(reduction="none")
        for rows in torch.load("rows.pt"):
            weights, goal = torch.rand(len(rows)), torch.rand(len(rows))
            loss = weights * each(net(rows).gather(1, rows.long()).squeeze(1), goal)
            {STEP}
        """,
        ["loss = (weights * each(net(rows).gather(1, rows.long()).squeeze(1), goal)).mean()"],
    ),
}

RIGHT = {
    "a state that is carried from a step on and cut loose from the next": f"""
        state = torch.zeros(4, 3)
        for step in range(60):
            if step > 21:
                state = state.detach()
            z = net(x) + state
            loss = crit(z, y)
            {STEP}
            if step > 20:
                state = z
        """,
    "the same with a count that falls": f"""
        state = torch.zeros(4, 3)
        for left in range(60, 0, -1):
            if left < 21:
                state = state.detach()
            z = net(x) + state
            loss = crit(z, y)
            {STEP}
            if left <= 21:
                state = z
        """,
    "the same with a count of its own": f"""
        class Run:
            def __init__(self):
                self.done, self.state = 0, torch.zeros(4, 3)
            def step(self):
                self.done += 1
                if self.done > 5:
                    self.state = self.state.detach()
                z = net(x) + self.state
                loss = crit(z, y)
                {STEP}
                if self.done >= 5:
                    self.state = z
        run = Run()
        for _ in range(60):
            run.step()
        """,
    "states in a random order, each with a loss of its own": """
        for epoch in range(3):
            states, losses = [torch.zeros(4, 3) for _ in range(5)], []
            for i in torch.randperm(5).tolist():
                states[i] = torch.tanh(net(x + states[i]))
                losses.append(crit(states[i], y))
            opt.zero_grad()
            for i in torch.randperm(5).tolist():
                losses[i].backward()
            opt.step()
        """,
    "states of nodes that begin anew with each epoch": f"""
        class Node:
            def __init__(self):
                self.state = torch.zeros(4, 3)
        nodes = {{i: Node() for i in range(5)}}
        for epoch in range(3):
            for node in nodes.values():
                node.state = torch.zeros(4, 3)
            loss = 0.0
            for one, two in torch.randint(0, 5, (12, 2)).tolist():
                sent = net(nodes[one].state + nodes[two].state)
                nodes[one].state = torch.tanh(other(sent + nodes[one].state))
                loss = loss + crit(nodes[one].state, y)
            {STEP}
        """,
    "states of users that come again, kept as values": f"""
        import random
        class User:
            def __init__(self):
                self.state = torch.zeros(4, 3)
        users = {{f"user {{i}}": User() for i in range(4)}}
        for _ in range(9):
            user = users[random.choice(list(users))]
            state, loss = user.state, 0.0
            for _ in range(3):
                state = torch.tanh(net(x + state))
                loss = loss + crit(state, y)
            {STEP}
            user.state = state.detach()
        """,
    "workers that begin where nothing is recorded": f"""
        from torch.utils.data import DataLoader, Dataset
        class Encoded(Dataset):
            def __len__(self):
                return 4
            def __getitem__(self, at):
                return net(x[at])
        loader = DataLoader(Encoded(), batch_size=2, num_workers=2)
        with torch.no_grad():
            codes = torch.cat(list(loader))
            for batch in loader:
                print(batch.norm())
        for _ in range(3):
            loss = crit(other(codes), y)
            {STEP}
        """,
    "terms of several tasks, kept in lists until they are sent backward": f"""
        terms = [[] for _ in range(3)]
        for step in range(50):
            for task in torch.randint(0, 3, (4,)).tolist():
                terms[task].append(crit(net(x), y))
            if step % 2:
                loss = sum(sum(one) for one in terms)
                {STEP}
                for one in terms:
                    one.clear()
        """,
    "datasets whose parameters are looked up in the loop, or whose features have no graph": f"""
        from torch.utils.data import DataLoader, Dataset, TensorDataset
        class Codes(Dataset):
            def __init__(self):
                self.codes = nn.Parameter(torch.randn(4, 3))
            def __len__(self):
                return 4
            def __getitem__(self, at):
                return at, x[at]
        codes = Codes()
        opt = torch.optim.SGD([codes.codes, *net.parameters()], lr=0.1)
        for at, batch in DataLoader(codes, batch_size=2, num_workers=1):
            loss = crit(net(batch), codes.codes[at])
            {STEP}
        with torch.no_grad():
            features = net(x)
        for batch, goal in DataLoader(TensorDataset(features, y), batch_size=2, num_workers=2):
            loss = crit(net(batch), goal)
            {STEP}
        """,
    "a loader over what is sent backward as a whole": f"""
        from torch.utils.data import DataLoader, TensorDataset
        for _ in range(3):
            loss = 0.0
            for batch, goal in DataLoader(TensorDataset(net(x), y), batch_size=2):
                loss = loss + crit(other(batch), goal)
            {STEP}
        """,
    "a dataset that computes each item anew": f"""
        from torch.utils.data import DataLoader, Dataset
        class Encoded(Dataset):
            def __len__(self):
                return 4
            def __getitem__(self, at):
                return net(x[at]), y[at]
        for _ in range(3):
            for batch, goal in DataLoader(Encoded(), batch_size=2):
                loss = crit(other(batch), goal)
                {STEP}
        """,
    "a window of one": f"""
        window = []
        for _ in range(50):
            window.append(net(x))
            if len(window) > 1:
                window.pop(0)
            loss = crit(torch.stack(window).mean(0), y)
            {STEP}
        """,
    "a window that is sent backward whole, and emptied": f"""
        window = []
        for step in range(50):
            window.append(net(x))
            if len(window) > 4:
                window.pop(0)
            if (step + 1) % 5 == 0:
                loss = crit(torch.stack(window).mean(0), y)
                {STEP}
                window.clear()
        """,
    "a discriminator's output in two losses of its own": """
        second = torch.optim.SGD(other.parameters(), lr=0.1)
        for _ in range(5):
            score = other(net(x).detach())
            second.zero_grad()
            score.mean().backward(retain_graph=True)
            score.pow(2).mean().backward()
            second.step()
        """,
    "a total that is begun anew": """
        for _ in range(5):
            loss = 0
            for head in (net, other):
                loss += crit(head(x), y)
            loss.backward(); opt.step(); opt.zero_grad()
            loss = 0
            for head in (net, other):
                loss += crit(head(x), y)
            loss.backward(); opt.step(); opt.zero_grad()
        """,
    "a loss that a second one contains, on purpose": """
        for _ in range(5):
            shared = crit(net(x), y)
            opt.zero_grad()
            shared.backward(retain_graph=True)
            (shared + other(x).pow(2).mean()).backward()
            opt.step()
        """,
    "each task's own loss is sent back in the loop": """
        for _ in range(5):
            opt.zero_grad()
            total = 0
            for _ in range(3):
                loss = crit(net(x), y)
                loss.backward()
                total += loss.item()
            opt.step()
        """,
    "a second output that is read": """
        for _ in range(5):
            out = net(x)
            crit(out, y).backward()
            out2 = net(x)
            crit(out2, y).backward()
            opt.step(); opt.zero_grad()
        """,
    "states of modules that are reset for each batch": """
        class Leaky(nn.Module):
            def __init__(self):
                super().__init__()
                self.mem = None
            def forward(self, current):
                self.mem = current if self.mem is None else 0.9 * self.mem + current
                return torch.sigmoid(self.mem - 1)
        deep = nn.Sequential(net, Leaky(), other, Leaky())
        for _ in range(5):
            for module in deep.modules():
                if isinstance(module, Leaky):
                    module.mem = None
            loss = sum(crit(deep(x), y) for _ in range(4))
            opt.zero_grad(); loss.backward(); opt.step()
        """,
    "modules that work in place where nothing needs the old value": """
        net2 = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3))
        for layer in net2.modules():
            if isinstance(layer, nn.ReLU):
                layer.inplace = True
        for _ in range(5):
            opt.zero_grad(); crit(net2(x), y).backward(); opt.step()
        """,
    "weights from the losses' values, beside the losses": """
        for _ in range(5):
            losses = [crit(net(x), y), crit(other(x), y)]
            weights = torch.softmax(torch.tensor([one.item() for one in losses]), 0)
            opt.zero_grad()
            sum(w * one for w, one in zip(weights, losses)).backward()
            opt.step()
        """,
    "features of a network that is not to be trained": """
        head = nn.Linear(3, 3)
        both = torch.optim.SGD([*net.parameters(), *head.parameters()], lr=0.1)
        for _ in range(5):
            features = net(x).detach()
            both.zero_grad(); crit(head(features), y).backward(); both.step()
        """,
    "a network that trains later": """
        head = nn.Linear(3, 3)
        both = torch.optim.SGD([*net.parameters(), *head.parameters()], lr=0.1)
        for stage in range(2):
            for _ in range(5):
                features = torch.tensor(net(x).tolist()) if stage == 0 else net(x)
                both.zero_grad(); crit(head(features), y).backward(); both.step()
        """,
    "another optimizer's network": """
        head = nn.Linear(3, 3)
        own = torch.optim.SGD(head.parameters(), lr=0.1)
        for _ in range(5):
            features = torch.tensor(net(x).tolist())
            own.zero_grad(); crit(head(features), y).backward(); own.step()
        """,
    "grad mode that a context manager switches on again": """
        from contextlib import contextmanager
        @contextmanager
        def evaluation(model):
            torch.set_grad_enabled(False)
            try:
                yield model
            finally:
                torch.set_grad_enabled(True)
        for epoch in range(5):
            loss = crit(net(x), y)
            opt.zero_grad(); loss.backward(); opt.step()
            with evaluation(net) as quiet:
                print(quiet(x).mean().item())
        """,
    "checkpoints that do record": """
        from torch.utils.checkpoint import checkpoint
        for _ in range(5):
            hidden = checkpoint(net, x.requires_grad_(), use_reentrant=True)
            hidden = checkpoint(other, hidden, use_reentrant=True)
            opt.zero_grad(); crit(hidden, y).backward(); opt.step()
        """,
    "states that are reset in place where there are any": """
        class Cell(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("v", torch.zeros(0))
            def ready(self):
                return all(buffer.numel() > 0 for buffer in self.buffers())
            def reset(self):
                if self.ready():
                    for buffer in self.buffers():
                        buffer.detach_().zero_()
            def forward(self, data):
                if not self.ready():
                    self.v = torch.zeros(data.shape)
                self.v = 0.9 * self.v + data
                return self.v
        cell = Cell()
        for _ in range(9):
            cell.reset()
            opt.zero_grad(); crit(cell(net(x)), y).backward(); opt.step()
        """,
    "a flag that is ignored, where nothing else is wrong": """
        from torch.autograd import Variable
        data = Variable(x, volatile=True)
        for _ in range(5):
            opt.zero_grad(); crit(net(data), y).backward(); opt.step()
        """,
    "a memory that is updated behind the step, of detached values": """
        cell = nn.GRUCell(3, 3)
        opt.add_param_group(dict(params=cell.parameters()))
        memory = torch.zeros(4, 3)
        for _ in range(9):
            opt.zero_grad(); crit(net(memory), y).backward(); opt.step()
            memory = cell(x, memory.detach())
        """,
    "an argument that the command line may give": """
        import sys
        steps = int(sys.argv[1]) if len(sys.argv) > 1 else 5
        if len(sys.argv) > 2:
            net.load_state_dict(torch.load(sys.argv[2]))
        for _ in range(steps):
            opt.zero_grad(); crit(net(x), y).backward(); opt.step()
        """,
}


def program(text: str) -> str:
    return HEADER + textwrap.dedent(text)


@pytest.mark.parametrize(("text", "expected"), SHAPES.values(), ids=SHAPES.keys())
def test_shape(text: str, expected: list[str]) -> None:
    """The patch adds the *expected* lines, without indentation, and the patched text is repaired in full."""
    before = program(text)
    mended = mend(Program.of(before, "program.py"), all_codemods())
    assert mended.left == (), mended.refused
    after = mended.patched.files[0].text
    ast.parse(after)
    compared = difflib.ndiff(before.splitlines(), after.splitlines())
    assert [line[2:].strip() for line in compared if line.startswith("+ ")] == expected


@pytest.mark.parametrize("text", RIGHT.values(), ids=RIGHT.keys())
def test_what_is_right_is_left_alone(text: str) -> None:
    before = program(text)
    mended = mend(Program.of(before, "program.py"), all_codemods())
    assert mended.observation.facts == ()
    assert mended.patched.files[0].text == before


def test_what_a_patch_inserts_stands_behind_declarations_and_docstrings() -> None:
    text = program(f"""
        def main():
            states = {{"low": torch.zeros(4, 3), "high": torch.zeros(4, 3)}}
            def step():
                "One step."
                nonlocal states
                states["low"] = torch.tanh(net(x + states["low"]))
                states["high"] = torch.tanh(other(states["low"] + states["high"]))
                loss = crit(states["high"], y)
                {STEP}
            for _ in range(5):
                step()
        main()
        """)
    mended = mend(Program.of(text, "program.py"), all_codemods())
    lines = mended.patched.files[0].text.splitlines()
    at = lines.index("        nonlocal states")
    assert lines[at - 1 : at + 2] == ['        "One step."', "        nonlocal states", "        for key in states:"]
