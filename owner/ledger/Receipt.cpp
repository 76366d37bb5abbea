// SPDX-License-Identifier: Apache-2.0
// Receipts as bytes and as JSON.
#include "owner/ledger/Receipt.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

namespace sojourn::owner::ledger {

/// Before every receipt: what it is, and the version of its fields.
static constexpr std::string_view kMagic("SJRC\1", 5);
static constexpr std::string_view kSigned = "sojourn receipt";

std::string signReceipt(const Receipt &receipt, const SigningKey &key) {
  Receipt cut = receipt;
  cut.what.resize(std::min(cut.what.size(), kTextBytesMost));
  for (std::string &note : cut.notes) {
    note.resize(std::min(note.size(), kTextBytesMost));
  }
  Writer writer;
  writer.bytes = kMagic;
  writer(cut);
  Signature signature = key.sign(kSigned, writer.bytes);
  return writer.bytes.append(signature.begin(), signature.end());
}

Result<Receipt> verifyReceipt(std::string_view bytes, const PublicKey &owner) {
  Signature signature;
  if (bytes.size() < kMagic.size() + signature.size() || bytes.substr(0, kMagic.size()) != kMagic) {
    return problem(Code::damaged, "these bytes are not a receipt of this release");
  }
  std::string_view body = bytes.substr(0, bytes.size() - signature.size());
  std::memcpy(signature.data(), bytes.data() + body.size(), signature.size());
  if (!isSigned(owner, kSigned, body, signature)) {
    return problem(Code::damaged, "the receipt is not signed by this owner, or was changed");
  }
  Reader reader(body.substr(kMagic.size()));
  Receipt receipt;
  reader(receipt);
  if (!reader.done()) {
    return problem(Code::damaged, "the receipt is signed by this owner, but not one of this release");
  }
  return receipt;
}

std::string receiptJson(const Receipt &receipt, std::string_view signedBytes, const PublicKey &owner) {
  using Json = nlohmann::ordered_json;
  Json items = Json::array(), sites = Json::array();
  for (const ReceiptItem &item : receipt.items) {
    items.push_back({{"dataset", item.dataset},
                     {"version", item.version},
                     {"epsilon", item.epsilon},
                     {"epsilon_of_best_order", item.epsilonOfBestOrder},
                     {"delta", item.delta}});
  }
  for (const Site &site : receipt.sites) {
    sites.push_back({{"what", site.what},
                     {"sigma_int", site.sigmaInt},
                     {"sensitivity_int", site.sensitivityInt},
                     {"grid_exponent", site.gridExponent}});
  }
  Json json = {{"what", receipt.what},
               {"client", receipt.client},
               {"price", items},
               {"relation", relationName(receipt.relation)},
               {"program", hex(receipt.programHash)},
               {"entry", receipt.seq},
               {"entry_hash", hex(receipt.entryHash)},
               {"time_ms", receipt.timeMs},
               {"result_digest", hex(receipt.resultDigest)},
               {"noise", sites},
               {"notes", receipt.notes},
               {"owner_key", hex(std::string_view(reinterpret_cast<const char *>(owner.data()), owner.size()))},
               {"signed", hex(signedBytes)}};
  // Texts come from scientists: bytes that are not UTF-8 must not throw.
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

} // namespace sojourn::owner::ledger
