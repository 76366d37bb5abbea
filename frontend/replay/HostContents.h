// SPDX-License-Identifier: Apache-2.0
// Host memory that a captured call has read and was not given: a replay may repeat the call while it is unchanged.
#ifndef SOJOURN_FRONTEND_REPLAY_HOSTCONTENTS_H
#define SOJOURN_FRONTEND_REPLAY_HOSTCONTENTS_H

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace sojourn::frontend {

/// CPU tensors with their contents of the captured call, which are compared byte by byte: torch's counts of changes
/// miss those made through NumPy, `.data` or in inference mode. Keeps no tensor alive, and of storages those alone
/// whose memory another library has lent (`torch.from_numpy`): such memory may outlive the tensor.
class HostContents {
public:
  explicit HostContents(const std::vector<at::Tensor> &tensors = {});
  /// Whether one has other contents now, or names another memory.
  bool areStale() const;

private:
  struct Held {
    explicit Held(const at::Tensor &tensor);
    bool isStale() const;
    /// Calls `see` for each run of adjacent elements, in order, until one returns false; false then.
    template <class See>
    bool eachRun(const char *from, size_t dim, const See &see) const;

    c10::weak_intrusive_ptr<c10::TensorImpl> tensor;
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;
    c10::Storage lent; ///< the storage, if its memory is another library's
    const char *memory;
    const void *base; ///< of the storage, whose memory a view that is gone cannot vouch for
    size_t storageBytes;
    std::vector<int64_t> sizes, strides;
    size_t itemBytes;
    size_t outer, runBytes; ///< dims that are walked; bytes of one run, which the other dims make up
    std::string copy;       ///< of the contents, element after element
  };
  std::vector<Held> held_;
};

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_REPLAY_HOSTCONTENTS_H
