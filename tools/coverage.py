#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints a document: the outcome at an owner for every operator of ATen's dispatcher, and for every function that
torch lets a tensor type override. tools/docs makes a page of it.
"""

from __future__ import annotations

import argparse
import collections
import pathlib
import re
import sys
import warnings

ROOT = pathlib.Path(__file__).resolve().parent.parent

#: Names of operators that this build of torch has for other kinds of tensors, devices and back ends.
ELSEWHERE = re.compile(
    r"quant|sparse|csr|csc|bsr|bsc|coalesce|nested|mkldnn|cudnn|miopen|cuda|xnn|vulkan|metal|mps|hip|_c10d|fbgemm|"
    r"coo_|_jagged|_cslt|_wrapped|_saturate_|_int_mm|_weight_int|_dyn_quant|_mixed_dtypes|_scaled_|_grouped_mm|_addmm_activation|"
    r"flash|efficient|_fused_sdp|_triton|_transformer_encoder|_native_multi_head|_test|_debug|_sobol|sym_|_nnpack|"
    r"_thnn|_use_|choose_qparams|fake_|qscheme|int_repr|q_|_choose|_sym|_make_dep|_dimI|_dimV|_indices|_values|"
    r"crow_|ccol_|row_indices|col_indices|dense_dim|to_padded|_to_cpu|from_blob|_safe_softmax_bw|_lstm_mps"
)


def kind_of(name: str) -> tuple[str, str]:
    import torch

    import _sojourn

    kind, why = _sojourn.describe_operator(name)
    if kind != "unknown":
        return kind, why
    if torch._C._dispatch_has_kernel_for_dispatch_key(name, "CompositeImplicitAutograd"):
        return "composed", ""
    if torch._C._dispatch_has_kernel_for_dispatch_key(name, "CompositeExplicitAutograd"):
        return "composed", ""
    return ("elsewhere" if ELSEWHERE.search(name) else "unknown"), ""


def bases() -> dict[str, tuple[str, str, list[str]]]:
    """Per operator: the best outcome of its overloads, the reason for it, and the overloads with a worse outcome."""
    import torch

    order = ["recorded", "view", "read", "composed", "refused", "elsewhere", "unknown"]
    found: dict[str, dict[str, tuple[str, str]]] = collections.defaultdict(dict)
    for name in torch._C._dispatch_get_all_op_names():
        if name.startswith("aten::"):
            found[name.split("::")[1].split(".")[0]][name] = kind_of(name)
    result = {}
    for base, overloads in sorted(found.items()):
        best = min((kind for kind, _ in overloads.values()), key=order.index)
        why = next((why for kind, why in overloads.values() if kind == best), "")
        less = sorted(
            name.split("::")[1].partition(".")[2] or "default"
            for name, (kind, _) in overloads.items()
            if order.index(kind) >= order.index("refused") > order.index(best)
        )
        result[base] = (best, why, less)
    return result


def functions(known) -> dict[str, list[str]]:
    """Functions of torch.overrides by the outcome of their operator. Functions without such an operator run others."""
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        overridable = torch.overrides.get_testing_overrides()
    found = collections.defaultdict(set)
    for function in overridable:
        name = torch.overrides.resolve_name(function)
        if not name:
            continue
        base = name.rsplit(".", 1)[-1]
        candidates = [base, base.rstrip("_"), "linalg_" + base, "special_" + base, "fft_" + base, "_" + base]
        kind = next((known[c][0] for c in candidates if c in known), "composed")
        found[kind].add(name)
    return {kind: sorted(names) for kind, names in found.items()}


MEANING = {
    "recorded": "recorded, and lowered to core ops",
    "view": "a view: part of how an operand is read",
    "read": "asks for a value: answered outside of steps if the label permits",
    "composed": "torch composes it from other operators",
    "refused": "refused when it is called; the text suggests an alternative",
    "elsewhere": "for other kinds of tensors (sparse, nested, quantized), other devices or back ends",
    "unknown": "not supported: refused when it is called",
}


def text() -> str:
    import torch

    known = bases()
    counts = collections.Counter(kind for kind, _, _ in known.values())
    by_function = functions(known)
    lines = [
        "# Coverage",
        "",
        "The outcome for each operator of ATen's dispatcher and for each function that torch lets a tensor type",
        f"override. Made by `tools/coverage.py` for PyTorch {torch.__version__.split('+')[0]}. The tested operators",
        "and their samples are on [another page](operators.md).",
        "",
        "| | operators | functions | meaning |",
        "|---|---|---|---|",
    ]
    for kind, meaning in MEANING.items():
        lines.append(f"| {kind} | {counts[kind]} | {len(by_function.get(kind, []))} | {meaning} |")
    lines += ["", "## Refused", "", "| operator | reason and alternative |", "|---|---|"]
    lines += [f"| `{base}` | {why} |" for base, (kind, why, _) in known.items() if kind == "refused"]
    lines += ["", "## Not supported", ""]
    lines.append(", ".join(f"`{base}`" for base, (kind, _, _) in known.items() if kind == "unknown") + ".")
    lines += ["", "## Overloads with a worse outcome than others of their operator", ""]
    lines.append(", ".join(f"`{base}` ({', '.join(less)})" for base, (_, _, less) in known.items() if less) + ".")
    for kind in ("recorded", "view", "composed"):
        lines += ["", f"## {kind.capitalize()}", ""]
        lines.append(", ".join(f"`{base}`" for base, (found, _, _) in known.items() if found == kind) + ".")
    lines += ["", "## Functions", ""]
    for kind, names in sorted(by_function.items()):
        lines += [f"### {kind.capitalize()}", "", ", ".join(f"`{name}`" for name in names) + ".", ""]
    return "\n".join(lines).rstrip() + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args()
    import sojourn  # noqa: F401 (registers the device)

    print(text(), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
