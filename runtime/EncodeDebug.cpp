// SPDX-License-Identifier: Apache-2.0
// Source locations to the debug side table, and to text.
#include "runtime/CutText.h"
#include "runtime/Wire.h"
#include "runtime/Limits.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"

namespace sojourn::runtime {

namespace {

/// What the format keeps of a location: positions from callee to caller, and a grouping hint.
struct Flat {
  llvm::SmallVector<mlir::FileLineColLoc, 4> chain;
  mlir::StringAttr hint;
};

Flat flatten(mlir::Location location) {
  Flat flat;
  llvm::SmallVector<mlir::Location, 8> rest = {location};
  // Bounded by hand: locations nest as deep as whoever made them liked.
  for (size_t steps = 0; !rest.empty() && steps < 4 * limits::kLocationDepth; ++steps) {
    mlir::LocationAttr next = rest.pop_back_val();
    if (auto file = llvm::dyn_cast<mlir::FileLineColLoc>(next)) {
      if (flat.chain.size() < limits::kLocationDepth) {
        flat.chain.push_back(file);
      }
    } else if (auto call = llvm::dyn_cast<mlir::CallSiteLoc>(next)) {
      rest.push_back(call.getCaller());
      rest.push_back(call.getCallee());
    } else if (auto named = llvm::dyn_cast<mlir::NameLoc>(next)) {
      if (!flat.hint || flat.hint.empty()) {
        flat.hint = named.getName();
      }
      rest.push_back(named.getChildLoc());
    } else if (auto fused = llvm::dyn_cast<mlir::FusedLoc>(next)) {
      // Ops merged by a pass: the first place that is known.
      for (mlir::Location part : fused.getLocations()) {
        if (!llvm::isa<mlir::UnknownLoc>(part)) {
          rest.push_back(part);
          break;
        }
      }
    }
  }
  return flat;
}

} // namespace

std::string describeLocation(mlir::Location location) {
  CutStream out(limits::kLocationTextBytes);
  Flat flat = flatten(location);
  for (auto [index, file] : llvm::enumerate(flat.chain)) {
    out << (index == 0   ? ""
            : index == 1 ? " (called from "
                         : ", ")
        << file.getFilename().getValue() << ":" << file.getLine();
    if (file.getColumn() != 0) {
      out << ":" << file.getColumn();
    }
    if (out.full()) {
      break;
    }
  }
  out << (flat.chain.size() > 1 ? ")" : "");
  std::string text = out.take();
  // One line, whatever the names hold.
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
  return text;
}

std::string encodeDebug(llvm::ArrayRef<mlir::Location> opLocations) {
  std::vector<std::string> files, hints;
  llvm::StringMap<uint32_t> fileIds, hintIds;
  std::vector<sojourn_wire::LocationRecord> records;
  llvm::DenseMap<std::pair<mlir::Attribute, uint32_t>, uint32_t> recordIds;
  std::vector<uint32_t> opRecords, opHints;
  llvm::DenseMap<mlir::Location, std::pair<uint32_t, uint32_t>> known;

  for (mlir::Location location : opLocations) {
    auto [entry, isNew] = known.try_emplace(location);
    if (isNew) {
      Flat flat = flatten(location);
      uint32_t parent = 0;
      for (mlir::FileLineColLoc file : llvm::reverse(flat.chain)) {
        auto [record, fresh] = recordIds.try_emplace({file, parent}, static_cast<uint32_t>(records.size() + 1));
        if (fresh) {
          auto [name, newName] =
              fileIds.try_emplace(file.getFilename().getValue(), static_cast<uint32_t>(files.size()));
          if (newName) {
            files.push_back(prefix(file.getFilename().getValue(), limits::kFileNameBytes).str());
          }
          records.emplace_back(name->second, file.getLine(), file.getColumn(), parent);
        }
        parent = record->second;
      }
      uint32_t hint = 0;
      if (flat.hint && !flat.hint.empty()) {
        auto [name, newName] = hintIds.try_emplace(flat.hint.getValue(), static_cast<uint32_t>(hints.size() + 1));
        if (newName) {
          hints.push_back(prefix(flat.hint.getValue(), limits::kFileNameBytes).str());
        }
        hint = name->second;
      }
      entry->second = {parent, hint};
    }
    opRecords.push_back(entry->second.first);
    opHints.push_back(entry->second.second);
  }

  flatbuffers::FlatBufferBuilder builder(1024);
  auto fileVector = builder.CreateVectorOfStrings(files);
  auto recordVector = builder.CreateVectorOfStructs(records);
  auto opVector = builder.CreateVector(opRecords);
  auto hintVector = builder.CreateVector(opHints);
  auto hintTexts = builder.CreateVectorOfStrings(hints);
  sojourn_wire::FinishDebugBuffer(
      builder, sojourn_wire::CreateDebug(builder, fileVector, recordVector, opVector, hintVector, hintTexts));
  return std::string(reinterpret_cast<const char *>(builder.GetBufferPointer()), builder.GetSize());
}

} // namespace sojourn::runtime
