// SPDX-License-Identifier: Apache-2.0
// Values that a script reads, and ends of steps that nobody declared (see Reads.h).
#include "frontend/session/Reads.h"

#include "frontend/session/Apart.h"
#include "frontend/session/Flights.h"

#include "frontend/recording/Origin.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/function.h>

#include <algorithm>

namespace sojourn::frontend {

namespace {

ReadListener &listener() {
  static ReadListener set{[](bool) {}, [](bool) {}, [](const std::function<void()> &trip) { trip(); }};
  return set;
}

/// As this process has it: uploaded or, unless `isOwn`, read, and not written since; or undefined.
at::Tensor seenOf(const at::Tensor &tensor, bool isOwn = false) {
  const auto &storage = remoteImpl(tensor)->remoteStorage();
  if (tensor.scalar_type() != storage->dtype || tensor.is_conj() || tensor.is_neg()) {
    return {}; // what is known of the storage is known in its own type
  }
  auto windowOf = [&](const at::Tensor &whole) {
    at::Tensor base = at::empty_strided(storage->sizes, storage->strides, whole.options());
    base.copy_(whole);
    return base.as_strided(tensor.sizes(), tensor.strides(), tensor.storage_offset()).contiguous();
  };
  SessionLock lock(storage->session->mutex());
  auto isWritten = [](const Storage::Place &place) { return place.written; };
  if (storage->upload.defined() && storage->input < 0 && !storage->lost &&
      std::none_of(storage->places.begin(), storage->places.end(), isWritten)) {
    return windowOf(storage->upload);
  }
  for (const Storage::Seen &seen : storage->seen) {
    if (seen.isOwn && !storage->lost) {
      return windowOf(seen.value);
    }
    if (!isOwn && !storage->lost && tensor.sizes() == c10::IntArrayRef(seen.sizes) &&
        tensor.strides() == c10::IntArrayRef(seen.strides) && tensor.storage_offset() == seen.offset) {
      return seen.value;
    }
  }
  return {};
}

/// What was read of it; what this process uploaded stays known.
void forgetSeen(Storage &storage) {
  std::erase_if(storage.seen, [](const Storage::Seen &seen) { return !seen.isOwn; });
}

/// `writes`: to the storage, when its value was asked for; another thread may have written since.
void remember(const at::Tensor &tensor, const at::Tensor &value, uint64_t writes, bool keep) {
  const auto &storage = remoteImpl(tensor)->remoteStorage();
  SessionLock lock(storage->session->mutex());
  if (storage->writes != writes || storage->lost || tensor.scalar_type() != storage->dtype || tensor.is_conj() ||
      tensor.is_neg()) {
    return;
  }
  if (!keep) {
    forgetSeen(*storage);
  }
  auto dims = [](at::IntArrayRef list) { return Dims(list.begin(), list.end()); };
  storage->seen.push_back({dims(tensor.sizes()), dims(tensor.strides()), tensor.storage_offset(), value});
}

/// A tensor holds on to a copy of its last value up to this size: losses that are printed and logged.
constexpr size_t kRememberedBytes = 4096;

/// Whether this thread is at a read: it holds locks that a trip needs.
thread_local bool isReading = false;

struct Reading {
  Reading() { isReading = true; }
  ~Reading() { isReading = false; }
  Reading(const Reading &) = delete;
  Reading &operator=(const Reading &) = delete;
};

struct Read {
  size_t position;
  std::shared_ptr<Session> session;
  std::shared_ptr<PublishedState> state;
  uint64_t writes = 0; ///< to its storage so far
};

} // namespace

bool isAtRead() { return isReading; }

void setReadListener(ReadListener with) { listener() = std::move(with); }

void forgetRead(const std::vector<at::Tensor> &tensors) {
  for (const at::Tensor &tensor : tensors) {
    const auto &storage = remoteImpl(tensor)->remoteStorage();
    SessionLock lock(storage->session->mutex());
    forgetSeen(*storage);
  }
}

std::vector<at::Tensor> readValues(const std::vector<at::Tensor> &tensors, bool keep) {
  if (Steps::active()) {
    raise(ErrorKind::ValueNeeded, "a value is read inside a step, but values arrive when the step ends; publish it "
                                  "(sojourn.publish) and read it after the step, or keep it on the device");
  }
  at::AutoDispatchBelowADInplaceOrView below;
  std::vector<at::Tensor> values;
  std::vector<Read> reads;
  std::vector<std::shared_ptr<Session>> sessions;
  for (size_t at = 0; at < tensors.size(); ++at) {
    values.push_back(seenOf(tensors[at]));
    if (values.back().defined()) {
      continue;
    }
    auto session = remoteImpl(tensors[at])->remoteStorage()->session;
    if (session->offline()) {
      raise(ErrorKind::ValueNeeded, "a value is read on an offline device, which only records; publish it "
                                    "(sojourn.publish), or keep it on the device");
    }
    if (std::find(sessions.begin(), sessions.end(), session) == sessions.end()) {
      sessions.push_back(session);
    }
    reads.push_back({at, std::move(session), nullptr, 0});
  }
  if (reads.empty()) {
    return values;
  }
  std::sort(sessions.begin(), sessions.end(), [](auto &a, auto &b) { return a->index() < b->index(); });
  const bool isExtra =
      std::none_of(sessions.begin(), sessions.end(), [](auto &session) { return session->hasEnded(); });
  listener().before(isExtra);
  // What has begun and not ended need not be sent for values that it does not change.
  std::vector<Apart> apart;
  for (const auto &session : sessions) {
    if (!session->hasEnded() && session->hasNow(tensors)) {
      apart.emplace_back(session);
    }
  }
  // Copies first, so that a tensor without a value leaves nothing behind.
  std::vector<at::Tensor> copies;
  for (Read &read : reads) {
    const Reading reading;
    SessionLock lock(read.session->mutex());
    read.writes = remoteImpl(tensors[read.position])->remoteStorage()->writes;
    copies.push_back(tensors[read.position].clone(at::MemoryFormat::Contiguous));
  }
  for (size_t i = 0; i < reads.size(); ++i) {
    reads[i].state = reads[i].session->publish(copies[i], {.isRead = true});
  }
  copies.clear();
  for (auto &session : sessions) {
    SessionLock lock(session->mutex());
    ++session->mutableCounters().reads;
  }
  listener().around([&] { sendAll(sessions, /*explicitStep=*/false); });
  for (const Read &read : reads) {
    if (!read.state->value.defined()) {
      raise(ErrorKind::Error, "a value that was read never arrived: " + read.state->failure);
    }
    values[read.position] = read.state->value;
    if (keep || read.state->value.nbytes() <= kRememberedBytes) {
      remember(tensors[read.position], read.state->value, read.writes, keep);
    }
  }
  listener().after(isExtra);
  return values;
}

/// Whether the read would send rows of a private table without the update that they are for.
static bool holdsRows(Session &session, const at::Tensor &given) {
  SessionLock lock(session.mutex());
  auto open = ThreadState::current().peek(session);
  return open && open->tables.holdPrivate() && !session.hasNow({given});
}

/// What `read` gives; nothing where the value may not leave the owner.
template <typename Result>
static Result unlessRefused(const std::function<Result()> &read) {
  try {
    return read();
  } catch (const HasErrorKind &raised) {
    if (raised.kind() == ErrorKind::Refused) {
      return {};
    }
    throw;
  }
}

at::Tensor maskValue(const at::Tensor &mask) {
  const auto &storage = remoteImpl(mask)->remoteStorage();
  const auto session = storage->session;
  at::AutoDispatchBelowADInplaceOrView below;
  at::Tensor own = seenOf(mask, /*isOwn=*/true);
  if (own.defined() || Steps::active() || session->offline() || holdsRows(*session, mask)) {
    return own;
  }
  return unlessRefused<at::Tensor>([&] { return readValues({mask}).front(); });
}

std::optional<std::vector<int64_t>> readSizes(const at::Tensor &given,
                                              const std::function<at::Tensor(const at::Tensor &)> &count) {
  const auto session = remoteImpl(given)->remoteStorage()->session;
  const bool isInStep = Steps::active() || session->offline();
  at::AutoDispatchBelowADInplaceOrView below;
  auto numbers = [](const at::Tensor &found) {
    const at::Tensor flat = found.reshape({-1}).to(at::kLong).contiguous();
    return std::vector<int64_t>(flat.const_data_ptr<int64_t>(), flat.const_data_ptr<int64_t>() + flat.numel());
  };
  at::Tensor known;
  if (given.numel() == 0) {
    known = at::empty(given.sizes(), given.options().device(at::kCPU));
  } else if (!isInStep || given.scalar_type() == at::kBool) {
    known = seenOf(given, /*isOwn=*/isInStep);
  }
  if (known.defined()) {
    if (Steps::active()) {
      SessionLock lock(session->mutex());
      session->recording().unrepeatable =
          "the size of its result depends on the elements of a mask; select with torch.where instead";
    }
    return numbers(count(known));
  }
  if (isInStep || holdsRows(*session, given)) {
    return {};
  }
  return unlessRefused<std::optional<std::vector<int64_t>>>([&] {
    // What has begun need not be sent for a question about a value that it does not change.
    std::vector<Apart> apart;
    if (!session->hasEnded() && session->hasNow({given})) {
      apart.emplace_back(session);
    }
    return std::optional(numbers(readValues({count(given)}).front()));
  });
}

/// What an undeclared step may hold.
constexpr size_t kOpsSoon = 4096;  ///< then it is sent where its first line, or that of the last of these, comes again
constexpr size_t kOpsMost = 16384; ///< then anywhere
/// Then it is sent before the next upload.
constexpr size_t kOpsOfBatches = 1024, kUploadBytes = size_t{64} << 20;

static void sendPending() {
  listener().around([] { flushAll(); });
  listener().after(/*isExtra=*/false);
}

/// Whether what waits is so much that it should not wait for another batch.
static bool isLarge(Session &session) {
  SessionLock lock(session.mutex()); // other threads take what this one has uploaded
  auto open = ThreadState::current().peek(session);
  if (!open || !open->trace.tables.empty()) {
    return false;
  }
  size_t bytes = 0;
  for (const at::Tensor &upload : open->uploads) {
    bytes += upload.defined() ? upload.nbytes() : 0;
  }
  return open->trace.origins.size() >= kOpsOfBatches || bytes >= kUploadBytes;
}

/// Sends what is open, if that is to be at any of the sessions.
template <typename Ends>
static void sendIf(Ends ends) {
  ThreadState *state = ThreadState::existing();
  if (!state || state->step) {
    return;
  }
  bool isAny = false;
  for (const auto &session : state->sessions()) {
    isAny |= !session->offline() && ends(*session);
  }
  if (isAny) {
    sendPending();
  }
}

void markStep(uint64_t optimizer) {
  sendIf([=](Session &session) { return session.markEnd(optimizer); });
}

void markBatch() {
  sendIf([](Session &session) { return session.hasEnded() || isLarge(session); });
}

void boundStep(Session &session) {
  ThreadState *state = ThreadState::existing();
  if (!state || state->step || session.offline() || isReading) {
    return;
  }
  {
    auto open = state->peek(session);
    const size_t ops = open ? open->trace.origins.size() : 0;
    if (ops < kOpsSoon || !open->trace.tables.empty() || torch::autograd::get_current_node()) {
      return;
    }
    // What stands before a loop does not come again; what the trace is full of does.
    const Frame here = captureOrigin().frame;
    auto comesAgain = [&](size_t op) {
      const Frame &then = open->trace.origins[op].frame;
      return here.code == then.code && here.instruction == then.instruction;
    };
    if (ops < kOpsMost && !comesAgain(0) && !comesAgain(kOpsSoon - 1)) {
      return;
    }
  }
  sendPending();
}

} // namespace sojourn::frontend
