// SPDX-License-Identifier: Apache-2.0
// Canonical bytes, signatures, receipts and the owner's key file.
#include "runtime/signing/Receipt.h"
#include "test/owner/ledger/SecondVersion.h"
#include "test/owner/ledger/Support.h"

#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sys/stat.h>

namespace sojourn::owner::ledger::test {

namespace {

/// Signed by `owner`, with tables of its own.
Receipt sample(const PublicKey &owner) {
  Receipt receipt;
  receipt.what = "mean of age";
  receipt.client = "ada";
  receipt.items = {{"people", "v1", owner, 0.1, 0.0875, 0.21, 0.18, 1e-5},
                   {"cars", "v2", owner, 0.25, 0.2, std::numeric_limits<double>::infinity(), 0.5, 1e-6}};
  receipt.relation = Relation::replaceOne;
  receipt.programHash = hashOf("program");
  receipt.seq = 17;
  receipt.entryHash = hashOf("entry");
  receipt.timeMs = 1'700'000'000'123;
  receipt.resultDigest = hashOf("result");
  receipt.sites = {{1 << 21, 99, -14, "sum of age"}};
  receipt.notes = {"the time of a reply is not protected"};
  return receipt;
}

/// Any body with any fields that a writer may be given.
Body randomBody(std::mt19937_64 &random) {
  auto text = [&] { return std::string(random() % 20, static_cast<char>(random())); };
  auto hash = [&] { return hashNumber(random()); };
  auto relation = [&] { return random() % 2 ? Relation::nullOne : Relation::replaceOne; };
  auto items = [&] {
    std::vector<Item> items(random() % 3);
    for (Item &item : items) {
      item = {text(), text(), text(), chargeOf(random() % 1000), hash()};
    }
    return items;
  };
  auto sites = [&] {
    std::vector<Site> sites(random() % 3);
    for (Site &site : sites) {
      site = {random(), random(), static_cast<int32_t>(random()), text()};
    }
    return sites;
  };
  switch (random() % std::variant_size_v<Body>) {
  case 0: return ClientAdded{text(), text()};
  case 1: return DatasetLinked{text(), text(), relation()};
  case 2: return CapSet{text(), {static_cast<double>(random()), 0.5}};
  case 3: return GrantSet{text(), text(), {0.1, 1e-9}};
  case 4: return Reserved{text(), text(), text(), hash(), relation(), items(), sites(), random()};
  case 5: return Started{random()};
  case 6: return Sealed{random(), random(), hash()};
  case 7: return Delivered{random()};
  case 8: return Voided{random(), text()};
  case 9: return Burnt{random(), text()};
  case 10:
    return RunOpened{text(), text(), hash(), relation(), items(), sites(), random(), random() % 2 == 0, random()};
  case 11: return BlockStarted{random(), random(), {chargeOf(random() % 9), chargeOf(3)}};
  case 12: return BlockEnded{random(), random(), random() % 2 == 0};
  default: return RunClosed{random(), random()};
  }
}

} // namespace

TEST(Bytes, OfAnEntryAreFixed) {
  Entry entry{7, 6, hashOf("before"), -2, Sealed{5, 300, hashOf("x")}};
  // The layout written down once more; the hashes from Python's hashlib.blake2b(digest_size=32).
  std::string expected = "534a4c4503"       // SJLE, format 3
                         "0700000000000000" // number
                         "0600000000000000" // batch
                         "c0ad7434849eec989026ef4e082140af5761ab5561412c2615e7bc53605c85a0"
                         "feffffffffffffff" // time
                         "06"               // sealed
                         "0500000000000000" // publish
                         "2c01000000000000" // size
                         "d161d71145abeec5ef15abcf0459cec60a27321e2f0ac0ef7ace5254f5944476";
  EXPECT_EQ(hex(encode(entry)), expected);
  EXPECT_EQ(hex(hashOf(encode(entry))), "17719994c744743666b1d28e959a74811a57f64e492508bbae017802551c0f44");
  entry.version = 2;
  expected[9] = '2';
  EXPECT_EQ(hex(encode(entry)), expected);
  EXPECT_EQ(hex(hashOf(encode(entry))), "41116d866fae2909268011e434cffc4a30684032965a662fcdd43f350d2f1080");
  entry.version = 1;
  expected[9] = '1';
  EXPECT_EQ(hex(encode(entry)), expected);
  EXPECT_EQ(hex(hashOf(encode(entry))), "c69dc68909776494bfbc30a111fb1ef598af1a12f929a1a003e5ae06614638f4");
}

TEST(Bytes, OfAChargeSayWhoseTableItIsFor) {
  privacy::Charge charge;
  charge.rdp.fill(7);
  charge.delta = 9;
  PublicKey owner = hashOf("owner");
  std::vector<Item> items{{"people", "v1", "humans", charge, owner}};
  Entry entry{7, 6, hashOf("before"), -2, Reserved{"ada", "k", "mean", hashOf("program"), {}, items, {}, 5}};
  std::get<Reserved>(entry.body).relation = Relation::nullOne;
  // From Python, where struct.pack writes the layout of each version.
  const char *expected[] = {"05490fba33908e698a9d9223d72b594f084435e64952403db31c1cc7c6d6e590",
                            "76d3cf34a17bc1f13fed15dc2feb7992a1753b59008d497a07cf849c256f6c60",
                            "c067b3136f744d36404329a6d44f8dbf82970462dd1f173d9d5e57ebe2d955e1"};
  for (uint8_t version : {1, 2, 3}) {
    entry.version = version;
    std::string bytes = encode(entry);
    EXPECT_EQ(hex(hashOf(bytes)), expected[version - 1]) << int(version);
    bool saysOwner = bytes.find(std::string(owner.begin(), owner.end())) != std::string::npos;
    EXPECT_EQ(saysOwner, version == 3);
    auto again = decode(bytes);
    ASSERT_TRUE(again);
    EXPECT_EQ(std::get<Reserved>(again->body).items[0].owner, saysOwner ? owner : PublicKey{});
  }
}

TEST(Bytes, OneEntryHasOneEncoding) {
  uint64_t seed = freshSeed();
  SCOPED_TRACE("SOJOURN_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  int decoded = 0;
  for (int round = 0; round < 3000; ++round) {
    Entry entry{random(),
                random(),
                hashNumber(random()),
                static_cast<int64_t>(random()),
                randomBody(random),
                static_cast<uint8_t>(1 + random() % kEntryVersion)};
    std::string bytes = encode(entry);
    std::optional<Entry> again = decode(bytes);
    ASSERT_TRUE(again) << kindName(entry.body);
    EXPECT_EQ(again->body.index(), entry.body.index());
    EXPECT_EQ(encode(*again), bytes);
    EXPECT_FALSE(decode(bytes + '\0'));
    EXPECT_FALSE(decode(std::string_view(bytes).substr(0, random() % bytes.size())));
    for (int change = 0; change < 5; ++change) {
      std::string changed = bytes;
      changed[random() % changed.size()] ^= static_cast<char>(1 + random() % 255);
      if (auto other = decode(changed)) {
        ++decoded;
        EXPECT_EQ(encode(*other), changed);
      }
    }
  }
  EXPECT_GT(decoded, 0);
}

TEST(Receipts, CanBeCheckedByAnyoneWithTheKey) {
  SigningKey key = SigningKey::generate();
  std::string bytes = signReceipt(sample(key.publicKey()), key);
  EXPECT_EQ(signReceipt(sample(key.publicKey()), key), bytes) << "a retry's receipt is the same";
  auto receipt = verifyReceipt(bytes, key.publicKey());
  ASSERT_TRUE(receipt) << receipt.problem().text;
  EXPECT_EQ(*receipt, sample(key.publicKey()));
  auto other = verifyReceipt(bytes, SigningKey::generate().publicKey());
  ASSERT_FALSE(other);
  EXPECT_NE(other.problem().text.find("not signed by this owner"), std::string::npos);
  for (size_t byte = 0; byte < bytes.size(); ++byte) {
    std::string changed = bytes;
    changed[byte] ^= 1;
    EXPECT_FALSE(verifyReceipt(changed, key.publicKey())) << byte;
    EXPECT_FALSE(verifyReceipt(bytes.substr(0, byte), key.publicKey())) << byte;
  }
  EXPECT_FALSE(verifyReceipt(bytes + "x", key.publicKey()));
  Signature signature = key.sign("another context", "bytes");
  EXPECT_TRUE(isSigned(key.publicKey(), "another context", "bytes", signature));
  EXPECT_FALSE(isSigned(key.publicKey(), "another contextb", "ytes", signature));
}

TEST(Receipts, AreOfTheSigningOwnersTablesAlone) {
  SigningKey key = SigningKey::generate(), other = SigningKey::generate();
  for (size_t index : {0, 1}) {
    Receipt receipt = sample(key.publicKey());
    receipt.items[index].owner = other.publicKey();
    std::string bytes = signReceipt(receipt, key);
    auto verified = verifyReceipt(bytes, key.publicKey());
    ASSERT_FALSE(verified);
    EXPECT_EQ(verified.problem().text, "the receipt is signed by this owner, " + shortKeyText(key.publicKey()) +
                                           "..., but states a price of dataset '" + receipt.items[index].dataset +
                                           "' of another owner, " + shortKeyText(other.publicKey()) +
                                           "...; an owner signs only for its own tables: ask that owner for a receipt");
    auto ofOther = verifyReceipt(bytes, other.publicKey());
    ASSERT_FALSE(ofOther);
    EXPECT_NE(ofOther.problem().text.find("not signed by this owner"), std::string::npos);
    auto read = readReceipt(bytes);
    ASSERT_TRUE(read);
    EXPECT_EQ(read->items[index].owner, other.publicKey()) << "what it says may be seen";
    receipt.items[index].owner = {};
    EXPECT_FALSE(verifyReceipt(signReceipt(receipt, key), key.publicKey())) << "nobody's";
  }
}

TEST(Receipts, OfTheFirstVersionAreStillRead) {
  std::string bytes = fromHex(kFirstReceipt);
  auto key = parseKey(kFirstReceiptKey);
  ASSERT_TRUE(key);
  auto receipt = verifyReceipt(bytes, *key);
  ASSERT_TRUE(receipt) << receipt.problem().text;
  EXPECT_EQ(*receipt, sample({}));
  EXPECT_TRUE(nlohmann::json::parse(receiptJson(*receipt))["price"][0]["owner"].is_null()) << "it did not say";
  for (size_t byte = 0; byte < bytes.size(); ++byte) {
    std::string changed = bytes;
    changed[byte] ^= byte == 4 ? 3 : 1; // of the version: the first becomes the second
    EXPECT_FALSE(verifyReceipt(changed, *key)) << byte;
  }
  bytes[4] = 3;
  auto later = readReceipt(bytes);
  ASSERT_FALSE(later);
  EXPECT_EQ(later.problem().text, "these bytes are not a receipt of this release");
}

TEST(Receipts, HaveAFormForPeople) {
  SigningKey key = SigningKey::generate();
  Receipt receipt = sample(key.publicKey());
  receipt.what = "name with \xff byte";
  std::string bytes = signReceipt(receipt, key);
  auto json = nlohmann::json::parse(receiptJson(receipt, bytes, key.publicKey()), nullptr, false);
  ASSERT_TRUE(json.is_object());
  EXPECT_EQ(json["price"][0]["owner"], keyText(key.publicKey()));
  EXPECT_EQ(json["price"][0]["epsilon"].get<double>(), 0.1);
  EXPECT_EQ(json["price"][0]["epsilon_of_best_order"].get<double>(), 0.0875);
  EXPECT_EQ(json["price"][0]["epsilon_replace_one"].get<double>(), 0.21);
  EXPECT_EQ(json["price"][0]["epsilon_replace_one_of_best_order"].get<double>(), 0.18);
  EXPECT_TRUE(json["price"][1]["epsilon_replace_one"].is_null()) << "JSON has no infinity";
  EXPECT_EQ(json["price"][1]["delta"].get<double>(), 1e-6);
  EXPECT_EQ(json["relation"], "replace_one");
  EXPECT_EQ(json["entry"], 17);
  EXPECT_EQ(json["program"], hex(hashOf("program")));
  EXPECT_EQ(json["noise"][0]["sigma_int"], 1 << 21);
  EXPECT_EQ(json["signed"], hex(bytes));
  EXPECT_EQ(json["notes"][0], "the time of a reply is not protected");
}

TEST(SigningKeys, AreMadeOnceAndKeptFromOthers) {
  Folder folder;
  std::string path = folder.file("owner.key");
  auto first = SigningKey::open(path);
  ASSERT_TRUE(first) << first.problem().text;
  auto second = SigningKey::open(path);
  ASSERT_TRUE(second);
  EXPECT_EQ(first->publicKey(), second->publicKey());
  EXPECT_EQ(first->sign("c", "b"), second->sign("c", "b"));
  EXPECT_EQ(std::filesystem::status(path).permissions(), std::filesystem::perms(0600));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path), {}), 1) << "nothing is left beside it";
  ASSERT_EQ(chmod(path.c_str(), 0640), 0);
  auto shared = SigningKey::open(path);
  ASSERT_FALSE(shared);
  EXPECT_NE(shared.problem().text.find("chmod 600 " + path), std::string::npos);
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  std::ofstream(path, std::ios::app) << "x";
  auto longer = SigningKey::open(path);
  ASSERT_FALSE(longer);
  EXPECT_NE(longer.problem().text.find("is not an owner's key"), std::string::npos);
  auto nowhere = SigningKey::open("/nonexistent/owner.key");
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(nowhere.problem().code, Code::disk);
}

TEST(SigningKeys, OfClientsAreNeverOverwritten) {
  Folder folder;
  std::string path = folder.file("me.key");
  auto missing = SigningKey::openClient(path);
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.problem().text.find("create one with: sojourn keygen " + path), std::string::npos);
  auto made = SigningKey::makeClient(path);
  ASSERT_TRUE(made) << made.problem().text;
  EXPECT_EQ(std::filesystem::status(path).permissions(), std::filesystem::perms(0600));
  EXPECT_EQ(std::filesystem::status(path + ".pub").permissions(), std::filesystem::perms(0644));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path), {}), 2) << "nothing is left beside them";
  auto opened = SigningKey::openClient(path);
  ASSERT_TRUE(opened);
  EXPECT_EQ(opened->publicKey(), made->publicKey());
  auto half = readPublicKey(path + ".pub");
  ASSERT_TRUE(half) << half.problem().text;
  EXPECT_EQ(*half, made->publicKey());
  auto again = SigningKey::makeClient(path);
  ASSERT_FALSE(again);
  EXPECT_NE(again.problem().text.find("never overwritten"), std::string::npos);
  // Either half alone keeps both from being made.
  std::filesystem::remove(path);
  EXPECT_FALSE(SigningKey::makeClient(path));
  EXPECT_FALSE(std::filesystem::exists(path));
  std::filesystem::remove(path + ".pub");
  std::ofstream(path) << "mine";
  EXPECT_FALSE(SigningKey::makeClient(path));
  EXPECT_FALSE(std::filesystem::exists(path + ".pub"));
}

TEST(SigningKeys, AreNotTakenForOneAnother) {
  Folder folder;
  std::string owner = folder.file("owner.key"), client = folder.file("client.key");
  ASSERT_TRUE(SigningKey::open(owner) && SigningKey::makeClient(client));
  auto says = [](const auto &result, const std::string &part) {
    ASSERT_FALSE(result);
    EXPECT_NE(result.problem().text.find(part), std::string::npos) << result.problem().text;
  };
  says(SigningKey::openClient(owner), "is not a client's secret key");
  says(SigningKey::open(client), "is not an owner's key");
  says(readPublicKey(client), "is the secret key of a client; ask for the public key");
  says(readPublicKey(owner), "is not the public key of a client");
  says(readPublicKey(folder.file("none")), "cannot open");
  ASSERT_EQ(chmod(client.c_str(), 0604), 0);
  says(SigningKey::openClient(client), "other users may read the client's secret key");
  // A point of small order would have signatures that anyone can make.
  std::ofstream(folder.file("zero.pub")) << "sojourn client public key 1\n" << std::string(64, '0') << "\n";
  says(readPublicKey(folder.file("zero.pub")), "is not the public key of a client");
  EXPECT_FALSE(parseKey("12"));
  EXPECT_FALSE(parseKey(std::string(64, 'g')));
  PublicKey key = SigningKey::generate().publicKey();
  EXPECT_EQ(parseKey("  " + keyText(key) + "\n"), std::optional(key));
}

TEST(Receipts, CanBeReadBeforeTheyAreChecked) {
  SigningKey key = SigningKey::generate();
  std::string bytes = signReceipt(sample(key.publicKey()), key);
  auto read = readReceipt(bytes);
  ASSERT_TRUE(read);
  EXPECT_EQ(*read, sample(key.publicKey()));
  EXPECT_FALSE(readReceipt(bytes.substr(1)));
  EXPECT_FALSE(readReceipt(bytes.substr(0, 40)));
  auto json = nlohmann::json::parse(receiptJson(*read));
  EXPECT_EQ(json["client"], "ada");
  EXPECT_FALSE(json.contains("owner_key")) << "what was not checked names no owner";
}

TEST(Receipts, NameTheEntryThatSealed) {
  World world;
  auto ledger = world.open(/*inMemory=*/true);
  admitAda(*ledger, 1);
  Ticket ticket = std::get<Ticket>(ledger->reserve(requestOf("k", 1)));
  ASSERT_EQ(textOf(ledger->start(ticket)), "");
  auto sealed = ledger->seal(ticket, "bytes");
  ASSERT_TRUE(sealed);
  auto lines = ledger->entries(1);
  ASSERT_TRUE(lines);
  EXPECT_EQ((*lines)[0].entry.seq, sealed->seq);
  EXPECT_EQ(hashOf(encode((*lines)[0].entry)), sealed->hash);
  EXPECT_EQ(std::get<Sealed>((*lines)[0].entry.body).digest, sealed->digest);
}

} // namespace sojourn::owner::ledger::test
