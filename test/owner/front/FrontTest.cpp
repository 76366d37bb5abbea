// SPDX-License-Identifier: Apache-2.0
// Goal: the front of an owner links neither MLIR nor torch. Method: this program links it alone, with a worker that
// knows nothing; the libraries of the process are listed.
#include "dialect/Version.h"
#include "owner/Owner.h"
#include "runtime/Hash.h"
#include "runtime/Version.h"
#include "runtime/wire/Messages_generated.h"
#include "runtime/wire/Protocol.h"
#include "runtime/wire/Worker_generated.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <link.h>
#include <string>
#include <vector>

using namespace sojourn;
using namespace sojourn::owner;
namespace calls = sojourn_worker;
namespace schema = sojourn_wire;

namespace {

/// Refuses each call.
class NoWorker final : public WorkerPort {
public:
  WorkerAnswer call(const WorkerCall &) override {
    flatbuffers::FlatBufferBuilder builder;
    auto message = builder.CreateString("nobody works here");
    auto body = calls::CreateFailure(builder, schema::ErrorCode_Unsupported, message);
    builder.Finish(calls::CreateAnswer(builder, calls::AnswerBody_Failure, body.Union()));
    auto kept = std::make_shared<flatbuffers::DetachedBuffer>(builder.Release());
    const std::string_view bytes(reinterpret_cast<const char *>(kept->data()), kept->size());
    return {std::move(kept), bytes, {}};
  }
  void map(uint64_t, std::shared_ptr<const Dataset>) override { ++mapped; }
  void unmap(uint64_t) override { --mapped; }
  unsigned threads() const override { return 1; }
  static inline int mapped = 0;
};

std::vector<std::string> libraries() {
  std::vector<std::string> names;
  dl_iterate_phdr(
      [](dl_phdr_info *info, size_t, void *list) {
        static_cast<std::vector<std::string> *>(list)->emplace_back(info->dlpi_name);
        return 0;
      },
      &names);
  return names;
}

std::string ask(Owner &owner, flatbuffers::FlatBufferBuilder &builder, schema::RequestBody kind,
                flatbuffers::Offset<void> body) {
  schema::FinishRequestBuffer(builder, schema::CreateRequest(builder, kind, body));
  return owner.handle({reinterpret_cast<const char *>(builder.GetBufferPointer()), builder.GetSize()}, Peer::owner);
}

const schema::Reply *read(const std::string &reply) { return flatbuffers::GetRoot<schema::Reply>(reply.data()); }

} // namespace

TEST(Front, LinksNeitherMlirNorTorch) {
  const std::vector<std::string> names = libraries();
  EXPECT_GT(names.size(), 5u);
  for (const std::string &name : names) {
    for (const char *foreign : {"libMLIR", "libtorch", "libc10", "libgomp"}) {
      EXPECT_EQ(name.find(foreign), std::string::npos) << name;
    }
  }
  const bool hasLlvm =
      std::any_of(names.begin(), names.end(), [](const auto &name) { return name.find("libLLVM") != name.npos; });
  EXPECT_TRUE(hasLlvm) << "else the names that are looked for have changed, too";
}

/// Tables, sessions and access need no worker; a step gets the worker's words.
TEST(Front, ServesWhatNeedsNoWorker) {
  Environment environment = Environment::system("");
  environment.worker = [] { return std::make_unique<NoWorker>(); };
  {
    Owner owner(environment);
    ASSERT_EQ(owner.status(), "");
    double a[] = {1, 2, 3, 4};
    RegisterOptions options;
    options.name = "numbers";
    options.policy = Policy::open;
    llvm::Error error = owner.registerDataset({"", {{"a", runtime::Element::f64, 4, a}}}, options);
    ASSERT_FALSE(bool(error)) << llvm::toString(std::move(error));
    EXPECT_EQ(NoWorker::mapped, 1);
    flatbuffers::FlatBufferBuilder hello, list, step;
    const std::string welcome = ask(owner, hello, schema::RequestBody_Hello,
                                    schema::CreateHello(hello, sojourn::wire::kProtocolVersion, runtime::kFormatVersion,
                                                        kDialectVersion, hello.CreateString("ada"))
                                        .Union());
    ASSERT_EQ(read(welcome)->body_type(), schema::ReplyBody_Welcome);
    const uint64_t session = read(welcome)->body_as_Welcome()->session();
    const std::string listed =
        ask(owner, list, schema::RequestBody_ListDatasets, schema::CreateListDatasets(list, session).Union());
    ASSERT_EQ(read(listed)->body_type(), schema::ReplyBody_Datasets);
    EXPECT_EQ(read(listed)->body_as_Datasets()->datasets()->Get(0)->rows(), 4);
    const std::string program = "a program that nobody reads";
    const runtime::ProgramHash hash = runtime::hashProgram(program);
    auto digest = step.CreateVector(hash.data(), hash.size());
    auto bytes = step.CreateVector(reinterpret_cast<const uint8_t *>(program.data()), program.size());
    schema::StepBuilder built(step);
    built.add_session(session);
    built.add_sequence(1);
    built.add_program_hash(digest);
    built.add_program(bytes);
    const std::string refused = ask(owner, step, schema::RequestBody_Step, built.Finish().Union());
    ASSERT_EQ(read(refused)->body_type(), schema::ReplyBody_Error);
    EXPECT_EQ(read(refused)->body_as_Error()->message()->str(), "nobody works here");
    EXPECT_EQ(read(refused)->body_as_Error()->code(), schema::ErrorCode_Unsupported);
  }
  EXPECT_EQ(NoWorker::mapped, 0);
}
