// SPDX-License-Identifier: Apache-2.0
// A private batch of `size=128` has more slots than 128, for the owner draws each row by itself. Torch's errors about
// that name sizes alone; what to do is added to them here. Ops that ATen composes check sizes above the recorder:
// the common ones of them pass through here.
#include "frontend/recording/Slots.h"

#include "frontend/Error.h"
#include "frontend/recording/RemoteDevice.h"
#include "frontend/recording/Steps.h"

#include <ATen/ops/broadcast_tensors_native.h>
#include <ATen/ops/einsum_native.h>
#include <ATen/ops/nll_loss_nd_native.h>
#include <ATen/ops/reshape_native.h>
#include <ATen/ops/unflatten_native.h>
#include <torch/library.h>

#include <cctype>
#include <numeric>

namespace sojourn::frontend {

namespace {

constexpr std::string_view kBegin = "this batch of a private table has ";

std::string textOf(int64_t expectedRows, int64_t slots) {
  return std::string(kBegin) + std::to_string(slots) + " slots for its " + std::to_string(expectedRows) +
         " rows: the owner draws each row at random, size=" + std::to_string(expectedRows) +
         " rows on average, and slots without a row contribute nothing; take the number of slots from the batch "
         "(x.shape[0]), or choose another size= in batches(...)";
}

/// The sizes of one call.
class Sizes {
public:
  explicit Sizes(bool isSplit = false) : isSplit_(isSplit) {}
  void add(const at::Tensor &tensor) {
    if (!tensor.defined()) {
      return;
    }
    const auto sizes = tensor.sizes();
    // torch.func's wrappers have the device, too.
    if (auto *remote = dynamic_cast<RemoteTensorImpl *>(tensor.unsafeGetTensorImpl())) {
      const Storage &storage = *remote->remoteStorage();
      if (storage.slots > 0 && std::find(sizes.begin(), sizes.end(), storage.slots) != sizes.end()) {
        slots_ = storage.slots;
        expectedRows_ = storage.expectedRows;
        return; // its other sizes are no rows
      }
    }
    all_.append(sizes.begin(), sizes.end());
  }
  void add(at::TensorList tensors) {
    for (const at::Tensor &tensor : tensors) {
      add(tensor);
    }
  }
  void add(c10::SymIntArrayRef numbers) {
    for (const c10::SymInt &number : numbers) {
      all_.push_back(number.maybe_as_int().value_or(-1));
    }
  }
  void add(const std::vector<int64_t> &numbers) {
    all_.append(numbers.begin(), numbers.end());
    if (isSplit_) {
      all_.push_back(std::accumulate(numbers.begin(), numbers.end(), int64_t{0}));
    }
  }
  template <class Other>
  void add(const Other &) {}

  void add(const c10::IValue &value) {
    if (value.isTensor()) {
      add(value.toTensor());
    } else if (value.isInt()) {
      all_.push_back(value.toInt());
    } else if (value.isIntList()) {
      add(value.toIntVector());
    } else if (value.isList()) {
      for (const c10::IValue &element : value.toListRef()) {
        add(element);
      }
    }
  }

  std::string hint() const {
    const bool isMet =
        slots_ > 0 && slots_ != expectedRows_ && std::find(all_.begin(), all_.end(), expectedRows_) != all_.end();
    return isMet ? textOf(expectedRows_, slots_) : "";
  }

private:
  c10::SmallVector<int64_t, 16> all_;
  int64_t expectedRows_ = 0, slots_ = 0;
  bool isSplit_;
};

void addHint(c10::Error &error, const Sizes &sizes) {
  if (dynamic_cast<const Error *>(&error)) {
    return;
  }
  const auto &known = error.context();
  const bool isHinted =
      std::any_of(known.begin(), known.end(), [](const std::string &text) { return text.rfind(kBegin, 0) == 0; });
  if (std::string hint = isHinted ? "" : sizes.hint(); !hint.empty()) {
    error.add_context(std::move(hint));
  }
}

/// ATen's composition, with the hint.
template <auto composition>
struct Hinting;
template <class Result, class... Args, Result (*composition)(Args...)>
struct Hinting<composition> {
  static Result call(Args... args) {
    try {
      return composition(args...);
    } catch (c10::Error &error) {
      Sizes sizes;
      (sizes.add(args), ...);
      addHint(error, sizes);
      throw;
    }
  }
};

/// Whether a text has a number as a word: no part of a decimal, a name or a path.
bool names(std::string_view text, int64_t number) {
  const std::string digits = std::to_string(number);
  auto isPart = [&](size_t at) {
    return at < text.size() &&
           (std::isalnum(static_cast<unsigned char>(text[at])) || std::string_view("._-/").find(text[at]) < 4);
  };
  for (size_t at = text.find(digits); at != std::string_view::npos; at = text.find(digits, at + 1)) {
    size_t end = at + digits.size();
    bool isLast = end < text.size() && text[end] == '.' && !(end + 1 < text.size() && isPart(end + 1)); // a full stop
    if (!(at > 0 && isPart(at - 1)) && (isLast || !isPart(end))) {
      return true;
    }
  }
  return false;
}

} // namespace

void hintAtSlots(c10::Error &error, c10::ArrayRef<c10::IValue> args, bool isSplit) {
  Sizes sizes(isSplit);
  for (const c10::IValue &value : args) {
    sizes.add(value);
  }
  addHint(error, sizes);
}

std::string slotsHint(std::string_view text) {
  ThreadState *state = ThreadState::existing();
  if (!state || text.find(kBegin) != std::string_view::npos) {
    return {};
  }
  for (const auto &device : state->devices()) {
    DeviceLock lock(device->mutex());
    auto open = state->peek(*device);
    for (const Storage *storage : open ? open->storages : std::vector<Storage *>()) {
      if (storage && storage->slots != storage->expectedRows && names(text, storage->slots) &&
          names(text, storage->expectedRows)) {
        return textOf(storage->expectedRows, storage->slots);
      }
    }
  }
  return {};
}

} // namespace sojourn::frontend

static void registerComposites(torch::Library &library) {
  using namespace sojourn::frontend;
  library.impl("broadcast_tensors", Hinting<&at::native::broadcast_tensors>::call);
  library.impl("einsum", Hinting<&at::native::einsum>::call);
  library.impl("nll_loss_nd", Hinting<&at::native::nll_loss_nd_symint>::call);
  library.impl("reshape", Hinting<&at::native::reshape_symint>::call);
  library.impl("unflatten.int", Hinting<&at::native::unflatten_symint>::call);
}

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, library) { registerComposites(library); }

// Under inference_mode nothing arrives above.
TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) { registerComposites(library); }
