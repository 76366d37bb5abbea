// SPDX-License-Identifier: Apache-2.0
// Random core ops with random operands, results and attributes: verifiers and folds may refuse, never crash. What the
// verifier accepts is also folded. The seed is printed; SOJOURN_TEST_SEED repeats a run.
#include "dialect/Dialect.h"

#include "mlir/IR/Verifier.h"
#include "llvm/ADT/SmallVector.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <set>
#include <string>

namespace {

class Generator {
public:
  Generator(mlir::MLIRContext &context, uint64_t seed) : context_(context), builder_(&context), random_(seed) {}

  size_t below(size_t count) { return std::uniform_int_distribution<size_t>(0, count - 1)(random_); }

  int64_t number() {
    static const int64_t edges[] = {INT64_MIN, INT64_MIN + 1,     -2,
                                    -1,        int64_t(1) << 40,  (int64_t(1) << 40) + 1,
                                    INT64_MAX, INT64_MAX / 2 + 1, INT32_MAX};
    return below(5) == 0 ? edges[below(std::size(edges))] : static_cast<int64_t>(below(4));
  }

  mlir::Type element() {
    mlir::Type types[] = {builder_.getF32Type(),      builder_.getF64Type(),
                          builder_.getBF16Type(),     builder_.getI1Type(),
                          builder_.getI64Type(),      builder_.getIntegerType(8, false),
                          builder_.getIntegerType(8), mlir::ComplexType::get(builder_.getF32Type()),
                          builder_.getIndexType()};
    return below(3) != 0 ? types[0] : types[below(std::size(types))];
  }

  mlir::Type type() {
    switch (below(16)) {
    case 0: return sojourn::RefType::get({2, 3}, builder_.getF32Type());
    case 1: return sojourn::ScalarType::get(builder_.getI64Type());
    case 2: return sojourn::TableType::get(&context_, 5, {builder_.getStringAttr("a")}, {builder_.getF64Type()});
    case 3: return mlir::UnrankedTensorType::get(element());
    case 4: return mlir::RankedTensorType::get({mlir::ShapedType::kDynamic, 2}, element());
    case 5: return mlir::RankedTensorType::get({int64_t(1) << 40, int64_t(1) << 40, 3}, element());
    case 6: return builder_.getNoneType();
    default: {
      llvm::SmallVector<int64_t> shape;
      for (size_t rank = below(5); rank > 0; --rank) {
        shape.push_back(static_cast<int64_t>(below(4)));
      }
      return mlir::RankedTensorType::get(shape, element());
    }
    }
  }

  mlir::Attribute attribute() {
    static const char *const words[] = {"eq", "lt", "set", "add", "max", "a", ""};
    switch (below(8)) {
    case 0: return builder_.getStringAttr(words[below(std::size(words))]);
    case 1: return builder_.getBoolAttr(below(2) != 0);
    case 2: return builder_.getF32FloatAttr(1.0f);
    case 3: return builder_.getStrArrayAttr({"a"});
    case 4: return builder_.getI64IntegerAttr(number());
    default: {
      llvm::SmallVector<int64_t> list;
      for (size_t length = below(5); length > 0; --length) {
        list.push_back(number());
      }
      return builder_.getDenseI64ArrayAttr(list);
    }
    }
  }

  mlir::Attribute attributeFor(mlir::StringAttr name) {
    static const std::set<std::string> integers = {"dim", "groups", "k", "rows", "stream"};
    static const std::set<std::string> words = {"kind", "predicate"};
    if (below(6) == 0) {
      return attribute();
    }
    if (integers.count(name.str()) != 0) {
      return builder_.getI64IntegerAttr(number());
    }
    if (words.count(name.str()) != 0) {
      return builder_.getStringAttr(name.getValue() == "kind" ? "add" : "lt");
    }
    if (name.getValue() == "descending" || name.getValue() == "largest") {
      return builder_.getBoolAttr(true);
    }
    llvm::SmallVector<int64_t> list;
    for (size_t length = below(4); length > 0; --length) {
      list.push_back(number());
    }
    return builder_.getDenseI64ArrayAttr(list);
  }

private:
  mlir::MLIRContext &context_;
  mlir::Builder builder_;
  std::mt19937_64 random_;
};

TEST(Hostile, VerifiersAndFoldsNeverCrash) {
  const char *given = std::getenv("SOJOURN_TEST_SEED");
  uint64_t seed = given ? std::strtoull(given, nullptr, 10) : std::random_device()();
  std::printf("SOJOURN_TEST_SEED=%llu\n", static_cast<unsigned long long>(seed));
  mlir::MLIRContext context;
  context.loadDialect<sojourn::SojournDialect>();
  mlir::ScopedDiagnosticHandler silent(&context, [](mlir::Diagnostic &) { return mlir::success(); });
  Generator generate(context, seed);
  llvm::SmallVector<mlir::RegisteredOperationName> names;
  for (mlir::RegisteredOperationName name : context.getRegisteredOperations()) {
    if (name.getDialectNamespace() == "sojourn") {
      names.push_back(name);
    }
  }
  mlir::Location location = mlir::UnknownLoc::get(&context);
  size_t accepted = 0;
  for (int round = 0; round < 200000; ++round) {
    mlir::RegisteredOperationName name = names[generate.below(names.size())];
    mlir::Block block;
    mlir::Type shared = generate.type(); // operands often agree, or hardly anything would be accepted
    llvm::SmallVector<mlir::Value> operands;
    for (size_t count = generate.below(4); count > 0; --count) {
      operands.push_back(block.addArgument(generate.below(3) != 0 ? shared : generate.type(), location));
    }
    llvm::SmallVector<mlir::Type> results;
    for (size_t count = generate.below(8) == 0 ? generate.below(4) : 1; count > 0; --count) {
      results.push_back(generate.below(2) != 0 ? shared : generate.type());
    }
    mlir::NamedAttrList attributes;
    for (mlir::StringAttr attribute : name.getAttributeNames()) {
      if (generate.below(12) != 0) {
        attributes.set(attribute, generate.attributeFor(attribute));
      }
    }
    mlir::Operation *op = mlir::Operation::create(location, name, results, operands, std::move(attributes),
                                                  mlir::OpaqueProperties(nullptr), mlir::BlockRange(), 0);
    block.push_back(op);
    if (mlir::succeeded(mlir::verify(op))) {
      ++accepted;
      llvm::SmallVector<mlir::OpFoldResult> folded;
      (void)op->fold(folded);
      EXPECT_TRUE(mlir::succeeded(mlir::verify(op)));
    }
  }
  EXPECT_GT(accepted, 100u);
}

} // namespace
