# SPDX-License-Identifier: Apache-2.0
"""Entries of op_db that do not pass at an owner: with the reason why not, each was looked at; and those that are still to
come."""

_SHAPE = "its result's shape depends on values"
_SPARSE = "sparse tensors are not carried"
_STORAGE = "it is about storage: elements that overlap, gaps between them, or a new size"

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
        "sparse.mm.reduce": _SPARSE,
        "sparse.sampled_addmm": _SPARSE,
        "to_sparse": _SPARSE,
        "empty_strided": _STORAGE,
        "new_empty_strided": _STORAGE,
        "resize_": _STORAGE,
        "tensor_split": "torch wants these indices on the CPU: its result's shapes depend on them",
        "jiterator_binary": "torch has it for CUDA alone",
        "jiterator_binary_return_by_ref": "torch has it for CUDA alone",
    },
    "gradient": {"index_put": "of values written through a boolean index: " + _SHAPE},
    "second": {"index_put": "of values written through a boolean index: " + _SHAPE},
    "vmap": {"index_put": "torch's rule for it asks for the positions of a boolean index: " + _SHAPE},
    "out": {"_native_batch_norm_legit": "it writes running statistics and results at once"},
    "errors": dict.fromkeys(
        ("scatter", "scatter_add"), "which indices are outside depends on values: they are left out"
    ),
}

_COMPLEX = "complex numbers"
#: Not there yet: refused in every part, and struck off this list when they come.
OPEN: dict[str, str] = dict.fromkeys(
    """cdouble cfloat chalf complex polar view_as_complex stft linalg.eig linalg.eigvals
    fft.fft fft.fft2 fft.fftn fft.hfft fft.hfft2 fft.hfftn fft.ifft fft.ifft2 fft.ifftn fft.ihfft fft.ihfft2 fft.ihfftn
    fft.irfft fft.irfft2 fft.irfftn fft.rfft fft.rfft2 fft.rfftn""".split(),
    _COMPLEX,
) | {
    "linalg.ldl_factor": "its pivots depend on values, and core form has no factor for it",
    "linalg.ldl_factor_ex": "its pivots depend on values, and core form has no factor for it",
    "linalg.ldl_solve": "its pivots depend on values, and core form has no factor for it",
    "hash_tensor": "core form has no exclusive or of all elements",
    "nn.functional.ctc_loss": "the lengths of its targets are values",
}


def reason(entry: str, part: str) -> str:
    """Empty where the entry has to pass."""
    return _REASONS.get(part, {}).get(entry) or _REASONS["*"].get(entry, "")
