// SPDX-License-Identifier: Apache-2.0
// Programs as they arrive: decoded, verified, priced, planned, run on one thread and on several, and encoded again.
// An input is the length of the program's bytes (32 bits), these, and behind them its debug table.
#include "dialect/CoreForm.h"
#include "dialect/Signature.h"
#include "owner/RequestError.h"
#include "owner/worker/ProgramCode.h"
#include "owner/worker/Worker.h"
#include "runtime/Program.h"
#include "test/fuzz/Bytes.h"
#include "test/fuzz/Frame.h"
#include "test/fuzz/ProgramMutator.h"

#include <cstring>

namespace sojourn::fuzz {

namespace {

using runtime::Element;

PriceLimits smallLimits() {
  PriceLimits limits;
  limits.operations = 2'000'000;
  limits.arenaBytes = limits.scratchBytes = uint64_t{16} << 20;
  limits.planBytes = uint64_t{32} << 20;
  return limits;
}
constexpr size_t kBoundBytes = size_t{16} << 20;

/// Numbers that follow from a place: ordinary ones, and some at the edges.
double numberAt(uint64_t place) {
  place *= 0x9E3779B97F4A7C15u;
  place ^= place >> 29;
  if (place % 11 == 0) {
    Dice dice(place);
    return edgeReal(dice);
  }
  return static_cast<double>(static_cast<int64_t>(place % 129) - 64) / (place % 3 == 0 ? 1.0 : 16.0);
}

void fill(Element element, void *data, int64_t count, uint64_t from) {
  const size_t width = runtime::byteWidth(element);
  for (int64_t at = 0; at < count; ++at) {
    char *target = static_cast<char *>(data) + static_cast<size_t>(at) * width;
    if (runtime::isComplex(element)) {
      const double value = numberAt(from + static_cast<uint64_t>(at));
      if (width == 2 * sizeof(double)) {
        const double parts[2] = {value, -value};
        std::memcpy(target, parts, width);
      } else {
        const float parts[2] = {static_cast<float>(value), static_cast<float>(-value)};
        std::memcpy(target, parts, width);
      }
      continue;
    }
    const double value = numberAt(from + static_cast<uint64_t>(at));
    runtime::convertElements(Element::f64, &value, element, target, 1);
  }
}

/// A table of any columns: its values follow from row and column.
class AnyRows final : public runtime::RowSource {
public:
  AnyRows(int64_t rows, std::vector<runtime::TableColumn> columns) : count(rows), columns(std::move(columns)) {}
  int64_t rows() const override { return count; }
  void readRows(llvm::ArrayRef<std::string> names, llvm::ArrayRef<int64_t> indices, Element element,
                void *out) const override {
    const size_t width = runtime::byteWidth(element);
    size_t entry = 1;
    for (const runtime::TableColumn &column : columns) {
      if (names.size() == 1 && column.name == names[0]) {
        for (int64_t size : column.dims) {
          entry *= static_cast<size_t>(size);
        }
      }
    }
    char *target = static_cast<char *>(out);
    for (int64_t row : indices) {
      for (const std::string &name : names) {
        if (row >= 0 && row < count) {
          fill(element, target, static_cast<int64_t>(entry), static_cast<uint64_t>(row) * 1000 + name.size());
        } else {
          std::memset(target, 0, entry * width);
        }
        target += entry * width;
      }
    }
  }

private:
  int64_t count;
  std::vector<runtime::TableColumn> columns;
};

class Programs final : public Target {
protected:
  void play(std::string_view input) override;
  std::string change(std::string input, size_t most, Dice &dice) override;

private:
  void runPlan(const owner::ProgramCode &code, const runtime::ProgramFacts &facts);
  static void describeParts(std::string_view program, std::string_view debug, unsigned parties);
  runtime::ArenaPool arenas;
};

void Programs::play(std::string_view input) {
  const auto [program, debug] = splitPair(input);
  auto plan = owner::cpuWorker().describe(program, debug, smallLimits());
  if (!plan) {
    const owner::RequestError error = owner::takeRequestError(plan.takeError());
    if (error.code == sojourn_wire::ErrorCode_Internal) {
      broken("a program fails inside: " + error.message);
    }
    ++(error.code == sojourn_wire::ErrorCode_Malformed || error.code == sojourn_wire::ErrorCode_Version ? counts.refused
                                                                                                        : counts.late);
    return;
  }
  unsigned parties = 0;
  {
    mlir::MLIRContext &context = sharedContext();
    auto decoded = runtime::decodeProgram(context, program, debug);
    if (!decoded) {
      broken("a planned program is not decoded again: " + llvm::toString(decoded.takeError()));
    }
    auto encoded = runtime::encodeProgram(**decoded);
    if (!encoded) {
      broken("a decoded program cannot be encoded: " + llvm::toString(encoded.takeError()));
    }
    auto again = runtime::decodeProgram(context, encoded->program, encoded->debug);
    if (!again) {
      broken("an encoded program cannot be decoded: " + llvm::toString(again.takeError()));
    }
    auto twice = runtime::encodeProgram(**again);
    if (!twice || twice->program != encoded->program) {
      broken("a program has other bytes when it is encoded again");
    }
    if (auto count = (**again)->getAttrOfType<mlir::IntegerAttr>(kPartiesAttr)) {
      parties = static_cast<unsigned>(count.getInt());
    }
    (void)runtime::describeProgram(**again);
    (void)runtime::printProgram(**again, size_t{1} << 16);
  }
  auto facts = runtime::readFacts(plan->facts);
  if (!facts) {
    broken("the facts of a program break a rule: " + llvm::toString(facts.takeError()));
  }
  runPlan(*plan->code, *facts);
  describeParts(program, debug, parties);
}

/// The part of each member of a group, which each of them takes out of the program by itself.
void Programs::describeParts(std::string_view program, std::string_view debug, unsigned parties) {
  for (unsigned role = 0; role < parties; ++role) {
    const owner::RoleOfGroup own{static_cast<uint8_t>(role), static_cast<uint8_t>(parties)};
    auto part = owner::cpuWorker().describe(runtime::copyOf(program.data(), program.size()),
                                            runtime::copyOf(debug.data(), debug.size()), smallLimits(), own);
    if (!part) {
      const owner::RequestError error = owner::takeRequestError(part.takeError());
      if (error.code == sojourn_wire::ErrorCode_Internal) {
        broken("a part of a program fails inside: " + error.message);
      }
      continue;
    }
    auto facts = runtime::readFacts(part->facts);
    if (!facts) {
      broken("the facts of a part break a rule: " + llvm::toString(facts.takeError()));
    }
    if (!facts->joint || facts->joint->role != role || facts->joint->parties != parties) {
      broken("the facts of a part are those of another role");
    }
  }
}

void Programs::runPlan(const owner::ProgramCode &code, const runtime::ProgramFacts &facts) {
  const runtime::Code &executable = *code.step;
  size_t bytes = 0;
  for (const runtime::ResultSpec &spec : facts.results) {
    bytes += spec.kind == StepResult::Commit ? 0 : std::min(spec.type.bytes(), kBoundBytes + 1);
  }
  for (const runtime::ArgSpec &spec : executable.args()) {
    bytes += spec.kind == StepArg::Table ? 0 : std::min(spec.type.bytes(), kBoundBytes + 1);
  }
  if (bytes > kBoundBytes) {
    ++counts.late;
    return;
  }
  std::vector<runtime::Binding> bindings;
  std::vector<std::unique_ptr<AnyRows>> tables;
  for (const runtime::ArgSpec &spec : executable.args()) {
    runtime::Binding binding;
    if (spec.kind == StepArg::Table) {
      tables.push_back(std::make_unique<AnyRows>(spec.rows.value_or(23), spec.columns));
      binding.table = tables.back().get();
    } else {
      // Exactly as large as it is: a read past its end is seen.
      auto memory = std::make_shared<std::vector<char>>(spec.type.bytes());
      fill(spec.type.element, memory->data(), spec.type.numel(), 77 * bindings.size());
      binding.tensor = {spec.type, std::shared_ptr<runtime::Buffer>(new runtime::Buffer(memory->data(), memory->size()),
                                                                    [memory](runtime::Buffer *one) { delete one; })};
    }
    bindings.push_back(std::move(binding));
  }
  std::vector<std::string> first;
  for (unsigned threads : {1u, 3u}) {
    if (executable.runMemory().arena > 0) { // what was in the arena before must not matter
      auto lease = arenas.acquire(executable.runMemory().arena);
      std::memset(lease.data(), threads == 1 ? 0x55 : 0xFE, lease.size());
    }
    runtime::RunOptions options;
    options.threads = threads;
    options.arenas = &arenas;
    auto results = executable.run(bindings, options);
    if (!results) {
      llvm::consumeError(results.takeError());
      ++counts.late;
      return;
    }
    std::vector<std::string> bytesOfResults;
    for (const runtime::HostTensor &result : *results) {
      bytesOfResults.emplace_back(static_cast<const char *>(result.buffer->data()), result.type.bytes());
      if (result.type.element == Element::i1) {
        for (char value : bytesOfResults.back()) {
          if (value != 0 && value != 1) {
            broken("a boolean result is " + std::to_string(value));
          }
        }
      }
    }
    if (threads == 1) {
      first = std::move(bytesOfResults);
    } else if (first != bytesOfResults) {
      broken("results on three threads, or in an arena of other contents, differ from those on one");
    }
  }
  ++counts.done;
}

std::string Programs::change(std::string input, size_t most, Dice &dice) {
  if (dice.chance(wildness())) {
    return mutateBytes(std::move(input), most);
  }
  const auto [program, debug] = splitPair(input);
  if (auto mutant = mutateProgram(program, debug, /*changesResults=*/true, dice)) {
    std::string joined = joinPair(mutant->program, dice.chance(0.8) ? mutant->debug : "");
    if (joined.size() <= most) {
      return joined;
    }
  }
  return mutateBytes(std::move(input), most);
}

const Registered known("programs", [] { return std::unique_ptr<Target>(std::make_unique<Programs>()); });

} // namespace

} // namespace sojourn::fuzz
