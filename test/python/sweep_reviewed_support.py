# SPDX-License-Identifier: Apache-2.0
"""Entries of op_db, module_db and optim_db that do not pass at an owner, with the reason why not: each was looked at;
and those that are compared otherwise than the rest."""

_SHAPE = "its result's shape depends on values"
_SPARSE = "sparse tensors are not carried"

#: Per part; "*" stands for all parts.
_REASONS: dict[str, dict[str, str]] = {
    "*": {
        "argwhere": _SHAPE,
        "masked_select": _SHAPE,
        "nonzero": _SHAPE,
        "unique": _SHAPE,
        "unique_consecutive": _SHAPE,
        "repeat_interleave": _SHAPE,
        "__getitem__": "a boolean index selects: " + _SHAPE,
        "SparseAdam": _SPARSE,
        "sparse.mm.reduce": _SPARSE,
        "sparse.sampled_addmm": _SPARSE,
        "to_sparse": _SPARSE,
        "chalf": "complex numbers of halves are not carried",
        "hash_tensor": "its result is uint64, which is not carried",
        "jiterator_binary": "torch has it for CUDA alone",
        "jiterator_binary_return_by_ref": "torch has it for CUDA alone",
    },
    "gradient": {"index_put": "of values written through a boolean index: " + _SHAPE},
    "second": {"index_put": "of values written through a boolean index: " + _SHAPE},
    "vmap": {"index_put": "torch's rule for it asks for the positions of a boolean index: " + _SHAPE},
    "out": {"_native_batch_norm_legit": "it writes running statistics and results at once"},
    "wrong inputs": {"nn.Embedding": "which indices are outside depends on values: they are left out"},
    "errors": {
        "cov": "whether a weight is negative depends on values: it is not asked",
        **dict.fromkeys(
            ("gather", "scatter", "scatter_add"), "which indices are outside depends on values: they are left out"
        ),
    },
}


def reason(entry: str, part: str) -> str:
    """Empty where the entry has to pass."""
    return _REASONS.get(part, {}).get(entry) or _REASONS["*"].get(entry, "")


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
