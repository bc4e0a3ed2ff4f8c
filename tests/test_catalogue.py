"""Every row of the catalogue beside the installed PyTorch: what it saves, what its result is, and its graph."""

from __future__ import annotations

import ast
import itertools
import warnings
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import pytest

from autofix.codemods.autograd import catalogue, layout
from autofix.codemods.autograd.catalogue import Operation

pytest.importorskip("torch")

import torch

from tests.operation_programs import ARGUMENTS, SHAPES, header

SETUP = "x = base * 1.0 + 0.1\nspd = torch.eye(4) + 0.1\ncube = torch.rand(2, 4, 4)\ncplx = torch.complex(base, base)\n"
SPACES = (
    "x.{}(",
    *(f"{space}.{{}}(x, " for space in "F torch torch._C._nn torch.linalg torch.special torch.fft".split()),
)
WRITTEN = {
    "addbmm": "torch.addbmm(spd, cube, cube)",
    "addmv": "torch.addmv(x[0], x, other[0])",
    "affine_grid": "F.affine_grid(x[:, :2, :3], (1, 1, 2, 2))",
    "affine_grid_generator": "torch.affine_grid_generator(x[:, :2, :3], (1, 1, 2, 2), False)",
    "as_strided": "x.as_strided((2, 2), (1, 1))",
    "as_strided_copy": "torch.as_strided_copy(x, (2, 2), (1, 1))",
    "as_strided_scatter": "x.as_strided_scatter(other[:2, :2], (2, 2), (4, 1))",
    "baddbmm": "torch.baddbmm(cube, cube, cube)",
    "bincount": "torch.bincount(classes)",
    "bmm": "torch.bmm(cube, cube)",
    "cauchy": "x.cauchy_()",
    "chain_matmul": "torch.chain_matmul(x, other)",
    "cholesky": "torch.cholesky(spd)",
    "col2im": "torch._C._nn.col2im(x[:, :1], (2, 2), (2, 2), (1, 1), (0, 0), (1, 1))",
    "fold": "F.fold(x[:, :1], (2, 2), (2, 2))",
    "conv_tbc": "torch.conv_tbc(x, torch.rand(1, 4, 4), torch.rand(4))",
    **{
        f"conv_transpose{n}d": f"F.conv_transpose{n}d(x, torch.rand({', '.join(['4', '4'] + ['1'] * n)}))"
        for n in (1, 2, 3)
    },
    "convolution": "torch.convolution(x, torch.rand(4, 4, 1, 1), None, (1, 1), (0, 0), (1, 1), False, (0, 0), 1)",
    "cross_map_lrn": "torch.nn.CrossMapLRN2d(1).forward(x)",
    "ctc_loss": "F.ctc_loss(cube, torch.ones(4, 1).long(), torch.tensor([2] * 4), torch.tensor([1] * 4))",
    "cuda": "x.cpu()",
    "cross_entropy": "F.cross_entropy(x, classes, other[0])",
    "embedding": "F.embedding(classes, x)",
    "embedding_bag": "F.embedding_bag(classes, x, classes[:1])",
    "embedding_renorm": "torch.embedding_renorm_(other, classes, 2.0, 2.0)",
    "exponential": "x.exponential_()",
    "feature_dropout": "torch.feature_dropout(x, 0.5, True)",
    "fill_diagonal": "x.fill_diagonal_(0.0)",
    "float_power_of_tensor": "torch.float_power(x, other)",
    "pow_of_tensor": "torch.pow(x, other)",
    "take_along_one_dim": "torch.take_along_dim(x, classes[:, None], 1)",
    "lerp_by_number": "torch.lerp(x, other, 0.5)",
    "geometric": "x.geometric_(0.5)",
    "grid_sample": "F.grid_sample(x, torch.rand(1, 2, 2, 2))",
    "grid_sampler": "torch.grid_sampler(x, torch.rand(1, 2, 2, 2), 0, 0, False)",
    "grid_sampler_2d": "torch.grid_sampler_2d(x, torch.rand(1, 2, 2, 2), 0, 0, False)",
    "grid_sampler_3d": "torch.grid_sampler_3d(x, torch.rand(1, 2, 2, 2, 3), 0, 0, False)",
    "gru": "torch.gru(x, other, [torch.rand(12, 4), torch.rand(12, 4)], False, 1, 0.0, False, False, False)",
    "lstm": "torch.lstm(x, (other, other), [torch.rand(16, 4), torch.rand(16, 4)], False, 1, 0.0, False, False, False)",
    "rnn_tanh": "torch.rnn_tanh(x, other, [torch.rand(4, 4), torch.rand(4, 4)], False, 1, 0.0, False, False, False)",
    "rnn_relu": "torch.rnn_relu(x, other, [torch.rand(4, 4), torch.rand(4, 4)], False, 1, 0.0, False, False, False)",
    "rnn_tanh_cell": "torch.rnn_tanh_cell(x, x, other, other)",
    "gru_cell": "torch.gru_cell(x, x, torch.rand(12, 4), torch.rand(12, 4))",
    "lstm_cell": "torch.lstm_cell(x, (x, x), torch.rand(16, 4), torch.rand(16, 4))",
    "index": "torch.ops.aten.index(x, [classes])",
    "imag": "torch.imag(cplx)",
    "im2col": "torch._C._nn.im2col(x, (1, 1), (1, 1), (0, 0), (1, 1))",
    "index_reduce": "x.index_reduce(0, classes[:1], other[:1], 'prod')",
    "istft": "torch.istft(cplx, 4, window=torch.ones(4))",
    "stft": "torch.stft(x, 4, window=torch.hann_window(4), return_complex=True)",
    "linalg_cholesky": "torch.linalg.cholesky(spd)",
    "linalg_cross": "torch.linalg.cross(x[:, :3], other[:, :3])",
    "linalg_ldl_solve": "torch.linalg.ldl_solve(x, torch.ones(4, dtype=torch.int), other)",
    "linalg_lu_solve": "torch.linalg.lu_solve(x, torch.ones(4, dtype=torch.int), other)",
    "lu_solve": "torch.lu_solve(x, other, torch.ones(4, dtype=torch.int))",
    "lu_unpack": "torch.lu_unpack(x, torch.ones(4, dtype=torch.int))",
    "linalg_multi_dot": "torch.linalg.multi_dot([x, other])",
    "linalg_solve_triangular": "torch.linalg.solve_triangular(x, other, upper=True)",
    "linalg_tensorinv": "torch.linalg.tensorinv((x + torch.eye(4)), ind=1)",
    "linear_cross_entropy": "F.linear_cross_entropy(x, other, classes)",
    "log_normal": "x.log_normal_()",
    "max_unpool1d": "F.max_unpool1d(x, places, 2)",
    "max_unpool3d": "F.max_unpool3d(x, places, 2)",
    "multi_head_attention_forward": "F.multi_head_attention_forward("
    "x, other, other, 4, 2, torch.rand(12, 4), None, None, None, False, 0.0, torch.rand(4, 4), None)",
    "multilabel_soft_margin_loss": "F.multilabel_soft_margin_loss(x, other)",
    "native_batch_norm": "torch.native_batch_norm(x, None, None, None, None, True, 0.1, 1e-5)",
    "native_dropout": "torch.native_dropout(x, 0.5, True)",
    "native_group_norm": "torch.native_group_norm(x, None, None, 1, 4, 16, 1, 1e-5)",
    "native_layer_norm": "torch.native_layer_norm(x, (4,), None, None, 1e-5)",
    "new_empty_strided": "x.new_empty_strided((2,), (1,))",
    "nonzero_static": "x.nonzero_static(size=2)",
    "one_hot": "F.one_hot(classes)",
    "ormqr": "torch.ormqr(x, other[0], other)",
    "pin_memory": "x.cpu()",
    "polygamma": "torch.polygamma(1, x)",
    "special_polygamma": "torch.special.polygamma(1, x)",
    "scatter_reduce": "x.scatter_reduce(0, places, other, 'sum')",
    "segment_reduce": "torch.segment_reduce(x, 'sum', lengths=torch.tensor([2, 2]))",
    "select_scatter": "x.select_scatter(other[0], 0, 0)",
    "to_padded_tensor": "torch.nested.as_nested_tensor([x]).to_padded_tensor(0.0)",
    "uniform": "x.uniform_()",
    "zero": "x.zero_()",
    "repeat_interleave": "x.repeat_interleave(torch.tensor(2))",
    "repeat_interleave_by_number": "x.repeat_interleave(2)",
    "view_copy": "torch.view_copy(x, (2, -1))",
    "view_as_complex": "torch.view_as_complex(x[:, :2])",
    "view_as_real": "torch.view_as_real(cplx)",
    **{name: f"x.{name}_(0)" for name in ("fill",)},
    **{
        name: f"torch.{name}(places, places)"
        for name in "bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift gcd lcm".split()
    },
    "bitwise_not": "torch.bitwise_not(places)",
    **{f"{name}": f"torch.{name}([x, other])" for name in "cat concat concatenate stack".split()},
    **{f"{name}stack": f"torch.{name}stack([x, other])" for name in ("h", "v", "d", "column_", "row_")},
    **{name: f"torch.{name}(4)" for name in "arange empty eye ones rand randn randperm zeros".split()},
    **{f"{name}_window": f"torch.{name}_window(4)" for name in "bartlett blackman hamming hann kaiser".split()},
    **{f"fft_{name}": f"torch.fft.{name}(4)" for name in ("fftfreq", "rfftfreq")},
    **{name: f"torch.{name}(0, 1, 4)" for name in ("linspace", "logspace")},
    "range": "torch.range(0, 4)",
    **{name: f"torch.{name}(3, 3)" for name in ("tril_indices", "triu_indices")},
    "randint": "torch.randint(4, (2,))",
    "full": "torch.full((4,), 0.5)",
    "scalar_tensor": "torch.scalar_tensor(0.5)",
    "empty_permuted": "torch.empty_permuted((2, 2), (1, 0))",
    "empty_strided": "torch.empty_strided((2,), (1,))",
}
"""Calls of operations that need arguments of their own."""
OF_SEVERAL = frozenset(
    "broadcast_tensors meshgrid cartesian_prod unsafe_chunk unsafe_split unsafe_split_with_sizes".split()
)
"""Operations whose results may share memory with what they are given, each with another tensor or unseen by PyTorch."""


class Exercise(NamedTuple):
    """A call of an operation that works: its text, the shape of its tensor, and the expressions of its arguments."""

    row: Operation
    call: str
    shape: str

    def given(self) -> Iterator[tuple[str, ast.expr]]:
        """The arguments by the names that the row gives them."""
        node = ast.parse(self.call, mode="eval").body
        assert isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        written = list(node.args)
        if isinstance(node.func.value, ast.Name) and node.func.value.id == "x":
            written.insert(self.row.at("self") or 0, node.func.value)
        yield from zip(self.row.arguments, written, strict=False)
        yield from ((keyword.arg or "", keyword.value) for keyword in node.keywords)


@cache
def namespace(shape: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(header(shape) + SETUP, names)
    return names


@cache
def compiled(text: str) -> Any:
    return compile(text, "call.py", "eval")


def fresh(shape: str, wanted: set[str]) -> dict[str, Any]:
    """New tensors of data, those of the *wanted* names with a graph."""
    names = dict(namespace(shape))
    for name, value in names.items():
        if isinstance(value, torch.Tensor):
            copy = value.detach().clone()
            names[name] = copy.requires_grad_() * 1.0 if name in wanted and can_have_graph(copy) else copy
    return names


def can_have_graph(tensor: Any) -> bool:
    return bool(tensor.is_floating_point() or tensor.is_complex())


def first_tensor(value: Any) -> Any:
    while isinstance(value, (tuple, list)) and value:
        value = value[0]
    return value if isinstance(value, torch.Tensor) else None


def calls(name: str) -> Iterator[str]:
    plain = name
    for prefix in ("linalg_", "special_", "fft_"):
        plain = plain.removeprefix(prefix)
    for space in SPACES:
        called = plain if space.count(".") > 1 else name
        for given in ARGUMENTS:
            yield f"{space.format(called)}{given.strip()})".replace(", )", ")")


def works(call: str, shape: str) -> bool:
    try:
        value = eval(compiled(call), fresh(shape, {"x"}))
    except Exception:
        return False
    found = first_tensor(value)
    return found is not None and found.layout is torch.strided


@cache
def exercise(name: str) -> Exercise | None:
    """A call of the operation, with a differentiable result if there is one."""
    row = catalogue.operations()[name]
    known = WRITTEN.get(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        spaces = [known] if known else [call for call in calls(name) if exists(call)]
        for call, shape in itertools.product(spaces, SHAPES):
            if works(call, shape):
                return Exercise(row, call, shape)
    return None


@cache
def owner_has(owner: str, name: str) -> bool:
    return name in dir(eval(owner, namespace(SHAPES[0])))


def exists(call: str) -> bool:
    owner, _, name = call.partition("(")[0].rpartition(".")
    return owner_has(owner, name)


def is_spoilt(made: Exercise, wanted: set[str], changed: str) -> bool | None:
    """Whether a backward pass fails because a tensor was changed; None where there is none."""
    names = fresh(made.shape, wanted)
    torch.manual_seed(0)
    result = first_tensor(eval(compiled(made.call), names))
    if not result.requires_grad or "NotImplemented" in str(result.grad_fn):
        return None
    changed_tensor = (result if changed == "result" else names[changed]).detach()
    changed_tensor.copy_(changed_tensor.clone())
    try:
        (result.real if result.is_complex() else result).sum().backward()
    except RuntimeError as error:
        return True if "modified by an inplace" in str(error) else None
    return False


def variables(node: ast.expr, shape: str) -> set[str]:
    """The names of the tensors in an argument."""
    known = namespace(shape)
    return {
        one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(known.get(one.id), torch.Tensor)
    }


def saved_wrongly(made: Exercise) -> list[str]:
    """Disagreements of the row and PyTorch on the saved tensors, as lines."""
    tensors = {name: variables(node, made.shape) for name, node in made.given()}
    known = namespace(made.shape)
    named = {one for found in tensors.values() for one in found}
    floats = {one for one in named if can_have_graph(known[one])}
    said = []
    for wanted in dict.fromkeys(floats):
        saved = {one for name, found in tensors.items() if wanted in found for one in made.row.saves.get(name, ())}
        values = {one for name in saved for one in tensors.get(name, ())} | ({"result"} & saved)
        names = fresh(made.shape, {wanted})
        try:
            eval(compiled(made.call), names)
        except RuntimeError as error:
            if "is not differentiable with respect to" in str(error):
                continue
            raise
        result = first_tensor(eval(compiled(made.call), names))
        for changed in sorted({*named, "result"}):
            alike = {changed} | {
                one for one in (*named, "result") if changed != one and shared(names, result, one, changed)
            }
            found = is_spoilt(made, {wanted}, changed)
            if found is not None and found != bool(alike & values):
                said.append(f"{made.call}: {changed} is {'' if found else 'not '}saved for {wanted}")
    return said


def saves_nothing(made: Exercise, wanted: set[str]) -> bool | None:
    """Whether a second backward pass finds all that it needs; None where there is no first one."""
    torch.manual_seed(0)
    leaves = fresh(made.shape, set())
    names = {name: leaves[name].requires_grad_() + 0.0 if name in wanted else leaves[name] for name in leaves}
    result = first_tensor(eval(compiled(made.call), names))
    if not result.requires_grad or "NotImplemented" in str(result.grad_fn):
        return None
    loss = (result.real if result.is_complex() else result).sum()
    loss.backward()
    try:
        loss.backward()
    except RuntimeError as error:
        return "second time" not in str(error)
    return True


def freed_wrongly(made: Exercise) -> list[str]:
    """Disagreements of the row and PyTorch on whether the first backward pass frees anything, as lines."""
    if catalogue.is_left_out(made.row, [None], {}) or "_(" in made.call:
        return []
    given = dict(made.given())
    tensors = {name: variables(node, made.shape) for name, node in given.items()}
    known = namespace(made.shape)
    said = []
    for wanted in sorted({one for found in tensors.values() for one in found if can_have_graph(known[one])}):
        try:
            found = saves_nothing(made, {wanted})
        except (RuntimeError, TypeError):
            continue
        saved = {one for name, names in tensors.items() if wanted in names for one in made.row.saves.get(name, ())}
        says = made.row.known and not saved and not catalogue.gives_places(made.row.name, len(given))
        if found is not None and says != found:
            said.append(f"{made.call}: {'nothing' if found else 'something'} is saved for {wanted}")
    return said


def shared(names: dict[str, Any], result: Any, one: str, other: str) -> bool:
    return shares(*(result if name == "result" else names[name] for name in (one, other)))


def shares(one: Any, other: Any) -> bool:
    return bool(one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr())


def has_graph(tensor: Any) -> bool | None:
    """Whether a result has a graph; None where the graph ends at an operation whose derivative PyTorch lacks."""
    if tensor.requires_grad:
        try:
            (tensor.real if tensor.is_complex() else tensor).sum().backward(retain_graph=True)
        except (RuntimeError, NotImplementedError) as error:
            return None if "not implemented" in str(error) else True
    return bool(tensor.requires_grad)


def described_wrongly(made: Exercise) -> list[str]:
    """Disagreements of the row and PyTorch on the result, as lines."""
    row = made.row
    given = list(made.given())
    known = namespace(made.shape)
    named = [[one for one in variables(node, made.shape) if can_have_graph(known[one])] for _, node in given]
    names = fresh(made.shape, {*next(filter(None, named), [])})
    value = eval(compiled(made.call), names)
    result = first_tensor(value)
    whole = [names[node.id] for _, node in given if isinstance(node, ast.Name)]
    inputs = [one for one in whole if isinstance(one, torch.Tensor)]
    outputs = [one for one in (value if isinstance(value, tuple) else (result,)) if isinstance(one, torch.Tensor)]
    found = {has_graph(one) for one in outputs}
    said = []
    if None not in found and (True in found) != row.differentiable and row.known:
        said.append(f"it is {'not ' if row.differentiable else ''}differentiable")
    is_view = row.kind in ("view", "views")
    is_told = (
        row.kind == "cast"
        or row.name in OF_SEVERAL
        or row.name == "to_dense"  # of a sparse tensor it is a copy, and nobody writes it for another one
        or "_(" in made.call
        or catalogue.is_left_out(row, [None], {})
    )
    if inputs and not is_told and shares(result, inputs[0]) != is_view:
        said.append(f"it {'does not share' if is_view else 'shares'} memory")
    if row.kind == "pointwise" and result.shape != sum(inputs[1:], inputs[0]).shape:
        said.append("it is not computed element by element")
    if row.kind == "shaped" and result.shape != inputs[0].shape:
        said.append("it has a shape of its own")
    is_number = row.kind in ("loss", "number") or (row.kind == "reduction" and len(given) == 1)
    if is_number and result.dim():
        said.append("it is not one number")
    if catalogue.gives_one_tensor(row.name) and not isinstance(value, torch.Tensor):
        said.append("it gives several tensors")
    if row.places == "always" and value[1].dtype is not torch.long:
        said.append("it gives no places")
    return [f"{made.call}: {line}" for line in said]


def test_every_operation_of_the_catalogue_is_exercised() -> None:
    assert [name for name in catalogue.operations() if exercise(name) is None] == []


def test_every_operation_saves_what_the_catalogue_says() -> None:
    made = filter(None, map(exercise, catalogue.operations()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert [line for one in made if one.row.known for line in saved_wrongly(one)] == []


def test_every_operation_frees_what_the_catalogue_says() -> None:
    made = filter(None, map(exercise, catalogue.operations()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert [line for one in made for line in freed_wrongly(one)] == []


def test_every_operation_has_the_result_that_the_catalogue_says() -> None:
    made = filter(None, map(exercise, catalogue.operations()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert [line for one in made for line in described_wrongly(one)] == []


def test_results_that_are_whole_numbers_are_those_that_are_said() -> None:
    """Rows without a graph alone; of integers, ``bincount`` and ``hash_tensor`` make no more than whole numbers."""
    made = (exercise(name) for name, row in catalogue.operations().items() if not row.differentiable)
    found = set()
    for one in filter(None, made):
        result = first_tensor(eval(compiled(one.call), fresh(one.shape, {"x"})))
        if one.row.kind != catalogue.CREATION and not can_have_graph(result):
            found.add(one.row.name)
    said = {name for name, row in catalogue.operations().items() if row.whole}
    assert found - said == {"bincount", "hash_tensor"}
    assert found >= said


def lies_elsewhere(made: Exercise, name: str) -> bool:
    """Whether a result is not contiguous that is said to be, for tensors that are."""
    result = first_tensor(eval(compiled(made.call), fresh(made.shape, set())))
    is_view = catalogue.is_view(name)
    is_dense = layout.is_dense(name, of_dense=True, is_view=is_view)
    return is_dense and isinstance(result, torch.Tensor) and not result.is_contiguous()


def test_every_operation_makes_the_contiguous_results_that_are_said() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = {name: exercise(name) for name in catalogue.operations()}
        assert [name for name, one in made.items() if one is not None and lies_elsewhere(one, name)] == []


OTHERWISE = {
    "rows": "torch.rand(3, 4).t()",
    "planes": "torch.rand(3, 4, 4).transpose(0, 1)",
    "last": "torch.rand(1, 5, 5, 4).permute(0, 3, 1, 2)",
}


@pytest.mark.parametrize("given", OTHERWISE.values(), ids=OTHERWISE)
@pytest.mark.parametrize(
    "call",
    [
        "x @ other", "x.matmul(other)", "F.linear(x, weight)", "F.linear(x, weight, bias)", "x.softmax(0)",
        "x.softmax(-1)", "x.log_softmax(1)", "F.layer_norm(x, x.shape[-1:])", "F.embedding(places, weight)",
    ],
)  # fmt: skip
def test_some_do_of_any_tensors(given: str, call: str) -> None:
    x = eval(given, {"torch": torch})
    names = {"x": x, "F": torch.nn.functional, "other": torch.rand(7, x.shape[-1]).t(), "bias": torch.rand(7)}
    names |= {"weight": torch.rand(x.shape[-1], 7).t(), "places": torch.zeros(2, 3, dtype=torch.long).t()}
    assert not x.is_contiguous()
    assert eval(call, names).is_contiguous()
