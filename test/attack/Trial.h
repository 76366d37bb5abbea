// SPDX-License-Identifier: Apache-2.0
// One attack in several worlds: in each run the tables, coins and memory of that world, and what must be equal.
#ifndef SOJOURN_TEST_ATTACK_TRIAL_H
#define SOJOURN_TEST_ATTACK_TRIAL_H

#include "test/attack/Seam.h"
#include "test/attack/Tables.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace sojourn::attack {

/// The worlds of one attack. In the others than the first, what the first released is released again: noise is chosen
/// so that every noised value is that of the first.
enum class WorldKind : uint8_t {
  First,
  Neighbour, ///< one row of one private table is another
  Redrawn    ///< other rows are drawn
};

/// What went wrong: the property, and the rest for people.
struct Violation {
  std::string property, text;
};

class Trial final : public Observer {
public:
  explicit Trial(uint64_t seed);
  /// Before requests of that world.
  void enter(WorldKind kind);
  Values run(const runtime::Executable &executable, const Instrumented *program,
             llvm::ArrayRef<runtime::Binding> bindings, runtime::RunOptions options) override;

  /// Of runs in the first world.
  const std::optional<Violation> &violation() const { return found; }
  /// Whether rows were drawn by secret coins.
  bool hasDraws() const { return draws; }
  size_t privateRuns() const { return transcripts.size(); }
  size_t comparisons() const { return compared; }

private:
  struct Transcript {
    std::vector<runtime::HostTensor> coins;
  };
  using Tables = std::map<std::string, const Contents *>;
  /// The bindings with these tables.
  std::vector<runtime::Binding> bind(llvm::ArrayRef<runtime::Binding> bindings, const Tables &tables,
                                     const std::vector<runtime::HostTensor> *coins = nullptr) const;
  Values runFirst(const runtime::Executable &executable, const Instrumented &program,
                  llvm::ArrayRef<runtime::Binding> bindings, const runtime::RunOptions &options);
  std::vector<runtime::HostTensor> redrawn(const Instrumented &program, std::vector<runtime::HostTensor> coins,
                                           uint64_t key) const;
  void compareNeighbours(const runtime::Executable &executable, const Instrumented &program,
                         llvm::ArrayRef<runtime::Binding> bindings, const runtime::RunOptions &options,
                         llvm::ArrayRef<runtime::HostTensor> first);
  void compareDraws(const runtime::Executable &executable, const Instrumented &program,
                    llvm::ArrayRef<runtime::Binding> bindings, const runtime::RunOptions &options,
                    llvm::ArrayRef<runtime::HostTensor> first);
  /// What changes when the row changes: sums by at most `times` their sensitivity, what is released not at all.
  void compare(const Instrumented &program, llvm::ArrayRef<runtime::HostTensor> first,
               llvm::ArrayRef<runtime::HostTensor> second, double times, const std::string &change,
               llvm::ArrayRef<unsigned> changedTables);
  /// The bindings with another table in the place of one; `changed`: where it was.
  static std::vector<runtime::Binding> replaced(llvm::ArrayRef<runtime::Binding> bindings, const Contents &table,
                                                const Contents &other, llvm::SmallVector<unsigned> &changed);
  void fail(const std::string &property, const std::string &text);

  Dice dice;
  uint64_t seed;
  WorldKind world = WorldKind::First;
  std::vector<std::unique_ptr<Contents>> contents;
  std::unique_ptr<Contents> neighbour;
  Tables firstTables, secondTables;
  std::vector<Transcript> transcripts;
  size_t next = 0; ///< run of this world
  bool draws = false;
  size_t compared = 0;
  std::optional<Violation> found;
};

} // namespace sojourn::attack

#endif // SOJOURN_TEST_ATTACK_TRIAL_H
