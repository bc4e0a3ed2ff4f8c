"""The picture that the run witness takes of a failing graph: the guilty place, the way to it, and never too much."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from autofix.evidence.witness import witness
from autofix.execution.runner import Limits, Script
from autofix.report import documents

START = "import torch\nnet = torch.nn.Linear(2, 2)\nx = torch.ones(1, 2)\n"


def picture(text: str) -> dict[str, Any]:
    script = Script(Path("/no/such/folder/train.py"), text=START + text)
    graph: dict[str, Any] = witness(script, Limits(timeout=60))[0].details["graph"]
    return graph


def node(graph: dict[str, Any], number: int) -> dict[str, Any]:
    (found,) = [one for one in graph["nodes"] if one["id"] == number]
    return dict(found)


def test_the_edge_to_a_freed_node_is_guilty() -> None:
    graph = picture("h = net(x)\nh.sum().backward()\nh.exp().sum().backward()\n")
    fresh, freed = (node(graph, number) for number in graph["guilty"])
    assert (fresh["operation"], fresh["state"], fresh["passes"]) == ("ExpBackward0", "fresh", 1)
    assert (freed["operation"], freed["state"], freed["passes"]) == ("AddmmBackward0", "freed", 0)
    assert (freed["frames"][-1]["file"], freed["frames"][-1]["line"]) == ("train.py", 4)
    assert {"from": fresh["id"], "to": freed["id"]} in graph["edges"]
    leaves = {one["name"]: one["shape"] for one in graph["nodes"] if one["state"] == "leaf"}
    assert leaves == {"net.weight": [2, 2], "net.bias": [2]}
    assert graph["left_out"] == 0


def test_a_root_that_was_freed_is_guilty_itself() -> None:
    graph = picture("loss = net(x).sum()\nloss.backward()\nloss.backward()\n")
    (guilty,) = graph["guilty"]
    assert (node(graph, guilty)["operation"], node(graph, guilty)["state"]) == ("SumBackward0", "freed")


def test_a_node_whose_saved_value_was_overwritten_is_guilty() -> None:
    graph = picture("h = net(x).exp()\nloss = h.sum()\nh += 1\nloss.backward()\n")
    (guilty,) = graph["guilty"]
    assert (node(graph, guilty)["operation"], node(graph, guilty)["state"]) == ("ExpBackward0", "overwritten")


def test_of_a_large_graph_the_neighbourhood_is_shown() -> None:
    text = """\
h = net(x)
h.sum().backward()
total = h
for i in range(100):
    total = total * 1.5 + torch.cat([net(x).tanh() for _ in range(3)]).sum()
total.sum().backward()
"""
    graph = picture(text)
    numbers = [one["id"] for one in graph["nodes"]]
    assert len(numbers) == 40 and numbers == list(range(40))
    assert graph["left_out"] > 500
    (gap,) = [edge for edge in graph["edges"] if "skipped" in edge]
    assert gap["skipped"] == 201 - 16
    assert all(edge["from"] in numbers and edge["to"] in numbers for edge in graph["edges"])
    reached = {0}
    for _ in numbers:
        reached |= {edge["to"] for edge in graph["edges"] if edge["from"] in reached}
    assert set(graph["guilty"]) <= reached


def test_json_holds_the_evidence_without_its_picture() -> None:
    text = START + "def f(h):\n    return h.exp().sum()\nh = net(x)\nh.sum().backward()\nf(h).backward()\n"
    evidence = witness(Script(Path("/no/such/folder/train.py"), text=text), Limits(timeout=60))[0]
    told = documents.evidence_object(evidence)
    documents.render(told)
    assert told["kind"] == "stale graph"
    assert "graph" not in told["details"]
    assert told["details"]["freed_by_pass"] == 1
    used = next(role for role in told["roles"] if role["name"] == "used")
    assert used == {
        "name": "used",
        "file": "train.py",
        "start": {"line": 5, "column": 12},
        "end": {"line": 5, "column": 19},
        "function": "f",
        "callers": [
            {
                "file": "train.py",
                "start": {"line": 8, "column": 1},
                "end": {"line": 8, "column": 5},
                "function": "<module>",
            }
        ],
    }
    assert {"name": "h", "kind": "variable", "function": "<module>"} in told["holders"]
