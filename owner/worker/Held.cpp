// SPDX-License-Identifier: Apache-2.0
// Codes, values and tables by number (see Held.h).
#include "owner/worker/Held.h"

#include "llvm/ADT/STLExtras.h"

#include <cstring>

namespace sojourn::owner {

HeldCode HeldThings::code(uint64_t id) const {
  std::shared_lock lock(codesMutex);
  auto found = codes.find(id);
  return found == codes.end() ? HeldCode() : found->second;
}

void HeldThings::insertCode(uint64_t id, HeldCode code) {
  std::unique_lock lock(codesMutex);
  std::swap(codes[id], code); // the old one goes after the lock
  lock.unlock();
}

std::shared_ptr<const TableRows> HeldThings::table(uint64_t id) const {
  std::shared_lock lock(codesMutex);
  auto found = tables.find(id);
  return found == tables.end() ? nullptr : found->second;
}

void HeldThings::insertTable(uint64_t id, std::shared_ptr<const TableRows> rows) {
  std::unique_lock lock(codesMutex);
  tables[id].swap(rows);
  lock.unlock();
}

void HeldThings::removeTable(uint64_t id) {
  std::shared_ptr<const TableRows> gone;
  std::unique_lock lock(codesMutex);
  if (auto found = tables.find(id); found != tables.end()) {
    gone = std::move(found->second);
    tables.erase(found);
  }
  lock.unlock();
}

std::shared_ptr<runtime::Buffer> HeldThings::buffer(uint64_t id, const runtime::TensorType &type) const {
  std::lock_guard lock(valuesMutex);
  auto found = values.find(id);
  if (found == values.end()) {
    return nullptr;
  }
  const HeldValue &value = found->second;
  const bool fits = value.isUpload ? value.received == value.tensor.buffer->size() : value.tensor.type == type;
  return fits ? value.tensor.buffer : nullptr;
}

bool HeldThings::insertValues(std::vector<std::pair<uint64_t, HeldValue>> fresh) {
  std::lock_guard lock(valuesMutex);
  for (size_t at = 0; at < fresh.size(); ++at) {
    bool isNew = false;
    try {
      isNew = values.try_emplace(fresh[at].first, std::move(fresh[at].second)).second;
    } catch (...) {
      llvm::for_each(llvm::ArrayRef(fresh).take_front(at), [&](const auto &each) { values.erase(each.first); });
      throw;
    }
    if (!isNew) {
      llvm::for_each(llvm::ArrayRef(fresh).take_front(at), [&](const auto &each) { values.erase(each.first); });
      return false;
    }
  }
  return true;
}

Memory HeldThings::memoryOf(llvm::ArrayRef<uint64_t> ids) const {
  Memory memory;
  memory.reserve(ids.size());
  std::lock_guard lock(valuesMutex);
  for (uint64_t id : ids) {
    auto found = id == 0 ? values.end() : values.find(id);
    memory.push_back(found == values.end() ? nullptr : found->second.tensor.buffer);
  }
  return memory;
}

std::optional<HeldValue> HeldThings::put(uint64_t id, size_t size, size_t offset, llvm::ArrayRef<uint8_t> part,
                                         runtime::BufferPool &buffers) {
  if (offset > size || part.size() > size - offset) {
    return std::nullopt;
  }
  HeldValue upload;
  {
    std::lock_guard lock(valuesMutex);
    auto found = values.find(id);
    if (found == values.end()) {
      HeldValue fresh;
      fresh.isUpload = true;
      fresh.tensor.buffer = buffers.allocate(size);
      found = values.try_emplace(id, std::move(fresh)).first;
    }
    upload = found->second;
  }
  if (!upload.isUpload || upload.tensor.buffer->size() != size) {
    return std::nullopt;
  }
  if (offset == upload.received && !part.empty()) { // no run binds it before it is whole
    std::memcpy(static_cast<uint8_t *>(upload.tensor.buffer->data()) + offset, part.data(), part.size());
    uint8_t all = 0;
    for (uint8_t byte : part) {
      all |= byte;
    }
    upload.isBits &= all <= 1;
    upload.received += part.size();
    std::lock_guard lock(valuesMutex);
    if (auto found = values.find(id); found != values.end()) {
      found->second = upload;
    }
  }
  return upload;
}

void HeldThings::drop(llvm::ArrayRef<uint64_t> valueIds, llvm::ArrayRef<uint64_t> codeIds) noexcept {
  for (uint64_t id : valueIds) {
    std::unique_lock lock(valuesMutex);
    const auto gone = values.extract(id);
    lock.unlock(); // and then it goes
  }
  for (uint64_t id : codeIds) {
    std::unique_lock lock(codesMutex);
    const auto gone = codes.extract(id);
    lock.unlock();
  }
}

size_t HeldThings::valueCount() const {
  std::lock_guard lock(valuesMutex);
  return values.size();
}

size_t HeldThings::codeCount() const {
  std::shared_lock lock(codesMutex);
  return codes.size();
}

} // namespace sojourn::owner
