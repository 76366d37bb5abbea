# SPDX-License-Identifier: Apache-2.0
"""Receipts: a release and its price, signed by the owner of the data."""

from __future__ import annotations

import datetime
import json

import _sojourn

from . import notebook
from .checks import shown
from .errors import Error


class Receipt:
    """The owner's signed receipt for a release with a separate price.

    All fields are read from the signed bytes, `bytes(receipt)`; `Receipt(data)` reads such bytes again, for example
    from a file. `verify` checks the signature; until then a receipt is only a claim.

    - `what`: the released value
    - `client`: the owner's name for the client
    - `price`: a dict per dataset:

      - `dataset`, `version`
      - `owner`: key of the dataset's owner, because two owners may use one name; None in receipts of earlier releases
      - `epsilon`, `delta`: epsilon of the smallest grant that admits the release alone
      - `epsilon_of_best_order`: epsilon as other accountants quote it
      - `epsilon_replace_one`, `epsilon_replace_one_of_best_order`: upper bounds, for information, where one row may
        become any other row; None if unknown
    - `relation`: "null_one", where one row becomes the null row; it holds for budgets, `epsilon` and
      `epsilon_of_best_order`
    - `program`: hash of the program, hexadecimal
    - `entry`, `entry_hash`: number and hash of the ledger's entry
    - `time`: time of the release, UTC
    - `result_digest`: hash of the released bytes
    - `noise`: a dict per noise: `what`, and `sigma_int` and `sensitivity_int` in units of 2^`grid_exponent`
    - `notes`: limits of the price's guarantee
    """

    def __init__(self, data: bytes):
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise Error(
                f"a receipt is made of the bytes that an owner signed (bytes(receipt)), got {type(data).__name__}"
            )
        self._signed = bytes(data)
        fields = json.loads(_sojourn.receipt_text(self._signed))
        self.what: str = fields["what"]
        self.client: str = fields["client"]
        self.price: list[dict] = fields["price"]
        self.relation: str = fields["relation"]
        self.program: str = fields["program"]
        self.entry: int = fields["entry"]
        self.entry_hash: str = fields["entry_hash"]
        self.result_digest: str = fields["result_digest"]
        self.noise: list[dict] = fields["noise"]
        self.notes: list[str] = fields["notes"]
        numbers = [item[name] for item in self.price for name in ("epsilon", "epsilon_of_best_order", "delta")]
        try:
            self.time = datetime.datetime.fromtimestamp(fields["time_ms"] / 1000, datetime.UTC)
            # JSON has null for what is no number; an owner writes none.
            good = None not in numbers and all(abs(noise["grid_exponent"]) <= 1000 for noise in self.noise)
        except (ValueError, OverflowError, OSError):
            good = False
        if not good:
            raise Error("these bytes are not a receipt that an owner signs: a number in them is out of range")

    def verify(self, owner_key: str) -> bool:
        """Returns True if the owner with this key signed the receipt and owns every dataset in `price`; else raises
        `Error`.

        `owner_key`: the 64 hexadecimal digits that `sojourn-owner key` prints. Get them from the data owner, not from
        the receipt; `owner.key` is the key of the connection.
        """
        if not isinstance(owner_key, str):
            raise Error(f"owner_key must be the owner's key as a str, got {shown(owner_key)}")
        _sojourn.verify_receipt(self._signed, owner_key)
        return True

    def __bytes__(self) -> bytes:
        return self._signed

    def __eq__(self, other) -> bool:
        return isinstance(other, Receipt) and self._signed == other._signed

    def __hash__(self) -> int:
        return hash(self._signed)

    def __repr__(self) -> str:
        return "\n".join([self._title(), *(f"  {label:9}{text}" for label, text in self._rows())])

    def _repr_html_(self) -> str:
        return notebook.table(self._title(), self._rows())

    def _title(self) -> str:
        return f"receipt for {self.what}, released to '{self.client}' on {self.time:%Y-%m-%d %H:%M:%S} UTC"

    def _rows(self) -> list[tuple[str, str]]:
        rows = []
        for item in self.price:
            paid = (
                f"epsilon {item['epsilon']:.4g} at delta {item['delta']:g} ({self.relation}) from "
                f"'{item['dataset']}', version {item['version']}"
            )
            replaced = [item[f"epsilon_replace_one{which}"] for which in ("", "_of_best_order")]
            known = [f"{number:.4g}" if number is not None else "not known" for number in replaced]
            best = (
                f"by the best order epsilon {item['epsilon_of_best_order']:.4g}; where a row may become any "
                f"other row (replace_one) {known[0]}, by the best order {known[1]}"
            )
            rows += [("paid", paid), ("", best)]
        for owner in sorted({item["owner"] for item in self.price if item["owner"]}):
            rows.append(("owner", owner))
        for noise in self.noise:
            scale, moved = (noise[name] * 2.0 ** noise["grid_exponent"] for name in ("sigma_int", "sensitivity_int"))
            rows.append(("noise", f"of scale {scale:.4g}, where one row moves the value by at most {moved:.4g}"))
        rows += [("program", self.program), ("ledger", f"entry {self.entry}, {self.entry_hash}")]
        return rows + [("note", note) for note in self.notes]
