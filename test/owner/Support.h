// SPDX-License-Identifier: Apache-2.0
// What the owner's tests share: a world with its own clock, programs from text, a client of bytes.
#ifndef SOJOURN_TEST_OWNER_SUPPORT_H
#define SOJOURN_TEST_OWNER_SUPPORT_H

#include "runtime/wire/Messages_generated.h"
#include "owner/Owner.h"
#include "owner/WorkerStub.h"
#include "dialect/Version.h"
#include "runtime/Program.h"
#include "runtime/Version.h"
#include "runtime/signing/Proof.h"
#include "runtime/wire/Protocol.h"
#include "runtime/wire/Step.h"

#include <cstring>
#include <gtest/gtest.h>
#include <random>
#include <optional>
#include <string>
#include <vector>

namespace sojourn::owner::test {

namespace wire = sojourn_wire;

/// Time and randomness under the test's control; randomness is seeded.
struct World {
  int64_t now = 1'000'000;
  int64_t elapsed = 500'000;
  std::mt19937_64 random{20261121};
  std::string store;
  std::vector<std::string> logged;
  Environment environment(); ///< with the CPU's worker
};

/// A worker of this process, for what needs one without an owner.
WorkerStub &testWorker();

/// A folder that goes with the test.
struct TemporaryFolder {
  TemporaryFolder();
  ~TemporaryFolder();
  std::string path;
  std::string file(const std::string &name) const { return path + "/" + name; }
  std::string write(const std::string &name, const std::string &contents) const;
};

/// Core form: `arguments`, `results` and `body` of @step.
std::string moduleText(const std::string &signature, const std::string &body);
/// Parses and encodes a module; fails the test if it cannot.
runtime::EncodedProgram encode(const std::string &text);

/// Bytes of values in memory order.
template <class T>
std::string bytes(std::vector<T> values) {
  return {reinterpret_cast<const char *>(values.data()), values.size() * sizeof(T)};
}
template <class T>
std::vector<T> values(const std::string &data) {
  std::vector<T> result(data.size() / sizeof(T));
  std::memcpy(result.data(), data.data(), result.size() * sizeof(T));
  return result;
}

struct Upload {
  uint8_t element;
  std::vector<int64_t> dims;
  std::string data;
  uint64_t sentAhead = 0;
};
Upload f32(std::vector<int64_t> dims, std::vector<float> data);

/// A table by name; `Client::run` fills in the version that the owner has.
struct TableName {
  TableName(const char *name, std::string version = "") : name(name), version(std::move(version)) {}
  TableName(std::string name) : name(std::move(name)) {}
  std::string name, version;
};

struct StepRequest {
  uint64_t session = 0, sequence = 1;
  std::string hash, program, debug;
  std::vector<uint64_t> states;
  std::vector<Upload> uploads;
  std::vector<uint64_t> slots, seeds;
  std::vector<TableName> tables;
  std::vector<uint64_t> results, releases;
  std::pair<uint64_t, uint32_t> resultRange, releaseRange; ///< first and count
  sojourn::wire::Spending spending;                        ///< left out where all of it is default
  /// Further steps of the message; of these states, uploads, slots, seeds, results, releases and ranges count.
  std::vector<StepRequest> repetitions;
  uint64_t deadlineMs = 0, mark = 0, attempt = 0;
  bool masked = false;
  /// All uploads are the first one's bytes, behind so many others.
  std::optional<size_t> sharedBehind;
};

/// A verified reply.
class Reply {
public:
  explicit Reply(std::string bytes);
  wire::ReplyBody kind() const { return root->body_type(); }
  /// What went wrong, as "Code: message"; "" if nothing did.
  std::string error() const;
  /// Throws if it is none, which fails the test.
  const wire::Error &asError() const;
  /// A published value's bytes.
  std::string published(unsigned index) const;
  const wire::Reply *root;

private:
  std::string memory;
};

/// A request with this body.
std::string finish(flatbuffers::FlatBufferBuilder &builder, wire::RequestBody kind, flatbuffers::Offset<void> body);
std::string helloBytes(const std::string &client, uint32_t protocol = sojourn::wire::kProtocolVersion,
                       uint32_t format = runtime::kFormatVersion, uint32_t dialect = kDialectVersion);
std::string stepBytes(const StepRequest &step);
std::string uploadBytes(uint64_t session, uint64_t upload, uint64_t size, uint64_t offset, const std::string &data);
std::string releaseBytes(uint64_t session, const std::vector<uint64_t> &handles);
std::string byeBytes(uint64_t session);
std::string watchBytes(uint64_t session, bool stop, uint64_t mark = 0);
std::string listDatasetsBytes(uint64_t session = 0);
std::string listProgramsBytes(bool withText);

/// A session of a client that sends every program with its bytes.
struct Client {
  Client(Owner &owner, const std::string &name = "alice", Peer peer = Peer::owner);
  /// Fills in session, sequence, hash and bytes and sends; a Done counts as a step.
  Reply run(const runtime::EncodedProgram &program, StepRequest step = {});
  /// What `run` would send.
  std::string request(const runtime::EncodedProgram &program, StepRequest step = {});
  Reply send(const std::string &request) { return Reply(owner.handle(request, peer)); }
  Owner &owner;
  Peer peer;
  uint64_t session = 0, steps = 0;
};

/// A session behind a transport of the client whose key this is.
Client identified(Owner &owner, const signing::SigningKey &key);

std::string errorText(llvm::Error error);

/// Runs sojourn-owner; what it printed, and its exit code.
std::pair<std::string, int> tool(const std::string &arguments);

/// Registers columns "a" (f64: 1, 2, 3, 4) and "n" (i64: 10, 20, 30, 40), within [0, 10] and [0, 100]; each row a
/// subject.
void registerNumbers(Owner &owner, const std::string &name, Policy policy);

/// Keeps what it is given: `%x: upload f32 [3]`.
runtime::EncodedProgram keepProgram();
/// Publishes a state of f32 [3].
runtime::EncodedProgram publishProgram();
/// Keeps all four rows of "a" as f32 [4, 1].
runtime::EncodedProgram readProgram();
/// Publishes the sum of all four rows of "a".
runtime::EncodedProgram sumProgram();

} // namespace sojourn::owner::test

#endif // SOJOURN_TEST_OWNER_SUPPORT_H
