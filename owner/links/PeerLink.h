// SPDX-License-Identifier: Apache-2.0
// A connection between two owners that know who they are: frames of groups, both ways.
#ifndef SOJOURN_OWNER_LINKS_PEERLINK_H
#define SOJOURN_OWNER_LINKS_PEERLINK_H

#include "owner/peers/FrameBytes.h"
#include "runtime/signing/SigningKey.h"
#include "runtime/stream/Frame.h"
#include "runtime/stream/Outgoing.h"
#include "runtime/stream/Owned.h"

#include <nng/nng.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

namespace sojourn::owner {

class PeerLink;

/// Events of a link, on the thread that reads, without its lock.
class PeerLinkEvents {
public:
  virtual ~PeerLinkEvents() = default;
  struct Room {
    std::shared_ptr<runtime::Buffer> memory; ///< null: the terms are read and dropped
    PeerFrame::Dropped dropped = PeerFrame::Dropped::no;
  };
  /// For the terms of a frame that arrives.
  virtual Room room(const PeerLink &link, const GroupId &group, size_t bytes) = 0;
  virtual void came(const PeerLink &link, const GroupId &group, const PeerFrame &frame) = 0;
  /// Once, at the end.
  virtual void ended(PeerLink &link) noexcept = 0;
};

/// Frames come whole, in order and once, or the link ends. Thread-safe. Gone only after `finish`.
class PeerLink {
public:
  using Clock = std::chrono::steady_clock;

  /// `queueMost`: bytes of terms that wait to be sent; where there are more, the link ends.
  PeerLink(const signing::PublicKey &peer, stream::OwnedStream stream, PeerLinkEvents &events, size_t queueMost)
      : peer(peer), stream_(stream.release()), events_(events), queueMost_(queueMost) {}
  ~PeerLink();
  PeerLink(const PeerLink &) = delete;
  PeerLink &operator=(const PeerLink &) = delete;

  /// nng's status.
  int open();
  void start();
  /// Frames for a step that waits, read on its thread, so that no other one is woken for them. Returns once a frame was
  /// read, or after `most`. False at once where another thread reads, or soon will, the link has ended, or it is over
  /// TLS, where nng ends the stream with a wait for bytes that is given up.
  bool receive(std::chrono::milliseconds most);
  /// An end of a step takes back terms of it that have not begun to leave. Where memory is short, or the other side
  /// takes nothing for long, the link ends instead.
  void send(const GroupId &group, const PeerFrame &frame) noexcept;
  /// A sign of life, where nothing else is on its way.
  void greet() noexcept;
  void close();
  /// Waits for nng's threads, the link's own and those in `receive`; not called by them.
  void finish();
  /// Of what came last.
  Clock::time_point heard() const { return Clock::time_point(Clock::duration(heard_.load())); }
  uint64_t bytesSent() const { return sentBytes_; }
  uint64_t bytesReceived() const { return receivedBytes_; }

  const signing::PublicKey peer;

private:
  struct Outbound {
    FrameFields fields;
    std::shared_ptr<runtime::Buffer> terms;
    bool isGreeting = false;
  };
  enum class Came { frame, less, ended };
  Came read(nng_duration most);
  Came readFrame(Clock::time_point until);
  void readAlone() noexcept;
  bool takeHeads();
  bool takeTerms(const FrameFields &fields, size_t termsBytes);
  void deliver();
  void receiveOn();
  void end();
  void enqueue(Outbound outbound) noexcept;
  void takeBack(const FrameFields &end);
  bool sendOn();
  bool transferred();
  void waitForTransfers() noexcept;
  void endThreads();

  nng_stream *const stream_;
  PeerLinkEvents &events_;
  const size_t queueMost_;
  nng_aio *receive_ = nullptr, *send_ = nullptr;
  std::atomic<bool> isClosed_ = false, isEnded_ = false;
  std::atomic<Clock::rep> heard_ = Clock::now().time_since_epoch().count();
  std::atomic<uint64_t> sentBytes_ = 0, receivedBytes_ = 0;

  // Of the one thread that reads.
  alignas(16) std::array<std::byte, 32'768> in_{};
  size_t begin_ = 0, end_ = 0; ///< of what was received and is not yet taken
  PeerFrame frame_;            ///< whose terms arrive
  GroupId group_{};
  size_t termsBytes_ = 0, termsHere_ = 0;
  bool isInTerms_ = false;    ///< whether what comes next belongs to terms, which go to frame_.terms or nowhere
  bool hasDelivered_ = false; ///< a frame, since it was asked

  std::mutex reading_;
  std::condition_variable readers_;
  enum class Reader { none, step, thread };
  Reader reader_ = Reader::none;
  bool isStarted_ = false, isFinished_ = false, isLocal_ = false;
  bool isAsked_ = false;            ///< for the thread's turn, by a step
  Clock::time_point sharedUntil_{}; ///< some steps wait for frames at a time: the thread reads for all of them
  Clock::time_point left_{};        ///< when the last one had read
  std::thread readingThread_;

  std::mutex mutex_; ///< of the rest
  std::deque<Outbound> queue_;
  bool isSending_ = false;
  size_t queuedBytes_ = 0; ///< of terms
  stream::Outgoing outgoing_;
  bool isBegun_ = false;  ///< the first frame of the queue
  bool isWaited_ = false; ///< for a transfer, by the sender
  bool isOver_ = false;
  std::condition_variable waits_;
  std::thread sender_;
};

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_LINKS_PEERLINK_H
