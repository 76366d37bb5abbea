// SPDX-License-Identifier: Apache-2.0
// Requests as bytes, replies as values, programs from text.
#include "test/owner/Support.h"

#include "dialect/CoreForm.h"
#include "owner/process/Ports.h"
#include "owner/worker/Service.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <sys/wait.h>

namespace sojourn::owner::test {

/// In this process; or, with SOJOURN_TEST_PROCESSES=1, in processes, those of all tests from one zygote.
static WorkerFactory workers() {
  if (const char *isAsked = std::getenv("SOJOURN_TEST_PROCESSES"); !isAsked || *isAsked != '1') {
    return cpuWorkers();
  }
  static const std::shared_ptr<WorkerProcesses> house = [] {
    auto started = WorkerProcesses::start({.program = SOJOURN_WORKER_TOOL});
    return started ? std::move(*started) : throw std::runtime_error(llvm::toString(started.takeError()));
  }();
  return processWorkers(house);
}

Environment World::environment() {
  Environment environment;
  environment.clockMs = [this] { return now; };
  environment.elapsedMs = [this] { return elapsed; };
  environment.randomBytes = [this](void *out, size_t size) {
    for (size_t index = 0; index < size; ++index) {
      static_cast<uint8_t *>(out)[index] = static_cast<uint8_t>(random());
    }
  };
  environment.storeDirectory = store;
  environment.worker = workers();
  environment.log = [this](std::string_view text) { logged.emplace_back(text); };
  return environment;
}

WorkerStub &testWorker() {
  static WorkerStub worker(cpuWorkers()());
  return worker;
}

TemporaryFolder::TemporaryFolder() {
  std::string pattern = std::filesystem::temp_directory_path() / "sojourn-owner-XXXXXX";
  path = mkdtemp(pattern.data());
}
TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}
std::string TemporaryFolder::write(const std::string &name, const std::string &contents) const {
  std::ofstream(file(name), std::ios::binary) << contents;
  return file(name);
}

std::string moduleText(const std::string &signature, const std::string &body) {
  return "module attributes {sojourn.promotion = \"torch\", sojourn.phase = \"core\"} {\n"
         "  func.func @step" +
         signature + " {\n" + body + "\n  }\n}\n";
}

runtime::EncodedProgram encode(const std::string &text) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  loadDialects(context);
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context, "train.py");
  if (!module) {
    ADD_FAILURE() << "does not parse: " << text;
    return {};
  }
  auto program = runtime::encodeProgram(*module);
  if (!program) {
    ADD_FAILURE() << llvm::toString(program.takeError());
    return {};
  }
  return std::move(*program);
}

Upload f32(std::vector<int64_t> dims, std::vector<float> data) {
  return {static_cast<uint8_t>(runtime::Element::f32), std::move(dims), bytes(std::move(data))};
}

Reply::Reply(std::string bytes) : root(nullptr), memory(std::move(bytes)) {
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t *>(memory.data()), memory.size());
  if (verifier.VerifyBuffer<wire::Reply>(wire::RequestIdentifier())) {
    root = flatbuffers::GetRoot<wire::Reply>(memory.data());
  } else {
    ADD_FAILURE() << "the reply of " << memory.size() << " bytes is not a Reply";
    throw std::runtime_error("no reply");
  }
}

std::string Reply::error() const {
  const auto *error = root->body_as_Error();
  return error ? std::string(wire::EnumNameErrorCode(error->code())) + ": " + error->message()->str() : "";
}

const wire::Error &Reply::asError() const {
  if (const auto *error = root->body_as_Error()) {
    return *error;
  }
  throw std::runtime_error(std::string("not an error: ") + wire::EnumNameReplyBody(kind()));
}

std::string Reply::published(unsigned index) const {
  const auto *done = root->body_as_Done();
  if (!done || index >= done->published()->size()) {
    ADD_FAILURE() << "nothing published: " << error();
    return "";
  }
  const auto *data = done->published()->Get(index)->data();
  return {reinterpret_cast<const char *>(data->data()), data->size()};
}

std::string finish(flatbuffers::FlatBufferBuilder &builder, wire::RequestBody kind, flatbuffers::Offset<void> body) {
  wire::FinishRequestBuffer(builder, wire::CreateRequest(builder, kind, body));
  return {reinterpret_cast<const char *>(builder.GetBufferPointer()), builder.GetSize()};
}

std::string helloBytes(const std::string &client, uint32_t protocol, uint32_t format, uint32_t dialect) {
  flatbuffers::FlatBufferBuilder builder;
  auto name = builder.CreateString(client);
  auto body = wire::CreateHello(builder, protocol, format, dialect, name);
  return finish(builder, wire::RequestBody_Hello, body.Union());
}

static flatbuffers::Offset<flatbuffers::Vector<uint8_t>> vector(flatbuffers::FlatBufferBuilder &builder,
                                                                const std::string &data) {
  return data.empty() ? 0 : builder.CreateVector(reinterpret_cast<const uint8_t *>(data.data()), data.size());
}

static flatbuffers::Offset<flatbuffers::Vector<flatbuffers::Offset<wire::Tensor>>>
uploadsOf(flatbuffers::FlatBufferBuilder &builder, const StepRequest &step) {
  std::vector<flatbuffers::Offset<wire::Tensor>> uploads;
  flatbuffers::Offset<flatbuffers::Vector<uint8_t>> shared;
  if (step.sharedBehind) {
    vector(builder, std::string(*step.sharedBehind, 'x'));
    shared = vector(builder, step.uploads.at(0).data);
  }
  for (const Upload &upload : step.uploads) {
    auto dims = builder.CreateVector(upload.dims);
    auto data = step.sharedBehind ? shared : vector(builder, upload.data);
    uploads.push_back(wire::CreateTensor(builder, upload.element, dims, data, upload.sentAhead));
  }
  return builder.CreateVector(uploads);
}

std::string stepBytes(const StepRequest &step) {
  flatbuffers::FlatBufferBuilder builder;
  auto hash = vector(builder, step.hash), program = vector(builder, step.program), debug = vector(builder, step.debug);
  auto states = builder.CreateVector(step.states);
  auto uploadsVector = uploadsOf(builder, step);
  auto slots = builder.CreateVector(step.slots), seeds = builder.CreateVector(step.seeds);
  std::vector<flatbuffers::Offset<wire::TableBinding>> bindings;
  for (const TableName &table : step.tables) {
    bindings.push_back(wire::CreateTableBindingDirect(builder, table.name.c_str(), table.version.c_str()));
  }
  auto tables = builder.CreateVector(bindings);
  auto results = builder.CreateVector(step.results), releases = builder.CreateVector(step.releases);
  flatbuffers::Offset<wire::Spending> spending;
  if (!step.spending.isDefault()) {
    const sojourn::wire::Spending &asked = step.spending;
    std::vector<flatbuffers::Offset<wire::ReleaseTerms>> terms;
    for (const sojourn::wire::ReleaseTerms &release : asked.releases) {
      terms.push_back(
          wire::CreateReleaseTerms(builder, release.bound, release.epsilon, release.delta, release.continues));
    }
    auto termsVector = builder.CreateVector(terms);
    spending = wire::CreateSpending(builder, asked.run, asked.steps, asked.noiseMultiplier, asked.clip, asked.perLayer,
                                    asked.lossIsSum, asked.metricShare, termsVector);
  }
  std::vector<flatbuffers::Offset<wire::Repetition>> further;
  for (const StepRequest &each : step.repetitions) {
    auto nextStates = builder.CreateVector(each.states), nextSlots = builder.CreateVector(each.slots);
    auto nextSeeds = builder.CreateVector(each.seeds), nextResults = builder.CreateVector(each.results);
    auto nextReleases = builder.CreateVector(each.releases);
    auto nextUploads = uploadsOf(builder, each);
    further.push_back(wire::CreateRepetition(builder, nextStates, nextUploads, nextSlots, nextSeeds, nextResults,
                                             nextReleases, each.resultRange.first, each.resultRange.second,
                                             each.releaseRange.first, each.releaseRange.second));
  }
  auto repetitions = builder.CreateVector(further);
  auto body = wire::CreateStep(builder, step.session, step.sequence, hash, program, debug, states, uploadsVector, slots,
                               seeds, tables, results, releases, spending, repetitions, step.deadlineMs, step.mark,
                               step.attempt, step.masked, step.resultRange.first, step.resultRange.second,
                               step.releaseRange.first, step.releaseRange.second);
  return finish(builder, wire::RequestBody_Step, body.Union());
}

std::string watchBytes(uint64_t session, bool stop, uint64_t mark) {
  flatbuffers::FlatBufferBuilder builder;
  return finish(builder, wire::RequestBody_Watch, wire::CreateWatch(builder, session, stop, mark).Union());
}

std::string uploadBytes(uint64_t session, uint64_t upload, uint64_t size, uint64_t offset, const std::string &data) {
  flatbuffers::FlatBufferBuilder builder;
  auto part = vector(builder, data);
  auto body = wire::CreateUpload(builder, session, upload, size, offset, part);
  return finish(builder, wire::RequestBody_Upload, body.Union());
}

std::string releaseBytes(uint64_t session, const std::vector<uint64_t> &handles) {
  flatbuffers::FlatBufferBuilder builder;
  auto body = wire::CreateRelease(builder, session, builder.CreateVector(handles));
  return finish(builder, wire::RequestBody_Release, body.Union());
}

std::string byeBytes(uint64_t session) {
  flatbuffers::FlatBufferBuilder builder;
  return finish(builder, wire::RequestBody_Bye, wire::CreateBye(builder, session).Union());
}

std::string listDatasetsBytes(uint64_t session) {
  flatbuffers::FlatBufferBuilder builder;
  return finish(builder, wire::RequestBody_ListDatasets, wire::CreateListDatasets(builder, session).Union());
}

std::string listProgramsBytes(bool withText) {
  flatbuffers::FlatBufferBuilder builder;
  return finish(builder, wire::RequestBody_ListPrograms, wire::CreateListPrograms(builder, withText).Union());
}

Client::Client(Owner &owner, const std::string &name, Peer peer) : owner(owner), peer(peer) {
  Reply reply = send(helloBytes(name));
  EXPECT_EQ(reply.error(), "");
  session = reply.root->body_as_Welcome() ? reply.root->body_as_Welcome()->session() : 0;
}

Reply Client::run(const runtime::EncodedProgram &program, StepRequest step) {
  Reply reply = send(request(program, std::move(step)));
  steps += reply.kind() == wire::ReplyBody_Done;
  return reply;
}

std::string Client::request(const runtime::EncodedProgram &program, StepRequest step) {
  step.session = session;
  step.sequence = steps + 1;
  step.hash.assign(program.hash.begin(), program.hash.end());
  step.program = program.program;
  step.debug = program.debug;
  for (TableName &table : step.tables) {
    if (table.version.empty()) {
      Reply listed = send(listDatasetsBytes(session));
      for (const wire::Dataset *dataset : *listed.root->body_as_Datasets()->datasets()) {
        table.version = dataset->name()->str() == table.name ? dataset->version()->str() : table.version;
      }
    }
  }
  return stepBytes(step);
}

Client identified(Owner &owner, const signing::SigningKey &key) {
  Client client(owner, "test", Peer::client);
  std::string nonce(signing::kNonceBytes, 'n');
  auto vector = [](flatbuffers::FlatBufferBuilder &builder, const auto &data) {
    return builder.CreateVector(reinterpret_cast<const uint8_t *>(data.data()), data.size());
  };
  flatbuffers::FlatBufferBuilder hello, prove;
  auto identity = vector(hello, key.publicKey()), drawn = vector(hello, nonce);
  Reply asked(owner.handle(finish(hello, wire::RequestBody_Hello,
                                  wire::CreateHello(hello, sojourn::wire::kProtocolVersion, runtime::kFormatVersion,
                                                    kDialectVersion, 0, identity, drawn)
                                      .Union()),
                           Peer::client));
  const auto *challenge = asked.root->body_as_Challenge();
  std::string text(reinterpret_cast<const char *>(challenge->challenge()->data()), challenge->challenge()->size());
  signing::PublicKey shown;
  std::copy_n(challenge->owner_key()->data(), shown.size(), shown.begin());
  auto proof = key.sign(signing::kClientProof, signing::statement(shown, key.publicKey(), nonce, text));
  auto mine = vector(prove, key.publicKey()), again = vector(prove, nonce), given = vector(prove, text),
       signature = vector(prove, proof);
  Reply welcome(owner.handle(
      finish(prove, wire::RequestBody_Prove, wire::CreateProve(prove, 0, mine, again, given, signature).Union()),
      Peer::client));
  client.session = welcome.root->body_as_Welcome()->session();
  return client;
}

std::string errorText(llvm::Error error) { return error ? llvm::toString(std::move(error)) : ""; }

std::pair<std::string, int> tool(const std::string &arguments) {
  std::string output;
  FILE *pipe = popen((std::string(SOJOURN_OWNER_TOOL) + " " + arguments + " 2>&1 </dev/null").c_str(), "r");
  std::array<char, 4096> buffer;
  while (size_t size = fread(buffer.data(), 1, buffer.size(), pipe)) {
    output.append(buffer.data(), size);
  }
  return {output, WEXITSTATUS(pclose(pipe))};
}

void registerNumbers(Owner &owner, const std::string &name, Policy policy) {
  double a[] = {1, 2, 3, 4};
  int64_t n[] = {10, 20, 30, 40};
  RegisterOptions options;
  options.name = name;
  options.policy = policy;
  options.bounds = {{"a", {0, 10}}, {"n", {0, 100}}};
  options.subject = "";
  DatasetSource source{"", {{"a", runtime::Element::f64, 4, a}, {"n", runtime::Element::i64, 4, n}}};
  EXPECT_EQ(errorText(owner.registerDataset(source, options)), "");
}

runtime::EncodedProgram keepProgram() {
  return encode(moduleText("(%x: tensor<3xf32> {sojourn.kind = \"upload\"}) -> (tensor<3xf32> "
                           "{sojourn.result = \"keep\"})",
                           "    return %x : tensor<3xf32>"));
}

runtime::EncodedProgram publishProgram() {
  return encode(moduleText("(%x: tensor<3xf32> {sojourn.kind = \"state\"}) -> (tensor<3xf32> "
                           "{sojourn.result = \"publish\"})",
                           "    return %x : tensor<3xf32>"));
}

runtime::EncodedProgram readProgram() {
  return encode(moduleText("(%t: !sojourn.table<4, \"a\" : f64> {sojourn.kind = \"table\"}) -> (tensor<4x1xf32> "
                           "{sojourn.result = \"keep\"})",
                           "    %i = sojourn.iota dim = 0 : tensor<4xi64>\n"
                           "    %x = sojourn.read_rows %t, %i, columns = [\"a\"] : !sojourn.table<4, \"a\" : f64>, "
                           "tensor<4xi64> -> tensor<4x1xf32>\n"
                           "    return %x : tensor<4x1xf32>"));
}

runtime::EncodedProgram sumProgram() {
  return encode(moduleText("(%t: !sojourn.table<4, \"a\" : f64> {sojourn.kind = \"table\"}) -> (tensor<f64> "
                           "{sojourn.result = \"publish\"})",
                           "    %i = sojourn.iota dim = 0 : tensor<4xi64>\n"
                           "    %x = sojourn.read_rows %t, %i, columns = [\"a\"] : !sojourn.table<4, \"a\" : f64>, "
                           "tensor<4xi64> -> tensor<4xf64>\n"
                           "    %s = sojourn.reduce_sum %x, dims = [0] : tensor<4xf64>\n"
                           "    return %s : tensor<f64>"));
}

} // namespace sojourn::owner::test
