# SPDX-License-Identifier: Apache-2.0
"""Programs of one op, as build/bin/measure-ops reads them."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass
class Case:
    """A program of one op. Arguments are (type, fill), where a fill is a number or LEAST:MOST, or a table's rows."""

    name: str
    arguments: list[tuple[str, str]]
    op: str
    results: list[str]
    quick: bool = False  # also in the short run
    before: str = ""  # ops that make what the op takes

    def text(self):
        kinds = ["table" if "table" in kind else "upload" for kind, _ in self.arguments]
        arguments = ", ".join(
            f'%{number}: {kind} {{sojourn.kind = "{word}"}}'
            for number, ((kind, _), word) in enumerate(zip(self.arguments, kinds))
        )
        names = [f"%r#{number}" for number in range(len(self.results))] if len(self.results) > 1 else ["%r"]
        made = f"%r:{len(self.results)}" if len(self.results) > 1 else "%r"
        outs = ", ".join(f'{kind} {{sojourn.result = "publish"}}' for kind in self.results)
        fills = " ".join(fill for _, fill in self.arguments)
        return (
            f'{self.name} {fills}\nmodule attributes {{sojourn.phase = "core", sojourn.promotion = "torch"}} {{\n'
            f"func.func @step({arguments}) -> ({outs}) {{\n{self.before}{made} = {self.op}\n"
            f"return {', '.join(names)} : {', '.join(self.results)}\n}}\n}}\nend\n"
        )


def t(shape, element="f32"):
    return f"tensor<{''.join(f'{size}x' for size in shape)}{element}>"
