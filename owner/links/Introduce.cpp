// SPDX-License-Identifier: Apache-2.0
// The messages of a handshake (see Introduce.h), as canonical bytes.
#include "owner/links/Introduce.h"

#include "owner/Error.h"
#include "owner/Text.h"
#include "owner/links/Talk.h"
#include "runtime/signing/Bytes.h"
#include "runtime/signing/Introduction.h"

#include <sodium.h>

namespace sojourn::owner {

using llvm::Twine;
using signing::PublicKey;
using stream::FrameKind;

namespace {

constexpr std::string_view kDialerProof = "sojourn peer dialer 1", kAcceptorProof = "sojourn peer acceptor 1";
/// Of a message of the handshake.
constexpr size_t kMessageMost = 2'048, kRefusalMost = 1'024;

using Nonce = std::array<uint8_t, 32>;

Nonce freshNonce() {
  Nonce nonce{};
  randombytes_buf(nonce.data(), nonce.size());
  return nonce;
}

struct Hello {
  uint32_t version = kLinkVersion;
  PublicKey own{}, expected{};
  Nonce nonce{};
  LinkPurpose purpose = LinkPurpose::link;
  static void fields(auto &archive, auto &hello) {
    archive(hello.version, hello.own, hello.expected, hello.nonce, hello.purpose);
  }
};

struct Answer {
  uint32_t version = kLinkVersion;
  PublicKey own{};
  Nonce nonce{};
  signing::Signature signature{}; ///< zeros where the version or the expected key is another
  static void fields(auto &archive, auto &answer) {
    archive(answer.version, answer.own, answer.nonce, answer.signature);
  }
};

struct Proof {
  signing::Signature signature{};
  static void fields(auto &archive, auto &proof) { archive(proof.signature); }
};

struct Verdict {
  std::string refusal;
  static void fields(auto &archive, auto &verdict) { archive(verdict.refusal); }
};

template <class Message>
std::string bytesOf(const Message &message) {
  signing::Writer writer;
  writer(message);
  return std::move(writer.bytes);
}

template <class Message>
bool read(std::string_view bytes, Message &message) {
  signing::Reader reader(bytes);
  reader(message);
  return reader.done();
}

/// What both sign: who dials whom, what both have drawn, and the certificate of the channel.
std::string statementOf(const PublicKey &acceptor, const PublicKey &dialer, const Nonce &dialers,
                        const Nonce &acceptors, std::string_view digest) {
  signing::Writer writer;
  writer(acceptor, dialer, dialers, acceptors, std::string(digest));
  return std::move(writer.bytes);
}

/// NNG_EPROTO for a message of another kind.
int receive(Talk &talk, FrameKind expected, std::string &message, size_t bytesMost) {
  FrameKind kind = expected;
  const int status = talk.receive(kind, message, bytesMost);
  return status == 0 && kind != expected ? NNG_EPROTO : status;
}

llvm::Error otherKey(const PeerRecord &peer, const PublicKey &found) {
  return failure("the owner at " + peer.address + " has the key " + signing::keyText(found) + ", and " + peer.name +
                 " is registered with " + signing::keyText(peer.key) +
                 "; ask its data owner for the output of 'sojourn-owner key', then remove and add the peer anew");
}

llvm::Error otherVersion(const PeerRecord &peer, uint32_t found) {
  return failure("the owner at " + peer.address + " has version " + Twine(found) +
                 " of the links between owners, and this one has version " + Twine(kLinkVersion) +
                 "; update the older release");
}

llvm::Error noAnswer(const PeerRecord &peer, int status) {
  if (status == NNG_ECONNREFUSED || status == NNG_ENOENT) {
    return failure("no server listens at " + peer.address + "; start the server of " + peer.name +
                   " with: sojourn-owner serve --listen ADDRESS --peers " + peer.address);
  }
  if (status == NNG_EPROTO) {
    return failure("the server at " + peer.address +
                   " is no owner's address for other owners; check it against the --peers of " + peer.name);
  }
  if (status == NNG_ECONNSHUT || status == NNG_ECLOSED || status == NNG_ECONNRESET) {
    return failure("the server at " + peer.address +
                   " closed the connection: it stops, has too many at once, or is no owner's address for other owners; "
                   "try again, and check the address against the --peers of " +
                   peer.name);
  }
  if (status == NNG_EPEERAUTH || status == NNG_ECRYPTO) {
    return failure("the server at " + peer.address + " does not hold the certificate that the key of " + peer.name +
                   " vouches for; another server may answer at this address");
  }
  return failure("no answer from " + peer.address + " (" + nng_strerror(status) + "); check the address, and that " +
                 peer.name + " serves with --peers");
}

} // namespace

llvm::Expected<stream::OwnedStream> dialPeer(const PeerRecord &peer, const signing::SigningKey &own,
                                             LinkPurpose purpose, const std::atomic<bool> &stop) {
  Talk talk(std::chrono::steady_clock::now() + kIntroductionMost, stop);
  std::string bytes, trusted, digest;
  if (peer.address.starts_with("tls+tcp://")) {
    int status = talk.dial(peer.address, nullptr);
    status = status ? status : talk.send(FrameKind::introduction, {});
    status = status ? status : receive(talk, FrameKind::introduction, bytes, signing::kIntroductionBytesMost);
    if (status) {
      return noAnswer(peer, status);
    }
    auto introduction = signing::readIntroduction(bytes);
    if (!introduction || !signing::isGenuine(*introduction)) {
      return failure("the server at " + peer.address +
                     " shows no certificate that an owner's key has signed; check the address");
    }
    if (introduction->owner != peer.key) {
      return otherKey(peer, introduction->owner);
    }
    trusted = signing::pemOf(introduction->certificate);
    const auto found = signing::digestOf(introduction->certificate);
    digest.assign(reinterpret_cast<const char *>(found.data()), found.size());
  }
  Hello hello{kLinkVersion, own.publicKey(), peer.key, freshNonce(), purpose};
  int status = talk.dial(peer.address, trusted.empty() ? nullptr : &trusted);
  status = status ? status : talk.send(FrameKind::message, bytesOf(hello));
  status = status ? status : receive(talk, FrameKind::message, bytes, kMessageMost);
  if (status) {
    return noAnswer(peer, status);
  }
  Answer answer;
  if (!read(bytes, answer)) {
    return noAnswer(peer, NNG_EPROTO);
  }
  if (answer.version != kLinkVersion) {
    return otherVersion(peer, answer.version);
  }
  if (answer.own != peer.key) {
    return otherKey(peer, answer.own);
  }
  const std::string statement = statementOf(peer.key, hello.own, hello.nonce, answer.nonce, digest);
  if (!signing::isSigned(peer.key, kAcceptorProof, statement, answer.signature)) {
    return failure("the server at " + peer.address + " does not hold the key of " + peer.name +
                   "; another server may answer at this address");
  }
  status = talk.send(FrameKind::message, bytesOf(Proof{own.sign(kDialerProof, statement)}));
  status = status ? status : receive(talk, FrameKind::message, bytes, kMessageMost);
  Verdict verdict;
  if (status || !read(bytes, verdict)) {
    return noAnswer(peer, status ? status : NNG_EPROTO);
  }
  if (!verdict.refusal.empty()) {
    return failure(printable(verdict.refusal, kRefusalMost));
  }
  return purpose == LinkPurpose::link ? talk.release() : stream::OwnedStream();
}

std::optional<IntroducedPeer> meetPeer(stream::OwnedStream stream, std::chrono::steady_clock::time_point since,
                                       const signing::SigningKey &own, const OwnCertificate &certificate,
                                       llvm::function_ref<std::string(const PublicKey &, LinkPurpose)> refusalOf,
                                       const std::atomic<bool> &stop) {
  Talk talk(since + kHelloMost, stop);
  talk.take(std::move(stream));
  auto awaitEnd = [&] {
    talk.end(std::chrono::steady_clock::now() + kCloseMost);
    talk.awaitEnd();
  };
  std::string bytes;
  FrameKind kind = FrameKind::message;
  if (talk.receive(kind, bytes, kMessageMost)) {
    return std::nullopt;
  }
  if (kind == FrameKind::introduction) {
    if (talk.send(kind, certificate.introduction) == 0) {
      awaitEnd();
    }
    return std::nullopt;
  }
  talk.end(since + kIntroductionMost);
  Hello hello;
  const bool isRead = read(bytes, hello);
  Answer answer{kLinkVersion, own.publicKey(), freshNonce(), {}};
  const bool isMeant = isRead && hello.version == kLinkVersion && hello.expected == own.publicKey();
  const std::string statement = statementOf(own.publicKey(), hello.own, hello.nonce, answer.nonce, certificate.digest);
  if (isMeant) {
    answer.signature = own.sign(kAcceptorProof, statement);
  }
  if (talk.send(FrameKind::message, bytesOf(answer)) || !isMeant) {
    return std::nullopt;
  }
  Proof proof;
  if (receive(talk, FrameKind::message, bytes, kMessageMost) || !read(bytes, proof) ||
      !signing::isSigned(hello.own, kDialerProof, statement, proof.signature)) {
    return std::nullopt;
  }
  Verdict verdict{refusalOf(hello.own, hello.purpose)};
  const bool isLinked = verdict.refusal.empty() && hello.purpose == LinkPurpose::link;
  if (talk.send(FrameKind::message, bytesOf(verdict))) {
    return std::nullopt;
  }
  if (!isLinked) {
    awaitEnd();
    return std::nullopt;
  }
  return IntroducedPeer{hello.own, talk.release()};
}

} // namespace sojourn::owner
