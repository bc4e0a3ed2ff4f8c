"""Groups of torch's names by what training code means by them, each of them written once.

What is true of one operation by itself stands in its row of the catalogue.
"""

from __future__ import annotations

ADDS = frozenset(("add", "sub", "sum_of"))
"""Operations that add terms up; ``sum_of`` is Python's own ``sum``."""
REDUCES = frozenset(("sum", "mean"))
"""Operations that make the total of a tensor's elements."""
WEIGHS = frozenset(("mul", "div", "neg"))
SCALES = WEIGHS | REDUCES
"""Operations by which a loss is weighed or reduced."""
JOINS = frozenset(("stack", "cat"))
"""Operations that make one tensor of the terms in a list."""

PROBABILITIES = frozenset(("sigmoid", "softmax"))
LIKELIHOODS = PROBABILITIES | {"log_softmax", "logsigmoid", "log_sigmoid", "exp"}
"""Operations whose results are probabilities, or their logarithms."""

RESHAPES = frozenset("view reshape flatten squeeze unsqueeze transpose permute ravel t contiguous".split())
"""Methods that give the elements of a tensor in another shape, or in another order."""
SIZES = frozenset("size dim ndimension numel nelement".split())
"""Methods that tell of a tensor's shape."""
SHAPES = SIZES | {"shape", "ndim"}
"""Methods and attributes that tell of a tensor's shape."""

WITHOUT_GRAPH = ("no_grad", "inference_mode")
"""Modes of autograd in which no graph is recorded."""
GRAD_MODES = (*WITHOUT_GRAPH, "set_grad_enabled")
"""Modes of autograd in which no graph may be recorded."""

WHOLE_TYPES = frozenset("bool uint8 int8 int16 int32 int64 short int long".split())
"""Types of truth values and whole numbers."""
FLOATING_TYPES = frozenset("float double half bfloat16 float16 float32 float64".split())
OTHER_PRECISIONS = FLOATING_TYPES - {"float", "float32"}
"""Types of floats that a tensor does not have if nothing is said of it."""

RECURRENT = frozenset(("RNN", "GRU", "LSTM"))
"""Modules that give a sequence of outputs, and their last state."""
