// SPDX-License-Identifier: Apache-2.0
// Facts in, refusals out (see Inputs.h).
#include "passes/privacy/Inputs.h"

#include "dialect/CoreForm.h"
#include "dialect/RowOps.h"
#include "dialect/rows/Support.h"

#include "llvm/ADT/bit.h"

#include <cmath>

using namespace mlir;
using namespace sojourn;

RowInputs sojourn::inputsOf(func::FuncOp step, llvm::function_ref<bool(unsigned)> isPublic,
                            llvm::function_ref<const TableFacts *(unsigned)> table) {
  RowInputs inputs;
  for (unsigned index = 0; index < step.getNumArguments(); ++index) {
    RowInputs::Argument argument;
    auto type = dyn_cast<TableType>(step.getArgumentTypes()[index]);
    if (!type) {
      argument.isPublic = isPublic(index);
      inputs.arguments.push_back(std::move(argument));
      continue;
    }
    const TableFacts *facts = table(index);
    argument.table.isPrivate = !facts || facts->isPrivate;
    argument.table.rows = facts ? facts->rows : std::nullopt;
    argument.isPublic = !argument.table.isPrivate;
    for (StringAttr name : type.getNames()) {
      rows::Range range;
      Type element = type.getColumnType(name.getValue());
      if (facts && facts->columns.contains(name.getValue())) {
        auto bounds = facts->columns.lookup(name.getValue());
        bool isWhole = isa<IntegerType>(getElementTypeOrSelf(element));
        range = bounds ? rows::Range::of(bounds->first, bounds->second, isWhole) : rows::rangeOfType(element);
      }
      argument.table.columns.push_back(range);
    }
    inputs.arguments.push_back(std::move(argument));
  }
  return inputs;
}

bool sojourn::samplesRows(func::FuncOp step) {
  return llvm::any_of(step.getOps<SampleRowsOp>(), [](SampleRowsOp op) { return op.getExpected().has_value(); });
}

void sojourn::setSlots(func::FuncOp step, ArrayRef<uint64_t> words, RowInputs &inputs) {
  if (samplesRows(step)) {
    return;
  }
  size_t next = 0;
  for (unsigned index = 0; index < step.getNumArguments() && next < words.size(); ++index) {
    auto kind = step.getArgAttrOfType<StringAttr>(index, kKindAttr);
    if (!kind || kind.getValue() != stringify(StepArg::Slot)) {
      continue;
    }
    uint64_t word = words[next++];
    bool isFloat = isa<FloatType>(getElementTypeOrSelf(step.getArgumentTypes()[index]));
    double number = isFloat ? llvm::bit_cast<double>(word) : static_cast<double>(static_cast<int64_t>(word));
    if (std::isfinite(number) && std::abs(number) <= 0x1p53) { // else an integer may have been rounded
      inputs.arguments[index].range = rows::Range::of(number, number, !isFloat);
    }
  }
}

void sojourn::setExtent(func::FuncOp step, unsigned argument, double low, double high, RowInputs &inputs) {
  bool isWhole = isa<IntegerType>(getElementTypeOrSelf(step.getArgumentTypes()[argument]));
  inputs.arguments[argument].range = rows::Range::of(low, high, isWhole);
}

FirstError::FirstError(MLIRContext &context, std::string (*place)(Location))
    : handler_(&context, [this, place](Diagnostic &diagnostic) {
        if (diagnostic.getSeverity() != DiagnosticSeverity::Error || !text_.empty()) {
          return;
        }
        text_ = diagnostic.str();
        location_ = place(diagnostic.getLocation());
        for (Diagnostic &note : diagnostic.getNotes()) {
          std::string said = note.str();
          if (!llvm::StringRef(said).starts_with("see current operation")) {
            std::string where = place(note.getLocation());
            text_ += "; " + said + (where.empty() ? "" : " at " + where);
          }
        }
      }) {}

std::string FirstError::text() const { return text_.empty() ? "the program cannot be made private" : text_; }
