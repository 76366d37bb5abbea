// SPDX-License-Identifier: Apache-2.0
// Replies as bytes.
#ifndef SOJOURN_OWNER_REPLY_H
#define SOJOURN_OWNER_REPLY_H

#include "owner/Accounts.h"
#include "owner/Catalogue.h"
#include "owner/Handshake.h"
#include "owner/NamedValues.h"
#include "owner/RequestError.h"
#include "runtime/HostTensor.h"
#include "runtime/wire/Message.h"

#include <optional>
#include <string>
#include <vector>

namespace sojourn::owner {

using sojourn::wire::Message;

Message errorReply(const RequestError &error);
/// `account`: of the client that proved who it is; else empty.
/// `key`: of an owner that takes part in groups; else null.
Message welcomeReply(uint64_t session, const std::string &limitsText, const std::string &account,
                     const signing::PublicKey *key);
Message challengeReply(const Handshake::Challenge &challenge, const signing::PublicKey &owner);
Message datasetsReply(llvm::ArrayRef<const DatasetRecord *> records);
Message programsReply(const std::vector<ProgramRecord> &records, bool withText);
Message needProgramReply();
Message receivedReply(size_t bytes);
Message committedReply(uint32_t steps, const std::optional<RequestError> &failure);
Message progressReply(uint32_t steps);
/// `masked`: some table is shared with a member as sums alone.
Message joinedReply(bool masked);
/// `reads`: of each value, as the message says it.
Message namedValuesReply(llvm::ArrayRef<NamedValueInfo> values, llvm::ArrayRef<uint8_t> reads, int64_t leaseMs);
/// Of a published value of private tables.
struct ReleaseNote {
  double error = 0; ///< standard deviation of the noise; NaN: not linear in it
  std::string receipt, text;
};
/// What a step on private tables tells besides its values.
struct PrivacyReport {
  std::vector<ReleaseNote> releases; ///< per published result
  std::vector<std::string> notes;
};

Message doneReply(llvm::ArrayRef<const runtime::HostTensor *> published, const PrivacyReport &report = {});

/// The reply to a message with several steps, made as they go. All room for values is taken before the first.
class DoneReply {
public:
  /// `steps` of `published` values each, of `bytes` bytes together.
  DoneReply(size_t steps, size_t published, size_t bytes);
  /// Bytes of a reply that values take, their descriptions included.
  static size_t roomFor(size_t published, size_t bytes);
  /// What one step publishes and tells. Where that fails for want of memory the reply is of no use.
  void add(llvm::ArrayRef<const runtime::HostTensor *> published, const PrivacyReport &report);
  bool isBroken() const { return broken; }
  /// Counts a step for which `add` had no memory: it has committed all the same.
  void addWithoutValues() {
    broken = true;
    ++count;
  }
  Message finish(const std::optional<RequestError> &failure);
  uint32_t steps() const { return count; }
  /// Of receipts and notes, for which no room was taken.
  size_t extraBytes() const { return extra; }

private:
  flatbuffers::FlatBufferBuilder builder;
  std::vector<flatbuffers::Offset<wire::Tensor>> tensors;
  std::vector<ReleaseNote> releases;
  std::vector<std::string> notes;
  uint32_t count = 0;
  size_t extra = 0;
  bool broken = false;
};

Message budgetReply(const BudgetInfo &info);

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_REPLY_H
