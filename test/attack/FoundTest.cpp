// SPDX-License-Identifier: Apache-2.0
// Attacks that tools/attack found where a hole was put back, made small: each is played as it was found. Today none
// succeeds; patches of test/mutants put the holes back, with all further walls off, and name the test that breaks.
#include "dialect/CoreForm.h"
#include "test/attack/Judge.h"
#include "test/attack/Seam.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/MemoryBuffer.h"

#include <filesystem>

namespace sojourn::attack {

namespace {

/// All of found/ whose names begin so; what became of each. Fails where there is none.
void expectNoneSucceeds(const std::string &prefix) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  loadDialects(context);
  size_t played = 0;
  for (const auto &entry : std::filesystem::directory_iterator(SOJOURN_ATTACKS_FOUND)) {
    std::string name = entry.path().filename().string();
    if (name.rfind(prefix, 0) != 0) {
      continue;
    }
    auto file = llvm::MemoryBuffer::getFile(entry.path().string(), /*IsText=*/true);
    ASSERT_TRUE(file) << name;
    auto attack = Attack::parse((*file)->getBuffer(), context);
    ASSERT_TRUE(static_cast<bool>(attack)) << name << ": " << llvm::toString(attack.takeError());
    Verdict verdict = Judge(1).judge(*attack);
    EXPECT_TRUE(verdict.isEncodable) << name;
    EXPECT_FALSE(verdict.violation) << name << ": " << verdict.violation->property << ": " << verdict.violation->text;
    for (const std::string &error : verdict.errors) { // such a table is not there: nothing was tried
      EXPECT_EQ(error.find("the program expects type"), std::string::npos) << name << ": " << error;
    }
    ++played;
  }
  EXPECT_GT(played, 0u) << "no attack " << prefix;
  EXPECT_GT(seamCounts().buffers, 0u) << "the linker made no seam";
}

} // namespace

TEST(Found, ARowReadManyTimes) { expectNoneSucceeds("row-many-times"); }
TEST(Found, PositionsThatAreValues) { expectNoneSucceeds("positions-are-values"); }
TEST(Found, TheDrawKept) { expectNoneSucceeds("draw-kept"); }
TEST(Found, ASumThatIsNoNumber) { expectNoneSucceeds("sum-or-nan"); }

} // namespace sojourn::attack
