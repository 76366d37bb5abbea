// SPDX-License-Identifier: Apache-2.0
// A torch generator whose seeds come from a bit generator of NumPy's.
#include "frontend/Error.h"
#include "frontend/bind/Bind.h"
#include "frontend/recording/Generator.h"

#include <utility>

namespace py = pybind11;

namespace sojourn::frontend {

namespace {

/// Its state is the bit generator's, which draws under Python's lock and its own.
class BitsGenerator final : public SeedGenerator {
public:
  BitsGenerator(c10::DeviceIndex index, py::object bits) : SeedGenerator(index), bits_(std::move(bits)) {}
  ~BitsGenerator() override {
    if (Py_IsInitialized() == 0) {
      bits_.release(); // with the interpreter
      return;
    }
    py::gil_scoped_acquire lock;
    bits_ = py::object();
  }

  uint64_t draw() override {
    py::gil_scoped_acquire lock;
    const uint64_t high = raw(), low = raw(); // some make 32 bits at a time
    return mixed(high << 32 ^ low, 1);
  }
  /// The next words.
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    py::gil_scoped_acquire lock;
    BitsGenerator copy(device().index(), copyOfBits());
    const uint64_t a = copy.raw(), b = copy.raw(), c = copy.raw(), d = copy.raw();
    return asState({a, b, c, d});
  }
  void set_state(const c10::TensorImpl &) override { refuse(); }
  void set_current_seed(uint64_t) override { refuse(); }
  void set_offset(uint64_t) override { refuse(); }
  uint64_t get_offset() const override { refuse(); }
  uint64_t current_seed() const override { refuse(); }
  uint64_t seed() override { refuse(); }

private:
  uint64_t raw() const { return bits_.attr("random_raw")().cast<uint64_t>(); }
  py::object copyOfBits() const { return py::module_::import("copy").attr("deepcopy")(bits_); }
  [[noreturn]] static void refuse() {
    raise(ErrorKind::Error, "this generator draws from a bit generator of NumPy's; set the state of that one");
  }
  BitsGenerator *clone_impl() const override {
    py::gil_scoped_acquire lock;
    return new BitsGenerator(device().index(), copyOfBits());
  }
  py::object bits_;
};

} // namespace

void bindGenerator(py::module_ &m) {
  m.def(
      "bits_generator",
      [](py::object bits, c10::Device device) {
        const c10::DeviceIndex index = device.has_index() ? device.index() : currentDeviceIndex();
        return at::make_generator<BitsGenerator>(index, std::move(bits));
      },
      py::arg("bits"), py::arg("device"), "A torch generator whose seeds come from the bit generator.");
}

} // namespace sojourn::frontend
