// SPDX-License-Identifier: Apache-2.0
// The owner's secret randomness: ChaCha20 streams addressed by position, one key per execution.
#ifndef SOJOURN_RUNTIME_PRIVACY_COINS_H
#define SOJOURN_RUNTIME_PRIVACY_COINS_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <sys/types.h>

namespace sojourn::privacy {

/// What a stream of coins is spent on; part of the stream's nonce.
enum class CoinUse : uint32_t { sampling = 0, noise = 1, noiseSecond = 2 };

/// One of 2^32 streams per use: the number of a draw of rows, or of a noise site.
struct CoinStream {
  CoinUse use;
  uint32_t index;
};

/// Bytes per position of a stream: one block of ChaCha20.
inline constexpr size_t kCoinBlock = 64;

/// The coins of one execution. A stream has 2^64 blocks, and block i is a function of key, stream and
/// i alone: threads may fill parts of one stream in any order with the same outcome. All const members
/// are thread-safe. Coins must not be used twice; nothing here remembers what was spent.
class Coins {
public:
  /// A fresh key from the operating system. Two clones of one machine (a snapshot that was resumed twice) may be given
  /// equal entropy, so what they differ in is hashed into it: clocks to the nanosecond, the machine's boot id, random
  /// numbers of the processor where it has them, how many keys this process has made; and `context`, what the owner has
  /// charged and for which step. Stops the process if the system has no randomness to give.
  static Coins fromSystem(std::span<const uint8_t> context = {});

  /// The key is the seed, least byte first, then zeros: repeatable, so no protection at all. Defined
  /// in a library of its own (sojourn_privacy_testing): what an owner ships does not link with it.
  static Coins forTests(uint64_t seed);

  Coins(Coins &&other) noexcept;
  Coins(const Coins &) = delete;
  Coins &operator=(const Coins &) = delete;
  Coins &operator=(Coins &&) = delete;
  ~Coins();

  /// Blocks from `firstBlock` on (ChaCha20 with a 64-bit counter, Bernstein 2008); the last may be cut.
  /// Several KiB at once are about three times as fast per byte as single blocks. Stops the process
  /// in a child made by fork, where the parent would draw the same, and after a move.
  void fill(CoinStream stream, uint64_t firstBlock, std::span<uint8_t> out) const;

private:
  using Key = std::array<uint8_t, 32>;
  explicit Coins(const Key &key);

  Key key;
  /// The process that made the key; 0 after a move.
  pid_t process;
};

} // namespace sojourn::privacy

#endif // SOJOURN_RUNTIME_PRIVACY_COINS_H
