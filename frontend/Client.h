// SPDX-License-Identifier: Apache-2.0
// The client side of runtime/wire/Messages.fbs: transports and typed calls. Knows no torch.
#pragma once

#include "frontend/Raise.h"
#include "frontend/Trace.h"

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sojourn::frontend {

enum class CallStatus { Answered, TimedOut, Broken };

/// One request, one reply.
class Transport {
public:
  virtual ~Transport() = default;
  /// `failure` says why no reply came.
  virtual CallStatus tryCall(std::string_view request, std::string &reply, std::string &failure) = 0;
  virtual std::string name() const = 0;
};

/// The embedded owner: a function from bytes to bytes.
std::unique_ptr<Transport> makeFunctionTransport(std::string name, std::function<std::string(std::string_view)> handle);
/// nng req socket; url as "ipc:///run/o.sock" or "tcp://host:port". Throws ConnectionLost if
/// nobody listens.
std::unique_ptr<Transport> dialTransport(const std::string &url, int timeoutMs);

struct ColumnInfo {
  std::string name;
  Element element;
  std::optional<std::pair<double, double>> bounds;
  std::vector<int64_t> dims; ///< of one row's entry; none for a number
};

struct DatasetInfo {
  std::string name;
  int64_t rows = 0;
  std::vector<ColumnInfo> columns;
  std::string policy, version;
};

/// Host bytes of a dense row-major tensor, borrowed.
struct TensorBytes {
  Element element;
  std::vector<int64_t> dims;
  std::span<const uint8_t> data;
};

struct OwnedTensor {
  Element element;
  std::vector<int64_t> dims;
  std::string data;
};

/// The dataset behind a table argument.
struct TableBinding {
  std::string name, version;
};

struct StepCall {
  std::array<uint8_t, 32> hash;
  std::string_view program, debug; ///< sent if `withProgram`
  bool withProgram = false;
  std::vector<uint64_t> states, slots, seeds, results, releases;
  std::vector<TensorBytes> uploads;
  std::vector<uint64_t> sentAhead; ///< per upload its number if `sendAhead` has sent it, else 0
  std::vector<TableBinding> tables;
};

struct ProgramSummary {
  std::string hash, client, text;
  uint64_t runs = 0, ops = 0;
};

/// Speaks for one session. Not thread-safe: the session's lock guards it.
class Client {
public:
  explicit Client(std::unique_ptr<Transport> transport);
  ~Client();

  void hello();
  std::vector<DatasetInfo> datasets();
  /// Sends uploads that are too large for the step's message ahead of it, in parts; a connection
  /// that breaks is tried again from where the owner stands.
  void sendAhead(StepCall &call);
  /// Drops what a failed step left behind, if the owner still answers.
  void dropSentAhead(const StepCall &call);
  /// Published values in order; nothing if the owner needs the program's bytes.
  std::optional<std::vector<OwnedTensor>> step(const StepCall &call);
  std::vector<ProgramSummary> programs(bool withText);
  void bye();

  /// Requests but for the parts of uploads, which `uploadParts` counts; bytes of both.
  uint64_t roundTrips = 0, uploadParts = 0, bytesUp = 0, bytesDown = 0;
  const Transport &transport() const { return *transport_; }

private:
  std::string exchange(std::string_view request, const char *consequence = "");
  void sendWhole(uint64_t number, const TensorBytes &tensor);
  CallStatus trySendPart(uint64_t number, const TensorBytes &tensor, uint64_t offset, size_t length, std::string &reply,
                         std::string &failure);

  std::unique_ptr<Transport> transport_;
  uint64_t session_ = 0, lastUpload_ = 0;
  uint64_t steps_ = 0;  ///< that the owner has committed
  bool answers_ = true; ///< whether the last request was answered
};

/// For tests: how large the uploads within one step's message are in all, and a part of those ahead.
void setUploadBounds(size_t inMessage, size_t part);

} // namespace sojourn::frontend
