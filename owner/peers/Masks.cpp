// SPDX-License-Identifier: Apache-2.0
// Keys by crypto_kx, one stream for each exchange of two members (see Masks.h).
#include "owner/peers/Masks.h"

#include <sodium.h>

#include <algorithm>
#include <cstring>
#include <string_view>

namespace sojourn::owner {

static_assert(SecretKey::kBytes == crypto_kx_SECRETKEYBYTES && SecretKey::kBytes == crypto_kx_SESSIONKEYBYTES &&
              SecretKey::kBytes == crypto_stream_chacha20_KEYBYTES && sizeof(MaskKey) == crypto_kx_PUBLICKEYBYTES);

SecretKey::~SecretKey() { sodium_memzero(bytes.data(), bytes.size()); }

MaskKeyPair::MaskKeyPair() { crypto_kx_keypair(half.data(), secret.bytes.data()); }

std::optional<PairKey> MaskKeyPair::sharedWith(const MaskKey &other, bool isBefore) const {
  auto key = std::make_shared<SecretKey>();
  SecretKey unused; // crypto_kx gives one for each direction
  const int status = isBefore ? crypto_kx_client_session_keys(key->bytes.data(), unused.bytes.data(), half.data(),
                                                              secret.bytes.data(), other.data())
                              : crypto_kx_server_session_keys(unused.bytes.data(), key->bytes.data(), half.data(),
                                                              secret.bytes.data(), other.data());
  if (status != 0 || other == half) {
    return std::nullopt;
  }
  return PairKey{std::move(key), isBefore ? half : other, isBefore ? other : half};
}

namespace {

class StreamKey {
public:
  StreamKey(const SecretKey &shared, std::string_view domain) {
    crypto_generichash_init(&state, shared.bytes.data(), shared.bytes.size(), SecretKey::kBytes);
    add(domain.data(), domain.size());
  }
  ~StreamKey() { sodium_memzero(&state, sizeof state); }
  void add(const void *bytes, size_t size) {
    number(size);
    crypto_generichash_update(&state, static_cast<const unsigned char *>(bytes), size);
  }
  void number(uint64_t value) {
    crypto_generichash_update(&state, reinterpret_cast<const unsigned char *>(&value), sizeof value);
  }
  void finish(SecretKey &key) { crypto_generichash_final(&state, key.bytes.data(), key.bytes.size()); }

private:
  crypto_generichash_state state{};
};

/// Adds words of the stream, or subtracts them.
template <bool isAdded>
void addWords(std::byte *words, const uint64_t *stream, size_t count) {
  using Block [[gnu::vector_size(64)]] = uint64_t;
  size_t at = 0;
  for (; at + sizeof(Block) / sizeof(uint64_t) <= count; at += sizeof(Block) / sizeof(uint64_t)) {
    Block own, mask;
    std::memcpy(&own, words + at * sizeof(uint64_t), sizeof own);
    std::memcpy(&mask, stream + at, sizeof mask);
    own = isAdded ? own + mask : own - mask;
    std::memcpy(words + at * sizeof(uint64_t), &own, sizeof own);
  }
  for (; at < count; ++at) {
    uint64_t own = 0;
    std::memcpy(&own, words + at * sizeof own, sizeof own);
    own = isAdded ? own + stream[at] : own - stream[at];
    std::memcpy(words + at * sizeof own, &own, sizeof own);
  }
}

/// Adds or subtracts words of the stream from its block `block` on.
void apply(const SecretKey &key, uint64_t block, bool isAdded, std::byte *words, size_t count) {
  constexpr size_t kWordsAtOnce = 2'048;                                  // which stay in the first cache
  constexpr size_t kWordsOfBlock = 8;                                     // 64 bytes
  constexpr unsigned char kNonce[crypto_stream_chacha20_NONCEBYTES] = {}; // a key has one stream
  alignas(64) uint64_t stream[kWordsAtOnce];
  for (size_t done = 0; done < count; done += kWordsAtOnce) {
    const size_t now = std::min(kWordsAtOnce, count - done);
    auto *bytes = reinterpret_cast<unsigned char *>(stream);
    std::memset(stream, 0, now * sizeof(uint64_t));
    crypto_stream_chacha20_xor_ic(bytes, bytes, now * sizeof(uint64_t), kNonce, block + done / kWordsOfBlock,
                                  key.bytes.data());
    std::byte *own = words + done * sizeof(uint64_t);
    if (isAdded) {
      addWords<true>(own, stream, now);
    } else {
      addWords<false>(own, stream, now);
    }
  }
  sodium_memzero(stream, sizeof stream);
}

} // namespace

bool addMasks(const MaskKeys &keys, unsigned ownRole, const StepPoint &point, uint32_t exchange,
              const MessageDigest &digest, const runtime::Exchange &terms, const runtime::StopFlag &stop,
              std::byte *frame) {
  const runtime::FramePlaces places = runtime::placesOfTerms(terms, ownRole);
  for (const auto &[role, pair] : keys) {
    StreamKey derived(*pair.secret, "sojourn masks 1");
    for (uint64_t number : {uint64_t{std::min(ownRole, role)}, uint64_t{std::max(ownRole, role)}, point.sequence,
                            point.attempt, uint64_t{point.step}, uint64_t{exchange}}) {
      derived.number(number);
    }
    for (const auto *bytes : {&pair.first, &pair.second, &digest}) {
      derived.add(bytes->data(), bytes->size());
    }
    for (const runtime::ExchangeTerm &term : terms) {
      for (uint64_t number :
           {static_cast<uint64_t>(term.element), term.elements, uint64_t{term.from}, uint64_t{term.isMasked}}) {
        derived.number(number);
      }
    }
    SecretKey key;
    derived.finish(key);
    uint64_t block = 0;
    for (size_t index = 0; index < terms.size(); ++index) {
      const runtime::ExchangeTerm &term = terms[index];
      if (stop.load()) {
        return false;
      }
      if (term.isMasked && term.isOf(ownRole) && term.isOf(role)) {
        apply(key, block, ownRole < role, frame + places.offsets[index], term.elements);
        block += term.elements / 8 + 1;
      }
    }
  }
  return true;
}

} // namespace sojourn::owner
