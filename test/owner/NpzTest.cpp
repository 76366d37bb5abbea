// SPDX-License-Identifier: Apache-2.0
// Archives as numpy.savez writes them, built here byte by byte.
#include "owner/Npz.h"
#include "test/owner/Archives.h"
#include "test/owner/Support.h"

#include <zlib.h>

namespace sojourn::owner::test {

namespace {

llvm::Expected<NpzArrays> readNpzFile(const std::string &path) {
  ImportMemory memory(0);
  return readNpz(path, memory);
}

} // namespace

TEST(Npz, StoredAndDeflatedArrays) {
  TemporaryFolder folder;
  std::vector<std::pair<std::string, std::string>> members = {
      {"x.npy", npy("<f8", "(3,)", bytes<double>({1.5, -2, 3}))},
      {"n.npy", npy("<u2", "(3,)", bytes<uint16_t>({1, 2, 65535}))},
      {"b.npy", npy("|b1", "(3,)", std::string("\1\0\1", 3))}};
  for (bool pack : {false, true}) {
    auto read = readNpzFile(folder.write("a.npz", zip(members, pack)));
    ASSERT_TRUE(bool(read)) << llvm::toString(read.takeError());
    ASSERT_EQ(read->arrays.size(), 3u);
    EXPECT_EQ(read->arrays[0].name, "x");
    EXPECT_EQ(static_cast<const double *>(read->arrays[0].data)[1], -2);
    EXPECT_EQ(read->arrays[1].element, runtime::Element::i32);
    EXPECT_EQ(static_cast<const int32_t *>(read->arrays[1].data)[2], 65535);
    EXPECT_EQ(read->arrays[2].element, runtime::Element::i1);
    EXPECT_EQ(read->arrays[2].length, 3);
  }
}

TEST(Npz, ShapedArraysInBothOrders) {
  TemporaryFolder folder;
  // Element [i, j, k] of a [3, 2, 2] array is 100 i + 10 j + k.
  std::vector<int16_t> rowMajor, columnMajor;
  std::vector<uint32_t> wide;
  for (int16_t i = 0; i < 3; ++i) {
    for (int16_t j = 0; j < 2; ++j) {
      for (int16_t k = 0; k < 2; ++k) {
        rowMajor.push_back(static_cast<int16_t>(100 * i + 10 * j + k));
      }
    }
  }
  for (int16_t k = 0; k < 2; ++k) {
    for (int16_t j = 0; j < 2; ++j) {
      for (int16_t i = 0; i < 3; ++i) {
        columnMajor.push_back(static_cast<int16_t>(100 * i + 10 * j + k));
        wide.push_back(static_cast<uint32_t>(columnMajor.back()));
      }
    }
  }
  auto read = readNpzFile(folder.write("a.npz", zip({{"c.npy", npy("<i2", "(3, 2, 2)", bytes(rowMajor))},
                                                     {"f.npy", npy("<i2", "(3, 2, 2)", bytes(columnMajor), true)},
                                                     {"w.npy", npy("<u4", "(3, 2, 2)", bytes(wide), true)}},
                                                    true)));
  ASSERT_TRUE(bool(read)) << llvm::toString(read.takeError());
  ASSERT_EQ(read->arrays.size(), 3u);
  for (const NamedArray &array : read->arrays) {
    EXPECT_EQ(array.length, 3);
    EXPECT_EQ(array.dims, (std::vector<int64_t>{2, 2}));
    for (size_t at = 0; at < rowMajor.size(); ++at) {
      bool widened = array.element == runtime::Element::i64;
      EXPECT_EQ(widened ? static_cast<const int64_t *>(array.data)[at] : static_cast<const int16_t *>(array.data)[at],
                rowMajor[at])
          << array.name << " at " << at;
    }
  }
}

/// Without an element there is nothing to copy, from nowhere.
TEST(Npz, EmptyArraysAreRead) {
  TemporaryFolder folder;
  auto read = readNpzFile(
      folder.write("a.npz", zip({{"w.npy", npy("<u4", "(0,)", "")}, {"h.npy", npy("<u2", "(0,)", "")}}, false)));
  ASSERT_TRUE(bool(read)) << llvm::toString(read.takeError());
  ASSERT_EQ(read->arrays.size(), 2u);
  EXPECT_EQ(read->arrays[0].length, 0);
  EXPECT_EQ(read->arrays[1].length, 0);
}

TEST(Npz, UnsupportedArraysAreNamed) {
  TemporaryFolder folder;
  auto error = [&](const std::string &array) {
    auto read = readNpzFile(folder.write("a.npz", zip({{"x.npy", array}}, false)));
    return read ? "" : llvm::toString(read.takeError());
  };
  EXPECT_NE(error(npy("<U4", "(1,)", "abcd")).find("unsupported dtype '<U4'"), std::string::npos);
  EXPECT_NE(error(npy(">f8", "(1,)", "abcdefgh")).find("unsupported dtype"), std::string::npos);
  EXPECT_NE(error(npy("<f8", "()", "abcdefgh")).find("expected rows first"), std::string::npos);
  EXPECT_NE(error(npy("<f8", "(1, x)", "abcdefgh")).find("expected rows first"), std::string::npos);
  EXPECT_NE(error(npy("<f8", "(-1,)", "abcdefgh")).find("expected rows first"), std::string::npos);
  EXPECT_NE(error(npy("<f8", "(4294967296, 4294967296, 4)", "abcdefgh")).find("64 bits"), std::string::npos);
  EXPECT_NE(error(npy("<f8", "(1, 2)", "abcdefgh")).find("fewer values"), std::string::npos);
  EXPECT_NE(error(npy("<f8", "(2,)", "abcdefgh")).find("fewer values"), std::string::npos);
  EXPECT_NE(error("text").find("not an array"), std::string::npos);
}

TEST(Npz, DamagedArchivesNeverCrash) {
  TemporaryFolder folder;
  std::string whole = zip({{"x.npy", npy("<f8", "(3,)", bytes<double>({1, 2, 3}))}}, true);
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string broken = whole;
    broken[at] = static_cast<char>(broken[at] ^ 0xff);
    for (const std::string &contents : {broken, whole.substr(0, at)}) {
      auto read = readNpzFile(folder.write("a.npz", contents));
      if (!read) {
        llvm::consumeError(read.takeError());
      }
    }
  }
}

} // namespace sojourn::owner::test
