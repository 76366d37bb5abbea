// SPDX-License-Identifier: Apache-2.0
// A worker of this process behind functions that see, change or replace each call and each answer.
#ifndef SOJOURN_TEST_OWNER_PROXYPORT_H
#define SOJOURN_TEST_OWNER_PROXYPORT_H

#include "owner/worker/Service.h"
#include "runtime/wire/Worker_generated.h"

#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace sojourn::owner::test {

/// Bytes at an address that flatbuffers reads from, and memory beside them.
struct Parcel {
  std::string bytes; ///< moved through `aligned` before it is read
  Memory memory;
};

inline std::shared_ptr<std::vector<uint64_t>> aligned(const std::string &bytes) {
  auto words = std::make_shared<std::vector<uint64_t>>((bytes.size() + 7) / 8 + 1);
  std::memcpy(words->data(), bytes.data(), bytes.size());
  return words;
}

class ProxyPort final : public WorkerPort {
public:
  using Change = std::function<void(Parcel &)>;
  /// What tests change while owners hold the port.
  struct Hooks {
    Change call, answer;                              ///< may be empty
    std::unique_ptr<WorkerService> *worker = nullptr; ///< of the last port that was made
    size_t calls = 0;
  };
  ProxyPort(std::shared_ptr<Hooks> hooks, std::unique_ptr<WorkerService> worker)
      : hooks(std::move(hooks)), worker(std::move(worker)) {
    this->hooks->worker = &this->worker;
  }

  WorkerAnswer call(const WorkerCall &given) override {
    ++hooks->calls;
    WorkerCall passed = given;
    std::shared_ptr<std::vector<uint64_t>> kept;
    if (hooks->call) {
      Parcel parcel{std::string(given.bytes), given.memory};
      hooks->call(parcel);
      kept = aligned(parcel.bytes);
      passed.bytes = {reinterpret_cast<const char *>(kept->data()), parcel.bytes.size()};
      passed.memory = parcel.memory;
    }
    WorkerAnswer answer = worker->call(passed);
    if (hooks->answer) {
      Parcel parcel{std::string(answer.bytes), answer.memory};
      hooks->answer(parcel);
      auto changed = aligned(parcel.bytes);
      answer.bytes = {reinterpret_cast<const char *>(changed->data()), parcel.bytes.size()};
      answer.keep = changed;
      answer.memory = parcel.memory;
    }
    return answer;
  }
  void map(uint64_t table, std::shared_ptr<const Dataset> rows) override {
    tables[table] = rows;
    worker->map(table, std::move(rows));
  }
  void unmap(uint64_t table) override {
    tables.erase(table);
    worker->unmap(table);
  }
  unsigned threads() const override { return worker->threads(); }

  static WorkerFactory factory(const std::shared_ptr<Hooks> &hooks) {
    return
        [hooks] { return std::make_unique<ProxyPort>(hooks, std::make_unique<WorkerService>(runtime::cpuEngine())); };
  }

private:
  const std::shared_ptr<Hooks> hooks;
  std::unique_ptr<WorkerService> worker;
  std::map<uint64_t, std::shared_ptr<const Dataset>> tables;
};

inline sojourn_worker::CallBody kindOf(const Parcel &call) {
  auto kept = aligned(call.bytes);
  return flatbuffers::GetRoot<sojourn_worker::Call>(kept->data())->body_type();
}

} // namespace sojourn::owner::test

#endif // SOJOURN_TEST_OWNER_PROXYPORT_H
