// SPDX-License-Identifier: Apache-2.0
// Goal: a value with a name is found by later sessions of its account alone, as the last commit left it, with its label
// and its bytes. Method: requests of several clients against values and sums kept here, with a clock of the test's.
#include "owner/Accounts.h"
#include "owner/Description.h"
#include "owner/Holdings.h"
#include "runtime/Limits.h"
#include "test/owner/Support.h"

#include <iterator>
#include <list>
#include <map>

namespace sojourn::owner::test {

namespace {

using Names = std::vector<std::string>;
using Ids = std::vector<uint64_t>;

struct Entry {
  uint64_t handle;
  std::string name;
  Names tags = {};
  std::vector<int64_t> strides = {}, shape = {};
};

std::string nameBytes(uint64_t session, const std::vector<Entry> &entries) {
  flatbuffers::FlatBufferBuilder builder;
  std::vector<flatbuffers::Offset<wire::NameEntry>> all;
  for (const Entry &entry : entries) {
    auto name = builder.CreateString(entry.name);
    auto tags = builder.CreateVectorOfStrings(entry.tags);
    auto strides = builder.CreateVector(entry.strides), shape = builder.CreateVector(entry.shape);
    all.push_back(wire::CreateNameEntry(builder, entry.handle, name, tags, strides, shape));
  }
  auto values = builder.CreateVector(all);
  return finish(builder, wire::RequestBody_NameValues, wire::CreateNameValues(builder, session, values).Union());
}

std::string listBytes(uint64_t session, const std::string &tag = "") {
  flatbuffers::FlatBufferBuilder builder;
  auto text = builder.CreateString(tag);
  return finish(builder, wire::RequestBody_ListValues, wire::CreateListValues(builder, session, text).Union());
}

std::string takeBytes(uint64_t session, const Names &names, const Ids &ids) {
  flatbuffers::FlatBufferBuilder builder;
  auto texts = builder.CreateVectorOfStrings(names);
  auto as = builder.CreateVector(ids);
  return finish(builder, wire::RequestBody_TakeValues, wire::CreateTakeValues(builder, session, texts, as).Union());
}

std::string releaseNamesBytes(uint64_t session, const Names &names) {
  flatbuffers::FlatBufferBuilder builder;
  auto texts = builder.CreateVectorOfStrings(names);
  return finish(builder, wire::RequestBody_ReleaseNames, wire::CreateReleaseNames(builder, session, texts).Union());
}

/// Adds a slot to a state of three numbers.
runtime::EncodedProgram addProgram() {
  const std::string type = "tensor<3xf32>";
  return encode(
      moduleText("(%x: " + type + " {sojourn.kind = \"state\"}, %s: tensor<f64> {sojourn.kind = \"slot\"}) -> (" +
                     type + " {sojourn.result = \"commit\", sojourn.target = 0 : i64})",
                 "    %one = sojourn.convert %s : tensor<f64> -> tensor<f32>\n    %y = sojourn.add %x, %one : " + type +
                     ", tensor<f32>\n    return %y : " + type));
}

uint64_t bits(double value) {
  uint64_t word;
  std::memcpy(&word, &value, sizeof(word));
  return word;
}

StepRequest adding(uint64_t state, double value, Ids releases = {}) {
  StepRequest step;
  step.states = {state};
  step.slots = {bits(value)};
  step.releases = std::move(releases);
  return step;
}

struct ValuesWithNames : testing::Test {
  World world;
  Limits limits;
  std::map<std::string, signing::SigningKey> keys;
  std::unique_ptr<Owner> owner;

  void SetUp() override { open(); }
  void open() {
    owner = std::make_unique<Owner>(world.environment(), limits);
    for (const char *name : {"alice", "bob"}) {
      keys.emplace(name, signing::SigningKey::generate());
      ASSERT_EQ(errorText(owner->accounts().addClient(name, keys.at(name).publicKey())), "");
    }
  }
  Client session(const std::string &name = "alice") { return identified(*owner, keys.at(name)); }
  void end(Client &client) { ASSERT_EQ(client.send(byeBytes(client.session)).error(), ""); }

  void keep(Client &client, uint64_t id, float value) {
    StepRequest step;
    step.uploads = {f32({3}, {value, value, value})};
    step.results = {id};
    ASSERT_EQ(client.run(keepProgram(), step).error(), "");
  }
  float read(Client &client, uint64_t id) {
    StepRequest step;
    step.states = {id};
    Reply reply = client.run(publishProgram(), step);
    EXPECT_EQ(reply.error(), "");
    return reply.error().empty() ? values<float>(reply.published(0))[0] : -1;
  }
  std::string name(Client &client, const std::vector<Entry> &entries) {
    return client.send(nameBytes(client.session, entries)).error();
  }
  std::string take(Client &client, const Names &names, const Ids &ids) {
    return client.send(takeBytes(client.session, names, ids)).error();
  }
  std::string release(Client &client, const Names &names) {
    return client.send(releaseNamesBytes(client.session, names)).error();
  }
  Names list(Client &client, const std::string &tag = "") {
    Reply reply = client.send(listBytes(client.session, tag));
    EXPECT_EQ(reply.error(), "");
    Names found;
    for (const wire::NamedValue *value : *reply.root->body_as_NamedValues()->values()) {
      found.push_back(value->name()->str());
    }
    return found;
  }
  size_t held() const { return owner->figures().valueBytes; }
};

TEST_F(ValuesWithNames, AreFoundByLaterSessionsOfTheAccountAlone) {
  Client first = session();
  keep(first, 1, 4);
  ASSERT_EQ(name(first, {{1, "weights", {"b", "a"}, {1}}}), "");
  end(first);
  Client other = session("bob"), anyone(*owner, "nobody", Peer::client), local(*owner);
  for (Client *client : {&other, &local}) {
    EXPECT_TRUE(list(*client).empty());
    const std::string error = take(*client, {"weights"}, {9});
    EXPECT_NE(error.find("no value has the name 'weights'; none has a name"), std::string::npos) << error;
    EXPECT_NE(release(*client, {"weights"}).find("none has a name"), std::string::npos);
    keep(*client, 1, 5);
    EXPECT_EQ(name(*client, {{1, "weights"}}), "") << "another value, of another account";
    EXPECT_EQ(release(*client, {"weights"}), "");
  }
  EXPECT_TRUE(list(anyone).empty());
  keep(anyone, 1, 5);
  for (const std::string &error :
       {name(anyone, {{1, "weights"}}), take(anyone, {"weights"}, {2}), release(anyone, {"weights"})}) {
    EXPECT_TRUE(error.starts_with("Refused: a client without an identity has no names for values")) << error;
  }
  Client later = session();
  Reply reply = later.send(listBytes(later.session));
  const auto &found = *reply.root->body_as_NamedValues();
  ASSERT_EQ(found.values()->size(), 1u);
  const wire::NamedValue &value = *found.values()->Get(0);
  EXPECT_EQ(value.name()->str(), "weights");
  EXPECT_EQ(value.tags()->Get(0)->str() + value.tags()->Get(1)->str(), "ab");
  EXPECT_EQ(value.dims()->Get(0), 3);
  EXPECT_EQ(value.strides()->Get(0), 1);
  EXPECT_EQ(value.bytes(), 12u);
  EXPECT_EQ(value.named_ms(), world.now);
  EXPECT_EQ(value.reads(), 0u);
  EXPECT_EQ(found.lease_ms(), limits.nameLeaseMs);
  EXPECT_EQ(list(later, "a"), Names{"weights"});
  EXPECT_TRUE(list(later, "c").empty());
  ASSERT_EQ(take(later, {"weights"}, {7}), "");
  EXPECT_EQ(take(later, {"weights"}, {7}), "") << "the same once more, as after a reply that was lost";
  EXPECT_EQ(read(later, 7), 4);
}

TEST_F(ValuesWithNames, CommitsKeepTheName) {
  Client first = session();
  keep(first, 1, 1);
  ASSERT_EQ(name(first, {{1, "w"}}), "");
  ASSERT_EQ(first.run(addProgram(), adding(1, 10)).error(), "");
  StepRequest message = adding(1, 100); // in one call of the worker: states of before are dropped in it
  for (int at = 0; at < 4; ++at) {
    message.repetitions.push_back(adding(1, 100));
  }
  message.repetitions.back().releases = {1}; // the tensor dies in the last step
  Reply reply = first.run(addProgram(), message);
  ASSERT_EQ(reply.error(), "");
  ASSERT_EQ(reply.root->body_as_Done()->steps(), 5u);
  EXPECT_EQ(owner->liveHandles(), 0u);
  end(first);
  Client second = session(), third = session();
  ASSERT_EQ(take(second, {"w"}, {5}), "");
  EXPECT_EQ(read(second, 5), 511);
  ASSERT_EQ(take(third, {"w"}, {5}), "");
  ASSERT_EQ(second.run(addProgram(), adding(5, 1)).error(), "");
  EXPECT_EQ(read(third, 5), 511) << "a session has its own value until it takes the name again";
  ASSERT_EQ(take(third, {"w"}, {6}), "");
  EXPECT_EQ(read(third, 6), 512);
  ASSERT_EQ(third.run(addProgram(), adding(5, 2000)).error(), "");
  ASSERT_EQ(take(second, {"w"}, {6}), "");
  EXPECT_EQ(read(second, 6), 2511) << "the last commit counts";
}

TEST_F(ValuesWithNames, AStepThatFailsChangesNothing) {
  Client first = session();
  keep(first, 1, 1);
  ASSERT_EQ(name(first, {{1, "w"}}), "");
  StepRequest message = adding(1, 1);
  message.repetitions = {adding(1, 1), adding(77, 1)};
  ASSERT_EQ(first.run(addProgram(), message).root->body_as_Done()->steps(), 2u);
  ASSERT_NE(first.run(addProgram(), adding(1, 1, {55})).error(), "");
  end(first);
  Client second = session();
  ASSERT_EQ(take(second, {"w"}, {5}), "");
  EXPECT_EQ(read(second, 5), 3);
}

TEST_F(ValuesWithNames, NamesMove) {
  Client client = session();
  keep(client, 1, 1);
  keep(client, 2, 2);
  ASSERT_EQ(name(client, {{1, "w"}}), "");
  ASSERT_EQ(name(client, {{2, "w", {"new"}}}), "");
  ASSERT_EQ(client.run(addProgram(), adding(1, 50)).error(), ""); // it has lost the name
  ASSERT_EQ(take(client, {"w"}, {3}), "");
  EXPECT_EQ(read(client, 3), 2);
  EXPECT_EQ(name(client, {{1, "other"}}), "");
  const std::string error = name(client, {{2, "third"}});
  EXPECT_NE(error.find("has the name 'w' already"), std::string::npos) << error;
  ASSERT_EQ(name(client, {{2, "w", {"again"}}}), "");
  EXPECT_EQ(list(client, "again"), Names{"w"});
  EXPECT_TRUE(list(client, "new").empty());
  ASSERT_EQ(release(client, {"w"}), "");
  EXPECT_EQ(name(client, {{2, "third"}}), "") << "released, it may have another";
  EXPECT_EQ(read(client, 2), 2) << "the session has it still";
  EXPECT_EQ(list(client), (Names{"other", "third"}));
}

TEST_F(ValuesWithNames, LabelsStay) {
  registerNumbers(*owner, "t", Policy::privateOnly);
  registerNumbers(*owner, "free", Policy::open);
  ASSERT_EQ(errorText(owner->setAccess("free", {false, {"alice"}})), "");
  Client first = session();
  StepRequest step;
  step.tables = {"free"};
  step.results = {1};
  ASSERT_EQ(first.run(readProgram(), step).error(), "");
  ASSERT_EQ(name(first, {{1, "rows"}}), "");
  end(first);
  Client later = session();
  Reply reply = later.send(takeBytes(later.session, {"rows"}, {4}));
  ASSERT_EQ(reply.error(), "");
  EXPECT_EQ(reply.root->body_as_NamedValues()->values()->Get(0)->reads(), 1u);
  const auto fetch = encode(moduleText("(%x: tensor<4x1xf32> {sojourn.kind = \"state\"}) -> (tensor<4x1xf32> "
                                       "{sojourn.result = \"publish\"})",
                                       "    return %x : tensor<4x1xf32>"));
  StepRequest fetching;
  fetching.states = {4};
  EXPECT_EQ(later.run(fetch, fetching).error(), "");
  ASSERT_EQ(errorText(owner->setPolicy("free", Policy::privateOnly, true)), "");
  reply = later.send(listBytes(later.session));
  EXPECT_EQ(reply.root->body_as_NamedValues()->values()->Get(0)->reads(), 2u) << "the policy as it is now";
  EXPECT_TRUE(later.run(fetch, fetching).error().starts_with("Refused")) << "grants and labels, as for any handle";
  // A commit that brings another label brings it to the name as well.
  Client local(*owner);
  keep(local, 1, 0);
  ASSERT_EQ(name(local, {{1, "sum"}}), "");
  const auto addRows = encode(
      moduleText("(%x: tensor<3xf32> {sojourn.kind = \"state\"}, %r: tensor<4x1xf32> {sojourn.kind = \"state\"}) -> "
                 "(tensor<3xf32> {sojourn.result = \"commit\", sojourn.target = 0 : i64})",
                 "    %s = sojourn.reduce_sum %r, dims = [0, 1] : tensor<4x1xf32>\n"
                 "    %y = sojourn.add %x, %s : tensor<3xf32>, tensor<f32>\n    return %y : tensor<3xf32>"));
  ASSERT_EQ(errorText(owner->setPolicy("free", Policy::open)), "");
  StepRequest reading;
  reading.tables = {"free"};
  reading.results = {2};
  ASSERT_EQ(local.run(readProgram(), reading).error(), "");
  StepRequest mixing;
  mixing.states = {1, 2};
  ASSERT_EQ(local.run(addRows, mixing).error(), "");
  ASSERT_EQ(errorText(owner->setPolicy("free", Policy::privateOnly)), "");
  end(local);
  Client again(*owner);
  ASSERT_EQ(take(again, {"sum"}, {1}), "");
  StepRequest publishing;
  publishing.states = {1};
  EXPECT_TRUE(again.run(publishProgram(), publishing).error().starts_with("Refused")) << "the label of the commit";
}

TEST_F(ValuesWithNames, EndWithTheirLease) {
  limits.nameLeaseMs = 10'000;
  limits.leaseMs = 1'000'000;
  open();
  Client first = session();
  keep(first, 1, 1);
  keep(first, 2, 1);
  ASSERT_EQ(name(first, {{1, "used"}, {2, "left"}}), "");
  ASSERT_EQ(first.send(releaseBytes(first.session, {2})).error(), "");
  const size_t both = held();
  world.now += 10'000;
  EXPECT_EQ(list(first), (Names{"left", "used"}));
  world.now += 1;
  EXPECT_EQ(list(first), Names{"used"}) << "what a session has is in use";
  owner->tidy();
  EXPECT_LT(held(), both);
  end(first);
  world.now += 10'000;
  Client second = session();
  ASSERT_EQ(take(second, {"used"}, {1}), "");
  ASSERT_EQ(second.send(releaseBytes(second.session, {1})).error(), "");
  world.now += 10'001;
  const std::string error = take(second, {"used"}, {1});
  EXPECT_NE(error.find("its value has not been used for 10 seconds"), std::string::npos) << error;
  end(second);
  owner->tidy();
  EXPECT_EQ(held(), 0u);
}

TEST_F(ValuesWithNames, GoWithTheirClient) {
  Client first = session(), other = session("bob");
  keep(first, 1, 1);
  keep(other, 1, 1);
  ASSERT_EQ(name(first, {{1, "w"}}), "");
  ASSERT_EQ(name(other, {{1, "w"}}), "");
  ASSERT_EQ(errorText(owner->accounts().changeKey("alice", signing::SigningKey::generate().publicKey())), "");
  owner->tidy();
  EXPECT_EQ(owner->namedValues("alice").size(), 1u) << "a client with a new key is the same client";
  ASSERT_EQ(errorText(owner->removeClient("alice")), "");
  owner->tidy();
  EXPECT_TRUE(owner->namedValues("alice").empty());
  EXPECT_EQ(owner->namedValues().size(), 1u);
}

TEST_F(ValuesWithNames, BadRequestsChangeNothing) {
  limits.namedValues = 2;
  open();
  Client client = session(), other = session();
  keep(client, 1, 1);
  keep(client, 2, 2);
  keep(client, 3, 3);
  keep(other, 1, 1);
  const std::string longName(runtime::limits::kNameBytes + 1, 'n');
  const std::vector<std::pair<std::vector<Entry>, std::string>> bad{
      {{{1, "ok"}, {9, "x"}}, "Handle: cannot name handle 9 'x': this session has no such handle"},
      {{{1, "ok"}, {2, "a/b"}}, "Malformed: 'a/b' is not a valid name for a value"},
      {{{1, "ok"}, {2, ""}}, "Malformed: '' is not a valid name for a value"},
      {{{1, "ok"}, {2, longName}}, "Malformed: a name has 257 bytes"},
      {{{1, "ok"}, {2, std::string("a\0b", 3)}}, "is not a valid name for a value"},
      {{{1, "ok"}, {2, "ok"}}, "Malformed: the request names two values 'ok'"},
      {{{1, "ok"}, {1, "b"}}, "or one value twice"},
      {{{1, "ok"}, {2, "b", {"x,y"}}}, "a tag is 'x,y'"},
      {{{1, "ok"}, {2, "b", Names(Description::kTags + 1, "t")}, {3, "c"}}, "Limit: the request names 3 values"},
      {{{1, "ok"}, {2, "b", {longName}}}, "Malformed: a tag has 257 bytes"},
      {{{1, "ok"}, {2, "b", Names(1000, "t")}}, "1000 tags"},
      {{{1, "ok"}, {2, "b", {}, {1, 2}}}, "has 1 dimensions, and the request gives 2 strides"},
      {{{1, "ok"}, {2, "b", {}, std::vector<int64_t>(17, 1)}}, "17 strides or sizes, expected up to 16"},
      {{{1, "ok"}, {2, "b", {}, {}, {2, 2}}}, "has 3 elements, and the shape in the request has others"},
      {{{1, "ok"}, {2, "b", {}, {}, {-3, -1}}}, "the shape in the request has others"},
      {{{1, "ok"}, {2, "b", {}, {}, {int64_t{1} << 62, 4, 3}}}, "the shape in the request has others"},
  };
  const size_t before = held();
  for (const auto &[entries, expected] : bad) {
    const std::string error = name(client, entries);
    EXPECT_NE(error.find(expected), std::string::npos) << error;
  }
  EXPECT_TRUE(list(client).empty());
  EXPECT_EQ(held(), before);
  ASSERT_EQ(name(client, {}), "");
  ASSERT_EQ(name(client, {{1, "a"}, {2, "b"}}), "");
  EXPECT_NE(name(client, {{3, "c"}}).find("Limit: you have 2 values with names, and 1 more pass the limit of 2"),
            std::string::npos);
  EXPECT_EQ(name(client, {{3, "b"}}), "") << "in the place of another";
  const std::vector<std::tuple<Names, Ids, std::string>> badTakes{
      {{"a"}, {1}, "Malformed: handle id 1 is in use"}, {{"a", "b"}, {5}, "2 values get 1 handles"},
      {{"a", "b"}, {5, 5}, "each of them once"},        {{"a", "x"}, {5, 6}, "names are 'a', 'b'"},
      {{"a", "b", "x"}, {5, 6, 7}, "expected up to 2"}, {{longName}, {5}, "257 bytes"},
  };
  for (const auto &[names, ids, expected] : badTakes) {
    const std::string error = take(other, names, ids);
    EXPECT_NE(error.find(expected), std::string::npos) << error;
  }
  EXPECT_EQ(owner->liveHandles(), 4u) << "all or none";
  EXPECT_NE(release(client, {"a", "x"}).find("no value has the name 'x'"), std::string::npos);
  EXPECT_EQ(list(client), (Names{"a", "b"}));
  EXPECT_EQ(release(client, {"a", "a"}), "") << "twice in one request is once";
  EXPECT_EQ(list(client), Names{"b"});
  for (const std::string &request : {nameBytes(77, {{1, "a"}}), listBytes(77), takeBytes(77, {"a"}, {1}),
                                     releaseNamesBytes(77, {"a"}), listBytes(0)}) {
    EXPECT_TRUE(client.send(request).error().starts_with("Session:"));
  }
  flatbuffers::FlatBufferBuilder empty;
  EXPECT_NE(client
                .send(finish(empty, wire::RequestBody_TakeValues,
                             wire::CreateTakeValues(empty, client.session, 0, empty.CreateVector(Ids{5})).Union()))
                .error(),
            "");
}

TEST_F(ValuesWithNames, BytesCountOnceAndStayWithTheAccount) {
  limits.handleBytes = size_t{1} << 20;
  open();
  Client first = session();
  StepRequest step;
  const std::string type = "tensor<50000xf32>";
  const auto large =
      encode(moduleText("(%x: " + type + " {sojourn.kind = \"upload\"}) -> (" + type + " {sojourn.result = \"keep\"})",
                        "    return %x : " + type));
  step.uploads = {f32({50'000}, std::vector<float>(50'000, 1))};
  step.results = {1};
  ASSERT_EQ(first.run(large, step).error(), "");
  const size_t value = held();
  ASSERT_EQ(name(first, {{1, "large"}}), "");
  const size_t entry = held() - value;
  EXPECT_LT(entry, 1'500u) << "the value is there once";
  end(first);
  EXPECT_EQ(held(), value - kProgramBytes + entry);
  Client second = session();
  ASSERT_EQ(take(second, {"large"}, {1}), "");
  EXPECT_EQ(held(), value - kProgramBytes + entry) << "and counts once still";
  step.results = {2};
  ASSERT_EQ(second.run(large, step).error(), "");
  step.results = {3}; // a half of the owner's memory is the account's share
  EXPECT_NE(second.run(large, step).error().find("Limit:"), std::string::npos);
  end(second);
  Client third = session();
  ASSERT_EQ(release(third, {"large"}), "");
  EXPECT_EQ(held(), 0u) << "when the client hears of it";
}

/// Values, names and sessions at random, against a model of them; nothing is left in the end.
TEST_F(ValuesWithNames, RandomUse) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  auto below = [&](size_t most) { return static_cast<size_t>(random() % most); };
  struct Tensor {
    float value;
    std::string name; ///< that follows it
    int version;      ///< of the name: moves with it
  };
  struct Open {
    Client client;
    std::map<uint64_t, Tensor> tensors;
  };
  struct Named {
    float value;
    int version;
  };
  std::list<Open> sessions;
  std::map<std::string, Named> named;
  uint64_t next = 1;
  int version = 0;
  const Names all{"a", "b", "c"};
  for (int turn = 0; turn < 400; ++turn) {
    if (sessions.empty() || (sessions.size() < 3 && below(10) == 0)) {
      sessions.push_back({session(), {}});
    }
    const auto which = std::next(sessions.begin(), static_cast<ptrdiff_t>(below(sessions.size())));
    Open &open = *which;
    const std::string &label = all[below(all.size())];
    auto tensor = open.tensors.empty()
                      ? open.tensors.end()
                      : std::next(open.tensors.begin(), static_cast<ptrdiff_t>(below(open.tensors.size())));
    const bool has = tensor != open.tensors.end();
    auto follows = [&](const Tensor &of) {
      auto known = named.find(of.name);
      return known != named.end() && known->second.version == of.version;
    };
    switch (below(8)) {
    case 0:
      keep(open.client, next, static_cast<float>(next));
      open.tensors[next] = {static_cast<float>(next), "", 0};
      ++next;
      break;
    case 1:
      if (has) {
        const std::string error = name(open.client, {{tensor->first, label}});
        if (follows(tensor->second) && tensor->second.name != label) {
          EXPECT_NE(error, "");
        } else {
          EXPECT_EQ(error, "");
          if (!follows(tensor->second)) {
            tensor->second.name = label;
            tensor->second.version = ++version;
            named[label] = {tensor->second.value, version};
          }
        }
      }
      break;
    case 2: {
      const std::string error = take(open.client, {label}, {next});
      ASSERT_EQ(error.empty(), named.contains(label)) << error;
      if (error.empty()) {
        open.tensors[next] = {named[label].value, label, named[label].version};
        ++next;
      }
      break;
    }
    case 3:
    case 4:
      if (has) {
        StepRequest message = adding(tensor->first, 1);
        const size_t more = below(4);
        for (size_t at = 0; at < more; ++at) {
          message.repetitions.push_back(adding(tensor->first, 1));
        }
        const bool dies = below(3) == 0;
        (more ? message.repetitions.back() : message).releases = dies ? Ids{tensor->first} : Ids();
        ASSERT_EQ(open.client.run(addProgram(), message).error(), "");
        tensor->second.value += static_cast<float>(1 + more);
        if (follows(tensor->second)) {
          named[tensor->second.name].value = tensor->second.value;
        }
        if (dies) {
          open.tensors.erase(tensor);
        }
      }
      break;
    case 5:
      if (has) {
        ASSERT_EQ(read(open.client, tensor->first), tensor->second.value);
      }
      break;
    case 6: ASSERT_EQ(release(open.client, {label}).empty(), named.erase(label) > 0); break;
    default:
      if (below(3) == 0) {
        end(open.client);
        sessions.erase(which);
      } else if (has) {
        ASSERT_EQ(open.client.send(releaseBytes(open.client.session, {tensor->first})).error(), "");
        open.tensors.erase(tensor);
      }
    }
  }
  for (Open &open : sessions) {
    end(open.client);
  }
  Client last = session();
  for (const auto &[label, value] : named) {
    ASSERT_EQ(take(last, {label}, {next}), "");
    EXPECT_EQ(read(last, next++), value.value);
    ASSERT_EQ(release(last, {label}), "");
  }
  end(last);
  owner->tidy();
  EXPECT_EQ(held(), 0u);
}

} // namespace

} // namespace sojourn::owner::test
