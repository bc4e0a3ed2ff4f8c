"""Models that no pass of the program trains: what hangs on a switch of the constructor is likely, no more."""

from __future__ import annotations

import pytest

from autofix.codemods.facts.base import Certainty
from autofix.engine import analyse

MODEL = """\
import torch
from torch import nn

class Gate(nn.Module):
    def __init__(self, width, GIVEN):
        super().__init__()
        self.layer = nn.Linear(width, width)
        self.adds = adds

    def forward(self, x):
        y = torch.sigmoid(self.layer(x))
        if self.adds:
            y += x
        return y
"""


@pytest.mark.parametrize(
    ("given", "certainty"),
    [
        ("adds", Certainty.CERTAIN),
        ("adds=True", Certainty.CERTAIN),
        ("adds=False", Certainty.LIKELY),
        ("*, adds=False", Certainty.LIKELY),
    ],
)
def test_a_switch_that_is_off_by_default_makes_a_mistake_likely(given: str, certainty: Certainty) -> None:
    [found] = analyse(MODEL.replace("GIVEN", given), "net.py").findings
    assert (found.code, found.cause.line, found.certainty) == ("AF201", 13, certainty)


OF_OPENMMLAB = """\
from torch import nn
from LIBRARY import BaseModule, ModuleList

class Block(BaseModule):
    def __init__(self, width, init_cfg=None):
        super().__init__(init_cfg)
        self.layer = nn.Linear(width, width)
        self.relu = nn.ReLU()

    def forward(self, x):
        return self.relu(self.layer(x))

class Net(BaseModule):
    def __init__(self, width, count=2, init_cfg=None):
        super().__init__(init_cfg)
        self.blocks = ModuleList()
        for _ in range(count):
            self.blocks.append(Block(width))

    def forward(self, x):
        for i, block in enumerate(self.blocks):
            x = block(x)
            if i == 0:
                total = x
            else:
                total += x
        return total
"""


@pytest.mark.parametrize("library", ["mmcv.runner", "mmcv.runner.base_module", "mmengine.model"])
def test_the_lists_of_layers_of_openmmlab_are_torchs(library: str) -> None:
    [found] = analyse(OF_OPENMMLAB.replace("LIBRARY", library), "net.py").findings
    assert (found.code, found.cause.line) == ("AF201", 26)


CONV_MODULES = """\
from torch import nn
from LIBRARY import ConvModule

class Neck(nn.Module):
    def __init__(self, count, norm_cfg=None, act_cfg=None):
        super().__init__()
        self.lateral = nn.ModuleList(ConvModule(8, 8, 1, norm_cfg=norm_cfgOPTIONS) for _ in range(count))

    def forward(self, features):
        x = self.lateral[0](features[0])
        for i, feature in enumerate(features):
            if i != 0:
                x += self.lateral[i](feature)
        return x
"""


@pytest.mark.parametrize("library", ["mmcv.cnn", "mmcv.cnn.bricks"])
@pytest.mark.parametrize(
    ("options", "found"),
    [
        ("", ["AF201"]),
        (", inplace=False", ["AF201"]),
        (', act_cfg=dict(type="Sigmoid")', ["AF201"]),
        (', act_cfg={"type": "Swish"}', []),
        (", act_cfg=None", []),
        (", act_cfg=act_cfg", []),
        (', act_cfg=dict(type="Mine")', []),
        (', order=("act", "conv", "norm")', []),
    ],
)
def test_the_convolutions_of_openmmlab_end_in_an_activation(library: str, options: str, found: list[str]) -> None:
    text = CONV_MODULES.replace("LIBRARY", library).replace("OPTIONS", options)
    assert [one.code for one in analyse(text, "neck.py").findings] == found


USER = """\
class Detector(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.prior = Prior(width)
        self.head = nn.Linear(width, 2)
        for weight in self.prior.parameters():
            weight.requires_grad = TRAINS

    def forward(self, x):
        return self.head(self.prior(x))
"""
PART = """\
class Prior(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer = nn.Linear(width, width)

    def forward(self, x):
        y = torch.sigmoid(self.layer(x))
        y += x
        return y
"""


@pytest.mark.parametrize(("trains", "codes"), [("False", []), ("True", ["AF201"])])
@pytest.mark.parametrize("classes", [(USER, PART), (PART, USER)])
def test_a_part_is_run_as_the_model_around_it_means_to(classes: tuple[str, str], trains: str, codes: list[str]) -> None:
    text = "\n".join(("import torch", "from torch import nn", *classes)).replace("TRAINS", trains)
    assert [found.code for found in analyse(text, "net.py").findings] == codes


def test_classes_that_mention_each_other_are_all_read() -> None:
    part = PART.replace("y += x", "y += x if self.training else TWIN(3)(x)")
    both = (part.replace("TWIN", "Other"), part.replace("Prior", "Other").replace("TWIN", "Prior"))
    text = "\n".join(("import torch", "from torch import nn", *both))
    assert [found.code for found in analyse(text, "net.py").findings] == ["AF201", "AF201"]
