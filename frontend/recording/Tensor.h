// SPDX-License-Identifier: Apache-2.0
// The wrapper subclass: a tensor on device "owner:N" with true sizes, strides and offset and no
// data. It names a Storage; what that storage holds is known to the trace or to the owner.
#ifndef SOJOURN_FRONTEND_RECORDING_TENSOR_H
#define SOJOURN_FRONTEND_RECORDING_TENSOR_H

#include "frontend/shapes/Shapes.h"
#include "frontend/recording/Trace.h"
#include "runtime/wire/Step.h"

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>
#include <c10/core/TensorImpl.h>
#include <c10/util/SmallVector.h>

#include <functional>
#include <memory>
#include <span>

namespace sojourn::frontend {

struct Origin;
class Recording;
class RemoteDevice;

Element elementOf(at::ScalarType type);
at::ScalarType scalarTypeOf(Element element);
/// Throws Unsupported for a dtype that no program can hold.
void checkElement(at::ScalarType type);

/// A CPU tensor of these bytes; undefined if a tensor of this shape has another number of them.
at::Tensor hostTensor(at::ScalarType dtype, c10::IntArrayRef sizes, std::span<const uint8_t> bytes);

/// The bytes of a dense row-major CPU tensor; valid while it is.
wire::TensorView viewOf(const at::Tensor &tensor);

/// Why a value is gone; one text for all that went at once.
using Reason = std::shared_ptr<const std::string>;
inline Reason reasonOf(std::string text) { return std::make_shared<const std::string>(std::move(text)); }

/// One that outlives everything: sessions may close when the process ends.
inline const Reason &constantReason(const char *text) { return *new Reason(reasonOf(text)); }

/// What a value may depend on; a later one includes those before.
enum class TablesRead : uint8_t { None, Open, Private };

/// Identity of a value at the owner. All views of a tensor share one Storage; its base layout is
/// dense. Owned by tensors; traces and the device know it by raw pointer and are told when it
/// dies. Fields are guarded by the device's lock.
struct Storage : c10::intrusive_ptr_target {
  static c10::intrusive_ptr<Storage> make(std::shared_ptr<RemoteDevice> device, Dims sizes, Dims strides,
                                          at::ScalarType dtype);
  /// By `make`.
  Storage(std::shared_ptr<RemoteDevice> device, Dims sizes, Dims strides, at::ScalarType dtype);
  ~Storage() override;
  /// When the last tensor is gone.
  void release_resources() override;

  /// References for those who know it by raw pointer, under the device's lock: another thread, such as one of
  /// autograd's, may be dropping the last tensor. c10 frees an object without weak references at once, and a reference
  /// that is made meanwhile would outlive it; so a storage has a weak reference from the start. Null, if it is too
  /// late.
  c10::intrusive_ptr<Storage> strong();
  c10::weak_intrusive_ptr<Storage> weak();

  std::shared_ptr<RemoteDevice> device;
  Dims sizes, strides;
  at::ScalarType dtype;
  const uint64_t serial; ///< no other storage of the process has it

  uint64_t handle = 0; ///< at the owner; 0 while it exists in the trace only
  Word place = 0;      ///< of a value of a group, by its number (PlaceTable)
  at::Tensor upload;   ///< host copy until the owner has it
  int input = -1;      ///< position among an artifact's inputs
  Reason lost;         ///< why the value is gone (a dropped step), else nullptr
  uint64_t writes = 0; ///< how often an op was recorded that writes to it
  /// What was read of it: the last, or what somebody means to use; gone when it is written to.
  struct Seen {
    Dims sizes, strides;
    int64_t offset;
    at::Tensor value;   ///< on the CPU; nobody writes to it
    bool isOwn = false; ///< this process uploaded it
  };
  std::vector<Seen> seen;
  bool isTrained = false; ///< a leaf that requires a gradient was used in an op
  /// Of whole columns of a private table to which no step has written: records their read in the calling thread's open
  /// trace, and gives the value's id there. Noise is added in the step that reads rows, so that each step that uses
  /// them does.
  std::function<int64_t(const Origin &)> readAgain;
  /// Computed from rows that the owner draws of a private table: how many it expects, and the slots that they are in.
  int64_t expectedRows = 0, slots = 0;
  /// While it has no handle and is in no trace: its value is among the elements of this one, from `packedAt` on, beside
  /// others that the program only keeps (Packed.h).
  c10::intrusive_ptr<Storage> pack;
  int64_t packedAt = 0;
  bool isPack = false;
  bool isNamed = false; ///< it stays a separate value: a name at the owner follows it
  /// When a step last used it, as its device counts.
  uint64_t usedAt = 0;
  TablesRead reads = TablesRead::None; ///< by the steps that it was computed in
  bool isPacked() const { return pack && handle == 0; }
  /// How torch sees it, once somebody has asked: see `shownStorage`.
  c10::intrusive_ptr<c10::StorageImpl> shown;

  /// An open trace that uses it. A value at the owner may be in the traces of several threads as
  /// long as none writes it; any other is in one at most.
  struct Place {
    Recording *recording;
    int64_t id;   ///< in that trace
    bool written; ///< by an op of that trace
  };
  c10::SmallVector<Place, 1> places;
  Place *placeIn(const Recording &recording);
};

class RemoteTensorImpl final : public c10::TensorImpl {
public:
  RemoteTensorImpl(c10::intrusive_ptr<Storage> storage, c10::IntArrayRef sizes, c10::IntArrayRef strides,
                   int64_t offset, at::ScalarType dtype);

  const c10::intrusive_ptr<Storage> &remoteStorage() const { return storage_; }
  /// A fresh tensor becomes the upload that it was made for.
  void adoptUpload(c10::intrusive_ptr<Storage> storage) { storage_ = std::move(storage); }
  /// Same object, another window on its storage (inplace_view ops).
  void changeLayout(c10::IntArrayRef sizes, c10::IntArrayRef strides, int64_t offset);
  /// Same object, another storage, whole (out= and resize_ of an empty tensor).
  void changeStorage(c10::intrusive_ptr<Storage> storage);
  /// Takes over layout, dtype and, if it has one, storage.
  void restore(const RemoteTensorImpl &from);
  /// A copy that only `restore` reads; without a storage unless that changes too.
  c10::intrusive_ptr<RemoteTensorImpl> snapshot(bool withStorage) const;

  /// In inference mode a view of a normal tensor is a normal tensor.
  void adoptKeySet(const c10::TensorImpl &base);

  c10::intrusive_ptr<c10::TensorImpl> shallow_copy_and_detach(const c10::VariableVersion &versionCounter,
                                                              bool allowChange) const override;
  c10::intrusive_ptr<c10::TensorImpl> shallow_copy_and_detach(c10::VariableVersion &&versionCounter,
                                                              bool allowChange) const override;
  void shallow_copy_from(const c10::intrusive_ptr<c10::TensorImpl> &impl) override;
  void release_resources() override;
  const char *tensorimpl_type_name() const override { return "RemoteTensorImpl"; }

private:
  template <class Version>
  c10::intrusive_ptr<RemoteTensorImpl> copyAndDetach(Version &&version, bool allowChange) const;

  c10::intrusive_ptr<Storage> storage_;
};

inline bool isRemote(const at::TensorBase &tensor) {
  return tensor.defined() && tensor.device().type() == c10::DeviceType::PrivateUse1;
}
/// The impl of a remote tensor; the tensor must be remote.
RemoteTensorImpl *remoteImpl(const at::TensorBase &tensor);

/// The storage of a remote tensor for torch's own users: device, size, and addresses that no other storage of the
/// process ever has. One for all tensors of a storage, while it lives. Reads of its bytes throw.
c10::Storage shownStorage(const c10::intrusive_ptr<Storage> &storage);
/// The address of a tensor's first element within its shown storage; 0, as in eager, for a tensor without elements.
uint64_t shownAddress(const RemoteTensorImpl &tensor);

/// A tensor over a whole new storage.
at::Tensor makeTensor(c10::intrusive_ptr<Storage> storage);
/// A view of `base`'s storage; key set follows the base (inference mode).
at::Tensor makeView(const at::Tensor &base, const ViewMeta &meta);

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_RECORDING_TENSOR_H
