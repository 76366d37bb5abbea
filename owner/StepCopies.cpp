// SPDX-License-Identifier: Apache-2.0
// Copies read from the worker, and written to it, in pieces (see StepCopies.h).
#include "owner/StepCopies.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cstring>

namespace sojourn::owner {

using runtime::Buffer;

StepCopies::StepCopies(WorkerStub &worker, const runtime::ProgramFacts &facts, llvm::ArrayRef<uint64_t> numbers,
                       RanParts::Part &ran, std::vector<std::string> &notes)
    : worker_(worker), facts_(facts), numbers_(numbers), ran_(ran), notes_(notes) {
  for (uint32_t result : facts.joint->copies) {
    all_ += facts.results[result].type.bytes();
  }
}

size_t StepCopies::memoryOf(const runtime::ProgramFacts &facts) {
  size_t most = 0;
  for (uint32_t result : facts.joint->copies) {
    most = std::max(most, facts.results[result].type.bytes());
  }
  return most;
}

/// Goes on by at most so many bytes, within one result.
StepCopies::Piece StepCopies::next(size_t most) {
  llvm::ArrayRef<uint32_t> copies = facts_.joint->copies;
  size_t size = facts_.results[copies[copy_]].type.bytes();
  while (offset_ == size) {
    offset_ = 0;
    size = facts_.results[copies[++copy_]].type.bytes();
  }
  const Piece piece{copies[copy_], offset_, std::min(most, size - offset_)};
  offset_ += piece.bytes;
  done_ += piece.bytes;
  return piece;
}

/// Null for a result that is kept.
runtime::HostTensor *StepCopies::publishedOf(const Piece &piece) const {
  llvm::ArrayRef<runtime::ResultSpec> results = facts_.results;
  if (results[piece.result].kind != StepResult::Publish) {
    return nullptr;
  }
  const auto before = llvm::count_if(results.take_front(piece.result),
                                     [](const auto &result) { return result.kind == StepResult::Publish; });
  return &ran_.published[static_cast<size_t>(before)];
}

static llvm::Error shortOf(const char *what) {
  return requestError(wire::ErrorCode_Internal,
                      llvm::Twine("the copies of a joint step have fewer bytes than are ") + what);
}

llvm::Expected<std::shared_ptr<Buffer>> StepCopies::read(size_t bytes) {
  if (bytes > all_ - done_) {
    return shortOf("read");
  }
  auto buffer = runtime::BufferPool::global().allocate(bytes);
  for (size_t at = 0; at < bytes;) {
    const Piece piece = next(bytes - at);
    if (piece.isFirst()) {
      runtime::HostTensor *published = publishedOf(piece);
      current_ = published ? published->buffer : worker_.taken(ran_.kept[piece.result], typeOf(piece).bytes());
      if (!current_) {
        return requestError(wire::ErrorCode_Internal, "the worker kept a value that cannot be read");
      }
    }
    std::memcpy(static_cast<uint8_t *>(buffer->data()) + at, static_cast<uint8_t *>(current_->data()) + piece.offset,
                piece.bytes);
    at += piece.bytes;
  }
  return buffer;
}

static llvm::Error noTruthValues() {
  return requestError(wire::ErrorCode_Peer, "member 0 sent truth values other than 0 and 1 of a value that all "
                                            "members of the group have");
}

llvm::Error StepCopies::replaceKept(const Piece &piece, const uint8_t *from) {
  const uint64_t number = numbers_[piece.result];
  const runtime::TensorType &type = typeOf(piece);
  if (piece.isFirst()) {
    worker_.drop(number); // a value does not change: another one gets its number
  }
  auto received = worker_.put(number, type.bytes(), piece.offset, Buffer::borrow(from, piece.bytes));
  if (!received) {
    return received.takeError();
  }
  if (received->bytes != piece.offset + piece.bytes) {
    return requestError(wire::ErrorCode_Internal, "the worker took in other bytes of a value than it was given");
  }
  if (type.element == runtime::Element::i1 && !received->isBits) {
    return noTruthValues();
  }
  ran_.kept[piece.result] = std::move(received->memory);
  return llvm::Error::success();
}

llvm::Error StepCopies::replacePublished(const Piece &piece, runtime::HostTensor &published, const uint8_t *from) {
  if (piece.isFirst()) { // the worker may keep what it has published
    current_ = runtime::BufferPool::global().allocate(published.type.bytes());
  }
  std::memcpy(static_cast<uint8_t *>(current_->data()) + piece.offset, from, piece.bytes);
  if (published.type.element == runtime::Element::i1 &&
      std::any_of(from, from + piece.bytes, [](uint8_t bit) { return bit > 1; })) {
    return noTruthValues();
  }
  if (piece.offset + piece.bytes == published.type.bytes()) {
    published.buffer = std::move(current_);
  }
  return llvm::Error::success();
}

llvm::Error StepCopies::replace(llvm::ArrayRef<uint8_t> bytes) {
  if (bytes.size() > all_ - done_) {
    return shortOf("replaced");
  }
  isReplaced_ = true;
  hash_.add(bytes.data(), bytes.size());
  while (!bytes.empty()) {
    const Piece piece = next(bytes.size());
    runtime::HostTensor *published = publishedOf(piece);
    if (llvm::Error error =
            published ? replacePublished(piece, *published, bytes.data()) : replaceKept(piece, bytes.data())) {
      return error;
    }
    bytes = bytes.drop_front(piece.bytes);
  }
  return llvm::Error::success();
}

} // namespace sojourn::owner
