// SPDX-License-Identifier: Apache-2.0
// Clients with keys (see Clients.h); their handshake is that of runtime/signing/Proof.h.
#include "test/attack/Clients.h"

#include "dialect/Version.h"
#include "test/attack/Tables.h"
#include "test/owner/Support.h"

#include "llvm/Support/Error.h"

using namespace sojourn;
using namespace sojourn::attack;
using signing::SigningKey;
namespace wire_ = sojourn_wire;

static const char *const kNames[kClients] = {owner::kLocalClient, "ada", "ben"};

Clients::Clients(owner::Owner &owner) {
  for (size_t client = 1; client < kClients; ++client) {
    keys.push_back(SigningKey::generate());
    llvm::cantFail(owner.accounts().addClient(kNames[client], keys.back().publicKey()));
  }
  for (const TableShape &shape : tableShapes()) {
    if (!shape.isPrivate) {
      llvm::cantFail(owner.openToAnyone(shape.name));
      continue;
    }
    llvm::cantFail(owner.setCap(shape.name, 0x1p18, 1e-4));
    for (const char *name : kNames) {
      bool isPoor = name == kNames[2]; // one who may learn little
      llvm::cantFail(owner.grant(name, shape.name, isPoor ? 64 : 0x1p16, 1e-5));
    }
  }
}

static flatbuffers::Offset<flatbuffers::Vector<uint8_t>> vector(flatbuffers::FlatBufferBuilder &builder,
                                                                std::string_view data) {
  return builder.CreateVector(reinterpret_cast<const uint8_t *>(data.data()), data.size());
}

static std::string finish(flatbuffers::FlatBufferBuilder &builder, wire_::RequestBody kind,
                          flatbuffers::Offset<void> body) {
  wire_::FinishRequestBuffer(builder, wire_::CreateRequest(builder, kind, body));
  return {reinterpret_cast<const char *>(builder.GetBufferPointer()), builder.GetSize()};
}

template <class Bytes>
static std::string text(const Bytes &bytes) {
  return {reinterpret_cast<const char *>(bytes.data()), bytes.size()};
}

/// A text after its length.
static std::string counted(const std::string &bytes) {
  std::string length;
  for (int shift : {0, 8, 16, 24}) {
    length += static_cast<char>(bytes.size() >> shift);
  }
  return length + bytes;
}

uint64_t Clients::connect(size_t client, llvm::function_ref<std::string(const std::string &)> send) const {
  auto session = [](const owner::test::Reply &reply) {
    const auto *welcome = reply.root->body_as_Welcome();
    return welcome ? welcome->session() : 0;
  };
  if (client == 0) {
    return session(owner::test::Reply(send(owner::test::helloBytes("mallory"))));
  }
  const SigningKey &key = keys[client - 1];
  std::string nonce(32, 'n'), identity = text(key.publicKey());
  flatbuffers::FlatBufferBuilder hello;
  auto name = hello.CreateString("mallory");
  auto identityBytes = vector(hello, identity), nonceBytes = vector(hello, nonce);
  owner::test::Reply reply(send(finish(hello, wire_::RequestBody_Hello,
                                       wire_::CreateHello(hello, wire::kProtocolVersion, runtime::kFormatVersion,
                                                          kDialectVersion, name, identityBytes, nonceBytes)
                                           .Union())));
  const auto *challenge = reply.root->body_as_Challenge();
  if (!challenge) {
    return 0;
  }
  auto copy = [](const flatbuffers::Vector<uint8_t> *bytes) { return text(*bytes); };
  std::string asked = copy(challenge->challenge()), ownerKey = copy(challenge->owner_key());
  std::string signature =
      text(key.sign("sojourn client proof 1", ownerKey + identity + counted(nonce) + counted(asked)));
  flatbuffers::FlatBufferBuilder prove;
  auto again = prove.CreateString("mallory");
  auto mine = vector(prove, identity), drawn = vector(prove, nonce), given = vector(prove, asked),
       proof = vector(prove, signature);
  return session(owner::test::Reply(send(
      finish(prove, wire_::RequestBody_Prove, wire_::CreateProve(prove, again, mine, drawn, given, proof).Union()))));
}

std::vector<std::string> Clients::spent(owner::Owner &owner) const {
  std::vector<std::string> spent(kClients);
  auto lines = owner.accounts().ledger().accounts();
  if (!lines) {
    return spent;
  }
  for (const auto &line : *lines) {
    for (size_t client = 0; client < kClients; ++client) {
      if (line.client == kNames[client]) {
        spent[client] += line.dataset + ": " + std::to_string(line.spent.delta);
        for (uint64_t divergence : line.spent.rdp) {
          spent[client] += " " + std::to_string(divergence);
        }
        spent[client] += "; ";
      }
    }
  }
  return spent;
}
