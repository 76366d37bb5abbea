// SPDX-License-Identifier: Apache-2.0
// Receipts as bytes and as JSON.
#include "runtime/signing/Receipt.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

namespace sojourn::signing {

/// Before every receipt: what it is, and behind that the version of its fields. Version 1 did not say whose tables a
/// price is of; its other fields are those of version 2.
static constexpr std::string_view kMagic = "SJRC";
static constexpr char kFirstVersion = 1, kVersion = 2;
static constexpr size_t kHeadBytes = kMagic.size() + 1;
static constexpr std::string_view kSigned = "sojourn receipt";

std::string signReceipt(const Receipt &receipt, const SigningKey &key) {
  Receipt cut = receipt;
  cut.what.resize(std::min(cut.what.size(), kTextBytesMost));
  for (std::string &note : cut.notes) {
    note.resize(std::min(note.size(), kTextBytesMost));
  }
  Writer writer;
  writer.bytes = kMagic;
  writer.bytes += kVersion;
  writer(cut);
  Signature signature = key.sign(kSigned, writer.bytes);
  return writer.bytes.append(signature.begin(), signature.end());
}

static Problem notAReceipt() { return problem(Code::damaged, "these bytes are not a receipt of this release"); }

/// The bytes before the signature, and the signature; nothing if they are too few, or begin otherwise.
static std::optional<std::string_view> split(std::string_view bytes, Signature &signature) {
  if (bytes.size() < kHeadBytes + signature.size() || bytes.substr(0, kMagic.size()) != kMagic) {
    return std::nullopt;
  }
  if (char version = bytes[kMagic.size()]; version < kFirstVersion || version > kVersion) {
    return std::nullopt;
  }
  std::string_view body = bytes.substr(0, bytes.size() - signature.size());
  std::memcpy(signature.data(), bytes.data() + body.size(), signature.size());
  return body;
}

static std::optional<Receipt> receiptOf(std::string_view body) {
  bool saysOwners = body[kMagic.size()] != kFirstVersion;
  Reader reader(body.substr(kHeadBytes), saysOwners ? kEntryVersion : static_cast<uint8_t>(kOwnersSince - 1));
  Receipt receipt;
  reader(receipt);
  return reader.done() ? std::optional(std::move(receipt)) : std::nullopt;
}

Result<Receipt> verifyReceipt(std::string_view bytes, const PublicKey &owner) {
  Signature signature;
  std::optional<std::string_view> body = split(bytes, signature);
  if (!body) {
    return notAReceipt();
  }
  if (!isSigned(owner, kSigned, *body, signature)) {
    return problem(Code::damaged, "the receipt is not signed by this owner, or was changed");
  }
  std::optional<Receipt> receipt = receiptOf(*body);
  if (!receipt) {
    return problem(Code::damaged, "the receipt is signed by this owner, but has a format unknown to this release");
  }
  bool saysOwners = (*body)[kMagic.size()] != kFirstVersion;
  for (const ReceiptItem &item : receipt->items) {
    // What another owner's people pay is in that owner's ledger, and only it can say so.
    if (saysOwners && item.owner != owner) {
      return problem(Code::damaged, "the receipt is signed by this owner, " + shortKeyText(owner) +
                                        "..., but states a price of dataset '" + item.dataset + "' of another owner, " +
                                        shortKeyText(item.owner) +
                                        "...; an owner signs only for its own tables: ask that owner for a receipt");
    }
  }
  return std::move(*receipt);
}

Result<Receipt> readReceipt(std::string_view bytes) {
  Signature signature;
  std::optional<std::string_view> body = split(bytes, signature);
  std::optional<Receipt> receipt = body ? receiptOf(*body) : std::nullopt;
  return receipt ? Result<Receipt>(std::move(*receipt)) : notAReceipt();
}

using Json = nlohmann::ordered_json;

static Json jsonOf(const Receipt &receipt) {
  Json items = Json::array(), sites = Json::array();
  for (const ReceiptItem &item : receipt.items) {
    items.push_back({{"dataset", item.dataset},
                     {"version", item.version},
                     {"owner", item.owner == PublicKey{} ? Json() : Json(keyText(item.owner))},
                     {"epsilon", item.epsilon},
                     {"epsilon_of_best_order", item.epsilonOfBestOrder},
                     {"epsilon_replace_one", item.epsilonReplaceOne},
                     {"epsilon_replace_one_of_best_order", item.epsilonReplaceOneOfBestOrder},
                     {"delta", item.delta}});
  }
  for (const Site &site : receipt.sites) {
    sites.push_back({{"what", site.what},
                     {"sigma_int", site.sigmaInt},
                     {"sensitivity_int", site.sensitivityInt},
                     {"grid_exponent", site.gridExponent}});
  }
  return {{"what", receipt.what},
          {"client", receipt.client},
          {"price", items},
          {"relation", relationName(receipt.relation)},
          {"program", hex(receipt.programHash)},
          {"entry", receipt.seq},
          {"entry_hash", hex(receipt.entryHash)},
          {"time_ms", receipt.timeMs},
          {"result_digest", hex(receipt.resultDigest)},
          {"noise", sites},
          {"notes", receipt.notes}};
}

/// Texts come from scientists: bytes that are not UTF-8 must not throw.
static std::string textOf(const Json &json) { return json.dump(2, ' ', false, Json::error_handler_t::replace); }

std::string receiptJson(const Receipt &receipt) { return textOf(jsonOf(receipt)); }

std::string receiptJson(const Receipt &receipt, std::string_view signedBytes, const PublicKey &owner) {
  Json json = jsonOf(receipt);
  json["owner_key"] = keyText(owner);
  json["signed"] = hex(signedBytes);
  return textOf(json);
}

} // namespace sojourn::signing
