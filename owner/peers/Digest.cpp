// SPDX-License-Identifier: Apache-2.0
// Fields one after another, each with its length, so that no two messages have the same bytes.
#include "owner/peers/Digest.h"

#include "owner/RequestError.h"
#include "runtime/wire/Step.h"

#include <bit>

namespace sojourn::owner {

ContentDigest::ContentDigest() { crypto_generichash_init(&state, nullptr, 0, sizeof(MessageDigest)); }

void ContentDigest::add(const void *bytes, size_t size) {
  crypto_generichash_update(&state, static_cast<const unsigned char *>(bytes), size);
}

MessageDigest ContentDigest::get() const {
  ContentDigest copy = *this;
  MessageDigest digest{};
  crypto_generichash_final(&copy.state, digest.data(), digest.size());
  return digest;
}

namespace {

class Hasher {
public:
  /// Takes up to `most` bytes beside numbers.
  explicit Hasher(std::string_view domain, size_t most = SIZE_MAX) : left(most) { add(domain); }
  void add(const void *bytes, size_t size) {
    number(size);
    isFull |= size > left;
    left -= std::min(size, left);
    if (!isFull) {
      content.add(bytes, size);
    }
  }
  void add(std::string_view text) { add(text.data(), text.size()); }
  void number(uint64_t value) { content.add(&value, sizeof(value)); }
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
  bool isOverfull() const { return isFull; }
  MessageDigest finish() const { return content.get(); }

private:
  ContentDigest content;
  size_t left;
  bool isFull = false;
};

void addUploads(Hasher &hasher, const flatbuffers::Vector<flatbuffers::Offset<sojourn_wire::Tensor>> *uploads,
                llvm::function_ref<MessageDigest(uint64_t)> sentAhead) {
  hasher.list(uploads, [&](const sojourn_wire::Tensor &tensor) {
    hasher.number(uint64_t{tensor.element()});
    hasher.vector(tensor.dims());
    hasher.vector(tensor.data());
    hasher.number(tensor.sent_ahead());
    if (tensor.sent_ahead() != 0) {
      const MessageDigest content = sentAhead(tensor.sent_ahead());
      hasher.add(content.data(), content.size());
    }
  });
}

/// Of a Step or of a Repetition.
template <class Message>
void addIds(Hasher &hasher, const Message &message) {
  using sojourn::wire::HandleIds;
  for (const HandleIds &ids : {HandleIds::results(message), HandleIds::releases(message)}) {
    hasher.vector(ids.list());
    hasher.number(ids.first());
    hasher.number(uint64_t{ids.count()});
  }
}

} // namespace

llvm::Expected<MessageDigest> digestOf(const sojourn_wire::Step &message, size_t messageBytes,
                                       llvm::function_ref<MessageDigest(uint64_t)> sentAhead) {
  // A writer may store equal vectors once, and uploads that were sent ahead add a digest each.
  Hasher hasher("sojourn joint step 1", 3 * messageBytes + 1024);
  hasher.number(message.sequence());
  hasher.number(message.attempt());
  hasher.vector(message.program_hash());
  hasher.vector(message.states());
  addUploads(hasher, message.uploads(), sentAhead);
  hasher.vector(message.slots());
  hasher.vector(message.seeds());
  addIds(hasher, message);
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
    addUploads(hasher, next.uploads(), sentAhead);
    for (const auto *numbers : {next.states(), next.slots(), next.seeds()}) {
      hasher.vector(numbers);
    }
    addIds(hasher, next);
  });
  hasher.number(message.deadline_ms());
  hasher.number(uint64_t{message.masked()});
  if (hasher.isOverfull()) {
    return requestError(sojourn_wire::ErrorCode_Malformed,
                        "vectors of the message share their bytes: they are more than three times its " +
                            llvm::Twine(messageBytes) + " bytes; write each one");
  }
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
