// SPDX-License-Identifier: Apache-2.0
// See HostContents.h. Memory is read without torch's dispatcher, so that no mode of the user's sees it.
#include "frontend/replay/HostContents.h"

#include <algorithm>
#include <cstring>

namespace sojourn::frontend {

HostContents::Held::Held(const at::Tensor &given)
    : tensor(given.getIntrusivePtr()), storage(given.storage().getWeakStorageImpl()),
      memory(static_cast<const char *>(given.const_data_ptr())), base(given.storage().data()),
      storageBytes(given.storage().nbytes()), sizes(given.sizes().vec()), strides(given.strides().vec()),
      itemBytes(given.element_size()), outer(given.dim()), runBytes(itemBytes) {
  while (outer > 0 && (sizes[outer - 1] == 1 || static_cast<size_t>(strides[outer - 1]) * itemBytes == runBytes)) {
    runBytes *= static_cast<size_t>(sizes[--outer]);
  }
  if (given.numel() > 0) {
    copy.reserve(given.nbytes());
    eachRun(memory, 0, [&](const char *run) {
      copy.append(run, runBytes);
      return true;
    });
  }
  // torch can resize the memory that it has allocated, and no other.
  if (!given.storage().unsafeGetStorageImpl()->resizable()) {
    lent = given.storage();
  }
}

template <class See>
bool HostContents::Held::eachRun(const char *from, size_t dim, const See &see) const {
  if (dim == outer) {
    return see(from);
  }
  for (int64_t i = 0; i < sizes[dim]; ++i) {
    if (!eachRun(from + i * strides[dim] * static_cast<int64_t>(itemBytes), dim + 1, see)) {
      return false;
    }
  }
  return true;
}

bool HostContents::Held::isStale() const {
  if (const auto alive = tensor.lock()) {
    const bool isInPlace = alive->has_storage() &&
                           alive->unsafe_storage().unsafeGetStorageImpl() == storage._unsafe_get_target() &&
                           alive->sizes() == at::IntArrayRef(sizes) && alive->strides() == at::IntArrayRef(strides) &&
                           alive->data() == memory;
    if (!isInPlace) {
      return true;
    }
  }
  const auto kept = storage.lock();
  if (!kept || copy.empty()) {
    return false; // the memory of the call itself, which nothing can have changed since, or no element
  }
  if (kept->data() != base || kept->nbytes() < storageBytes) {
    return true; // another view has resized it: the old memory is gone
  }
  const char *then = copy.data();
  return !eachRun(memory, 0, [&](const char *run) {
    const bool isSame = std::memcmp(run, then, runBytes) == 0;
    then += runBytes;
    return isSame;
  });
}

HostContents::HostContents(const std::vector<at::Tensor> &tensors) {
  held_.reserve(tensors.size());
  for (const at::Tensor &tensor : tensors) {
    if (tensor.has_storage()) {
      held_.emplace_back(tensor);
    }
  }
}

bool HostContents::areStale() const {
  return std::any_of(held_.begin(), held_.end(), [](const Held &held) { return held.isStale(); });
}

} // namespace sojourn::frontend
