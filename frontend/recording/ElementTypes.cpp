// SPDX-License-Identifier: Apache-2.0
// Torch's dtypes and the element types of core form.
#include "frontend/Error.h"
#include "frontend/recording/Tensor.h"
#include "runtime/LibraryElement.h"

namespace sojourn::frontend {

Element elementOf(at::ScalarType type) {
  checkElement(type);
  return *runtime::elementOf(type);
}

at::ScalarType scalarTypeOf(Element element) { return runtime::scalarTypeOf(element); }

void checkElement(at::ScalarType type) {
  std::optional<Element> element = runtime::elementOf(type);
  if (!element) {
    raise(ErrorKind::Unsupported, std::string("dtype ") + c10::toString(type) +
                                      " is not supported on device owner; use bool, uint8, int8..int64, "
                                      "float16, bfloat16, float32, float64, complex64 or complex128");
  }
}

} // namespace sojourn::frontend
