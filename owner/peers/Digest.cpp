// SPDX-License-Identifier: Apache-2.0
// Fields one after another, each with its length, so that no two messages have the same bytes.
#include "owner/peers/Digest.h"

#include <sodium.h>

#include <bit>

namespace sojourn::owner {

namespace {

class Hasher {
public:
  explicit Hasher(std::string_view domain) {
    crypto_generichash_init(&state, nullptr, 0, sizeof(MessageDigest));
    add(domain);
  }
  void add(const void *bytes, size_t size) {
    number(size);
    crypto_generichash_update(&state, static_cast<const unsigned char *>(bytes), size);
  }
  void add(std::string_view text) { add(text.data(), text.size()); }
  void number(uint64_t value) {
    crypto_generichash_update(&state, reinterpret_cast<const unsigned char *>(&value), sizeof(value));
  }
  void number(double value) { number(std::bit_cast<uint64_t>(value)); }
  template <class T>
  void vector(const flatbuffers::Vector<T> *values) {
    values ? add(values->Data(), values->size() * sizeof(T)) : add("");
  }
  void text(const flatbuffers::String *from) { add(from ? from->string_view() : std::string_view()); }
  template <class T, class Each>
  void list(const flatbuffers::Vector<flatbuffers::Offset<T>> *items, Each each) {
    const flatbuffers::uoffset_t count = items ? items->size() : 0;
    number(uint64_t{count});
    for (flatbuffers::uoffset_t at = 0; at < count; ++at) {
      each(*items->Get(at));
    }
  }
  std::array<uint8_t, 32> finish() {
    std::array<uint8_t, 32> hash{};
    crypto_generichash_final(&state, hash.data(), hash.size());
    return hash;
  }

private:
  crypto_generichash_state state{};
};

void addUploads(Hasher &hasher, const flatbuffers::Vector<flatbuffers::Offset<sojourn_wire::Tensor>> *uploads) {
  hasher.list(uploads, [&](const sojourn_wire::Tensor &tensor) {
    hasher.number(uint64_t{tensor.element()});
    hasher.vector(tensor.dims());
    hasher.vector(tensor.data());
    hasher.number(tensor.sent_ahead());
  });
}

} // namespace

MessageDigest digestOf(const sojourn_wire::Step &message) {
  Hasher hasher("sojourn joint step 1");
  hasher.number(message.sequence());
  hasher.number(message.attempt());
  hasher.vector(message.program_hash());
  hasher.vector(message.states());
  addUploads(hasher, message.uploads());
  for (const auto *numbers : {message.slots(), message.seeds(), message.results(), message.releases()}) {
    hasher.vector(numbers);
  }
  hasher.list(message.tables(), [&](const sojourn_wire::TableBinding &table) {
    hasher.text(table.name());
    hasher.text(table.version());
  });
  if (const auto *spending = message.spending()) {
    hasher.number(spending->run());
    hasher.number(spending->steps());
    hasher.number(spending->noise_multiplier());
    hasher.number(spending->clip());
    hasher.number(uint64_t{spending->per_layer()} << 1 | uint64_t{spending->loss_is_sum()});
    hasher.number(spending->metric_share());
    hasher.list(spending->releases(), [&](const sojourn_wire::ReleaseTerms &terms) {
      hasher.number(terms.bound());
      hasher.number(terms.epsilon());
      hasher.number(terms.delta());
      hasher.number(uint64_t{terms.continues()});
    });
  }
  hasher.list(message.repetitions(), [&](const sojourn_wire::Repetition &next) {
    addUploads(hasher, next.uploads());
    for (const auto *numbers : {next.states(), next.slots(), next.seeds(), next.results(), next.releases()}) {
      hasher.vector(numbers);
    }
  });
  hasher.number(message.deadline_ms());
  return hasher.finish();
}

GroupId groupIdOf(std::string_view nonce, std::string_view client, llvm::ArrayRef<signing::PublicKey> members) {
  Hasher hasher("sojourn group 1");
  hasher.add(nonce);
  hasher.add(client);
  for (const signing::PublicKey &member : members) {
    hasher.add(member.data(), member.size());
  }
  return hasher.finish();
}

} // namespace sojourn::owner
