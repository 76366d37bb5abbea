// SPDX-License-Identifier: Apache-2.0
// Copies and texts of attacks (see Program.h).
#include "test/attack/Program.h"

#include "dialect/CoreForm.h"

#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdlib>

using namespace sojourn;
using namespace sojourn::attack;

mlir::func::FuncOp AttackStep::function() const { return module.get().lookupSymbol<mlir::func::FuncOp>(kStepName); }

Attack Attack::copy() const {
  Attack copied;
  copied.seed = seed;
  for (const AttackStep &step : steps) {
    copied.steps.push_back(step.copy());
  }
  return copied;
}

size_t Attack::ops() const {
  size_t count = 0;
  for (const AttackStep &step : steps) {
    count += step.function().getBody().front().getOperations().size();
  }
  return count;
}

template <class T>
static void list(llvm::raw_ostream &out, llvm::StringRef what, const std::vector<T> &values) {
  if (values.empty()) {
    return;
  }
  out << "//   " << what;
  for (const T &value : values) {
    out << ' ' << value;
  }
  out << '\n';
}

/// What a step and a repetition have.
static void writeTerms(llvm::raw_ostream &out, const owner::test::StepRequest &terms) {
  list(out, "states", terms.states);
  for (const owner::test::Upload &upload : terms.uploads) {
    out << "//   upload " << int(upload.element) << " ahead " << upload.sentAhead << " bytes "
        << llvm::toHex(upload.data);
    for (int64_t size : upload.dims) {
      out << ' ' << size;
    }
    out << '\n';
  }
  list(out, "slots", terms.slots);
  list(out, "seeds", terms.seeds);
  list(out, "results", terms.results);
  list(out, "releases", terms.releases);
}

std::string Attack::text() const {
  std::string text;
  llvm::raw_string_ostream out(text);
  out << "// attack " << seed << "\n";
  for (const AttackStep &step : steps) {
    const owner::test::StepRequest &terms = step.terms;
    out << "// step of client " << step.client << (step.isNamed ? " by hash" : "") << "\n";
    std::vector<std::string> names;
    for (const owner::test::TableName &table : terms.tables) {
      names.push_back(table.name);
    }
    list(out, "tables", names);
    writeTerms(out, terms);
    const wire::Spending &spending = terms.spending;
    if (!spending.isDefault()) {
      out << llvm::format("//   spending run %llu steps %llu noise %.17g clip %.17g share %.17g layers %d sum %d\n",
                          static_cast<unsigned long long>(spending.run),
                          static_cast<unsigned long long>(spending.steps), spending.noiseMultiplier, spending.clip,
                          spending.metricShare, spending.perLayer, spending.lossIsSum);
      for (const wire::ReleaseTerms &release : spending.releases) {
        out << llvm::format("//   release bound %.17g epsilon %.17g delta %.17g continues %d\n", release.bound,
                            release.epsilon, release.delta, release.continues);
      }
    }
    for (const owner::test::StepRequest &next : terms.repetitions) {
      out << "//   repetition\n";
      writeTerms(out, next);
    }
    step.module.get().print(out);
    out << "\n";
  }
  return text;
}

namespace {
/// Words of one line of terms.
struct Words {
  llvm::SmallVector<llvm::StringRef> words;
  size_t next = 0;
  explicit Words(llvm::StringRef line) { line.split(words, ' ', -1, /*KeepEmpty=*/false); }
  llvm::StringRef word() { return next < words.size() ? words[next++] : ""; }
  uint64_t whole() { return std::strtoull(word().str().c_str(), nullptr, 10); }
  /// The number behind a name.
  double named() {
    ++next;
    return std::strtod(word().str().c_str(), nullptr);
  }
  std::vector<uint64_t> rest() {
    std::vector<uint64_t> numbers;
    while (next < words.size()) {
      numbers.push_back(whole());
    }
    return numbers;
  }
};
} // namespace

/// False where no such line is known.
static bool readTerm(llvm::StringRef line, AttackStep &step) {
  Words words(line);
  llvm::StringRef what = words.word();
  owner::test::StepRequest &whole = step.terms;
  owner::test::StepRequest &terms = whole.repetitions.empty() ? whole : whole.repetitions.back();
  if (what == "repetition") {
    whole.repetitions.emplace_back();
  } else if (what == "tables") {
    for (llvm::StringRef name = words.word(); !name.empty(); name = words.word()) {
      whole.tables.emplace_back(name.str());
    }
  } else if (what == "states") {
    terms.states = words.rest();
  } else if (what == "slots") {
    terms.slots = words.rest();
  } else if (what == "seeds") {
    terms.seeds = words.rest();
  } else if (what == "results") {
    terms.results = words.rest();
  } else if (what == "releases") {
    terms.releases = words.rest();
  } else if (what == "upload") {
    owner::test::Upload upload{static_cast<uint8_t>(words.whole()), {}, "", static_cast<uint64_t>(words.named())};
    words.word();
    upload.data = llvm::fromHex(words.word());
    for (uint64_t size : words.rest()) {
      upload.dims.push_back(static_cast<int64_t>(size));
    }
    terms.uploads.push_back(std::move(upload));
  } else if (what == "spending") {
    wire::Spending &spending = whole.spending;
    spending.run = static_cast<uint64_t>(words.named());
    spending.steps = static_cast<uint64_t>(words.named());
    spending.noiseMultiplier = words.named();
    spending.clip = words.named();
    spending.metricShare = words.named();
    spending.perLayer = words.named() != 0;
    spending.lossIsSum = words.named() != 0;
  } else if (what == "release") {
    wire::ReleaseTerms release;
    release.bound = words.named();
    release.epsilon = words.named();
    release.delta = words.named();
    release.continues = words.named() != 0;
    whole.spending.releases.push_back(release);
  } else {
    return false;
  }
  return true;
}

llvm::Expected<Attack> Attack::parse(llvm::StringRef text, mlir::MLIRContext &context) {
  Attack attack;
  auto problem = [](const llvm::Twine &what) { return llvm::createStringError(what); };
  llvm::SmallVector<llvm::StringRef> parts;
  text.split(parts, "// step of client ");
  size_t named = parts[0].find("// attack ");
  if (parts.size() < 2 || named == llvm::StringRef::npos) {
    return problem("no attack: expected a line '// attack SEED' and then '// step of client NUMBER' before each step");
  }
  attack.seed = std::strtoull(parts[0].substr(named + 10).str().c_str(), nullptr, 10);
  for (llvm::StringRef part : llvm::drop_begin(parts)) {
    auto [head, body] = part.split('\n');
    AttackStep step;
    step.client = std::strtoull(head.str().c_str(), nullptr, 10);
    step.isNamed = head.contains("by hash");
    while (body.starts_with("//")) {
      auto [line, rest] = body.split('\n');
      if (!readTerm(line.drop_front(2), step)) {
        return problem("the line '" + line + "' is none of an attack's terms");
      }
      body = rest;
    }
    step.module = mlir::parseSourceString<mlir::ModuleOp>(body, &context);
    if (!step.module || !step.function()) {
      return problem("a step of the attack does not parse: " + body);
    }
    attack.steps.push_back(std::move(step));
  }
  return attack;
}
