// SPDX-License-Identifier: Apache-2.0
// Small values at an owner that a program may only keep: candidates for a pack (frontend/recording/Packed.h).
#ifndef SOJOURN_FRONTEND_SESSION_KEPTVALUES_H
#define SOJOURN_FRONTEND_SESSION_KEPTVALUES_H

#include "frontend/recording/RemoteDevice.h"
#include "frontend/session/News.h"

#include <memory>
#include <vector>

namespace sojourn::frontend {

/// Elements of a storage.
int64_t elementsOf(const Storage &storage);

/// Guarded by the device's lock, which `note` expects to be held and the others take.
class KeptValues {
public:
  KeptValues(RemoteDevice &device, News &news) : device_(device), news_(news) {}

  /// A value has become one at the owner. Values computed from rows of private tables stay apart: what may become of
  /// one must not depend on others. Where few values live, none is noted: most results of a step die with the next.
  void note(Storage &storage);
  /// Values that no step has used for long and no trace holds, as many as one pack takes and alike; none if too few.
  std::vector<c10::intrusive_ptr<Storage>> gatherable();
  /// In order; not those that are in a trace, or were written to since `writes`.
  void moveInto(const c10::intrusive_ptr<Storage> &pack, const std::vector<c10::intrusive_ptr<Storage>> &values,
                const std::vector<uint64_t> &writes);

private:
  RemoteDevice &device_;
  News &news_;
  std::vector<c10::weak_intrusive_ptr<Storage>> small_;
  bool toldMany_ = false;
  size_t nextLook_ = 0;  ///< how many of them there are when they are looked at again
  size_t nextPrune_ = 0; ///< the same while few values live
};

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_SESSION_KEPTVALUES_H
