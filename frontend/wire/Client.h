// SPDX-License-Identifier: Apache-2.0
// The client side of runtime/wire/Messages.fbs: transports and typed calls. Knows no torch.
#ifndef SOJOURN_FRONTEND_WIRE_CLIENT_H
#define SOJOURN_FRONTEND_WIRE_CLIENT_H

#include "frontend/Raise.h"
#include "frontend/recording/Trace.h"
#include "runtime/signing/SigningKey.h"
#include "runtime/terms/Defaults.h"
#include "runtime/wire/Meaning.h"
#include "runtime/wire/Message.h"
#include "runtime/wire/Step.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sojourn_wire {
struct Reply;
}

namespace sojourn::frontend {

class Identity;
class Trust;

/// NotSent, Refused: nothing has left this process; Refused: no server listens at the address. TimedOut, Broken: the
/// request may have arrived.
enum class CallStatus { Answered, NotSent, Refused, TimedOut, Broken };

/// A reply, read where it lies.
using Answer = wire::Message;

/// One request, one reply.
class Transport {
public:
  virtual ~Transport() = default;
  /// Where requests are built: what lies there is sent without another copy.
  virtual flatbuffers::Allocator &allocator() = 0;
  /// `failure` says why no reply came. A request from `allocator` is used up by a call. Throws what interrupts the wait
  /// (Interrupt.h); the request may have arrived then.
  virtual CallStatus tryCall(std::string_view request, Answer &answer, std::string &failure) = 0;
  /// Likewise, for what may take long: while it waits it calls `look` every tenth of a second, which may make calls of
  /// its own and does not throw. Where that returns false, it need not wait any more (TimedOut). Interruptions are
  /// noticed by `look`.
  virtual CallStatus tryLongCall(std::string_view request, Answer &answer, std::string &failure,
                                 const std::function<bool()> &look) = 0;
  /// Of requests from now on; an owner gives room for large ones to sessions alone.
  virtual void setSession(uint64_t) {}
  virtual std::string name() const = 0;
  /// A second one to the same owner. Throws Error where there is none.
  virtual std::unique_ptr<Transport> another() const = 0;
  /// How long an owner may take for a step without a word (0: for ever), and a connection to come back (0: for one
  /// repetition).
  virtual int timeoutMs() const { return 0; }
  /// Of a channel over TLS: the digest of the server's certificate, and the key of the owner that vouched for it, as
  /// hexadecimal digits (Trust.h). Else empty.
  virtual std::string_view certificate() const { return {}; }
  virtual std::string ownerKey() const { return {}; }
};

/// An allocator for requests that counts what growing copies.
class RequestAllocator : public flatbuffers::Allocator {
public:
  uint8_t *allocate(size_t size) override;
  void deallocate(uint8_t *bytes, size_t size) override;
  uint8_t *reallocate_downward(uint8_t *old, size_t oldSize, size_t newSize, size_t usedBack,
                               size_t usedFront) override;
};

/// The embedded owner: a function from bytes to bytes.
std::unique_ptr<Transport> makeFunctionTransport(std::string name, std::function<Answer(std::string_view)> handle,
                                                 int timeoutMs = 0);
/// url as "ipc:///run/o.sock" or "tls+tcp://host:port"; `trust` decides whose certificate the latter takes. `plainTcp`:
/// also "tcp://127.0.0.1:port". Throws ConnectionLost if no owner listens.
std::unique_ptr<Transport> dialTransport(const std::string &url, int timeoutMs, std::shared_ptr<Trust> trust = nullptr,
                                         bool plainTcp = false);
/// How often a long call is looked after.
inline constexpr std::chrono::milliseconds kLookEvery{100};

struct ColumnInfo {
  std::string name;
  Element element;
  std::optional<std::pair<double, double>> bounds;
  std::vector<int64_t> dims; ///< of one row's entry; none for a number
  MeaningPtr meaning = nullptr;
};

struct DatasetInfo {
  std::string name;
  int64_t rows = 0;
  std::vector<ColumnInfo> columns;
  std::string policy, version;
  terms::Defaults defaults; ///< of a private table
  std::string description = "";
  std::vector<std::string> tags = {};
};

/// What tables are asked for: with each word of `text` in the name, the description, a tag or the name of a column,
/// with the tag, and with all of the columns; everything where these are empty.
struct TableSearch {
  std::string text, tag;
  std::vector<std::string> columns;
};

/// A value that gets a name.
struct NameRequest {
  uint64_t handle = 0;
  std::string name;
  std::vector<std::string> tags;
  std::vector<int64_t> strides; ///< of the storage behind the handle
  std::vector<int64_t> shape;   ///< of the tensor, where it has another one, row-major
};

/// A value at the owner that has a name.
struct NamedValueInfo {
  std::string name;
  std::vector<std::string> tags;
  Element element;
  std::vector<int64_t> dims, strides; ///< strides: as many as dims, or none
  std::vector<int64_t> shape;         ///< of the tensor that was named, row-major; none: dims
  uint64_t bytes = 0;                 ///< of its elements
  int64_t namedMs = 0, usedMs = 0;    ///< milliseconds since 1970
  int64_t leaseMs = 0;                ///< how long it keeps the name after its last use
  uint8_t reads = 2;                  ///< what it was computed from: 0 no table, 1 open ones, 2 others
};

/// Called with the steps of a message that have committed, while the others run. False: no further one begins.
/// Does not throw.
using StepFollower = std::function<bool(uint64_t steps)>;

/// What the owner answered to a step. `published` is read where the reply lies.
struct StepReply {
  enum class Kind {
    Done,
    NeedProgram, ///< send it again with the program's bytes
    Committed    ///< it ran, but what it published is remembered no more
  };
  Kind kind = Kind::Done;
  uint32_t steps = 1; ///< of the message, committed
  struct Failure {
    ErrorKind kind;
    std::string text;
  };
  bool isOpen = false;                     ///< whether more of them may have: no call waited for the rest
  bool isStopped = false;                  ///< none has run: the follower or the deadline ended the wait for owners
  std::optional<Failure> failure;          ///< of the step after these
  std::vector<wire::TensorView> published; ///< of all of them
  /// Of published values of private tables, one per published value; else none.
  struct Release {
    double error; ///< standard deviation of the noise; NaN: the value is not linear in it
    std::string receipt, text;
  };
  std::vector<Release> releases;
  std::vector<std::string> notes; ///< what was changed in the program
  Answer answer;
};

/// What the owner lets this client learn of a dataset still.
struct BudgetInfo {
  bool granted = false;
  double epsilon = 0, delta = 0, epsilonLeft = 0;
  double commonLeft = -1; ///< by the cap over all clients, where that is less; else -1
};

struct ProgramSummary {
  std::string hash, client, text, privacy;
  uint64_t runs = 0, ops = 0;
};

/// Speaks for one session, one request at a time: the session's turn guards it. Its errors are
/// always sojourn::Error, whatever raiser is set.
class Client {
public:
  explicit Client(std::unique_ptr<Transport> transport);
  ~Client();

  /// Opens the session; with an identity (Identity.h) as the client whose key it is, else as nobody.
  void hello(Identity *identity = nullptr);
  /// What the data owner calls this client; empty: nobody, without a budget.
  const std::string &account() const { return account_; }
  std::vector<DatasetInfo> datasets(const TableSearch &search = {});
  /// Sends uploads that are too large for the step's message ahead of it, in parts, unless they were before; a
  /// connection that breaks is tried again from where the owner stands.
  void sendAhead(wire::Step &step);
  /// Drops what a failed step left behind, if the owner still answers.
  void dropSentAhead(wire::Step &step);
  /// Numbers the step and sends it. Where no reply comes it sends the same bytes again (Retry.h): the
  /// owner runs a number once. Throws Error if it stays without one; then `outcomeUnknown()`.
  ///
  /// A message of several steps may take `timeoutMs` for each; `follow` sees how far it is. Throws what interrupts the
  /// wait, and leaves the outcome open; with steps of the message known to be committed it returns these (`isOpen`).
  StepReply step(wire::Step &step, const StepFollower *follow = nullptr);
  /// Asks the owner, over another connection, to end the step under way. For other threads; does not throw.
  void endUnderway() const noexcept;
  /// Whether the last step failed in a way that leaves open whether the owner ran it.
  bool outcomeUnknown() const { return unknown_; }
  /// Whether the wait for the last message was interrupted, so that the owner goes on with it alone.
  bool wasLeft() const { return left_.has_value(); }
  /// Handles that the owner has for nobody, now that a later step has shown which of those steps ran: results of one
  /// that did, and what one that did not would have released. Of messages of several steps nothing is known.
  std::vector<uint64_t> takeOrphans() { return std::exchange(orphans_, {}); }
  std::vector<ProgramSummary> programs(bool withText);
  /// `endRun`: number of a training run that is over, so that what it did not use is returned; 0: none.
  BudgetInfo budget(const std::string &dataset, uint64_t endRun);
  void bye();
  /// Makes the session that of a group's member, before its first step. `keys`: of all members.
  /// Whether the owner shares some table with another member as sums alone.
  bool join(uint8_t role, const std::string &nonce, const std::vector<signing::PublicKey> &keys);
  /// Gives values of another session of this client at the owner (0: at another member of the group) handles here.
  void borrow(uint64_t from, const std::vector<uint64_t> &handles, const std::vector<uint64_t> &as);
  /// Names values of this session, all or none.
  void nameValues(const std::vector<NameRequest> &values);
  std::vector<NamedValueInfo> namedValues(const std::string &tag);
  /// Gives values with these names the handles `as` in this session, all or none.
  std::vector<NamedValueInfo> takeValues(const std::vector<std::string> &names, const std::vector<uint64_t> &as);
  void releaseNames(const std::vector<std::string> &names);
  uint64_t session() const { return session_; }
  /// 32 random bytes.
  static std::string drawNonce();
  /// The public key that the owner states; nothing proves it. None: it knows no groups.
  const std::optional<signing::PublicKey> &saidKey() const { return saidKey_; }
  /// Numbers of uploads up to this one are used up.
  uint64_t lastUpload() const { return lastUpload_; }
  void skipUploads(uint64_t last) { lastUpload_ = std::max(lastUpload_, last); }

  /// Requests but for the parts of uploads, which `uploadParts` counts, and questions how far a message is (`looks`);
  /// bytes of the first two.
  std::atomic<uint64_t> roundTrips{0}, uploadParts{0}, looks{0}, bytesUp{0}, bytesDown{0};
  const Transport &transport() const { return *transport_; }

private:
  Answer exchange(flatbuffers::FlatBufferBuilder &request);
  /// Unsupported, where the owner is of a release that does not know the request.
  Answer askOfNames(const std::function<void(flatbuffers::FlatBufferBuilder &)> &finish);
  Answer ask(const std::function<void(flatbuffers::FlatBufferBuilder &)> &finish);
  CallStatus tryStep(const wire::Step &step, const StepFollower *follow, Answer &answer, std::string &failure);
  /// Of a step that was sent and not answered.
  void leaveOpen(const wire::Step &step);
  void settle(uint64_t sequence);
  void settleOthers(uint64_t sequence);
  /// Null where it was left alone after an interruption, `left_` steps of it committed.
  const sojourn_wire::Reply *askForStep(const wire::Step &step, const StepFollower *follow, Answer &answer);
  std::optional<uint64_t> look(bool stop);
  void sendWhole(uint64_t number, std::span<const uint8_t> data);
  CallStatus trySendPart(uint64_t number, std::span<const uint8_t> data, uint64_t offset, size_t length, Answer &answer,
                         std::string &failure);

  void welcome(const sojourn_wire::Reply &reply);
  std::string tryBye(flatbuffers::FlatBufferBuilder &first);
  void prove(Identity &identity, const std::string &name, const std::string &nonce, const Answer &challenge);

  std::unique_ptr<Transport> transport_;
  std::string account_;
  std::optional<signing::PublicKey> saidKey_;
  uint64_t session_ = 0, lastUpload_ = 0;
  uint64_t sequence_ = 0;          ///< number of the last step that is known to have committed
  bool answers_ = true;            ///< whether the last request was answered
  uint64_t tried_ = 0;             ///< highest number that a step without an answer had since
  bool unknown_ = false;           ///< whether it is the last step's outcome that is open
  bool marks_ = false;             ///< whether all messages have marks
  std::atomic<uint64_t> mark_ = 0; ///< of the message under way; 0: none
  uint64_t marked_ = 0;            ///< the last mark
  std::optional<uint64_t> left_;
  std::exception_ptr interruption_; ///< of a look
  struct Open {
    uint64_t sequence;
    std::vector<uint64_t> results, releases;
    std::string bytes;
  };
  std::vector<Open> open_; ///< steps without an answer since
  std::vector<uint64_t> orphans_;
};

/// For tests: how long a request waits before it is repeated for the first time.
void setFirstPause(std::chrono::milliseconds pause);
/// For tests: how large the uploads within one step's message are in all, and a part of those ahead.
void setUploadBounds(size_t inMessage, size_t part);

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_WIRE_CLIENT_H
