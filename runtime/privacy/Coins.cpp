// SPDX-License-Identifier: Apache-2.0
// Keys from the system, blocks from libsodium.
#include "runtime/privacy/Coins.h"

#include "runtime/privacy/Misuse.h"

#include <cstring>
#include <sodium.h>
#include <unistd.h>

namespace sojourn::privacy {

static_assert(crypto_stream_chacha20_KEYBYTES == 32 && crypto_stream_chacha20_NONCEBYTES == 8);

Coins::Coins(const Key &key) : key(key), process(getpid()) {
  if (sodium_init() < 0) {
    misuse("libsodium cannot start, so there are no coins");
  }
}

Coins::Coins(Coins &&other) noexcept : key(other.key), process(other.process) {
  sodium_memzero(other.key.data(), other.key.size());
  other.process = 0;
}

Coins::~Coins() { sodium_memzero(key.data(), key.size()); }

Coins Coins::fromSystem(std::span<const uint8_t> context) {
  if (sodium_init() < 0) {
    misuse("libsodium cannot start, so there are no coins");
  }
  Key entropy, key;
  randombytes_buf(entropy.data(), entropy.size());
  pid_t process = getpid();
  crypto_generichash_state hash;
  crypto_generichash_init(&hash, entropy.data(), entropy.size(), key.size());
  crypto_generichash_update(&hash, reinterpret_cast<const uint8_t *>(&process), sizeof process);
  crypto_generichash_update(&hash, context.data(), context.size());
  crypto_generichash_final(&hash, key.data(), key.size());
  Coins coins(key);
  sodium_memzero(&hash, sizeof hash);
  sodium_memzero(entropy.data(), entropy.size());
  sodium_memzero(key.data(), key.size());
  return coins;
}

void Coins::fill(CoinStream stream, uint64_t firstBlock, std::span<uint8_t> out) const {
  if (process == 0) {
    misuse("coins that were moved away");
  }
  if (process != getpid()) {
    misuse("coins of another process");
  }
  uint8_t nonce[crypto_stream_chacha20_NONCEBYTES];
  for (int byte = 0; byte < 4; ++byte) {
    nonce[byte] = static_cast<uint8_t>(stream.index >> (8 * byte));
    nonce[4 + byte] = static_cast<uint8_t>(static_cast<uint32_t>(stream.use) >> (8 * byte));
  }
  // The variant with a counter only combines with a message.
  std::memset(out.data(), 0, out.size());
  crypto_stream_chacha20_xor_ic(out.data(), out.data(), out.size(), nonce, firstBlock, key.data());
}

} // namespace sojourn::privacy
