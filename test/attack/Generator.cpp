// SPDX-License-Identifier: Apache-2.0
// Sessions that are made up (see Generator.h).
#include "test/attack/Generator.h"

#include "dialect/Base.h"
#include "dialect/ElementTypes.h"
#include "test/attack/Tables.h"
#include "test/attack/Values.h"

#include "mlir/IR/Diagnostics.h"

#include <cstring>

using namespace mlir;
using namespace sojourn;
using namespace sojourn::attack;

namespace {

/// What a session holds at the owner, if its steps are taken.
struct Held {
  uint64_t id;
  RankedTensorType type;
  bool isPrivate;
};

class Session {
public:
  Session(uint64_t seed, MLIRContext &context) : dice(seed), context(context) { attack.seed = seed; }

  Attack make() {
    if (dice.chance(0.12)) {
      addStep(Goal::Deposit);
    }
    addStep(Goal::Rows);
    if (dice.chance(0.25)) {
      addStep(Goal::Rows);
    }
    // What stays is tried one by one: a refusal is one of the whole step.
    std::vector<Held> stays = held;
    for (const Held &each : stays) {
      if (each.isPrivate && attack.steps.size() < 6) {
        leaving = each;
        addStep(Goal::Handles);
        leaving.reset();
      }
    }
    return std::move(attack);
  }

private:
  enum class Goal { Deposit, Rows, Handles };

  struct Argument {
    Type type;
    const char *kind;
  };

  void addStep(Goal goal);
  std::vector<Argument> arguments(Goal goal, owner::test::StepRequest &terms);
  void upload(RankedTensorType type, owner::test::StepRequest &terms);
  void fill(Goal goal, Values &values);
  void finish(Goal goal, Values &values, AttackStep &step, ArrayRef<Held> states);
  void setSpending(owner::test::StepRequest &terms, size_t published);

  Dice dice;
  MLIRContext &context;
  Attack attack;
  std::vector<Held> held;
  std::optional<Held> leaving;
  std::vector<Held> bound; ///< states of the step, in order
  uint64_t nextHandle = 1;
};

TableType tableType(MLIRContext &context, const TableShape &shape) {
  SmallVector<StringAttr> names;
  SmallVector<Type> types;
  Builder builder(&context);
  for (const ColumnShape &column : shape.columns) {
    names.push_back(builder.getStringAttr(column.name));
    Type element = sojourn::typeOf(&context, column.element);
    types.push_back(column.dims.empty() ? element : Type(RankedTensorType::get(column.dims, element)));
  }
  return TableType::get(&context, shape.rows, names, types);
}

} // namespace

void Session::upload(RankedTensorType type, owner::test::StepRequest &terms) {
  owner::test::Upload made;
  made.dims.assign(type.getShape().begin(), type.getShape().end());
  auto count = static_cast<size_t>(type.getNumElements());
  if (type.getElementType().isInteger(64)) {
    std::vector<int64_t> data;
    for (size_t k = 0; k < count; ++k) {
      data.push_back(static_cast<int64_t>(k));
    }
    for (size_t k = count; k > 1; --k) { // an order of rows, and now and then none
      std::swap(data[k - 1], data[dice.below(k)]);
    }
    if (dice.chance(0.3) && count > 0) {
      data[dice.below(count)] = dice.between(-2, 30);
    }
    made.element = static_cast<uint8_t>(runtime::Element::i64);
    made.data = owner::test::bytes(data);
  } else {
    std::vector<double> data;
    for (size_t k = 0; k < count; ++k) {
      data.push_back(dice.of({0.0, 1.0, -1.0, 0.5, 2.0}));
    }
    if (dice.chance(0.2) && count > 0) {
      data[dice.below(count)] = dice.of({1e300, -1e300, 1e-300, 1e30});
    }
    bool isNarrow = type.getElementType().isF32();
    made.element = static_cast<uint8_t>(isNarrow ? runtime::Element::f32 : runtime::Element::f64);
    made.data = isNarrow ? owner::test::bytes(std::vector<float>(data.begin(), data.end())) : owner::test::bytes(data);
  }
  terms.uploads.push_back(std::move(made));
}

std::vector<Session::Argument> Session::arguments(Goal goal, owner::test::StepRequest &terms) {
  std::vector<Argument> list;
  bound.clear();
  auto bind = [&](const Held &each) {
    bound.push_back(each);
    terms.states.push_back(each.id);
    list.push_back({each.type, "state"});
  };
  if (leaving) {
    bind(*leaving);
  }
  for (const Held &each : held) {
    if ((!leaving || each.id != leaving->id) && goal != Goal::Deposit && dice.chance(goal == Goal::Rows ? 0.5 : 0.1)) {
      bind(each);
    }
  }
  Builder builder(&context);
  size_t uploads = goal == Goal::Deposit ? 1 + dice.below(2) : goal == Goal::Rows ? dice.below(3) : dice.chance(0.15);
  for (size_t k = 0; k < uploads; ++k) {
    Type element = dice.of<Type>({builder.getI64Type(), builder.getF64Type(), builder.getF32Type()});
    int64_t size = dice.of({24, 16, 24, 8, 3});
    Sizes shape = {size};
    if (dice.chance(0.15)) {
      shape.clear();
    } else if (!element.isInteger(64) && dice.chance(0.3)) {
      shape = {dice.of({2, 6, 64}), dice.of({1, 2, 3})};
    }
    auto type = RankedTensorType::get(shape, element);
    upload(type, terms);
    list.push_back({type, "upload"});
  }
  if (goal == Goal::Rows && dice.chance(0.3)) {
    bool isWhole = dice.chance(0.5);
    double real = dice.of({0.5, 1.0, -3.0, 1e3});
    uint64_t word = static_cast<uint64_t>(dice.between(-4, 24));
    if (!isWhole) {
      std::memcpy(&word, &real, sizeof word);
    }
    terms.slots.push_back(word);
    list.push_back(
        {RankedTensorType::get({}, isWhole ? Type(builder.getI64Type()) : Type(builder.getF64Type())), "slot"});
  }
  if (goal == Goal::Rows) {
    terms.seeds.push_back(dice.below(1000));
    list.push_back({RankedTensorType::get({}, builder.getI64Type()), "seed"});
    bool takesBoth = dice.chance(0.3);
    size_t first = dice.chance(0.75) ? 0 : 1;
    for (size_t table : {size_t{0}, size_t{1}, size_t{2}}) {
      bool isTaken = table == 2 ? dice.chance(0.3) : table == first || takesBoth;
      if (isTaken) {
        const TableShape &shape = tableShapes()[table];
        terms.tables.push_back(shape.name.c_str());
        list.push_back({tableType(context, shape), "table"});
      }
    }
  }
  return list;
}

void Session::fill(Goal goal, Values &values) {
  if (goal != Goal::Rows) {
    for (size_t k = goal == Goal::Handles && dice.chance(0.4) ? 1 + dice.below(3) : 0; k > 0; --k) {
      dice.of<Move>({elementwiseMove, layoutMove, reduceMove, clampMove})(values);
    }
    return;
  }
  for (size_t k = dice.below(3); k > 0; --k) {
    drawMove(values);
    if (dice.chance(0.3)) {
      listMove(values);
    }
  }
  for (size_t k = 1 + dice.below(2); k > 0; --k) {
    readMove(values);
  }
  static constexpr Move moves[] = {elementwiseMove, elementwiseMove, elementwiseMove, elementwiseMove, elementwiseMove,
                                   layoutMove,      layoutMove,      reduceMove,      reduceMove,      contractionMove,
                                   indexMove,       clampMove,       clampMove,       listMove,        drawMove,
                                   readMove,        sourceMove,      matrixMove,      scaleMove,       scaleMove};
  size_t count = dice.below(dice.chance(0.6) ? 5 : 14);
  for (size_t k = 0; k < count; ++k) {
    dice.of(ArrayRef(moves))(values);
  }
  values.depth = dice.chance(0.7) ? values.depth : 0; // for what leaves
}

void Session::setSpending(owner::test::StepRequest &terms, size_t published) {
  wire::Spending &spending = terms.spending;
  if (dice.chance(0.7)) {
    for (size_t k = 0; k < published; ++k) {
      wire::ReleaseTerms release;
      release.bound = dice.chance(0.5) ? 0 : dice.of({1.0, 10.0, 0.01, 1000.0});
      release.epsilon = dice.of({0.5, 0.1, 0.01, 1.0, 8.0});
      release.delta = dice.chance(0.5) ? 0 : 1e-6;
      release.continues = k > 0 && dice.chance(0.2);
      spending.releases.push_back(release);
    }
  }
  if (spending.releases.empty() || dice.chance(0.3)) {
    spending.run = 1;
    spending.steps = dice.of<uint64_t>({4, 8, 100});
  }
  spending.noiseMultiplier = dice.chance(0.6) ? 0 : dice.of({1.0, 0.5, 4.0, 0x1p-8});
  spending.clip = dice.chance(0.6) ? 0 : dice.of({1.0, 0.1, 100.0});
  spending.metricShare = dice.chance(0.6) ? -1 : dice.of({0.5, 0.95, 0.1});
  spending.perLayer = dice.chance(0.15);
  spending.lossIsSum = dice.chance(0.3);
}

void Session::finish(Goal goal, Values &values, AttackStep &step, ArrayRef<Held> states) {
  struct Result {
    Value value;
    const char *kind;
    std::optional<int64_t> target;
  };
  std::vector<Result> results;
  auto isPrivate = [&](Value value) { return values.guess(value).isPrivate || values.guess(value).isDrawn; };
  auto publish = [&](Value value) {
    if (value) {
      results.push_back({value, "publish", {}});
    }
  };
  auto keep = [&](Value value) {
    if (value && held.size() < 6) {
      results.push_back({value, "keep", {}});
      held.push_back({nextHandle, typeOf(value), isPrivate(value)});
      step.terms.results.push_back(nextHandle++);
    }
  };
  std::vector<Held> before = held;
  for (auto [number, state] : llvm::enumerate(states)) {
    if (goal == Goal::Rows && dice.chance(0.5)) {
      Value next =
          values.pick([&](Value value) { return value.getType() == state.type && !isa<BlockArgument>(value); });
      if (next) {
        results.push_back({next, "commit", static_cast<int64_t>(number)});
      }
    }
  }
  if (goal == Goal::Deposit) {
    for (Value value : std::vector<Value>(values.all())) {
      keep(value);
    }
  } else if (goal == Goal::Handles) {
    Value changed = values.all().back();
    publish(dice.chance(0.6) || !changed ? values.all().front() : changed);
    if (dice.chance(0.1)) {
      keep(values.pick());
    }
  } else {
    size_t sums = dice.chance(0.85) ? 1 + dice.below(2) : 0;
    for (size_t k = 0; k < sums; ++k) {
      Value sum = sumMove(values);
      for (size_t after = dice.chance(0.25) ? 1 + dice.below(2) : 0; after > 0 && sum; --after) {
        Value next = values.op(dice.of({"neg", "abs", "mul", "add", "div"}), {sum, values.partner(sum)});
        sum = next ? next : sum;
      }
      dice.chance(0.9) ? publish(sum) : keep(sum);
    }
    if (dice.chance(0.2)) {
      publish(values.pick());
    }
    if (dice.chance(0.3)) {
      keep(values.pick());
    }
    if (dice.chance(0.35)) {
      keep(values.pick(isPrivate));
    }
  }
  if (results.empty()) {
    publish(values.pick());
  }
  SmallVector<Value> returned;
  SmallVector<Type> types;
  SmallVector<Attribute> attributes;
  size_t published = 0;
  Builder builder(&context);
  for (const Result &result : results) {
    returned.push_back(result.value);
    types.push_back(result.value.getType());
    SmallVector<NamedAttribute> named = {builder.getNamedAttr(kResultAttr, builder.getStringAttr(result.kind))};
    if (result.target) {
      named.push_back(builder.getNamedAttr(kTargetAttr, builder.getI64IntegerAttr(*result.target)));
    }
    if (result.kind == std::string("publish")) {
      ++published;
    } else if (dice.chance(0.3)) {
      named.push_back(builder.getNamedAttr(kTrainedAttr, builder.getUnitAttr()));
    }
    attributes.push_back(builder.getDictionaryAttr(named));
  }
  func::FuncOp function = step.function();
  func::ReturnOp::create(values.builder, values.builder.getUnknownLoc(), returned);
  function.setFunctionType(builder.getFunctionType(function.getArgumentTypes(), types));
  function.setAllResultAttrs(attributes);
  if (goal == Goal::Rows) {
    setSpending(step.terms, published);
  }
}

void Session::addStep(Goal goal) {
  AttackStep step;
  OpBuilder builder(&context);
  Location where = builder.getUnknownLoc();
  step.module = ModuleOp::create(where);
  step.module.get()->setAttr(kPhaseAttr, builder.getStringAttr("core"));
  step.module.get()->setAttr(kPromotionAttr, builder.getStringAttr("torch"));
  builder.setInsertionPointToEnd(step.module->getBody());
  std::vector<Argument> list = arguments(goal, step.terms);
  SmallVector<Type> types;
  SmallVector<Attribute> kinds;
  for (const Argument &argument : list) {
    types.push_back(argument.type);
    kinds.push_back(builder.getDictionaryAttr(builder.getNamedAttr(kKindAttr, builder.getStringAttr(argument.kind))));
  }
  auto function = func::FuncOp::create(builder, where, kStepName, builder.getFunctionType(types, {}));
  function.setAllArgAttrs(kinds);
  Block *block = function.addEntryBlock();
  builder.setInsertionPointToEnd(block);
  Values values(dice, builder);
  for (auto [number, argument] : llvm::enumerate(block->getArguments())) {
    if (isa<RankedTensorType>(argument.getType())) {
      Guess guess;
      guess.isPrivate = number < bound.size() && bound[number].isPrivate;
      values.add(argument, guess);
    }
  }
  if (!step.terms.tables.empty() && step.terms.tables.back().name == "open") {
    values.openTable = block->getArguments().back();
  }
  if (values.all().empty()) {
    values.add(values.constant(builder.getF64Type()));
  }
  values.depth = dice.chance(0.5) ? 0.8 : 0;
  std::vector<Held> states = bound;
  fill(goal, values);
  finish(goal, values, step, states);
  attack.steps.push_back(std::move(step));
}

Attack attack::generate(uint64_t seed, MLIRContext &context) {
  ScopedDiagnosticHandler silent(&context, [](Diagnostic &) { return success(); });
  return Session(seed, context).make();
}
