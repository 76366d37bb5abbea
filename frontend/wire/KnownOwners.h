// SPDX-License-Identifier: Apache-2.0
// Which owner a client means to talk to: the key that it was told, or the one that it met first at an address.
#ifndef SOJOURN_FRONTEND_WIRE_KNOWNOWNERS_H
#define SOJOURN_FRONTEND_WIRE_KNOWNOWNERS_H

#include <mutex>
#include <string>

namespace sojourn::frontend {

/// Of one address. Thread-safe. Errors are sojourn::Error, whatever raiser is set.
class KnownOwners {
public:
  /// `file` keeps the owners that were met, one line each: key, a blank, address. `ownerKey`: 64 hexadecimal digits,
  /// or empty.
  KnownOwners(std::string file, const std::string &ownerKey, std::string address);

  /// Refuses an owner other than the expected one: that of `ownerKey`, of the last `check`, or of the file.
  ///
  /// `isRelayed`: messages may have been passed on by a server in between, so a key that is known from another address
  /// is not taken without being asked for.
  void check(const std::string &key, bool isRelayed);
  /// Notes an owner that was met for the first time, now that a session is open.
  void remember();
  const std::string &address() const { return address_; }

private:
  const std::string file_, address_;
  std::mutex mutex_;
  std::string expected_;
  bool isNew_ = false;
};

/// For clients without an identity: `$XDG_CONFIG_HOME/sojourn/owners`, else `~/.config/sojourn/owners`.
std::string defaultOwnersFile();

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_WIRE_KNOWNOWNERS_H
