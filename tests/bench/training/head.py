"""The part that most training scripts share: arguments, seeds, logging, meters, schedules, checkpoints."""

HEAD = '''\
"""{title}."""

import argparse
import json
import math
import os
import random
import time
from collections import defaultdict, deque

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.utils.data import DataLoader, Dataset, TensorDataset


def parse_args():
    parser = argparse.ArgumentParser(description="{title}")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--epochs", type=int, default={epochs})
    parser.add_argument("--batch-size", type=int, default={batch})
    parser.add_argument("--lr", type=float, default=3e-4)
    parser.add_argument("--min-lr", type=float, default=1e-6)
    parser.add_argument("--warmup", type=int, default=100)
    parser.add_argument("--weight-decay", type=float, default=0.01)
    parser.add_argument("--clip", type=float, default=1.0)
    parser.add_argument("--hidden", type=int, default={hidden})
    parser.add_argument("--log-every", type=int, default=50)
    parser.add_argument("--save-every", type=int, default=1000)
    parser.add_argument("--output", default="runs/{name}")
    parser.add_argument("--resume", default="")
    parser.add_argument("--cuda", action="store_true")
    parser.add_argument("--anneal", action="store_true")
    return parser.parse_args()


def set_seed(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    if torch.cuda.is_available():
        torch.cuda.manual_seed_all(seed)


class AverageMeter:
    """Keeps the last value, the sum and the mean."""

    def __init__(self, name, window=100):
        self.name = name
        self.recent = deque(maxlen=window)
        self.reset()

    def reset(self):
        self.value = 0.0
        self.total = 0.0
        self.count = 0
        self.recent.clear()

    def update(self, value, n=1):
        self.value = value
        self.total += value * n
        self.count += n
        self.recent.append(value)

    @property
    def mean(self):
        return self.total / max(1, self.count)

    def __str__(self):
        return f"{{self.name}} {{self.value:.4f}} ({{self.mean:.4f}})"


class Logger:
    """Writes scalars to a file of lines, and prints them now and then."""

    def __init__(self, folder, every):
        os.makedirs(folder, exist_ok=True)
        self.file = open(os.path.join(folder, "log.jsonl"), "a")
        self.every = every
        self.meters = defaultdict(lambda: AverageMeter("scalar"))
        self.started = time.time()

    def scalar(self, name, value, step):
        self.meters[name].update(value)
        self.file.write(json.dumps({{"name": name, "value": value, "step": step}}) + "\\n")
        if step % self.every == 0:
            passed = time.time() - self.started
            print(f"{{step:>7}} {{name}} {{self.meters[name].mean:.4f}} {{passed:.0f}} s")

    def close(self):
        self.file.close()


def learning_rate(step, args, total):
    if step < args.warmup:
        return args.lr * (step + 1) / args.warmup
    if not args.anneal:
        return args.lr
    progress = (step - args.warmup) / max(1, total - args.warmup)
    return args.min_lr + 0.5 * (args.lr - args.min_lr) * (1 + math.cos(math.pi * min(1.0, progress)))


def save_checkpoint(path, model, optimizer, step):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    torch.save({{"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}}, path)


def load_checkpoint(path, model, optimizer):
    state = torch.load(path, map_location="cpu")
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return state["step"]


def count_parameters(model):
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


'''

TAIL = """

if __name__ == "__main__":
    main()
"""

MORE = '''\
class ExponentialAverage:
    """Parameters as they were on average."""

    def __init__(self, model, decay=0.999):
        self.decay = decay
        self.shadow = {name: p.detach().clone() for name, p in model.named_parameters() if p.requires_grad}

    @torch.no_grad()
    def update(self, model):
        for name, p in model.named_parameters():
            if name in self.shadow:
                self.shadow[name].mul_(self.decay).add_(p.detach(), alpha=1 - self.decay)

    def copy_to(self, model):
        for name, p in model.named_parameters():
            if name in self.shadow:
                p.data.copy_(self.shadow[name])


class EarlyStopping:
    def __init__(self, patience=5, delta=0.0):
        self.patience, self.delta = patience, delta
        self.best, self.bad = math.inf, 0

    def step(self, value):
        if value < self.best - self.delta:
            self.best, self.bad = value, 0
        else:
            self.bad += 1
        return self.bad >= self.patience


class WindowDataset(Dataset):
    """Pieces of a long series, each with the value that follows."""

    def __init__(self, series, length):
        self.series, self.length = series, length

    def __len__(self):
        return len(self.series) - self.length

    def __getitem__(self, index):
        return self.series[index : index + self.length], self.series[index + self.length]


class RunningStatistics:
    def __init__(self, shape=()):
        self.mean, self.var, self.count = np.zeros(shape), np.ones(shape), 1e-4

    def update(self, batch):
        mean, var, count = batch.mean(0), batch.var(0), len(batch)
        delta, total = mean - self.mean, self.count + count
        self.mean = self.mean + delta * count / total
        combined = self.var * self.count + var * count + delta**2 * self.count * count / total
        self.var, self.count = combined / total, total

    def normalize(self, x):
        return (x - self.mean) / np.sqrt(self.var + 1e-8)


def mixup(x, y, alpha=0.2):
    lam = np.random.beta(alpha, alpha) if alpha > 0 else 1.0
    order = torch.randperm(len(x), device=x.device)
    return lam * x + (1 - lam) * x[order], y, y[order], lam


def gradient_norm(model):
    total = 0.0
    for p in model.parameters():
        if p.grad is not None:
            total += p.grad.detach().norm(2).item() ** 2
    return total**0.5


def confusion(predictions, targets, classes):
    found = np.zeros((classes, classes), dtype=np.int64)
    for prediction, target in zip(predictions, targets):
        found[target, prediction] += 1
    return found


def report(matrix):
    right = matrix.diagonal().sum()
    for number, row in enumerate(matrix):
        print(f"class {number}: {row[number] / max(1, row.sum()):.3f}")
    return right / max(1, matrix.sum())


'''
