// SPDX-License-Identifier: Apache-2.0
// Terminal output of sojourn-owner, and its life as a server.
#include "owner/Administration.h"

#include "owner/Entry.h"
#include "owner/Error.h"
#include "owner/Text.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <csignal>
#include <ctime>
#include <pthread.h>
#include <set>
#include <unistd.h>

namespace sojourn::owner {

using llvm::Twine;

namespace {

/// Rows of equal length, printed as columns as wide as their widest cell; the first row heads.
void printTable(llvm::ArrayRef<std::vector<std::string>> rows, llvm::raw_ostream &out) {
  std::vector<size_t> widths(rows.front().size());
  for (const auto &row : rows) {
    for (size_t index = 0; index < row.size(); ++index) {
      widths[index] = std::max(widths[index], row[index].size());
    }
  }
  for (const auto &row : rows) {
    std::string line;
    for (size_t index = 0; index < row.size(); ++index) {
      line += row[index] + std::string(widths[index] + 2 - row[index].size(), ' ');
    }
    out << llvm::StringRef(line).rtrim() << '\n';
    if (&row == &rows.front()) {
      size_t total = 0;
      for (size_t width : widths) {
        total += width + 2;
      }
      out << std::string(total - 2, '-') << '\n';
    }
  }
}

std::string timeText(int64_t milliseconds) {
  auto seconds = static_cast<std::time_t>(milliseconds / 1000);
  std::tm local{};
  localtime_r(&seconds, &local);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &local);
  return text;
}

std::string hashText(const ProgramRecord &record) { return runtime::toHex(record.hash); }

} // namespace

void printDatasets(llvm::ArrayRef<DatasetRecord> records, llvm::raw_ostream &out) {
  if (records.empty()) {
    out << "no datasets yet; 'sojourn-owner import FILE --name NAME' adds one\n";
    return;
  }
  for (const DatasetRecord &record : records) {
    out << record.name << ": " << record.rows << " rows, " << record.columns.size() << " columns, policy "
        << policyName(record.policy) << ", version " << record.version << "\n  from " << record.source << " on "
        << timeText(record.registeredMs) << "\n  content " << record.contentHash << "\n\n";
    std::vector<std::vector<std::string>> rows{{"  column", "type", "lower", "upper"}};
    for (const Column &column : record.columns) {
      rows.push_back({"  " + column.name, entryText(column.element, column.dims),
                      column.bounds ? numberText(column.bounds->lower) : "-",
                      column.bounds ? numberText(column.bounds->upper) : "-"});
    }
    printTable(rows, out);
    out << '\n';
  }
}

void printPrograms(llvm::ArrayRef<ProgramRecord> records, llvm::raw_ostream &out) {
  if (records.empty()) {
    out << "no program has run yet\n";
    return;
  }
  std::vector<std::vector<std::string>> rows{{"program", "client", "runs", "ops", "first run", "last run"}};
  for (const ProgramRecord &record : records) {
    rows.push_back({hashText(record).substr(0, 16), record.client, std::to_string(record.runs),
                    std::to_string(record.ops), timeText(record.firstMs), timeText(record.lastMs)});
  }
  printTable(rows, out);
  out << "\n'sojourn-owner programs --text HASH' shows one with the scientist's source lines\n";
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
                                  : "'" + prefix + "' starts the hashes of " + Twine(hashes.size()) +
                                        " programs; give more of it");
  }
  for (const ProgramRecord &record : records) {
    if (hashes.count(hashText(record))) {
      out << "// program " << hashText(record) << "\n// client " << record.client << ", " << record.runs << " runs, "
          << timeText(record.firstMs) << " to " << timeText(record.lastMs) << '\n'
          << record.text << '\n';
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

llvm::Error serveUntilSignal(Owner &owner, const ServerOptions &options, llvm::raw_ostream &out) {
  // Blocked before the workers start, so that only the wait below sees the signals.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  auto server = Server::start(owner, options);
  if (!server) {
    return server.takeError();
  }
  out << "listening on " << options.listen << '\n';
  out.flush();
  int signal = 0;
  sigwait(&signals, &signal);
  (*server)->stop();
  out << "closed after " << (*server)->requests() << " requests and " << owner.stepsHandled() << " steps\n";
  out.flush();
  return llvm::Error::success();
}

} // namespace sojourn::owner
