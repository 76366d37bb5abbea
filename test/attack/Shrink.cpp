// SPDX-License-Identifier: Apache-2.0
// Smaller attacks (see Shrink.h).
#include "test/attack/Shrink.h"

#include "dialect/CoreForm.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"

#include <utility>

using namespace mlir;
using namespace sojourn;
using namespace sojourn::attack;

static func::ReturnOp terminatorOf(func::FuncOp step) {
  return cast<func::ReturnOp>(step.getBody().front().getTerminator());
}

/// Ops without uses go.
static void sweep(AttackStep &step) {
  func::FuncOp function = step.function();
  Block &block = function.getBody().front();
  SmallVector<Operation *> ops;
  for (Operation &op : block.without_terminator()) {
    ops.push_back(&op);
  }
  for (Operation *op : llvm::reverse(ops)) {
    if (op->use_empty()) {
      op->erase();
    }
  }
}

static bool dropResult(AttackStep &step, size_t number) {
  func::FuncOp function = step.function();
  if (number >= function.getNumResults() || function.getNumResults() < 2) {
    return false;
  }
  auto at = static_cast<unsigned>(number);
  auto kindOf = [&](unsigned result) {
    return function.getResultAttrOfType<StringAttr>(result, kResultAttr).getValue();
  };
  size_t kept = 0, published = 0;
  for (unsigned before = 0; before < at; ++before) {
    kept += kindOf(before) == "keep";
    published += kindOf(before) == "publish";
  }
  auto erase = [](auto &list, size_t index) {
    if (index < list.size()) {
      list.erase(list.begin() + static_cast<long>(index));
    }
  };
  if (kindOf(at) == "keep") {
    erase(step.terms.results, kept);
    for (owner::test::StepRequest &next : step.terms.repetitions) {
      erase(next.results, kept);
    }
  } else if (kindOf(at) == "publish") {
    erase(step.terms.spending.releases, published);
  }
  if (failed(function.eraseResult(at))) {
    return false;
  }
  terminatorOf(function)->eraseOperand(at);
  return true;
}

static bool dropArgument(AttackStep &step, size_t number) {
  func::FuncOp function = step.function();
  if (number >= function.getNumArguments() || !function.getArgument(static_cast<unsigned>(number)).use_empty()) {
    return false;
  }
  auto kindOf = [&](unsigned argument) {
    return function.getArgAttrOfType<StringAttr>(argument, kKindAttr).getValue();
  };
  auto at = static_cast<unsigned>(number);
  size_t index = 0;
  for (unsigned before = 0; before < at; ++before) {
    index += kindOf(before) == kindOf(at);
  }
  auto erase = [&](auto &list) { list.erase(list.begin() + static_cast<long>(index)); };
  auto eraseAll = [&](auto member) {
    erase(step.terms.*member);
    for (owner::test::StepRequest &next : step.terms.repetitions) {
      if (!(next.*member).empty()) { // else that of the step before
        erase(next.*member);
      }
    }
  };
  auto kind = kindOf(at);
  if (kind == "state") {
    for (unsigned result = 0; result < function.getNumResults(); ++result) {
      auto target = function.getResultAttrOfType<IntegerAttr>(result, kTargetAttr);
      if (!target || target.getInt() < static_cast<int64_t>(number)) {
        continue;
      }
      if (target.getInt() == static_cast<int64_t>(number)) {
        return false;
      }
      function.setResultAttr(result, kTargetAttr,
                             Builder(function.getContext()).getI64IntegerAttr(target.getInt() - 1));
    }
    eraseAll(&owner::test::StepRequest::states);
  } else if (kind == "upload") {
    eraseAll(&owner::test::StepRequest::uploads);
  } else if (kind == "slot") {
    eraseAll(&owner::test::StepRequest::slots);
  } else if (kind == "seed") {
    eraseAll(&owner::test::StepRequest::seeds);
  } else {
    erase(step.terms.tables);
  }
  return succeeded(function.eraseArgument(at));
}

/// One of its operands, an argument or an earlier value instead of an op's results.
static bool replaceOp(AttackStep &step, size_t number, size_t way) {
  Block &block = step.function().getBody().front();
  if (number + 1 >= block.getOperations().size()) {
    return false;
  }
  Operation *op = &*std::next(block.begin(), static_cast<long>(number));
  if (op->getNumResults() != 1) {
    return false;
  }
  SmallVector<Value> candidates(op->getOperands());
  llvm::append_range(candidates, block.getArguments());
  for (Operation &before : block) {
    if (&before == op) {
      break;
    }
    llvm::append_range(candidates, before.getResults());
  }
  llvm::erase_if(candidates, [&](Value value) { return value.getType() != op->getResult(0).getType(); });
  if (way >= candidates.size()) {
    return false;
  }
  op->getResult(0).replaceAllUsesWith(candidates[way]);
  op->erase();
  return true;
}

/// One client, one step per message, all of it in the message; each change says whether there was something to do.
static llvm::ArrayRef<bool (*)(AttackStep &)> plainer() {
  static bool (*const changes[])(AttackStep &) = {
      [](AttackStep &step) {
        bool isLong = !step.terms.repetitions.empty();
        if (isLong) {
          step.terms.repetitions.pop_back();
        }
        return isLong;
      },
      [](AttackStep &step) { return std::exchange(step.client, 0) > 0; },
      [](AttackStep &step) { return std::exchange(step.isNamed, false); },
      [](AttackStep &step) {
        bool isAhead = false;
        for (owner::test::Upload &upload : step.terms.uploads) {
          isAhead |= std::exchange(upload.sentAhead, 0) > 0;
        }
        return isAhead;
      },
  };
  return changes;
}

Attack attack::shrink(Attack attack, llvm::function_ref<bool(const Attack &)> stays, size_t tries) {
  auto attempt = [&](llvm::function_ref<bool(Attack &)> change) {
    if (tries == 0) {
      return false;
    }
    Attack smaller = attack.copy();
    if (!change(smaller)) {
      return false;
    }
    for (AttackStep &step : smaller.steps) {
      sweep(step);
      if (failed(verify(step.module.get()))) {
        return false;
      }
    }
    --tries;
    if (!stays(smaller)) {
      return false;
    }
    attack = std::move(smaller);
    return true;
  };
  bool isSmaller = true;
  while (isSmaller && tries > 0) {
    isSmaller = false;
    for (size_t step = attack.steps.size(); step-- > 0 && attack.steps.size() > 1;) {
      isSmaller |= attempt([&](Attack &smaller) {
        smaller.steps.erase(smaller.steps.begin() + static_cast<long>(step));
        return true;
      });
    }
    for (size_t step = 0; step < attack.steps.size(); ++step) {
      for (auto change : plainer()) {
        isSmaller |= attempt([&](Attack &smaller) { return change(smaller.steps[step]); });
      }
      auto function = [&] { return attack.steps[step].function(); };
      for (size_t result = function().getNumResults(); result-- > 0;) {
        isSmaller |= attempt([&](Attack &smaller) { return dropResult(smaller.steps[step], result); });
      }
      for (size_t op = function().getBody().front().getOperations().size(); op-- > 0;) {
        for (size_t way = 0; way < 3; ++way) {
          if (attempt([&](Attack &smaller) { return replaceOp(smaller.steps[step], op, way); })) {
            isSmaller = true;
            break;
          }
        }
      }
      for (size_t argument = function().getNumArguments(); argument-- > 0;) {
        isSmaller |= attempt([&](Attack &smaller) { return dropArgument(smaller.steps[step], argument); });
      }
    }
  }
  return attack;
}
