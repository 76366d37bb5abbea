// SPDX-License-Identifier: Apache-2.0
// Every kernel declares what its time depends on, and nothing else does.
#include "runtime/KernelTimes.h"
#include "runtime/Engine.h"
#include "runtime/Lower.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

using namespace sojourn::runtime;

namespace {

std::set<std::string> declared() {
  std::set<std::string> names;
  for (const DeclaredTime &each : kKernelTimes) {
    EXPECT_TRUE(names.insert(each.op.str()).second) << each.op.str() << " is declared twice";
  }
  return names;
}

TEST(KernelTimes, AreDeclaredOfEveryKernelAndOfNothingElse) {
  std::set<std::string> kernels;
  for (llvm::StringRef name : kernelTable().keys()) {
    kernels.insert(name.str());
  }
  EXPECT_EQ(declared(), kernels);
}

TEST(KernelTimes, AreDeclaredOfEveryCoreOpThatRuns) {
  static constexpr const char *ops[] = {
#define SOJOURN_CORE_OP(name, tier, status, note) #name,
#include "dialect/CoreOps.def"
  };
  std::set<std::string> others = declared();
  for (llvm::StringRef op : ops) {
    EXPECT_EQ(timeOf(op).has_value(), cpuEngine().hasKernel(op)) << op.str();
    others.erase(op.str());
  }
  // Of the owner's form alone.
  EXPECT_EQ(others, std::set<std::string>{"first_rows"});
  EXPECT_TRUE(cpuEngine().hasKernel("first_rows"));
}

TEST(KernelTimes, HaveAReasonWhereValuesCount) {
  for (const DeclaredTime &each : kKernelTimes) {
    EXPECT_EQ(each.reason.empty(), each.time == KernelTime::oblivious) << each.op.str();
    EXPECT_EQ(timeOf(each.op), each.time);
  }
}

TEST(KernelTimes, AreAskedForByName) {
  EXPECT_EQ(timeOf("add"), KernelTime::oblivious);
  EXPECT_EQ(timeOf("argmax"), KernelTime::oblivious);
  EXPECT_EQ(timeOf("sort"), KernelTime::covered);
  EXPECT_EQ(timeOf("sojourn.add"), std::nullopt);
  EXPECT_EQ(timeOf(""), std::nullopt);
}

} // namespace
