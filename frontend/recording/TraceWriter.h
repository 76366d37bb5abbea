// SPDX-License-Identifier: Apache-2.0
// How op records become words of a trace.
#ifndef SOJOURN_FRONTEND_RECORDING_TRACEWRITER_H
#define SOJOURN_FRONTEND_RECORDING_TRACEWRITER_H

#include "frontend/recording/Origin.h"
#include "frontend/recording/Recording.h"

#include <c10/util/complex.h>

#include <string>
#include <string_view>
#include <vector>

namespace sojourn::frontend {

/// Appends op records to an open trace. Lock held by the caller.
class TraceWriter {
public:
  explicit TraceWriter(Recording &open) : open_(open), trace_(open.trace) {}
  void beginOp(Word entry, size_t argumentCount, const Origin &origin);
  void tensor(const at::Tensor &tensor);
  /// A value of this trace, by its id.
  void whole(int64_t id);
  /// A window on a value of this trace.
  void window(int64_t id, c10::IntArrayRef sizes, c10::IntArrayRef strides, int64_t offset);
  void none() { trace_.push(Tag::None); }
  void integer(int64_t value);
  /// One that no shape, and no way to compute, depends on.
  void number(int64_t value);
  void boolean(bool value);
  void complex(c10::complex<double> value);
  void real(double value);
  void dtype(at::ScalarType type);
  void text(std::string_view value);
  void slot(double value);
  void intSlot(int64_t value);
  void seed(uint64_t value, at::Generator from);
  void integers(c10::ArrayRef<int64_t> values);
  void list(size_t count);
  void table(int64_t id);
  void texts(const std::vector<std::string> &values);
  void beginResults(size_t count) { trace_.push(static_cast<Word>(count)); }
  /// A fresh storage, or an undefined result.
  c10::intrusive_ptr<Storage> result(const OutputMeta &meta);
  /// A storage that has been before gets its value.
  void resultInto(Storage &storage);
  /// The id of a value that ops of this trace alone refer to.
  int64_t hiddenResult(const OutputMeta &meta);

private:
  void layout(const OutputMeta &meta);
  Recording &open_;
  Trace &trace_;
};

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_RECORDING_TRACEWRITER_H
