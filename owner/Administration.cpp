// SPDX-License-Identifier: Apache-2.0
// Terminal output of sojourn-owner, and its life as a server.
#include "owner/Administration.h"

#include "owner/Entry.h"
#include "owner/Error.h"
#include "owner/StatusServer.h"
#include "owner/Text.h"
#include "owner/TextTable.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <pthread.h>
#include <set>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace sojourn::owner {

using llvm::Twine;

namespace {

std::string hashText(const ProgramRecord &record) { return runtime::toHex(record.hash); }

/// The first line as it is, the others behind `indent`.
void printIndented(llvm::StringRef text, llvm::StringRef indent, llvm::raw_ostream &out) {
  for (auto [first, rest] = text.trim('\n').split('\n');; std::tie(first, rest) = rest.split('\n')) {
    out << first << '\n';
    if (rest.empty()) {
      return;
    }
    out << indent;
  }
}

std::string accessText(const Access &access) {
  return access.anyone ? "anyone" : access.clients.empty() ? "no client" : llvm::join(access.clients, ", ");
}

} // namespace

void printAccess(const DatasetRecord &record, llvm::raw_ostream &out) {
  out << record.name << ": access for " << accessText(record.access) << '\n';
  if (record.access.anyone && record.policy == Policy::privateOnly) {
    out << "anyone sees the description; steps also need a grant: sojourn-owner budget grant CLIENT " << record.name
        << " --epsilon E --delta D\n";
  }
}

void printDatasets(llvm::ArrayRef<DatasetRecord> records, llvm::raw_ostream &out) {
  if (records.empty()) {
    out << "no datasets yet; 'sojourn-owner import FILE --name NAME' adds one\n";
    return;
  }
  for (const DatasetRecord &record : records) {
    out << record.name << ": " << record.rows << " rows, " << record.columns.size() << " columns, policy "
        << policyName(record.policy) << ", version " << record.version << "\n  from " << record.source << " on "
        << timeText(record.registeredMs) << "\n  content " << record.contentHash << '\n';
    if (record.subject) {
      out << "  " << (record.subject->empty() ? "each row is a subject" : "subjects by '" + *record.subject + "'")
          << ", people of '" << (record.population.empty() ? record.name : record.population) << "'\n";
    }
    if (!record.description.text.empty()) {
      out << "  " << llvm::StringRef(record.description.text).split('\n').first << '\n';
    }
    if (!record.description.tags.empty()) {
      out << "  tags " << llvm::join(record.description.tags, ", ") << '\n';
    }
    out << "  access for " << accessText(record.access) << '\n';
    if (record.policy == Policy::privateOnly) {
      out << "  defaults: noise multiplier " << numberText(record.defaults.noiseMultiplier) << ", clip "
          << numberText(record.defaults.clip) << ", metric bound " << numberText(record.defaults.metricBound) << '\n';
    }
    out << '\n';
    std::vector<std::vector<std::string>> rows{{"  column", "type", "lower", "upper"}};
    for (const Column &column : record.columns) {
      rows.push_back({"  " + column.name, entryText(column.element, column.dims),
                      column.bounds ? numberText(column.bounds->lower) : "-",
                      column.bounds ? numberText(column.bounds->upper) : "-"});
    }
    printTable(rows, out);
    for (const Column &column : record.columns) {
      if (column.meaning) {
        out << "  " << column.name << ": " << textOf(*column.meaning) << '\n';
      }
    }
    out << '\n';
  }
}

static void printRecords(llvm::ArrayRef<ProgramRecord> records, const LoggedBefore &before, llvm::raw_ostream &out) {
  std::vector<ProgramRecord> known, unknown;
  for (const ProgramRecord &record : records) {
    (Catalogue::accountOf(record.client).empty() ? unknown : known).push_back(record);
  }
  auto print = [&](llvm::ArrayRef<ProgramRecord> some) {
    std::vector<std::vector<std::string>> rows{{"program", "client", "runs", "ops", "first run", "last run"}};
    for (const ProgramRecord &record : some) {
      rows.push_back({hashText(record).substr(0, 16), record.client, std::to_string(record.runs),
                      std::to_string(record.ops), timeText(record.firstMs), timeText(record.lastMs)});
    }
    printTable(rows, out);
  };
  if (!known.empty()) {
    print(known);
  }
  if (!unknown.empty()) {
    out << (known.empty() ? "" : "\n") << "programs of clients without an identity";
    out << (before.dropped ? "; " + std::to_string(before.dropped) + " older ones went for newer ones" : "") << '\n';
    print(unknown);
  }
  for (const ProgramRecord &record : records) {
    if (!record.privacy.empty()) {
      out << "\nprogram " << hashText(record).substr(0, 16) << " of " << record.client << ", ";
      printIndented(record.privacy, "  ", out);
    }
  }
}

void printPrograms(llvm::ArrayRef<ProgramRecord> records, const LoggedBefore &before, llvm::raw_ostream &out) {
  if (records.empty()) {
    out << (before.archives.empty() ? "no program has run yet\n" : "no program has run since the last archive\n");
  } else {
    printRecords(records, before, out);
    out << "\n'sojourn-owner programs --text HASH' shows a program with the scientist's source lines\n";
  }
  if (!before.archives.empty()) {
    out << "older programs, which 'sojourn-owner programs --from FILE' lists:\n";
    for (const std::string &path : before.archives) {
      out << "  " << path << '\n';
    }
  }
}

void printArchive(llvm::ArrayRef<ProgramRecord> records, const std::string &path, llvm::raw_ostream &out) {
  if (records.empty()) {
    out << "'" << path << "' has no programs\n";
    return;
  }
  printRecords(records, {}, out);
  out << "\n'sojourn-owner programs --from FILE --text HASH' shows a program with the scientist's source lines\n";
}

llvm::Error printProgramText(llvm::ArrayRef<ProgramRecord> records, llvm::StringRef prefix, llvm::raw_ostream &out) {
  std::set<std::string> hashes;
  for (const ProgramRecord &record : records) {
    if (llvm::StringRef(hashText(record)).starts_with_insensitive(prefix)) {
      hashes.insert(hashText(record));
    }
  }
  if (hashes.size() != 1) {
    return failure(hashes.empty() ? "no program that ran has a hash starting with '" + prefix + "'"
                                  : "'" + prefix + "' matches the hashes of " + Twine(hashes.size()) +
                                        " programs; give more characters");
  }
  for (const ProgramRecord &record : records) {
    if (hashes.count(hashText(record))) {
      out << "// program " << hashText(record) << "\n// client " << record.client << ", " << record.runs << " runs, "
          << timeText(record.firstMs) << " to " << timeText(record.lastMs) << '\n';
      if (!record.privacy.empty()) {
        out << "// ";
        printIndented(record.privacy, "// ", out);
      }
      out << record.text << '\n';
    }
  }
  return llvm::Error::success();
}

std::function<void(const std::string &, int64_t, int64_t)> progressLine() {
  if (!isatty(STDERR_FILENO)) {
    return nullptr;
  }
  return [](const std::string &stage, int64_t done, int64_t total) {
    // Erase the line, write the new one, and leave the cursor at its start.
    llvm::errs() << "\r\x1b[K";
    if (done < total) {
      llvm::errs() << llvm::formatv("{0,3}% {1}", 100 * done / total, stage) << '\r';
    }
    llvm::errs().flush();
  };
}

/// Tells systemd of the server's state (sd_notify(3)); nothing where it has not asked.
static void notifyServiceManager(llvm::StringRef state) {
  const char *name = std::getenv("NOTIFY_SOCKET");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const size_t length = name ? std::strlen(name) : 0;
  if (length == 0 || length >= sizeof(address.sun_path)) {
    return;
  }
  std::memcpy(address.sun_path, name, length);
  if (name[0] == '@') {
    address.sun_path[0] = '\0'; // an abstract name
  }
  const int descriptor = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (descriptor >= 0) {
    sendto(descriptor, state.data(), state.size(), MSG_NOSIGNAL, reinterpret_cast<const sockaddr *>(&address),
           static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length));
    close(descriptor);
  }
}

llvm::Error serveUntilSignal(Owner &owner, const ServeSettings &settings, const std::string &store,
                             llvm::raw_ostream &out) {
  // Blocked before the workers start, so that only the wait below sees the signals.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  const auto workers = static_cast<unsigned>(settings.limits.requests) + kSpareWorkers;
  auto server = Server::start(
      owner, {.listen = settings.listen, .workers = workers, .plainTcp = settings.plainTcp, .peers = settings.peers});
  if (!server) {
    return server.takeError();
  }
  auto status = StatusServer::start(owner, settings, store);
  if (!status) {
    return status.takeError();
  }
  out << "listening on " << settings.listen << '\n';
  if (!settings.peers.empty()) {
    out << "other owners connect at " << settings.peers << '\n';
  }
  out.flush();
  notifyServiceManager("READY=1");
  int signal = 0;
  sigwait(&signals, &signal);
  notifyServiceManager("STOPPING=1");
  (*status)->drain();
  // A single call of a library cannot be stopped. What is committed is on disk.
  constexpr double kCallSeconds = 30;
  alarm(static_cast<unsigned>(std::ceil(settings.drainSeconds + kCallSeconds)));
  const timespec now{};
  (*server)->stop(std::chrono::milliseconds(std::llround(1000 * settings.drainSeconds)),
                  [&] { return sigtimedwait(&signals, nullptr, &now) > 0; });
  out << "closed after " << (*server)->requests() << " requests and " << owner.stepsHandled() << " steps\n";
  out.flush();
  return llvm::Error::success();
}

} // namespace sojourn::owner
