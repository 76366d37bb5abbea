# SPDX-License-Identifier: Apache-2.0
"""Several ops that a rule reads as one: it looks at what computed its operands, so their values belong together."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from rule_operands import tensor

Idiom = tuple[str, tuple[str, ...]]  # the op whose rule looks through, and lines with {k} for their results


def shifts() -> Iterator[Idiom]:
    """Row numbers moved by a constant under a guard: select(p < 0, p, p + offset)."""
    for numbers, predicate, bound, offset in itertools.product(
        ("list", "draw", "numbers"),
        ("lt", "le", "gt", "ge", "eq", "ne"),
        ("c_i64_0", "c_i64_1", "c_i64_2"),
        ("c_i64_0", "c_i64_1", "c_i64_2"),
    ):
        t = "tensor<3xi64>"
        guard = f'{{0}} = sojourn.compare "{predicate}" %{numbers}, %{bound} : {t}, tensor<i64>'
        moved = f"{{1}} = sojourn.add %{numbers}, %{offset} : {t}, tensor<i64>"
        for a, b in ((f"%{numbers}", "{1}"), ("{1}", f"%{numbers}")):
            yield "select", (guard, moved, f"{{2}} = sojourn.select {{0}}, {a}, {b} : tensor<3xi1>, {t}, {t}")


def one_hot() -> Iterator[Idiom]:
    """A comparison of row values with a ramp, of any width: at most one element holds only if the ramp repeats nothing."""
    for element, size, numbers in (
        ("i64", 2, "k2"),
        ("i64", 3, "k2"),
        ("i8", 2, "k8"),
        ("i8", 257, "k8"),
        ("i64", 2, "k"),
        ("i64", 257, "k"),
    ):
        slots = 3 if numbers in ("k", "k8") else 2
        wide = f"tensor<{slots}x{size}x{element}>"
        of = f"tensor<{slots}x{element}>"
        ramps = {
            "iota": (f"{{0}} = sojourn.iota dim = 1 : {wide}",),
            "repeated": (f"{{0}} = sojourn.iota dim = 0 : {wide}",),
            "short": (f"{{9}} = sojourn.iota dim = 0 : tensor<1x{element}>", f"{{0}} = sojourn.broadcast {{9}}, dims = [1] : tensor<1x{element}> -> {wide}"),
            "long": (f"{{9}} = sojourn.iota dim = 0 : tensor<{size}x{element}>", f"{{0}} = sojourn.broadcast {{9}}, dims = [1] : tensor<{size}x{element}> -> {wide}"),
        }  # fmt: skip
        for ramp, predicate in itertools.product(ramps.values(), ("eq", "ge", "ne")):
            spread = f"{{1}} = sojourn.broadcast %{numbers}, dims = [0] : {of} -> {wide}"
            yield "compare", (*ramp, spread, f'{{2}} = sojourn.compare "{predicate}" {{0}}, {{1}} : {wide}, {wide}')


def written() -> Iterator[Idiom]:
    """One-hot labels as a gradient makes them: ones written onto zeros."""
    for onto, kind, dim in itertools.product(("zer22", "w22", "a22"), ("set", "add", "mul"), (0, 1)):
        numbers = "{0} = sojourn.reshape %k2 : tensor<2xi64> -> tensor<2x1xi64>"
        ones = "{1} = sojourn.reshape %a2 : tensor<2xf64> -> tensor<2x1xf64>"
        t = "tensor<2x2xf64>, tensor<2x1xi64>, tensor<2x1xf64>"
        yield (
            "put_along",
            (numbers, ones, f'{{2}} = sojourn.put_along "{kind}" %{onto}, {{0}}, {{1}}, dim = {dim} : {t}'),
        )


def solved() -> Iterator[Idiom]:
    """Systems of equations, of a matrix as `ldl` factors it."""
    types = dict.fromkeys(("w22", "a22", "sum22", "der22", "mix22"), (2, 2)) | {"r222": (2, 2, 2)}
    for matrix, right in itertools.product(types, types):
        if len(types[matrix]) == len(types[right]):
            t, numbers = tensor(types[matrix], "f64"), tensor(types[matrix][:-1], "i64")
            factors = f"{{0}} = sojourn.ldl %{matrix} hermitian = false : {t}"
            yield (
                "ldl_solve",
                (
                    factors,
                    f"{{1}} = sojourn.ldl_solve {{0}}, {{0}}_1, %{right}, hermitian = false : {t}, {numbers}, {t}",
                ),
            )


def all_idioms() -> list[tuple[str, tuple[str, ...]]]:
    return [*shifts(), *one_hot(), *written(), *solved()]
