// SPDX-License-Identifier: Apache-2.0
// The processor's control word (see Denormals.h). Elsewhere than on x86-64 and AArch64 nothing is flushed.
#include "runtime/Denormals.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace sojourn::runtime {

namespace {

#if defined(__x86_64__)
constexpr uint64_t kFlush = 0x8040; // MXCSR: results (FTZ), operands (DAZ)
uint64_t control() { return _mm_getcsr(); }
void setControl(uint64_t word) { _mm_setcsr(static_cast<unsigned>(word)); }
#elif defined(__aarch64__)
constexpr uint64_t kFlush = uint64_t{1} << 24; // FPCR: FZ, results and operands
uint64_t control() {
  uint64_t word = 0;
  asm volatile("mrs %0, fpcr" : "=r"(word));
  return word;
}
void setControl(uint64_t word) { asm volatile("msr fpcr, %0" : : "r"(word)); }
#else
constexpr uint64_t kFlush = 0;
uint64_t control() { return 0; }
void setControl(uint64_t) {}
#endif

} // namespace

bool flushesDenormals() { return kFlush != 0 && (control() & kFlush) == kFlush; }

DenormalScope::DenormalScope(bool flushes) : before_(control()) {
  const uint64_t wanted = flushes ? before_ | kFlush : before_ & ~kFlush;
  if (wanted != before_) {
    setControl(wanted);
  }
}

DenormalScope::~DenormalScope() {
  if (control() != before_) {
    // Flags of exceptions that were raised meanwhile do not matter: nobody reads them.
    setControl(before_);
  }
}

} // namespace sojourn::runtime
