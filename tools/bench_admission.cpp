// SPDX-License-Identifier: Apache-2.0
// What an owner does for a small step beside decoding it, running it and writing its reply: bench-admission ROUNDS.
// Each case has an owner of its own, in a folder as a server has; cases take turns. Times in microseconds as JSON:
//
//   step       the whole request
//   before     from the request to the run: turn, access, bindings, labels, queue, memory, booking
//   admission  the whole request less the verifier, the run and the reply, each timed by itself; not for private steps,
//              which pay between both
#include "dialect/Dialect.h"
#include "dialect/Version.h"
#include "owner/Accounts.h"
#include "owner/Owner.h"
#include "owner/worker/ProgramCode.h"
#include "owner/worker/Service.h"
#include "owner/worker/Worker.h"
#include "owner/Reply.h"
#include "runtime/Program.h"
#include "runtime/Version.h"
#include "runtime/signing/Proof.h"
#include "runtime/wire/Protocol.h"
#include "runtime/wire/Step.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

using namespace sojourn;
using namespace sojourn::owner;
namespace schema = sojourn_wire;

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kSteps = 200; ///< of a case, in a round
constexpr int64_t kRows = 64;

double microseconds(Clock::duration time) { return std::chrono::duration<double, std::micro>(time).count(); }

[[noreturn]] void fail(const std::string &text) {
  std::fprintf(stderr, "bench-admission: %s\n", text.c_str());
  std::exit(1);
}
void check(llvm::Error error) {
  if (error) {
    fail(llvm::toString(std::move(error)));
  }
}

double median(std::vector<double> times) {
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

runtime::EncodedProgram encode(const std::string &signature, const std::string &body) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<SojournDialect, mlir::func::FuncDialect>();
  auto module = mlir::parseSourceString<mlir::ModuleOp>(
      "module attributes {sojourn.phase = \"core\", sojourn.promotion = \"torch\"} {\n  func.func @step" + signature +
          " {\n" + body + "  }\n}\n",
      &context);
  auto program = module ? runtime::encodeProgram(*module) : llvm::createStringError("a program does not parse");
  return program ? std::move(*program) : (check(program.takeError()), runtime::EncodedProgram());
}

runtime::EncodedProgram keeps() {
  return encode("(%x: tensor<4xf32> {sojourn.kind = \"upload\"}) -> (tensor<4xf32> {sojourn.result = \"keep\"})",
                "    return %x : tensor<4xf32>\n");
}
/// A state that changes, and a number of it.
runtime::EncodedProgram changes() {
  return encode("(%w: tensor<4xf32> {sojourn.kind = \"state\"}) -> (tensor<4xf32> {sojourn.result = \"commit\", "
                "sojourn.target = 0 : i64}, tensor<f32> {sojourn.result = \"publish\"})",
                "    %n = sojourn.tanh %w : tensor<4xf32>\n"
                "    %s = sojourn.reduce_sum %n, dims = [0] : tensor<4xf32>\n"
                "    return %n, %s : tensor<4xf32>, tensor<f32>\n");
}
/// The sum of a column.
runtime::EncodedProgram sums() {
  const std::string table = "!sojourn.table<" + std::to_string(kRows) + ", \"a\" : f64>";
  return encode("(%t: " + table + " {sojourn.kind = \"table\"}) -> (tensor<f64> {sojourn.result = \"publish\"})",
                "    %i = sojourn.iota dim = 0 : tensor<64xi64>\n"
                "    %x = sojourn.read_rows %t, %i, columns = [\"a\"] : " +
                    table +
                    ", tensor<64xi64> -> tensor<64xf64>\n"
                    "    %s = sojourn.reduce_sum %x, dims = [0] : tensor<64xf64>\n"
                    "    return %s : tensor<f64>\n");
}

enum class Who { local, nobody, keyed };

class Case {
public:
  /// Messages of `many` steps; `apart`: each of them a call of the worker.
  Case(std::string name, const std::string &folder, Who who, const char *table, size_t many, bool isApart)
      : name(std::move(name)), who(who), table(table ? table : ""), many(many), program(table ? sums() : changes()) {
    Environment environment = Environment::system(who == Who::local ? "" : folder + "/" + this->name);
    environment.worker = cpuWorkers();
    environment.entering = [this](Phase) { entered = Clock::now(); };
    Limits limits;
    limits.stepsAtOnce = isApart ? 1 : limits.stepsAtOnce;
    limits.stepMs = who == Who::local ? 0 : 3'600'000; // as served
    owner = std::make_unique<Owner>(environment, limits);
    if (!owner->status().empty()) {
      fail(owner->status());
    }
    session = who == Who::keyed ? proved() : welcomed(call(hello(nullptr, "")));
    if (table) {
      registerTable();
    } else {
      keep();
    }
    send(asked(true)); // with the program
  }

  void round() {
    for (int at = 0; at < kSteps; ++at) {
      const std::string bytes = asked(false);
      const auto begin = Clock::now();
      const sojourn::wire::Message reply = owner->answer(bytes, peer(), 1);
      const auto end = Clock::now();
      checkDone(reply.bytes);
      steps.push_back(microseconds(end - begin) / static_cast<double>(many));
      if (many == 1) {
        before.push_back(microseconds(entered - begin));
      }
    }
    if (table != "private" && many == 1) {
      apart();
    }
  }

  nlohmann::json result() const {
    nlohmann::json found = {{"case", name}, {"step", median(steps)}};
    if (!before.empty()) {
      found["before"] = median(before);
    }
    if (!rest.empty()) {
      found["admission"] = median(steps) - median(rest);
    }
    return found;
  }

private:
  Peer peer() const { return who == Who::local ? Peer::owner : Peer::client; }

  std::string call(const std::string &bytes) { return std::string(owner->answer(bytes, peer(), 1).bytes); }
  static const schema::Reply &replyOf(std::string_view bytes) {
    const auto *reply = flatbuffers::GetRoot<schema::Reply>(bytes.data());
    if (const auto *error = reply->body_as_Error()) {
      fail(error->message()->str());
    }
    return *reply;
  }
  static void checkDone(std::string_view bytes) {
    if (replyOf(bytes).body_type() != schema::ReplyBody_Done) {
      fail("a step was not done");
    }
  }
  void send(const std::string &bytes) { checkDone(call(bytes)); }
  static uint64_t welcomed(const std::string &bytes) { return replyOf(bytes).body_as_Welcome()->session(); }

  static std::string finish(flatbuffers::FlatBufferBuilder &builder, schema::RequestBody kind,
                            flatbuffers::Offset<void> body) {
    schema::FinishRequestBuffer(builder, schema::CreateRequest(builder, kind, body));
    return {reinterpret_cast<const char *>(builder.GetBufferPointer()), builder.GetSize()};
  }
  template <class Bytes>
  static flatbuffers::Offset<flatbuffers::Vector<uint8_t>> vector(flatbuffers::FlatBufferBuilder &builder,
                                                                  const Bytes &bytes) {
    return builder.CreateVector(reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size());
  }
  static std::string hello(const signing::PublicKey *key, const std::string &nonce) {
    flatbuffers::FlatBufferBuilder builder;
    auto client = builder.CreateString("bench-admission");
    auto identity = key ? vector(builder, *key) : 0, drawn = key ? vector(builder, nonce) : 0;
    return finish(builder, schema::RequestBody_Hello,
                  schema::CreateHello(builder, sojourn::wire::kProtocolVersion, runtime::kFormatVersion,
                                      kDialectVersion, client, identity, drawn)
                      .Union());
  }
  uint64_t proved() {
    const signing::SigningKey key = signing::SigningKey::generate();
    check(owner->accounts().addClient("ada", key.publicKey()));
    const signing::PublicKey own = key.publicKey();
    const std::string nonce(signing::kNonceBytes, 'n'), answer = call(hello(&own, nonce));
    const auto *challenge = replyOf(answer).body_as_Challenge();
    const std::string text(reinterpret_cast<const char *>(challenge->challenge()->data()),
                           challenge->challenge()->size());
    signing::PublicKey shown;
    std::copy_n(challenge->owner_key()->data(), shown.size(), shown.begin());
    const auto proof = key.sign(signing::kClientProof, signing::statement(shown, own, nonce, text));
    flatbuffers::FlatBufferBuilder builder;
    auto mine = vector(builder, own), again = vector(builder, nonce), given = vector(builder, text),
         signature = vector(builder, proof);
    return welcomed(call(finish(builder, schema::RequestBody_Prove,
                                schema::CreateProve(builder, 0, mine, again, given, signature).Union())));
  }
  void registerTable() {
    std::vector<double> rows(kRows, 0.5);
    RegisterOptions options;
    options.name = table;
    options.policy = table == "open" ? Policy::open : Policy::privateOnly;
    options.bounds = {{"a", {0, 1}}};
    options.subject = "";
    check(owner->registerDataset({"", {{"a", runtime::Element::f64, kRows, rows.data()}}}, options));
    if (table == "private") {
      check(owner->setCap(table, 1e6, 1e-5));
      check(owner->grant("ada", table, 1e6, 1e-5));
    } else {
      check(owner->changeAccess(table, {"ada"}, {}));
    }
    version = llvm::cantFail(owner->dataset(table)).version;
  }

  sojourn::wire::Step of(const runtime::EncodedProgram &given, bool withBytes) {
    sojourn::wire::Step step;
    step.session = session;
    step.sequence = ++sequence;
    std::copy(given.hash.begin(), given.hash.end(), step.hash.begin());
    if (withBytes) {
      step.program = given.program;
      step.debug = given.debug;
    }
    return step;
  }
  static std::string bytesOf(const sojourn::wire::Step &step) {
    flatbuffers::FlatBufferBuilder builder(sojourn::wire::encodedBound(step));
    return finish(builder, schema::RequestBody_Step, sojourn::wire::encode(builder, step).Union());
  }
  void keep() {
    const runtime::EncodedProgram kept = keeps();
    sojourn::wire::Step step = of(kept, true);
    step.uploads = {{static_cast<uint8_t>(runtime::Element::f32),
                     {4},
                     {reinterpret_cast<const uint8_t *>(values.data()), values.size() * sizeof(float)}}};
    step.results = {1};
    send(bytesOf(step));
  }
  std::string asked(bool withBytes) {
    sojourn::wire::Step step = of(program, withBytes);
    if (table.empty()) {
      step.states = {1};
    } else {
      step.tables = {{table, version}};
    }
    if (table == "private") {
      step.spending.run = 1;
      step.spending.steps = 1'000'000;
      step.spending.noiseMultiplier = 100;
    }
    step.repetitions.resize(many - 1);
    return bytesOf(step);
  }

  /// Verifier, run and reply without an owner.
  void apart() {
    if (!code) {
      auto made = cpuWorker().describe(program.program, program.debug);
      check(made ? llvm::Error::success() : made.takeError());
      code = made->code;
      auto read = runtime::readFacts(made->facts);
      check(read ? llvm::Error::success() : read.takeError());
      facts = std::move(*read);
      if (table.empty()) {
        runtime::HostTensor tensor{facts.args[0].type,
                                   runtime::BufferPool::global().allocate(values.size() * sizeof(float))};
        std::copy(values.begin(), values.end(), static_cast<float *>(tensor.buffer->data()));
        bindings = {{tensor, nullptr}};
      } else {
        source = std::make_unique<Rows>();
        bindings = {{{}, source.get()}};
      }
    }
    --sequence;
    const std::string bytes = asked(false);
    runtime::RunOptions options;
    options.threads = std::thread::hardware_concurrency();
    for (int at = 0; at < kSteps; ++at) {
      const auto begin = Clock::now();
      flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size(), kMessageDepth,
                                     kMessageTables);
      if (!verifier.VerifyBuffer<schema::Request>(schema::RequestIdentifier())) {
        fail("a request is malformed");
      }
      auto found = code->step->run(bindings, options);
      check(found ? llvm::Error::success() : found.takeError());
      DoneReply reply(1, facts.publishes, facts.publishBytes);
      reply.add({&found->back()}, {});
      const sojourn::wire::Message message = reply.finish(std::nullopt);
      rest.push_back(microseconds(Clock::now() - begin));
    }
  }

  /// As a table in memory: a column of one number.
  struct Rows : runtime::RowSource {
    int64_t rows() const override { return kRows; }
    void readRows(llvm::ArrayRef<std::string>, llvm::ArrayRef<int64_t> indices, runtime::Element,
                  void *out) const override {
      std::fill_n(static_cast<double *>(out), indices.size(), 0.5);
    }
  };

  const std::string name;
  const Who who;
  const std::string table;
  const size_t many;
  const runtime::EncodedProgram program;
  const std::vector<float> values{0.1f, 0.2f, 0.3f, 0.4f};
  std::unique_ptr<Owner> owner;
  std::string version;
  uint64_t session = 0, sequence = 0;
  Clock::time_point entered;
  std::shared_ptr<const ProgramCode> code;
  runtime::ProgramFacts facts;
  std::unique_ptr<Rows> source;
  std::vector<runtime::Binding> bindings;
  std::vector<double> steps, before, rest;
};

} // namespace

int main(int argc, char **argv) {
  if (argc < 2) {
    fail("expected ROUNDS [CASE]");
  }
  const int rounds = std::atoi(argv[1]);
  const std::string only = argc > 2 ? argv[2] : "";
  std::string folder = (std::filesystem::temp_directory_path() / "bench-admission-XXXXXX").string();
  if (!mkdtemp(folder.data())) {
    fail("no folder for the stores");
  }
  {
    std::vector<std::unique_ptr<Case>> cases;
    auto add = [&](const char *name, Who who, const char *table, size_t many = 1, bool isApart = false) {
      if (only.empty() || only == name) {
        cases.push_back(std::make_unique<Case>(name, folder, who, table, many, isApart));
      }
    };
    add("embedded", Who::local, nullptr);
    add("nobody", Who::nobody, nullptr);
    add("keyed", Who::keyed, nullptr);
    add("open", Who::keyed, "open");
    add("private", Who::keyed, "private");
    add("64 steps", Who::keyed, nullptr, 64);
    add("64 apart", Who::keyed, nullptr, 64, true);
    for (int at = 0; at < rounds; ++at) {
      for (auto &each : cases) {
        each->round();
      }
    }
    nlohmann::json all;
    for (const auto &each : cases) {
      all.push_back(each->result());
    }
    std::printf("%s\n", all.dump(1).c_str());
  }
  std::filesystem::remove_all(folder);
  return 0;
}
