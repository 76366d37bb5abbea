// SPDX-License-Identifier: Apache-2.0
// Values that clients have given names: they belong to accounts, so they outlive the sessions that made them.
#ifndef SOJOURN_OWNER_NAMEDVALUES_H
#define SOJOURN_OWNER_NAMEDVALUES_H

#include "owner/Environment.h"
#include "owner/Holdings.h"
#include "owner/Label.h"
#include "owner/Limits.h"
#include "runtime/Buffer.h"
#include "runtime/Tensor.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace sojourn::owner {

struct Handle;

/// The handles that follow it are those of Session.h. Under the owner's mutex, but for what never changes: account,
/// name, type.
struct NamedValue {
  std::string account, name;
  runtime::TensorType type;
  std::vector<int64_t> strides; ///< of its memory at the client; as many as dims, or none
  std::vector<int64_t> shape;   ///< in which the client shows it; as many elements, or none
  std::vector<std::string> tags;
  std::shared_ptr<runtime::Buffer> memory; ///< as the last commit left it
  LabelPtr label;                          ///< of that
  int64_t namedMs = 0, usedMs = 0;
  size_t followers = 0;            ///< handles of sessions whose commits change it
  const Handle *carrier = nullptr; ///< the handle whose bytes are these bytes, and count
  size_t held = 0;                 ///< bytes that count for the account where there is no carrier
  size_t entry = 0;                ///< bytes of name and tags, which always count
  bool isReleased = false;         ///< the name has gone, or moved to another value
};

/// The description of one, for its client and the data owner.
struct NamedValueInfo {
  std::string account, name;
  std::vector<std::string> tags;
  runtime::TensorType type;
  std::vector<int64_t> strides, shape;
  int64_t namedMs = 0, usedMs = 0;
  int64_t leaseMs = 0;  ///< until the name goes, if nobody uses the value
  size_t followers = 0; ///< handles of sessions; with any of them it is in use
  LabelPtr label;
};

/// All under the owner's mutex.
class NamedValues {
public:
  /// Memory of values that have gone: to be freed without the mutex.
  using Gone = std::vector<std::shared_ptr<runtime::Buffer>>;
  /// A value that is to have a name.
  struct Entry {
    uint64_t handle = 0;
    std::string name;
    std::vector<std::string> tags;
    std::vector<int64_t> strides, shape;
  };

  NamedValues(Holdings &holdings, const Environment &environment, const Limits &limits)
      : holdings(holdings), environment(environment), limits(limits) {}

  /// Refused for clients without an identity.
  static llvm::Error checkAccount(const std::string &account);
  /// Puts values of one account under their names, in the place of those that have them; their entries count already.
  void enter(llvm::ArrayRef<std::shared_ptr<NamedValue>> values);
  /// As it is; or null.
  std::shared_ptr<const NamedValue> look(const std::string &account, const std::string &name) const;
  /// The value of this name, or an error that lists the account's names.
  llvm::Expected<std::shared_ptr<NamedValue>> find(const std::string &account, const std::string &name);
  /// In the order of accounts and names. `account` empty: of all; `tag` empty: any.
  std::vector<NamedValueInfo> list(const std::string &account, const std::string &tag);
  NamedValueInfo info(const NamedValue &value) const;
  /// Takes names away: all of them, or none and the error of the first that is unknown.
  llvm::Error release(const std::string &account, const std::vector<std::string> &names);
  /// Of an account that is there no more.
  void releaseAll(const std::string &account);
  /// Takes the names away whose lease is over; returns what has gone since the last time.
  [[nodiscard]] Gone tidy();
  std::vector<std::string> accounts() const;
  size_t count() const;
  size_t count(const std::string &account) const;
  /// Takes the account's names away whose lease is over.
  void expire(const std::string &account);

private:
  using Names = std::map<std::string, std::shared_ptr<NamedValue>>;
  llvm::Error unknown(const std::string &account, const std::string &name) const;
  bool isOver(const NamedValue &value) const;
  /// Gives back what it counts; its handles follow nothing.
  void letGo(NamedValue &value);

  Holdings &holdings;
  const Environment &environment;
  const Limits &limits;
  std::map<std::string, Names> byAccount;
  Gone gone;
};

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_NAMEDVALUES_H
