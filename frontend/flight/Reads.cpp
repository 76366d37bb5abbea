// SPDX-License-Identifier: Apache-2.0
// Values that a script reads (see Reads.h).
#include "frontend/flight/Reads.h"

#include "frontend/flight/Apart.h"
#include "frontend/flight/Borrow.h"
#include "frontend/flight/Flights.h"
#include "frontend/flight/ReadListener.h"
#include "frontend/flight/Undeclared.h"
#include "frontend/recording/StepSender.h"

#include <ATen/core/LegacyTypeDispatch.h>

#include <algorithm>

namespace sojourn::frontend {

namespace {

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
  DeviceLock lock(storage->device->mutex());
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
  DeviceLock lock(storage->device->mutex());
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

/// This thread records a copy for a read.
struct Reading {
  Reading() { ThreadState::current().isReading = true; }
  ~Reading() { ThreadState::current().isReading = false; }
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

void forgetRead(const std::vector<at::Tensor> &tensors) {
  for (const at::Tensor &tensor : tensors) {
    const auto &storage = remoteImpl(tensor)->remoteStorage();
    DeviceLock lock(storage->device->mutex());
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
    auto session = Session::of(tensors[at]);
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
  const bool isExtra = std::none_of(sessions.begin(), sessions.end(), [](auto &session) { return hasEnded(*session); });
  readListener().before(isExtra);
  // What has begun and not ended need not be sent for values that it does not change.
  std::vector<Apart> apart;
  for (const auto &session : sessions) {
    if (!hasEnded(*session) && hasNow(*session, tensors)) {
      apart.emplace_back(session);
    }
  }
  // Copies first, so that a tensor without a value leaves nothing behind.
  std::vector<at::Tensor> copies;
  for (Read &read : reads) {
    const Reading reading;
    {
      DeviceLock lock(read.session->mutex()); // a later write by another thread is noticed by the count
      read.writes = remoteImpl(tensors[read.position])->remoteStorage()->writes;
    }
    copies.push_back(tensors[read.position].clone(at::MemoryFormat::Contiguous));
  }
  for (size_t i = 0; i < reads.size(); ++i) {
    reads[i].state = reads[i].session->publish(copies[i], {.isRead = true});
  }
  copies.clear();
  for (auto &session : sessions) {
    DeviceLock lock(session->mutex());
    ++session->counts().reads;
  }
  readListener().around([&] { sendAll(sessions, /*explicitStep=*/false); });
  for (const Read &read : reads) {
    if (!read.state->value.defined()) {
      raise(ErrorKind::Error, "a value that was read never arrived: " + read.state->failure);
    }
    values[read.position] = read.state->value;
    if (keep || read.state->value.nbytes() <= kRememberedBytes) {
      remember(tensors[read.position], read.state->value, read.writes, keep);
    }
  }
  readListener().after(isExtra);
  return values;
}

/// Whether the read would send rows of a private table without the update that they are for.
static bool holdsRows(Session &session, const at::Tensor &given) {
  {
    DeviceLock lock(session.mutex());
    auto open = ThreadState::current().peek(session);
    if (!open || !open->tables.holdPrivate()) {
      return false;
    }
  }
  return !hasNow(session, {given});
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
  const auto session = Session::of(mask);
  at::AutoDispatchBelowADInplaceOrView below;
  at::Tensor own = seenOf(mask, /*isOwn=*/true);
  if (own.defined() || Steps::active() || session->offline() || holdsRows(*session, mask)) {
    return own;
  }
  return unlessRefused<at::Tensor>([&] { return readValues({mask}).front(); });
}

std::optional<std::vector<int64_t>> readSizes(const at::Tensor &given,
                                              const std::function<at::Tensor(const at::Tensor &)> &count) {
  const auto session = Session::of(given);
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
      DeviceLock lock(session->mutex());
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
    if (!hasEnded(*session) && hasNow(*session, {given})) {
      apart.emplace_back(session);
    }
    return std::optional(numbers(readValues({count(given)}).front()));
  });
}

namespace {

class Sender final : public StepSender {
public:
  Sender() { setStepSender(*this); }
  std::vector<at::Tensor> readValues(const std::vector<at::Tensor> &tensors) override {
    return frontend::readValues(tensors);
  }
  at::Tensor maskValue(const at::Tensor &mask) override { return frontend::maskValue(mask); }
  std::optional<std::vector<int64_t>> readSizes(const at::Tensor &given,
                                                const std::function<at::Tensor(const at::Tensor &)> &count) override {
    return frontend::readSizes(given, count);
  }
  at::Tensor borrow(const at::Tensor &tensor, RemoteDevice &group) override {
    return borrowed({tensor}, Session::of(group.shared_from_this())).front();
  }
  at::Tensor move(const at::Tensor &tensor, RemoteDevice &to) override {
    return moved(tensor, Session::of(to.shared_from_this()));
  }
  void batchBegins() override { markBatch(); }
  void boundStep(RemoteDevice &device) override { frontend::boundStep(device); }
};

[[maybe_unused]] Sender &sender = *new Sender; // ends of threads may come after the process's objects have gone

} // namespace

} // namespace sojourn::frontend
