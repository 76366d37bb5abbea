# SPDX-License-Identifier: Apache-2.0
"""Runs a parsed module on CPU tensors: captured form with real aliasing, the others as values."""

import torch

from . import core
from .ir import Ref


def lstm_cell(input_gates, hidden_gates, cx, input_bias=None, hidden_bias=None):
    """`_thnn_fused_lstm_cell`, which CPU lacks; workspace: the activated gates i, f, g, o."""
    gates = input_gates + hidden_gates
    if input_bias is not None:
        gates = gates + input_bias + hidden_bias
    i, f, g, o = gates.chunk(4, 1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    cy = f * cx + i * g
    return o * cy.tanh(), cy, torch.cat([i, f, g, o], 1)


def lstm_cell_backward(cx, cy, workspace, has_bias, grad_hy=None, grad_cy=None):
    i, f, g, o = workspace.chunk(4, 1)
    grad_hy = torch.zeros_like(cx) if grad_hy is None else grad_hy
    grad_cy = torch.zeros_like(cx) if grad_cy is None else grad_cy
    tanh = cy.tanh()
    grad_c = grad_cy + grad_hy * o * (1 - tanh * tanh)
    gates = [
        grad_c * g * i * (1 - i),
        grad_c * cx * f * (1 - f),
        grad_c * i * (1 - g * g),
        grad_hy * tanh * o * (1 - o),
    ]
    gates = torch.cat(gates, 1)
    return gates, grad_c * f, gates.sum(0) if has_bias else None


def network(input, weight, hx, mode, num_layers, bidirectional, weight_stride0, cx=None, train=False, **others):
    """`_cudnn_rnn`, which CPU lacks; it keeps nothing for its gradient, which runs it again."""
    function = [torch.rnn_relu, torch.rnn_tanh, torch.lstm, torch.gru][mode]
    states = [hx, cx] if mode == 2 else hx
    results = function(input, states, weight, weight_stride0 == 4, num_layers, 0.0, False, bidirectional, False)
    kept = torch.zeros(hx.shape[0], *input.shape[:2], [1, 1, 6, 5][mode] * hx.shape[2]).to(input)
    return results[0], results[1], results[2] if mode == 2 else None, kept if train else None, None


def network_backward(input, weight, hx, cx=None, grad_output=None, grad_hy=None, grad_cy=None, **others):
    leaves = [None if t is None else t.detach().requires_grad_() for t in (input, hx, cx, *weight)]
    with torch.enable_grad():
        results = network(leaves[0], leaves[3:], leaves[1], cx=leaves[2], **others)
        pairs = [(y, g) for y, g in zip(results, (grad_output, grad_hy, grad_cy)) if g is not None]
        wanted = [leaf for leaf in leaves if leaf is not None]
        found = torch.autograd.grad([y for y, _ in pairs], wanted, [g for _, g in pairs], materialize_grads=True)
    found = iter(found)
    return [None if leaf is None else next(found) for leaf in leaves]


MISSING_ON_CPU = {
    "_cudnn_rnn": network,
    "_cudnn_rnn_backward": network_backward,
    "_thnn_fused_lstm_cell": lstm_cell,
    "_thnn_fused_lstm_cell_backward_impl": lstm_cell_backward,
}


def _overload(name, arguments):
    """The functional overload whose schema takes these arguments: by name, and numbers as numbers."""
    base, _, wanted = name.removeprefix("aten.").partition(".")
    packet = getattr(torch.ops.aten, base)
    candidates = [getattr(packet, overload) for overload in packet.overloads()]
    candidates.sort(key=lambda found: found._overloadname != wanted)
    for found in candidates:
        types = {argument.name: str(argument.type) for argument in found._schema.arguments}
        if any(a.is_out and a.name not in arguments for a in found._schema.arguments) or not set(arguments) <= set(
            types
        ):
            continue
        fits = True
        for name_, value in arguments.items():
            if isinstance(value, torch.Tensor) != ("Tensor" in types[name_]) and not isinstance(value, list):
                fits = isinstance(value, torch.Tensor) and value.dim() == 0 and fits
        if fits:
            return found
    raise AssertionError(f"no functional overload for {name}({', '.join(arguments)})")


def _number(value):
    return value.item() if isinstance(value, torch.Tensor) else value


def _call(op, values):
    """Fresh results, then the new values of mutated operands if they are values."""
    attrs = op.attrs
    base = attrs["name"].removeprefix("aten.").partition(".")[0]
    arguments = {}
    for name, entry in zip(attrs["names"], attrs["args"]):
        if entry is not None:
            arguments[name] = _bind(entry, values)
    if base in MISSING_ON_CPU:
        return list(MISSING_ON_CPU[base](**arguments))
    function = _overload(attrs["name"], arguments)
    schema = function._schema
    for argument in schema.arguments:
        kind = str(argument.type)
        if argument.name in arguments and ("number" in kind or kind in ("float", "Optional[float]")):
            value = arguments[argument.name]
            arguments[argument.name] = [_number(v) for v in value] if isinstance(value, list) else _number(value)
        elif argument.name not in arguments and not argument.has_default_value() and "Optional" in kind:
            arguments[argument.name] = None
    if attrs["name"].startswith("aten.ones_like") and "dtype" not in arguments:
        arguments["dtype"] = op.types[0].dtype
    result = function(**arguments)
    results = list(result) if isinstance(result, (tuple, list)) else [] if result is None else [result]
    fresh = [r for r, info in zip(results, schema.returns) if info.alias_info is None or not info.alias_info.is_write]
    if len(schema.returns) == 1 and isinstance(result, (tuple, list)):
        fresh = results
    return fresh


def _bind(entry, values):
    if isinstance(entry, Ref):
        return values[entry.index]
    if isinstance(entry, list):
        return [_bind(item, values) for item in entry]
    return entry


def _laid_out(value, type_):
    """A fresh result in the layout that was recorded, which views of it count in."""
    strides = type_.strides or torch.empty(type_.shape, device="meta").stride()
    root = torch.empty_strided(type_.shape, strides, dtype=type_.dtype)
    return root.copy_(value)


class Replay:
    """`inputs`: one CPU value per argument (float for scalars)."""

    def __init__(self, function, inputs):
        self.function = function
        self.env = {}
        self.roots = {}
        for (name, kind, _), value in zip(function.arguments, inputs):
            if kind.kind == "ref":
                strides = kind.strides or torch.empty(kind.shape, device="meta").stride()
                root = torch.empty_strided(kind.shape, strides, dtype=kind.dtype)
                root.copy_(value)
                self.env[name] = root
            elif kind.kind == "tensor":
                self.env[name] = torch.as_tensor(value).to(kind.dtype).clone()
            else:
                self.env[name] = value

    def run(self):
        with torch.no_grad():
            for op in self.function.ops:
                values = [self.env[name] for name in op.operands]
                for name, type_, value in zip(op.results, op.types, self._results(op, values)):
                    if type_.kind == "tensor":
                        assert tuple(value.shape) == type_.shape, (op, value.shape)
                        value = value.to(type_.dtype)
                    elif type_.kind == "ref" and op.name != "view":
                        value = _laid_out(value, type_)
                    self.env[name] = value
        return [self.env[name] for name in self.function.returned]

    def _results(self, op, values):
        if op.name == "view":
            type_ = op.types[0]
            strides = type_.strides or torch.empty(type_.shape, device="meta").stride()
            return [values[0].as_strided(type_.shape, strides, type_.offset)]
        if op.name in ("alloc", "load"):
            return [values[0].clone()]
        if op.name != "aten":
            result = core.KERNELS[op.name](op, *values)
            return list(result) if isinstance(result, tuple) else [result]
        written = op.attrs.get("sojourn.mutated") or []
        if op.attrs["name"] == "aten.native_batch_norm" and len(op.results) == 5:
            written = [ref.index for ref in op.attrs["args"][3:5]]  # after promotion the note is gone
        if written:
            # A functional op may still write through its schema (batch norm's statistics).
            values = [v.clone() if i in written else v for i, v in enumerate(values)]
        results = _call(op, values)
        return results + [values[i] for i in written if len(results) < len(op.results)]
