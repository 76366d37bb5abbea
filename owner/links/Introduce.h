// SPDX-License-Identifier: Apache-2.0
// How two owners find out that each is the one that the other one knows. The one that dials begins.
//
//   over TLS, before: the certificate of the other one, vouched for by its key (runtime/signing/Introduction.h)
//   Hello   version, own key, expected key, 32 fresh bytes, whether this is a check
//   Answer  key, 32 fresh bytes, signature of both keys, what both have drawn, and the certificate; or a refusal
//   Proof   the signature of the one that dials
//   Verdict empty, or why there is no link
#ifndef SOJOURN_OWNER_LINKS_INTRODUCE_H
#define SOJOURN_OWNER_LINKS_INTRODUCE_H

#include "owner/peers/PeerRecord.h"
#include "runtime/signing/SigningKey.h"
#include "runtime/stream/Owned.h"

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Error.h"

#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace sojourn::owner {

/// Rises with whatever members must do alike: frames, the placement of programs, how these are cut.
inline constexpr uint32_t kLinkVersion = 2;
/// Of a handshake, the certificate included; of its first message; of the other side for closing after the last one.
inline constexpr std::chrono::milliseconds kIntroductionMost{5'000}, kHelloMost{2'000}, kCloseMost{500};

enum class LinkPurpose : uint8_t { link, check };
constexpr bool isKnown(LinkPurpose purpose) { return purpose <= LinkPurpose::check; }

/// Dials a registered owner and proves who this one is. No stream after a check. Errors say what
/// is wrong, and the next step.
llvm::Expected<stream::OwnedStream> dialPeer(const PeerRecord &peer, const signing::SigningKey &own,
                                             LinkPurpose purpose, const std::atomic<bool> &stop);

struct IntroducedPeer {
  signing::PublicKey key{};
  stream::OwnedStream stream;
};

/// The certificate of the stream, for those that ask for it first.
struct OwnCertificate {
  std::string_view introduction, digest; ///< both empty without TLS
};

/// The other side, of a stream that was accepted at `since`. `refusalOf`: why an owner that has proved its key gets no
/// link, empty where it does. Nothing where there is no link: a request for the certificate, a check, a refusal.
std::optional<IntroducedPeer>
meetPeer(stream::OwnedStream stream, std::chrono::steady_clock::time_point since, const signing::SigningKey &own,
         const OwnCertificate &certificate,
         llvm::function_ref<std::string(const signing::PublicKey &, LinkPurpose)> refusalOf,
         const std::atomic<bool> &stop);

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_LINKS_INTRODUCE_H
