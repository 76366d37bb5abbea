// SPDX-License-Identifier: Apache-2.0
// Goal: where members compute other last bits, all commit and publish those of the first one. Method: owners in one
// process, of which some have an engine that rounds otherwise; workers whose digests lie.
#include "owner/worker/Service.h"
#include "runtime/Buffer.h"
#include "runtime/wire/Worker_generated.h"
#include "test/owner/Support.h"

#include <array>
#include <atomic>
#include <thread>

namespace sojourn::owner::test {

namespace {

using runtime::Element;
using runtime::HostTensor;

/// The CPU's, whose floats have another last bit while it is on: as on a processor with other instructions.
class OtherBits final : public runtime::Engine {
public:
  llvm::StringRef name() const override { return "other bits"; }
  std::string lacks(runtime::EngineTrait trait) const override { return runtime::cpuEngine().lacks(trait); }
  bool hasKernel(llvm::StringRef op) const override { return runtime::cpuEngine().hasKernel(op); }
  unsigned threads() const override { return 1; }
  std::atomic<bool> isOn = true;
  static constexpr size_t kAll = SIZE_MAX;
  std::atomic<size_t> only = kAll; ///< number of the result that is rounded otherwise, of each stage

private:
  class Rounded final : public runtime::Code {
  public:
    Rounded(const OtherBits &engine, std::unique_ptr<runtime::Code> code)
        : Code(engine), engine(engine), code(std::move(code)) {}
    llvm::ArrayRef<runtime::ArgSpec> args() const override { return code->args(); }
    llvm::ArrayRef<runtime::ResultSpec> results() const override { return code->results(); }
    runtime::RunMemory runMemory() const override { return code->runMemory(); }
    llvm::ArrayRef<runtime::LibraryCalls> libraryCalls() const override { return code->libraryCalls(); }
    size_t bytes() const override { return code->bytes(); }
    llvm::Expected<std::vector<HostTensor>> run(llvm::ArrayRef<runtime::Binding> arguments,
                                                const runtime::RunOptions &options) const override {
      auto values = code->run(arguments, options);
      for (HostTensor *value = values ? values->data() : nullptr; value && value != values->data() + values->size();
           ++value) {
        const Element element = value->type.element;
        const size_t width = runtime::byteWidth(element);
        const size_t index = static_cast<size_t>(value - values->data());
        const bool isMeant = engine.isOn && (engine.only == kAll || engine.only == index);
        if (isMeant && (element == Element::f32 || element == Element::f64)) {
          value->buffer = runtime::copyOf(value->buffer->data(), value->type.bytes(), *options.buffers);
          for (size_t at = 0; at < value->type.bytes(); at += width) {
            static_cast<uint8_t *>(value->buffer->data())[at] ^= 1;
          }
        }
      }
      return values;
    }

  private:
    const OtherBits &engine;
    const std::unique_ptr<runtime::Code> code;
  };

  llvm::Expected<std::unique_ptr<runtime::Code>> make(mlir::ModuleOp module) const override {
    auto code = runtime::cpuEngine().prepare(module);
    return code ? llvm::Expected<std::unique_ptr<runtime::Code>>(std::make_unique<Rounded>(*this, std::move(*code)))
                : code.takeError();
  }
};

/// Another worker, whose digests of copies are wrong; or which answers nothing of use when a run resumes for the time
/// `failsAt`.
class LyingPort final : public WorkerPort {
public:
  explicit LyingPort(std::unique_ptr<WorkerPort> port, size_t failsAt = 0) : port(std::move(port)), failsAt(failsAt) {}
  WorkerAnswer call(const WorkerCall &given) override {
    WorkerAnswer answer = port->call(given);
    const auto *call = flatbuffers::GetRoot<sojourn_worker::Call>(given.bytes.data());
    if (failsAt > 0) {
      resumed += call->body_as_Resume() ? 1 : 0;
      answer.bytes = call->body_as_Resume() && resumed == failsAt ? std::string_view() : answer.bytes;
      return answer;
    }
    const auto *body = flatbuffers::GetRoot<sojourn_worker::Answer>(answer.bytes.data());
    const auto *parts = body->body_as_Ran()     ? body->body_as_Ran()->parts()
                        : body->body_as_Waits() ? body->body_as_Waits()->parts()
                                                : nullptr;
    for (flatbuffers::uoffset_t at = 0; parts && at < parts->size(); ++at) {
      if (const auto *copies = parts->Get(at)->copies()) {
        *reinterpret_cast<uint8_t *>(const_cast<sojourn_worker::CopiesDigest *>(copies)) ^= 1;
      }
    }
    return answer;
  }
  void map(uint64_t table, std::shared_ptr<const Dataset> rows) override { port->map(table, std::move(rows)); }
  void unmap(uint64_t table) override { port->unmap(table); }
  unsigned threads() const override { return port->threads(); }
  std::unique_ptr<WorkerPort> forSession() override {
    auto own = port->forSession();
    return own ? std::make_unique<LyingPort>(std::move(own), failsAt) : nullptr;
  }
  llvm::Expected<uint64_t> begin(const runtime::StopFlag *stop, const Patience &patience) override {
    return port->begin(stop, patience);
  }
  void rest() noexcept override { port->rest(); }
  void end() noexcept override { port->end(); }
  std::shared_ptr<runtime::Buffer> taken(std::shared_ptr<runtime::Buffer> value, size_t size) override {
    return port->taken(std::move(value), size);
  }

private:
  const std::unique_ptr<WorkerPort> port;
  const size_t failsAt;
  size_t resumed = 0;
};

/// A step of three owners. `results`: types with attributes.
runtime::EncodedProgram joint(const std::string &arguments, const std::string &results, const std::string &body) {
  return encode("module attributes {sojourn.parties = 3 : i64, sojourn.promotion = \"torch\", sojourn.phase = "
                "\"core\"} {\n  func.func @step(" +
                arguments + ") -> (" + results + ") {\n" + body + "  }\n}\n");
}

constexpr const char *kKept = " {sojourn.result = \"keep\"}", *kPublished = " {sojourn.result = \"publish\"}";

/// Adds the sum of all rows to a state, publishes the sum, and keeps both, a truth value, and the rows of member 1.
runtime::EncodedProgram training() {
  std::string arguments = "%w: tensor<f64> {sojourn.kind = \"state\"}", body;
  for (const std::string k : {"0", "1", "2"}) {
    arguments +=
        ", %t" + k + ": !sojourn.table<4, \"a\" : f64> {sojourn.kind = \"table\", sojourn.party = " + k + " : i64}";
    body += "    %x" + k + " = sojourn.read_rows %t" + k +
            ", %i, columns = [\"a\"] : !sojourn.table<4, \"a\" : f64>, tensor<4xi64> -> tensor<4x1xf64>\n";
  }
  const std::string rows = "tensor<4x1xf64>";
  return joint(arguments,
               "tensor<f64> {sojourn.result = \"commit\", sojourn.target = 0 : i64}, tensor<f64>" +
                   std::string(kPublished) + ", tensor<f64>" + kKept + ", tensor<i1>" + kKept + ", " + rows + kKept,
               "    %i = sojourn.iota dim = 0 : tensor<4xi64>\n" + body +
                   "    %x = sojourn.concat %x0, %x1, %x2 dim = 0 : " + rows + ", " + rows + ", " + rows +
                   "\n    %s = sojourn.reduce_sum %x, dims = [0, 1] : tensor<12x1xf64>\n"
                   "    %d = sojourn.mul %s, %s : tensor<f64>, tensor<f64>\n    %n = sojourn.add %w, %d : tensor<f64>, "
                   "tensor<f64>\n"
                   "    %b = sojourn.compare \"lt\" %w, %n : tensor<f64>, tensor<f64>\n"
                   "    return %n, %d, %d, %b, %x1 : tensor<f64>, tensor<f64>, tensor<f64>, tensor<i1>, " +
                   rows + "\n");
}

/// Publishes, or keeps, what it is given.
runtime::EncodedProgram passing(const std::string &kind, const std::string &type, const char *result) {
  return joint("%x: " + type + " {sojourn.kind = \"" + kind + "\"}", type + result, "    return %x : " + type + "\n");
}
runtime::EncodedProgram doubling(const std::string &type) {
  return joint("%x: " + type + " {sojourn.kind = \"upload\"}", type + kKept + ", " + type + kPublished,
               "    %y = sojourn.add %x, %x : " + type + ", " + type + "\n    return %y, %y : " + type + ", " + type +
                   "\n");
}

/// Owners with a table each, which they share, and a session of a group at each.
class JointCopies : public testing::Test {
protected:
  static constexpr size_t kOwners = 3;
  enum class Odd { none, engine, lie, thirdResume };

  /// `odd`: the difference of member `at`; thirdResume: its worker fails when a run resumes for the third time.
  void open(size_t at, Odd odd, Sharing sharing = Sharing::clear) {
    for (size_t role = 0; role < kOwners; ++role) {
      worlds[role].random.seed(20261129 + role);
      Environment environment = worlds[role].environment();
      environment.isNeighbour = true;
      if (role == at && odd == Odd::engine) {
        environment.worker = workersOn(engine);
      } else if (role == at && odd == Odd::lie) {
        environment.worker = [inner = environment.worker] { return std::make_unique<LyingPort>(inner()); };
      } else if (role == at && odd == Odd::thirdResume) {
        environment.worker = [inner = environment.worker] { return std::make_unique<LyingPort>(inner(), 3); };
      }
      Limits limits;
      limits.sharedRowsLeast = 4;
      owners.push_back(std::make_unique<Owner>(environment, limits));
      keys.push_back(*signing::parseKey(owners.back()->key()));
      RegisterOptions options;
      options.name = "t";
      options.policy = Policy::open;
      DatasetSource source;
      source.arrays = {{"a", Element::f64, 4, rows[role].data(), {}}};
      ASSERT_EQ(errorText(owners[role]->registerDataset(source, options)), "");
    }
    for (size_t role = 0; role < kOwners; ++role) {
      for (size_t other = 0; other < kOwners; ++other) {
        if (role != other) {
          ASSERT_EQ(errorText(owners[role]->share("t", {keys[other]}, sharing)), "");
        }
      }
      clients.push_back(std::make_unique<Client>(*owners[role]));
      join(role);
    }
  }
  void join(size_t role, uint8_t nonceByte = 'n') {
    flatbuffers::FlatBufferBuilder builder;
    std::vector<flatbuffers::Offset<wire::Member>> members;
    for (const signing::PublicKey &key : keys) {
      members.push_back(wire::CreateMember(builder, builder.CreateVector(key.data(), key.size())));
    }
    auto list = builder.CreateVector(members);
    auto nonce = builder.CreateVector(std::vector<uint8_t>(32, nonceByte));
    auto body = wire::CreateJoin(builder, clients[role]->session, static_cast<uint8_t>(role), nonce, list);
    ASSERT_EQ(clients[role]->send(finish(builder, wire::RequestBody_Join, body.Union())).error(), "");
  }
  /// A value of another session becomes number 9 of the group's.
  void borrow(size_t role, uint64_t from, uint64_t handle) {
    flatbuffers::FlatBufferBuilder builder;
    auto given = builder.CreateVector(std::vector<uint64_t>{handle}),
         names = builder.CreateVector(std::vector<uint64_t>{9});
    auto body = wire::CreateBorrow(builder, clients[role]->session, from, given, names);
    ASSERT_EQ(clients[role]->send(finish(builder, wire::RequestBody_Borrow, body.Union())).error(), "");
  }
  static void expectRefused(const std::vector<std::string> &errors) {
    size_t named = 0;
    for (const std::string &error : errors) {
      named += error.find("Refused: this step takes a value that is computed from dataset 't' for one that all members "
                          "of the group have") == 0;
      EXPECT_NE(error, "");
    }
    EXPECT_GE(named, 1u) << errors[0];
  }
  /// For another group.
  void closeAll() {
    clients.clear();
    owners.clear();
    keys.clear();
    notes = {};
    sequence = 0;
    next = 100;
  }
  /// One message to all; the error of each. What they publish and note is in `published` and `notes`.
  std::vector<std::string> send(const runtime::EncodedProgram &program, StepRequest request, bool hasTables = false) {
    std::vector<std::string> errors(kOwners);
    std::vector<std::thread> threads;
    published.assign(kOwners, {});
    failures = {};
    request.sequence = ++sequence;
    request.hash.assign(program.hash.begin(), program.hash.end());
    request.program = program.program;
    request.debug = program.debug;
    for (size_t each = 0; each < kOwners && hasTables; ++each) {
      request.tables.emplace_back("t", llvm::cantFail(owners[each]->dataset("t")).version);
    }
    for (size_t role = 0; role < kOwners; ++role) {
      request.session = clients[role]->session;
      threads.emplace_back([&, role, bytes = stepBytes(request)] {
        const Reply reply(owners[role]->handle(bytes));
        errors[role] = reply.error();
        const auto *done = reply.root->body_as_Done();
        for (unsigned at = 0; done && done->published() && at < done->published()->size(); ++at) {
          published[role].push_back(reply.published(at));
        }
        if (done && done->failure()) {
          failures[role].push_back(done->failure()->message()->str());
        }
        for (unsigned at = 0; done && done->notes() && at < done->notes()->size(); ++at) {
          notes[role].push_back(done->notes()->Get(at)->str());
        }
      });
    }
    for (std::thread &thread : threads) {
      thread.join();
    }
    return errors;
  }
  /// What all publish of a value that they have, equal to the bit without help of the first one.
  std::string bitsOf(uint64_t handle, const std::string &type) {
    engine.isOn = false;
    const auto before = taken();
    StepRequest request;
    request.states = {handle};
    EXPECT_EQ(send(passing("state", type, kPublished), request), kNone);
    EXPECT_TRUE(published[0] == published[1] && published[0] == published[2]) << handle;
    EXPECT_EQ(taken(), before) << "equal bits cost nothing";
    engine.isOn = true;
    return published[0].empty() ? "" : published[0][0];
  }
  std::vector<std::pair<uint64_t, uint64_t>> taken() const {
    std::vector<std::pair<uint64_t, uint64_t>> all;
    for (const auto &owner : owners) {
      all.emplace_back(owner->figures().stepsTakenOver, owner->figures().bytesTakenOver);
    }
    return all;
  }
  void makeState() {
    StepRequest begin;
    begin.uploads = {{static_cast<uint8_t>(Element::f64), {}, bytes(std::vector<double>{0.1})}};
    begin.results = {7};
    ASSERT_EQ(send(passing("upload", "tensor<f64>", kKept), begin), kNone);
  }
  /// A message of some steps, of which so many commit. Kept values have numbers from 100 on.
  void sendSteps(int steps, bool isMasked, size_t committed) {
    const auto step = [&] {
      StepRequest made;
      made.states = {7};
      made.results = {next, next + 1, next + 2};
      next += 3;
      return made;
    };
    StepRequest message = step();
    message.masked = isMasked;
    for (int at = 1; at < steps; ++at) {
      message.repetitions.push_back(step());
    }
    ASSERT_EQ(send(training(), message, /*hasTables=*/true), kNone);
    EXPECT_EQ(published[0].size(), committed);
    EXPECT_EQ(published[1], published[0]);
    EXPECT_EQ(published[2], published[0]);
  }
  /// Makes a state, and trains it: 1, 3, then 1 steps in a message.
  void train(bool isMasked) {
    makeState();
    for (const int steps : {1, 3, 1}) {
      sendSteps(steps, isMasked, static_cast<size_t>(steps));
    }
  }

  const std::vector<std::string> kNone = std::vector<std::string>(kOwners);
  OtherBits engine;
  std::array<World, kOwners> worlds;
  std::array<std::array<double, 4>, kOwners> rows{{{0.1, 0.7, 3, 4}, {5, 6.3, 7, 8}, {9, 10, 1.1, 12}}};
  std::vector<std::unique_ptr<Owner>> owners;
  std::vector<signing::PublicKey> keys;
  std::vector<std::unique_ptr<Client>> clients;
  std::vector<std::vector<std::string>> published;
  std::array<std::vector<std::string>, kOwners> notes, failures;
  uint64_t sequence = 0, next = 100;
};

constexpr double kSum = 66.2; ///< of all rows

/// State, published and kept product, truth value.
constexpr uint64_t kStepBytes = 3 * 8 + 1;

} // namespace

TEST_F(JointCopies, EqualBitsAreNoticedByNobody) {
  open(0, Odd::none);
  train(/*isMasked=*/false);
  EXPECT_NEAR(values<double>(bitsOf(7, "tensor<f64>"))[0], 0.1 + 5 * kSum * kSum, 1e-9);
  for (size_t role = 0; role < kOwners; ++role) {
    EXPECT_EQ(taken()[role], std::pair(uint64_t{0}, uint64_t{0}));
    EXPECT_TRUE(notes[role].empty());
  }
}

TEST_F(JointCopies, AMemberWithOtherBitsTakesOverThoseOfTheFirst) {
  for (const bool isMasked : {false, true}) {
    for (size_t odd : {0u, 2u}) { // where the first one is the odd one, all others take over its bits
      SCOPED_TRACE(std::to_string(odd) + (isMasked ? ", masked" : ""));
      open(odd, Odd::engine, isMasked ? Sharing::sums : Sharing::clear);
      train(isMasked);
      for (size_t role = 0; role < kOwners; ++role) {
        const bool takes = odd == 0 ? role != 0 : role == odd;
        const uint64_t steps = takes ? 5 : 0, bytes = takes ? 5 * kStepBytes : 0;
        EXPECT_EQ(taken()[role], std::pair(steps, bytes)) << role;
        EXPECT_EQ(notes[role].size(), role == 0 ? 1u : 0u) << "told once";
      }
      const std::string note = notes[0].empty() ? "" : notes[0][0];
      EXPECT_NE(note.find("The first member's 25 bytes were taken over"), std::string::npos) << note;
      EXPECT_EQ(note.find("member 1 (") != std::string::npos, odd == 0) << note;
      EXPECT_NE(note.find("member 2 ("), std::string::npos) << note;
      EXPECT_NEAR(values<double>(bitsOf(7, "tensor<f64>"))[0], 0.1 + 5 * kSum * kSum, 1e-7);
      for (uint64_t step = 0; step < 5; ++step) {
        EXPECT_NEAR(values<double>(bitsOf(100 + 3 * step, "tensor<f64>"))[0], kSum * kSum, 1e-9);
        EXPECT_EQ(bitsOf(101 + 3 * step, "tensor<i1>"), std::string(1, '\1'));
      }
      closeAll();
    }
  }
}

/// The next step was computed from copies in whose place others come: it runs anew, in another message.
TEST_F(JointCopies, AMessageOfSomeStepsEndsWhereBitsDiffer) {
  for (const bool isMasked : {false, true}) {
    for (const size_t odd : {0u, 2u}) {
      open(odd, Odd::engine, isMasked ? Sharing::sums : Sharing::clear);
      engine.isOn = false;
      makeState();
      sendSteps(1, isMasked, 1);
      sendSteps(5, isMasked, 5); // two in a call of the worker, then more
      engine.isOn = true;
      sendSteps(6, isMasked, 1);
      for (const auto &failure : failures) {
        EXPECT_TRUE(failure.empty()) << failure[0];
      }
      sendSteps(5, isMasked, 5);
      EXPECT_NEAR(values<double>(bitsOf(7, "tensor<f64>"))[0], 0.1 + 12 * kSum * kSum, 1e-6);
      for (size_t role = 1; role < kOwners; ++role) {
        EXPECT_EQ(taken()[role].first, odd == 0 || role == odd ? 6u : 0u);
      }
      closeAll();
    }
  }
}

/// Others have run it, and put their states back.
TEST_F(JointCopies, AStepThatFailsAtOneMemberAfterItsExchangeCommitsAtNone) {
  for (const bool isMasked : {false, true}) {
    open(1, Odd::thirdResume, isMasked ? Sharing::sums : Sharing::clear);
    makeState();
    sendSteps(1, isMasked, 1);
    sendSteps(3, isMasked, 1);
    EXPECT_EQ(failures[1].at(0).find("the worker answered 0 bytes"), 0u) << failures[1].at(0);
    EXPECT_NE(failures[0].at(0).find("ended the step"), std::string::npos) << failures[0].at(0);
    EXPECT_NEAR(values<double>(bitsOf(7, "tensor<f64>"))[0], 0.1 + 2 * kSum * kSum, 1e-9);
    sendSteps(3, isMasked, 3);
    EXPECT_NEAR(values<double>(bitsOf(7, "tensor<f64>"))[0], 0.1 + 5 * kSum * kSum, 1e-9);
    closeAll();
  }
}

TEST_F(JointCopies, EachResultIsCompared) {
  open(1, Odd::engine);
  StepRequest begin;
  begin.uploads = {{static_cast<uint8_t>(Element::f64), {}, bytes(std::vector<double>{0.1})}};
  begin.results = {7};
  ASSERT_EQ(send(passing("upload", "tensor<f64>", kKept), begin), kNone);
  size_t found = 0;
  for (uint64_t result = 0; result < 4; ++result) {
    const auto before = taken();
    engine.only = result;
    StepRequest step;
    step.states = {7};
    step.results = {100 + 3 * result, 101 + 3 * result, 102 + 3 * result};
    ASSERT_EQ(send(training(), step, /*hasTables=*/true), kNone);
    EXPECT_TRUE(published[0] == published[1] && published[0] == published[2]) << result;
    found += taken()[1].first - before[1].first;
    bitsOf(7, "tensor<f64>");
    bitsOf(100 + 3 * result, "tensor<f64>");
  }
  EXPECT_GE(found, 2u) << "the state and the product";
}

TEST_F(JointCopies, LargeValuesAreTakenOverInPieces) {
  open(1, Odd::engine);
  const std::string type = "tensor<1500001xf32>";
  std::vector<float> numbers(1'500'001);
  for (size_t at = 0; at < numbers.size(); ++at) {
    numbers[at] = static_cast<float>(at) / 3;
  }
  StepRequest request;
  request.uploads = {f32({1'500'001}, numbers)};
  request.results = {4};
  ASSERT_EQ(send(doubling(type), request), kNone);
  for (float &number : numbers) {
    number *= 2;
  }
  for (size_t role = 0; role < kOwners; ++role) {
    EXPECT_TRUE(published[role] == std::vector<std::string>{bytes(numbers)})
        << "those of member 0, whose bits are kept";
  }
  EXPECT_EQ(taken()[1], std::pair(uint64_t{1}, uint64_t{2 * 4 * 1'500'001}));
  EXPECT_TRUE(bitsOf(4, type) == bytes(numbers));
}

/// In a worker process, too, where these tests run with processes.
TEST_F(JointCopies, AWrongDigestChangesNoValue) {
  for (size_t odd : {0u, 1u}) {
    open(odd, Odd::lie);
    StepRequest begin;
    begin.uploads = {f32({30'000}, std::vector<float>(30'000, 1.5F))}; // a memory file of a process
    begin.results = {4};
    const auto errors = send(doubling("tensor<30000xf32>"), begin);
    if (odd == 0) { // the bytes of the first one have another digest than it says
      for (const std::string &error : errors) {
        EXPECT_EQ(error.find("Peer: "), 0u) << error;
      }
    } else {
      EXPECT_EQ(errors, kNone);
      EXPECT_EQ(taken()[1], std::pair(uint64_t{1}, uint64_t{240'000}));
      StepRequest request;
      request.states = {4};
      EXPECT_EQ(send(passing("state", "tensor<30000xf32>", kPublished), request), kNone);
      for (size_t role = 0; role < kOwners; ++role) {
        EXPECT_TRUE(published[role][0] == bytes(std::vector<float>(30'000, 3))) << role;
      }
    }
    closeAll();
  }
}

/// Of a table that another member may not see, its rows under one number at each member are no copies.
TEST_F(JointCopies, RowsAreNotComparedAsCopies) {
  for (const Sharing sharing : {Sharing::none, Sharing::sums, Sharing::clear}) {
    open(0, Odd::none, sharing);
    for (size_t role = 0; role < kOwners; ++role) {
      Client alone(*owners[role]);
      StepRequest read;
      read.tables = {"t"};
      read.results = {3};
      ASSERT_EQ(alone.run(readProgram(), read).error(), "");
      borrow(role, alone.session, 3);
    }
    StepRequest request;
    request.states = {9};
    const auto errors = send(passing("state", "tensor<4x1xf32>", kPublished), request);
    if (sharing == Sharing::clear) {
      EXPECT_EQ(errors, kNone);
      EXPECT_EQ(published[2][0], bytes(std::vector<float>(rows[0].begin(), rows[0].end())));
    } else {
      expectRefused(errors);
      EXPECT_EQ(taken()[1], std::pair(uint64_t{0}, uint64_t{0}));
    }
    closeAll();
  }
}

/// A step of a message puts rows of member 0 in the place of a copy, and the next one takes them for copies.
TEST_F(JointCopies, RowsThatAStepBeforeHasMadeAreNotComparedAsCopies) {
  open(0, Odd::none);
  ASSERT_EQ(errorText(owners[0]->share("t", {keys[1], keys[2]}, Sharing::none)), "");
  const std::string rows = "tensor<4x1xf64>", table = "!sojourn.table<4, \"a\" : f64>";
  std::string arguments = "%w: " + rows + " {sojourn.kind = \"state\"}, %v: " + rows +
                          " {sojourn.kind = \"state\", sojourn.party = 0 : i64}";
  std::string body = "    %i = sojourn.iota dim = 0 : tensor<4xi64>\n";
  for (const std::string k : {"0", "1", "2"}) {
    arguments += ", %t" + k + ": " + table + " {sojourn.kind = \"table\", sojourn.party = " + k + " : i64}";
    body += "    %x" + k + " = sojourn.read_rows %t" + k + ", %i, columns = [\"a\"] : " + table +
            ", tensor<4xi64> -> " + rows + "\n";
  }
  const std::string commits = " {sojourn.result = \"commit\", sojourn.target = ";
  const auto program =
      joint(arguments, rows + commits + "0 : i64}, " + rows + commits + "1 : i64}, tensor<f64>" + kPublished,
            body + "    %n = sojourn.add %w, %w : " + rows + ", " + rows +
                "\n    %s = sojourn.reduce_sum %x1, dims = [0, 1] : " + rows + "\n    return %n, %x0, %s : " + rows +
                ", " + rows + ", tensor<f64>\n");
  for (const uint64_t handle : {7, 8, 9}) {
    StepRequest begin;
    begin.uploads = {{static_cast<uint8_t>(Element::f64), {4, 1}, bytes(std::vector<double>{1, 2, 3, 4})}};
    begin.results = {handle};
    ASSERT_EQ(send(passing("upload", rows, kKept), begin), kNone);
  }
  StepRequest request, next;
  request.states = {7, 9};
  ASSERT_EQ(send(program, request, /*hasTables=*/true), kNone); // two steps in a call from now on
  request.states = {7, 8};
  next.states = {8, 9};
  request.repetitions = {next};
  ASSERT_EQ(send(program, request, /*hasTables=*/true), kNone);
  EXPECT_EQ(published[0].size(), 1u);
  ASSERT_EQ(failures[0].size(), 1u);
  EXPECT_EQ(failures[0][0].find("this step takes a value that is computed from dataset 't' for one that all members"),
            0u)
      << failures[0][0];
  for (size_t role = 1; role < kOwners; ++role) {
    EXPECT_EQ(taken()[role], std::pair(uint64_t{0}, uint64_t{0})) << "rows of member 0";
  }
}

TEST_F(JointCopies, CopiesOfAnotherGroupAreNone) {
  open(0, Odd::none, Sharing::sums);
  train(/*isMasked=*/true);
  const auto before = std::move(clients);
  clients.clear();
  sequence = 0;
  for (size_t role = 0; role < kOwners; ++role) {
    clients.push_back(std::make_unique<Client>(*owners[role]));
    join(role, 'm');
    borrow(role, before[role]->session, 7);
  }
  StepRequest request;
  request.states = {9};
  expectRefused(send(passing("state", "tensor<f64>", kPublished), request));
}

} // namespace sojourn::owner::test
