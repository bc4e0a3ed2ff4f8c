"""Look-alikes: programs that are right and look like a cut, unreduced, held or escaping graph"""

from __future__ import annotations

import textwrap
from contextlib import nullcontext

import pytest

from autofix.codemods.facts.base import Certainty
from autofix.codemods.interpreter.analysis import analyze
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

RIGHT = {
    "an answer of an unread model is handed to an unread memory": """
        class Agent:
            def __init__(self, policy, memory):
                self.policy, self.memory = policy, memory
                self.optimizer = torch.optim.Adam(self.policy.parameters())
            def learn(self):
                self.policy.train()
                recurrent, width = self.policy.is_recurrent(), self.policy.state_size()
                for state, reward in self.memory.batches(recurrent=recurrent, width=width):
                    loss = F.mse_loss(self.policy(state), reward)
                    self.optimizer.zero_grad(); loss.backward(); self.optimizer.step()
                self.last = reward.cpu().numpy()
        """,
    "a configuration that is None by default answers alike each time": """
        class Agent:
            def __init__(self, config=None):
                self.config, self.net = config, nn.Linear(3, 3)
                self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
                if self.config.learned:
                    self.shares = self.net(x).softmax(1)
            def learn(self, rewards):
                if self.config.learned:
                    loss = -(rewards * self.shares[:, 0].log()).sum()
                    self.optimizer.zero_grad(); loss.backward(); self.optimizer.step()
                if self.config.learned:
                    self.shares = self.net(x).softmax(1)
        """,
    "a list that holds itself": """
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        for step in range(3):
            rewards = []
            for turn in range(5):
                rewards.append(rewards)
            opt.zero_grad(); crit(net(x), y).backward(); opt.step()
        """,
    "the keys of an unread model's parameters, and those that it lacks": """
        from library import make
        body = make()
        names = [name for name in body.state_dict()]
        missing, unexpected = body.load_state_dict(torch.load("body.pt"), strict=False)
        for step in range(3):
            opt.zero_grad(); crit(net(x), y).backward(); opt.step()
        """,
    "a copy of a network without its graph is called": """
        target = {name: p.detach().clone() for name, p in net.named_parameters()}
        kept = torch.zeros(4, 3)
        for step in range(3):
            opt.zero_grad(); crit(net(x) + kept, y).backward(); opt.step()
            kept = torch.func.functional_call(net, target, (x,))
        """,
    "a list that is emptied item by item": """
        held = []
        for step in range(3):
            for turn in range(3):
                held.append(crit(net(x), y))
            opt.zero_grad(); sum(held).backward(); opt.step()
            while len(held) > 0:
                held.pop(0)
        """,
    "an unknown picks places of whole numbers": """
        from library import batches
        for batch, actions in batches:
            places = torch.zeros(4, dtype=torch.long)
            chosen = (actions == 1).nonzero().squeeze(1)
            picked = net(batch)[chosen, places[chosen]].pow(2)
            places[chosen] += 1
            opt.zero_grad(); picked.sum().backward(); opt.step()
        """,
    "a state that is cut in every iteration by a number": """
        every, h = 1, torch.zeros(4, 3)
        for step in range(3):
            h = net(x + h)
            opt.zero_grad(); crit(h, y).backward(); opt.step()
            if (step + 1) % every == 0:
                h = h.detach()
        """,
    "an object that copies itself without its graph": """
        class State:
            def __init__(self, h):
                self.h = h
            def __copy__(self):
                return State(self.h.detach())
            def __deepcopy__(self, memo):
                return State(self.h.detach())
        first, second = State(torch.zeros(4, 3)), State(torch.zeros(4, 3))
        for step in range(3):
            first.h, second.h = net(x + first.h), net(x + second.h)
            opt.zero_grad(); (crit(first.h, y) + crit(second.h, y)).backward(); opt.step()
            first, second = copy.copy(first), copy.deepcopy(second)
        """,
    "a function without a graph by a wrapper": """
        kept = torch.zeros(4, 3)
        for step in range(3):
            opt.zero_grad(); crit(net(x) + kept, y).backward(); opt.step()
            kept = torch.no_grad()(net.forward)(x)
        """,
    "samples at places that a model gives": """
        def step(model, batch):
            scale = torch.distributions.Normal(net(batch), 1.0)
            drawn = scale.sample()
            picked = drawn[model.places(4), np.arange(4) % 3]
            opt.zero_grad(); (-scale.log_prob(picked[:, None]).mean()).backward(); opt.step()
            return picked.cpu().numpy()
        """,
    "an option's usual value drops nothing": """
        import argparse
        parser = argparse.ArgumentParser()
        parser.add_argument("--dropout", default=0.0, type=float)
        args = parser.parse_args()
        body = nn.Sequential(nn.Linear(3, 8), nn.ReLU(inplace=True), nn.Dropout(args.dropout, inplace=True))
        opt = torch.optim.SGD(body.parameters(), lr=0.1)
        for step in range(3):
            opt.zero_grad(); body(x).mean().backward(); opt.step()
        """,
    "a method that only another one of its class calls finds what that one has left": """
        class Agent:
            def __init__(self, env):
                self.env, self.critic = env, nn.Linear(3, 1)
                self.optimizer = torch.optim.Adam(self.critic.parameters())
            def act(self, state):
                self.transition.extend([self.critic(state)])
            def learn(self):
                value, reward, following = self.transition
                loss = (value - reward).pow(2).mean()
                self.optimizer.zero_grad(); loss.backward(); self.optimizer.step()
            def run(self, steps):
                state = torch.randn(3)
                while steps > 0:
                    self.transition = []
                    self.act(state)
                    state, reward = self.env(0)
                    self.transition.extend([reward, state])
                    self.learn()
                    steps -= 1
        """,
    "a part of an episode has the fields of its steps": """
        import random
        class Memory:
            def __init__(self):
                self.episodes, self.steps = [], []
            def push(self, state, hidden, done):
                self.steps.append((state, hidden))
                if done:
                    self.episodes.append(self.steps)
                    self.steps = []
            def sample(self):
                episode = random.choice(self.episodes)
                start = random.randint(0, len(episode) - 3)
                states, hiddens = zip(*episode[start:start + 3])
                return torch.stack(list(states)), torch.stack(list(hiddens))
        online, target, memory = nn.RNN(2, 3), nn.RNN(2, 3), Memory()
        opt = torch.optim.SGD(online.parameters(), lr=0.1)
        for episode in range(20):
            hidden = torch.zeros(1, 3)
            for t in range(9):
                state = torch.randn(2)
                with torch.no_grad():
                    out, after = target(state.view(1, 2), hidden)
                memory.push(state, hidden, t == 8)
                hidden = after
            states, hiddens = memory.sample()
            loss = online(states, hiddens[0].detach())[0].pow(2).mean()
            opt.zero_grad(); loss.backward(); opt.step()
        """,
    "an index of a type of CUDA's tensors copies rows": """
        Long = torch.cuda.LongTensor if torch.cuda.is_available() else torch.LongTensor
        cell = nn.RNNCell(3, 3)
        opt = torch.optim.SGD(cell.parameters(), lr=0.1)
        rows = torch.randn(6, 3)
        for i in range(6):
            before = rows[Long([i])]
            after = cell(x[:1], before)
            rows[i, :] = after.squeeze(0)
            loss = (after - before.detach()).pow(2).mean()
            opt.zero_grad(); loss.backward(); opt.step()
            rows.detach_()
        """,
    "the number of classes that a file names is hardly 0": """
        import json
        class Body(nn.Sequential):
            def __init__(self, classes=None):
                super().__init__(nn.Linear(3, 3), nn.ReLU())
                if classes:
                    self.add_module("out", nn.Linear(3, classes))
        body = Body(json.load(open("shape.json"))["shape"][0])
        opt = torch.optim.SGD(body.parameters(), lr=0.1)
        for step in range(3):
            scale = body(x)
            scale.clamp_(-20, 2)
            opt.zero_grad(); scale.exp().mean().backward(); opt.step()
        """,
    "a baseline weighs the log-probabilities as a number": """
        policy, value = nn.Linear(3, 2), nn.Linear(3, 1)
        opt = torch.optim.SGD([*policy.parameters(), *value.parameters()], lr=0.1)
        for step in range(3):
            chosen = torch.log_softmax(policy(x), -1)[:, :1]
            loss = (-chosen * (torch.rand(4, 1) - value(x).mean().item())).sum()
            opt.zero_grad(); loss.backward(); opt.step()
        """,
    "the old of two log-likelihoods is a number": """
        from torch.distributions import Normal
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        for episode in range(3):
            old = []
            for row in x:
                old.append(Normal(net(row), 1.0).log_prob(y[0]).sum().exp())
            old = torch.tensor(old)
            for step in range(3):
                new = Normal(net(x), 1.0).log_prob(y).sum(-1)
                loss = -torch.exp(new - torch.log(old)).mean()
                opt.zero_grad(); loss.backward(); opt.step()
        """,
    "parameters may be chained by a name of an import of all names": """
        from itertools import *
        body = nn.Linear(3, 3)
        opt = torch.optim.SGD(chain(body.parameters(), net.parameters()), lr=0.1)
        for step in range(3):
            h = body(x)
            loss = crit(net(h.detach()), y)
            opt.zero_grad(); (loss + h.mean()).backward(); opt.step()
        """,
    "what is put together of new tensors only is no total": """
        for step in range(10):
            loss = crit(net(x), y)
            opt.zero_grad(); loss.backward(); opt.step()
            both = torch.cat((net.weight.unsqueeze(1), net(x)[:3].unsqueeze(1)), 1)
            print(both.shape)
        """,
    "what goes through the outputs of one forward pass keeps no other graph": """
        layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(int(input())))
        def outputs(x):
            found = []
            for layer in layers:
                found.append(layer(x))
            return found
        def evaluate(batches):
            figures = []
            for batch in batches:
                several = outputs(batch)
                apart = 0.0
                for at in range(len(several)):
                    apart += (several[at] - several[at].detach().mean()).pow(2).mean()
                figures.append((apart / len(several)).item())
            return figures
        for epoch in range(3):
            for step in range(10):
                loss = sum(one.pow(2).mean() for one in outputs(x))
                opt.zero_grad(); loss.backward(); opt.step()
            layers.eval()
            print(evaluate([x, y] * 10))
            layers.train()
        """,
    "the type of a parameter is not NumPy's": """
        def penalty(w):
            if type(w) == np.ndarray:
                w = torch.from_numpy(w)
            return w.square().sum()
        for _ in range(3):
            loss = penalty(net.weight)
            opt.zero_grad(); loss.backward(); opt.step()
        """,
    "the data of packed sequences have their graph": """
        from torch.nn.utils.rnn import PackedSequence, pack_sequence
        def each(layer, packed):
            return PackedSequence(layer(packed.data), packed.batch_sizes)
        for _ in range(3):
            out = each(net, pack_sequence([x, y]))
            loss = crit(out.data, torch.zeros(8, 3))
            opt.zero_grad(); loss.backward(); opt.step()
        """,
    "who asks for the shape of a loss sends back what can be": """
        each = nn.MSELoss(reduction="none")
        for _ in range(3):
            loss = each(net(x), y)
            if loss.dim() > 0:
                loss = loss.mean()
            opt.zero_grad(); loss.backward(); opt.step()
            loss = each(net(x), y)
            if loss.numel() == 1:
                loss.backward()
            else:
                loss.backward(torch.ones_like(loss))
        """,
    "outside grad mode every tensor hands its array out, and force=True does in it": """
        for _ in range(3):
            out = net(x)
            opt.zero_grad(); out.mean().backward(); opt.step()
            with torch.no_grad():
                print(net.weight.numpy(), out.numpy(), np.asarray(out))
            print(out.numpy(force=True))
        """,
    "a helper looks whether there is a graph to drop": """
        def to_numpy(t):
            return t.detach().cpu().numpy() if t.requires_grad else t.cpu().numpy()
        def to_array(t):
            if t.grad_fn is not None:
                t = t.detach()
            return t.numpy()
        other.weight.requires_grad_(False)
        for _ in range(3):
            out = net(x)
            opt.zero_grad(); out.mean().backward(); opt.step()
            print(to_numpy(out), to_array(out), other.weight.numpy())
        """,
    "a loss without a graph is not sent backward": """
        def phase(train):
            torch.set_grad_enabled(train)
            loss = net(x).pow(2).mean()
            if loss.requires_grad:
                opt.zero_grad(); loss.backward(); opt.step()
            torch.set_grad_enabled(True)
        phase(True)
        phase(False)
        """,
    "a script that trains asks for the gradient of a copy as well": """
        for _ in range(3):
            loss = net(x).mean()
            opt.zero_grad(); loss.backward(); opt.step()
            copied = loss.clone().detach().requires_grad_(True)
            copied.backward()
        """,
    "the gradient of a copy is what is asked for": """
        scale = torch.tensor(net(x).std().item(), requires_grad=True)
        (scale * 2).backward()
        print(scale.grad)
        """,
    "rewards are numbers and log-probabilities keep their graphs": """
        policy = nn.Linear(3, 2)
        po = torch.optim.Adam(policy.parameters())
        for episode in range(5):
            log_probs, rewards = [], []
            for t in range(4):
                dist = torch.distributions.Categorical(logits=policy(torch.randn(3)))
                a = dist.sample()
                log_probs.append(dist.log_prob(a))
                rewards.append(a.item())
            returns = torch.tensor(rewards).cumsum(0)
            loss = -(torch.stack(log_probs) * returns).sum()
            po.zero_grad(); loss.backward(); po.step()
        """,
    "a teacher is detached and losses are logged as numbers": """
        teacher = nn.Linear(3, 3)
        for _ in range(5):
            with torch.no_grad():
                t = teacher(x)
            loss = crit(net(x), t.detach())
            opt.zero_grad(); loss.backward(); opt.step()
            print(float(loss), loss.item(), torch.tensor(loss.item()))
        """,
    "a switch follows the phase": """
        for phase in ["train", "val"]:
            torch.set_grad_enabled(phase == "train")
            loss = crit(net(x), y)
            if phase == "train":
                opt.zero_grad(); loss.backward(); opt.step()
        """,
    "a block records in one phase only": """
        for phase in ["train", "val"]:
            with torch.set_grad_enabled(phase == "train"):
                loss = crit(net(x), y)
                if phase == "train":
                    opt.zero_grad(); loss.backward(); opt.step()
        """,
    "a graph is cut in two and sent backward in two parts": """
        for _ in range(5):
            h = net(x)
            leaf = h.detach().requires_grad_()
            loss = crit(leaf, y)
            loss.backward()
            h.backward(leaf.grad)
            opt.step()
        """,
    "a target is computed without a graph and the input is trained": """
        for _ in range(5):
            with torch.no_grad():
                target = net(x)
            delta = torch.zeros_like(x, requires_grad=True)
            l = F.mse_loss(net(x + delta), target)
            l.backward()
        """,
    "recording is switched off and back to what it was": """
        def evaluate(model):
            before = torch.is_grad_enabled()
            torch.set_grad_enabled(False)
            v = crit(model(x), y)
            torch.set_grad_enabled(before)
            return v.item()
        for _ in range(5):
            loss = crit(net(x), y)
            opt.zero_grad(); loss.backward(); opt.step()
            evaluate(net)
        """,
    "a switch follows what a caller asks for": """
        def step(train):
            torch.set_grad_enabled(train)
            loss = crit(net(x), y)
            if train:
                loss.backward()
            return loss
        def go(flags):
            for f in flags:
                step(f)
        """,
    "a function that was not read computes the loss": """
        from helpers import compute
        def fit(model, data):
            for a, b in data:
                with torch.no_grad():
                    t = net(a)
                loss = compute(model, a, t)
                loss.backward()
        """,
    "what a caller hands in may have a graph": """
        def distill_loss(student_outputs, x):
            t = net(x).detach()
            loss = F.mse_loss(student_outputs, t)
            loss.backward()
        """,
    "parameters are frozen and thawed again": """
        for p in net.parameters():
            p.requires_grad_(False)
        for p in net.parameters():
            p.requires_grad_(True)
        loss = crit(net(x), y)
        loss.backward()
        """,
    "an image is trained that came from a network": """
        img = net(x).detach().clone().requires_grad_(True)
        o2 = torch.optim.LBFGS([img])
        for _ in range(5):
            def closure():
                o2.zero_grad()
                l = img.pow(2).sum()
                l.backward()
                return l
            o2.step(closure)
        """,
    "a number taken from a network becomes a parameter": """
        scale = torch.tensor(net(x).std().item(), requires_grad=True)
        o2 = torch.optim.Adam([scale])
        for _ in range(5):
            l = (scale * x).pow(2).mean()
            o2.zero_grad(); l.backward(); o2.step()
        """,
    "a switch as a decorator acts in its function only": """
        @torch.set_grad_enabled(False)
        def validate():
            return crit(net(x), y)
        for _ in range(3):
            loss = crit(net(x), y)
            opt.zero_grad(); loss.backward(); opt.step()
            validate()
        """,
    "epochs with and without recording share their code": """
        def run_epoch(train):
            total = 0.0
            for _ in range(3):
                with torch.set_grad_enabled(train):
                    loss = crit(net(x), y)
                if train:
                    opt.zero_grad(); loss.backward(); opt.step()
                total += loss.item()
            return total
        for epoch in range(3):
            run_epoch(True)
            run_epoch(False)
        """,
    "a context that is chosen before": """
        from contextlib import nullcontext
        def run_epoch(train):
            ctx = nullcontext() if train else torch.no_grad()
            with ctx:
                loss = crit(net(x), y)
            if train:
                opt.zero_grad(); loss.backward(); opt.step()
        run_epoch(True); run_epoch(False)
        """,
    "old log-probabilities are recorded without graphs": """
        policy = nn.Linear(3, 2)
        value = nn.Linear(3, 1)
        po = torch.optim.Adam([*policy.parameters(), *value.parameters()])
        for it in range(3):
            obs = torch.randn(8, 3)
            with torch.no_grad():
                dist = torch.distributions.Categorical(logits=policy(obs))
                act = dist.sample()
                old = dist.log_prob(act)
                v = value(obs).squeeze(-1)
            ret = torch.tensor([r.item() for r in v]) + 1
            for k in range(3):
                d = torch.distributions.Categorical(logits=policy(obs))
                ratio = (d.log_prob(act) - old).exp()
                adv = ret - v
                loss = -(ratio * adv).mean() + (value(obs).squeeze(-1) - ret).pow(2).mean()
                po.zero_grad(); loss.backward(); po.step()
        """,
    "gradients are accumulated and numbers logged": """
        losses = []
        for i in range(8):
            loss = crit(net(x), y) / 4
            loss.backward()
            losses.append(loss.item() * 4)
            if (i + 1) % 4 == 0:
                opt.step(); opt.zero_grad()
        print(np.mean(losses), sum(losses) / len(losses), torch.tensor(losses).mean())
        """,
    "losses per element are weighted and averaged": """
        crit2 = nn.MSELoss(reduction="none")
        for _ in range(5):
            loss = crit2(net(x), y)
            loss = (loss * torch.rand(4, 1)).mean()
            opt.zero_grad(); loss.backward(); opt.step()
        """,
    "a gradient is given for several elements": """
        out = net(x)
        out.backward(torch.ones_like(out))
        out = net(x)
        out.backward(gradient=torch.ones(4, 3))
        g = torch.autograd.grad(net(x.requires_grad_()), x, grad_outputs=torch.ones(4, 3))
        """,
    "one element is a scalar whatever its shape": """
        head = nn.Linear(3, 1)
        q = head(torch.randn(1, 3))
        q.backward()
        q = head(torch.randn(3))
        q.backward()
        F.smooth_l1_loss(head(torch.randn(3))[0], torch.tensor(1.0), reduction="none").backward()
        for i in range(4):
            l = (head(x[i]) - 1) ** 2
            l.backward()
            l2 = (head(x[i:i+1]) - 1) ** 2
            l2.backward()
        for now in torch.randperm(4).split(1):
            l3 = nn.MSELoss(reduction="none")(head(x[now]), torch.ones(1, 1))
            l3.backward()
        """,
    "one element is picked": """
        out = net(x)
        out[0, 1].backward(retain_graph=True)
        (out.sum(1).max()).backward(retain_graph=True)
        v, i = out.max(1)
        v.mean().backward()
        """,
    "a log-probability of one action": """
        pol = nn.Linear(3, 2)
        for _ in range(4):
            d = torch.distributions.Categorical(logits=pol(torch.randn(3)))
            a = d.sample()
            loss = -d.log_prob(a) * 1.0
            loss.backward()
        """,
    "a sum of losses is sent backward": """
        for i in range(10):
            total = 0
            for j in range(20):
                total += crit(net(x), y)
            opt.zero_grad(); total.backward(); opt.step()
        """,
    "a sum of losses is sent backward every fourth step": """
        acc = 0
        for i in range(100):
            loss = crit(net(x), y)
            acc = acc + loss / 4
            if (i + 1) % 4 == 0:
                opt.zero_grad(); acc.backward(); opt.step()
                acc = 0
        """,
    "a list of losses is returned to whoever asked": """
        def epoch(model, loader, optimizer):
            total = 0
            losses = []
            for a, b in loader:
                loss = crit(model(a), b)
                optimizer.zero_grad(); loss.backward(); optimizer.step()
                total += crit(model(a), b)
                losses.append(loss)
            return total, losses
        """,
    "numbers and detached values are collected": """
        losses, total = [], 0
        for i in range(100):
            loss = crit(net(x), y)
            opt.zero_grad(); loss.backward(); opt.step()
            losses.append(loss.item()); total += loss.detach(); total += float(loss)
        """,
    "log-probabilities of an episode are stacked for its backward": """
        pol = nn.Linear(3, 2)
        po = torch.optim.Adam(pol.parameters())
        for ep in range(20):
            lp = []
            for t in range(50):
                d = torch.distributions.Categorical(logits=pol(torch.randn(3)))
                a = d.sample()
                lp.append(d.log_prob(a))
            loss = -torch.stack(lp).sum()
            po.zero_grad(); loss.backward(); po.step()
        """,
    "outputs are collected without graphs": """
        outs = []
        net.eval()
        with torch.no_grad():
            for i in range(20):
                outs.append(net(x))
        """,
    "only the last few are kept": """
        from collections import deque
        last = deque(maxlen=10)
        for i in range(100):
            loss = crit(net(x), y)
            opt.zero_grad(); loss.backward(); opt.step()
            last.append(loss)
        """,
    "a list of losses goes to a function that was not read": """
        from lib import report
        losses = []
        for i in range(100):
            loss = crit(net(x), y)
            opt.zero_grad(); loss.backward(); opt.step()
            losses.append(crit(net(x), y))
        report(losses)
        """,
    "another method of the object sends the list backward": """
        class Runner:
            def __init__(self, model, loader):
                self.model, self.loader, self.losses = model, loader, []
                self.opt = torch.optim.SGD(model.parameters(), lr=0.1)
            def fit(self):
                for a, b in self.loader:
                    loss = crit(self.model(a), b)
                    self.opt.zero_grad(); loss.backward(); self.opt.step()
                    self.losses.append(crit(self.model(a), b))
            def finish(self):
                torch.stack(self.losses).sum().backward()
        """,
    "an outer loss of many tasks": """
        for it in range(20):
            outer = 0
            for task in range(10):
                fast = list(net.parameters())
                g = torch.autograd.grad(F.mse_loss(F.linear(x, fast[0], fast[1]), y), fast, create_graph=True)
                fast = [p - 0.1 * q for p, q in zip(fast, g)]
                outer += F.mse_loss(F.linear(x, fast[0], fast[1]), y)
            opt.zero_grad(); outer.backward(); opt.step()
        """,
    "truncated back-propagation through time": """
        cell = nn.GRUCell(3, 3)
        co = torch.optim.SGD(cell.parameters(), lr=0.1)
        h = torch.zeros(4, 3); loss = 0; outs = []
        for t in range(100):
            h = cell(x, h)
            loss = loss + h.mean()
            outs.append(h.detach())
            if t % 5 == 4:
                co.zero_grad(); loss.backward(); co.step()
                h = h.detach(); loss = 0
        """,
    "copies and arrays of what has no graph": """
        import queue
        q = queue.Queue()
        best = copy.deepcopy(net)
        best2 = copy.deepcopy(net.state_dict())
        w = copy.deepcopy(net.weight)
        for _ in range(3):
            out = net(x)
            loss = crit(out, y)
            opt.zero_grad(); loss.backward(); opt.step()
            q.put(out)
            q.get()
            a = np.asarray(out.detach()); b = np.array([loss.item()]); c = np.mean([float(loss)])
            with torch.no_grad():
                d = np.asarray(net(x)); e = copy.deepcopy(net(x))
            f = copy.deepcopy(out.detach()); g = copy.copy(out); h = np.asarray(x)
            t = np.squeeze(out); n = np.shape(out); k = np.size(out)
        """,
    "a closure computes its own loss": """
        lb = torch.optim.LBFGS(net.parameters(), max_iter=4)
        for i in range(4):
            def closure():
                lb.zero_grad()
                loss = crit(net(x), y)
                loss.backward()
                return loss
            print(lb.step(closure).item())
        """,
    "a divergence is divided by the batch": """
        kl = nn.KLDivLoss(reduction="batchmean")
        even = torch.full((2, 3), 1 / 3)
        for a in torch.utils.data.DataLoader(x, batch_size=2):
            loss = kl(net(a).log_softmax(-1), even)
            loss = loss + F.kl_div(net(x).log_softmax(1), y.softmax(1), reduction="batchmean")
            opt.zero_grad(); loss.backward(); opt.step()
        """,
    "the caller says how a loss is reduced": """
        def step(how, scale):
            l = F.mse_loss(net(x), y, reduction=how)
            if how == "none": l = (l * scale).mean()
            opt.zero_grad(); l.backward(); opt.step()
        import sys
        red = sys.argv[1] if len(sys.argv) > 1 else "mean"
        for _ in range(4):
            step("mean", x); step("sum", x)
            nn.MSELoss(reduction=red)(net(x), y).backward()
        """,
    "losses of torch's reduce by themselves": """
        flags, labels = (y > 0).float(), torch.zeros(4, dtype=torch.long)
        for _ in range(4):
            out = net(x)
            l = F.multilabel_soft_margin_loss(out, flags) + F.multi_margin_loss(out, labels)
            l = l + F.triplet_margin_with_distance_loss(out, y, x) + nn.MultiLabelSoftMarginLoss()(out, flags)
            l = l + F.multilabel_margin_loss(out, torch.zeros(4, 3, dtype=torch.long))
            opt.zero_grad(); l.backward(); opt.step()
        """,
    "a batch of one sequence is summed over time": """
        for _ in range(4):
            seq = torch.randn(1, 7, 3)
            loss = net(seq).pow(2).mean(-1).sum(1)
            opt.zero_grad(); loss.backward(); opt.step()
            one = torch.randn(1, 3)
            logp = net(one).log_softmax(-1).gather(1, torch.tensor([[0]])).squeeze(1)
            (-logp).backward()
        """,
    "the gradient of one energy, or of all with a gradient given": """
        head = nn.Linear(3, 1)
        for _ in range(4):
            p = torch.randn(3, requires_grad=True)
            g, = torch.autograd.grad(head(p), p, create_graph=True)
            q = torch.randn(1, 3, requires_grad=True)
            g2, = torch.autograd.grad(head(q), q, create_graph=True)
            r = torch.randn(5, 3, requires_grad=True)
            g3, = torch.autograd.grad(head(r), r, torch.ones(5, 1), create_graph=True)
            g4, = torch.autograd.grad(head(r), r, grad_outputs=torch.ones_like(head(r)))
            g5 = [torch.autograd.grad(o, r, retain_graph=True)[0] for o in head(r).unbind()]
            g6 = torch.autograd.grad(head(r)[2], r)[0]
            g7 = torch.autograd.grad(head(r).mean(0), r)[0]
            g8 = torch.autograd.grad(head(r).sum(0), r)[0]
        """,
    "padded sequences are reduced along all dimensions": """
        seq = nn.utils.rnn.pad_sequence([torch.randn(k, 3) for k in range(2, 5)], batch_first=True)
        for _ in range(3):
            loss = net(seq).pow(2).sum(-1).mean(1).mean(0)
            opt.zero_grad(); loss.backward(); opt.step()
            loss = net(seq).pow(2).flatten(1).sum(1).mean()
            opt.zero_grad(); loss.backward(); opt.step()
            packed = nn.utils.rnn.pack_padded_sequence(net(seq), torch.tensor([2, 3, 4]), True, False)
            a, lens = nn.utils.rnn.pad_packed_sequence(packed, batch_first=True)
            loss = (a.sum((1, 2)) / lens).sum()
            opt.zero_grad(); loss.backward(); opt.step()
            loss = net(seq).sum((0, 1, 2))
            opt.zero_grad(); loss.backward(); opt.step()
            loss = net(seq).sum((-1, -2, -3))
            opt.zero_grad(); loss.backward(); opt.step()
        """,
    "one loss is stacked, or several reduced": """
        for _ in range(3):
            parts = []
            for t in range(1):
                parts.append(crit(net(x), y))
            torch.stack(parts).backward()
            torch.stack([crit(net(x), y), crit(net(y), x)]).sum().backward()
            torch.stack([crit(net(x), y), crit(net(y), x)]).mean(0).backward()
            torch.stack([crit(net(x), y), crit(net(y), x)])[0].backward()
        """,
    "a mask picks one element": """
        m = torch.zeros(4, dtype=torch.bool); m[2] = True
        for _ in range(3):
            l = F.mse_loss(net(x), y, reduction="none").sum(1)
            opt.zero_grad(); l[m].backward(); opt.step()
            l = F.mse_loss(net(x), y, reduction="none").sum(1)
            opt.zero_grad(); l[2].backward(); opt.step()
        """,
    "losses are weighted by a product with a vector": """
        w = torch.randn(4)
        for _ in range(3):
            l = F.mse_loss(net(x), y, reduction="none").mean(1)
            opt.zero_grad(); (l @ w).backward(); opt.step()
            l = F.mse_loss(net(x), y, reduction="none").mean(1)
            opt.zero_grad(); torch.matmul(w, l).backward(); opt.step()
            opt.zero_grad(); torch.einsum("i,i->", w, net(x).sum(1)).backward(); opt.step()
            opt.zero_grad(); F.pairwise_distance(net(x[0]), y[0]).backward(); opt.step()
            opt.zero_grad(); F.cosine_similarity(net(x[0]), y[0], dim=0).backward(); opt.step()
            opt.zero_grad(); nn.CosineSimilarity(dim=0)(net(x[0]), y[0]).backward(); opt.step()
            opt.zero_grad(); F.cross_entropy(net(x[0]), torch.tensor(1), reduction="none").backward(); opt.step()
        """,
    "losses in dicts are summed every few steps": """
        history = []
        for step in range(20):
            row = {"loss": crit(net(x), y)}
            history.append(row)
            if step % 4 == 3:
                opt.zero_grad(); sum(r["loss"] for r in history).backward(); opt.step()
                history = []
        """,
    "records of an episode are sent backward": """
        from typing import NamedTuple
        class Step(NamedTuple):
            logp: object
            reward: float
        for episode in range(10):
            steps = []
            for t in range(20):
                d = torch.distributions.Categorical(logits=net(x[:1]))
                a = d.sample()
                steps.append(Step(d.log_prob(a), float(t)))
            loss = -sum(s.logp * s.reward for s in steps).mean()
            opt.zero_grad(); loss.backward(); opt.step()
        """,
    "meters of numbers and of values without graphs": """
        class Meter:
            def __init__(self): self.sum = 0.0; self.n = 0
            def update(self, v, n=1): self.sum += v * n; self.n += n
            def __str__(self): return f"{self.sum / self.n}"
        m, k = Meter(), Meter()
        for step in range(20):
            loss = crit(net(x), y)
            opt.zero_grad(); loss.backward(); opt.step()
            m.update(loss.item()); k.update(loss.detach())
        print(m, str(k))
        """,
    "the last few values and rows are kept": """
        recent, rows = [], []
        for step in range(20):
            loss = crit(net(x), y)
            recent.append(loss)
            rows.append({"l": loss})
            opt.zero_grad(); loss.backward(); opt.step()
            if len(recent) > 10: recent.pop(0)
            rows = rows[-5:]
        print(float(recent[-1]))
        """,
    "what was kept is detached where it stands": """
        losses = []
        for step in range(20):
            loss = crit(net(x), y)
            losses.append(loss)
            opt.zero_grad(); loss.backward(); opt.step()
            loss.detach_()
        print(torch.stack(losses).mean())
        """,
    "a short window, and a long one of values without graphs": """
        from collections import deque
        window, states = deque(maxlen=10), deque(maxlen=500)
        for step in range(20):
            loss = crit(net(x), y)
            window.append(loss); states.append(net(x).detach())
            opt.zero_grad(); loss.backward(); opt.step()
            print(sum(window) / len(window))
        """,
    "what a buffer stores is sent backward": """
        from collections import deque
        import random
        buffer = deque(maxlen=500)
        w = torch.zeros(3, requires_grad=True)
        wo = torch.optim.SGD([w], lr=.1)
        for step in range(40):
            buffer.append((x[0], net(x[:1])))
            if step % 20 == 19:
                loss = sum(p.sum() for _, p in buffer)
                opt.zero_grad(); loss.backward(); opt.step()
                buffer.clear()
        """,
    "an average is the loss": """
        ema = {}
        for step in range(20):
            opt.zero_grad()
            loss = 0
            for part in range(5):
                value = crit(net(x), y) * (part + 1)
                ema["a"] = value if "a" not in ema else 0.5 * ema["a"] + 0.5 * value
            ema["a"].backward(); opt.step()
            ema = {}
        """,
    "an evaluation asks for gradients": """
        class H(nn.Module):
            def __init__(self):
                super().__init__(); self.f = nn.Linear(2, 1)
            def forward(self, z):
                with torch.enable_grad():
                    z = z.detach().requires_grad_(True)
                    return torch.autograd.grad(self.f(z).tanh().sum(), z, create_graph=self.training)[0]
        m = H(); mo = torch.optim.Adam(m.parameters())
        for i in range(20):
            loss = (m(torch.randn(5, 2)) - 1).pow(2).mean()
            mo.zero_grad(); loss.backward(); mo.step()
        m.eval()
        path = [torch.zeros(1, 2)]
        for _ in range(10):
            path.append(path[-1] + 0.1 * m(path[-1]))
        m.train()
        print(torch.stack(path).detach())
        """,
    "the caller sends backward what it gets": """
        def rollout(model, n):
            rows = []
            for t in range(n):
                rows.append({"v": model(x), "t": t})
                crit(model(x), y).backward()
            return rows
        rows = rollout(net, 20)
        loss = sum(r["v"].mean() for r in rows)
        opt.zero_grad(); loss.backward(); opt.step()
        """,
    "a buffer is emptied by a method": """
        class T:
            def __init__(self): self.buf = []
            def add(self, out): self.buf.append({"o": out, "m": out.mean()})
            def flush(self):
                n = len(self.buf); self.buf.clear(); return n
        t = T()
        for step in range(30):
            out = net(x)
            loss = crit(out, y)
            opt.zero_grad(); loss.backward(); opt.step()
            t.add(out)
            if step % 5 == 4: print(t.flush())
        """,
    "objects with graphs are handed to code that is not read": """
        import mylib
        from typing import NamedTuple
        class Step(NamedTuple):
            logp: object
            value: object
        for episode in range(30):
            rows = []
            for t in range(20):
                out = net(x)
                rows.append(Step(out.mean(), out.std()))
                crit(net(x), y).backward()
            mylib.train_on(rows)
        """,
    "objects with graphs are returned": """
        from dataclasses import dataclass
        @dataclass
        class Row:
            loss: object
        def rollout(model, n):
            rows = []
            for t in range(n):
                out = model(x)
                rows.append(Row(out.mean()))
                model(x).sum().backward()
            return rows
        """,
    "objects of a generator are sent backward every few steps": """
        from dataclasses import dataclass
        @dataclass
        class Row:
            loss: object
        def stream(n):
            for t in range(n):
                yield Row(net(x).mean())
        total = []
        for row in stream(40):
            total.append(row)
            if len(total) == 4:
                opt.zero_grad(); sum(r.loss for r in total).backward(); opt.step()
                total = []
        """,
    "rows of dicts are put together": """
        rows = []
        for episode in range(30):
            for t in range(10):
                out = net(x)
                rows.append({"a": out.mean(), "b": out.std(), "r": 1.0})
            a, b, r = zip(*[row.values() for row in rows])
            loss = torch.stack(a).mean() + torch.stack(b).mean()
            opt.zero_grad(); loss.backward(); opt.step()
            rows.clear()
        """,
    "an object of numbers is printed in every way": """
        class P:
            def __init__(self): self.v = []
            def __repr__(self): return str(sum(float(v) for v in self.v))
            def add(self, v): self.v.append(v)
        p = P()
        for i in range(20):
            loss = crit(net(x), y)
            p.add(loss.item())
            opt.zero_grad(); loss.backward(); opt.step()
            print(f"{p} {p!r}", p, [p], {"a": p})
        """,
    "a loss is an object of the program": """
        class Loss:
            def __init__(self, value): self.value = value
            def backward(self): self.value.backward()
        losses = []
        for i in range(20):
            losses.append(Loss(crit(net(x), y)))
        opt.zero_grad()
        for one in losses: one.backward()
        opt.step()
        """,
    "results are written into buffers where nothing is recorded": """
        buffer = torch.empty(4, 3)
        for _ in range(5):
            opt.zero_grad(); crit(net(x), y).backward(); opt.step()
            with torch.no_grad():
                torch.tanh(net(x), out=buffer)
            torch.mul(x, y, out=buffer)
            torch.tanh(net(x).detach(), out=buffer)
        """,
    "chunks as long as an argument says end with a detach": """
        import argparse
        parser = argparse.ArgumentParser()
        parser.add_argument("--k", type=int, default=8)
        parser.add_argument("--every", type=int)
        args = parser.parse_args()
        for k in (args.k, args.every):
            h, loss = torch.zeros(4, 3), 0
            for t in range(64):
                if t % k == 0:
                    h = h.detach()
                h = torch.tanh(net(x) + h)
                loss = loss + crit(h, y)
                if (t + 1) % k == 0:
                    opt.zero_grad(); loss.backward(); opt.step()
                    loss = 0
        """,
    "values are told apart by their classes": """
        from torch.autograd import Variable
        def cut(h):
            if type(h) in (list, tuple):
                return type(h)(cut(v) for v in h)
            return h.detach() if isinstance(h, Variable) else h
        rnn = nn.LSTM(3, 3)
        opt = torch.optim.SGD(rnn.parameters(), lr=0.1)
        state, log = (torch.zeros(1, 3), torch.zeros(1, 3)), []
        for _ in range(5):
            state = cut(state)
            out, state = rnn(x, state)
            loss = crit(out, y)
            opt.zero_grad(); loss.backward(); opt.step()
            log.append(loss.item() if type(loss) == torch.Tensor else loss)
            if type(log) is list and type(log[-1]) not in (str, bool):
                print(log[-1])
        """,
    "the mean of a meter is sent backward": """
        class Meter:
            def __init__(self): self.total = 0; self.n = 0
            def add(self, v): self.total = self.total + v; self.n += 1
            def mean(self): return self.total / self.n
        for epoch in range(10):
            m = Meter()
            for i in range(20):
                m.add(crit(net(x), y))
            opt.zero_grad(); m.mean().backward(); opt.step()
        """,
    "all modules but the root begin a sequence": """
        class Root(nn.Module):
            def begin(self):
                for m in self.modules():
                    if m is not self and hasattr(m, "begin"):
                        m.begin()
            def forward(self, x):
                self.begin()
                return torch.stack([self.step(one) for one in x])
        class Memory(nn.Module):
            def begin(self): self.bank = torch.zeros(3)
            def write(self, v): self.bank = 0.5 * self.bank + v
        class Model(Root):
            def __init__(self):
                super().__init__()
                self.memory, self.lin = Memory(), nn.Linear(3, 3)
            def begin(self):
                super().begin()
                self.h = torch.zeros(3)
            def step(self, one):
                self.h = self.lin(one + self.h)
                self.memory.write(self.h)
                return self.memory.bank * self.h
        model = Model()
        opt = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(5):
            loss = crit(model(x), y)
            opt.zero_grad(); loss.backward(); opt.step()
        """,
    "what another optimizer trains is frozen for a while": """
        class Both(nn.Module):
            def __init__(self):
                super().__init__()
                self.net, self.other = net, other
            def toggle(self, one):
                mine = {id(p) for group in one.param_groups for p in group["params"]}
                self.off = [p for p in self.parameters() if p.requires_grad and id(p) not in mine]
                for p in self.off: p.requires_grad_(False)
            def untoggle(self):
                for p in self.off: p.requires_grad_(True)
        both, second = Both(), torch.optim.SGD(other.parameters(), lr=0.1)
        for _ in range(5):
            both.toggle(second)
            loss = crit(other(net(x).detach()), y)
            second.zero_grad(); loss.backward(); second.step()
            both.untoggle()
            both.toggle(opt)
            loss = crit(other(net(x)), y)
            opt.zero_grad(); loss.backward(); opt.step()
            both.untoggle()
        """,
    "a loss is gathered in place and sent backward": """
        for _ in range(5):
            total, penalty = torch.zeros(()), torch.zeros(3)
            for _ in range(12):
                out = net(x)
                total.add_(crit(out, y))
                penalty.mul_(0.5).add_(out.mean(0))
            opt.zero_grad(); (total + penalty.sum()).backward(); opt.step()
        """,
    "what is gathered in place has no graph": """
        seen = torch.zeros(3)
        for _ in range(5):
            loss = crit(net(x), y)
            opt.zero_grad(); loss.backward(); opt.step()
            with torch.no_grad():
                seen.mul_(0.9).add_(net(x).mean(0))
            seen.add_(net(x).mean(0).detach())
        """,
    "what a lower precision is raised from is a copy": """
        for _ in range(5):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                a, b = net(x).chunk(2, 1)
            a, b = a.float().tanh_(), b.float().relu_()
            opt.zero_grad(); (a.sum() + b.sum()).backward(); opt.step()
        """,
    "a metaclass wraps the methods that it finds": """
        class Sealing(type):
            def __new__(mcls, name, bases, ns):
                for key, fn in list(ns.items()):
                    if key.startswith("observe"):
                        ns[key] = mcls.sealed(fn)
                return super().__new__(mcls, name, bases, ns)
            @staticmethod
            def sealed(fn):
                def run(self, *args):
                    try:
                        return fn(self, *args)
                    finally:
                        self.v = self.v.detach()
                return run
        class Base(metaclass=Sealing):
            def __init__(self): self.v = torch.zeros(3)
        class Neuron(Base):
            def observe(self, x):
                self.v = 0.5 * self.v + net(x)
                opt.zero_grad(); crit(self.v, y).backward(); opt.step()
        neuron = Neuron()
        for _ in range(5):
            neuron.observe(x)
        """,
    "a generator clears its store when it is closed": """
        class Trace:
            def __init__(self): self.values, self.items = [], []
            def wipe(self):
                for column in vars(self).values():
                    del column[:]
        trace = Trace()
        def episodes():
            while True:
                try:
                    for _ in range(10):
                        trace.values.append(crit(net(x), y))
                        trace.items.append(net(x).mean())
                    yield trace
                finally:
                    trace.wipe()
        for _ in range(9):
            one = episodes()
            told = next(one)
            loss = torch.stack(told.values).mean() + torch.stack(told.items).sum()
            opt.zero_grad(); loss.backward(); opt.step()
            one.close()
        for _ in range(9):
            for told in episodes():
                loss = torch.stack(told.values).mean()
                opt.zero_grad(); loss.backward(); opt.step()
                break
        """,
    "a block around a yield is left when the generator is closed": """
        class Recording:
            def __init__(self): self.outs = []
            def __enter__(self): return self.outs
            def __exit__(self, *exc): self.outs.clear()
        recording = Recording()
        def batches():
            with recording as outs:
                while True:
                    outs.append(net(x))
                    yield outs
        for _ in range(9):
            source = batches()
            loss = torch.stack(next(source)).mean()
            opt.zero_grad(); loss.backward(); opt.step()
            source.close()
        """,
    "a class of tuples carries the graph past what is frozen": """
        class Carry(tuple):
            @property
            def feature(self): return torch.cat(self, -1)
            def stop(self): return Carry(part.detach() for part in self)
        world = nn.Linear(6, 6)
        for p in world.parameters(): p.requires_grad_(False)
        start = Carry((torch.zeros(4, 3), torch.zeros(4, 3)))
        for _ in range(9):
            carry = start.stop()
            for _ in range(3):
                carry = Carry((net(carry[0]), carry[1]))
            loss = world(carry.feature).mean()
            opt.zero_grad(); loss.backward(); opt.step()
        """,
    "an episode ends when a tensor says so": """
        done = torch.zeros(4, dtype=torch.bool)
        for _ in range(5):
            done.zero_()
            h, losses = torch.zeros(3), []
            while not torch.all(done):
                h = net(h)
                losses.append(h.pow(2).mean())
                done |= torch.rand(4) < 0.5
            opt.zero_grad(); torch.stack(losses).sum().backward(); opt.step()
        """,
    "a metaclass wraps a method once the class is made": """
        class Trace:
            def __set_name__(self, owner, name): self.slot = "_" + name
            def __get__(self, obj, owner=None): return self if obj is None else obj.__dict__.get(self.slot, 0.0)
            def __set__(self, obj, value): obj.__dict__[self.slot] = value
        class Forgets(type):
            def __new__(mcs, name, bases, members):
                traces = tuple(key for key, value in members.items() if isinstance(value, Trace))
                cls = super().__new__(mcs, name, bases, members)
                cls.traces = traces + tuple(t for base in bases for t in getattr(base, "traces", ()))
                if "episode" in members:
                    inner = members["episode"]
                    def episode(self, *args):
                        for trace in self.traces:
                            self.__dict__.pop("_" + trace, None)
                        return inner(self, *args)
                    cls.episode = episode
                return cls
        class Plastic(metaclass=Forgets):
            hebb = Trace()
            def see(self, x):
                out = net(x) + self.hebb
                self.hebb = 0.5 * self.hebb + out
                return out
        class Learner(Plastic):
            def episode(self, x):
                for _ in range(3):
                    out = self.see(x)
                return out.mean()
        learner = Learner()
        for _ in range(5):
            loss = learner.episode(x)
            opt.zero_grad(); loss.backward(); opt.step()
        """,
    "results are kept by the batch's number and overwritten in the next epoch": """
        last, history, step = {}, {}, 0
        for epoch in range(30):
            for b in range(0, 400, 4):
                out = net(x)
                opt.zero_grad(); (out - y).pow(2).mean().backward(); opt.step()
                last[b] = out
                history[step] = out.detach().mean()
                step += 1
            print(sum(out.sum().item() for out in last.values()), history[step - 1])
        """,
    "states of a sequence are kept by their step, and the loss reads them": """
        for _ in range(50):
            states, h = {}, torch.zeros(4, 3)
            for t in range(20):
                h = net(h + x)
                states[t] = h
            loss = torch.stack([states[t] for t in sorted(states)]).mean()
            opt.zero_grad(); loss.backward(); opt.step()
        """,
    "a fixed random network gives the targets and shares the optimizer": """
        class Distilled(nn.Module):
            def __init__(self):
                super().__init__()
                self.target, self.guess = nn.Linear(3, 3), nn.Linear(3, 3)
                self.scale = nn.Parameter(torch.ones(1))
            @torch.no_grad()
            def wanted(self, x): return self.target(x)
            def forward(self, x): return self.scale * (self.guess(x) - self.wanted(x)).pow(2).mean()
        model = Distilled()
        optimizer = torch.optim.Adam(model.parameters())
        for _ in range(20):
            loss = model(x)
            optimizer.zero_grad(); loss.backward(); optimizer.step()
        """,
    "rows that a list of numbers picks are copies": """
        table = torch.zeros(6, 3)
        for _ in range(5):
            table = table.detach()
            rows = [1, 2]
            picked = table[rows, 0:2]
            loss = (net(x)[:2, :2] * picked).sum()
            table[rows, 0:2] = picked + 1.0
            opt.zero_grad(); loss.backward(); opt.step()
        """,
    "an optimizer gets what was computed before it required grad": """
        start = (torch.randn(3) * 0.1).requires_grad_()
        kept = net(x).mean(0).detach().requires_grad_()
        own = nn.Parameter(torch.randn(3) * 0.1)
        optimizer = torch.optim.SGD([{"params": [start, own]}, {"params": kept, "lr": 0.1}], lr=0.01)
        for _ in range(5):
            loss = (start * own + kept).pow(2).sum()
            optimizer.zero_grad(); loss.backward(); optimizer.step()
        """,
    "losses are sent backward in a random order": """
        nets = [nn.Linear(3, 3) for _ in range(3)]
        opts = [torch.optim.SGD(n.parameters(), 0.1) for n in nets]
        named = {k: nn.Linear(3, 3) for k in "abc"}
        steps = {k: torch.optim.SGD(n.parameters(), 0.1) for k, n in named.items()}
        for _ in range(5):
            losses = [n(x).pow(2).mean() for n in nets]
            for i in torch.randperm(3).tolist():
                opts[i].zero_grad(); losses[i].backward(); opts[i].step()
            terms = {k: n(x).pow(2).mean() for k, n in named.items()}
            for k in np.random.permutation(list(named)):
                steps[k].zero_grad(); terms[k].backward(); steps[k].step()
        """,
    "each of two networks is taught by the other": """
        import itertools
        nets = {"f": nn.Linear(3, 3), "g": nn.Linear(3, 3)}
        opts = {k: torch.optim.Adam(n.parameters()) for k, n in nets.items()}
        for _ in range(5):
            losses = {k: (n(x) - y).pow(2).mean(1) for k, n in nets.items()}
            picks = {k: each.data.argsort()[:2] for k, each in losses.items()}
            for me, peer in itertools.permutations(nets, 2):
                opts[me].zero_grad(); losses[me][picks[peer]].mean().backward(); opts[me].step()
        """,
    "what is assigned over a buffer is stored by value": """
        class Stateful(nn.Module):
            def __setattr__(self, name, value):
                buffers = self.__dict__.get("_buffers")
                if buffers is not None and name in buffers and isinstance(value, torch.Tensor):
                    value = value.detach()
                super().__setattr__(name, value)
        class Smooth(Stateful):
            def __init__(self):
                super().__init__()
                self.register_buffer("mean", torch.zeros(3))
            def forward(self, out):
                smooth = 0.9 * self.mean + 0.1 * out.mean(0)
                self.mean = smooth
                return smooth
            def forget(self):
                for name in list(self._buffers):
                    self._buffers[name] = self._buffers[name] * 0
        stat = Smooth()
        for _ in range(5):
            loss = stat(net(x)).pow(2).sum()
            opt.zero_grad(); loss.backward(); opt.step()
            stat.forget()
        """,
    "a decorator switches recording off for a generator's own code only": """
        @torch.no_grad()
        def fakes():
            while True:
                yield other(torch.randn(4, 3))
        stream = fakes()
        for _ in range(3):
            loss = (net(x) - next(stream)).pow(2).mean()
            opt.zero_grad(); loss.backward(); opt.step()
        """,
    "a recorder asks what it is given for a list of its numbers": """
        kept = []
        def record(*values):
            for value in values:
                kept.append(value.tolist() if hasattr(value, "tolist") else value)
        for _ in range(3):
            out = net(x)
            opt.zero_grad(); out.mean().backward(); opt.step()
            record(out.mean(), net.weight.norm(), 0.5, [1])
        print(np.asarray(kept[0]))
        """,
    "the outputs of all layers are one graph": """
        class Deep(nn.Sequential):
            def states(self, x):
                found = []
                for module in self:
                    x = module(x)
                    found.append(x)
                return found
        deep = Deep(*(nn.Linear(3, 3) for _ in range(6))).eval()
        for _ in range(5):
            print(deep.states(x)[-1].detach().mean().item())
        """,
    "a loop inside of a forward pass is no evaluation of its own": """
        class Pyramid(nn.Module):
            def __init__(self):
                super().__init__()
                self.levels = nn.ModuleList(nn.Linear(3, 3) for _ in range(6))
            def forward(self, x):
                found = []
                for level in self.levels:
                    found.append(level(x))
                return torch.cat(found)
        pyramid = Pyramid().eval()
        for _ in range(5):
            print(pyramid(x).detach().mean().item())
        """,
    "a gradient is taken row by row of one graph": """
        points = torch.randn(4, 3, requires_grad=True)
        values = net(points).pow(3)
        rows, seconds = [], []
        for channel in range(values.shape[1]):
            (first,) = torch.autograd.grad(values[:, channel].sum(), points, create_graph=True, retain_graph=True)
            (second,) = torch.autograd.grad(first.pow(2).sum(), points, retain_graph=True)
            rows.append(first)
            seconds.append(second)
        print((torch.stack(rows) + torch.stack(seconds)).detach())
        """,
    "NumPy's float64 is a float": """
        for _ in range(3):
            loss = net(x).mean()
            opt.zero_grad(); loss.backward(); opt.step()
            print(np.float64(loss))
        """,
    "a memo says what a deep copy leaves as it is": """
        out = net(x)
        kept = {"out": out}
        again = copy.deepcopy(kept, {id(out): out})
        opt.zero_grad(); again["out"].mean().backward(); opt.step()
        """,
    "a split of all rows gives one piece": """
        rows, total = torch.randn(4, 3), net(x).mean()
        for part in rows.split(4):
            loss = net(part).mean() + total
            opt.zero_grad(); loss.backward(); opt.step()
        again = net(x).mean()
        pieces = torch.split(rows, 6, dim=0)
        for part in pieces:
            loss = net(part).mean() + again
            opt.zero_grad(); loss.backward(); opt.step()
        once = net(x).mean()
        for part in rows.chunk(chunks=1):
            loss = net(part).mean() + once
            opt.zero_grad(); loss.backward(); opt.step()
        """,
    "a result has as many rows as the tensor that it was computed from": """
        wide = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.LayerNorm(5), nn.Linear(5, 2))
        for part in torch.tanh(wide(torch.rand(size=(6, 3)))).split(8):
            part.sum().backward()
        one = torch.tensor([[1.0, 2.0, 3.0]])
        for row in wide(one) * 2 + 1:
            row.sum().backward()
        for row in wide(torch.full_like(one, 0.5)):
            row.sum().backward()
        for row in torch.atleast_2d(torch.ones(3, requires_grad=True) * 2):
            row.sum().backward()
        """,
    "a copy of what turns out to be a model later has parameters of its own": """
        from zoo import Net
        model = Net()
        old = copy.deepcopy(model)
        opt = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(3):
            pred = old(x)
            opt.zero_grad(); crit(model(x), y).backward(); opt.step()
            crit(pred, y).backward()
        """,
    "an object detaches whatever it is asked for": """
        class Memory:
            def __init__(self):
                self.last = torch.zeros(4, 4)
            def __getattribute__(self, name):
                value = object.__getattribute__(self, name)
                return value.detach() if isinstance(value, torch.Tensor) else value
        class Record:
            def __init__(self):
                self.last = torch.zeros(4, 4)
            def __getattribute__(self, name):
                value = super().__getattribute__(name)
                if torch.is_tensor(value):
                    return value.detach()
                return value
        for kept in (Memory(), Record()):
            for _ in range(3):
                out = net(x)
                loss = (out.mean() - kept.last.mean()) ** 2
                kept.last = out
                opt.zero_grad(); loss.backward(); opt.step()
        """,
    "one number becomes a list of one": """
        scale = torch.atleast_1d(torch.as_tensor(2.0))
        for _ in range(3):
            loss = net(x).mean() * scale[0]
            opt.zero_grad(); loss.backward(); opt.step()
        def total(out):
            out = out.sum()
            if isinstance(out, tuple):
                out = out[0]
            return out
        print(total(net(x)))
        """,
    "Python's own sum adds up rows": """
        for _ in range(3):
            rows = 1 - (net(x) * y).sum(dim=1)
            loss = sum(rows) / len(rows)
            opt.zero_grad(); loss.backward(); opt.step()
        """,
    "a block gives the flags of many parameters back": """
        class Frozen:
            def __init__(self, *modules):
                self.params = [p for m in modules for p in m.parameters()]
            def __enter__(self):
                self.flags = [p.requires_grad for p in self.params]
                for p in self.params:
                    p.requires_grad = False
            def __exit__(self, *_):
                for p, flag in zip(self.params, self.flags):
                    p.requires_grad = flag
        deep = nn.Sequential(*(nn.Linear(3, 3) for _ in range(12)))
        judge = torch.optim.SGD(deep.parameters(), lr=0.1)
        for _ in range(3):
            with Frozen(other, deep):
                out = net(x)
                loss = -deep(other(out)).mean()
            opt.zero_grad(); loss.backward(); opt.step()
            again = deep(out.detach()).pow(2).mean()
            judge.zero_grad(); again.backward(); judge.step()
        """,
    "what an unread call has made is a model": """
        import zoo
        for _ in range(3):
            copied = zoo.unrolled(net, x)
            loss = crit(copied(x), y)
            loss.backward()
            copied.zero_grad()
            crit(copied(x), y).backward()
            opt.step(); opt.zero_grad()
        """,
    "what an unread model was asked for without arguments is data to a loop": """
        import zoo
        upstream = zoo.build()
        upstream.train()
        best = torch.optim.SGD(upstream.parameters(), lr=0.1)
        loader = upstream.train_batches()
        for batch in loader:
            loss = upstream(batch)
            best.zero_grad(); loss.backward(); best.step()
        """,
    "two objects have a switch of one name": """
        class Critic(nn.Module):
            def __init__(self, config):
                super().__init__()
                self.twin = config.twin
                self.heads = nn.ModuleList(nn.Linear(3, 1) for _ in range(2))
            def forward(self, x):
                if self.twin:
                    return [head(x) for head in self.heads]
                return self.heads[0](x)
        class Learner:
            def __init__(self, config):
                self._twin = config.twin
                self.critic = Critic(config)
                self.opt = torch.optim.SGD(self.critic.parameters(), lr=0.1)
            def learn(self, x, y):
                value = self.critic(x)
                losses = {}
                if self._twin:
                    losses["one"] = crit(value[0], y[:, :1])
                    losses["two"] = crit(value[1], y[:, :1])
                else:
                    losses["one"] = crit(value, y[:, :1])
                self.opt.zero_grad()
                for name in losses:
                    losses[name].backward()
                self.opt.step()
        import settings
        learner = Learner(settings.load())
        for _ in range(3):
            learner.learn(x, y)
        """,
    "an attribute of which nothing is known may have a graph": """
        class Agent:
            def learn(self, x):
                out = net(x)
                opt.zero_grad(); out.mean().backward(); opt.step()
                alpha_loss = -(self.log_alpha * out.detach()).mean()
                self.alpha_opt.zero_grad()
                alpha_loss.backward()
                self.alpha_opt.step()
        """,
    "one of several results of an unread model was sent back, not the other": """
        import zoo
        quantise = zoo.build("vq")
        for _ in range(3):
            code, usage = quantise(net(x))
            loss = crit(code, y)
            opt.zero_grad(); loss.backward(); opt.step()
            print(usage.sum(0).numpy())
        """,
    "a group of parameters waits for its turn": """
        head = nn.Linear(3, 1)
        both = torch.optim.SGD([{"params": net.parameters()}, {"params": head.parameters(), "lr": 1.0}], lr=0.1)
        for _ in range(3):
            with torch.no_grad():
                hidden = net(x)
            loss = head(hidden).mean()
            both.zero_grad(); loss.backward(); both.step()
        for _ in range(3):
            loss = head(net(x)).mean()
            both.zero_grad(); loss.backward(); both.step()
        """,
    "what was written into a tensor may have made it no leaf": """
        def marginals(scores, length):
            chart = torch.zeros(4, 4)
            chart[1:, 1:] = scores
            chart.requires_grad_(True)
            part = chart.unsqueeze(0)
            part[:, length:] = 0.0
            return torch.autograd.grad(part.sum(), chart)
        """,
    "an index of no parts takes the whole": """
        for _ in range(3):
            loss = crit(net(x)[()], y)
            opt.zero_grad(); loss.backward(); opt.step()
        """,
    "a loop leaves in its last iteration, before the gradient is taken": """
        import settings
        for _ in range(3):
            spot = torch.randn(4, 3, requires_grad=True)
            for step in range(settings.steps + 1):
                loss = net(spot).sigmoid().mean()
                if step == settings.steps:
                    break
                (grad,) = torch.autograd.grad(loss, spot)
                with torch.no_grad():
                    spot.add_(grad)
            opt.zero_grad(); loss.backward(); opt.step()
        """,
    "the last of a few layers is unlike the others, and the loop reaches it as one of them": """
        layers = nn.ModuleList([nn.Linear(3, 3) for _ in range(4)])
        depth, rates = 4, [0.4, 0.3, 0.2, 0.1]
        opt = torch.optim.SGD(layers.parameters(), lr=0.1)
        for _ in range(3):
            left, hidden, loss = list(rates), x, None
            for k in range(depth):
                hidden = layers[k](hidden) * left.pop()
                if k < depth - 1:
                    hidden = hidden.relu()
                if k == depth - 1:
                    loss = hidden.mean()
            opt.zero_grad(); loss.backward(); opt.step()
        """,
    "layers out of a chain of pairs are all there": """
        import itertools
        def mlp(*sizes):
            pairs = ((nn.Linear(a, b), nn.SiLU()) for a, b in itertools.pairwise(sizes))
            return nn.Sequential(*list(itertools.chain.from_iterable(pairs))[:-1])
        actor = mlp(3, 8, 2)
        log_alpha = torch.zeros((), requires_grad=True)
        opt = torch.optim.SGD([*actor.parameters(), log_alpha], lr=0.1)
        for _ in range(3):
            loss = (log_alpha.detach().exp() * actor(x)).mean() + (log_alpha.exp() * actor(x).detach()).mean()
            opt.zero_grad(); loss.backward(); opt.step()
        """,
    "a dictionary out of a zip that ends with its generator": """
        scale = torch.ones(3, requires_grad=True)
        for _ in range(3):
            loss = crit(net(x) * scale, y)
            opt.zero_grad(); loss.backward(); opt.step()
            print(dict(zip("abc", (round(one, 3) for one in scale.tolist()))))
        """,
    "a total that begins again in every tenth iteration": """
        import settings
        running = 0
        for step in range(100):
            loss = crit(net(x), y) / settings.accumulate
            running += loss
            loss.backward()
            if (step + 1) % settings.accumulate == 0:
                opt.step(); opt.zero_grad()
                print(running.item())
                running = 0
        """,
    "a test of the error itself": """
        import pytest
        loss = crit(net(x), y)
        loss.backward()
        with pytest.raises(RuntimeError, match="second time"):
            loss.backward()
        """,
    "an operator whose adjoint is called backward": """
        from projections import Beam
        beam = Beam(angles=11)
        rays = torch.randn(2, 11, requires_grad=True)
        image = beam.backward(rays)
        """,
    "the gradient of a parameter by its other name": """
        for p in net.parameters():
            p._grad = torch.zeros_like(p)
        print([p._grad.numpy() for p in net.parameters()])
        """,
    "layers without parameters": """
        print(nn.Hardshrink()(x).numpy(), nn.RReLU()(x).numpy(), nn.InstanceNorm1d(3)(x).numpy())
        print(nn.BatchNorm1d(3, affine=False)(x).numpy(), nn.LayerNorm(3, elementwise_affine=False)(x).numpy())
        """,
    "a residual is added to what an activation has made, which saved its input": """
        for _ in range(3):
            h = net(x)
            for activate in (F.leaky_relu, F.elu, F.celu, nn.LeakyReLU(0.2), nn.ELU()):
                h = activate(h)
                h += x
            loss = crit(h, y)
            opt.zero_grad(); loss.backward(); opt.step()
        """,
    "a bias is changed, which no linear layer saves": """
        for _ in range(3):
            loss = crit(other(net(x)), y)
            with torch.no_grad():
                other.bias.zero_()
            opt.zero_grad(); loss.backward(); opt.step()
        """,
    "what an object calls its data may have a graph": """
        from optics import Field
        depth = torch.tensor(1.0, requires_grad=True)
        output = Field(torch.ones(3, 3), z=depth).propagate(10.0)
        output.data.abs().sum().backward()
        """,
    "a gradient of something unread goes no other way": """
        weight = net.weight.clamp(min=0)
        class Relevance(nn.Linear):
            def relprop(self, relevance):
                positive = self.X.clamp(min=0)
                one, two = F.linear(positive, weight), F.linear(positive, weight)
                first = torch.autograd.grad(one, positive, relevance)[0]
                return first + torch.autograd.grad(two, positive, relevance)[0]
        Relevance(3, 3).relprop(y)
        """,
    "what an unknown mapping gives may be any parameter": """
        def step(batch, target=None):
            if target is None:
                with torch.no_grad():
                    return net(batch).mean()
            return crit(net(batch), target)
        import loader
        for _ in range(3):
            loss = step(**loader.batch())
            opt.zero_grad(); loss.backward(); opt.step()
        """,
    "a Variable of a tensor has no graph": """
        from torch.autograd import Variable
        for _ in range(3):
            a, b = torch.tanh(net(x)), torch.tanh(other(x))
            loss = crit(a, Variable(b))
            opt.zero_grad(); loss.backward(); opt.step()
            loss = crit(b, Variable(a))
            other.zero_grad(); loss.backward()
        """,
    "a state that is carried on as a Variable has no graph": """
        from torch.autograd import Variable
        state = {"h": torch.zeros(4, 3), "c": [torch.zeros(4, 3)]}
        total = 0
        for _ in range(3):
            h = net(x) + state["h"]
            state["h"], state["c"][0] = (Variable(part) for part in (h, h.tanh()))
            loss = crit(h, y) + state["c"][0].mean()
            opt.zero_grad(); loss.backward(); opt.step()
            total += torch.autograd.Variable(loss)
        """,
    "what is sent back in two parts takes the gradient of a Variable": """
        from torch.autograd import Variable
        for _ in range(3):
            h = net(x)
            cut = Variable(h, requires_grad=True)
            crit(other(cut), y).backward()
            h.backward(cut.grad)
            opt.step(); opt.zero_grad()
        """,
    "an image that is a Variable is changed by its gradient": """
        from torch.autograd import Variable
        image = x
        for p in net.parameters(): p.requires_grad = False
        for _ in range(3):
            image = Variable(image, requires_grad=True)
            net(image).sum().backward()
            image = image + 0.1 * image.grad.sign()
        """,
    "an episode ends with the pass of its last step": """
        import gym
        env = gym.make("CartPole-v1")
        def learn(logs):
            loss = torch.cat(logs).sum()
            opt.zero_grad(); loss.backward(); opt.step()
        for episode in range(10):
            done, logs, t, flags = False, [], 0, {"done": False}
            while not done:
                logs.append(net(x).mean(1))
                t += 1
                obs, reward, done, info = env.step(1)
                if done:
                    learn(logs)
        """,
    "an episode ends by one of two flags, and its pass comes with either": """
        import gym
        env = gym.make("CartPole-v1")
        def learn(logs):
            loss = torch.cat(logs).sum()
            opt.zero_grad(); loss.backward(); opt.step()
        for episode in range(10):
            done, logs, t, flags = False, [], 0, {"done": False}
            while not (done or flags["done"]):
                logs.append(net(x).mean(1))
                t += 1
                _, _, done, flags["done"], _ = env.step(1)
                if done or flags["done"]:
                    learn(logs)
        """,
    "an episode ends by its last step or by their number": """
        import gym
        env = gym.make("CartPole-v1")
        def learn(logs):
            loss = torch.cat(logs).sum()
            opt.zero_grad(); loss.backward(); opt.step()
        for episode in range(10):
            done, logs, t, flags = False, [], 0, {"done": False}
            while t < 100 and not done:
                logs.append(net(x).mean(1))
                t += 1
                done = env.step(1)[2]
                if done:
                    learn(logs)
        """,
    "an episode ends by an item of a dictionary": """
        import gym
        env = gym.make("CartPole-v1")
        def learn(logs):
            loss = torch.cat(logs).sum()
            opt.zero_grad(); loss.backward(); opt.step()
        for episode in range(10):
            done, logs, t, flags = False, [], 0, {"done": False}
            while not flags["done"]:
                logs.append(net(x).mean(1))
                t += 1
                flags["done"] = env.step(1)[2]
                if flags["done"]:
                    learn(logs)
        """,
    "an episode ends by a tensor of one element": """
        import gym
        env = gym.make("CartPole-v1")
        def learn(logs):
            loss = torch.cat(logs).sum()
            opt.zero_grad(); loss.backward(); opt.step()
        for episode in range(10):
            done, logs, t, flags = False, [], 0, {"done": False}
            while not done:
                logs.append(net(x).mean(1))
                t += 1
                done = torch.rand(1) > 0.9
                if done:
                    learn(logs)
        """,
    "an episode ends by a flag that is compared with True": """
        import gym
        env = gym.make("CartPole-v1")
        def learn(logs):
            loss = torch.cat(logs).sum()
            opt.zero_grad(); loss.backward(); opt.step()
        for episode in range(10):
            done, logs, t, flags = False, [], 0, {"done": False}
            while done == False:
                logs.append(net(x).mean(1))
                t += 1
                done = env.step(1)[2]
                if done is True:
                    learn(logs)
        """,
    "an object's own flag ends its episode, and a method asks for it": """
        class Agent:
            def reset(self):
                self.done, self.logs = False, []
            def run(self):
                while not self.done:
                    self.logs.append(net(x).mean(1))
                    self.done = torch.rand(1).item() > 0.9
                    if self.is_over():
                        self.learn()
            def is_over(self):
                return self.done
            def learn(self):
                loss = torch.cat(self.logs).sum()
                opt.zero_grad(); loss.backward(); opt.step()
        agent = Agent()
        for episode in range(10):
            agent.reset()
            agent.run()
        """,
    "every parameter of a layer is replaced by one that is frozen": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(3, 3)
                self.layer.weight = nn.Parameter(torch.randn(3, 3), requires_grad=False)
                self.layer.bias = nn.Parameter(torch.zeros(3), requires_grad=False)
                self.parts = nn.ModuleDict({"head": nn.Linear(3, 3, False)})
                self.parts["head"].weight = nn.Parameter(torch.randn(3, 3))
                self.parts["head"].weight.requires_grad = False
            def forward(self, x):
                return self.parts["head"](torch.tanh(self.layer(x)))
        fixed = Net(); target = fixed(y)
        x.requires_grad_()
        for _ in range(5):
            loss = crit(fixed(x), target)
            loss.backward()
        """,
    "every parameter of a layer is frozen by itself": """
        net.weight.requires_grad = False
        net.bias.requires_grad_(False)
        target = torch.tanh(net(y))
        for _ in range(5):
            crit(torch.tanh(other(x)), target).backward()
        """,
    "all parts are reset, one after the other": """
        class Part(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer, self.terms = nn.Linear(3, 3), []
            def forward(self, x):
                x = self.layer(x)
                self.terms.append(x.pow(2).mean())
                return x
        parts = nn.ModuleList([Part(), Part(), Part()])
        table = {"a": parts[0], "b": parts[1], "c": parts[2]}
        for step in range(10):
            it = iter(parts)
            while True:
                try:
                    part = next(it)
                except StopIteration:
                    break
                part.terms = []
            names = iter(table)
            while (name := next(names, None)) is not None:
                table[name].terms.clear()
            h = x
            for part in parts:
                h = part(h)
            (h.mean() + sum(t for part in parts for t in part.terms)).backward()
        """,
    "a loop that counts down keeps the graph for all passes but the last": """
        import sys
        count = int(sys.argv[1])
        for _ in range(3):
            h = net(x).tanh()
            losses = [(h * i).sum() for i in range(count)]
            for i in range(count - 1, -1, -1):
                losses[i].backward(retain_graph=i > 0)
            h = net(x).tanh()
            losses = [(h * i).sum() for i in range(count)]
            for i in reversed(range(count)):
                losses[i].backward(retain_graph=i != 0)
            h = net(x).tanh()
            losses = [(h * i).sum() for i in range(count)]
            for i in range(1, count + 1):
                losses[i - 1].backward(retain_graph=i < count)
        """,
    "leaves that are on the GPU before they require grad, or are there already": """
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        a = torch.randn(2, 5).to(device).requires_grad_()
        b = nn.Parameter(torch.randn(2, 5, device=device)).to(device)
        c = nn.Parameter(torch.randn(2, 5).cuda()).cuda()
        d = nn.Parameter(torch.load("d.pt")).cuda()
        e = nn.Parameter(torch.randn(2, 5)).to("cpu").to(torch.float32)
        f = torch.randn(2, 5, requires_grad=True).cuda().detach().requires_grad_()
        optimizer = torch.optim.SGD([a, b, c, d, e, f], lr=0.1)
        for _ in range(5):
            (a + b + c + d + e + f).sum().backward()
            optimizer.step()
        """,
    "parameters are changed without a pass and nothing records it": """
        with torch.no_grad():
            net.weight[:, 0] -= 1
            net.bias.fill_(0)
        other.weight.data[:, 0] -= 1
        nn.init.zeros_(other.bias)
        other.weight.requires_grad_(False)
        other.weight[0] = 1
        weight = torch.ones(3)
        weight[0] = 2
        weight /= 2
        scale = torch.ones(3, requires_grad=True) + 1
        scale += 1
        """,
}
RIGHT |= {
    name: f"""
        from elsewhere import layers
        for unknown in layers:
            b = {made}
            {change}
            unknown.bias = nn.Parameter(b.view(-1), requires_grad=True)
        """
    for name, made, change in (
        ("the data of a supposed parameter is changed", "unknown.bias.view(3, -1)", "b.data[:, 4] += 1.0"),
        ("a supposed parameter without its graph is changed", "unknown.bias.detach().view(3, -1)", "b[:, 4] += 1.0"),
        ("a copy of a supposed parameter is changed", "unknown.bias.view(3, -1).clone()", "b[:, 4] += 1.0"),
        ("a supposed parameter out of place is changed", "unknown.bias.view(3, -1)", "b = b + 1.0"),
    )
}
RIGHT |= {
    name: f"""
        def prepared(h):
            if {condition}:
                h = torch.from_numpy(h)
            return other(h)
        both = torch.optim.SGD([*net.parameters(), *other.parameters()], lr=0.1)
        for _ in range(3):
            loss = crit(prepared(net(x)), y)
            both.zero_grad(); loss.backward(); both.step()
        """
    for name, condition in (
        ("the type of a tensor is not NumPy's", "type(h) == np.ndarray"),
        ("the class of a tensor is not NumPy's", "h.__class__ is np.ndarray"),
        ("the type of a tensor is none of several", "type(h) in (np.ndarray, list)"),
        ("whatever tells a tensor from an array", "type(h).__module__ == 'numpy'"),
    )
}
RIGHT |= {
    f"one player at a time, of {known}: {how}": f"""
        import sys
        players = [nn.Linear(3, 2) for _ in range({count})]
        optimizers = [torch.optim.SGD(player.parameters(), lr=0.1) for player in players]
        for _ in range(4):
            chosen = []
            for number, player in enumerate(players):
                chosen.append(player(x))
            for number, player in enumerate(players):
                parts = {parts}
                loss = torch.cat(parts, dim=1).pow(2).mean()
                optimizers[number].zero_grad()
                loss.backward()
                optimizers[number].step()
        """
    for known, count in (("three", "3"), ("some", "int(sys.argv[1])"))
    for how, parts in (
        ("its own", "[c if at == number else c.detach() for at, c in enumerate(chosen)]"),
        ("not the others'", "[c.detach() if at != number else c for at, c in enumerate(chosen)]"),
        ("by index", "[chosen[at] if at == number else chosen[at].detach() for at in range(len(chosen))]"),
        ("by identity", "[c if player is players[at] else c.detach() for at, c in enumerate(chosen)]"),
        ("in pairs", "[c if one is player else c.detach() for one, c in zip(players, chosen)]"),
    )
}
RIGHT |= {
    f"two tests of one option agree: {first}, then {second}": f"""
        import argparse
        parser = argparse.ArgumentParser()
        parser.add_argument("--size", type=int, default=256)
        parser.add_argument("--arch", default="a")
        args = parser.parse_args()
        class Small(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(3, 6)
            def forward(self, x):
                out = torch.relu(self.fc(x))
                return out[:, :3], out[:, 3:]
        class Large(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(3, 3)
            def forward(self, x):
                out = self.fc(x)
                return out, (out - x).abs().mean()
        if {first}:
            made = Small()
        else:
            made = Large()
        steps = torch.optim.SGD(made.parameters(), lr=0.1)
        for _ in range(4):
            first, second = made(x)
            loss = second if {second} else second.mean()
            loss += first.pow(2).mean()
            steps.zero_grad()
            loss.backward()
            steps.step()
        """
    for first, second in (
        ("args.size <= 256", "args.size == 512"),
        ("args.size < 300", "512 <= args.size"),
        ("256 == args.size", "args.size > 256"),
        ("not args.size > 256", "args.size >= 257"),
        ("args.arch == 'a'", "args.arch == 'b'"),
        ("args.arch != 'b'", "args.arch == 'b'"),
    )
}
RIGHT |= {
    f"the losses that one unread call returns may share nothing, as in {sent!r}": f"""
        def train(model, batches):
            opt = torch.optim.Adam(model.parameters(), lr=1e-3)
            other = torch.optim.Adam(model.prior.parameters(), lr=1e-3)
            for batch in batches:
                opt.zero_grad()
                result = model(batch)
                {sent}
                opt.step()
        """
    for sent in (
        "loss, extra = result; loss.backward(); extra.backward()",
        "result['rate'].backward(); result['prior'].backward()",
        "result.loss.backward(); result.extra.backward()",
        "loss, extra = result; (loss / 4).backward(); extra.mean().backward()",
        "loss, extra = result; loss.backward(); opt.step(); extra.backward(); other.step()",
        "out, extra = result; (out - batch).pow(2).mean().backward(); extra.backward()",
    )
}
RIGHT |= {
    f"a pass may fail in a loop that only measures, under `except {caught}`": f"""
        import time
        def measure(batches, layers):
            found = []
            for batch in batches:
                for layer in layers:
                    start, out = time.time(), layer(batch)
                    try:
                        out.sum().backward()
                        end = time.time()
                    except {caught}:
                        end = float("nan")
                    found.append(end - start)
            return found
        for weight in other.parameters():
            weight.requires_grad = False
        print(measure([x, y], [net, other]))
        print(measure([x], [other]))
        """
    for caught in ("Exception", "RuntimeError", "(RuntimeError, TypeError)")
}


def program(text: str) -> str:
    return HEADER + textwrap.dedent(text)


@pytest.mark.parametrize("text", RIGHT.values(), ids=RIGHT.keys())
def test_nothing_is_found_where(text: str) -> None:
    assert analyze(Program.of(program(text), "program.py")).facts == ()


def test_an_unread_function_may_detach_what_it_is_given() -> None:
    text = """
    import estimators
    logits = net(x)
    first, second = estimators.relax(logits, crit)
    (first * second + second).sum().backward()
    logits.sum().backward()
    """
    facts = analyze(Program.of(program(text), "program.py")).facts
    assert facts
    assert all(fact.certainty is Certainty.LIKELY for fact in facts)


@pytest.mark.parametrize(
    "rows",
    [
        "wide(torch.rand(6, 3)).split(4)",
        "wide(torch.rand(2, 3))",
        "wide(torch.full((2, 3), 0.5))",
        "torch.atleast_2d(torch.ones(2, 3, requires_grad=True) * 2)",
    ],
)
def test_rows_of_one_result_share_its_graph(rows: str) -> None:
    text = f"""
    wide = nn.Sequential(nn.Linear(3, 5), nn.Tanh())
    for row in {rows}:
        row.sum().backward()
    """
    facts = analyze(Program.of(program(text), "program.py")).facts
    assert [fact.certainty for fact in facts] == [Certainty.CERTAIN]


@pytest.mark.parametrize(
    "body",
    [
        "first, second = model(batch); crit(first, batch).backward(); crit(second, batch).backward()",
        "loss, extra = model(batch); (loss + extra).backward(); extra.backward()",
        "loss, state = model(batch, state); loss.backward()",
        "loss, fake = model(batch); loss.backward(); judge(fake).mean().backward()",
        "loss, extra = model(batch); loss.backward(retain_graph=True); opt.step(); extra.backward()",
    ],
)
def test_items_of_an_unread_result_may_share_its_graph(body: str) -> None:
    text = f"""
    def train(model, judge, batches):
        opt, state = torch.optim.Adam(model.parameters(), lr=1e-3), None
        for batch in batches:
            opt.zero_grad()
            {body}
            opt.step()
    """
    facts = analyze(Program.of(program(text), "program.py")).facts
    assert facts
    assert all(fact.certainty is Certainty.LIKELY for fact in facts)


def test_a_batch_that_fails_in_training_is_no_measurement() -> None:
    text = """
    for batch in [x, y] * 10:
        try:
            net(batch).detach().sum().backward()
        except RuntimeError:
            continue
        opt.step()
    """
    assert analyze(Program.of(program(text), "program.py")).facts


def test_a_product_of_unread_objects_may_be_one() -> None:
    text = """
    import library
    mean, shift = torch.randn(3, requires_grad=True), torch.randn(3, requires_grad=True)
    joint = library.Normal("s", mean=mean) * library.Normal("z", mean=shift)
    opt = torch.optim.SGD([mean, shift], lr=0.1)
    for step in range(3):
        loss = -joint.logp({"s": x, "z": y}).mean()
        opt.zero_grad(); loss.backward(); opt.step()
    """
    facts = analyze(Program.of(program(text), "program.py")).facts
    assert all(fact.certainty is Certainty.LIKELY for fact in facts)


@pytest.mark.parametrize(
    ("made", "kept", "found"),
    [
        ("returns - head.denormalize(x)", "advantages.copy()", False),
        ("head.denormalize(x)", 'advantages.astype("float64")', False),
        ("returns - head.denormalize(x)", "advantages.clone()", True),
    ],
)
def test_a_method_of_arrays_alone_tells_that_an_unread_result_is_one(made: str, kept: str, found: bool) -> None:
    text = f"""
    from library import Head, rollout
    head = Head(4, 1)
    opt = torch.optim.Adam(head.parameters())
    for episode in range(10):
        x, returns = rollout()
        advantages = {made}
        kept = {kept}
        for epoch in range(4):
            opt.zero_grad()
            (head(x) - advantages).pow(2).mean().backward(retain_graph=True)
            opt.step()
            np.stack([advantages[0], advantages[1]])
    """
    assert bool(analyze(Program.of(program(text), "program.py")).facts) == found


HOLDING_THEMSELVES = {
    "a list in its own record": "record = {'loss': loss.item(), 'all': held}; held.append(record)",
    "a list in itself": "held.append([held, loss.item()])",
    "a tuple around it": "held.append((loss.item(), (held, {'all': held})))",
    "a dictionary in itself": "record = {'all': held}; record['own'] = record; held.append(record)",
    "an object of one's own": "record = Record(); record.parts = [held]; record.parts.append(record.parts)\n"
    "    held.append(record)",
    "a record that is extended by itself": "held += [{'all': held}]; held.extend(held[:1])",
}


@pytest.mark.parametrize("hold", HOLDING_THEMSELVES.values(), ids=HOLDING_THEMSELVES)
def test_containers_that_hold_themselves_are_followed(hold: str) -> None:
    text = f"""
class Record:
    parts = None
held, total = [], 0
for step in range(99):
    loss = crit(net(x), y)
    opt.zero_grad(); loss.backward(); opt.step()
    {hold}
    total += loss
print(total)
"""
    found = analyze(Program.of(program(text), "program.py"))
    assert found.complete
    assert [type(fact).__name__ for fact in found.facts] == ["GraphHeld"]


NINE_STATES = """
bank = {}
bank["a"] = torch.zeros(2, 3)
bank["b"] = torch.zeros(2, 3)
bank["c"] = torch.zeros(2, 3)
bank["d"] = torch.zeros(2, 3)
bank["e"] = torch.zeros(2, 3)
bank["f"] = torch.zeros(2, 3)
bank["g"] = torch.zeros(2, 3)
bank["h"] = torch.zeros(2, 3)
bank["i"] = torch.zeros(2, 3)
for _ in range(3):
    bank["g"] = torch.tanh(cell(bank["g"] + torch.randn(2, 3)))
    optimizer.zero_grad()
    bank["g"].square().mean().backward()
    optimizer.step()
    CUT
"""
CUT_IN_A_LOOP = {
    "items": "for key, value in bank.items(): bank[key] = value.detach()",
    "items, numbered": "for at, (key, value) in enumerate(bank.items()): bank[key] = value.detach()",
    "the dictionary": "for key in bank: bank[key] = bank[key].detach()",
    "a list of its keys": "for key in list(bank.keys()): bank[key].detach_()",
    "its keys, in order": "for key in sorted(bank): bank[key] = bank[key].detach()",
    "values": "for value in bank.values(): value.detach_()",
    "values as a tuple": "for value in tuple(bank.values()): value.detach_()",
    "items, made anew": "bank = dict((key, value.detach()) for key, value in bank.items())",
    "": "pass",
}


@pytest.mark.parametrize("cut", CUT_IN_A_LOOP.values(), ids=CUT_IN_A_LOOP)
def test_a_loop_over_a_container_reaches_all_of_its_known_items(cut: str) -> None:
    torch = pytest.importorskip("torch")
    text = "import torch\ncell = torch.nn.Linear(3, 3)\noptimizer = torch.optim.SGD(cell.parameters(), 0.1)\n"
    text += NINE_STATES.replace("CUT", cut)
    fails = cut == "pass"
    assert bool(analyze(Program.of(text, "program.py")).facts) == fails
    with pytest.raises(RuntimeError, match="second time") if fails else nullcontext():
        exec(compile(text, "program.py", "exec"), {"torch": torch})
