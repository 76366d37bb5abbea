// SPDX-License-Identifier: Apache-2.0
// Goal: a rehearsal, whose time is the price of a step on private rows, reads none of them. Method: a table that cannot
// be read without a crash, and made-up values of every type.
#include "owner/worker/MadeUp.h"
#include "owner/worker/Service.h"
#include "runtime/Engine.h"
#include "test/owner/Support.h"

#include <algorithm>
#include <set>
#include <sys/mman.h>
#include <unistd.h>

using namespace sojourn;
using namespace sojourn::owner;
using namespace sojourn::owner::test;

/// The rows of this table cannot be read without a crash.
TEST(Rehearsals, ReadNoRow) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void *closed = mmap(nullptr, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(closed, MAP_FAILED);
  WorkerStub worker(std::make_unique<WorkerService>(runtime::cpuEngine()));
  const std::vector<Column> columns{{"a", runtime::Element::f64, std::nullopt, closed},
                                    {"n", runtime::Element::i64, std::nullopt, closed}};
  worker.map(7, std::make_shared<Dataset>("t", "v", 4, columns, nullptr));
  const runtime::EncodedProgram program = sumProgram();
  auto described = worker.describe(program.program, program.debug, {});
  ASSERT_TRUE(bool(described));
  RunPart part;
  part.code = described->code.get();
  part.words = {7};
  EXPECT_EQ(errorText(worker.rehearse(part, 2, {0}, {}, described->facts, 1, {})), "");
  for (const std::vector<unsigned> &wrong : {std::vector<unsigned>{0, 0}, {1}, {7}}) {
    EXPECT_NE(
        errorText(worker.rehearse(part, 1, wrong, {}, described->facts, 1, {})).find("expected ascending numbers"),
        std::string::npos);
  }
  worker.unmap(7);
  munmap(closed, page);
}

/// Every element is written, whatever its type, and lies in [-8, 8).
TEST(Rehearsals, MakeUpEveryElement) {
  for (int element = 0; element < static_cast<int>(runtime::kElementCount); ++element) {
    const auto type = static_cast<runtime::Element>(element);
    const std::vector<Column> columns{{"image", type, std::nullopt, nullptr, {3, 5}}};
    const MadeUpRows rows(std::make_shared<Dataset>("t", "v", 100, columns, nullptr));
    EXPECT_EQ(rows.rows(), 100);
    const size_t count = 7 * 15, width = runtime::byteWidth(type);
    std::string first(count * width, '\x5a'), second(count * width, '\xa5');
    for (std::string *out : {&first, &second}) {
      rows.readRows({"image"}, {3, 1, 4, 1, 5, 9, 2}, type, out->data());
    }
    EXPECT_EQ(first, second) << element;
    if (type == runtime::Element::f64) {
      const std::vector<double> numbers = values<double>(first);
      const auto [least, most] = std::minmax_element(numbers.begin(), numbers.end());
      EXPECT_GE(*least, -8);
      EXPECT_LT(*most, 8);
      EXPECT_GT(*most - *least, 8) << "of one sign, or all alike";
    }
    if (type == runtime::Element::i1) {
      EXPECT_EQ(std::set<char>(first.begin(), first.end()), (std::set<char>{0, 1}));
    }
  }
}
