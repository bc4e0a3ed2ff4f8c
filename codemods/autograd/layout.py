"""Memory layout: whether the elements of a tensor certainly lie one after the other (``Tensor.is_contiguous``).

``contiguous()``, ``reshape`` and ``flatten`` give the very tensor, or a view of it, where they do.  Where they do not,
or where that is not known, the result may be a copy, which can be modified in place without harm.

Every claim is checked against the installed PyTorch (``tests/test_catalogue.py``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from autofix.codemods.autograd import catalogue

MAY_COPY = frozenset("contiguous reshape reshape_as flatten ravel".split())
"""Operations that copy a tensor which is not contiguous."""

_ALWAYS = frozenset(
    """matmul mm bmm mv linear addmm baddbmm linalg_matmul softmax log_softmax special_softmax special_log_softmax
    layer_norm embedding""".split()
)
"""Operations that make contiguous results whatever they are given."""

_PRESERVING = frozenset(
    (
        *(catalogue.POINTWISE, catalogue.REDUCTION, catalogue.SHAPED, catalogue.JOIN),
        *(catalogue.LOSS, catalogue.INDEX, catalogue.NUMBER, catalogue.CAST),
    )
)
_OTHERS = frozenset(
    """addbmm addmv addr outer ger conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d avg_pool1d
    avg_pool2d avg_pool3d max_pool1d max_pool2d max_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d
    adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d lp_pool1d lp_pool2d lp_pool3d pad constant_pad_nd
    reflection_pad2d replication_pad2d interpolate upsample upsample_nearest upsample_bilinear grid_sample fold glu tril
    triu cross cosine_similarity pairwise_distance cdist masked_select repeat_interleave pixel_shuffle pixel_unshuffle
    channel_shuffle local_response_norm topk sort kthvalue mode diff""".split()
)
"""Names of further operations that, like the kinds above, make contiguous results of contiguous tensors."""

_VIEWS = frozenset(
    """view view_as reshape reshape_as flatten ravel unflatten squeeze unsqueeze atleast_1d atleast_2d atleast_3d detach
    positive conj conj_physical resolve_conj resolve_neg""".split()
)
"""Views of contiguous tensors that are contiguous themselves."""
_REORDERED = frozenset(
    """t transpose permute movedim moveaxis swapaxes swapdims numpy_T matrix_H adjoint mT mH T H contiguous expand
    expand_as broadcast_to""".split()
)
_PARTS = frozenset("select narrow split split_with_sizes chunk tensor_split unbind".split())
"""Views of contiguous tensors that are contiguous if they take parts along the first dimension."""


@cache
def shows_all(name: str) -> bool:
    """Whether a view has all the elements of what it is a view of."""
    return name in _VIEWS or name in _REORDERED


@cache
def is_dense(name: str, *, of_dense: bool, is_view: bool) -> bool:
    """Whether an operation's result certainly is contiguous, *of_dense*: where its arguments are."""
    row = catalogue.operation(catalogue.form(name))
    if is_view:
        return of_dense and row.name in _VIEWS
    return row.name in _ALWAYS or (of_dense and (row.kind in _PRESERVING or row.name in _OTHERS))


def takes_dense_part(name: str, args: Sequence[object], keywords: Mapping[str, object]) -> bool:
    """Whether a view takes a part of a contiguous tensor along its first dimension, which is contiguous."""
    if name not in _PARTS:
        return False
    return bool(catalogue.given(catalogue.operation(name), "dim", args, keywords, 0) == 0)


def is_dense_index(index: tuple[object, ...]) -> bool:
    """Whether an index of a contiguous tensor takes a contiguous part: ``x[3]``, ``x[2:4]``, ``x[0, 2:4, :]``."""
    parts = [part for part in index if part is not None]
    while parts and parts[-1] in (slice(None), Ellipsis):
        parts.pop()
    if not parts:
        return True
    *leading, last = parts
    return all(isinstance(part, int) for part in leading) and (
        isinstance(last, int) or (isinstance(last, slice) and last.step is None)
    )
