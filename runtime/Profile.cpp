// SPDX-License-Identifier: Apache-2.0
// Totals per instruction, and a bounded list of events; both are written as text when asked for.
#include "runtime/Profile.h"
#include "runtime/OwnProcess.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <map>
#include <mutex>
#include <numeric>
#include <set>

namespace sojourn::runtime {

namespace {

constexpr size_t kEventsMax = 1'000'000;

struct Totals {
  uint64_t count = 0;
  int64_t nanoseconds = 0;
};

struct PlanTotals {
  std::vector<ProfiledInstruction> instructions;
  std::vector<Totals> totals;
  uint64_t runs = 0;
};

struct Event {
  uint64_t plan;
  uint32_t instruction, thread;
  int64_t start, nanoseconds;
};

/// A small number for the calling thread.
uint32_t threadNumber() {
  static std::atomic<uint32_t> threads{0};
  thread_local uint32_t number = ++threads;
  return number;
}

std::string tableOf(uint64_t number, const PlanTotals &plan) {
  int64_t all = 0;
  for (const Totals &totals : plan.totals) {
    all += totals.nanoseconds;
  }
  std::vector<size_t> order(plan.totals.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return plan.totals[a].nanoseconds > plan.totals[b].nanoseconds; });
  std::string text;
  llvm::raw_string_ostream out(text);
  out << "plan " << number << ": " << plan.runs << " runs, " << plan.instructions.size() << " instructions, "
      << llvm::format("%.3f", static_cast<double>(all) / 1e6) << " ms\n";
  out << " percent   total ms    mean us      count        bytes  instruction\n";
  for (size_t index : order) {
    const Totals &totals = plan.totals[index];
    const ProfiledInstruction &instruction = plan.instructions[index];
    double total = static_cast<double>(totals.nanoseconds);
    if (totals.nanoseconds > 0) {
      out << llvm::format("%8.2f %10.3f %10.2f ", 100.0 * total / static_cast<double>(all), total / 1e6,
                          total / 1e3 / static_cast<double>(totals.count));
    } else { // none of them, as those of steps on private tables
      out << "       -          -          - ";
    }
    out << llvm::format("%10llu %12llu", static_cast<unsigned long long>(totals.count),
                        static_cast<unsigned long long>(instruction.bytes))
        << "  " << index << " " << instruction.name;
    if (!instruction.location.empty()) {
      out << " at " << instruction.location;
    }
    out << "\n";
  }
  return text;
}

llvm::Error writeFile(const std::string &path, llvm::function_ref<void(llvm::raw_ostream &)> body) {
  std::error_code code;
  llvm::raw_fd_ostream out(path, code);
  if (!code) {
    body(out);
    out.close();
    code = out.error();
    out.clear_error();
  }
  if (code) {
    return llvm::createStringError(code, "cannot write the profile to '" + path + "': " + code.message());
  }
  return llvm::Error::success();
}

} // namespace

struct Profile::State {
  const OwnProcess process;
  mutable std::mutex mutex;
  std::string folder;
  std::map<uint64_t, PlanTotals> plans;
  std::vector<Event> events;
  uint64_t dropped = 0;
  const int64_t begin = Profile::now();

  void json(llvm::raw_ostream &stream) const {
    llvm::json::OStream out(stream);
    auto microseconds = [](int64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1e3; };
    out.object([&] {
      out.attribute("displayTimeUnit", "ns");
      out.attribute("droppedEvents", static_cast<int64_t>(dropped));
      out.attributeArray("traceEvents", [&] {
        for (const Event &event : events) {
          const ProfiledInstruction &instruction = plans.at(event.plan).instructions[event.instruction];
          out.object([&] {
            out.attribute("name", llvm::json::fixUTF8(instruction.name));
            out.attribute("cat", "instruction");
            out.attribute("ph", "X");
            out.attribute("ts", microseconds(event.start - begin));
            out.attribute("dur", microseconds(event.nanoseconds));
            out.attribute("pid", 1);
            out.attribute("tid", event.thread);
            out.attributeObject("args", [&] {
              out.attribute("op", llvm::json::fixUTF8(instruction.op));
              out.attribute("location", llvm::json::fixUTF8(instruction.location));
              out.attribute("bytes", static_cast<int64_t>(instruction.bytes));
              out.attribute("plan", static_cast<int64_t>(event.plan));
              out.attribute("instruction", event.instruction);
            });
          });
        }
      });
    });
    stream << "\n";
  }
};

namespace {

/// Profiles that write themselves to a folder: when they go, or else when the process exits.
struct Writers {
  std::mutex mutex;
  std::set<Profile *> alive;
  static Writers &all() {
    static Writers *writers = new Writers; // never destroyed: profiles may be statics
    return *writers;
  }
};

void report(llvm::Error error) {
  if (error) {
    llvm::errs() << "sojourn: " << llvm::toString(std::move(error)) << "\n";
  }
}

} // namespace

Profile::Profile() : state_(std::make_unique<State>()) {}

Profile::Profile(std::string folder) : Profile() {
  state_->folder = std::move(folder);
  static std::once_flag once;
  std::call_once(once, [] {
    std::atexit([] {
      std::lock_guard lock(Writers::all().mutex);
      for (Profile *profile : Writers::all().alive) {
        if (profile->state_->process.isElsewhere()) {
          continue; // its folder is the parent's to write
        }
        report(profile->write(profile->state_->folder));
      }
    });
  });
  std::lock_guard lock(Writers::all().mutex);
  Writers::all().alive.insert(this);
}

Profile::~Profile() {
  if (!state_->folder.empty() && !state_->process.isElsewhere()) {
    std::lock_guard lock(Writers::all().mutex);
    Writers::all().alive.erase(this);
    report(write(state_->folder));
  }
}

int64_t Profile::now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

Profile *Profile::fromEnvironment() {
  static Profile *const profile = [] {
    const char *folder = std::getenv("SOJOURN_PROFILE");
    bool wanted = folder != nullptr && *folder != '\0';
    return wanted ? new Profile(folder) : nullptr; // never destroyed: runs may end late
  }();
  return profile;
}

void Profile::add(uint64_t plan, llvm::ArrayRef<int64_t> times,
                  llvm::function_ref<std::vector<ProfiledInstruction>()> describe) {
  uint32_t thread = threadNumber();
  std::lock_guard lock(state_->mutex);
  auto [entry, isNew] = state_->plans.try_emplace(plan);
  PlanTotals &totals = entry->second;
  if (isNew) {
    totals.instructions = describe();
    totals.totals.resize(totals.instructions.size());
  }
  ++totals.runs;
  if (times.empty()) {
    for (Totals &each : totals.totals) {
      each.count += 1;
    }
  }
  for (size_t k = 0; k + 1 < times.size() && k < totals.totals.size(); ++k) {
    int64_t taken = std::max<int64_t>(times[k + 1] - times[k], 1);
    totals.totals[k].count += 1;
    totals.totals[k].nanoseconds += taken;
    if (state_->events.size() < kEventsMax) {
      state_->events.push_back({plan, static_cast<uint32_t>(k), thread, times[k], taken});
    } else {
      ++state_->dropped;
    }
  }
}

std::string Profile::table() const {
  std::lock_guard lock(state_->mutex);
  std::string text;
  for (const auto &[number, plan] : state_->plans) {
    text += (text.empty() ? "" : "\n") + tableOf(number, plan);
  }
  return text;
}

llvm::Error Profile::writeChromeTrace(const std::string &path) const {
  std::lock_guard lock(state_->mutex);
  return writeFile(path, [&](llvm::raw_ostream &out) { state_->json(out); });
}

llvm::Error Profile::write(const std::string &folder) const {
  if (std::error_code code = llvm::sys::fs::create_directories(folder)) {
    return llvm::createStringError(code, "cannot make the folder '" + folder + "' for profiles: " + code.message());
  }
  auto path = [&](const std::string &name) {
    llvm::SmallString<128> whole(folder);
    llvm::sys::path::append(whole, name);
    return whole.str().str();
  };
  {
    std::lock_guard lock(state_->mutex);
    for (const auto &[number, plan] : state_->plans) {
      if (llvm::Error error =
              writeFile(path("plan-" + std::to_string(number) + ".txt"),
                        [&, number = number, &plan = plan](llvm::raw_ostream &out) { out << tableOf(number, plan); })) {
        return error;
      }
    }
  }
  return writeChromeTrace(path("trace.json"));
}

} // namespace sojourn::runtime
