"""Scripts that fail by errors which no kept graph avoids: their references run past these as the author meant it."""

from __future__ import annotations

from tests.proof_cases import Case, Patch

ZEROED = ("    optimizer.zero_grad()\n", "")
DOUBLED = ("    loss.backward()", "    (2 * loss).backward()")
NET = """\
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(3, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
"""
COMPUTED = """\
import torch

torch.manual_seed(0)
weight = torch.randn(3, 2, requires_grad=True).double()
optimizer = torch.optim.SGD([weight], lr=0.1)
for _ in range(8):
    optimizer.zero_grad()
    loss = (torch.randn(4, 3).double() @ weight).pow(2).mean()
    loss.backward()
    optimizer.step()
"""
LEAF = (
    "weight = torch.randn(3, 2, requires_grad=True).double()",
    "weight = torch.randn(3, 2).double().requires_grad_()",
)
INFERENCE = (
    NET
    + """\
with torch.inference_mode():
    data = torch.randn(8, 4, 3) * 2
for x in data:
    optimizer.zero_grad()
    loss = net(x).pow(2).mean()
    loss.backward()
    optimizer.step()
"""
)
NO_GRAD = ("inference_mode", "no_grad")
WRITTEN = """\
import torch

torch.manual_seed(0)
weight = torch.randn(3, 3, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.1)
product = torch.empty(4, 3)
for _ in range(8):
    optimizer.zero_grad()
    torch.matmul(torch.randn(4, 3), weight, out=product)
    loss = product.pow(2).mean()
    loss.backward()
    optimizer.step()
"""
RETURNED = ("torch.matmul(torch.randn(4, 3), weight, out=product)", "product = torch.matmul(torch.randn(4, 3), weight)")
PARTS = (
    NET
    + """\
for _ in range(8):
    optimizer.zero_grad()
    mean, scale = net(torch.randn(4, 3)).chunk(2, 1)
    scale.exp_()
    loss = (mean.pow(2) + scale).mean()
    loss.backward()
    optimizer.step()
"""
)
ANEW = ("scale.exp_()", "scale = scale.exp()")
UNKEPT = (
    NET
    + """\
for _ in range(8):
    optimizer.zero_grad()
    hidden = net(torch.randn(4, 3))
    loss = hidden.tanh().pow(2).mean()
    loss.backward()
    saliency = hidden.grad.abs().mean()
    for parameter in net.parameters():
        parameter.grad *= 1 + saliency
    optimizer.step()
"""
)
KEPT = ("    loss = hidden", "    hidden.retain_grad()\n    loss = hidden")
UNREDUCED = (
    NET
    + """\
for _ in range(8):
    optimizer.zero_grad()
    loss = net(torch.randn(4, 3)).pow(2)
    loss.backward()
    optimizer.step()
"""
)
MEAN, SUM = (("pow(2)", f"pow(2).{how}()") for how in ("mean", "sum"))
ONES = ("loss.backward()", "loss.backward(torch.ones_like(loss))")
INDEXED = (
    NET
    + """\
for _ in range(8):
    optimizer.zero_grad()
    loss = net(torch.randn(4, 3)).pow(2).mean()
    loss.backward()
    optimizer.step()
    print(loss.data[0])
"""
)
NUMBER = ("loss.data[0]", "loss.item()")
REPLACED = """\
import torch

torch.manual_seed(0)
weight = torch.randn(3, 1, requires_grad=True)
for _ in range(8):
    loss = (torch.randn(4, 3) @ weight).pow(2).mean()
    loss.backward()
    weight = weight - 0.1 * weight.grad
"""
IN_PLACE = "    with torch.no_grad():\n        weight -= 0.1 * weight.grad\n        weight.grad.zero_()"
UPDATE = "    weight = weight - 0.1 * weight.grad"


def case(name: str, script: str, *repair: tuple[str, str]) -> Case:
    """The repair alone, and the repair that drops ``zero_grad`` or doubles the loss besides."""
    return Case(
        name,
        script,
        (
            Patch("repaired", True, repair, (5, "exact")),
            Patch("gradients added up", False, (*repair, ZEROED), (5, "changed")),
            Patch("the loss doubled", False, (*repair, DOUBLED)),
        ),
    )


GOALS = """\
import torch
from torch import nn

torch.manual_seed(0)
body = nn.Linear(3, 4)
head = nn.Linear(4, 2)
optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.1)
for _ in range(8):
    x, goal = torch.randn(5, 3), torch.randn(5, 2)
    optimizer.zero_grad()
"""
TERMS = (
    GOALS
    + """\
    hidden = body(x).tanh()
    error = (head(hidden) - goal).pow(2).mean()
    size = hidden.pow(2).mean()
    loss = error.detach() + 0.1 * size.detach()
    loss.backward()
    optimizer.step()
"""
)
TERM = "error.detach() + 0.1 * size.detach()"
UNRECORDED = (
    GOALS
    + """\
    with torch.no_grad():
        hidden = body(x).tanh()
        out = head(hidden)
    loss = (out - goal).pow(2).mean()
    loss.backward()
    optimizer.step()
"""
)
WITHIN = """\
    with torch.no_grad():
        hidden = body(x).tanh()
        out = head(hidden)
"""
WITHOUT = """\
    hidden = body(x).tanh()
    out = head(hidden)
"""
COLLECTED = (
    GOALS
    + """\
    losses = []
    for row, wanted in zip(x, goal):
        losses.append((head(body(row).tanh()) - wanted).pow(2).mean().item())
    loss = torch.tensor(losses).mean()
    loss.backward()
    optimizer.step()
"""
)
STACKED = ((".mean().item())", ".mean())"), ("torch.tensor(losses)", "torch.stack(losses)"))
FIRST_ALONE = "torch.stack([losses[0], *(one.detach() for one in losses[1:])])"
CHANGED_BASE = (
    NET
    + """\
for _ in range(8):
    out = net(torch.randn(4, 3)) * 2
    first, second = out.unbind(1)
    out -= 0.5
    optimizer.zero_grad()
    loss = out.pow(2).mean() + (first.tanh() - second.tanh()).mean()
    loss.backward()
    optimizer.step()
"""
)
VIEWS = "    first, second = out.unbind(1)\n"
TAKEN_LATER = (f"{VIEWS}    out -= 0.5\n", f"    out -= 0.5\n{VIEWS}")
OWN = ("out -= 0.5", "out = out - 0.5")
DETACHED = (
    GOALS
    + """\
    hidden = body(x).tanh().detach()
    loss = (head(hidden) - goal).pow(2).mean()
    loss.backward()
    optimizer.step()
"""
)
ATTACHED = (".tanh().detach()", ".tanh()")
HALF = (".tanh().detach()", ".tanh()\n    hidden = 0.5 * hidden + 0.5 * hidden.detach()")
TAKEN = DETACHED.replace("body(x).tanh().detach()", "torch.from_numpy(body(x).tanh().detach().numpy())")
GIVEN = ("torch.from_numpy(body(x).tanh().detach().numpy())", "body(x).tanh()")
GIVEN_BY_HALF = (GIVEN[0], f"{GIVEN[1]}\n    hidden = 0.5 * hidden + 0.5 * hidden.detach()")
DECORATED = """\
import torch
from torch import nn

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(3, 4)
        self.head = nn.Linear(4, 2)

    @torch.no_grad()
    def forward(self, x):
        return self.head(self.body(x).tanh())


net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(8):
    optimizer.zero_grad()
    loss = net(torch.randn(5, 3)).pow(2).mean()
    loss.backward()
    optimizer.step()
"""
UNDECORATED = ("    @torch.no_grad()\n", "")

CASES = (
    case("an optimizer of a result", COMPUTED, LEAF),
    case("data of inference mode", INFERENCE, NO_GRAD),
    case("a product that is written into a tensor", WRITTEN, RETURNED),
    case("a part that is changed in place", PARTS, ANEW),
    case("a gradient that nobody keeps", UNKEPT, KEPT),
    case("an item of a number", INDEXED, NUMBER),
    Case(
        "an update that makes a new tensor",
        REPLACED,
        (
            Patch("in place", True, ((UPDATE, IN_PLACE),), (5, "8 losses equal")),
            Patch("detached", True, ((UPDATE, f"{UPDATE}\n    weight = weight.detach().requires_grad_()"),)),
            Patch("gradients added up", False, ((UPDATE, IN_PLACE.replace("\n        weight.grad.zero_()", "")),)),
            Patch("at half the rate", False, ((UPDATE, IN_PLACE.replace("0.1", "0.05")),)),
            Patch("the loss doubled", False, ((UPDATE, IN_PLACE), DOUBLED)),
        ),
    ),
    Case(
        "a loss that is not reduced",
        UNREDUCED,
        (
            Patch("the mean", True, (MEAN,), (5, "exact")),
            Patch("the sum", True, (SUM,), (5, "exact")),
            Patch("ones", True, (ONES,), (5, "exact")),
            Patch("the mean, gradients added up", False, (MEAN, ZEROED), (5, "changed")),
            Patch("the sum, at half the rate", False, (SUM, ("lr=0.1", "lr=0.05")), (4, "")),
        ),
    ),
    Case(
        "terms without graphs",
        TERMS,
        (
            Patch("both terms", True, ((TERM, "error + 0.1 * size"),), (5, "exact")),
            Patch("one of two terms", False, ((TERM, "error + 0.1 * size.detach()"),)),
            Patch("one term by its value", False, ((TERM, "error + 0.1 * size.item()"),)),
            Patch("gradients added up", False, ((TERM, "error + 0.1 * size"), ZEROED), (5, "changed")),
            Patch("the loss doubled", False, ((TERM, "2 * (error + 0.1 * size)"),), (5, "scaled")),
        ),
    ),
    Case(
        "networks that are called without grad",
        UNRECORDED,
        (
            Patch("both with grad", True, ((WITHIN, WITHOUT),), (5, "exact")),
            Patch("the head alone", False, (("        out = head", "    out = head"),), (5, "lost")),
            Patch("gradients added up", False, ((WITHIN, WITHOUT), ZEROED), (5, "changed")),
        ),
    ),
    Case(
        "losses collected as numbers",
        COLLECTED,
        (
            Patch("a stack", True, STACKED, (5, "exact")),
            Patch("the first alone", False, (STACKED[0], ("torch.tensor(losses)", FIRST_ALONE)), (5, "changed")),
        ),
    ),
    Case(
        "views of a base that is changed",
        CHANGED_BASE,
        (
            Patch("taken when it has been changed", True, (TAKEN_LATER,), (5, "exact")),
            Patch("a new tensor in the place of the base", True, (OWN,), (5, "exact")),
            Patch("taken later, gradients added up", False, (TAKEN_LATER, ZEROED), (5, "changed")),
            Patch("a new tensor, the loss doubled", False, (OWN, DOUBLED)),
        ),
    ),
    Case(
        "a body that is left alone",
        DETACHED,
        (
            Patch("attached", True, (ATTACHED,), (5, "equal")),
            Patch("half of it", False, (HALF,), (5, "differ")),
            Patch("gradients added up", False, (ATTACHED, ZEROED)),
            Patch("the loss doubled", False, (ATTACHED, DOUBLED)),
        ),
    ),
    Case(
        "a body that is left alone by way of NumPy",
        TAKEN,
        (
            Patch("attached", True, (GIVEN,), (5, "equal")),
            Patch("half of it", False, (GIVEN_BY_HALF,), (5, "differ")),
        ),
    ),
    Case(
        "a forward pass that is decorated",
        DECORATED,
        (
            Patch("without the decorator", True, (UNDECORATED,), (5, "exact")),
            Patch("gradients added up", False, (UNDECORATED, ZEROED), (5, "changed")),
        ),
    ),
)
