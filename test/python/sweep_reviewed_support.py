# SPDX-License-Identifier: Apache-2.0
"""Entries of op_db, module_db and optim_db that do not pass at an owner, each with its reviewed reason, and entries
that need another comparison."""

_SPARSE = "sparse tensors are not supported"
_COMPLEX_HALVES = "complex halves are not supported"

#: Per part; "*" stands for all parts.
_REASONS: dict[str, dict[str, str]] = {
    "*": {
        "SparseAdam": _SPARSE,
        "sparse.mm.reduce": _SPARSE,
        "sparse.sampled_addmm": _SPARSE,
        "to_sparse": _SPARSE,
        "chalf": _COMPLEX_HALVES,
        "hash_tensor": "its result is uint64, which is not supported",
        "jiterator_binary": "torch has it for CUDA alone",
        "jiterator_binary_return_by_ref": "torch has it for CUDA alone",
    },
    "out": {"_native_batch_norm_legit": "it writes running statistics and results in one call"},
    "wrong inputs": {"nn.Embedding": "a check for indices out of range depends on values: such indices are ignored"},
    "errors": {
        "cov": "a check for negative weights depends on values and is skipped",
        "multinomial": "a check for negative or non-finite weights depends on values and is skipped",
        "masked_fill": "a check that a number fits another type depends on values and is skipped",
        **dict.fromkeys(
            ("gather", "scatter", "scatter_add"),
            "a check for indices out of range depends on values: such indices are ignored",
        ),
    },
}


#: Of one dtype, in all parts.
_OF_DTYPE: dict[tuple[str, str], str] = {
    ("complex", "float16"): _COMPLEX_HALVES,
    ("view_as_complex", "float16"): _COMPLEX_HALVES,
}


def reason(entry: str, part: str, dtype: str = "") -> str:
    """The reason, or an empty text if the entry must pass."""
    return _REASONS.get(part, {}).get(entry) or _OF_DTYPE.get((entry, dtype)) or _REASONS["*"].get(entry, "")


_TIES = (
    "equal elements may come in any order: indices are compared by the elements they select, each once, gradients of "
    "equal elements in any order; stable sorts exactly"
)
#: Operators that choose elements: where `dim` is among their arguments behind the first (None: nowhere, it is 0), and how
#: they are compared.
PICKS: dict[str, tuple[int | None, str]] = {
    "argsort": (0, _TIES),
    "kthvalue": (1, _TIES),
    "mode": (0, _TIES),
    "msort": (None, _TIES),
    "sort": (0, _TIES),
    "topk": (1, _TIES),
}

_DROPPED = "dropout is random: compared without dropout"
_REGIONS = "its regions are random: only metadata is compared"
#: Modules whose values are draws.
DRAWS: dict[str, str] = {
    "nn.FractionalMaxPool2d": _REGIONS,
    "nn.FractionalMaxPool3d": _REGIONS,
    "nn.GRU": _DROPPED,
    "nn.LSTM": _DROPPED,
    "nn.MultiheadAttention": _DROPPED,
    "nn.RNN": _DROPPED,
    "nn.Transformer": _DROPPED,
    "nn.TransformerDecoderLayer": _DROPPED,
    "nn.TransformerEncoder": _DROPPED,
    "nn.TransformerEncoderLayer": _DROPPED,
}

#: Optimizers that are compared within wider bands: by name, part and dtype ("*": all) rtol, atol and why.
BANDS: dict[tuple[str, str, str], tuple[float, float, str]] = {
    ("Muon", "*", "*"): (1e-2, 5e-4, "it multiplies in bfloat16, and each side rounds its own sums"),
    ("LBFGS", "*", "float32"): (
        1e-2,
        1e-3,
        "its state is quotients of small differences: only parameters are compared",
    ),
    ("ASGD", "*", "float64"): (1e-6, 1e-7, "its rates are float32 tensors"),
    ("*", "capturable", "float64"): (
        1e-6,
        1e-7,
        "its counters are float32 tensors, and so are the rates computed from them",
    ),
}


def band(entry: str, part: str, dtype: str) -> tuple[float, float] | None:
    """rtol and atol of the first matching band, or None if torch's own tolerance applies."""
    for (name, of, kind), (rtol, atol, _) in BANDS.items():
        if name in ("*", entry) and of in ("*", part) and kind in ("*", dtype):
            return rtol, atol
    return None
