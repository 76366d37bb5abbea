// SPDX-License-Identifier: Apache-2.0
// The program of zygote and workers (see WorkerMain.h).
#include "owner/process/WorkerMain.h"

#include "owner/Dataset.h"
#include "owner/MappedFile.h"
#include "owner/RequestError.h"
#include "owner/process/Confine.h"
#include "owner/process/Link.h"
#include "owner/process/Warm.h"
#include "owner/process/Zygote.h"
#include "owner/worker/Service.h"
#include "runtime/wire/Worker_generated.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <map>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace sojourn::owner {

namespace calls = sojourn_worker;
using flatbuffers::FlatBufferBuilder;

namespace {

constexpr int kZygoteSocket = 3;

std::string failureBytes(wire::ErrorCode code, std::string_view message) {
  FlatBufferBuilder builder(256);
  auto text = builder.CreateString(message.data(), message.size());
  auto body = calls::CreateFailure(builder, static_cast<uint8_t>(code), text);
  builder.Finish(calls::CreateAnswer(builder, calls::AnswerBody_Failure, body.Union()));
  return {reinterpret_cast<const char *>(builder.GetBufferPointer()), builder.GetSize()};
}

/// Serves the calls of one front until it is gone.
class WorkerProcessLoop {
public:
  WorkerProcessLoop(Descriptor socket, LinkFlags &flags)
      : link(std::move(socket), trusting()), flags(flags),
        noMemory(failureBytes(wire::ErrorCode_Limit, "not enough memory for the step")) {}

  void serve() {
    for (;;) {
      auto frame = link.receive();
      if (!frame) {
        llvm::consumeError(frame.takeError());
        return;
      }
      if (!*frame) {
        return;
      }
      switch ((*frame)->kind) {
      case FrameKind::call:
        if (!answer(**frame)) {
          return;
        }
        break;
      case FrameKind::notice: callService(**frame); break;
      case FrameKind::table: takeTable(**frame); break;
      case FrameKind::trim: service.trim(); break;
      default: return;
      }
    }
  }

private:
  /// The front, whose tables are files without seals.
  static LinkLimits trusting() {
    LinkLimits limits;
    limits.needsSeals = false;
    return limits;
  }

  /// Memory as the service takes it: what a run binds may be used again by the front once it is answered, what is
  /// adopted stays, all else is copied.
  Memory memoryOf(const Frame &frame) {
    const auto &call = *flatbuffers::GetRoot<calls::Call>(frame.bytes.data());
    const auto kind = call.body_type();
    const bool isBorrowed = kind == calls::CallBody_Run || kind == calls::CallBody_Resume ||
                            kind == calls::CallBody_Inspect || kind == calls::CallBody_Put;
    Memory memory;
    memory.reserve(frame.memory.size());
    for (const auto &buffer : frame.memory) {
      const auto at = static_cast<flatbuffers::uoffset_t>(memory.size());
      const bool isKept = kind == calls::CallBody_Adopt && !call.body_as_Adopt()->values()->Get(at)->is_upload();
      memory.push_back(isBorrowed || isKept ? readable(buffer, isBorrowed)
                                            : ownCopy(buffer, buffer ? buffer->size() : 0, service.buffers()));
    }
    return memory;
  }

  WorkerAnswer callService(const Frame &frame) {
    WorkerCall call;
    call.bytes = frame.bytes;
    call.memory = memoryOf(frame);
    call.stop = &flags.stop;
    call.finish = &flags.finish;
    call.progress = &flags.progress;
    return service.call(call);
  }

  bool answer(const Frame &frame) {
    WorkerAnswer answered;
    std::string_view bytes = noMemory;
    std::string damaged;
    try {
      answered = callService(frame);
      damaged = damagedTable(*flatbuffers::GetRoot<calls::Call>(frame.bytes.data()));
      if (!damaged.empty()) {
        answered = {};
        damaged = failureBytes(wire::ErrorCode_Dataset,
                               "the file of dataset '" + damaged +
                                   "' became shorter, or its disk failed, while the owner used it; the data owner "
                                   "restores the file and starts the owner again");
      }
      bytes = damaged.empty() ? answered.bytes : std::string_view(damaged);
    } catch (const std::bad_alloc &) {
      answered = {};
    }
    try {
      closeFiles();
      llvm::Error error = link.send(FrameKind::answer, bytes, answered.memory);
      const bool isSent = !error;
      llvm::consumeError(std::move(error));
      return isSent;
    } catch (const std::bad_alloc &) { // perhaps in the middle of a frame
      return false;
    }
  }

  void closeFiles() {
    for (uint64_t number : service.buffers().takeClosedFiles()) {
      link.closed.push_back(number);
    }
  }

  struct Table {
    std::shared_ptr<const Dataset> rows;
    const void *mapping = nullptr;
  };

  /// A table's file, or the end of one: see runtime/wire/Worker.fbs.
  void takeTable(const Frame &frame) {
    const auto &told = *flatbuffers::GetRoot<calls::TableRows>(frame.bytes.data());
    if (frame.memory.empty()) {
      service.unmap(told.table());
      tables.erase(told.table());
      return;
    }
    auto file = std::static_pointer_cast<SharedFile>(frame.memory[0]->keep());
    const auto *begin = static_cast<const char *>(file->map(told.size())); // what is missing is found as it is read
    std::vector<Column> columns;
    for (const calls::TableColumn *column : *told.columns()) {
      Column &made = columns.emplace_back();
      made.name = column->name()->str();
      made.element = static_cast<runtime::Element>(column->element());
      made.dims.assign(column->dims()->begin(), column->dims()->end());
      made.data = told.is_empty() ? nullptr : begin + column->offset();
    }
    auto guard = guardMapped(begin, file->size(), file);
    auto rows =
        std::make_shared<Dataset>(told.name()->str(), "", told.rows(), std::move(columns), guard ? guard : file);
    service.map(told.table(), rows);
    tables[told.table()] = {std::move(rows), begin};
  }

  /// The name of a table of the call whose file cannot be read.
  std::string damagedTable(const calls::Call &call) const {
    auto names = [](const flatbuffers::Vector<uint64_t> *words, uint64_t table) {
      return words && std::find(words->begin(), words->end(), table) != words->end();
    };
    for (const auto &[number, table] : tables) {
      if (!isDamaged(table.mapping)) {
        continue;
      }
      bool isUsed = false;
      if (const auto *run = call.body_as_Run()) {
        for (flatbuffers::uoffset_t at = 0; run->parts() && at < run->parts()->size(); ++at) {
          isUsed = isUsed || names(run->parts()->Get(at)->words(), number);
        }
      }
      if (const auto *inspect = call.body_as_Inspect(); inspect && inspect->bindings()) {
        isUsed = names(inspect->bindings()->words(), number);
      }
      if (isUsed) {
        return table.rows->name();
      }
    }
    return "";
  }

  Link link;
  LinkFlags &flags;
  const std::string noMemory;
  std::map<uint64_t, Table> tables;
  WorkerService service{runtime::cpuEngine(), {.sharesMemory = true}};
};

/// The child: never returns.
[[noreturn]] void runWorker(Descriptor socket, Descriptor memory, const ZygoteRequest &request, pid_t zygote) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != zygote) { // it is gone already
    _exit(1);
  }
  void *mapped = mmap(nullptr, sizeof(LinkFlags), PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  if (mapped == MAP_FAILED) {
    _exit(2);
  }
  memory = Descriptor();
  if (llvm::Error error = confine(request.dataBytes, request.descriptors)) {
    llvm::consumeError(std::move(error));
    _exit(3);
  }
  WorkerProcessLoop(std::move(socket), *static_cast<LinkFlags *>(mapped)).serve();
  _exit(0); // nothing of what exit does is wanted, as files of profiles
}

void reply(const ZygoteReply &told, int descriptor = -1) {
  iovec vector{const_cast<ZygoteReply *>(&told), sizeof(told)};
  msghdr message{};
  message.msg_iov = &vector;
  message.msg_iovlen = 1;
  const PassedDescriptors passed(message, descriptor >= 0 ? llvm::ArrayRef<int>(descriptor) : llvm::ArrayRef<int>());
  sendmsg(kZygoteSocket, &message, MSG_NOSIGNAL);
}

int statusOf(pid_t pid) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) {
      return 0;
    }
  }
  return status;
}

void forkWorker(const ZygoteRequest &request, Descriptor socket, Descriptor memory) {
  const pid_t zygote = getpid();
  const pid_t pid = fork();
  if (pid == 0) {
    close(kZygoteSocket);
    runWorker(std::move(socket), std::move(memory), request, zygote);
  }
  if (pid < 0) {
    reply({0, errno, 0});
    return;
  }
  const Descriptor process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!process) {
    const int error = errno;
    kill(pid, SIGKILL);
    statusOf(pid);
    reply({0, error, 0});
    return;
  }
  reply({pid, 0, 0}, process.get());
}

} // namespace

int workerMain() {
  // Ends with its socket: a signal at the end of the parent would come at the end of one of its threads.
  if (!leaveSystem()) {
    return 3;
  }
  warmZygote();
  reply({0, 0, runtime::cpuEngine().threads()});
  for (;;) {
    ZygoteRequest request;
    iovec vector{&request, sizeof(request)};
    alignas(cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))];
    msghdr message{};
    message.msg_iov = &vector;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    const ssize_t size = recvmsg(kZygoteSocket, &message, MSG_CMSG_CLOEXEC);
    if (size < 0 && errno == EINTR) {
      continue;
    }
    if (size != sizeof(request)) {
      return 0;
    }
    if (request.kind == ZygoteRequest::Kind::reap) {
      reply({0, statusOf(request.pid), 0});
      continue;
    }
    const cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (!header || header->cmsg_len != CMSG_LEN(2 * sizeof(int))) {
      return 1;
    }
    int descriptors[2];
    std::memcpy(descriptors, CMSG_DATA(header), sizeof(descriptors));
    forkWorker(request, Descriptor(descriptors[0]), Descriptor(descriptors[1]));
  }
}

} // namespace sojourn::owner
