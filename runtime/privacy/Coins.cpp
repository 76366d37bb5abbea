// SPDX-License-Identifier: Apache-2.0
// Keys from the system, blocks from libsodium.
#include "runtime/privacy/Coins.h"

#include "runtime/privacy/Misuse.h"

#include <array>
#include <atomic>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <sodium.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace sojourn::privacy {

static_assert(crypto_stream_chacha20_KEYBYTES == 32 && crypto_stream_chacha20_NONCEBYTES == 8);

namespace {

/// The processor's own random numbers are no part of a machine's snapshot; zeros where it has none.
#if defined(__x86_64__)
__attribute__((target("rdrnd"))) std::array<unsigned long long, 4> fromProcessor() {
  std::array<unsigned long long, 4> numbers{};
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) && (c & bit_RDRND)) {
    for (unsigned long long &number : numbers) {
      _rdrand64_step(&number); // one that fails leaves what the others give
    }
  }
  return numbers;
}
#else
std::array<unsigned long long, 4> fromProcessor() { return {}; }
#endif

/// Empty where the system has none.
const std::array<char, 36> &bootId() {
  static const std::array<char, 36> id = [] {
    std::array<char, 36> text{};
    int file = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (file >= 0) {
      [[maybe_unused]] ssize_t size = read(file, text.data(), text.size());
      close(file);
    }
    return text;
  }();
  return id;
}

/// In what clones of one machine differ, whatever entropy they are given. No padding.
struct Surroundings {
  std::array<int64_t, 2> now{}, sinceBoot{}, ofThread{};
  std::array<unsigned long long, 4> processor = fromProcessor();
  uint64_t keys;
  int64_t process = getpid();

  Surroundings() {
    static std::atomic<uint64_t> made{0};
    keys = ++made;
    auto read = [](clockid_t clock, std::array<int64_t, 2> &into) {
      timespec time{};
      clock_gettime(clock, &time);
      into = {time.tv_sec, time.tv_nsec};
    };
    read(CLOCK_REALTIME, now);
    read(CLOCK_BOOTTIME, sinceBoot);
    read(CLOCK_THREAD_CPUTIME_ID, ofThread);
  }
};

} // namespace

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
  Surroundings surroundings;
  crypto_generichash_state hash;
  crypto_generichash_init(&hash, entropy.data(), entropy.size(), key.size());
  crypto_generichash_update(&hash, reinterpret_cast<const uint8_t *>(&surroundings), sizeof surroundings);
  crypto_generichash_update(&hash, reinterpret_cast<const uint8_t *>(bootId().data()), bootId().size());
  crypto_generichash_update(&hash, context.data(), context.size());
  crypto_generichash_final(&hash, key.data(), key.size());
  Coins coins(key);
  sodium_memzero(&surroundings, sizeof surroundings);
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
