// SPDX-License-Identifier: Apache-2.0
#include "frontend/flight/Named.h"

#include "frontend/flight/Flights.h"
#include "frontend/recording/Packed.h"
#include "frontend/recording/Steps.h"
#include "frontend/session/Translated.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <numeric>

namespace sojourn::frontend {

static void requireNoStep(const std::string &what) {
  if (Steps::active()) {
    raise(ErrorKind::Error, what + " inside of a step; do it before or after the step, which need not know: a name "
                                   "follows its value through updates in place");
  }
}

static void requireOwner(const Session &session, const std::string &what) {
  if (session.isGroup()) {
    raise(ErrorKind::Error,
          what + " at " + session.address() + ", and a value of a group has no name: name tensors of one owner");
  }
  if (session.offline()) {
    raise(ErrorKind::Error, what + " at a device that only records, which keeps no values");
  }
}

static bool isRowMajor(c10::IntArrayRef sizes, c10::IntArrayRef strides) {
  int64_t next = 1;
  for (size_t dim = sizes.size(); dim-- > 0;) {
    if (sizes[dim] > 1 && strides[dim] != next) {
      return false;
    }
    next *= std::max<int64_t>(sizes[dim], 1);
  }
  return true;
}

/// Whether it is all of its storage in another shape, as `arange(6).reshape(2, 3)` is.
static bool isReshaped(const RemoteTensorImpl &tensor) {
  const Storage &storage = *tensor.remoteStorage();
  return tensor.numel() == elementsOf(storage) && isRowMajor(tensor.sizes(), tensor.strides()) &&
         isRowMajor(storage.sizes, storage.strides);
}

static void requireNamable(const std::string &name, const at::Tensor &tensor, const std::shared_ptr<Session> &session) {
  const RemoteTensorImpl *impl = remoteImpl(tensor);
  const Storage &storage = *impl->remoteStorage();
  if (storage.device != session) {
    raise(ErrorKind::Error, "'" + name + "' would name a tensor at " + Session::of(tensor)->address() +
                                ", and others of this call are at " + session->address() +
                                "; name the values of each owner in a separate call");
  }
  const bool isSame = impl->sizes() == c10::IntArrayRef(storage.sizes) &&
                      (impl->numel() == 0 || impl->strides() == c10::IntArrayRef(storage.strides));
  const bool isWhole = (isSame || isReshaped(*impl)) && impl->storage_offset() == 0 &&
                       tensor.scalar_type() == storage.dtype && !tensor.is_conj() && !tensor.is_neg();
  if (!isWhole) {
    raise(ErrorKind::Error, "'" + name +
                                "' would name a view of another tensor, and a name belongs to a whole value; "
                                "name that tensor, or a copy: tensor.clone()");
  }
  if (storage.lost) {
    raise(ErrorKind::Error, "'" + name + "' would name a tensor without a value: " + *storage.lost);
  }
  if (storage.readAgain) {
    raise(ErrorKind::Error, "'" + name +
                                "' would name columns of a private table, which each step reads anew; name "
                                "what steps compute of them");
  }
}

/// Whether the owner has the value of the storage as it is now.
static bool isSent(const Storage &storage) {
  return storage.handle != 0 && !storage.isPacked() &&
         std::none_of(storage.places.begin(), storage.places.end(), [](const auto &place) { return place.written; });
}

/// Sends what is pending of the tensors: an upload too, that no op has used.
static void send(const std::vector<std::pair<std::string, at::Tensor>> &values,
                 const std::shared_ptr<Session> &session) {
  bool isPending = false;
  for (const auto &[name, tensor] : values) {
    unpackBeforeStep(tensor);
    Storage &storage = *remoteImpl(tensor)->remoteStorage();
    DeviceLock lock(session->mutex());
    storage.isNamed = true;
    if (!isSent(storage)) {
      isPending = true;
      session->recording().idOf(storage);
    }
  }
  if (isPending) {
    flush(session);
  }
}

void nameValues(const std::vector<std::pair<std::string, at::Tensor>> &values, const std::vector<std::string> &tags) {
  if (values.empty()) {
    return;
  }
  requireNoStep("a tensor gets a name");
  for (const auto &[name, tensor] : values) {
    if (!isRemote(tensor)) {
      raise(ErrorKind::Error, "'" + name +
                                  "' would name a tensor that is not at an owner; move it there first: "
                                  "tensor.to(owner.device)");
    }
  }
  const std::shared_ptr<Session> session = Session::of(values.front().second);
  requireOwner(*session, "'" + values.front().first + "' would name a tensor");
  {
    DeviceLock lock(session->mutex());
    session->requireOpen();
    for (const auto &[name, tensor] : values) {
      requireNamable(name, tensor, session);
    }
  }
  send(values, session);
  Turn turn(session->connection());
  session->sendHeld();
  std::vector<NameRequest> requests;
  {
    DeviceLock lock(session->mutex());
    session->requireOpen();
    for (const auto &[name, tensor] : values) {
      const Storage &storage = *remoteImpl(tensor)->remoteStorage();
      if (!isSent(storage)) {
        raise(ErrorKind::Error, "the value for the name '" + name + "' could not be sent to the owner" +
                                    (storage.lost ? ": " + *storage.lost : std::string()));
      }
      NameRequest request{storage.handle, name, tags, {storage.strides.begin(), storage.strides.end()}, {}};
      if (tensor.sizes() != c10::IntArrayRef(storage.sizes)) {
        request.shape.assign(tensor.sizes().begin(), tensor.sizes().end());
      }
      requests.push_back(std::move(request));
    }
  }
  translated([&] { session->connection().client().nameValues(requests); });
}

std::vector<NamedValueInfo> namedValues(const std::shared_ptr<Session> &session, const std::string &tag) {
  requireOwner(*session, "values with names are asked for");
  Turn turn(session->connection());
  {
    DeviceLock lock(session->mutex());
    session->requireOpen();
  }
  session->sendHeld();
  return translated([&] { return session->connection().client().namedValues(tag); });
}

/// Row-major, where those that the value was named with are not of a dense tensor of these sizes.
static Dims stridesOf(const NamedValueInfo &info) {
  const size_t rank = info.dims.size();
  Dims dense(rank);
  int64_t count = 1;
  for (size_t dim = rank; dim-- > 0; count *= std::max<int64_t>(info.dims[dim], 1)) {
    dense[dim] = count;
  }
  if (info.strides.size() != rank) {
    return dense;
  }
  std::vector<size_t> order(rank);
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return info.strides[a] < info.strides[b]; });
  int64_t next = 1;
  for (size_t dim : order) {
    if (info.dims[dim] > 1 && info.strides[dim] != next) {
      return dense;
    }
    next *= std::max<int64_t>(info.dims[dim], 1);
  }
  return {info.strides.begin(), info.strides.end()};
}

/// Of what the owner says: sizes whose product is no number of elements would break all that follows.
static int64_t elementsOf(const NamedValueInfo &info, const std::vector<int64_t> &sizes) {
  int64_t count = 1;
  for (int64_t size : sizes) {
    if (size < 0 || (size > 0 && count > std::numeric_limits<int64_t>::max() / 16 / size)) {
      raise(ErrorKind::OwnerError, "the owner describes value '" + info.name + "' with impossible sizes");
    }
    count *= size;
  }
  return count;
}

/// The tensor in the shape that it was named in.
static at::Tensor shown(const at::Tensor &whole, const NamedValueInfo &info) {
  if (info.shape.empty() || elementsOf(info, info.shape) != whole.numel()) {
    return whole;
  }
  ViewMeta meta;
  meta.sizes.assign(info.shape.begin(), info.shape.end());
  meta.strides.resize(info.shape.size());
  int64_t count = 1;
  for (size_t dim = info.shape.size(); dim-- > 0; count *= std::max<int64_t>(info.shape[dim], 1)) {
    meta.strides[dim] = count;
  }
  meta.offset = 0;
  meta.dtype = whole.scalar_type();
  return makeView(whole, meta);
}

std::vector<at::Tensor> takeValues(const std::shared_ptr<Session> &session, const std::vector<std::string> &names) {
  requireNoStep("a value is taken by its name");
  requireOwner(*session, "a value is taken by its name");
  std::vector<uint64_t> as;
  std::vector<NamedValueInfo> taken;
  {
    Turn turn(session->connection());
    {
      DeviceLock lock(session->mutex());
      session->requireOpen();
    }
    session->sendHeld();
    std::generate_n(std::back_inserter(as), names.size(), [&] { return session->handles().reserve(); });
    taken = translated([&] { return session->connection().client().takeValues(names, as); });
  }
  std::vector<at::Tensor> tensors;
  DeviceLock lock(session->mutex());
  session->requireOpen();
  for (size_t at = 0; at < taken.size(); ++at) {
    const NamedValueInfo &info = taken[at];
    elementsOf(info, info.dims); // or an error
    auto storage =
        Storage::make(session, {info.dims.begin(), info.dims.end()}, stridesOf(info), scalarTypeOf(info.element));
    storage->handle = as[at];
    storage->isNamed = true;
    storage->reads = info.reads == 0 ? TablesRead::None : info.reads == 1 ? TablesRead::Open : TablesRead::Private;
    storage->usedAt = session->commits();
    session->handles().add(1);
    tensors.push_back(shown(makeTensor(std::move(storage)), info));
  }
  return tensors;
}

void releaseNames(const std::shared_ptr<Session> &session, const std::vector<std::string> &names) {
  requireNoStep("a name is released");
  requireOwner(*session, "a name is released");
  Turn turn(session->connection());
  {
    DeviceLock lock(session->mutex());
    session->requireOpen();
  }
  session->sendHeld();
  translated([&] { session->connection().client().releaseNames(names); });
}

} // namespace sojourn::frontend
