"""Tensors that operations save for their backward pass: the tape beside PyTorch itself."""

from __future__ import annotations

import warnings

import pytest

from autofix.codemods.facts.changed import Overwritten
from autofix.codemods.facts.freed import StaleGraph
from autofix.codemods.interpreter.analysis import analyze
from autofix.codemods.source.program import Program

pytest.importorskip("torch")

HEADER = """
import torch
from torch import nn
import torch.nn.functional as F
torch.manual_seed(0)
base = torch.rand(2, 3, 4, requires_grad=True)
square = torch.rand(4, 4, requires_grad=True)
lin = nn.Linear(4, 4)
zeros = torch.zeros(2, 3, 4)
x = base * 1.0 + 0.1
w = square + 0.1
"""

METHODS = (
    "exp() log() sqrt() rsqrt() sin() tanh() sigmoid() abs() pow(2) square() reciprocal() sum(-1) prod(-1) cumsum(-1) "
    "cumprod(-1) max(-1)[0] min(-1).values std(-1) norm() clamp(0,1) expm1() log1p() erf() logsumexp(-1) softmax(-1) "
    "sort(-1)[0] topk(2)[0] flip(-1) repeat(1,2,1) masked_fill(x>0,0.) unsqueeze(0).clone() contiguous() clone() "
    "where(x>0,x*2) add(1) mul(2) mul(x) div(x) atan2(x) cummax(-1)[0] amax(-1) diff() roll(1,-1) lgamma()"
).split()
FUNCTIONS = (
    "relu relu6 leaky_relu elu selu celu gelu silu mish hardswish hardsigmoid hardtanh softplus softsign logsigmoid "
    "hardshrink softshrink tanhshrink rrelu instance_norm glu"
).split()
LAYERS = (
    "ReLU() ReLU6() LeakyReLU() ELU() SELU() CELU() GELU() SiLU() Mish() Hardswish() Hardsigmoid() Hardtanh() "
    "Softplus() Softsign() Softmax(dim=-1) LogSoftmax(dim=-1) Softmin(dim=-1) LogSigmoid() Hardshrink() Softshrink() "
    "Tanhshrink() Threshold(0.1,0.0) RReLU() Dropout(0.3) GLU() Sigmoid() Tanh() LayerNorm(4) InstanceNorm1d(3) "
    "LayerNorm(4,elementwise_affine=False) BatchNorm1d(3) BatchNorm1d(3,affine=False) GroupNorm(1,3) MaxPool1d(2) "
    "AvgPool1d(2) AdaptiveAvgPool1d(2) Upsample(8) UpsamplingNearest2d(8) LocalResponseNorm(2) Linear(4,4) PReLU() "
    "Identity() Flatten() RMSNorm(4)"
).split()
OTHERS = (
    "F.prelu(x,torch.full((1,),0.2))",
    "F.softmin(x,dim=-1)",
    *(f"F.pad(x,(1,1),mode='{mode}')" for mode in ("constant", "replicate", "reflect", "circular")),
    "F.pad(x,(1,1))",
    "nn.ReflectionPad1d(1)(x)",
    "nn.ReplicationPad1d(1)(x)",
    "nn.ConstantPad1d(1,0.5)(x)",
    *(f"{pool}(x,{size})" for pool in ("F.adaptive_avg_pool1d", "F.adaptive_avg_pool2d") for size in (1, 2)),
    "nn.AdaptiveAvgPool1d(1)(x)",
    "nn.AdaptiveAvgPool2d((1,1))(x)",
    "F.adaptive_max_pool1d(x,2)",
    "torch.max(x,zeros)",
    "torch.min(x,x*2)",
    "torch.pow(x,zeros+2)",
    "x.float_power(zeros+2)",
    "x.float_power(2)",
    "torch.inner(x,x)",
    "torch.arctan(x)",
    "torch.nanmean(x)",
    "torch.linalg.vector_norm(x)",
    "torch.linalg.matrix_norm(x)",
    "torch.linalg.solve(w,zeros[0,0])",
    "torch.linalg.pinv(w)",
    "torch.logdet(w)",
    "torch.matrix_exp(w)",
    "torch.special.entr(x)",
    "F.gumbel_softmax(x)",
    "F.gumbel_softmax(x,hard=True)",
    "F.kl_div(x,x*2)",
    "F.rms_norm(x,(4,))",
    "F.lp_pool1d(x,2,2)",
    "F.normalize(x,dim=-1)",
    "F.layer_norm(x,(4,))",
    "F.max_pool1d(x,2)",
    "F.mse_loss(x,zeros)",
    "F.nll_loss(x[0],torch.tensor([0,1,2]))",
    "F.cosine_similarity(x,zeros+1)",
    "F.pairwise_distance(x,x*2)",
    "F.conv1d(x,torch.ones(3,3,1))",
    "F.grid_sample(x[None],torch.zeros(1,2,2,2))",
    "F.scaled_dot_product_attention(x,x,x)",
    "torch.matmul(x,x.transpose(-1,-2))",
    "torch.einsum('abc,abc->ab',x,x)",
    "torch.cat([x,x])",
    "torch.cdist(x,x*2)",
    "torch.where(x>0,x,x*2)",
    "torch.outer(x[0,0],x[0,1])",
    "torch.linalg.inv(w+torch.eye(4))",
    "torch.cross(x[...,:3],x[...,1:],dim=-1)",
    "x @ w",
    "1/x",
    "2.0**x",
    "x**2",
    "x/2",
    "x**x",
    "x[..., :2]*x[..., 2:]",
)
EXPRESSIONS = {
    **{f"x.{method}": "" for method in METHODS},
    **{f"F.{function}(x)": "" for function in FUNCTIONS},
    **{f"layer(x)  # {layer}": f"layer = nn.{layer}" for layer in LAYERS},
    **dict.fromkeys(OTHERS, ""),
}
CHANGES = (
    "y += 1",
    "x += 1",
    "x[0] = 0",
    "x.zero_()",
    "x.detach().zero_()",
    "x.data.zero_()",
    "x.view(-1).mul_(2)",
    "x[:, 1:] = x[:, :-1].clone()",
    "z = x.clone(); z += 1",
    "z = x.reshape(2, 12); z += 1",
    "z = x.double(); z += 1",
    "z = x.float(); z += 1",
    "z = [x]; z[0] += 1",
    "F.relu_(x)",
    "torch.sigmoid_(x)",
    "nn.init.zeros_(x)",
    "F.elu_(x)",
    "y = F.elu(y, inplace=True); y += 1",
    "y = F.leaky_relu_(y); y *= 2",
    "y = nn.ReLU(inplace=True)(y); y += 1",
    "with torch.no_grad(): x.mul_(2)",
    "with torch.no_grad(): lin.weight.mul_(0.9)",
    "with torch.no_grad(): lin.bias.mul_(0.9)",
    "torch.randn(2, 3, 4, out=zeros)",
)
CHANGED = ("x * x", "x.exp()", "x + 1", "lin(x)", "F.mse_loss(x, zeros)", "F.leaky_relu(x)", "x[0] * 2", "x * zeros")


def fails(program: str) -> bool | None:
    """Whether PyTorch finds a saved value changed or freed; None where the program fails for another reason."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(compile(program, "program.py", "exec"), {})
    except RuntimeError as error:
        return True if any(said in str(error) for said in ("modified by an inplace", "second time")) else None
    return False


def is_found(program: str) -> bool:
    return any(isinstance(fact, Overwritten | StaleGraph) for fact in analyze(Program.of(program, "program.py")).facts)


@pytest.mark.parametrize("change", ["y += 1", "x += 1"])
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_the_tape_knows_what_an_operation_saves(expression: str, change: str) -> None:
    program = f"{HEADER}{EXPRESSIONS[expression]}\ny = {expression}\n{change}\ny.sum().backward()\n"
    wrong = fails(program)
    if wrong is not None:
        assert is_found(program) == wrong


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("expression", CHANGED)
def test_the_tape_knows_what_a_change_changes(expression: str, change: str) -> None:
    program = f"{HEADER}y = {expression}\n{change}\ny.sum().backward()\n"
    wrong = fails(program)
    if wrong is not None:
        assert is_found(program) == wrong


SPIKE = """
import torch
from torch import nn
class Spike(torch.autograd.Function):
    @staticmethod
    def forward(ctx, v, threshold):
        ctx.save_for_backward({saved})
        return (v > threshold).to(v.dtype)
    @staticmethod
    def backward(ctx, grad):
        {read}
        return grad / (1 + v.abs()), None
lin = nn.Linear(3, 3)
fire = Spike.apply
for step in range(3):
    v = lin(torch.randn(2, 3))
    spikes = fire(v, 1.0)
    v {change} spikes.detach()
    spikes.sum().backward()
"""


@pytest.mark.parametrize(
    ("saved", "read", "change", "wrong"),
    [
        ("v", "(v,) = ctx.saved_tensors", "-=", True),
        ("v", "(v,) = ctx.saved_tensors", "= v -", False),
        ("v.clone()", "(v,) = ctx.saved_tensors", "-=", False),
        ("v", "v = torch.ones(2, 3)", "-=", False),
    ],
)
def test_a_function_of_the_program_saves_what_it_says(saved: str, read: str, change: str, wrong: bool) -> None:
    text = SPIKE.format(saved=saved, read=read, change=change)
    assert fails(text) is wrong and is_found(text) is wrong


PACKED = """
import itertools
import torch
from torch import nn
from torch.autograd import graph
from torch.nn.utils import parameters_to_vector, vector_to_parameters
lin, cell = nn.Linear(3, 3), nn.GRUCell(3, 3)
opt = torch.optim.SGD([*lin.parameters(), *cell.parameters()], 0.1)
"""


@pytest.mark.parametrize("manager", ["save_on_cpu()", "saved_tensors_hooks(torch.clone, lambda x: x)"])
@pytest.mark.parametrize("is_inside", [True, False])
def test_what_a_block_packs_may_be_changed(manager: str, is_inside: bool) -> None:
    text = f"""{PACKED}
for x in torch.randn(3, 2, 3):
    with graph.{manager}:
        y = lin(x).exp()
    z = y {"+ 1" if is_inside else "* y"}
    y += 1
    opt.zero_grad()
    z.sum().backward()
    opt.step()
"""
    assert fails(text) is not is_inside and is_found(text) is not is_inside


@pytest.mark.parametrize("cut", ["", ".detach()"])
def test_accumulate_computes_a_state_when_it_is_asked_for(cut: str) -> None:
    text = f"""{PACKED}
for h in itertools.accumulate(torch.randn(5, 2, 3), lambda h, x: cell(x, h{cut}), initial=torch.zeros(2, 3)):
    if h.requires_grad:
        opt.zero_grad()
        h.pow(2).mean().backward()
        opt.step()
"""
    assert fails(text) is not bool(cut) and is_found(text) is not bool(cut)


@pytest.mark.parametrize("cut", ["", ".detach()"])
def test_all_parameters_in_one_vector_have_their_graph(cut: str) -> None:
    text = f"""{PACKED}
mean = parameters_to_vector(lin.parameters()).detach()
for x in torch.randn(4, 2, 3):
    loss = lin(x).pow(2).mean() + (parameters_to_vector(lin.parameters()) - mean).pow(2).sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
    mean = 0.9 * mean + 0.1 * parameters_to_vector(lin.parameters()){cut}
    vector_to_parameters(mean.detach(), lin.parameters())
"""
    assert fails(text) is not bool(cut) and is_found(text) is not bool(cut)


@pytest.mark.parametrize("made", ["torch.diag(w)", "torch.meshgrid(w, w, indexing='ij')[0]", "w.repeat_interleave(2)"])
@pytest.mark.parametrize("power", ["", ".pow(2)"])
def test_a_graph_that_saves_nothing_is_walked_again(made: str, power: str) -> None:
    text = f"""
import torch
from torch import nn
w = nn.Parameter(torch.ones(3))
opt = torch.optim.SGD([w], 0.1)
made = {made}{power}
for step in range(3):
    opt.zero_grad()
    made.sum().backward()
    opt.step()
"""
    assert fails(text) is bool(power) and is_found(text) is bool(power)


@pytest.mark.parametrize("change", ["0.9 * h.detach()", "0.9 * h"])
def test_takewhile_takes_items_when_they_are_asked_for(change: str) -> None:
    text = f"""{PACKED}
def states():
    h = torch.zeros(2, 3)
    for x in torch.randn(4, 2, 3):
        h = cell(x, {change})
        yield h
for h in itertools.takewhile(lambda h: h.mean() < 100, states()):
    opt.zero_grad()
    h.pow(2).mean().backward()
    opt.step()
"""
    assert fails(text) is is_found(text) is ("detach" not in change)
