# SPDX-License-Identifier: Apache-2.0
"""Goal: the operations in an op's record are those that its definition asks for.

Method: ops of random sizes through `sojourn-opt --sojourn-price`, compared with formulas written here."""

from __future__ import annotations

import math
import pathlib
import random
import re
import subprocess

OPT = pathlib.Path(__file__).resolve().parents[2] / "build/bin/sojourn-opt"
SEED = random.SystemRandom().randrange(1 << 31)


def tensor(shape, element="f32"):
    return f"tensor<{''.join(f'{size}x' for size in shape)}{element}>"


def windows(dice):
    """Sizes, kernel and attributes of a sliding window that fits, one spatial dim each."""
    size, kernel, stride, dilation = dice.randint(1, 9), dice.randint(1, 4), dice.randint(1, 3), dice.randint(1, 2)
    padding = max(0, -(-(dilation * (kernel - 1) + 1 - size) // 2)) + dice.randint(0, 2)
    return size, kernel, stride, padding, dilation, (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1


def factors(count, rows, columns, call, times, made, results):
    """Of `count` matrices; `results`: elements of those of one."""
    steps = min(rows, columns)
    return count * (call + times * rows * columns * steps + results * (64 + made * steps))


def cases(dice):
    """(arguments, op, expected operations)"""
    a, b, c, d = (dice.randint(1, 9) for _ in range(4))
    n = a * b
    x = f"%x: {tensor([a, b])}"
    yield x, f"sojourn.tanh %x : {tensor([a, b])}", 4 * n
    yield x, f'sojourn.special "i0" %x : {tensor([a, b])}', 128 * n
    yield x, f'sojourn.special_binary "zeta" %x, %x : {tensor([a, b])}, {tensor([a, b])}', 131072 * n
    yield x, f"sojourn.mul %x, %x : {tensor([a, b])}, {tensor([a, b])}", n
    yield x, f"sojourn.convert %x : {tensor([a, b])} -> {tensor([a, b], 'f64')}", n
    yield x, f"sojourn.transpose %x, perm = [1, 0] : {tensor([a, b])}", n
    yield x, f"sojourn.broadcast %x, dims = [1, 2] : {tensor([a, b])} -> {tensor([c, a, b])}", c * n
    yield x, f"sojourn.concat %x, %x dim = 1 : {tensor([a, b])}, {tensor([a, b])}", 2 * n
    yield x, f"sojourn.reduce_sum %x, dims = [1] : {tensor([a, b])}", 4 * n + a
    yield x, f"sojourn.argmax %x, dim = 0 : {tensor([a, b])}", n + b
    yield x, f"sojourn.cumsum %x, dim = 0 : {tensor([a, b])}", 16 * n
    yield x, f"sojourn.sort %x, dim = 1, descending = true : {tensor([a, b])}", 4 * n * (1 + math.ceil(math.log2(b)))
    i = f"{x}, %i: {tensor([c], 'i64')}"
    yield i, f"sojourn.take %x, %i, dim = 0 : {tensor([a, b])}, {tensor([c], 'i64')}", c * b
    i = f"{x}, %i: {tensor([a, c], 'i64')}, %u: {tensor([a, c])}"
    yield i, f"sojourn.take_along %x, %i, dim = 1 : {tensor([a, b])}, {tensor([a, c], 'i64')}", 32 * a * c
    types = f"{tensor([a, b])}, {tensor([a, c], 'i64')}, {tensor([a, c])}"
    yield i, f'sojourn.put_along "add" %x, %i, %u, dim = 1 : {types}', n + 32 * a * c
    ab = f"%a: {tensor([d, a, b])}, %b: {tensor([d, b, c])}"
    dims = "lhs_batch = [0], rhs_batch = [0], lhs_contract = [2], rhs_contract = [1]"
    yield (
        ab,
        f"sojourn.dot %a, %b, {dims} : {tensor([d, a, b])}, {tensor([d, b, c])} -> {tensor([d, a, c])}",
        (2 * d * a * c * (b + 1)),
    )
    square = tensor([d, b, b])
    yield f"%x: {square}", f"sojourn.cholesky %x : {square}", factors(d, b, b, 64, 1, 0, b * b + 1)
    right = tensor([d, b, c])
    solve = f"sojourn.triangular_solve %a, %b, lower = true, unit = false : {square}, {right}"
    yield f"%a: {square}, %b: {right}", solve, d * (4096 + 8 * b * b + 2 * b * c * (8 + b))
    k = min(b, c)
    yield f"%x: {right}", f"sojourn.lu %x : {right}", factors(d, b, c, 4096, 1, 0, b * c + k + b + 1)
    full = f"sojourn.qr %x full = true : {right}"
    yield f"%x: {right}", full, factors(d, b, c, 8192, 4, 4, b * b + b * c)
    yield f"%x: {square}", f"sojourn.eigh %x : {square}", factors(d, b, b, 8192, 24, 0, b + b * b)
    thin = f"sojourn.svd %x full = false : {right}"
    yield f"%x: {right}", thin, factors(d, b, c, 8192, 32, 4, b * k + k + k * c)
    yield f"%x: {square}", f"sojourn.ldl %x hermitian = false : {square}", factors(d, b, b, 4096, 1, 0, b * b + b + 1)
    solve = f"sojourn.ldl_solve %a, %p, %b, hermitian = false : {square}, {tensor([d, b], 'i64')}, {right}"
    work = d * (16384 + 8 * b * b + 2 * b * c * (8 + b))
    yield f"%a: {square}, %p: {tensor([d, b], 'i64')}, %b: {right}", solve, work
    yield f"%x: {square}", f"sojourn.eig %x : {square}", factors(d, b, b, 32768, 64, 0, b + b * b)
    empty = tensor([d, 0, c])
    yield f"%x: {empty}", f"sojourn.qr %x full = true : {empty}", 8192 * d
    number = tensor([a, b], "complex<f32>")
    yield f"%x: {number}", f"sojourn.parts %x : {number}", 2 * n
    yield f"%x: {tensor([a, b, 2])}", f"sojourn.complex %x : {tensor([a, b, 2])}", 2 * n
    yield f"%x: {number}", f"sojourn.fft_c2c %x, dims = [1], inverse = true : {number}", 160 * n
    yield x, f"sojourn.fft_r2c %x, dims = [0, 1] : {tensor([a, b])}", 96 * (n + a * (b // 2 + 1))
    whole = f"sojourn.fft_c2r %x, dims = [1, 0], size = {2 * a - 1} : {number}"
    yield f"%x: {number}", whole, 96 * (n + (2 * a - 1) * b)
    size, kernel, stride, padding, dilation, out = windows(dice)
    groups = dice.choice([1, 2])
    image, weight, result = [a, 2 * b, size], [2 * c, 2 * b // groups, kernel], [a, 2 * c, out]
    attributes = f"stride = [{stride}], padding = [{padding}], dilation = [{dilation}]"
    elements = [math.prod(shape) for shape in (image, weight, result)]
    # Small single images and few channels go through columns.
    columns = weight[1] * kernel * out if a == 1 or weight[1] <= 3 else 0
    work = 2 * elements[2] * weight[1] * kernel + 16 * elements[1] + groups * (4096 + 256 * a + 8 * a * columns)
    moved = elements[0] + elements[2]
    every = f"%x: {tensor(image)}, %w: {tensor(weight)}, %g: {tensor(result)}"
    convolve = f"sojourn.conv %x, %w, {attributes}, groups = {groups} : {tensor(image)}, {tensor(weight)}"
    yield every, convolve, work + 4 * moved
    types = f"{tensor(result)}, {tensor(weight)} -> {tensor(image)}"
    yield every, f"sojourn.conv_grad_input %g, %w, {attributes}, groups = {groups} : {types}", work + 16 * moved
    types = f"{tensor(result)}, {tensor(image)} -> {tensor(weight)}"
    yield every, f"sojourn.conv_grad_weight %g, %x, {attributes}, groups = {groups} : {types}", work + 4 * moved
    pool = f"sojourn.pool_sum %x, window = [{kernel}], {attributes} : {tensor(image)}"
    yield every, pool, a * 2 * b * out * (1 + min(kernel, size))
    yield "%s: tensor<i64>", f"sojourn.rng_normal %s, stream = 1 : {tensor([a, b])}", 16 * n


def results_of(op):
    counts = {"sort": 2, "cholesky": 2, "lu": 4, "qr": 2, "ldl": 3, "eigh": 2, "eig": 2, "svd": 3}
    count = counts.get(op.split()[0].removeprefix("sojourn."), 1)
    return f"%y:{count}" if count > 1 else "%y"


def test_operations():
    print("seed", SEED)
    dice = random.Random(SEED)
    every = [case for _ in range(8) for case in cases(dice)]
    # One function is the step of its module; the remarks come in the order of the modules.
    modules = [
        f"func.func @step({arguments}) {{\n  {results_of(op)} = {op}\n  return\n}}\n" for arguments, op, _ in every
    ]
    done = subprocess.run(
        [OPT, "--split-input-file", "--sojourn-price"],
        input="\n// -----\n".join(modules), capture_output=True, text=True,
    )  # fmt: skip
    errors = [line for line in done.stderr.splitlines() if "error:" in line]
    assert done.returncode == 0, errors[:5]
    found = [int(number) for number in re.findall(r"remark: (\d+) operations, \d+ bytes of scratch\n", done.stderr)]
    assert len(found) == len(every), done.stderr[-2000:]
    wrong = [(op, number, expected) for (_, op, expected), number in zip(every, found) if number != expected]
    assert not wrong, wrong[:5]
