# SPDX-License-Identifier: Apache-2.0
"""One valid program of every core op, and random changes to it that leave its structure whole."""

import random

from numpy_builder import ProgramBuilder, t

from sojourn_numpy.types import F64, I64, TableType

F, Z, B, S, N = t("f32", 3, 4), t("i32", 3, 4), t("i1", 3, 4), t("f32"), t("i64")
X, W, G = t("f32", 2, 4, 5, 6), t("f32", 6, 2, 3, 2), t("f32", 2, 6, 5, 5)
CONV = {"stride": (1, 1), "padding": (1, 0), "dilation": (1, 1), "groups": 2}
POOL = {"window": (2, 2), "stride": (2, 1), "padding": (1, 0), "dilation": (1, 1)}
POOLED = t("f32", 2, 4, 3, 5)
TABLE = TableType(5, (("a", F64), ("b", I64)))

FORMS = {
    "constant": ([], [S], {"value": 2.0}),
    "iota": ([], [F], {"dim": 1}),
    "rng_bits": ([N], [t("i64", 5)], {"stream": 3}),
    "rng_uniform": ([N], [t("f32", 5)], {"stream": 3}),
    "rng_normal": ([N], [t("f64", 5)], {"stream": 3}),
    "sample_rows": ([t("i64", 4, 2), N, N, TABLE], [t("i64", 4, 2)],
                    {"fractions": (0.5, 0.25), "sides": (0, 1), "split": True}),
    "read_rows": ([TABLE, t("i64", 4)], [t("f32", 4, 2)], {"columns": ["a", "b"]}),
    "convert": ([F], [Z], {}),
    "bitcast": ([F], [Z], {}),
    "compare": ([F, S], [B], {"predicate": "lt"}),
    "special": ([F], [F], {"function": "i0e"}),
    "special_binary": ([F, S], [F], {"function": "legendre_polynomial_p"}),
    "select": ([B, F, S], [F], {}),
    "broadcast": ([t("f32", 3, 1)], [t("f32", 2, 3, 4)], {"dims": (1, 2)}),
    "reshape": ([F], [t("f32", 2, 6)], {}),
    "transpose": ([F], [t("f32", 4, 3)], {"perm": (1, 0)}),
    "slice": ([F], [t("f32", 2, 2)], {"start": (1, 0), "limit": (3, 4), "stride": (1, 2)}),
    "reverse": ([F], [F], {"dims": (0, 1)}),
    "update_slice": ([F, t("f32", 2, 2)], [F], {"start": (1, 0), "stride": (1, 2)}),
    "dynamic_slice": ([F, N, N], [t("f32", 2, 2)], {"dims": (0, 1), "sizes": (2, 2)}),
    "dynamic_update_slice": ([F, t("f32", 2, 4), N], [F], {"dims": (0,)}),
    "concat": ([F, t("f32", 3, 2)], [t("f32", 3, 6)], {"dim": 1}),
    "pad": ([F, S], [t("f32", 6, 3)], {"low": (1, 0), "high": (0, -1), "interior": (1, 0)}),
    "dot": ([t("f32", 2, 3, 4), t("f32", 2, 4, 5)], [t("f32", 2, 3, 5)],
            {"lhs_batch": (0,), "rhs_batch": (0,), "lhs_contract": (2,), "rhs_contract": (1,)}),
    "cholesky": ([t("f32", 2, 3, 3)], [t("f32", 2, 3, 3), t("i64", 2)], {}),
    "triangular_solve": ([t("f32", 2, 3, 3), t("f32", 2, 3, 2)], [t("f32", 2, 3, 2)], {"lower": True, "unit": False}),
    "lu": ([t("f32", 2, 4, 3)], [t("f32", 2, 4, 3), t("i64", 2, 3), t("i64", 2, 4), t("i64", 2)], {}),
    "qr": ([t("f32", 2, 4, 3)], [t("f32", 2, 4, 3), t("f32", 2, 3, 3)], {"full": False}),
    "eigh": ([t("f32", 2, 3, 3)], [t("f32", 2, 3), t("f32", 2, 3, 3)], {}),
    "svd": ([t("f32", 2, 4, 3)], [t("f32", 2, 4, 3), t("f32", 2, 3), t("f32", 2, 3, 3)], {"full": False}),
    "ldl": ([t("f32", 2, 3, 3)], [t("f32", 2, 3, 3), t("i64", 2, 3), t("i64", 2)], {"hermitian": False}),
    "ldl_solve": ([t("f32", 2, 3, 3), t("i64", 2, 3), t("f32", 2, 3, 2)], [t("f32", 2, 3, 2)], {"hermitian": False}),
    "eig": ([t("f64", 2, 3, 3)], [t("c128", 2, 3), t("c128", 2, 3, 3)], {}),
    "parts": ([t("c64", 3, 4)], [t("f32", 3, 4, 2)], {}),
    "complex": ([t("f64", 3, 2)], [t("c128", 3)], {}),
    "fft_c2c": ([t("c64", 3, 4)], [t("c64", 3, 4)], {"dims": (1,), "inverse": True}),
    "fft_r2c": ([t("f32", 3, 4)], [t("c64", 3, 3)], {"dims": (0, 1)}),
    "fft_c2r": ([t("c128", 3, 3)], [t("f64", 3, 4)], {"dims": (0, 1), "size": 4}),
    "conv": ([X, W], [G], CONV),
    "conv_grad_input": ([G, W], [X], CONV),
    "conv_grad_weight": ([G, X], [W], CONV),
    "argmax": ([F], [t("i64", 3)], {"dim": 1}),
    "argmin": ([F], [t("i64", 4)], {"dim": 0}),
    "sort": ([F], [F, t("i64", 3, 4)], {"dim": 1, "descending": True}),
    "topk": ([F], [t("f32", 3, 2), t("i64", 3, 2)], {"dim": 1, "k": 2, "largest": True}),
    "take": ([F, t("i64", 2, 2)], [t("f32", 2, 2, 4)], {"dim": 0}),
    "take_along": ([F, t("i64", 2, 4)], [t("f32", 2, 4)], {"dim": 0}),
    "put": ([F, t("i64", 2), t("f32", 2, 4)], [F], {"dim": 0, "kind": "add"}),
    "put_along": ([F, t("i64", 2, 4), t("f32", 2, 4)], [F], {"dim": 0, "kind": "max"}),
    "pool_sum": ([X], [POOLED], POOL),
    "pool_max": ([X], [POOLED, t("i64", 2, 4, 3, 5)], POOL),
}  # fmt: skip
for _name in "neg abs sign floor ceil round exp expm1 log log1p sqrt sin cos tanh logistic erf erfc erfinv lgamma digamma".split():
    FORMS[_name] = ([F], [F], {})
for _name in "add sub mul div rem pow atan2 max min".split():
    FORMS[_name] = ([F, S], [F], {})
for _name in "and or xor shl shr".split():
    FORMS[_name] = ([Z, Z], [Z], {})
FORMS["not"] = ([Z], [Z], {})
for _name in "reduce_sum reduce_prod reduce_max reduce_min".split():
    FORMS[_name] = ([F], [t("f32", 3)], {"dims": (1,)})
for _name in "cumsum cumprod cummax cummin cumlogsumexp".split():
    FORMS[_name] = ([F], [F], {"dim": 1})


def build(name: str) -> ProgramBuilder:
    operands, results, attrs = FORMS[name]
    p = ProgramBuilder()
    order = sorted(range(len(operands)), key=lambda k: isinstance(operands[k], TableType))
    ids = {k: p.arg("table" if isinstance(operands[k], TableType) else "upload", operands[k]) for k in order}
    made = p.op(name, [ids[k] for k in range(len(operands))], results, **attrs)
    for value in made if isinstance(made, list) else [made]:
        p.result("publish", value)
    return p


def change(p: ProgramBuilder, dice: random.Random) -> None:
    """One random change that leaves the structure whole."""
    choice = dice.randrange(8)
    if choice < 2 and p.dims:
        # The same change wherever the size stands keeps many programs valid.
        old, new = dice.choice(p.dims), dice.choice([0, 1, 2, 3, 7])
        p.dims[:] = [new if d == old and (choice or dice.random() < 0.5) else d for d in p.dims]
    elif choice < 4 and p.ints:
        at = dice.randrange(len(p.ints))
        p.ints[at] = dice.choice(
            [
                (p.ints[at] >> 1) + dice.randint(-2, 3),
                p.ints[at] % 97 + 1,
                -1,
                0,
                1,
                2,
                1 << 40,
                -(1 << 63),
                (1 << 63) - 1,
            ]
        )
    elif choice < 6 and p.types:
        old, new = dice.choice(p.types)[0], dice.randrange(12)
        if choice == 4:
            p.types[:] = [(new if r[0] == old else r[0], *r[1:]) for r in p.types]
            p.attrs[:] = [(*r[:4], new if r[4] == old else r[4], r[5]) for r in p.attrs]
        else:
            at = dice.randrange(len(p.types))
            p.types[at] = (new, *p.types[at][1:])
    elif choice == 6 and p.operands:
        p.operands[dice.randrange(len(p.operands))] = dice.choice(p.operands)
    elif p.types:
        at = dice.randrange(len(p.types))
        element, rank, _, begin = p.types[at]
        p.types[at] = (element, max(0, rank + dice.choice([-1, 1])), 0, begin)
