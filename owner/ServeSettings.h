// SPDX-License-Identifier: Apache-2.0
// What `sojourn-owner serve` can be told: by options, or by a TOML file that is checked line by line.
#ifndef SOJOURN_OWNER_SERVESETTINGS_H
#define SOJOURN_OWNER_SERVESETTINGS_H

#include "owner/Limits.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"

#include <optional>
#include <string>

namespace sojourn::owner {

struct ServeSettings {
  std::string listen;               ///< ipc:///path or tls+tcp://host:port
  bool plainTcp = false;            ///< also tcp:// on this machine
  std::string peers;                ///< where other owners connect, likewise; empty: nowhere
  std::string metrics;              ///< host:port of /metrics and /health; empty: none
  std::string log = "text";         ///< or "json"
  double drainSeconds = 0;          ///< for steps under way, once the server is to end
  std::optional<double> operations; ///< of one step; none: what the processors do within its deadline
  Limits limits;
  bool isSettled = false;

  /// With a deadline, as a server should have.
  ServeSettings();
  /// Settles what follows from others.
  void settle(unsigned machineThreads);
};

/// A number of the settings: `key` in the table `table` of a file, `option` of the command line (may be empty).
struct NumberSetting {
  const char *table, *key, *option, *help;
  double least, most;
  bool isWhole;
  double (*get)(const ServeSettings &);
  void (*set)(ServeSettings &, double);
};
llvm::ArrayRef<NumberSetting> numberSettings();

struct TextSetting {
  const char *key, *option, *help;
  std::string ServeSettings::*text;
};
llvm::ArrayRef<TextSetting> textSettings();

struct FlagSetting {
  const char *key, *option, *help;
  bool ServeSettings::*flag;
};
llvm::ArrayRef<FlagSetting> flagSettings();

/// Takes over what a file says. Errors name file, line, found and expected.
llvm::Error readSettings(const std::string &path, ServeSettings &settings);
/// Whether texts are of the form that they must have.
llvm::Error checkSettings(const ServeSettings &settings);

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_SERVESETTINGS_H
