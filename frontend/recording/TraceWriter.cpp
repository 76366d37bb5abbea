// SPDX-License-Identifier: Apache-2.0
#include "frontend/recording/TraceWriter.h"

#include "frontend/recording/RemoteDevice.h"
#include "frontend/shapes/Shapes.h"

#include <ATen/ATen.h>
#include <c10/core/DefaultDtype.h>

namespace sojourn::frontend {

void TraceWriter::beginOp(Word entry, size_t argumentCount, const Origin &origin) {
  open_.device().requireOpen();
  if (recordsByNumpy()) {
    trace_.push(Record::NumpyOp);
  } else {
    trace_.setDefaultFloat(elementOf(c10::get_default_dtype_as_scalartype()));
    trace_.push(Record::Op);
  }
  trace_.push(entry);
  trace_.push(static_cast<Word>(argumentCount));
  trace_.origins.push_back(origin);
}

void TraceWriter::tensor(const at::Tensor &tensor) {
  if (!isRemote(tensor)) {
    // A 0-dim CPU tensor: an input with its own dtype.
    auto storage = open_.device().makeUpload(tensor);
    trace_.push(Tag::Whole);
    trace_.push(open_.idOf(*storage));
    return;
  }
  RemoteTensorImpl *impl = remoteImpl(tensor);
  Storage &storage = *impl->remoteStorage();
  storage.isTrained = storage.isTrained || (tensor.requires_grad() && tensor.is_leaf());
  const bool isTyped = tensor.scalar_type() != storage.dtype;
  if (storage.isPacked() && !storage.placeIn(open_) && !isTyped) {
    window(open_.idOfPack(storage), impl->sizes(), impl->strides(), storage.packedAt + impl->storage_offset());
    return;
  }
  int64_t id = open_.idOf(storage);
  if (!isTyped && impl->storage_offset() == 0 && impl->sizes() == c10::IntArrayRef(storage.sizes) &&
      impl->strides() == c10::IntArrayRef(storage.strides)) {
    trace_.push(Tag::Whole);
    trace_.push(id);
    return;
  }
  trace_.push(isTyped ? Tag::TypedView : Tag::View);
  trace_.push(id);
  trace_.push(impl->dim());
  auto &words = trace_.words;
  words.insert(words.end(), impl->sizes().begin(), impl->sizes().end());
  words.insert(words.end(), impl->strides().begin(), impl->strides().end());
  trace_.push(impl->storage_offset());
  if (isTyped) {
    trace_.push(static_cast<Word>(elementOf(tensor.scalar_type())));
  }
}

void TraceWriter::window(int64_t id, c10::IntArrayRef sizes, c10::IntArrayRef strides, int64_t offset) {
  trace_.push(Tag::View);
  trace_.push(id);
  trace_.push(static_cast<Word>(sizes.size()));
  trace_.words.insert(trace_.words.end(), sizes.begin(), sizes.end());
  trace_.words.insert(trace_.words.end(), strides.begin(), strides.end());
  trace_.push(offset);
}

void TraceWriter::whole(int64_t id) {
  trace_.push(Tag::Whole);
  trace_.push(id);
}

void TraceWriter::integer(int64_t value) {
  trace_.push(Tag::Int);
  trace_.push(value);
}
void TraceWriter::number(int64_t value) {
  trace_.push(Tag::Number);
  trace_.push(value);
}
void TraceWriter::boolean(bool value) {
  trace_.push(Tag::Bool);
  trace_.push(static_cast<Word>(value));
}
void TraceWriter::real(double value) {
  trace_.push(Tag::Real);
  trace_.push(c10::bit_cast<int64_t>(value));
}
void TraceWriter::complex(c10::complex<double> value) {
  trace_.push(Tag::Complex);
  trace_.push(c10::bit_cast<int64_t>(value.real()));
  trace_.push(c10::bit_cast<int64_t>(value.imag()));
}
void TraceWriter::dtype(at::ScalarType type) {
  trace_.push(Tag::Dtype);
  trace_.push(static_cast<Word>(elementOf(type)));
}
void TraceWriter::text(std::string_view value) {
  trace_.push(Tag::String);
  trace_.push(StringTable::get().intern(value));
}
void TraceWriter::slot(double value) {
  trace_.push(Tag::Slot);
  trace_.slots.push_back(c10::bit_cast<uint64_t>(value));
  trace_.slotOps.push_back(static_cast<uint32_t>(trace_.origins.size()) - 1);
}
void TraceWriter::intSlot(int64_t value) {
  trace_.push(Tag::IntSlot);
  trace_.slots.push_back(static_cast<uint64_t>(value));
  trace_.slotOps.push_back(static_cast<uint32_t>(trace_.origins.size()) - 1);
}
void TraceWriter::seed(uint64_t value, at::Generator from) {
  trace_.push(Tag::Seed);
  trace_.seeds.push_back(value);
  open_.generators.push_back(std::move(from));
}
void TraceWriter::integers(c10::ArrayRef<int64_t> values) {
  trace_.push(Tag::IntList);
  trace_.push(static_cast<Word>(values.size()));
  trace_.words.insert(trace_.words.end(), values.begin(), values.end());
}
void TraceWriter::list(size_t count) {
  trace_.push(Tag::List);
  trace_.push(static_cast<Word>(count));
}
void TraceWriter::table(int64_t id) {
  trace_.push(Tag::TableRef);
  trace_.push(id);
}
void TraceWriter::texts(const std::vector<std::string> &values) {
  trace_.push(Tag::StringList);
  trace_.push(static_cast<Word>(values.size()));
  for (const std::string &value : values) {
    trace_.push(StringTable::get().intern(value));
  }
}

c10::intrusive_ptr<Storage> TraceWriter::result(const OutputMeta &meta) {
  if (!meta.defined) {
    trace_.push(Word{-1});
    return {};
  }
  layout(meta);
  return open_.makeResult(meta);
}

void TraceWriter::resultInto(Storage &storage) {
  layout({storage.sizes, storage.strides, storage.dtype, true});
  open_.enter(storage);
}

int64_t TraceWriter::hiddenResult(const OutputMeta &meta) {
  layout(meta);
  return open_.makeHidden();
}

void TraceWriter::layout(const OutputMeta &meta) {
  trace_.push(static_cast<Word>(elementOf(meta.dtype)));
  trace_.push(static_cast<Word>(meta.sizes.size()));
  trace_.words.insert(trace_.words.end(), meta.sizes.begin(), meta.sizes.end());
  trace_.words.insert(trace_.words.end(), meta.strides.begin(), meta.strides.end());
}

} // namespace sojourn::frontend
