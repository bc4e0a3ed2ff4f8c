"""The part of the catalogue that PyTorch's data does not say: composite operations, written by hand.

A composite operation has no derivative formula, for it is made of others; ``distil_catalogue`` merges this file with
PyTorch's tables, and ``tests/test_catalogue.py`` checks each row of the result by running it.
"""

from __future__ import annotations

_ARCS = "cos sin tan cosh sinh tanh tan2"
MADE_OF = {
    "subtract": "sub",
    "multiply": "mul",
    "divide": "div",
    "true_divide": "div",
    "negative": "neg",
    "concat": "cat",
    "concatenate": "cat",
    "absolute": "abs",
    "clip": "clamp",
    "dropout": "native_dropout",
    "relu6": "hardtanh",
    "selu": "elu",
    "rrelu": "leaky_relu",
    "softmin": "_softmax",
    "log_sigmoid": "log_sigmoid_forward",
    "expit": "sigmoid",
    "pad": "constant_pad_nd",
    "logdet": "_linalg_slogdet",
    "slogdet": "_linalg_slogdet",
    "det": "_linalg_det",
    "inverse": "linalg_inv_ex",
    "pinverse": "linalg_pinv",
    "gammaln": "lgamma",
    "psi": "digamma",
    "multigammaln": "mvlgamma",
    **{f"arc{name}": f"a{name}" for name in _ARCS.split()},
    **{f"adaptive_max_pool{n}d_with_indices": f"adaptive_max_pool{n}d" for n in (1, 2, 3)},
    "adaptive_max_pool1d": "adaptive_max_pool2d",
    "adaptive_max_pool1d_with_indices": "adaptive_max_pool2d",
    "max_pool1d": "max_pool2d_with_indices",
    "max_pool1d_with_indices": "max_pool2d_with_indices",
    "local_response_norm": "avg_pool2d",
    "grid_sample": "grid_sampler_2d",
    "grid_sampler": "grid_sampler_2d",
    "affine_grid": "affine_grid_generator",
    "avg_pool1d": "avg_pool2d",
    "adaptive_avg_pool1d": "avg_pool2d",
    "max_unpool1d": "max_unpool2d",
    "row_stack": "cat",
    "fold": "col2im",
    "svd": "linalg_svd",
    "qr": "linalg_qr",
    "orgqr": "linalg_householder_product",
    "lu_solve": "linalg_lu_solve",
    "matrix_exp": "linalg_matrix_exp",
    "fix": "trunc",
    "msort": "sort",
    **{f"conv{n}d": "convolution" for n in (1, 2, 3)},
    **{f"conv_transpose{n}d": "convolution" for n in (1, 2, 3)},
}
"""Composite operations that one operation carries out: they save what it saves, argument by argument."""

_OF_REAL = "rfft rfft2 rfftn ihfft ihfft2 ihfftn".split()
_NORM = "input running_mean running_var weight"
SAVES: dict[str, dict[str, str]] = {
    "matmul": {"self": "other", "other": "self"},
    "linear": {"input": "weight", "weight": "input", "bias": ""},
    "einsum": {"first": "second third", "second": "first third", "third": "first second"},
    "tensordot": {"self": "other", "other": "self"},
    "square": {"self": "self"},
    "matrix_power": {"self": "self"},
    "pow": {"self": "self", "exponent": "exponent result"},
    "outer": {"self": "vec2", "vec2": "self"},
    "ger": {"self": "vec2", "vec2": "self"},
    "inner": {"self": "other", "other": "self"},
    "linalg_vecdot": {"x": "y", "y": "x"},
    "chain_matmul": {"first": "second", "second": "first"},
    "nanmean": {"self": "self"},
    "linalg_matrix_norm": {"self": "self result"},
    "frobenius_norm": {"self": "self result"},
    "float_power": {"self": "copy"},
    "gumbel_softmax": {"logits": "result"},
    "kl_div": {"input": "target", "target": "input target"},
    "multilabel_soft_margin_loss": {"input": "input target", "target": "copy"},
    **{f"lp_pool{n}d": {"input": "input"} for n in (1, 2, 3)},
    "prelu": dict.fromkeys(("self", "weight"), "self weight"),
    "softsign": {"input": "input"},
    "normalize": {"input": "input"},
    "cosine_similarity": {"x1": "x1", "x2": "x2"},
    "pairwise_distance": dict.fromkeys(("x1", "x2"), "result"),
    "take_along_dim": {"self": "self indices"},
    # All ways of computing attention save the values; queries and keys are scaled first by some.
    "scaled_dot_product_attention": dict.fromkeys(("query", "key"), "value"),
    "batch_norm": dict.fromkeys(("input", "weight", "bias"), _NORM),
    "instance_norm": dict.fromkeys(("input", "weight", "bias"), "input"),  # of the others it makes copies
    "layer_norm": dict.fromkeys(("input", "weight", "bias"), "input weight bias"),
    "rms_norm": dict.fromkeys(("input", "weight"), "input weight"),
    "group_norm": dict.fromkeys(("input", "weight", "bias"), "input weight"),
    "embedding": {"weight": "input"},
    "embedding_bag": {
        "weight": "input offsets per_sample_weights",
        "per_sample_weights": "input weight offsets per_sample_weights",
    },
    "bilinear": {
        "input1": "input2 weight",
        "input2": "input1 weight",
        "weight": "input1 input2",
        "bias": "",
    },
    "cross_entropy": {"input": "target weight", "target": "weight"},
    "poisson_nll_loss": {"input": "target", "target": "input"},
    "combinations": {"self": "self"},
    "linalg_svdvals": {"A": "result"},
    "linalg_eigvals": {"self": "result"},
    "linalg_eigvalsh": {"self": "result"},
    "linalg_tensorinv": {"self": "result"},
    **{f"fft_{name}": {"self": "self"} for name in _OF_REAL},
    "stft": {"self": "self"},
    "logdet": {"self": "self"},
    "cosine_embedding_loss": dict.fromkeys(("input1", "input2"), "input1 input2"),
    **{f"fractional_max_pool{n}d_with_indices": {"input": "input"} for n in (2, 3)},
    "to_dense": {"self": ""},
    "linear_cross_entropy": {"input": "linear_weight target", "linear_weight": "input target"},
    "rnn_tanh_cell": {
        "input": "w_ih result",
        "hx": "w_hh result",
        "w_ih": "input result",
        "w_hh": "hx result",
        **dict.fromkeys(("b_ih", "b_hh"), "result"),
    },
    "lstm": dict.fromkeys(("input", "hx"), "input hx result"),
    "ctc_loss": {"log_probs": "log_probs targets"},
    "lu_solve": dict.fromkeys(("self", "LU_data"), "LU_data result"),
    **{name: {} for name in ("vstack", "hstack", "dstack", "column_stack", "type_as", "tile", "diff", "interpolate")},
    **{f"upsample{how}": {} for how in ("", "_nearest", "_bilinear")},
    **{name: {} for name in "broadcast_tensors cartesian_prod meshgrid unsafe_chunk sum_to_size".split()},
    **{name: {} for name in "diag diagflat fliplr flipud gradient chalf".split()},
    **{name: {} for name in "cumulative_trapezoid trapezoid trapz".split()},
    **{f"fft_{name}": {} for name in "fft2 fftn fftshift hfft hfft2 hfftn".split()},
    **{f"fft_{name}": {} for name in "ifft2 ifftn ifftshift irfft irfft2 irfftn".split()},
}
"""By argument, the values that composite operations of several parts save if it requires a gradient.

Only where the other operand needs a gradient.  Source: aten's CompositeImplicit kernels (`linear` is addmm, `matmul` is
mm or bmm), and ``torch.nn.functional``.
"""

USUAL: dict[str, dict[str, object]] = {
    "gumbel_softmax": {"hard": False},
    "kl_div": {"log_target": False},
    "linalg_matrix_norm": {"ord": "fro"},
    "cross_entropy": {"label_smoothing": 0.0},  # of a distribution it makes a smoothed copy
    "linear_cross_entropy": {"label_smoothing": 0.0},
    "poisson_nll_loss": {"log_input": True},
    **{f"fft_{name}": {"s" if name[-1] in "2n" else "n": None} for name in _OF_REAL},  # a longer one is padded first
    "stft": {"center": True, "pad_mode": "reflect"},
    "gradient": {"spacing": None},
    "trapezoid": {"x": None},
    "trapz": {"x": None},
    "cumulative_trapezoid": {"x": None},
}
"""Values of arguments for which the above holds; with others a composite operation saves something else."""

ROWS: dict[str, tuple[str, dict[str, str]]] = {
    "einsum": ("equation first second third", SAVES["einsum"]),
    "chain_matmul": ("first second", SAVES["chain_matmul"]),
    "float_power_of_tensor": ("self exponent", dict.fromkeys(("self", "exponent"), "copy result")),
    "pow_of_tensor": ("self exponent", dict.fromkeys(("self", "exponent"), "self exponent result")),
    "take_along_one_dim": ("self indices dim", {"self": "self"}),  # the indices may be negative, and are copied
    "lerp_by_number": ("self end weight", {"self": "", "end": ""}),
    "repeat_interleave_by_number": ("self repeats dim", {"self": ""}),
    "cross_map_lrn": ("input", {"input": "input result"}),
    **dict.fromkeys("bool int long short byte char unique".split(), ("self", {})),
    **dict.fromkeys("float double half bfloat16 cpu cuda type pin_memory".split(), ("self", {"self": ""})),
}
"""Rows of which the arguments are not in PyTorch's data: overloads that save something else, arguments in a list."""

CASTS = frozenset("float double half bfloat16 cpu cuda type_as to type contiguous pin_memory".split())
"""Methods that return the tensor itself where nothing is to be converted or moved."""
KINDS: dict[str, str] = {
    **dict.fromkeys(CASTS, "cast"),
    **dict.fromkeys("lstm gru rnn_tanh rnn_relu einsum chain_matmul cdist".split(), ""),
    **dict.fromkeys("dot vdot trace dist".split(), "number"),
    **dict.fromkeys("median nanmedian nanmean quantile nanquantile".split(), "reduction"),
    **dict.fromkeys("repeat tile".split(), "join"),
    **dict.fromkeys("tensor_split hsplit vsplit dsplit atleast_1d atleast_2d atleast_3d conj_physical".split(), "view"),
    **dict.fromkeys(
        "bernoulli poisson masked_fill clone square softsign prelu threshold hardswish log_sigmoid".split(), "pointwise"
    ),
    **dict.fromkeys("absolute negative fix clip subtract multiply divide true_divide".split(), "pointwise"),
    **dict.fromkeys((f"arc{name}" for name in _ARCS.split()), "pointwise"),
    **dict.fromkeys("float_power relu6 selu rrelu tanhshrink".split(), "pointwise"),
    **dict.fromkeys("dropout dropout1d dropout2d dropout3d alpha_dropout feature_alpha_dropout".split(), "shaped"),
    **dict.fromkeys("native_dropout native_layer_norm native_batch_norm softmax log_softmax softmin".split(), "shaped"),
    **dict.fromkeys("normalize layer_norm batch_norm group_norm instance_norm rms_norm".split(), "shaped"),
    **dict.fromkeys("cumsum cumprod logcumsumexp gumbel_softmax flip roll".split(), "shaped"),
}
"""Kinds of result that the tags do not tell."""
INNER = frozenset("replication_pad2d reflection_pad2d im2col col2im log_sigmoid".split())
"""Operations that no program calls by their names, and that others are made of."""
PRIVATE = (
    r"(cudnn|miopen|mkldnn|quantize|fbgemm|batch_norm_|fused_|fake_quantize|choose_qparams|sparse_|q_per|to_sparse|to_mkl"
    r"|resize|linalg__|set$|copy$|random$|requires_grad$|from_file$|empty_q).*"
    r"|(detach|values|view_as_.*|.*indices)_copy|.*_stats|(c?col|c?row)_indices|indices|values|coalesce|int_repr|dequantize|hspmm|native_norm|smm"
    r"|sspaddmm|to_padded_tensor|(grouped|scaled|scaled_grouped)_mm"
)
"""Operations that are aten's own, or of tensors that are sparse or quantized."""
WITHOUT_GRADIENT = frozenset(
    """detach argsort isclose isfinite isreal greater greater_equal less less_equal not_equal argwhere one_hot
    linalg_matrix_rank bool int long short byte char unique""".split()
)
"""Composite operations whose result has no graph."""
WHOLE_NUMBERS = frozenset(
    """all any argmax argmin argsort argwhere bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift
    bitwise_xor bool bucketize byte char count_nonzero eq gcd ge greater greater_equal gt int isclose isfinite isin
    isinf isnan isneginf isposinf isreal lcm le less less_equal linalg_matrix_rank logical_and logical_not logical_or
    logical_xor long lt multinomial ne nonzero nonzero_static not_equal one_hot searchsorted short signbit""".split()
)
"""Operations whose results are truth values or whole numbers, whatever they are given."""
LAYOUTS: dict[str, str] = {
    **dict.fromkeys(
        """matmul mm bmm mv linear addmm baddbmm linalg_matmul softmax log_softmax special_softmax special_log_softmax
        layer_norm embedding""".split(),
        "always",
    ),
    **dict.fromkeys(
        """addbmm addmv addr outer ger conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d
        avg_pool1d avg_pool2d avg_pool3d max_pool1d max_pool2d max_pool3d adaptive_avg_pool1d adaptive_avg_pool2d
        adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d lp_pool1d lp_pool2d lp_pool3d
        pad constant_pad_nd reflection_pad2d replication_pad2d interpolate upsample upsample_nearest upsample_bilinear
        grid_sample fold glu tril triu cross cosine_similarity pairwise_distance cdist masked_select repeat_interleave
        pixel_shuffle pixel_unshuffle channel_shuffle local_response_norm topk sort kthvalue mode diff""".split(),
        "kept",
    ),
    **dict.fromkeys(
        """view view_as reshape reshape_as flatten ravel unflatten squeeze unsqueeze atleast_1d atleast_2d atleast_3d
        detach positive conj conj_physical resolve_conj resolve_neg""".split(),
        "shown",
    ),
    **dict.fromkeys(
        """t transpose permute movedim moveaxis swapaxes swapdims adjoint contiguous expand expand_as
        broadcast_to""".split(),
        "reordered",
    ),
    **dict.fromkeys("select narrow split split_with_sizes chunk tensor_split unbind".split(), "part"),
}
"""Memory layout of results that the kind does not tell: the words are those of ``catalogue.Operation.layout``."""
UNARY = frozenset(("clamp_min", "clamp_max"))
"""Operations that are given a number beside the tensor, as a rule."""
NO_OPERATIONS = frozenset(("assert_int_or_pair", "unfold"))
"""Functions of ``torch.nn.functional`` that are none of tensors, or have another's name."""
SEVERAL = frozenset(("std_mean", "var_mean"))
"""Operations that always give several results, without names."""
FORMS: dict[str, str] = {
    **{f"{kind}Pad{n}d": f"{kind.lower()}_pad2d" for kind in ("Replication", "Reflection") for n in (1, 2, 3)},
    **{f"{kind}Pad{n}d": "constant_pad_nd" for kind in ("Constant", "Zero") for n in (1, 2, 3)},
    "ReLU6": "relu6",
    "Unfold": "im2col",
    "Fold": "col2im",
    **{f"{lazy}Conv{n}d": f"conv{n}d" for lazy in ("", "Lazy") for n in (1, 2, 3)},
    **{f"{kind}Norm{n}d": f"{kind.lower()}_norm" for kind in ("Batch", "Instance") for n in (1, 2, 3)},
    **{f"AdaptiveMaxPool{n}d": f"adaptive_max_pool{n}d" for n in (1, 2, 3)},
    "CrossMapLRN2d": "cross_map_lrn",
    "RNNCell": "rnn_tanh_cell",
    "LSTM": "lstm",
    "MultiheadAttention": "",
    "TransformerEncoderLayer": "",
}
"""The operation of a module where its forward says it in another way."""
