# SPDX-License-Identifier: Apache-2.0
"""Entries of op_db, module_db and optim_db that do not pass at an owner, with the reason why not: each was looked at;
and those that are compared otherwise than the rest."""

_SHAPE = "its result's shape depends on values"
_SPARSE = "sparse tensors are not carried"
_COMPLEX_HALVES = "complex numbers of halves are not carried"

#: Per part; "*" stands for all parts.
_REASONS: dict[str, dict[str, str]] = {
    "*": {
        "argwhere": _SHAPE,
        "bincount": "how many classes there are: " + _SHAPE,
        "masked_select": _SHAPE,
        "nn.functional.one_hot": "how many classes there are, where it is not said: " + _SHAPE,
        "nonzero": _SHAPE,
        "unique": _SHAPE,
        "unique_consecutive": _SHAPE,
        "repeat_interleave": _SHAPE,
        "SparseAdam": _SPARSE,
        "sparse.mm.reduce": _SPARSE,
        "sparse.sampled_addmm": _SPARSE,
        "to_sparse": _SPARSE,
        "chalf": _COMPLEX_HALVES,
        "hash_tensor": "its result is uint64, which is not carried",
        "jiterator_binary": "torch has it for CUDA alone",
        "jiterator_binary_return_by_ref": "torch has it for CUDA alone",
    },
    "vmap": {
        "combinations": "torch's rule for it selects by a mask: " + _SHAPE,
        "index_put": "torch's rule for it asks for the positions of a boolean index: " + _SHAPE,
    },
    "out": {"_native_batch_norm_legit": "it writes running statistics and results at once"},
    "wrong inputs": {"nn.Embedding": "which indices are outside depends on values: they are left out"},
    "errors": {
        "cov": "whether a weight is negative depends on values: it is not asked",
        "multinomial": "whether a weight is negative or not finite depends on values: it is not asked",
        "masked_fill": "whether a tensor's number fits another type depends on values: it is not asked",
        **dict.fromkeys(
            ("gather", "scatter", "scatter_add"), "which indices are outside depends on values: they are left out"
        ),
    },
}


#: Of one dtype, in all parts.
_OF_DTYPE: dict[tuple[str, str], str] = {
    ("complex", "float16"): _COMPLEX_HALVES,
    ("view_as_complex", "float16"): _COMPLEX_HALVES,
}


def reason(entry: str, part: str, dtype: str = "") -> str:
    """Empty where the entry has to pass."""
    return _REASONS.get(part, {}).get(entry) or _OF_DTYPE.get((entry, dtype)) or _REASONS["*"].get(entry, "")


_TIES = (
    "which of equal elements comes first is free: indices by what they pick, each once, gradients among equals in any "
    "order; stable ones exactly"
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

_DROPPED = "what is dropped is drawn: compared with nothing dropped"
_REGIONS = "its regions are drawn: metadata alone"
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
    ("Muon", "*", "*"): (1e-2, 5e-4, "it multiplies in bfloat16, and sums are rounded where they are computed"),
    ("LBFGS", "*", "float32"): (1e-2, 1e-3, "what it keeps are quotients of small differences: parameters alone"),
    ("ASGD", "*", "float64"): (1e-6, 1e-7, "its rates are float32 tensors"),
    ("*", "capturable", "float64"): (
        1e-6,
        1e-7,
        "its counters are float32 tensors, and so are rates made of them",
    ),
}


def band(entry: str, part: str, dtype: str) -> tuple[float, float] | None:
    """rtol and atol of the first band that is meant, None where nothing but torch's own tolerance holds."""
    for (name, of, kind), (rtol, atol, _) in BANDS.items():
        if name in ("*", entry) and of in ("*", part) and kind in ("*", dtype):
            return rtol, atol
    return None
