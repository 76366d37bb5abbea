// SPDX-License-Identifier: Apache-2.0
// Receipts: what was released at which price, signed by the owner, for anyone to check.
#ifndef SOJOURN_RUNTIME_SIGNING_RECEIPT_H
#define SOJOURN_RUNTIME_SIGNING_RECEIPT_H

#include "runtime/signing/Bytes.h"
#include "runtime/signing/Problem.h"
#include "runtime/signing/Release.h"
#include "runtime/signing/SigningKey.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sojourn::signing {

/// The price for the people of one dataset. A receipt has one of each: a release that reads a dataset as two tables
/// has no price.
struct ReceiptItem {
  std::string dataset, version;
  /// Whose dataset it is. Zeros in receipts of version 1, which did not say: they were of the signing owner's.
  PublicKey owner;
  /// Of the smallest grant that admits it alone, and by the best Renyi order; under the receipt's relation, and where
  /// a row may become any other row (an upper bound); all at `delta`. Infinite where no grant would admit it.
  double epsilon = 0, epsilonOfBestOrder = 0, epsilonReplaceOne = 0, epsilonReplaceOneOfBestOrder = 0, delta = 0;
  static void fields(auto &archive, auto &item) {
    archive(item.dataset, item.version);
    if (archive.version >= kOwnersSince) {
      archive(item.owner);
    }
    archive(item.epsilon, item.epsilonOfBestOrder, item.epsilonReplaceOne, item.epsilonReplaceOneOfBestOrder,
            item.delta);
  }
  friend bool operator==(const ReceiptItem &, const ReceiptItem &) = default;
};

struct Receipt {
  std::string what, client;
  std::vector<ReceiptItem> items;
  Relation relation = Relation::nullOne;
  Hash programHash{};
  /// The ledger's entry that sealed the result, its place in the chain, and its time since the epoch.
  uint64_t seq = 0;
  Hash entryHash{};
  int64_t timeMs = 0;
  Hash resultDigest{};
  std::vector<Site> sites;
  /// For people: what the price does not cover.
  std::vector<std::string> notes;
  static void fields(auto &archive, auto &receipt) {
    archive(receipt.what, receipt.client, receipt.items, receipt.relation, receipt.programHash, receipt.seq,
            receipt.entryHash, receipt.timeMs, receipt.resultDigest, receipt.sites, receipt.notes);
  }
  friend bool operator==(const Receipt &, const Receipt &) = default;
};

/// Canonical bytes and, at their end, the signature. Equal receipts and keys give equal bytes. Texts
/// are cut to what a reader accepts.
std::string signReceipt(const Receipt &receipt, const SigningKey &key);
/// The receipt that this owner signed, of tables of its own alone; damaged if the bytes are not a receipt, or not
/// signed by it. Receipts of version 1 are read and checked, too.
Result<Receipt> verifyReceipt(std::string_view bytes, const PublicKey &owner);
/// Likewise without the signature's check: for showing what the bytes say, and for nothing else.
Result<Receipt> readReceipt(std::string_view bytes);
/// For people. Holds the signed bytes too, as hexadecimal digits: they alone can be checked.
std::string receiptJson(const Receipt &receipt, std::string_view signedBytes, const PublicKey &owner);
/// Likewise without naming a key: what a receipt's own bytes say.
std::string receiptJson(const Receipt &receipt);

} // namespace sojourn::signing

#endif // SOJOURN_RUNTIME_SIGNING_RECEIPT_H
