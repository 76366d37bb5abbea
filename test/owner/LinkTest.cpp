// SPDX-License-Identifier: Apache-2.0
// Goal: frames and memory files cross a socket as they are, and a side that breaks a rule is refused. Method: two ends
// in one process; frames that no Link would send, byte by byte.
#include "owner/process/Link.h"

#include <cstring>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <random>
#include <sys/mman.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

using namespace sojourn;
using namespace sojourn::owner;

namespace {

struct Ends {
  explicit Ends(const LinkLimits &limits = {}) {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    LinkLimits own;
    own.recycles = true;
    left = std::make_unique<Link>(Descriptor(ends[0]), own);
    right = std::make_unique<Link>(Descriptor(ends[1]), limits);
  }
  std::unique_ptr<Link> left, right;
};

std::shared_ptr<runtime::Buffer> buffer(const std::string &bytes, runtime::BufferPool &pool) {
  return runtime::copyOf(bytes.data(), bytes.size(), pool);
}

std::string bytesOf(const std::shared_ptr<runtime::Buffer> &buffer) {
  auto copy = ownCopy(buffer);
  return copy ? std::string(static_cast<const char *>(copy->data()), copy->size()) : "none";
}

std::string text(size_t size, unsigned seed) {
  std::mt19937 random(seed);
  std::string made(size, '\0');
  for (char &byte : made) {
    byte = static_cast<char>(random());
  }
  return made;
}

size_t descriptors() {
  size_t count = 0;
  for (int at = 0; at < 512; ++at) {
    count += fcntl(at, F_GETFD) >= 0 ? 1 : 0;
  }
  return count;
}

/// Of a frame, as Link.cpp writes it.
struct RawHead {
  uint64_t magic = 0x314b4e494c4e4a53;
  uint32_t kind = 2, buffers = 0, files = 0, closed = 0, isOnce = 0, reserved = 0;
  uint64_t bytes = 0, inFrame = 0;
};

/// What `right` makes of bytes and descriptors that come from nowhere.
std::string refusal(const std::string &bytes, const std::vector<int> &passed = {}, const LinkLimits &limits = {}) {
  int ends[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  Link link(Descriptor(ends[1]), limits);
  Descriptor other(ends[0]);
  iovec vector{const_cast<char *>(bytes.data()), bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(16 * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &vector;
  message.msg_iovlen = 1;
  if (!passed.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(passed.size() * sizeof(int));
    cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(passed.size() * sizeof(int));
    std::memcpy(CMSG_DATA(header), passed.data(), passed.size() * sizeof(int));
  }
  EXPECT_EQ(sendmsg(other.get(), &message, 0), static_cast<ssize_t>(bytes.size()));
  shutdown(other.get(), SHUT_WR);
  auto frame = link.receive();
  if (!frame) {
    return llvm::toString(frame.takeError());
  }
  return *frame ? "accepted" : "ended";
}

std::string raw(const RawHead &head, const std::string &rest = "") {
  return std::string(reinterpret_cast<const char *>(&head), sizeof(head)) + rest;
}

std::string words(std::initializer_list<uint64_t> all) {
  std::string made;
  for (uint64_t word : all) {
    made.append(reinterpret_cast<const char *>(&word), sizeof(word));
  }
  return made;
}

} // namespace

TEST(Links, BuffersOfEverySize) {
  Ends ends;
  runtime::BufferPool plain, shared(true);
  std::vector<std::string> sent;
  Memory memory;
  unsigned seed = 1;
  for (size_t size : {0, 1, 63, 64, 65, 1'000, 65'535, 65'536, 65'537, 300'000}) {
    for (runtime::BufferPool *pool : {&plain, &shared}) {
      sent.push_back(text(size, seed++));
      memory.push_back(buffer(sent.back(), *pool));
    }
  }
  memory.push_back(nullptr);
  const std::string bytes = text(777, 99);
  for (int round = 0; round < 3; ++round) {
    std::thread sending([&] { EXPECT_FALSE(bool(ends.left->send(FrameKind::answer, bytes, memory))); });
    auto frame = ends.right->receive();
    sending.join();
    ASSERT_TRUE(bool(frame) && *frame);
    EXPECT_EQ((*frame)->bytes, bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>((*frame)->bytes.data()) % 64, 0U);
    ASSERT_EQ((*frame)->memory.size(), memory.size());
    for (size_t at = 0; at < sent.size(); ++at) {
      EXPECT_TRUE(bytesOf((*frame)->memory[at]) == sent[at]) << at;
    }
    EXPECT_EQ((*frame)->memory.back(), nullptr);
  }
}

TEST(Links, DescriptorsCrossOnceAndGoWithTheirFiles) {
  Ends ends;
  const size_t before = descriptors();
  {
    runtime::BufferPool shared(true);
    auto value = buffer(text(100'000, 5), shared);
    for (int round = 0; round < 20; ++round) {
      ASSERT_FALSE(bool(ends.left->send(FrameKind::answer, "x", {value})));
      auto frame = ends.right->receive();
      ASSERT_TRUE(bool(frame) && *frame);
    }
    EXPECT_EQ(descriptors(), before + 2) << "one at each side";
    const uint64_t number = value->file();
    value.reset();
    EXPECT_EQ(shared.takeClosedFiles(), std::vector<uint64_t>()) << "it is kept for the next buffer";
    ends.left->closed = {number};
  }
  ASSERT_FALSE(bool(ends.left->send(FrameKind::answer, "x", {})));
  ASSERT_TRUE(bool(ends.right->receive()));
  EXPECT_EQ(descriptors(), before);
}

/// A buffer's file is used again, for a call that maps it, then for one that copies it.
TEST(Links, MappedFilesAreCopied) {
  Ends ends;
  runtime::BufferPool shared(true);
  auto value = buffer(text(100'000, 7), shared);
  std::shared_ptr<runtime::Buffer> mapped; // keeps the mapping
  for (int round = 0; round < 3; ++round) {
    const std::string now = text(100'000, 8 + round);
    std::memcpy(value->data(), now.data(), now.size());
    ASSERT_FALSE(bool(ends.left->send(FrameKind::call, "x", {value})));
    auto frame = ends.right->receive();
    ASSERT_TRUE(bool(frame) && *frame);
    if (round == 1) {
      mapped = readable((*frame)->memory[0], /*isBorrowed=*/true);
    }
    const auto copy = ownCopy((*frame)->memory[0]);
    ASSERT_NE(copy, nullptr) << round;
    EXPECT_TRUE(bytesOf(copy) == now) << round;
  }
}

TEST(Links, FramesThatComeTogetherHaveTheirOwnDescriptors) {
  Ends ends;
  runtime::BufferPool shared(true);
  const std::string first = text(70'000, 1), second = text(80'000, 2);
  ASSERT_TRUE(ends.left->queue(FrameKind::notice, "before"));
  ASSERT_FALSE(bool(ends.left->send(FrameKind::call, "none", {})));
  const auto one = buffer(first, shared), other = buffer(second, shared);
  ASSERT_FALSE(bool(ends.left->send(FrameKind::call, "one", {one})));
  ASSERT_FALSE(bool(ends.left->send(FrameKind::call, "other", {other})));
  for (const std::string &expected :
       {std::string("before"), std::string("none"), std::string("one"), std::string("other")}) {
    auto frame = ends.right->receive();
    ASSERT_TRUE(bool(frame)) << llvm::toString(frame.takeError());
    ASSERT_TRUE(frame->has_value());
    EXPECT_EQ((*frame)->bytes, expected);
    if (expected == "one" || expected == "other") {
      EXPECT_TRUE(bytesOf((*frame)->memory.at(0)) == (expected == "one" ? first : second)) << expected;
    }
  }
}

TEST(Links, ManyDescriptorsInOneFrame) {
  Ends ends;
  runtime::BufferPool shared(true);
  Memory memory;
  for (unsigned at = 0; at < 700; ++at) {
    memory.push_back(buffer(text(66'000, at), shared));
  }
  std::thread sending([&] { EXPECT_FALSE(bool(ends.left->send(FrameKind::answer, "x", memory))); });
  auto frame = ends.right->receive();
  sending.join();
  ASSERT_TRUE(bool(frame) && *frame) << llvm::toString(frame.takeError());
  for (unsigned at = 0; at < 700; ++at) {
    ASSERT_TRUE(bytesOf((*frame)->memory[at]) == text(66'000, at)) << at;
  }
}

TEST(Links, AWaitIsGivenUp) {
  Ends ends;
  int asked = 0;
  auto frame = ends.right->receive([&] { return ++asked < 4; });
  EXPECT_FALSE(bool(frame));
  llvm::consumeError(frame.takeError());
  EXPECT_EQ(asked, 4);
  ends.left.reset();
  auto end = ends.right->receive();
  ASSERT_TRUE(bool(end));
  EXPECT_FALSE(end->has_value());
}

TEST(Links, FramesThatBreakARuleAreRefused) {
  EXPECT_EQ(refusal(raw({})), "accepted");
  EXPECT_EQ(refusal("short"), "ended");
  EXPECT_EQ(refusal(raw({.magic = 1})), "the frame does not begin as one");
  EXPECT_NE(refusal(raw({.bytes = uint64_t{1} << 40})).find("too many"), std::string::npos);
  EXPECT_NE(refusal(raw({.inFrame = ~uint64_t{0}})).find("too many"), std::string::npos);
  EXPECT_NE(refusal(raw({.buffers = ~uint32_t{0}})).find("too many"), std::string::npos);
  EXPECT_NE(refusal(raw({.files = ~uint32_t{0}})).find("too many"), std::string::npos);
  EXPECT_EQ(refusal(raw({.files = 1}, words({5}))), "the frame names 1 files of 0 descriptors");
  EXPECT_NE(refusal(raw({.buffers = 1}, words({5, 10}))).find("unknown file"), std::string::npos);
  EXPECT_NE(refusal(raw({.buffers = 1}, words({0, 10}))).find("beyond its end"), std::string::npos);
  EXPECT_NE(refusal(raw({.buffers = 1, .inFrame = 64}, words({0, ~uint64_t{0}}))).find("beyond its end"),
            std::string::npos);
  EXPECT_NE(refusal(raw({.inFrame = 64}, "")).find("belong to no buffer"), std::string::npos);
  const Descriptor plain(open("/dev/null", O_RDWR | O_CLOEXEC));
  const Descriptor open(memfd_create("open", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const Descriptor sealed(memfd_create("sealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(sealed.get(), 100), 0);
  ASSERT_EQ(ftruncate(open.get(), 100), 0);
  ASSERT_EQ(fcntl(sealed.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
  const std::string fixed = "the frame has a descriptor of no memory file of fixed size";
  EXPECT_EQ(refusal(raw({.files = 1}, words({5})), {plain.get()}), fixed);
  EXPECT_EQ(refusal(raw({.files = 1}, words({5})), {open.get()}), fixed) << "it could shrink under a reader";
  EXPECT_EQ(refusal(raw({.files = 1}, words({5})), {sealed.get()}), "accepted");
  EXPECT_EQ(refusal(raw({.files = 1}, words({0})), {sealed.get()}), fixed);
  EXPECT_EQ(refusal(raw({.files = 2}, words({5, 5})), {sealed.get(), sealed.get()}), fixed);
  EXPECT_EQ(refusal(raw({.files = 1}, words({5})), {sealed.get(), sealed.get()}),
            "the frame names 1 files of 2 descriptors");
  EXPECT_EQ(refusal(raw({.buffers = 1, .files = 1}, words({5, 100, 5})), {sealed.get()}), "accepted");
  EXPECT_NE(refusal(raw({.buffers = 1, .files = 1}, words({5, 101, 5})), {sealed.get()}).find("unknown file"),
            std::string::npos);
  EXPECT_NE(refusal(raw({.buffers = 1, .files = 1}, words({5, 0, 5})), {sealed.get()}).find("unknown file"),
            std::string::npos);
  LinkLimits few;
  few.files = 1;
  EXPECT_NE(refusal(raw({.files = 2}, words({5, 6})), {sealed.get(), sealed.get()}, few).find("too many"),
            std::string::npos);
  LinkLimits full;
  full.allFiles = std::make_shared<std::atomic<size_t>>(10);
  full.allFilesMost = 10;
  EXPECT_NE(refusal(raw({.files = 1}, words({5})), {sealed.get()}, full).find("may open"), std::string::npos);
  EXPECT_EQ(*full.allFiles, 10U) << "those that were refused are counted no longer";
}

TEST(Links, BytesAtRandomAreNoFrames) {
  std::mt19937 random(20261127);
  for (int round = 0; round < 2'000; ++round) {
    RawHead head;
    uint32_t *fields[] = {&head.kind, &head.buffers, &head.files, &head.closed, &head.isOnce};
    for (uint32_t *field : fields) {
      *field = random() % 3 == 0 ? static_cast<uint32_t>(random() % 5) : 0;
    }
    head.bytes = random() % 100;
    head.inFrame = 64 * (random() % 4);
    refusal(raw(head, text(random() % 600, random())));
  }
}
