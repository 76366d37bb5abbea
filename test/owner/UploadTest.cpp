// SPDX-License-Identifier: Apache-2.0
// Uploads that go ahead of a step in parts: order, repetition, bounds, and what a step makes of them.
#include "owner/Holdings.h"
#include "test/owner/Support.h"

namespace sojourn::owner::test {

namespace {

/// For an upload of 3,000 bytes.
const size_t kRoom = heldBytes(3'000) + 100;

struct Uploads : testing::Test {
  World world;
  Limits limits;
  std::unique_ptr<Owner> owner;
  std::unique_ptr<Client> client;
  std::string data = bytes<float>({1, 2, 3});

  void SetUp() override {
    limits.handleBytes = kRoom;
    limits.uploadsPerSession = 2;
    owner = std::make_unique<Owner>(world.environment(), limits);
    client = std::make_unique<Client>(*owner);
  }
  Reply part(uint64_t upload, uint64_t size, uint64_t offset, const std::string &piece) {
    return client->send(uploadBytes(client->session, upload, size, offset, piece));
  }
  /// How much stands after a part; the owner's error fails the test.
  uint64_t received(uint64_t upload, uint64_t offset, const std::string &piece) {
    Reply reply = part(upload, data.size(), offset, piece);
    EXPECT_EQ(reply.error(), "");
    const auto *answer = reply.root->body_as_Received();
    return answer ? answer->bytes() : ~uint64_t{0};
  }
  /// Keeps f32 [3] as handle 9 from an upload that was sent ahead.
  std::string keepFrom(uint64_t upload) {
    StepRequest step;
    step.uploads = {f32({3}, {})};
    step.uploads[0].sentAhead = upload;
    step.results = {9};
    return client->run(keepProgram(), step).error();
  }
};

} // namespace

TEST_F(Uploads, PartsJoinInOrder) {
  EXPECT_EQ(received(1, 0, data.substr(0, 5)), 5u);
  EXPECT_EQ(received(1, 0, data.substr(0, 5)), 5u); // once more: no harm
  EXPECT_EQ(received(1, 9, data.substr(9)), 5u);    // too early
  EXPECT_EQ(received(1, 5, ""), 5u);                // only asks
  EXPECT_NE(keepFrom(1).find("is incomplete, or is bound twice"), std::string::npos);
  EXPECT_EQ(received(1, 5, data.substr(5)), 12u);
  EXPECT_EQ(keepFrom(1), "");
  StepRequest fetch;
  fetch.states = {9};
  EXPECT_EQ(client->run(publishProgram(), fetch).published(0), data);
  // A step that committed has consumed it.
  EXPECT_NE(keepFrom(1).find("Handle: "), std::string::npos);
}

TEST_F(Uploads, AStepThatFailsConsumesNothing) {
  EXPECT_EQ(received(1, 0, data), 12u);
  StepRequest step;
  step.uploads = {f32({2}, {})}; // another shape than the program's
  step.uploads[0].sentAhead = 1;
  step.results = {9};
  EXPECT_NE(client->run(keepProgram(), step).error().find("the program expects 3xf32"), std::string::npos);
  EXPECT_EQ(keepFrom(1), "");
}

TEST_F(Uploads, BoundsHold) {
  auto says = [](const Reply &reply, const std::string &text) {
    EXPECT_NE(reply.error().find(text), std::string::npos) << reply.error();
  };
  says(part(1, kRoom, 0, ""),
       "Limit: an upload of " + std::to_string(kRoom) + " bytes does not fit beside the 0 bytes");
  says(part(1, ~uint64_t{0}, 0, ""), "Limit: ");
  says(part(0, 12, 0, ""), "Malformed: an upload has number 0");
  EXPECT_EQ(received(1, 0, data), 12u);
  says(part(1, 12, 12, "x"), "Malformed: upload 1 has 12 bytes");
  says(part(1, 13, 12, "x"), "Malformed: ");
  says(part(1, 12, ~uint64_t{0}, "x"), "Malformed: ");
  says(part(2, 3'000, 0, ""),
       "Limit: an upload of 3000 bytes does not fit beside the " + std::to_string(heldBytes(12)) + " bytes");
  EXPECT_EQ(part(2, 1'000, 0, "").error(), "");
  says(part(3, 1, 0, ""), "Limit: the session has 2 uploads under way");
  EXPECT_EQ(part(2, 0, 0, "").error(), ""); // dropped
  EXPECT_EQ(part(3, 1'000, 0, "").error(), "");
  // A session's end gives the room back.
  client->send(byeBytes(client->session));
  Client next(*owner);
  EXPECT_EQ(Reply(owner->handle(uploadBytes(next.session, 1, 3'000, 0, ""))).error(), "");
}

TEST_F(Uploads, AreCountedOnceWhenTheyBecomeHandles) {
  limits.handleBytes = heldBytes(12) + kProgramBytes + 8; // one tensor of 12 bytes, not two
  owner = std::make_unique<Owner>(world.environment(), limits);
  client = std::make_unique<Client>(*owner);
  EXPECT_EQ(received(1, 0, data), 12u);
  EXPECT_EQ(keepFrom(1), "");
  EXPECT_NE(part(2, 12, 0, "").error().find("beside the " + std::to_string(heldBytes(12) + kProgramBytes)),
            std::string::npos);
}

/// Copies of unaligned uploads do not share the bytes that a short message has once.
TEST_F(Uploads, ThatShareTheirBytesAreNoMoreThanTheMessage) {
  constexpr int kUploads = 40, kNumbers = 4'096;
  const std::string type = "tensor<" + std::to_string(kNumbers) + "xf32>";
  std::string arguments, body, last = "%a0";
  for (int k = 0; k < kUploads; ++k) {
    arguments += (k ? ", %a" : "%a") + std::to_string(k) + ": " + type + " {sojourn.kind = \"upload\"}";
    if (k > 0) {
      const std::string next = "%s" + std::to_string(k);
      body += "    " + next + " = sojourn.add " + last + ", %a" + std::to_string(k) + " : " + type + ", " + type + "\n";
      last = next;
    }
  }
  auto program = encode(moduleText("(" + arguments + ") -> (" + type + " {sojourn.result = \"publish\"})",
                                   body + "    return " + last + " : " + type));
  StepRequest step;
  step.uploads.assign(kUploads, f32({kNumbers}, std::vector<float>(kNumbers, 1)));
  int refused = 0;
  for (size_t behind = 0; behind < 16; behind += 4) {
    step.sharedBehind = behind;
    const Reply reply = client->run(program, step);
    if (reply.error().empty()) { // aligned by chance: nothing was copied
      EXPECT_EQ(values<float>(reply.published(0))[0], kUploads);
    } else {
      EXPECT_EQ(reply.error().find("Malformed: the uploads of the step have more bytes than its message"), 0u)
          << reply.error();
      ++refused;
    }
  }
  EXPECT_GE(refused, 2);
}

TEST_F(Uploads, ANumberIsBoundOnceAndOnlyInItsSession) {
  EXPECT_EQ(received(1, 0, data), 12u);
  auto program = encode(moduleText("(%x: tensor<3xf32> {sojourn.kind = \"upload\"}, %y: tensor<3xf32> {sojourn.kind = "
                                   "\"upload\"}) -> (tensor<3xf32> {sojourn.result = \"keep\"})",
                                   "    %z = sojourn.add %x, %y : tensor<3xf32>, tensor<3xf32>\n"
                                   "    return %z : tensor<3xf32>"));
  StepRequest step;
  step.uploads = {f32({3}, {}), f32({3}, {})};
  step.uploads[0].sentAhead = step.uploads[1].sentAhead = 1;
  step.results = {9};
  EXPECT_NE(client->run(program, step).error().find("bound twice"), std::string::npos);
  Client other(*owner, "bob");
  step.uploads = {f32({3}, {})};
  step.uploads[0].sentAhead = 1;
  EXPECT_NE(other.run(keepProgram(), step).error().find("Handle: "), std::string::npos);
}

} // namespace sojourn::owner::test
