"""Dictionaries that a call returned which was not read: items that are replaced, and values of other libraries."""

from __future__ import annotations

import textwrap

import pytest

from autofix.engine import analyse

SCRIPT = """\
import numpy as np
import torch
from torch import nn
from elsewhere import batches, losses_of, names
net = nn.Linear(3, 3)
optimizer = torch.optim.Adam(net.parameters())
history = []
for batch in batches:
    losses = losses_of(net(batch))
    optimizer.zero_grad()
    (losses["total"] / 4).backward()
    optimizer.step()
{body}
    history.append(losses["total"])
print(np.mean(history))
"""
RIGHT = {
    "by items": "for key, loss in losses.items():\n    losses[key] = loss.item()",
    "by a list of items": "for key, loss in list(losses.items()):\n    losses[key] = float(loss)",
    "by keys": "for key in losses:\n    losses[key] = losses[key].item()",
    "by known names": "for name in names:\n    losses[name] = losses[name].detach()",
    "by numbered keys": "for at, key in enumerate(losses):\n    losses[key] = losses[key].item() + at",
    "where they are tensors": (
        "for key, loss in losses.items():\n    if isinstance(loss, torch.Tensor):\n        losses[key] = loss.item()"
    ),
    "by an update": "losses.update({key: loss.item() for key, loss in losses.items()})",
    "by an update of one": "losses.update(total=losses['total'].item())",
    "by another dictionary": "losses = {key: loss.item() for key, loss in losses.items()}",
}
LISTS = {
    "by numbers": "for at in range(len(parts)):\n    parts[at] = parts[at].item()",
    "by numbered items": "for at, part in enumerate(parts):\n    parts[at] = part.detach().cpu().numpy()",
    "by another list": "parts = [part.item() for part in parts]",
}
WRONG = {
    "not replaced": "pass",
    "read only": "for key, loss in losses.items():\n    print(key, loss.item())",
    "replaced by others with a graph": "for key, loss in losses.items():\n    losses[key] = loss * 2",
    "another one updated": "losses.update(other=losses['total'].item())",
}


def codes(body: str) -> set[str]:
    return {one.code for one in analyse(SCRIPT.format(body=textwrap.indent(body, "    ")), "train.py").findings}


@pytest.mark.parametrize("body", RIGHT.values(), ids=RIGHT)
def test_replaced_items_have_no_graph(body: str) -> None:
    assert codes(body) == set()


@pytest.mark.parametrize("body", WRONG.values(), ids=WRONG)
def test_items_that_are_kept_have_one(body: str) -> None:
    assert "AF601" in codes(body)


@pytest.mark.parametrize("body", LISTS.values(), ids=LISTS)
def test_replaced_items_of_a_list_have_no_graph(body: str) -> None:
    script = SCRIPT.replace("losses = losses_of", "parts = losses_of").replace('(losses["total"] / 4)', "sum(parts)")
    script = script.replace('losses["total"]', "parts")
    found = analyse(script.format(body=textwrap.indent(body, "    ")), "train.py").findings
    assert not found


def test_a_key_is_not_saved() -> None:
    body = "for key in losses:\n    losses[key] *= 0.5\noptimizer.zero_grad()\n(losses['a'] + losses['b']).backward()"
    script = SCRIPT.replace('    (losses["total"] / 4).backward()\n    optimizer.step()\n', "")
    script = script.replace('    history.append(losses["total"])\n', "")
    assert not analyse(script.format(body=textwrap.indent(body, "    ")), "train.py").findings


PICKED = """\
import torch
from torch import nn
from elsewhere import batches, sampler
net = nn.Linear(3, 3)
optimizer = torch.optim.Adam(net.parameters())
for batch in batches:
    features = torch.sigmoid(net(batch))
    places = sampler(features)
    features[places] = 0.0
    optimizer.zero_grad()
    features.sum().backward()
    optimizer.step()
"""


def test_what_was_not_read_may_index_a_tensor() -> None:
    assert [one.code for one in analyse(PICKED, "train.py").findings] == ["AF201"]


PICTURE = """\
import numpy as np
import torch
{imports}
from torch import nn
def norm(image):
    if isinstance(image, {kind}):
        image = torch.tensor(np.asarray(image).copy()).float()
    return image / 255
weight = nn.Parameter(torch.randn(3, 8, 8))
optimizer = torch.optim.Adam([weight])
for _ in range(3):
    loss = norm(torch.sigmoid(weight)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("imports", "kind"),
    [
        ("from PIL import Image", "Image.Image"),
        ("import PIL.Image as pictures", "pictures.Image"),
        ("import pandas as pd", "(pd.DataFrame, pd.Series)"),
        ("import tensorflow as tf", "tf.Tensor"),
        ("import jax", "jax.Array"),
        ("", "np.ndarray"),
    ],
)
def test_a_tensor_is_no_object_of_another_library(imports: str, kind: str) -> None:
    assert not analyse(PICTURE.format(imports=imports, kind=kind), "train.py").findings


def test_a_tensor_is_one() -> None:
    found = analyse(PICTURE.format(imports="", kind="torch.Tensor"), "train.py").findings
    assert [one.code for one in found] == ["AF401"]
