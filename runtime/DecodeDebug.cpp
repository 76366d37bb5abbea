// SPDX-License-Identifier: Apache-2.0
// The debug side table to MLIR locations. It is as hostile as the program.
#include "runtime/Wire.h"
#include "runtime/Limits.h"
#include "llvm/Support/ConvertUTF.h"

namespace sojourn::runtime {

namespace {

llvm::Error malformed(const std::string &what) { return makeError(ErrorCode::Malformed, "debug table: " + what); }

using Texts = flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>;

/// Every text once, as an attribute. `total` counts bytes: texts that share memory count each.
llvm::Error readTexts(mlir::MLIRContext &context, const char *what, const Texts *texts, size_t &total,
                      std::vector<mlir::StringAttr> &read) {
  for (uint32_t i = 0; i < countOf(texts); ++i) {
    const flatbuffers::String *text = texts->Get(i);
    total += text->size();
    if (text->size() > limits::kFileNameBytes || total > limits::kTextBytes) {
      return makeError(ErrorCode::Limit, "the debug table has more than " + std::to_string(limits::kFileNameBytes) +
                                             " bytes in " + what + " " + std::to_string(i) + ", or more than " +
                                             std::to_string(limits::kTextBytes) + " in all texts");
    }
    const auto *begin = reinterpret_cast<const llvm::UTF8 *>(text->data());
    if (!llvm::isLegalUTF8String(&begin, begin + text->size())) {
      return malformed(std::string(what) + " " + std::to_string(i) + " is not UTF-8");
    }
    read.push_back(mlir::StringAttr::get(&context, text->string_view()));
  }
  return llvm::Error::success();
}

} // namespace

llvm::Expected<std::vector<mlir::Location>> decodeDebug(mlir::MLIRContext &context, llvm::StringRef debug,
                                                        size_t opCount) {
  mlir::Location unknown = mlir::UnknownLoc::get(&context);
  std::vector<mlir::Location> locations(opCount, unknown);
  if (debug.empty()) {
    return locations;
  }
  if (debug.size() > limits::kDebugBytes) {
    return makeError(ErrorCode::Limit, "the debug table has " + std::to_string(debug.size()) + " bytes, more than " +
                                           std::to_string(limits::kDebugBytes));
  }
  AlignedBytes bytes(debug);
  flatbuffers::Verifier verifier(bytes.data(), debug.size(), limits::kFlatBufferDepth, limits::kFlatBufferTables);
  if (debug.size() < 16 || !sojourn_wire::VerifyDebugBuffer(verifier)) {
    return malformed("not a FlatBuffers table of this schema");
  }
  const sojourn_wire::Debug &table = *sojourn_wire::GetDebug(bytes.data());
  const auto *files = table.files();
  const auto *records = table.locations();
  const auto *hints = table.hints();
  if (countOf(records) > limits::kLocations || countOf(files) > limits::kLocations ||
      countOf(hints) > limits::kLocations) {
    return makeError(ErrorCode::Limit,
                     "the debug table has more than " + std::to_string(limits::kLocations) + " entries");
  }
  if ((countOf(table.op_locations()) != 0 && countOf(table.op_locations()) != opCount) ||
      (countOf(table.op_hints()) != 0 && countOf(table.op_hints()) != opCount)) {
    return malformed("found entries for a different number of ops, expected " + std::to_string(opCount));
  }
  std::vector<mlir::StringAttr> names, hintTexts;
  size_t textBytes = 0;
  for (auto [what, texts, read] : {std::tuple("file name", files, &names), std::tuple("hint", hints, &hintTexts)}) {
    if (llvm::Error error = readTexts(context, what, texts, textBytes, *read)) {
      return error;
    }
  }
  std::vector<mlir::LocationAttr> built;
  std::vector<uint32_t> depth;
  for (uint32_t i = 0; i < countOf(records); ++i) {
    const sojourn_wire::LocationRecord &record = *records->Get(i);
    // A parent stands before its child: no cycles, and the depth is known.
    if (record.file() >= names.size() || record.parent() > i) {
      return malformed("location " + std::to_string(i) + " names a file or parent that does not exist");
    }
    depth.push_back(record.parent() == 0 ? 1 : depth[record.parent() - 1] + 1);
    if (depth.back() > limits::kLocationDepth) {
      return makeError(ErrorCode::Limit, "a location is nested deeper than " + std::to_string(limits::kLocationDepth));
    }
    mlir::LocationAttr place = mlir::FileLineColLoc::get(names[record.file()], record.line(), record.column());
    built.push_back(
        record.parent() == 0 ? place : mlir::LocationAttr(mlir::CallSiteLoc::get(place, built[record.parent() - 1])));
  }
  for (size_t op = 0; op < opCount; ++op) {
    if (countOf(table.op_locations()) != 0) {
      uint32_t id = table.op_locations()->Get(static_cast<uint32_t>(op));
      if (id > built.size()) {
        return malformed("op " + std::to_string(op) + " names a location that does not exist");
      }
      locations[op] = id == 0 ? unknown : mlir::Location(built[id - 1]);
    }
    if (countOf(table.op_hints()) != 0) {
      uint32_t id = table.op_hints()->Get(static_cast<uint32_t>(op));
      if (id > hintTexts.size()) {
        return malformed("op " + std::to_string(op) + " names a hint that does not exist");
      }
      if (id != 0) {
        locations[op] = mlir::NameLoc::get(hintTexts[id - 1], locations[op]);
      }
    }
  }
  return locations;
}

} // namespace sojourn::runtime
