// SPDX-License-Identifier: Apache-2.0
// An owner whose steps run in processes, and a client that counts.
#ifndef SOJOURN_TEST_OWNER_PROCESSSUPPORT_H
#define SOJOURN_TEST_OWNER_PROCESSSUPPORT_H

#include "owner/process/Ports.h"
#include "test/owner/Support.h"

#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace sojourn::owner::test {

/// w <- w + 1, and the new value is published. `elements`: of w.
inline runtime::EncodedProgram countProgram(size_t elements) {
  const std::string type = "tensor<" + std::to_string(elements) + "xf32>";
  return encode(moduleText("(%w: " + type + " {sojourn.kind = \"state\"}) -> (" + type +
                               " {sojourn.result = \"commit\", sojourn.target = 0 : i64}, " + type +
                               " {sojourn.result = \"publish\"})",
                           "    %o = sojourn.constant 1.0 : f32\n    %n = sojourn.add %w, %o : " + type +
                               ", tensor<f32>\n    return %n, %n : " + type + ", " + type));
}

inline runtime::EncodedProgram keep(size_t elements) {
  const std::string type = "tensor<" + std::to_string(elements) + "xf32>";
  return encode(
      moduleText("(%x: " + type + " {sojourn.kind = \"upload\"}) -> (" + type + " {sojourn.result = \"keep\"})",
                 "    return %x : " + type));
}

struct Processes : testing::Test {
  World world;
  TemporaryFolder folder;
  std::shared_ptr<WorkerProcesses> house;
  std::unique_ptr<Owner> owner;

  void start(Limits limits = {}, bool onDisk = false) {
    ProcessOptions options;
    options.program = SOJOURN_WORKER_TOOL;
    options.most = limits.processes;
    options.bytes = limits.processBytes;
    auto started = WorkerProcesses::start(options);
    ASSERT_TRUE(bool(started)) << llvm::toString(started.takeError());
    house = std::move(*started);
    world.store = onDisk ? folder.file("store") : "";
    Environment environment = world.environment();
    environment.worker = processWorkers(house);
    owner = std::make_unique<Owner>(environment, limits);
    ASSERT_EQ(owner->status(), "");
  }

  /// A client that keeps zeros as handle 1.
  Client counter(size_t elements, const std::string &name = "ada") {
    Client client(*owner, name);
    StepRequest step;
    step.uploads = {f32({static_cast<int64_t>(elements)}, std::vector<float>(elements, 0))};
    step.results = {1};
    EXPECT_EQ(client.run(keep(elements), step).error(), "");
    return client;
  }
  /// Adds 1: all elements of the new value, or the error.
  static std::pair<float, std::string> count(Client &client, const runtime::EncodedProgram &program) {
    StepRequest step;
    step.states = {1};
    Reply reply = client.run(program, step);
    if (std::string error = reply.error(); !error.empty()) {
      return {0, error};
    }
    const auto found = values<float>(reply.published(0));
    EXPECT_EQ(found, std::vector<float>(found.size(), found[0])) << "a value of two steps";
    return {found[0], ""};
  }
};

inline bool isRunning(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string number, name, state;
  file >> number >> name >> state;
  return !state.empty() && state != "Z" && state != "X";
}

} // namespace sojourn::owner::test

#endif // SOJOURN_TEST_OWNER_PROCESSSUPPORT_H
