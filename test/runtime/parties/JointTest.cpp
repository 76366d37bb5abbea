// SPDX-License-Identifier: Apache-2.0
// The parts of a joint step, run side by side and joined by queues, give what one owner gives that plays all roles.
#include "passes/parties/Part.h"
#include "passes/parties/Placement.h"
#include "runtime/parties/JointCode.h"
#include "test/runtime/Programs.h"
#include "test/runtime/parties/RandomStep.h"

#include "mlir/IR/Verifier.h"

using namespace sojourn;
using namespace sojourn::runtime;
using namespace sojourn::test;

namespace {

HostTensor tensorOf(TensorType type) { return {type, BufferPool::global().allocate(type.bytes())}; }

/// The elements of a role's rows, by the definition of `#sojourn.parts` alone.
HostTensor rowsOf(const HostTensor &whole, const parties::Where &where, unsigned role, const TensorType &type) {
  const size_t width = byteWidth(whole.type.element);
  HostTensor own = tensorOf(type);
  std::vector<unsigned> roles;
  for (const parties::Segment &segment : *where.segments) {
    roles.insert(roles.end(), static_cast<size_t>(segment.rows), segment.role);
  }
  auto *to = static_cast<char *>(own.buffer->data());
  size_t taken = 0;
  for (int64_t p = 0; p < whole.type.numel(); ++p) {
    if (roles[static_cast<size_t>(p / where.stride) % roles.size()] == role) {
      if (++taken * width <= type.bytes()) {
        std::memcpy(to + (taken - 1) * width,
                    static_cast<const char *>(whole.buffer->data()) + p * static_cast<int64_t>(width), width);
      }
    }
  }
  EXPECT_EQ(taken * width, type.bytes());
  return own;
}

std::string textOf(mlir::ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream);
  return text;
}

/// The sums of an exchange, in shares of each role where there are several.
std::shared_ptr<Buffer> sumsOf(const Exchange &exchange, llvm::ArrayRef<std::shared_ptr<Buffer>> frames,
                               unsigned shares) {
  const FramePlaces whole = placesOfSums(exchange);
  auto sums = BufferPool::global().allocate(whole.bytes);
  auto bytesOf = [](Buffer &buffer) { return static_cast<std::byte *>(buffer.data()); };
  for (unsigned index = 0; index < shares; ++index) {
    const Share share{index, shares};
    std::vector<std::shared_ptr<Buffer>> cut;
    std::vector<const std::byte *> terms;
    for (unsigned role = 0; role < frames.size(); ++role) {
      const FramePlaces places = placesOfTerms(exchange, role, share), all = placesOfTerms(exchange, role);
      EXPECT_EQ(frames[role]->size(), all.bytes);
      cut.push_back(BufferPool::global().allocate(places.bytes));
      cutShare(exchange, share, all, bytesOf(*frames[role]), places, bytesOf(*cut.back()));
      terms.push_back(bytesOf(*cut.back()));
    }
    const FramePlaces places = placesOfSums(exchange, share);
    auto part = BufferPool::global().allocate(places.bytes);
    addTerms(exchange, share, terms, bytesOf(*part));
    pasteShare(exchange, share, places, bytesOf(*part), whole, bytesOf(*sums));
  }
  return sums;
}

/// Runs of all roles, with sums handed to each.
class Roles {
public:
  Roles(mlir::ModuleOp joint, const parties::Placement &placement, parties::Sums sums = parties::Sums::Clear,
        unsigned shares = 1)
      : joint_(joint), placement_(placement), shares_(shares) {
    for (unsigned role = 0; role < placement.parties(); ++role) {
      parts_.push_back(std::move(*partOf(joint, placement, role, sums)));
      auto code = prepareJoint(cpuEngine(), *parts_.back().module);
      if (!code) {
        ADD_FAILURE() << llvm::toString(code.takeError()) << textOf(*parts_.back().module);
        return;
      }
      codes_.push_back(std::move(*code));
    }
    exchanges_ = exchangesOf(*parts_[0].module);
  }

  /// Results of each role, or nothing where one failed.
  std::vector<std::vector<HostTensor>> run(const std::vector<Binding> &whole) {
    if (codes_.size() != parts_.size()) {
      return {};
    }
    std::vector<std::vector<HostTensor>> results(parts_.size());
    std::vector<std::unique_ptr<Suspended>> waiting(parts_.size());
    for (unsigned role = 0; role < parts_.size(); ++role) {
      std::vector<Binding> own;
      auto step = joint_.lookupSymbol<mlir::func::FuncOp>(kStepName);
      for (size_t i = 0; i < parts_[role].arguments.size(); ++i) {
        const unsigned index = parts_[role].arguments[i];
        const parties::Where &where = placement_.whereOf(step.getArgument(index));
        own.push_back(whole[index]);
        if (where.isParts()) {
          own.back().tensor = rowsOf(whole[index].tensor, where, role, codes_[role]->args()[i].type);
        }
      }
      if (!note(role, codes_[role]->start(own, {.threads = 1}), waiting, results)) {
        return {};
      }
    }
    size_t exchanges = 0;
    while (waiting[0]) {
      std::vector<std::shared_ptr<Buffer>> frames;
      for (std::unique_ptr<Suspended> &run : waiting) {
        frames.push_back(run ? run->frames.at(0) : copyOf("", 0));
      }
      auto sums = sumsOf(exchanges_.at(exchanges), frames, shares_);
      note(exchanges_[exchanges++], *sums);
      for (unsigned role = 0; role < parts_.size(); ++role) {
        std::unique_ptr<Suspended> run = std::move(waiting[role]);
        if (!run) {
          ADD_FAILURE() << "role " << role << " waits for fewer exchanges than role 0";
          return {};
        }
        // A worker's front uses the memory of sums again once the run waits, or has ended.
        auto lent = copyOf(sums->data(), sums->size());
        const bool isLent = role % 2 == 1;
        if (!note(role, run->resume({isLent ? Buffer::borrow(lent->data(), lent->size(), lent) : sums}, {}), waiting,
                  results)) {
          return {};
        }
        if (isLent && waiting[role]) {
          std::memset(lent->data(), 0x5a, lent->size());
        }
      }
    }
    EXPECT_EQ(exchanges, placement_.exchanges());
    return results;
  }

  const parties::RolePart &part(unsigned role) const { return parts_[role]; }
  size_t maskedSums() const { return maskedSums_; }
  /// Whether elements may have been outside the grid.
  bool mayHaveLost() const { return mayHaveLost_; }
  const Code &code(unsigned role) const { return *codes_[role]; }

private:
  void note(const Exchange &exchange, const Buffer &sums) {
    const FramePlaces places = placesOfSums(exchange);
    for (size_t at = 0; at < exchange.size(); ++at) {
      maskedSums_ += exchange[at].isMasked;
      if (exchange[at].isMasked && exchange[at].elements == 1) {
        int64_t count = 0;
        std::memcpy(&count, static_cast<const std::byte *>(sums.data()) + places.offsets[at], sizeof count);
        mayHaveLost_ |= count != 0 && at + 1 < exchange.size() && exchange[at + 1].isMasked;
      }
    }
  }

  static bool note(unsigned role, llvm::Expected<RunOutcome> outcome, std::vector<std::unique_ptr<Suspended>> &waiting,
                   std::vector<std::vector<HostTensor>> &results) {
    if (!outcome) {
      ADD_FAILURE() << "role " << role << ": " << llvm::toString(outcome.takeError());
      return false;
    }
    waiting[role] = std::move(outcome->waits);
    results[role] = std::move(outcome->values);
    return true;
  }

  mlir::ModuleOp joint_;
  const parties::Placement &placement_;
  std::vector<parties::RolePart> parts_;
  std::vector<std::unique_ptr<Code>> codes_;
  std::vector<Exchange> exchanges_;
  unsigned shares_;
  size_t maskedSums_ = 0;
  bool mayHaveLost_ = false;
};

/// What a campaign has seen.
struct Covered {
  size_t exchanges = 0, meetings = 0, inParts = 0, atRole = 0, told = 0, maskedSums = 0, lost = 0;
  std::map<std::string, size_t> rowOps; ///< ops with an operand in parts

  void add(mlir::func::FuncOp step, const parties::Placement &placement) {
    exchanges += placement.exchanges();
    told += placement.told().size();
    for (mlir::Operation &op : step.getBody().front().without_terminator()) {
      meetings += placement.meetingOf(&op) != 0;
      inParts += placement.whereOf(op.getResult(0)).isParts();
      atRole += placement.whereOf(op.getResult(0)).isAt();
      if (llvm::any_of(op.getOperands(), [&](mlir::Value x) { return placement.whereOf(x).isParts(); })) {
        ++rowOps[op.getName().stripDialect().str()];
      }
    }
  }
};

/// Compares all results of all roles with those of one owner that plays all; whether they agree.
void compare(mlir::ModuleOp joint, std::mt19937_64 &dice, Covered &covered) {
  ASSERT_TRUE(mlir::succeeded(verifyCoreForm(joint)));
  auto step = joint.lookupSymbol<mlir::func::FuncOp>(kStepName);
  auto placement = parties::Placement::of(step);
  ASSERT_TRUE(mlir::succeeded(placement));
  auto pooled = llvm::cantFail(cpuEngine().prepare(joint));
  std::vector<Binding> whole;
  for (const ArgSpec &spec : pooled->args()) {
    whole.push_back({tensorOf(spec.type), nullptr});
    for (int64_t i = 0; i < spec.type.numel(); ++i) {
      const int64_t number = std::uniform_int_distribution<int64_t>(-3, 4)(dice);
      void *data = whole.back().tensor.buffer->data();
      if (spec.type.element == Element::f64) {
        static_cast<double *>(data)[i] = static_cast<double>(number);
      } else {
        static_cast<int64_t *>(data)[i] = number;
      }
    }
  }
  const std::vector<HostTensor> expected = llvm::cantFail(pooled->run(whole, {.threads = 1}));
  for (parties::Sums sums : {parties::Sums::Clear, parties::Sums::Masked}) {
    const auto shares = static_cast<unsigned>(dice() % 2 ? 1 : (*placement)->parties());
    Roles roles(joint, **placement, sums, shares);
    const std::vector<std::vector<HostTensor>> found = roles.run(whole);
    ASSERT_EQ(found.size(), (*placement)->parties());
    covered.maskedSums += roles.maskedSums();
    if (roles.mayHaveLost()) {
      ++covered.lost;
      continue;
    }
    for (unsigned role = 0; role < found.size(); ++role) {
      for (size_t i = 0; i < found[role].size(); ++i) {
        const unsigned index = roles.part(role).results[i];
        const parties::Where where = (*placement)->whereOfResult(index);
        HostTensor wanted = expected[index];
        if (where.isParts()) {
          wanted = rowsOf(wanted, where, role, found[role][i].type);
        }
        ASSERT_EQ(found[role][i].type, wanted.type);
        // A sum of zeros may be -0.0 in one order and 0.0 in another.
        ASSERT_EQ(numbersOf(found[role][i]), numbersOf(wanted)) << "result #" << index << " at role " << role << "\n"
                                                                << textOf(*roles.part(role).module);
      }
    }
  }
  covered.add(step, **placement);
}

/// Features and labels by row.
struct Rows final : RowSource {
  std::vector<std::vector<double>> entries; ///< [row, column]
  int64_t rows() const override { return static_cast<int64_t>(entries.size()); }
  void readRows(llvm::ArrayRef<std::string> columns, llvm::ArrayRef<int64_t> indices, Element element,
                void *out) const override {
    ASSERT_EQ(element, Element::f64);
    auto *to = static_cast<double *>(out);
    for (int64_t index : indices) {
      for (const std::string &column : columns) {
        const bool isRow = index >= 0 && index < rows();
        *to++ = isRow ? entries[static_cast<size_t>(index)][static_cast<size_t>(column[0] - 'a')] : 0;
      }
    }
  }
};

/// One step of a regression on standardized features: means and variances of the joint batch, then the gradient.
constexpr const char *kRegression = R"(
module attributes {sojourn.parties = 3 : i64, sojourn.promotion = "torch"} {
func.func @step(%w: tensor<2xf64> {sojourn.kind = "state"}, %k: tensor<i64> {sojourn.kind = "slot"},
    %s0: !sojourn.table<?, "a" : f64, "b" : f64, "c" : f64> {sojourn.kind = "table", sojourn.party = 0 : i64},
    %s1: !sojourn.table<?, "a" : f64, "b" : f64, "c" : f64> {sojourn.kind = "table", sojourn.party = 1 : i64},
    %s2: !sojourn.table<?, "a" : f64, "b" : f64, "c" : f64> {sojourn.kind = "table", sojourn.party = 2 : i64})
    -> (tensor<2xf64> {sojourn.result = "commit", sojourn.target = 0 : i64}, tensor<f64> {sojourn.result = "publish"}) {
  %i0 = sojourn.iota dim = 0 : tensor<4xi64>
  %i1 = sojourn.iota dim = 0 : tensor<1xi64>
  %i2 = sojourn.iota dim = 0 : tensor<3xi64>
  %r0 = sojourn.sample_rows %i0, %k, %k of %s0 : tensor<4xi64>, tensor<i64>, tensor<i64>, !sojourn.table<?, "a" : f64, "b" : f64, "c" : f64> -> tensor<4xi64>
  %x0 = sojourn.read_rows %s0, %r0, columns = ["a", "b"] : !sojourn.table<?, "a" : f64, "b" : f64, "c" : f64>, tensor<4xi64> -> tensor<4x2xf64>
  %x1 = sojourn.read_rows %s1, %i1, columns = ["a", "b"] : !sojourn.table<?, "a" : f64, "b" : f64, "c" : f64>, tensor<1xi64> -> tensor<1x2xf64>
  %x2 = sojourn.read_rows %s2, %i2, columns = ["a", "b"] : !sojourn.table<?, "a" : f64, "b" : f64, "c" : f64>, tensor<3xi64> -> tensor<3x2xf64>
  %y0 = sojourn.read_rows %s0, %r0, columns = ["c"] : !sojourn.table<?, "a" : f64, "b" : f64, "c" : f64>, tensor<4xi64> -> tensor<4xf64>
  %y1 = sojourn.read_rows %s1, %i1, columns = ["c"] : !sojourn.table<?, "a" : f64, "b" : f64, "c" : f64>, tensor<1xi64> -> tensor<1xf64>
  %y2 = sojourn.read_rows %s2, %i2, columns = ["c"] : !sojourn.table<?, "a" : f64, "b" : f64, "c" : f64>, tensor<3xi64> -> tensor<3xf64>
  %x = sojourn.concat %x0, %x1, %x2 dim = 0 : tensor<4x2xf64>, tensor<1x2xf64>, tensor<3x2xf64>
  %y = sojourn.concat %y0, %y1, %y2 dim = 0 : tensor<4xf64>, tensor<1xf64>, tensor<3xf64>
  %n = sojourn.constant 8.0 : f64
  %total = sojourn.reduce_sum %x, dims = [0] : tensor<8x2xf64>
  %mean = sojourn.div %total, %n : tensor<2xf64>, tensor<f64>
  %means = sojourn.broadcast %mean, dims = [1] : tensor<2xf64> -> tensor<8x2xf64>
  %centred = sojourn.sub %x, %means : tensor<8x2xf64>, tensor<8x2xf64>
  %squares = sojourn.mul %centred, %centred : tensor<8x2xf64>, tensor<8x2xf64>
  %square = sojourn.reduce_sum %squares, dims = [0] : tensor<8x2xf64>
  %variance = sojourn.div %square, %n : tensor<2xf64>, tensor<f64>
  %deviation = sojourn.sqrt %variance : tensor<2xf64>
  %deviations = sojourn.broadcast %deviation, dims = [1] : tensor<2xf64> -> tensor<8x2xf64>
  %z = sojourn.div %centred, %deviations : tensor<8x2xf64>, tensor<8x2xf64>
  %p = sojourn.dot %z, %w, lhs_batch = [], rhs_batch = [], lhs_contract = [1], rhs_contract = [0] : tensor<8x2xf64>, tensor<2xf64> -> tensor<8xf64>
  %d = sojourn.sub %p, %y : tensor<8xf64>, tensor<8xf64>
  %e = sojourn.mul %d, %d : tensor<8xf64>, tensor<8xf64>
  %loss = sojourn.reduce_sum %e, dims = [0] : tensor<8xf64>
  %g = sojourn.dot %d, %z, lhs_batch = [], rhs_batch = [], lhs_contract = [0], rhs_contract = [0] : tensor<8xf64>, tensor<8x2xf64> -> tensor<2xf64>
  %rate = sojourn.constant 0.01 : f64
  %step = sojourn.mul %g, %rate : tensor<2xf64>, tensor<f64>
  %next = sojourn.sub %w, %step : tensor<2xf64>, tensor<2xf64>
  return %next, %loss : tensor<2xf64>, tensor<f64>
}
})";

/// Twenty steps over three tables, one of a single row: weights and losses as one owner of all rows has them.
TEST(Joint, TrainsOverTheTablesOfThree) {
  std::mt19937_64 dice = freshRandom();
  std::normal_distribution<double> normal;
  Context context;
  auto joint = context.parse(kRegression);
  ASSERT_TRUE(joint);
  auto placement = parties::Placement::of(joint->lookupSymbol<mlir::func::FuncOp>(kStepName));
  ASSERT_TRUE(mlir::succeeded(placement));
  EXPECT_EQ((*placement)->exchanges(), 3u);
  auto pooled = llvm::cantFail(cpuEngine().prepare(*joint));
  Roles roles(*joint, **placement);
  Rows tables[3];
  for (size_t rows : {size_t{4}, size_t{1}, size_t{5}}) {
    Rows &table = tables[rows == 4 ? 0 : rows == 1 ? 1 : 2];
    for (size_t i = 0; i < rows; ++i) {
      table.entries.push_back({normal(dice) * 3 + 50, normal(dice), normal(dice)});
    }
  }
  HostTensor one = tensorOf({Element::f64, {2}}), three = tensorOf({Element::f64, {2}});
  for (HostTensor *weights : {&one, &three}) {
    std::fill_n(static_cast<double *>(weights->buffer->data()), 2, 0.5);
  }
  for (int64_t step = 0; step < 20; ++step) {
    HostTensor number = tensorOf({Element::i64, {}});
    *static_cast<int64_t *>(number.buffer->data()) = step;
    auto bind = [&](const HostTensor &weights) {
      return std::vector<Binding>{
          {weights, nullptr}, {number, nullptr}, {{}, &tables[0]}, {{}, &tables[1]}, {{}, &tables[2]}};
    };
    std::vector<HostTensor> expected = llvm::cantFail(pooled->run(bind(one), {.threads = 1}));
    std::vector<std::vector<HostTensor>> found = roles.run(bind(three));
    ASSERT_EQ(found.size(), 3u);
    for (const std::vector<HostTensor> &own : found) {
      EXPECT_EQ(bytesOf(own), bytesOf(found[0])); // equal at all roles, to the bit
      for (size_t i = 0; i < 2; ++i) {
        for (size_t k = 0; k < numbersOf(expected[i]).size(); ++k) {
          EXPECT_NEAR(numbersOf(own[i])[k], numbersOf(expected[i])[k], 1e-12 * std::abs(numbersOf(expected[i])[k]));
        }
      }
    }
    one = expected[0];
    three = found[0][0];
  }
}

/// A run that waits copies what it has borrowed, and its frames hold no bytes but terms.
TEST(Joint, FramesOfAnotherSizeAreRefused) {
  Context context;
  auto joint = context.parse(R"(module attributes {sojourn.parties = 2 : i64, sojourn.promotion = "torch"} {
    func.func @step(%a: tensor<3xf32> {sojourn.kind = "upload", sojourn.party = 0 : i64},
        %b: tensor<3xf32> {sojourn.kind = "upload", sojourn.party = 1 : i64}, %c: tensor<f32> {sojourn.kind = "upload"})
        -> (tensor<3xf32> {sojourn.result = "publish"}) {
      %s = sojourn.sub %b, %a : tensor<3xf32>, tensor<3xf32>
      %m = sojourn.mul %s, %c : tensor<3xf32>, tensor<f32>
      return %m : tensor<3xf32>
    }
  })");
  ASSERT_TRUE(joint);
  auto placement = parties::Placement::of(joint->lookupSymbol<mlir::func::FuncOp>(kStepName));
  ASSERT_TRUE(mlir::succeeded(placement));
  std::vector<std::unique_ptr<Code>> codes;
  for (unsigned role = 0; role < 2; ++role) {
    codes.push_back(
        llvm::cantFail(prepareJoint(cpuEngine(), *partOf(*joint, **placement, role, parties::Sums::Clear)->module)));
  }
  auto start = [&](unsigned role, float first, float factor) {
    std::vector<float> own{first, first + 1, first + 2}, scale{factor};
    std::vector<Binding> bindings{{{{Element::f32, {3}}, Buffer::borrow(own.data(), 12)}, nullptr},
                                  {{{Element::f32, {}}, Buffer::borrow(scale.data(), 4)}, nullptr}};
    auto outcome = llvm::cantFail(codes[role]->start(bindings, {.threads = 1}));
    own.assign(3, 1e30f); // the message is gone
    scale.assign(1, 1e30f);
    return std::move(outcome.waits);
  };
  auto first = start(0, 1, 2), second = start(1, 10, 2);
  ASSERT_TRUE(first && second);
  ASSERT_EQ(first->frames.at(0)->size(), framedBytes(12));
  const std::string frame(static_cast<const char *>(first->frames[0]->data()) + 12, framedBytes(12) - 12);
  EXPECT_EQ(frame, std::string(frame.size(), char{0}));
  const Exchange exchange = exchangesOf(*partOf(*joint, **placement, 0, parties::Sums::Clear)->module).at(0);
  auto sums = sumsOf(exchange, {first->frames[0], second->frames[0]}, 1);
  auto done = llvm::cantFail(first->resume({sums}, {}));
  EXPECT_EQ(numbersOf(done.values.at(0)), (std::vector<double>{18, 18, 18}));
  for (size_t bytes : {size_t{0}, framedBytes(12) - 1, framedBytes(12) + 1}) {
    auto again = start(1, 10, 2);
    auto refused = again->resume({copyOf(std::string(256, 'x').data(), bytes)}, {});
    ASSERT_FALSE(static_cast<bool>(refused));
    EXPECT_NE(llvm::toString(refused.takeError())
                  .find("the sums of an exchange have " + std::to_string(bytes) + " bytes, expected 64"),
              std::string::npos);
  }
  auto twice = start(1, 10, 2);
  EXPECT_TRUE(static_cast<bool>(twice->resume({sums}, {})));
  auto again = twice->resume({sums}, {});
  ASSERT_FALSE(static_cast<bool>(again));
  EXPECT_NE(llvm::toString(again.takeError()).find("was resumed twice"), std::string::npos);
  auto many = start(1, 10, 2)->resume({sums, sums}, {});
  ASSERT_FALSE(static_cast<bool>(many));
  EXPECT_NE(llvm::toString(many.takeError()).find("an exchange got 2 frames, expected 1"), std::string::npos);
  auto whole = codes[0]->run({}, {});
  ASSERT_FALSE(static_cast<bool>(whole));
  EXPECT_NE(llvm::toString(whole.takeError()).find("waits for other owners"), std::string::npos);
}

/// Programs that were placed or parted wrongly: complex zeros of a role without rows, a padded dim of such a role,
/// terms without elements.
TEST(Joint, RolesWithoutRowsAndTermsWithoutElements) {
  const std::string x = R"(%x: tensor<6x3xf64> {sojourn.kind = "upload", sojourn.parts = )"
                        R"(#sojourn.parts<roles = [0, 1], rows = [2, 4], stride = 3>})";
  const std::string programs[] = {
      "(" + x + R"() -> (tensor<3xf64> {sojourn.result = "keep"}) {
        %c = sojourn.convert %x : tensor<6x3xf64> -> tensor<6x3xcomplex<f64>>
        %s = sojourn.reduce_sum %c, dims = [0] : tensor<6x3xcomplex<f64>>
        %p = sojourn.parts %s : tensor<3xcomplex<f64>>
        %q = sojourn.slice %p, start = [0, 0], limit = [3, 1], stride = [1, 1] : tensor<3x2xf64>
        %r = sojourn.reshape %q : tensor<3x1xf64> -> tensor<3xf64>
        return %r : tensor<3xf64> })",
      "(" + x + R"(, %z: tensor<f64> {sojourn.kind = "upload"}) -> (tensor<12x3xf64> {sojourn.result = "keep"}) {
        %p = sojourn.pad %x, %z, low = [0, 0], high = [1, 0], interior = [1, 0] : tensor<6x3xf64>, tensor<f64>
        return %p : tensor<12x3xf64> })",
      R"((%a: tensor<0xf64> {sojourn.kind = "upload", sojourn.party = 0 : i64},
          %b: tensor<0xf64> {sojourn.kind = "upload", sojourn.party = 1 : i64}) -> (tensor<0xf64> {sojourn.result = "keep"}) {
        %s = sojourn.add %a, %b : tensor<0xf64>, tensor<0xf64>
        return %s : tensor<0xf64> })"};
  std::mt19937_64 dice = freshRandom();
  for (const std::string &program : programs) {
    SCOPED_TRACE(program);
    Context context;
    auto joint = context.parse("module attributes {sojourn.parties = 3 : i64, sojourn.promotion = \"torch\"} {\n"
                               "func.func @step" +
                               program + "\n}");
    ASSERT_TRUE(joint);
    Covered covered;
    compare(*joint, dice, covered);
  }
}

/// Segments double with each op: the placement ends before memory does.
TEST(Joint, SegmentsAreBounded) {
  std::string text = R"(module attributes {sojourn.parties = 2 : i64, sojourn.promotion = "torch"} {
    func.func @step(%a: tensor<1xf32> {sojourn.kind = "upload", sojourn.party = 0 : i64},
        %b: tensor<1xf32> {sojourn.kind = "upload", sojourn.party = 1 : i64}) {
      %c0 = sojourn.concat %a, %b dim = 0 : tensor<1xf32>, tensor<1xf32>)";
  for (int i = 1; i < 28; ++i) {
    const std::string last = "%c" + std::to_string(i - 1), type = "tensor<" + std::to_string(1 << i) + "xf32>";
    text += "\n%c" + std::to_string(i) + " = sojourn.concat " + last + ", " + last + " dim = 0 : " + type + ", " + type;
  }
  Context context;
  auto joint = context.parse(text + "\nreturn } }");
  ASSERT_TRUE(joint);
  std::string refusal;
  mlir::ScopedDiagnosticHandler handler(&context.context, [&](mlir::Diagnostic &found) {
    refusal = found.str();
    return mlir::success();
  });
  EXPECT_TRUE(mlir::failed(parties::Placement::of(joint->lookupSymbol<mlir::func::FuncOp>(kStepName))));
  EXPECT_NE(refusal.find("joins rows in 512 segments of different roles, the limit is 256"), std::string::npos)
      << refusal;
}

size_t count(const char *name, size_t otherwise) {
  const char *given = std::getenv(name);
  return given ? std::strtoul(given, nullptr, 10) : otherwise;
}

TEST(Joint, RandomStepsInPartsAndPooled) {
  std::mt19937_64 dice = freshRandom();
  const size_t programs = count("SOJOURN_JOINT_PROGRAMS", 5000);
  size_t refused = 0;
  Covered covered;
  for (size_t i = 0; i < programs; ++i) {
    Context context;
    const unsigned parties = 2 + static_cast<unsigned>(dice() % 3);
    RandomStep made = randomStep(context.context, dice, parties, 6 + dice() % 24);
    refused += made.refused;
    SCOPED_TRACE("program " + std::to_string(i) + "\n" + textOf(*made.module));
    compare(*made.module, dice, covered);
    if (HasFatalFailure() || HasNonfatalFailure()) {
      return;
    }
  }
  std::printf("%zu programs: %zu values in parts, %zu at a role, %zu meetings in %zu exchanges, %zu sent to all, %zu "
              "ops refused, %zu masked sums, %zu runs that may have left the grid\n",
              programs, covered.inParts, covered.atRole, covered.meetings, covered.exchanges, covered.told, refused,
              covered.maskedSums, covered.lost);
  EXPECT_GT(covered.maskedSums, programs / 20);
  EXPECT_LT(covered.lost, programs / 4) << "runs that are not compared";
  for (const auto &[name, number] : covered.rowOps) {
    std::printf("%s %zu  ", name.c_str(), number);
  }
  std::printf("\n");
}

} // namespace
