# SPDX-License-Identifier: Apache-2.0
"""Programs that the alias fuzzer found and shrank (alias/alias_fuzz.py): each differed from eager torch once.

A program runs in every mode.
"""

import pathlib
import sys

import pytest
from remote_support import shared_owner

sys.path.insert(0, str(pathlib.Path(__file__).parent / "alias"))
from alias_fuzz_compare import judge
from alias_fuzz_execute import Remote
from alias_fuzz_program import MODES, parse

FOUND = {
    "foreach in place counts a version": """
        seed 1
        b1 = base(float32, (1,))
        foreach_zero_([b1])
    """,
    "a view after foreach in place has the gradient of now": """
        seed 53072
        b0 = base(float32, (1, 1), grad=True)
        r0 = cumsum(b0, 1)
        r1 = getitem(r0, (slice(None, None, None),))
        foreach_neg_([r0])
        backward([r1], False, True)
    """,
    "foreach in place changes what backward has kept": """
        seed 2
        b0 = base(float32, (2,), grad=True)
        r0 = mul_number(b0, 2.0)
        r1 = mul(r0, r0)
        foreach_mul_([r0], 2)
        backward([r1], False, True)
    """,
    "foreach in place ends views that were made without gradients": """
        seed 21
        b0 = base(float32, (1,), grad=True)
        before: r0 = cut(b0, 0, 0, 0, 1)
        no_grad: foreach_mul_([b0], [b0])
        backward([r0], True, True)
    """,
    "foreach in place ends views of split": """
        seed 3332
        b1 = base(float32, (2,), grad=True)
        r0, r1 = split(b1, [1, 1], 0)
        no_grad: foreach_add_([b1], [b1])
        unbind(r0, 0)
    """,
    "foreach in place and data that was exchanged": """
        seed 11875
        b0 = base(float32, (2, 3, 2), grad=True)
        r0 = mul_number(b0, 0.0)
        r1 = view(r0, (12,))
        foreach_mul_([r0], 0)
        set_data(r1, b0)
        r2 = grad([r1], [b0], True)
    """,
    "foreach zero of an expanded tensor": """
        seed 50508
        b0 = base(float32, (2, 1))
        r0 = expand(b0, (2, 3))
        foreach_zero_([r0])
    """,
    "view_as_complex of dims of size 1": """
        seed 42
        b1 = base(float32, (2, 1))
        r0 = T(b1)
        r1 = view_as_complex(r0)
    """,
    "sum into booleans": """
        seed 528
        b0 = base(float32, (1,))
        b1 = base(bool, ())
        sum_out(b1, b0, 0)
    """,
    "class of the error of index_put_": """
        seed 32
        b0 = base(float32, (1,))
        b1 = base(bool, (2,))
        k0 = const(int64, [1])
        setitem_index(b1, 0, k0, b0)
    """,
    "a lost view as an argument": """
        seed 209
        b2 = base(float32, (2, 1), grad=True)
        before: r0 = view_as(b2)
        no_grad: mul_number_(b2, 2.0)
    """,
    "a mask of more dims than the gradient": """
        seed 9806552
        b0 = base(float32, (3,), grad=True)
        b1 = base(complex64, (1, 4))
        k3 = const(bool, [[[False, True], [False, False], [True, True], [False, False]]])
        r0 = view_as_real(b1)
        squeeze_(b1)
        masked_scatter_(r0, k3, b0)
        backward([b1], True, True)
    """,
    "the shape of gradients after a step that raises": """
        seed 90083518
        b1 = base(float32, (1,))
        b3 = base(float32, (3, 1), grad=True)
        r0 = expand(b3, (3, 0))
        no_grad: squeeze_(b3)
        fail()
        set_data(b3, b1)
        backward([b3], False, True)
    """,
    "an argument that begins to require a gradient": """
        seed 91009911
        b0 = base(float32, (1,), grad=True)
        before: r0 = detach(b0)
        requires_grad_(r0, True)
        fill_grad(r0, 0)
    """,
    "an argument that ceases to require a gradient": """
        seed 5
        b0 = base(float32, (2,), grad=True)
        requires_grad_(b0, False)
        mul_number_(b0, 2.0)
    """,
    "a gradient that becomes a view of the gradient before": """
        seed 93049111
        b0 = base(float32, (3, 3), grad=True)
        b1 = base(float32, (1,))
        before: fill_grad(b0, 0)
        r0 = grad_of(b0)
        r1 = transpose(r0, 0, 1)
        set_grad(b0, r1)
        setitem_slice(r1, 1, 1, 2, 1, b1)
    """,
    "an empty window of a typed view": """
        seed 80001541
        b0 = base(float32, (1,))
        b2 = base(float64, (1, 1, 2))
        r0 = view_dtype(b2, complex64)
        r1 = real(r0)
        r2 = empty_out(r1, 2, 1, b0, b0)
    """,
    "where with out= and no elements": """
        seed 3433
        b1 = base(float32, (0, 1))
        k0 = const(bool, [])
        where_(b1, k0, b1)
    """,
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", FOUND)
@pytest.mark.filterwarnings("ignore")
def test_found(name, mode):
    verdict = judge(parse(FOUND[name]).replace(mode=mode), Remote(shared_owner().device))
    assert verdict.kind == "same" and not verdict.refusals, verdict
