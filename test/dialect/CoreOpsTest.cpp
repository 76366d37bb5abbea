// SPDX-License-Identifier: Apache-2.0
// The list of core ops against the registered ops, both ways; bounds of shape arithmetic against plain formulas.
#include "dialect/Bounds.h"
#include "dialect/Dialect.h"
#include "dialect/ElementTypes.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace {

struct ListedOp {
  std::string name;
  std::string status;
};

const ListedOp listedOps[] = {
#define SOJOURN_CORE_OP(name, tier, status, note) {"sojourn." #name, #status},
#include "dialect/CoreOps.def"
};

std::set<std::string> registeredCoreOps(mlir::MLIRContext &context) {
  std::set<std::string> names;
  for (mlir::RegisteredOperationName name : context.getRegisteredOperations()) {
    if (name.getDialectNamespace() == "sojourn" && name.hasTrait<sojourn::CoreOp>()) {
      names.insert(name.getStringRef().str());
    }
  }
  return names;
}

TEST(ElementTypes, ElementsComeBackAndOtherTypesAreNone) {
  mlir::MLIRContext context;
  for (sojourn::Element element : sojourn::kElements) {
    EXPECT_EQ(sojourn::elementOf(sojourn::typeOf(&context, element)), element);
  }
  auto integer = [&](unsigned width, auto signedness) { return mlir::IntegerType::get(&context, width, signedness); };
  mlir::Type others[] = {{},
                         integer(8, mlir::IntegerType::Signed),
                         integer(64, mlir::IntegerType::Signed),
                         integer(1, mlir::IntegerType::Unsigned),
                         integer(16, mlir::IntegerType::Unsigned),
                         integer(2, mlir::IntegerType::Signless),
                         integer(128, mlir::IntegerType::Signless),
                         mlir::IndexType::get(&context),
                         mlir::Float8E5M2Type::get(&context),
                         mlir::Float128Type::get(&context),
                         mlir::ComplexType::get(mlir::Float16Type::get(&context)),
                         mlir::ComplexType::get(mlir::IntegerType::get(&context, 32)),
                         mlir::RankedTensorType::get({}, mlir::Float32Type::get(&context))};
  for (mlir::Type type : others) {
    EXPECT_EQ(sojourn::elementOf(type), std::nullopt);
  }
}

TEST(CoreOps, ListedAndRegisteredOpsAreTheSame) {
  mlir::MLIRContext context;
  context.loadDialect<sojourn::SojournDialect>();
  std::set<std::string> implemented;
  std::set<std::string> all;
  for (const ListedOp &op : listedOps) {
    EXPECT_TRUE(all.insert(op.name).second) << op.name << " is listed twice";
    ASSERT_TRUE(op.status == "implemented" || op.status == "planned") << op.name << " is " << op.status;
    if (op.status == "implemented") {
      implemented.insert(op.name);
    }
  }
  EXPECT_EQ(registeredCoreOps(context), implemented);
}

TEST(CoreOps, EveryCoreOpIsPure) {
  mlir::MLIRContext context;
  context.loadDialect<sojourn::SojournDialect>();
  for (mlir::RegisteredOperationName name : context.getRegisteredOperations()) {
    if (name.hasTrait<sojourn::CoreOp>()) {
      EXPECT_TRUE(name.hasTrait<mlir::OpTrait::AlwaysSpeculatableImplTrait>()) << name.getStringRef().str();
      EXPECT_TRUE(name.hasInterface<mlir::MemoryEffectOpInterface>()) << name.getStringRef().str();
    }
  }
}

TEST(Support, NumelRefusesWhatDoesNotFit) {
  EXPECT_EQ(sojourn::checkedNumel({}), 1);
  EXPECT_EQ(sojourn::checkedNumel({3, 0, 5}), 0);
  EXPECT_EQ(sojourn::checkedNumel({1 << 16, 1 << 16}), int64_t(1) << 32);
  EXPECT_EQ(sojourn::checkedNumel({1 << 16, 1 << 16, 2}), std::nullopt);
  EXPECT_EQ(sojourn::checkedNumel({1 << 20, 1 << 20}, sojourn::bounds::kViewElements), int64_t(1) << 40);
  EXPECT_EQ(sojourn::checkedNumel({1 << 20, 1 << 20, 2}, sojourn::bounds::kViewElements), std::nullopt);
  EXPECT_EQ(sojourn::checkedNumel({0, INT64_MAX}), std::nullopt);
  EXPECT_EQ(sojourn::checkedNumel({INT64_MAX, INT64_MAX}), std::nullopt);
  EXPECT_EQ(sojourn::checkedNumel({-1}), std::nullopt);
  EXPECT_EQ(sojourn::checkedNumel({INT64_MIN}), std::nullopt);
}

TEST(Support, WindowOutputCountsPlacesOfTheWindow) {
  for (int64_t size = 0; size < 9; ++size) {
    for (int64_t window = 1; window < 5; ++window) {
      for (int64_t stride = 1; stride < 4; ++stride) {
        for (int64_t padding = 0; padding < 3; ++padding) {
          for (int64_t dilation = 1; dilation < 4; ++dilation) {
            int64_t places = 0;
            for (int64_t at = -padding; at + dilation * (window - 1) < size + padding; at += stride) {
              ++places;
            }
            std::optional<int64_t> out = sojourn::windowOutput(size, window, stride, padding, dilation);
            EXPECT_EQ(out.value_or(0), places);
          }
        }
      }
    }
  }
  EXPECT_EQ(sojourn::windowOutput(8, 0, 1, 0, 1), std::nullopt);
  EXPECT_EQ(sojourn::windowOutput(8, 2, 0, 0, 1), std::nullopt);
  EXPECT_EQ(sojourn::windowOutput(8, 2, 1, -1, 1), std::nullopt);
  EXPECT_EQ(sojourn::windowOutput(8, INT64_MAX, 1, 0, INT64_MAX), std::nullopt);
  EXPECT_EQ(sojourn::windowOutput(8, 2, 1, INT64_MAX, 1), std::nullopt);
}

TEST(Types, ExtentAndLayoutOfRefs) {
  mlir::MLIRContext context;
  context.loadDialect<sojourn::SojournDialect>();
  mlir::Type f32 = mlir::Float32Type::get(&context);
  auto dense = sojourn::RefType::get({2, 3}, f32);
  EXPECT_EQ(llvm::ArrayRef<int64_t>({3, 1}), dense.getStrides());
  EXPECT_TRUE(dense.isContiguous());
  EXPECT_TRUE(dense.isDenseRoot());
  EXPECT_EQ(dense.getExtent(), 6);
  auto transposed = sojourn::RefType::get({3, 2}, f32, {1, 3}, 0);
  EXPECT_FALSE(transposed.isContiguous());
  EXPECT_TRUE(transposed.isDenseRoot());
  auto row = sojourn::RefType::get({3}, f32, {1}, 3);
  EXPECT_TRUE(row.isContiguous());
  EXPECT_FALSE(row.isDenseRoot());
  EXPECT_EQ(row.getExtent(), 6);
  auto expanded = sojourn::RefType::get({4, 3}, f32, {0, 1}, 0);
  EXPECT_FALSE(expanded.isDenseRoot());
  EXPECT_EQ(expanded.getExtent(), 3);
  auto huge = sojourn::RefType::get({1 << 20, 1 << 20}, f32, {int64_t(1) << 40, int64_t(1) << 40}, 0);
  EXPECT_TRUE(huge.getExtent().has_value());
  EXPECT_EQ(sojourn::RefType::get({0}, f32).getExtent(), 0);
}

} // namespace
