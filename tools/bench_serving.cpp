// SPDX-License-Identifier: Apache-2.0
// Clients of a served owner that send small steps one after another, beside others that send large ones:
// bench-serving ADDRESS SMALL LARGE SECONDS. Prints steps and times of replies as JSON. Used by tools/bench_serving.py.
#include "dialect/Version.h"
#include "frontend/wire/Client.h"
#include "frontend/wire/KnownOwners.h"
#include "frontend/wire/Trust.h"
#include "runtime/Program.h"
#include "runtime/Tensor.h"
#include "runtime/Version.h"
#include "runtime/wire/Messages_generated.h"
#include "runtime/wire/Protocol.h"
#include "runtime/wire/Step.h"

#include "mlir/Parser/Parser.h"
#include "dialect/Dialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

using namespace sojourn;

namespace {

using Clock = std::chrono::steady_clock;

[[noreturn]] void fail(const std::string &text) {
  std::fprintf(stderr, "bench-serving: %s\n", text.c_str());
  std::exit(1);
}

/// One connection with a session, as the frontend dials it.
class Client {
public:
  explicit Client(const std::string &address) {
    const bool isTls = address.starts_with("tls+");
    auto owners = std::make_shared<frontend::KnownOwners>("", "", address);
    transport = frontend::dialTransport(address, 0, isTls ? std::make_shared<frontend::Trust>(owners) : nullptr,
                                        /*plainTcp=*/true);
    flatbuffers::FlatBufferBuilder builder(1024, &transport->allocator());
    auto hello = sojourn_wire::CreateHelloDirect(builder, wire::kProtocolVersion, runtime::kFormatVersion,
                                                 kDialectVersion, "bench-serving");
    finish(builder, sojourn_wire::RequestBody_Hello, hello.Union());
    const sojourn_wire::Reply *reply = call(builder);
    if (!reply->body_as_Welcome()) {
      fail(reply->body_as_Error() ? reply->body_as_Error()->message()->str() : "no session");
    }
    session = reply->body_as_Welcome()->session();
    transport->setSession(session);
  }
  Client(const Client &) = delete;
  Client &operator=(const Client &) = delete;

  /// False where the owner refuses it.
  bool step(wire::Step step) {
    step.session = session;
    step.sequence = ++sequence;
    flatbuffers::FlatBufferBuilder builder(wire::encodedBound(step), &transport->allocator());
    finish(builder, sojourn_wire::RequestBody_Step, wire::encode(builder, step).Union());
    const sojourn_wire::Reply *reply = call(builder);
    if (const auto *error = reply->body_as_Error()) {
      std::fprintf(stderr, "bench-serving: %s\n", error->message()->c_str());
    }
    return reply->body_type() == sojourn_wire::ReplyBody_Done;
  }

private:
  static void finish(flatbuffers::FlatBufferBuilder &builder, sojourn_wire::RequestBody kind,
                     flatbuffers::Offset<void> body) {
    builder.Finish(sojourn_wire::CreateRequest(builder, kind, body), sojourn_wire::RequestIdentifier());
  }
  const sojourn_wire::Reply *call(flatbuffers::FlatBufferBuilder &builder) {
    const std::string_view request(reinterpret_cast<const char *>(builder.GetBufferPointer()), builder.GetSize());
    std::string failure;
    if (transport->tryCall(request, answer, failure) != frontend::CallStatus::Answered) {
      fail(failure);
    }
    return flatbuffers::GetRoot<sojourn_wire::Reply>(answer.bytes.data());
  }

  std::unique_ptr<frontend::Transport> transport;
  uint64_t session = 0, sequence = 0;
  frontend::Answer answer;
};

/// A program that keeps an upload of these sizes, and one that changes it and publishes a number.
struct Programs {
  runtime::EncodedProgram keep, change;
  std::vector<float> values;
  std::vector<int64_t> dims;

  Programs(const std::string &type, std::vector<int64_t> sizes, const std::string &body) : dims(std::move(sizes)) {
    size_t count = 1;
    for (int64_t size : dims) {
      count *= static_cast<size_t>(size);
    }
    values.assign(count, 1e-3f);
    keep = encode("(%x: " + type + " {sojourn.kind = \"upload\"}) -> (" + type + " {sojourn.result = \"keep\"})",
                  "    return %x : " + type + "\n");
    change = encode("(%w: " + type + " {sojourn.kind = \"state\"}) -> (" + type +
                        " {sojourn.result = \"commit\", sojourn.target = 0 : i64}, tensor<f32> {sojourn.result = "
                        "\"publish\"})",
                    body + "    %s = sojourn.reduce_sum %n, dims = [0, 1] : " + type + "\n    return %n, %s : " + type +
                        ", tensor<f32>\n");
  }
  static runtime::EncodedProgram encode(const std::string &signature, const std::string &body) {
    mlir::MLIRContext context;
    context.loadDialect<SojournDialect, mlir::func::FuncDialect>();
    auto module = mlir::parseSourceString<mlir::ModuleOp>(
        "module attributes {sojourn.phase = \"core\", sojourn.promotion = \"torch\"} {\n  func.func @step" + signature +
            " {\n" + body + "  }\n}\n",
        &context);
    if (!module) {
      fail("a program does not parse");
    }
    auto program = runtime::encodeProgram(*module);
    if (!program) {
      fail(llvm::toString(program.takeError()));
    }
    return std::move(*program);
  }
  bool begin(Client &client) const {
    wire::Step step = of(keep);
    step.uploads = {{static_cast<uint8_t>(runtime::Element::f32),
                     dims,
                     {reinterpret_cast<const uint8_t *>(values.data()), values.size() * sizeof(float)}}};
    step.results = {1};
    return client.step(step) && client.step(changing(true));
  }
  wire::Step changing(bool withBytes) const {
    wire::Step step = of(change);
    step.states = {1};
    if (!withBytes) {
      step.program = step.debug = {};
    }
    return step;
  }

private:
  static wire::Step of(const runtime::EncodedProgram &program) {
    wire::Step step;
    std::copy(program.hash.begin(), program.hash.end(), step.hash.begin());
    step.program = program.program;
    step.debug = program.debug;
    return step;
  }
};

Programs smallPrograms() {
  const std::string type = "tensor<64x64xf32>";
  return {type,
          {64, 64},
          "    %d = sojourn.dot %w, %w, lhs_batch = [], rhs_batch = [], lhs_contract = [1], rhs_contract = [0] : " +
              type + ", " + type + " -> " + type + "\n    %n = sojourn.tanh %d : " + type + "\n"};
}

/// Some seconds of one processor.
Programs largePrograms() {
  const std::string type = "tensor<1024x1024xf32>";
  std::string body, last = "%w";
  for (int at = 0; at < 60; ++at) {
    const std::string next = at == 59 ? "%n" : "%t" + std::to_string(at), dot = "%d" + std::to_string(at);
    body += "    " + dot + " = sojourn.dot " + last + ", " + last +
            ", lhs_batch = [], rhs_batch = [], lhs_contract = [1], rhs_contract = [0] : " + type + ", " + type +
            " -> " + type + "\n    " + next + " = sojourn.tanh " + dot + " : " + type + "\n";
    last = next;
  }
  return {type, {1024, 1024}, body};
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 5) {
    fail("expected ADDRESS SMALL LARGE SECONDS");
  }
  const size_t small = std::strtoul(argv[2], nullptr, 10), large = std::strtoul(argv[3], nullptr, 10);
  const double seconds = std::strtod(argv[4], nullptr);
  const Programs quick = smallPrograms(), slow = largePrograms();
  std::atomic<bool> isOver = false, begins = false;
  std::atomic<size_t> ready = 0;
  std::vector<std::vector<double>> times(small);
  std::atomic<uint64_t> largeSteps = 0;
  std::vector<std::thread> threads;
  for (size_t at = 0; at < small + large; ++at) {
    threads.emplace_back([&, at] {
      Client client(argv[1]);
      const bool isSmall = at < small;
      const Programs &programs = isSmall ? quick : slow;
      if (isSmall && !programs.begin(client)) {
        fail("a client cannot begin");
      }
      ++ready;
      while (!begins) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      if (!isSmall && !programs.begin(client)) {
        return;
      }
      while (!isOver) {
        const auto start = Clock::now();
        if (!client.step(programs.changing(false))) {
          return;
        }
        if (isSmall) {
          times[at].push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
        } else {
          ++largeSteps;
        }
      }
    });
  }
  while (ready < small + large) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  begins = true;
  if (large > 0) { // all of them have come by then
    std::this_thread::sleep_for(std::chrono::seconds(2));
  }
  const auto begin = Clock::now();
  std::vector<size_t> before;
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  const double spent = std::chrono::duration<double>(Clock::now() - begin).count() + (large > 0 ? 2 : 0);
  isOver = true;
  std::vector<double> all, counts;
  // Large steps end with their connections.
  for (size_t at = 0; at < small; ++at) {
    threads[at].join();
    all.insert(all.end(), times[at].begin(), times[at].end());
    counts.push_back(static_cast<double>(times[at].size()));
  }
  std::sort(all.begin(), all.end());
  auto quantile = [&](double q) {
    return all.empty() ? 0 : all[std::min(all.size() - 1, size_t(q * double(all.size())))];
  };
  const double most = counts.empty() ? 0 : *std::max_element(counts.begin(), counts.end());
  const nlohmann::json result = {{"steps_per_second", static_cast<double>(all.size()) / spent},
                                 {"p50_us", quantile(0.5)},
                                 {"p99_us", quantile(0.99)},
                                 {"most_us", all.empty() ? 0 : all.back()},
                                 {"fairness", most > 0 ? *std::min_element(counts.begin(), counts.end()) / most : 0},
                                 {"large_steps", largeSteps.load()}};
  std::printf("%s\n", result.dump().c_str());
  std::fflush(stdout);
  std::_Exit(0);
}
