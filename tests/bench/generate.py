"""Generated training code for the benchmark: files of a given length that look like a research repository's.

Each is a chain of blocks (datasets, networks, losses, trainers, scripts) with names and numbers of its own; one in five
holds a trainer that stores tensors with their graphs.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

HEAD = '''\
"""{title}."""

from __future__ import annotations

import argparse
import logging
import math
import os
import random
from collections import defaultdict, deque
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, Dataset

logger = logging.getLogger(__name__)
'''

DATASET = '''

@dataclass
class {Name}Config:
    """Settings of one experiment."""

    batch_size: int = {a}
    learning_rate: float = {rate}
    epochs: int = {b}
    hidden: int = {c}
    dropout: float = 0.{d}
    clip: float = 1.0
    tags: list[str] = field(default_factory=list)


class {Name}Dataset(Dataset):
    """Random sequences with a target that depends on their sum."""

    def __init__(self, size: int = {a}00, length: int = {b}, features: int = {c}) -> None:
        generator = torch.Generator().manual_seed({d})
        self.inputs = torch.randn(size, length, features, generator=generator)
        weights = torch.randn(features, generator=generator)
        self.targets = (self.inputs.sum(1) @ weights > 0).long()
        self.cache: dict[int, tuple[torch.Tensor, torch.Tensor]] = {{}}

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        if index not in self.cache:
            item = self.inputs[index]
            if random.random() < 0.5:
                item = item.flip(0)
            self.cache[index] = (item, self.targets[index])
        return self.cache[index]

    def statistics(self) -> dict[str, float]:
        values = self.inputs.reshape(-1).numpy()
        return {{"mean": float(np.mean(values)), "std": float(np.std(values)), "max": float(np.max(values))}}
'''

NETWORK = '''

class {Name}Block(nn.Module):
    """A convolution, a normalisation and a skip connection."""

    def __init__(self, channels: int, expansion: int = {b}) -> None:
        super().__init__()
        self.conv1 = nn.Conv1d(channels, channels * expansion, kernel_size=3, padding=1)
        self.conv2 = nn.Conv1d(channels * expansion, channels, kernel_size=3, padding=1)
        self.norm1 = nn.BatchNorm1d(channels * expansion)
        self.norm2 = nn.BatchNorm1d(channels)
        self.dropout = nn.Dropout(0.{d})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        identity = x
        out = F.relu(self.norm1(self.conv1(x)))
        out = self.dropout(out)
        out = self.norm2(self.conv2(out))
        out = out + identity
        return F.relu(out)


class {Name}Net(nn.Module):
    """Blocks, then a recurrent layer, then a head for each task."""

    def __init__(self, features: int = {c}, hidden: int = {a}, classes: int = {b}) -> None:
        super().__init__()
        self.stem = nn.Linear(features, hidden)
        self.blocks = nn.ModuleList([{Name}Block(hidden) for _ in range({d})])
        self.rnn = nn.LSTM(hidden, hidden, num_layers=2, batch_first=True)
        self.attention = nn.MultiheadAttention(hidden, num_heads=4, batch_first=True)
        self.head = nn.Sequential(nn.Linear(hidden, hidden), nn.GELU(), nn.Linear(hidden, classes))
        self.scale = nn.Parameter(torch.ones(1))
        self.register_buffer("running", torch.zeros(hidden))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for name, parameter in self.named_parameters():
            if parameter.dim() > 1 and "norm" not in name:
                nn.init.xavier_uniform_(parameter, gain=math.sqrt(2.0))

    def forward(self, x: torch.Tensor, state=None):
        x = self.stem(x)
        for block in self.blocks:
            x = block(x.transpose(1, 2)).transpose(1, 2)
        out, state = self.rnn(x, state)
        attended, _ = self.attention(out, out, out)
        if self.training:
            with torch.no_grad():
                self.running.mul_(0.9).add_(attended.mean((0, 1)), alpha=0.1)
        pooled = (attended * self.scale).mean(1)
        return self.head(pooled), state
'''

LOSS = '''

class {Name}Loss(nn.Module):
    """Cross entropy with smoothing, and a penalty on the logits."""

    def __init__(self, smoothing: float = 0.{d}, weight: float = {rate}) -> None:
        super().__init__()
        self.smoothing = smoothing
        self.weight = weight

    def forward(self, logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        log_probs = F.log_softmax(logits, dim=-1)
        picked = -log_probs.gather(-1, target.unsqueeze(-1)).squeeze(-1)
        smooth = -log_probs.mean(dim=-1)
        loss = (1.0 - self.smoothing) * picked + self.smoothing * smooth
        penalty = self.weight * logits.pow(2).mean()
        return loss.mean() + penalty


def {name}_accuracy(logits: torch.Tensor, target: torch.Tensor, top: int = {d}) -> float:
    with torch.no_grad():
        best = logits.topk(min(top, logits.size(-1)), dim=-1).indices
        hits = best.eq(target.unsqueeze(-1)).any(dim=-1)
    return hits.float().mean().item()


def {name}_schedule(step: int, warmup: int = {a}, total: int = {c}000) -> float:
    if step < warmup:
        return step / max(1, warmup)
    progress = (step - warmup) / max(1, total - warmup)
    return max(0.0, 0.5 * (1.0 + math.cos(math.pi * progress)))
'''

TRAINER = '''

class {Name}Trainer:
    """Trains one network and keeps its history."""

    def __init__(self, net: nn.Module, config: {Name}Config) -> None:
        self.net = net
        self.config = config
        self.criterion = {Name}Loss()
        self.optimizer = optim.AdamW(net.parameters(), lr=config.learning_rate)
        self.scheduler = optim.lr_scheduler.LambdaLR(self.optimizer, {name}_schedule)
        self.history: dict[str, list[float]] = defaultdict(list)
        self.recent: deque[float] = deque(maxlen={a})
        self.step = 0

    def train_epoch(self, loader: DataLoader) -> float:
        self.net.train()
        total, seen = 0.0, 0
        for inputs, target in loader:
            self.optimizer.zero_grad(set_to_none=True)
            logits, _ = self.net(inputs)
            loss = self.criterion(logits, target)
            loss.backward()
            nn.utils.clip_grad_norm_(self.net.parameters(), self.config.clip)
            self.optimizer.step()
            self.scheduler.step()
            self.step += 1
            self.recent.append(loss.item())
            total += loss.item() * len(inputs)
            seen += len(inputs)
            if self.step % {b} == 0:
                logger.info("step %d loss %.4f", self.step, sum(self.recent) / len(self.recent))
        self.history["loss"].append(total / max(1, seen))
        return self.history["loss"][-1]

    @torch.no_grad()
    def evaluate(self, loader: DataLoader) -> float:
        self.net.eval()
        scores = []
        for inputs, target in loader:
            logits, _ = self.net(inputs)
            scores.append({name}_accuracy(logits, target))
        score = sum(scores) / max(1, len(scores))
        self.history["accuracy"].append(score)
        return score

    def save(self, path: str) -> None:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        state = {{"net": self.net.state_dict(), "optimizer": self.optimizer.state_dict(), "step": self.step}}
        torch.save(state, path)
'''

STATEFUL = '''

def {name}_train_stateful(net: nn.Module, batches: list[torch.Tensor], epochs: int = {d}) -> list[float]:
    """Truncated back-propagation through time: the state is carried, its graph is not."""
    optimizer = optim.SGD(net.parameters(), lr={rate}, momentum=0.9)
    losses = []
    for _ in range(epochs):
        state = None
        for batch in batches:
            logits, state = net(batch, state)
            state = tuple(part.detach() for part in state)
            loss = F.cross_entropy(logits, torch.zeros(len(logits), dtype=torch.long))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses


def {name}_policy_gradient(policy: nn.Module, episodes: int = {b}, gamma: float = 0.9{d}) -> float:
    """Log-probabilities are kept for one episode and used by its own backward."""
    optimizer = optim.Adam(policy.parameters(), lr={rate})
    best = -math.inf
    for _ in range(episodes):
        log_probs, rewards = [], []
        observation = torch.randn(1, {c})
        for _ in range({a}):
            distribution = torch.distributions.Categorical(logits=policy(observation))
            action = distribution.sample()
            log_probs.append(distribution.log_prob(action))
            rewards.append(float(action.item() == 0))
            observation = torch.randn(1, {c})
        returns, running = [], 0.0
        for reward in reversed(rewards):
            running = reward + gamma * running
            returns.insert(0, running)
        advantage = torch.tensor(returns) - sum(returns) / len(returns)
        loss = -(torch.cat(log_probs) * advantage).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        best = max(best, sum(rewards))
    return best
'''

GAN = '''

def {name}_gan(generator: nn.Module, critic: nn.Module, data: torch.Tensor, steps: int = {b}) -> tuple[float, float]:
    """One critic and one generator step in turn, each with a forward pass of its own."""
    optimizer_g = optim.Adam(generator.parameters(), lr={rate}, betas=(0.5, 0.999))
    optimizer_d = optim.Adam(critic.parameters(), lr={rate}, betas=(0.5, 0.999))
    loss_d = loss_g = torch.zeros(())
    for _ in range(steps):
        noise = torch.randn(len(data), {c})
        fake = generator(noise)
        real_score = critic(data)
        fake_score = critic(fake.detach())
        loss_d = F.softplus(-real_score).mean() + F.softplus(fake_score).mean()
        optimizer_d.zero_grad()
        loss_d.backward()
        optimizer_d.step()

        loss_g = F.softplus(-critic(fake)).mean()
        optimizer_g.zero_grad()
        loss_g.backward()
        optimizer_g.step()
    return loss_d.item(), loss_g.item()
'''

MISTAKE = '''

def {name}_train_with_memory(batches: list[torch.Tensor]) -> list[float]:
    """Averages over the features of earlier batches, and keeps their graphs with them."""
    net = nn.Linear({c}, {c})
    optimizer = optim.SGD(net.parameters(), lr={rate})
    memory = []
    losses = []
    for batch in batches:
        feature = net(batch)
        memory.append(feature)
        loss = sum(item.pow(2).mean() for item in memory) / len(memory)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
'''

MAIN = """

def main_{name}() -> None:
    parser = argparse.ArgumentParser(description="{title}")
    parser.add_argument("--epochs", type=int, default={b})
    parser.add_argument("--output", default="runs/{name}")
    arguments = parser.parse_args()
    torch.manual_seed({d})
    config = {Name}Config(epochs=arguments.epochs)
    dataset = {Name}Dataset()
    loader = DataLoader(dataset, batch_size=config.batch_size, shuffle=True, drop_last=True)
    trainer = {Name}Trainer({Name}Net(), config)
    for epoch in range(config.epochs):
        loss = trainer.train_epoch(loader)
        score = trainer.evaluate(loader)
        logger.info("epoch %d loss %.4f accuracy %.3f", epoch, loss, score)
        if epoch % {a} == 0:
            trainer.save(os.path.join(arguments.output, f"epoch-{{epoch}}.pt"))
"""

WORDS = "acoustic bright copper dense early fluent gentle hollow inner jade keen lunar mellow north open prime".split()
THINGS = "encoder sampler ranker tagger parser mixer filter tracker".split()


def write_folder(folder: Path, files: int, lines: int, seed: int = 0) -> int:
    """Write *files* generated files of *lines* lines below *folder*; return how many of them hold a mistake."""
    chance = random.Random(seed)
    wrong = 0
    for number in range(files):
        with_mistake = number % 5 == 0
        wrong += with_mistake
        package = folder / f"package_{number // 20:02}"
        package.mkdir(parents=True, exist_ok=True)
        text = file_text(chance, lines, with_mistake=with_mistake)
        (package / f"module_{number:03}.py").write_text(text, encoding="utf-8")
    return wrong


def file_text(chance: random.Random, lines: int, *, with_mistake: bool) -> str:
    """Return one file of exactly *lines* lines."""
    values = numbers(chance, "")
    text = HEAD.format(**values)
    blocks = [block for index in range(99) for block in group(chance, index, with_mistake=with_mistake and index == 0)]
    for block in blocks:
        if text.count("\n") + block.count("\n") > lines:
            break
        text += block
    missing = lines - text.count("\n")
    return text + "".join(f"# {chance.choice(WORDS)} {chance.choice(THINGS)}\n" for _ in range(missing))


def group(chance: random.Random, index: int, *, with_mistake: bool) -> Iterator[str]:
    """Yield the blocks of one experiment, which share their names."""
    values = numbers(chance, f"{index}")
    templates = [DATASET, NETWORK, LOSS, TRAINER, *([MISTAKE] if with_mistake else []), STATEFUL, GAN, MAIN]
    for template in templates:
        yield template.format(**values | {key: value for key, value in numbers(chance, "").items() if len(key) == 1})


def numbers(chance: random.Random, suffix: str) -> dict[str, str | int | float]:
    word, thing = chance.choice(WORDS), chance.choice(THINGS)
    return {
        "Name": f"{word}{thing}".title().replace(thing, thing.title()) + suffix,
        "name": f"{word}_{thing}{suffix}",
        "title": f"A {word} {thing}",
        "a": chance.choice([16, 32, 64]),
        "b": chance.randint(2, 9),
        "c": chance.choice([8, 12, 24]),
        "d": chance.randint(1, 5),
        "rate": chance.choice([0.1, 0.01, 0.001]),
    }
