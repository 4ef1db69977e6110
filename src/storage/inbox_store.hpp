// The messages that the inbox has seen, as a backend stores them. Its queue is a QueueStore.
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "dovetail/inbox.hpp"
#include "storage/queue_store.hpp"
#include "storage/session.hpp"

namespace dovetail::storage {

struct InboxKey {
  std::string_view source;
  std::string_view message_id;

  friend auto operator<=>(const InboxKey&, const InboxKey&) = default;
};

/// The owner and the epoch of a begin.
struct InboxFence {
  OwnerToken owner;
  std::int64_t epoch = 0;
};

struct Sighting {
  InboxStatus status = InboxStatus::seen;
  bool hash_matches = true;
};

struct BeginOrder {
  ContentHash hash;
  OwnerToken owner;
  std::chrono::microseconds lease{};
  int max_attempts = 0;     ///< The lease of this attempt expires: a dead letter.
  bool counts = true;       ///< The call counts as a sighting.
  bool by_process = false;  ///< For Inbox::process(); the commit need not be on disk.
};

struct BeginAnswer {
  BeginOutcome outcome = BeginOutcome::in_progress;
  std::int64_t epoch = 0;
  int attempts = 0;
  WallTime lease_until{};   ///< Set if the outcome is started.
  bool mine = false;        ///< The owner was the last one to begin.
  bool gave_up = false;     ///< This call made the message a dead letter.
  bool by_process = false;  ///< In progress in Inbox::process().
};

/// A checked message on its way into the queue.
struct InboxArrival {
  InboxKey key;
  ContentHash hash;
  NewMessage message;  ///< Its headers name the key.
};

// The words of the SQL functions and views. Any other word is a bug.
[[nodiscard]] InboxStatus inbox_status_of(std::string_view word);
[[nodiscard]] BeginOutcome begin_outcome_of(std::string_view word);
[[nodiscard]] InboxEnqueueOutcome enqueue_outcome_of(std::string_view word);

class InboxStore {
 public:
  virtual ~InboxStore() = default;

  virtual Sighting record_sighting(WriteSession& session, const InboxKey& key,
                                   ContentHash hash) = 0;
  virtual BeginAnswer try_begin(WriteSession& session, const InboxKey& key,
                                const BeginOrder& order) = 0;
  /// Locks the message that this owner has begun, and renews its lease until `lease` from now.
  /// Returns whether no other caller has begun since.
  virtual bool continue_try(WriteSession& session, const InboxKey& key, const InboxFence& fence,
                            std::chrono::microseconds lease) = 0;
  /// Returns the new status: processing, or dead when the lease of the last attempt has expired.
  /// Returns nullopt when nothing changed.
  virtual std::optional<InboxStatus> mark_processing(WriteSession& session, const InboxKey& key,
                                                     std::chrono::microseconds lease,
                                                     int max_attempts) = 0;
  // Without a fence: whichever owner has begun.
  virtual bool mark_processed(WriteSession& session, const InboxKey& key,
                              const std::optional<InboxFence>& fence) = 0;
  virtual bool mark_dead(WriteSession& session, const InboxKey& key,
                         const std::optional<InboxFence>& fence, std::string_view reason) = 0;
  /// Returns whether the message has this status, and (with a fence) whether that owner set it.
  virtual bool is_marked(WriteSession& session, const InboxKey& key, InboxStatus status,
                         const std::optional<InboxFence>& fence) = 0;
  /// `charge` 0: the begin does not count as an attempt.
  virtual bool release(WriteSession& session, const InboxKey& key, const InboxFence& fence,
                       std::string_view error, int charge) = 0;
  virtual std::optional<WallTime> renew(WriteSession& session, const InboxKey& key,
                                        const InboxFence& fence,
                                        std::chrono::microseconds lease) = 0;

  /// Stores messages in the order of their keys. If the stored id is that of the message, an
  /// earlier run of the same call stored it: this is not a duplicate.
  virtual std::vector<InboxEnqueued> receive(WriteSession& session,
                                             std::span<const InboxArrival> arrivals) = 0;

  /// Makes a message of the queue, which no worker holds, a dead letter.
  virtual void fail_stored(WriteSession& session, MessageId id, std::string_view error) = 0;

  // These handle up to `most` messages per call, and return how many they handled.
  virtual std::size_t replay(WriteSession& session, const InboxDeadLetterFilter& filter,
                             const ReplayOptions& options, int most) = 0;
  virtual std::size_t purge(WriteSession& session, std::chrono::microseconds age, int most) = 0;
  virtual std::size_t purge_dead_letters(WriteSession& session, const InboxDeadLetterFilter& filter,
                                         int most) = 0;

  virtual std::optional<InboxEntry> find(ReadSession& session, const InboxKey& key) = 0;
  virtual std::vector<InboxEntry> dead_letters(ReadSession& session,
                                               const InboxDeadLetterFilter& filter,
                                               const InboxPage& page) = 0;
  virtual std::vector<InboxEntry> stuck(ReadSession& session, std::chrono::microseconds overdue,
                                        int most) = 0;
  /// The counts of the guard, without those of the queue.
  virtual InboxCounts counts(ReadSession& session) = 0;
};

}  // namespace dovetail::storage
