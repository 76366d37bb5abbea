// SPDX-License-Identifier: Apache-2.0
// Where the attacker's world looks into the owner: at programs that were made private, at runs, and at memory. Made by
// the linker alone (--wrap): the owner's sources know nothing of it, and what is shipped has none of it.
#ifndef SOJOURN_TEST_ATTACK_SEAM_H
#define SOJOURN_TEST_ATTACK_SEAM_H

#include "passes/privacy/Privacy.h"
#include "runtime/Execute.h"

#include <string>
#include <vector>

namespace sojourn::attack {

/// A program that was made private, with its noise cut off: what is noised is the noise's coin alone, so that
/// everything behind it is a function of what was released, and what was added up is a result of its own, behind the
/// program's.
struct Instrumented {
  struct Sum {
    size_t coin, site;
  };
  struct Site {
    std::string what;
    bool isLaplace;
    double sensitivity;
    std::vector<unsigned> tables; ///< arguments that pay for it
  };
  size_t results = 0;
  std::vector<CoinSpec> coins;
  std::vector<Sum> sums; ///< by further result
  std::vector<Site> sites;
  std::vector<bool> released;
  /// Noise that could not be cut off.
  size_t missed = 0;
};

using Values = llvm::Expected<std::vector<runtime::HostTensor>>;

/// Of one thread: runs happen where requests are handled.
class Observer {
public:
  virtual ~Observer();
  /// Instead of each run; `program` is null where nothing was made private. Its results are those of the program as
  /// sent.
  virtual Values run(const runtime::Executable &executable, const Instrumented *program,
                     llvm::ArrayRef<runtime::Binding> bindings, runtime::RunOptions options) = 0;
};

/// From now on; null for none.
void observe(Observer *observer);
/// With all its further results.
Values runReally(const runtime::Executable &executable, llvm::ArrayRef<runtime::Binding> bindings,
                 const runtime::RunOptions &options);
/// What fresh memory holds.
void setPoison(uint8_t byte);
/// How often the seam was passed: zeros say that the linker did not make it.
struct SeamCounts {
  size_t madePrivate = 0, created = 0, runs = 0, buffers = 0, arenas = 0;
};
SeamCounts seamCounts();

} // namespace sojourn::attack

#endif // SOJOURN_TEST_ATTACK_SEAM_H
