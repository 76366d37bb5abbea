// SPDX-License-Identifier: Apache-2.0
// Worker processes (see Processes.h).
#include "owner/process/Processes.h"

#include "owner/Budget.h"
#include "owner/Dataset.h"
#include "runtime/wire/Worker_generated.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/ScopeExit.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace sojourn::owner {

namespace calls = sojourn_worker;
using Clock = std::chrono::steady_clock;
using llvm::Twine;

namespace {

/// A worker without programs: what its number is bounded by.
constexpr size_t kWorkerBytes = size_t{16} << 20;
constexpr size_t kWorkersMost = 1'024;
/// What a call that is to end has for it, before its process is killed.
constexpr std::chrono::milliseconds kKillGrace{150};
constexpr std::chrono::milliseconds kMemoryLook{100};
/// Of a call that nothing stops, as a part of an upload.
constexpr std::chrono::seconds kCallMost{60};
/// Of a process that was killed, until the system has taken it down.
constexpr int kEndMs = 10'000;
/// Of an answer.
constexpr size_t kAnswerBytesMost = size_t{256} << 20;
constexpr const char *kAsBefore = " Nothing of the step was committed, what it was charged stands, and the tensors of "
                                  "the session are as before: its next step runs in a new process";

/// Raises the limit of open files to what the system allows: values of sessions have descriptors.
size_t raiseDescriptors() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
    return 1'024;
  }
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, size_t{1} << 20);
  setrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur;
}

} // namespace

// --- One process --------------------------------------------------------------------------------------

WorkerProcess::WorkerProcess(std::shared_ptr<WorkerProcesses> house, std::shared_ptr<Zygote> parent, ForkedWorker given)
    : house(std::move(house)), parent(std::move(parent)), worker(std::move(given)),
      link(std::make_unique<Link>(std::move(worker.socket), this->house->links)) {}

WorkerProcess::~WorkerProcess() { end(); }

std::optional<int> WorkerProcess::end() noexcept {
  if (isEnded) {
    return std::nullopt;
  }
  isEnded = true;
  syscall(SYS_pidfd_send_signal, worker.process.get(), SIGKILL, nullptr, 0);
  link.reset(); // with the descriptors that came
  pollfd gone{worker.process.get(), POLLIN, 0};
  const bool isGone = poll(&gone, 1, kEndMs) > 0; // before the zygote waits for it
  const std::optional<int> status = isGone ? parent->reap(worker.pid) : std::nullopt;
  house->ended(worker.pid);
  return status;
}

bool WorkerProcess::isAlive() const {
  pollfd look{worker.process.get(), POLLIN, 0};
  return !isEnded && poll(&look, 1, 0) == 0;
}

bool WorkerProcess::isTooLarge() const {
  if (house->options.bytes == 0) {
    return false;
  }
  char path[64], line[128];
  std::snprintf(path, sizeof(path), "/proc/%d/status", worker.pid);
  std::FILE *file = std::fopen(path, "re");
  if (!file) {
    return false;
  }
  size_t all = 0; // not of files: tables and libraries are
  while (std::fgets(line, sizeof(line), file)) {
    size_t kilobytes = 0;
    if (std::sscanf(line, "RssAnon: %zu", &kilobytes) == 1 || std::sscanf(line, "RssShmem: %zu", &kilobytes) == 1) {
      all += kilobytes << 10;
    }
  }
  std::fclose(file);
  return all > house->options.bytes;
}

llvm::Error WorkerProcess::problem(llvm::Error error) {
  std::string text;
  bool isShort = false; // of descriptors
  llvm::handleAllErrors(std::move(error), [&](const llvm::ErrorInfoBase &found) {
    text = found.message();
    isShort = found.convertToErrorCode() == std::errc::too_many_files_open;
  });
  const std::optional<int> status = end();
  if (isShort) {
    return requestError(wire::ErrorCode_Limit,
                        "the values of the session need " + Twine(text) + ", and its process was ended." + kAsBefore);
  }
  switch (why) {
  case Why::stop: return requestError(wire::ErrorCode_Stopped, "the step was ended");
  case Why::memory:
    return requestError(wire::ErrorCode_Limit, "the process of the step took more than " + Twine(house->options.bytes) +
                                                   " bytes of memory, the limit of this owner, and was ended." +
                                                   kAsBefore);
  case Why::silence:
    return requestError(wire::ErrorCode_Execution,
                        "the process of the session did not answer and was ended." + Twine(kAsBefore));
  case Why::itself: break;
  }
  if (!text.empty()) {
    return requestError(wire::ErrorCode_Internal,
                        "the process that ran the step broke a rule (" + text + ") and was ended." + kAsBefore);
  }
  return requestError(wire::ErrorCode_Execution, "the process that ran the step ended: " + describeEnd(status) + "." +
                                                     kAsBefore +
                                                     ". If the same step ends it again, tell the data owner");
}

llvm::Expected<WorkerAnswer> WorkerProcess::call(const WorkerCall &call, bool isOnce) {
  if (isEnded) {
    return requestError(wire::ErrorCode_Execution, "the process of the session has ended." + Twine(kAsBefore));
  }
  auto isSet = [](const std::atomic<bool> *flag) { return flag && flag->load(std::memory_order_relaxed); };
  LinkFlags &flags = *worker.flags;
  flags.stop = isSet(call.stop);
  flags.finish = isSet(call.finish);
  flags.progress = 0;
  const Clock::time_point began = Clock::now();
  Clock::time_point stopped{}, looked = began;
  auto waiting = [&] {
    const auto now = Clock::now();
    if (!isAlive()) { // another one may have its end of the socket
      return false;
    }
    if (!call.stop && now - began > kCallMost) {
      why = Why::silence;
      return false;
    }
    if (isSet(call.stop)) {
      flags.stop = true;
      stopped = stopped == Clock::time_point() ? now : stopped;
    }
    flags.finish = isSet(call.finish);
    if (call.progress) {
      *call.progress = flags.progress.load();
    }
    if (stopped != Clock::time_point() && now - stopped > kKillGrace) {
      why = Why::stop;
      return false;
    }
    if (now - looked > kMemoryLook) {
      looked = now;
      if (isTooLarge()) {
        why = Why::memory;
        return false;
      }
    }
    return true;
  };
  try {
    if (llvm::Error error = link->send(FrameKind::call, call.bytes, call.memory, waiting, isOnce)) {
      llvm::consumeError(std::move(error)); // it is gone, or hangs
      return problem(llvm::Error::success());
    }
    auto frame = link->receive(waiting, call.answerBuffers);
    if (!frame) {
      llvm::Error error = frame.takeError();
      if (why != Why::itself || !isAlive()) {
        llvm::consumeError(std::move(error));
        error = llvm::Error::success();
      }
      return problem(std::move(error));
    }
    if (!*frame) {
      return problem(llvm::Error::success());
    }
    if ((*frame)->kind != FrameKind::answer) {
      return problem(llvm::createStringError("a frame that is no answer"));
    }
    if (call.progress) {
      *call.progress = flags.progress.load();
    }
    return WorkerAnswer{std::move((*frame)->keep), (*frame)->bytes, std::move((*frame)->memory)};
  } catch (const std::bad_alloc &) {
    end(); // in the middle of a frame
    throw;
  }
}

void WorkerProcess::notice(std::string_view bytes) noexcept {
  if (isEnded || link->queue(FrameKind::notice, bytes)) {
    return;
  }
  int waits = 0;
  if (!flush(/*trims=*/false, [&] { return ++waits < 40; }) || !link->queue(FrameKind::notice, bytes)) {
    end(); // for a second it has read nothing
  }
}

bool WorkerProcess::flush(bool trims, Link::Waiting waiting) noexcept {
  if (isEnded || (!trims && !link->hasQueued())) {
    return true;
  }
  try {
    if (trims) {
      link->trim();
      link->queue(FrameKind::trim, "");
    }
    llvm::Error error = link->flush(waiting);
    const bool isSent = !error;
    llvm::consumeError(std::move(error));
    return isSent;
  } catch (...) {
    return false;
  }
}

namespace {

/// A copy of a table that lies in memory alone, in a file that nobody can change.
llvm::Expected<std::shared_ptr<const TableFile>> fileOf(const Dataset &rows) {
  if (rows.file()) {
    return rows.file();
  }
  auto file = std::make_shared<TableFile>(memfd_create("sojourn-table", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  uint64_t end = 0;
  bool isWritten = file->descriptor >= 0;
  for (const Column &column : rows.columns()) {
    uint64_t size = static_cast<uint64_t>(rows.rows()) * runtime::byteWidth(column.element);
    for (int64_t dim : column.dims) {
      size *= static_cast<uint64_t>(dim);
    }
    end = (end + 63) / 64 * 64;
    file->offsets.push_back(end);
    for (uint64_t done = 0; isWritten && column.data != nullptr && done < size;) {
      const ssize_t count = pwrite(file->descriptor, static_cast<const char *>(column.data) + done, size - done,
                                   static_cast<off_t>(end + done));
      isWritten = count > 0;
      done += static_cast<uint64_t>(std::max<ssize_t>(count, 0));
    }
    end += size;
  }
  file->size = std::max<uint64_t>(end, 1);
  if (!isWritten || ftruncate(file->descriptor, static_cast<off_t>(std::max<uint64_t>(end, 1))) != 0 ||
      fcntl(file->descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) != 0) {
    return requestError(wire::ErrorCode_Limit,
                        "not enough memory to pass table '" + rows.name() + "' to the process of the step");
  }
  return file;
}

} // namespace

llvm::Error WorkerProcess::map(uint64_t table, const Dataset *rows) {
  if (isEnded) {
    return llvm::createStringError("the process has ended");
  }
  int waits = 0;
  auto waiting = [&] { return ++waits < 400 && isAlive(); }; // ten seconds
  flatbuffers::FlatBufferBuilder builder(256);
  if (!rows) {
    builder.Finish(calls::CreateTableRows(builder, table));
    return link->send(FrameKind::table, {reinterpret_cast<const char *>(builder.GetBufferPointer()), builder.GetSize()},
                      {}, waiting);
  }
  auto file = fileOf(*rows);
  if (!file) {
    return file.takeError();
  }
  std::vector<flatbuffers::Offset<calls::TableColumn>> columns;
  for (size_t at = 0; at < rows->columns().size(); ++at) {
    const Column &column = rows->columns()[at];
    auto name = builder.CreateString(column.name);
    auto dims = builder.CreateVector(column.dims);
    columns.push_back(
        calls::CreateTableColumn(builder, name, static_cast<uint8_t>(column.element), dims, (*file)->offsets[at]));
  }
  const bool isEmpty = llvm::any_of(rows->columns(), [](const Column &column) { return column.data == nullptr; });
  auto name = builder.CreateString(rows->name());
  auto columnsVector = builder.CreateVector(columns);
  builder.Finish(calls::CreateTableRows(builder, table, name, rows->rows(), columnsVector, (*file)->size, isEmpty));
  auto buffer = std::make_shared<runtime::Buffer>(nullptr, 1, (*file)->descriptor, runtime::newFileNumber());
  return link->send(FrameKind::table, {reinterpret_cast<const char *>(builder.GetBufferPointer()), builder.GetSize()},
                    {std::move(buffer)}, waiting, /*isOnce=*/true);
}

// --- All of them ----------------------------------------------------------------------------------------

llvm::Expected<std::shared_ptr<WorkerProcesses>> WorkerProcesses::start(const ProcessOptions &options) {
  std::shared_ptr<WorkerProcesses> house(new WorkerProcesses(options));
  ProcessOptions &own = house->options;
  const size_t machine = machineBytes();
  own.most = own.most ? std::max<size_t>(2, own.most) : std::clamp<size_t>(machine / 4 / kWorkerBytes, 2, kWorkersMost);
  own.bytes = own.bytes ? own.bytes : machine / 4 * 3;
  const size_t descriptors = raiseDescriptors();
  house->links.bytes = kAnswerBytesMost;
  house->links.files = std::max<size_t>(256, descriptors / 8);
  house->links.allFiles = std::make_shared<std::atomic<size_t>>(0);
  house->links.allFilesMost = descriptors / 4 * 3;
  house->links.recycles = true;
  auto zygote = Zygote::start(own.program);
  if (!zygote) {
    return zygote.takeError();
  }
  house->parent = std::move(*zygote);
  house->threadCount = house->parent->threads();
  sigset_t all, before; // signals are for the threads of the caller
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const auto unblock = llvm::scope_exit([&] { pthread_sigmask(SIG_SETMASK, &before, nullptr); });
  house->tidying =
      std::thread([weak = std::weak_ptr<WorkerProcesses>(house), tidy = house->tidy] { keepTidy(weak, tidy); });
  return house;
}

WorkerProcesses::~WorkerProcesses() {
  {
    std::lock_guard lock(tidy->mutex);
    tidy->isOver = true;
  }
  tidy->changed.notify_all();
  if (tidying.get_id() == std::this_thread::get_id()) { // the last process went there
    tidying.detach();
  } else if (tidying.joinable()) {
    tidying.join();
  }
}

void WorkerProcesses::keepTidy(const std::weak_ptr<WorkerProcesses> &house, const std::shared_ptr<Tidy> &tidy) {
  for (;;) {
    {
      std::unique_lock lock(tidy->mutex);
      if (tidy->changed.wait_for(lock, std::chrono::seconds(1), [&] { return tidy->isOver; })) {
        return;
      }
    }
    const auto own = house.lock();
    if (!own) {
      return;
    }
    std::vector<std::unique_ptr<WorkerProcess>> gone; // end without the lock
    std::lock_guard lock(own->mutex);
    gone.reserve(own->recent.size());
    for (WorkerHolder *each : own->recent) {
      gone.push_back(each->tidy(Clock::now()));
    }
  }
}

llvm::Expected<std::unique_ptr<WorkerProcess>>
WorkerProcesses::take(WorkerHolder &holder, const runtime::StopFlag *stop, bool isForProof, const Patience &patience) {
  const std::chrono::milliseconds most(options.waitMs);
  const auto until = Clock::now() + std::min(most, patience.value_or(most));
  std::unique_lock lock(mutex);
  const size_t bound = isForProof ? options.most : options.most - std::max<size_t>(1, options.most / 8);
  running.reserve(options.most);
  while (running.size() + starting >= bound) {
    if (stop && *stop) {
      return requestError(wire::ErrorCode_Stopped, "the step was ended");
    }
    std::unique_ptr<WorkerProcess> gone;
    for (auto each = recent.rbegin(); each != recent.rend() && !gone; ++each) {
      gone = *each != &holder ? (*each)->giveUp() : nullptr;
    }
    if (gone) {
      lock.unlock(); // its end tells this object
      gone.reset();
      lock.lock();
      continue;
    }
    if (Clock::now() > until && patience) {
      return busy(*patience, "this owner had no worker process");
    }
    if (Clock::now() > until) {
      return requestError(wire::ErrorCode_Limit,
                          "all " + Twine(options.most) + " worker processes of this owner are busy; try again later");
    }
    changed.wait_for(lock, std::chrono::milliseconds(25));
  }
  if (llvm::find(recent, &holder) == recent.end()) {
    recent.push_front(&holder);
  }
  ++starting;
  const auto started = llvm::scope_exit([&] { // under the lock
    --starting;
    changed.notify_one();
  });
  auto zygote = parent;
  lock.unlock();
  const auto relock = llvm::scope_exit([&] { lock.lock(); });
  auto forked = zygote->fork(options.bytes, links.files);
  if (!forked && zygote->isGone()) { // it runs nothing of clients: the system has ended it, and all workers
    llvm::consumeError(forked.takeError());
    zygote = restarted(zygote);
    forked = zygote ? zygote->fork(options.bytes, links.files)
                    : llvm::Expected<ForkedWorker>(llvm::createStringError("cannot start worker processes again"));
  }
  if (!forked) {
    return requestError(patience ? wire::ErrorCode_Busy : wire::ErrorCode_Limit,
                        llvm::toString(forked.takeError()) + "; try again later");
  }
  const pid_t pid = forked->pid;
  auto reaped = llvm::scope_exit([&] { // a process that nobody holds
    kill(pid, SIGKILL);
    zygote->reap(pid);
  });
  auto process = std::make_unique<WorkerProcess>(shared_from_this(), zygote, std::move(*forked));
  reaped.release();
  std::lock_guard again(mutex);
  running.push_back(pid); // in the room that was reserved
  return process;
}

std::shared_ptr<Zygote> WorkerProcesses::restarted(const std::shared_ptr<Zygote> &gone) {
  std::lock_guard lock(restart);
  {
    std::lock_guard inner(mutex);
    if (parent != gone) { // by another thread
      return parent;
    }
  }
  auto fresh = Zygote::start(options.program);
  if (!fresh) {
    llvm::consumeError(fresh.takeError());
    return nullptr;
  }
  std::lock_guard inner(mutex);
  parent = std::move(*fresh);
  return parent;
}

void WorkerProcesses::forget(WorkerHolder &holder) noexcept {
  std::lock_guard lock(mutex);
  recent.remove(&holder);
}

void WorkerProcesses::used(WorkerHolder &holder) noexcept {
  std::lock_guard lock(mutex);
  auto found = llvm::find(recent, &holder);
  if (found != recent.end()) {
    recent.splice(recent.begin(), recent, found);
  }
}

void WorkerProcesses::ended(pid_t pid) noexcept {
  std::lock_guard lock(mutex);
  llvm::erase(running, pid);
  changed.notify_one();
}

size_t WorkerProcesses::count() const {
  std::lock_guard lock(mutex);
  return running.size() + starting;
}

std::vector<pid_t> WorkerProcesses::pids() const {
  std::lock_guard lock(mutex);
  return running;
}

pid_t WorkerProcesses::zygote() const {
  std::lock_guard lock(mutex);
  return parent->pid();
}

} // namespace sojourn::owner
