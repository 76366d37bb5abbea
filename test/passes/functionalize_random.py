# SPDX-License-Identifier: Apache-2.0
"""Goal: views and writes mean after the passes what they mean in eager torch.
Method: random chains of views and in-place calls run on CPU tensors while their captured form is written down; the
core form that `sojourn-opt` makes of it is evaluated here with NumPy and compared exactly. The seed is printed."""

import random
import re
import subprocess
import sys

import numpy as np
import torch

DTYPES = {"f32": np.float32, "f64": np.float64, "i64": np.int64, "i1": np.bool_}


def ref(tensor):
    shape = "x".join(map(str, tensor.shape)) + ("x" if tensor.dim() else "")
    layout = f", strides = {list(tensor.stride())}, offset = {tensor.storage_offset()}"
    return f"!sojourn.ref<{shape}f32{layout}>"


class Capture:
    """Runs each step on real tensors and writes the captured form of it."""

    def __init__(self, rng):
        self.rng, self.lines, self.values, self.count = rng, [], [], 0
        self.roots = []

    def root(self):
        shape = [self.rng.choice([1, 2, 3, 4, 5, 6]) for _ in range(self.rng.randint(0, 4))]
        dense = torch.randint(0, 50, shape).to(torch.float32)
        perm = list(range(len(shape)))
        if self.rng.random() < 0.4:
            self.rng.shuffle(perm)
        tensor = dense.permute(perm)
        self.values.append((f"%a{len(self.roots)}", tensor))
        self.roots.append((tensor, tensor.clone()))

    def fresh(self):
        self.count += 1
        return f"%v{self.count}"

    def view(self):
        name, x = self.rng.choice(self.values)
        rng, n = self.rng, x.dim()
        try:
            kind = rng.choice(
                [
                    "select",
                    "slice",
                    "permute",
                    "view",
                    "unsqueeze",
                    "squeeze",
                    "expand",
                    "diagonal",
                    "unfold",
                    "flatten",
                    "strided",
                    "chunk",
                ]
            )
            d = rng.randrange(n) if n else 0
            size = x.shape[d] if n else 0
            if kind == "select":
                y = x.select(d, rng.randrange(size))
            elif kind == "slice":
                start = rng.randint(0, size)
                y = x[(slice(None),) * d + (slice(start, rng.randint(start, size), rng.choice([1, 1, 2, 3])),)]
            elif kind == "permute":
                perm = list(range(n))
                rng.shuffle(perm)
                y = x.permute(perm)
            elif kind == "view":
                total, dims = x.numel(), []
                while total > 1:
                    factor = rng.choice([f for f in range(2, total + 1) if total % f == 0])
                    dims.append(factor)
                    total //= factor
                rng.shuffle(dims)
                y = x.view(dims)
            elif kind == "unsqueeze":
                y = x.unsqueeze(rng.randint(0, n))
            elif kind == "squeeze":
                y = x.squeeze()
            elif kind == "expand":
                y = x.unsqueeze(0).expand([rng.randint(2, 3)] + list(x.shape))
            elif kind == "diagonal":
                first, second = rng.sample(range(n), 2)
                y = x.diagonal(rng.randint(-2, 2), first, second)
            elif kind == "unfold":
                length = rng.randint(1, size)
                y = x.unfold(d, length, rng.randint(1, 4))
            elif kind == "flatten":
                y = x.view(-1)
            elif kind == "strided":
                sizes = [rng.randint(1, 3) for _ in range(rng.randint(1, 3))]
                strides = [rng.randint(0, 5) for _ in sizes]
                y = x.as_strided(sizes, strides, rng.randrange(x.untyped_storage().nbytes() // 4))
            else:
                y = rng.choice(x.chunk(rng.randint(1, 3), d))
        except (RuntimeError, IndexError, ValueError):
            return  # Not possible on this tensor.
        if y.dim() > 6 or y.numel() > 500:
            return
        result = self.fresh()
        self.lines.append(f"{result} = sojourn.view {name} : {ref(x)} -> {ref(y)}")
        self.values.append((result, y))

    def call(self, op, args, names, types, mutates, result=None):
        operands = ", ".join(name for name, _ in args)
        attributes = ", ".join(types)
        line = (
            f'sojourn.aten "aten.{op}"({operands}) {{args = [{attributes}], names = {names}'
            f"{', mutates = array<i64: 0>' if mutates else ''}}} : ({', '.join(ref(t) for _, t in args)}) -> "
        )
        if result is None:
            self.lines.append(line + "()")
        else:
            name = self.fresh()
            self.lines.append(f"{name} = {line}{ref(result)}")
            self.values.append((name, result))

    def write(self):
        name, x = self.rng.choice(self.values)
        places = list(np.ndindex(*x.shape))
        where = {x.storage_offset() + sum(i * s for i, s in zip(p, x.stride())) for p in places}
        if len(where) != len(places):
            return  # Overlapping places: what eager leaves there depends on its loop order.
        before = [t.clone() for t, _ in self.roots]
        kind = self.rng.choice(["fill", "add", "copy", "zero"])
        other, y = self.rng.choice(self.values)
        same = (x.shape, x.stride(), x.storage_offset()) == (y.shape, y.stride(), y.storage_offset())
        if kind in ("add", "copy") and torch._C._overlaps(x, y) and not same:
            return  # Partly read and partly written: eager refuses what it notices, the rest is loop order.
        try:
            if kind == "fill":
                x.fill_(7)
                self.call("fill_.Scalar", [(name, x)], '["self", "value"]', ["#sojourn.operand<0>", "7"], True)
            elif kind == "zero":
                x.zero_()
                self.call("zero_", [(name, x)], '["self"]', ["#sojourn.operand<0>"], True)
            elif kind == "add":
                x.add_(y)
                self.call(
                    "add_.Tensor",
                    [(name, x), (other, y)],
                    '["self", "other", "alpha"]',
                    ["#sojourn.operand<0>", "#sojourn.operand<1>", "1"],
                    True,
                )
            else:
                x.copy_(y)
                self.call(
                    "copy_",
                    [(name, x), (other, y)],
                    '["self", "src", "non_blocking"]',
                    ["#sojourn.operand<0>", "#sojourn.operand<1>", "false"],
                    True,
                )
        except RuntimeError:
            for (tensor, _), old in zip(self.roots, before):
                tensor.copy_(old)

    def read(self):
        (first, x), (second, y) = self.rng.choice(self.values), self.rng.choice(self.values)
        try:
            z = x + y
        except RuntimeError:
            return
        if z.numel() <= 500 and z.dim() <= 6:
            self.call(
                "add.Tensor",
                [(first, x), (second, y)],
                '["self", "other", "alpha"]',
                ["#sojourn.operand<0>", "#sojourn.operand<1>", "1"],
                False,
                z,
            )

    def module(self):
        states = ", ".join(f'%a{i}: {ref(t)} {{sojourn.kind = "state"}}' for i, (t, _) in enumerate(self.roots))
        kept = self.rng.sample(self.values, min(6, len(self.values)))
        types = ", ".join(f'{ref(t)} {{sojourn.result = "publish"}}' for _, t in kept)
        body = "\n  ".join(
            self.lines + [f"return {', '.join(n for n, _ in kept)} : {', '.join(ref(t) for _, t in kept)}"]
        )
        text = (
            f'module attributes {{sojourn.phase = "captured", sojourn.promotion = "torch"}} {{\n'
            f"func.func @step({states}) -> ({types}) {{\n  {body}\n}}\n}}\n"
        )
        return text, [t.clone().numpy() for _, t in kept]


def numbers(text, key):
    return [int(v) for v in re.search(rf"{key} = \[([^\]]*)\]", text).group(1).split(",") if v.strip()]


def tensor_type(text):
    *dims, element = re.fullmatch(r"tensor<(.*)>", text).group(1).split("x")
    return [int(d) for d in dims], DTYPES[element]


def evaluate(text, inputs):
    values = {f"%arg{i}": v for i, v in enumerate(inputs)}
    for line in text.splitlines():
        line = line.strip()
        if line.startswith("return"):
            return [values[n] for n in re.findall(r"%\w+", line)]
        match = re.fullmatch(r"(%\w+) = sojourn\.(\w+) (.*) : (.*)", line) or re.fullmatch(
            r"(%\w+) = sojourn\.(constant) (.*) : (.*)", line
        )
        if not match:
            continue
        target, op, rest, types = match.groups()
        operands = [values[n] for n in re.findall(r"%\w+", rest)]
        shape, dtype = tensor_type(types.split(" -> ")[-1].split(", ")[0]) if "tensor" in types else ([], DTYPES[types])
        if op == "constant":
            value = (
                np.array({"true": True, "false": False}.get(rest, rest), dtype=dtype)
                if rest in ("true", "false")
                else np.array(float(rest)).astype(dtype)
            )
        elif op == "reshape":
            value = operands[0].reshape(shape)
        elif op == "transpose":
            value = operands[0].transpose(numbers(rest, "perm"))
        elif op == "slice":
            value = operands[0][
                tuple(map(slice, numbers(rest, "start"), numbers(rest, "limit"), numbers(rest, "stride")))
            ]
        elif op == "update_slice":
            value, update = operands[0].copy(), operands[1]
            region = [
                slice(s, s + (n - 1) * t + 1 if n else s, t)
                for s, t, n in zip(numbers(rest, "start"), numbers(rest, "stride"), update.shape)
            ]
            value[tuple(region)] = update
        elif op == "broadcast":
            dims = numbers(rest, "dims")
            wide = [1] * len(shape)
            for d, size in zip(dims, operands[0].shape):
                wide[d] = size
            value = np.broadcast_to(operands[0].reshape(wide), shape)
        elif op == "iota":
            d = int(re.search(r"dim = (\d+)", rest).group(1))
            value = np.broadcast_to(
                np.arange(shape[d], dtype=dtype).reshape([-1 if i == d else 1 for i in range(len(shape))]), shape
            )
        elif op == "take":
            value = operands[0][operands[1]]
        elif op == "put":
            value = operands[0].copy()
            value[operands[1]] = operands[2]
        elif op == "convert":
            value = operands[0].astype(dtype)
        elif op in ("add", "mul", "sub"):
            value = {"add": np.add, "mul": np.multiply, "sub": np.subtract}[op](*operands)
        else:
            raise NotImplementedError(line)
        values[target] = value
    raise ValueError("no return")


def check(seed):
    rng = random.Random(seed)
    torch.manual_seed(seed)
    capture = Capture(rng)
    for _ in range(rng.randint(1, 3)):
        capture.root()
    for _ in range(30):
        rng.choice([capture.view, capture.view, capture.view, capture.write, capture.write, capture.read])()
    text, expected = capture.module()
    run = subprocess.run(["sojourn-opt", "--sojourn-to-core"], input=text, capture_output=True, text=True)
    expanded_write = "several elements share one position" in run.stderr
    if expanded_write:
        return 0, text
    assert run.returncode == 0, (seed, run.stderr, text)
    results = evaluate(run.stdout, [np.ascontiguousarray(old.numpy()) for _, old in capture.roots])
    commits = [int(t) for t in re.findall(r"sojourn.target = (\d+)", run.stdout)]
    expected += [capture.roots[i][0].numpy() for i in commits]
    untouched = set(range(len(capture.roots))) - set(commits)
    assert all(torch.equal(*capture.roots[i]) for i in untouched), (seed, "a write was not committed", text)
    assert len(results) == len(expected), (seed, text)
    for i, (found, wanted) in enumerate(zip(results, expected)):
        np.testing.assert_array_equal(found, wanted, err_msg=f"seed {seed}, result {i}\n{text}\n{run.stdout}")
    return run.stdout.count("sojourn.take") + run.stdout.count("sojourn.put"), text


if __name__ == "__main__":
    runs = int(sys.argv[1])
    first = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(1 << 30)
    print(f"seeds {first} to {first + runs - 1}")
    general = sum(check(seed)[0] for seed in range(first, first + runs))
    print(f"{runs} traces agree with eager torch; {general} general takes and puts")
