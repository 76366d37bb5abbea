// SPDX-License-Identifier: Apache-2.0
// Sessions that are made up (see Generator.h).
#include "test/attack/Generator.h"

#include "dialect/Base.h"
#include "dialect/CoreForm.h"
#include "dialect/ElementTypes.h"
#include "passes/privacy/Inputs.h"
#include "test/attack/Clients.h"
#include "test/attack/Tables.h"
#include "test/attack/Terms.h"
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
  size_t client; ///< in whose session
};

class Session {
public:
  Session(uint64_t seed, MLIRContext &context) : dice(seed), context(context) { attack.seed = seed; }

  Attack make() {
    hasClients = dice.chance(0.2);
    if (dice.chance(0.12)) {
      addStep(Goal::Deposit);
    }
    addStep(Goal::Rows);
    if (dice.chance(0.25)) {
      addStep(Goal::Rows);
    }
    if (dice.chance(0.1)) {
      sendAgain();
    }
    // What stays is tried one by one: a refusal is one of the whole step.
    std::vector<Held> stays = held;
    for (const Held &each : stays) {
      if (each.isPrivate && attack.steps.size() < 7) {
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
  /// Further steps of the message.
  void repeat(AttackStep &step);
  /// A step that was sent before, by its hash: maybe another client's.
  void sendAgain();
  SmallVector<RankedTensorType> argumentsOf(func::FuncOp function, StringRef kind) const;
  void hold(RankedTensorType type, bool isPrivate, owner::test::StepRequest &terms);
  /// What the owner will know of a step's arguments.
  RowInputs known(func::FuncOp function, const owner::test::StepRequest &terms) const;
  void fill(Goal goal, Values &values);
  void finish(Goal goal, Values &values, AttackStep &step, ArrayRef<Held> states);

  Dice dice;
  MLIRContext &context;
  Attack attack;
  std::vector<Held> held;
  std::optional<Held> leaving;
  std::vector<Held> bound; ///< states of the step, in order
  uint64_t nextHandle = 1, nextUpload = 1;
  bool hasClients = false;
  size_t client = 0; ///< of the step
};

/// Its number of rows, where it is said, is right: another one is refused before anything else.
TableType tableType(MLIRContext &context, const TableShape &shape, bool saysRows) {
  SmallVector<StringAttr> names;
  SmallVector<Type> types;
  Builder builder(&context);
  for (const ColumnShape &column : shape.columns) {
    names.push_back(builder.getStringAttr(column.name));
    Type element = sojourn::typeOf(&context, column.element);
    types.push_back(column.dims.empty() ? element : Type(RankedTensorType::get(column.dims, element)));
  }
  return TableType::get(&context, saysRows ? shape.rows : ShapedType::kDynamic, names, types);
}

} // namespace

void Session::upload(RankedTensorType type, owner::test::StepRequest &terms) {
  terms.uploads.push_back(attack::upload(dice, type));
  if (dice.chance(0.15)) {
    terms.uploads.back().sentAhead = nextUpload++;
  }
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
    bool isHere = each.client == client || dice.chance(0.05); // somebody else's has to be no handle at all
    if (isHere && (!leaving || each.id != leaving->id) && goal != Goal::Deposit &&
        dice.chance(goal == Goal::Rows ? 0.5 : 0.1)) {
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
    for (size_t table : {size_t{0}, size_t{1}, size_t{2}, size_t{3}}) {
      bool isTaken = table >= 2 ? dice.chance(0.3) : table == first || takesBoth;
      if (isTaken) {
        const TableShape &shape = tableShapes()[table];
        terms.tables.push_back(shape.name.c_str());
        list.push_back({tableType(context, shape, dice.chance(0.5)), "table"});
      }
    }
  }
  return list;
}

RowInputs Session::known(func::FuncOp function, const owner::test::StepRequest &terms) const {
  std::vector<TableFacts> tables(terms.tables.size());
  for (auto [facts, table] : llvm::zip(tables, terms.tables)) {
    const TableShape &shape = *findShape(table.name);
    facts.isPrivate = shape.isPrivate;
    facts.rows = shape.rows;
    for (const ColumnShape &column : shape.columns) {
      facts.columns[column.name] = {column.lower, column.upper};
    }
  }
  size_t first = function.getNumArguments() - tables.size();
  return inputsOf(
      function, [&](unsigned index) { return index >= bound.size() || !bound[index].isPrivate; },
      [&](unsigned index) { return index < first ? nullptr : &tables[index - first]; });
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
  // Few families of moves in many programs, others in each: what needs several of one family is seen, too.
  struct Family {
    Move move;
    size_t weight;
  };
  static constexpr Family families[] = {{elementwiseMove, 5}, {layoutMove, 2}, {reduceMove, 5}, {contractionMove, 2},
                                        {indexMove, 1},       {clampMove, 5},  {listMove, 1},   {drawMove, 1},
                                        {readMove, 1},        {sourceMove, 1}, {matrixMove, 1}, {scaleMove, 4}};
  std::vector<Move> moves;
  for (const Family &family : families) {
    moves.insert(moves.end(), family.weight * dice.of({size_t{0}, size_t{1}, size_t{4}}), family.move);
  }
  size_t count = moves.empty() ? 0 : dice.below(dice.of({6, 24, 48, 64}));
  for (size_t k = 0; k < count; ++k) {
    dice.of(ArrayRef(moves))(values);
  }
  values.depth = dice.chance(0.7) ? values.depth : 0; // for what leaves
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
      hold(typeOf(value), isPrivate(value), step.terms);
    }
  };
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
    // One that is refused has the whole step refused.
    size_t sums = dice.chance(0.85) ? dice.of({1, 1, 1, 2, 4}) : 0;
    for (size_t k = 0; k < sums; ++k) {
      Value sum = sumMove(values);
      for (size_t after = dice.chance(0.25) ? 1 + dice.below(2) : 0; after > 0 && sum; --after) {
        Value next = values.op(dice.of({"neg", "abs", "mul", "add", "div"}), {sum, values.partner(sum)});
        sum = next ? next : sum;
      }
      dice.chance(0.9) ? publish(sum) : keep(sum);
    }
    // Rows reach it by data flow, and the owner's analysis takes it for public.
    Value open = dice.chance(0.8)
                     ? values.pick([&](Value value) { return isPrivate(value) && values.fact(value).isPublic(); })
                     : Value();
    publish(open);
    if (dice.chance(0.05)) {
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
    step.terms.spending = spending(dice, published);
  }
}

SmallVector<RankedTensorType> Session::argumentsOf(func::FuncOp function, StringRef kind) const {
  SmallVector<RankedTensorType> types;
  for (unsigned number = 0; number < function.getNumArguments(); ++number) {
    auto named = function.getArgAttrOfType<StringAttr>(number, kKindAttr);
    if (named && named.getValue() == kind) {
      types.push_back(cast<RankedTensorType>(function.getArgumentTypes()[number]));
    }
  }
  return types;
}

void Session::hold(RankedTensorType type, bool isPrivate, owner::test::StepRequest &terms) {
  held.push_back({nextHandle, type, isPrivate, client});
  terms.results.push_back(nextHandle++);
}

void Session::repeat(AttackStep &step) {
  std::vector<Held> kept;
  for (uint64_t id : step.terms.results) {
    kept.push_back(*llvm::find_if(held, [&](const Held &each) { return each.id == id; }));
  }
  SmallVector<RankedTensorType> stateTypes = argumentsOf(step.function(), "state");
  std::vector<uint64_t> states = step.terms.states;
  for (size_t k = 1 + dice.below(3); k > 0; --k) {
    owner::test::StepRequest next;
    for (uint64_t seed : step.terms.seeds) {
      next.seeds.push_back(dice.chance(0.4) ? seed : dice.below(1000));
    }
    if (!kept.empty() && dice.chance(0.6)) { // what was kept goes on
      const Held &each = dice.of(ArrayRef(kept));
      for (auto [state, type] : llvm::zip(states, stateTypes)) {
        state = type == each.type ? each.id : state;
      }
      next.states = states;
    }
    if (!step.terms.slots.empty() && dice.chance(0.5)) {
      for (uint64_t word : step.terms.slots) {
        next.slots.push_back(dice.chance(0.5) ? 0 : word + 1);
      }
    }
    if (!step.terms.uploads.empty() && dice.chance(0.3)) {
      for (RankedTensorType type : argumentsOf(step.function(), "upload")) {
        upload(type, next);
      }
    }
    if (!kept.empty() && dice.chance(0.2)) {
      uint64_t id = dice.of(ArrayRef(kept)).id;
      next.releases.push_back(id);
      llvm::erase_if(held, [&](const Held &each) { return each.id == id; });
    }
    for (Held &each : kept) {
      hold(each.type, each.isPrivate, next);
      each = held.back();
    }
    step.terms.repetitions.push_back(std::move(next));
  }
}

void Session::sendAgain() {
  AttackStep step = attack.steps[dice.below(attack.steps.size())].copy();
  client = hasClients ? dice.below(kClients) : client;
  step.client = client;
  step.isNamed = true;
  step.terms.repetitions.clear();
  std::vector<uint64_t> results;
  std::swap(results, step.terms.results);
  for (uint64_t id : results) {
    auto same = llvm::find_if(held, [&](const Held &each) { return each.id == id; });
    if (same == held.end()) {
      return;
    }
    Held copy = *same;
    hold(copy.type, copy.isPrivate, step.terms);
  }
  for (owner::test::Upload &upload : step.terms.uploads) {
    upload.sentAhead = upload.sentAhead ? nextUpload++ : 0;
  }
  for (uint64_t &seed : step.terms.seeds) {
    seed = dice.chance(0.5) ? seed : dice.below(1000);
  }
  attack.steps.push_back(std::move(step));
}

void Session::addStep(Goal goal) {
  AttackStep step;
  if (hasClients) {
    client = leaving && dice.chance(0.9) ? leaving->client : dice.below(kClients);
  }
  step.client = client;
  step.isNamed = dice.chance(0.1);
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
  analyseRows(function, known(function, step.terms), values.facts);
  for (auto [number, argument] : llvm::enumerate(block->getArguments())) {
    if (isa<RankedTensorType>(argument.getType())) {
      Guess guess;
      guess.isPrivate = number < bound.size() && bound[number].isPrivate;
      values.add(argument, guess);
    }
  }
  auto tables = block->getArguments().take_back(step.terms.tables.size());
  for (auto [argument, table] : llvm::zip(tables, step.terms.tables)) {
    if (!findShape(table.name)->isPrivate) {
      values.openTables.push_back(argument);
    }
  }
  if (values.all().empty()) {
    values.add(values.constant(builder.getF64Type()));
  }
  values.depth = dice.of({0.0, 0.5, 0.9});
  values.extremes = dice.of({0.0, 0.3, 0.9});
  values.care = dice.chance(0.85) ? 0.9 : 0;
  values.focus = dice.of({0.0, 0.5, 0.8});
  values.novelty = dice.of({0.0, 0.4, 0.8});
  std::vector<Held> states = bound;
  fill(goal, values);
  finish(goal, values, step, states);
  if (goal == Goal::Rows && dice.chance(0.12)) {
    repeat(step);
  }
  attack.steps.push_back(std::move(step));
}

Attack attack::generate(uint64_t seed, MLIRContext &context) {
  ScopedDiagnosticHandler silent(&context, [](Diagnostic &) { return success(); });
  return Session(seed, context).make();
}
