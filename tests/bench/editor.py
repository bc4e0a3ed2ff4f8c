"""From the last keystroke to the diagnostics of ``autofix server``, in a training script of 1,000 lines.

The server is a real process; one "editor" opens the script and edits it at several places, one edit after the other:
a comment, a hyperparameter, a helper that no training goes through, a layer of the network, the training step.  Two
times are measured for each: until diagnostics of the new text arrive, and until those arrive that stand (where a
first answer is corrected by the analysis of everything).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, Queue
from typing import IO, Any

from tests.bench.generate import DATASET, HEAD, LOSS, MAIN, NETWORK, TRAINER, numbers
from tests.bench.timing import ROOT, Comparison

LINES = 1000
AIM = 0.1
"""Seconds, in the median."""
QUIET = 3.0
"""Seconds without another answer after which the last one stands."""
WAIT = 60.0

UTILITIES = '''

class {Name}Meter:
    """A running average of one figure."""

    def __init__(self, name: str, digits: int = {d}) -> None:
        self.name = name
        self.digits = digits
        self.reset()

    def reset(self) -> None:
        self.total = 0.0
        self.count = 0
        self.last = 0.0

    def update(self, value: float, count: int = 1) -> None:
        self.last = value
        self.total += value * count
        self.count += count

    @property
    def average(self) -> float:
        return self.total / max(1, self.count)

    def __str__(self) -> str:
        return f"{{self.name}} {{self.last:.{{self.digits}}f}} ({{self.average:.{{self.digits}}f}})"


def {name}_confusion(predicted: list[int], target: list[int], classes: int = {b}) -> np.ndarray:
    """How often each class was taken for each other one."""
    table = np.zeros((classes, classes), dtype=np.int64)
    for guess, truth in zip(predicted, target):
        table[truth, guess] += 1
    return table


def {name}_scores(table: np.ndarray) -> dict[str, float]:
    """Precision, recall and F1, averaged over the classes."""
    hits = np.diag(table).astype(float)
    precision = hits / np.maximum(table.sum(0), 1)
    recall = hits / np.maximum(table.sum(1), 1)
    both = precision + recall
    f1 = np.where(both > 0, 2 * precision * recall / np.maximum(both, 1e-12), 0.0)
    return {{"precision": float(precision.mean()), "recall": float(recall.mean()), "f1": float(f1.mean())}}


def {name}_split(names: list[str], share: float = 0.{d}, seed: int = {a}) -> tuple[list[str], list[str]]:
    """Training and validation names, the same for the same seed."""
    shuffled = sorted(names)
    random.Random(seed).shuffle(shuffled)
    held_out = int(len(shuffled) * share)
    return shuffled[held_out:], shuffled[:held_out]


def {name}_load_settings(path: str) -> dict[str, str]:
    """Settings of the form ``key: value``, one on a line."""
    settings: dict[str, str] = {{}}
    with open(path, encoding="utf-8") as stream:
        for line in stream:
            text = line.split("#", 1)[0].strip()
            if not text:
                continue
            key, _, value = text.partition(":")
            settings[key.strip()] = value.strip()
    return settings


def {name}_augment(image: np.ndarray, chance: random.Random) -> np.ndarray:
    """Flip, shift and noise."""
    if chance.random() < 0.5:
        image = image[:, ::-1]
    shift = chance.randint(-{d}, {d})
    image = np.roll(image, shift, axis=0)
    if chance.random() < 0.2:
        image = image + np.random.default_rng({a}).normal(0.0, 0.0{d}, image.shape)
    return np.ascontiguousarray(image)
'''


def script(lines: int = LINES, seed: int = 7) -> str:
    """A training script of *lines* lines: data, networks, losses and helpers, one trainer, and a ``main``."""
    chance = random.Random(seed)
    text = HEAD.format(**numbers(chance, ""))
    first = _values(chance, "")
    own = [DATASET, NETWORK, LOSS, TRAINER, MAIN]
    tail = "".join(template.format(**first) for template in own)
    tail += '\n\nif __name__ == "__main__":\n    main_{name}()\n'.format(**first)
    kinds = [UTILITIES, NETWORK, UTILITIES, LOSS]
    for index in range(1, 99):
        block = kinds[index % len(kinds)].format(**_values(chance, str(index)))
        if text.count("\n") + block.count("\n") + tail.count("\n") > lines:
            break
        text += block
    missing = lines - text.count("\n") - tail.count("\n")
    return text + "\n" + "# Everything below is the experiment itself.\n" * (missing - 1) + tail


def _values(chance: random.Random, suffix: str) -> dict[str, Any]:
    return {**numbers(chance, suffix)}


@dataclass(frozen=True)
class Edit:
    """One typed edit: the piece of the script that is replaced, and its text after each keystroke."""

    place: str
    before: str
    typed: Callable[[int], str]
    codes: tuple[str, ...] = ()
    """Codes that the diagnostics must have once it is typed."""


EDITS = (
    Edit("comment", "# Everything below", lambda n: f"# {'x' * (n % 9 + 1)} Everything below"),
    Edit("setting", "clip: float = 1.0", lambda n: f"clip: float = 1.{n + 1}"),
    Edit("helper", "held_out = int(len(shuffled) * share)", lambda n: f"held_out = int(len(shuffled) * share) + {n}"),
    Edit("network", "out = out + identity", lambda n: f"out = out + identity * {n + 2}"),
    Edit("training step", "self.step += 1", lambda n: f"self.step += {n + 2}"),
    Edit("mistake", "total += loss.item() * len(inputs)", lambda n: f"total += loss * {n + 1}", ("AF601",)),
)


@dataclass
class Editor:
    """The least of an editor: it opens one file, sends its text on every change, and takes diagnostics."""

    stream: IO[bytes]
    told: Queue[dict[str, Any]] = field(default_factory=Queue)
    number: int = 0

    def send(self, method: str, params: Mapping[str, Any], *, request: bool = False) -> None:
        self.number += 1
        message = {"jsonrpc": "2.0", "method": method, "params": params, **({"id": self.number} if request else {})}
        data = json.dumps(message).encode()
        self.stream.write(b"Content-Length: %d\r\n\r\n" % len(data) + data)
        self.stream.flush()

    def listen(self, stream: IO[bytes]) -> None:
        while header := stream.readline():
            length = int(header.split(b":")[1])
            while stream.readline().strip():
                pass
            message = json.loads(stream.read(length))
            if message.get("method") == "textDocument/publishDiagnostics":
                self.told.put(message["params"])

    def first(self, version: int) -> tuple[str, ...]:
        """The codes of the first diagnostics of a version.  Raises :class:`queue.Empty`."""
        while (found := self.told.get(timeout=WAIT))["version"] != version:
            pass
        return codes_of(found)


def codes_of(told: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(sorted({str(one.get("code", "")) for one in told["diagnostics"]}))


@contextmanager
def server(folder: Path) -> Iterator[Editor]:
    """A server that is initialized, for the time of a block."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "autofix", "server"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=folder, env=environment, stdin=pipe, stdout=pipe) as process:
        assert process.stdin is not None and process.stdout is not None
        editor = Editor(process.stdin)
        threading.Thread(target=editor.listen, args=(process.stdout,), daemon=True).start()
        editor.send("initialize", {"processId": None, "rootUri": folder.as_uri(), "capabilities": {}}, request=True)
        editor.send("initialized", {})
        try:
            yield editor
        finally:
            editor.send("shutdown", {}, request=True)
            editor.send("exit", {})
            process.wait(timeout=WAIT)


def measure(rounds: int, lines: int = LINES) -> dict[str, tuple[list[float], list[float]]]:
    """For each place, the seconds to the first diagnostics of an edit and to the final ones.

    Raises :class:`RuntimeError` where the final diagnostics are not the right ones.
    """
    text = script(lines)
    found: dict[str, tuple[list[float], list[float]]] = {one.place: ([], []) for one in EDITS}
    with tempfile.TemporaryDirectory() as name, server(Path(name)) as editor:
        uri = (Path(name) / "train.py").as_uri()
        item = {"uri": uri, "languageId": "python", "version": 0, "text": text}
        editor.send("textDocument/didOpen", {"textDocument": item})
        known = editor.first(0)
        if known:
            raise RuntimeError(f"the script is right, and {known} is found")
        version = 0
        for number in range(rounds):
            for one in EDITS:
                typed = text.replace(one.before, one.typed(number), 1)
                first, last, said = _one(editor, uri, version + 1, typed)
                assert typed != text, one.place
                if said != one.codes:
                    raise RuntimeError(f"{one.place}: {said} is said, and not {one.codes}")
                found[one.place][0].append(first)
                found[one.place][1].append(last)
                version += 2
                _one(editor, uri, version, text)  # taken back, which is no new text, and not counted
    return found


def _one(editor: Editor, uri: str, version: int, text: str) -> tuple[float, float, tuple[str, ...]]:
    """Seconds to the first diagnostics of a text and to the last, and the codes of the last."""
    change = {"textDocument": {"uri": uri, "version": version}, "contentChanges": [{"text": text}]}
    began = time.perf_counter()
    editor.send("textDocument/didChange", change)
    said = editor.first(version)
    first = last = time.perf_counter() - began
    while True:
        try:
            told = editor.told.get(timeout=QUIET)
        except Empty:
            return first, last, said
        if told["version"] == version:
            last, said = time.perf_counter() - began, codes_of(told)


def compare(rounds: int, lines: int = LINES) -> Comparison:
    """Print the times by place, and hold the median over all edits to the aim."""
    found = measure(rounds, lines)
    for place, (first, last) in found.items():
        print(
            f"{place:<14} first {statistics.median(first):6.3f} s   final {statistics.median(last):6.3f} s", flush=True
        )
    first = [one for firsts, _ in found.values() for one in firsts]
    last = [one for _, lasts in found.values() for one in lasts]
    print(
        f"median:        first {statistics.median(first):6.3f} s   final {statistics.median(last):6.3f} s", flush=True
    )
    return Comparison("diagnostics after a keystroke, final, in seconds", statistics.median(last), most=AIM)


def tell(place: str, first: list[float], last: list[float]) -> None:
    """Print the medians for one place."""
    print(f"{place:<14} first {statistics.median(first):6.3f} s   final {statistics.median(last):6.3f} s", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.editor", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="(default: %(default)s)")
    parser.add_argument("--lines", type=int, default=LINES, help="(default: %(default)s)")
    options = parser.parse_args()
    print(f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}", flush=True)
    result = compare(options.rounds, options.lines)
    print(result)
    return 0 if result.holds else 1


if __name__ == "__main__":
    sys.exit(main())
