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

/// Who has begun.
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
  int max_attempts = 0;     ///< A message whose lease ran out at this attempt, or later, is dead.
  bool counts = true;       ///< As a sighting.
  bool by_process = false;  ///< For Inbox::process(); the commit need not be on disk.
};

struct BeginAnswer {
  BeginOutcome outcome = BeginOutcome::in_progress;
  std::int64_t epoch = 0;
  int attempts = 0;
  WallTime lease_until{};   ///< When it has started.
  bool mine = false;        ///< The owner was the last one to begin.
  bool gave_up = false;     ///< It is dead since this call.
  bool by_process = false;  ///< In progress: the one who has begun is a process().
};

/// A checked message on its way into the queue.
struct InboxArrival {
  InboxKey key;
  ContentHash hash;
  NewMessage message;  ///< Its headers name the key.
};

// What the schema's functions and views call them. Anything else is a bug.
[[nodiscard]] InboxStatus inbox_status_of(std::string_view word);
[[nodiscard]] BeginOutcome begin_outcome_of(std::string_view word);
[[nodiscard]] InboxEnqueueOutcome enqueue_outcome_of(std::string_view word);

class InboxStore {
 public:
  virtual ~InboxStore() = default;

  virtual Sighting see(WriteSession& session, const InboxKey& key, ContentHash hash) = 0;
  virtual BeginAnswer try_begin(WriteSession& session, const InboxKey& key,
                                const BeginOrder& order) = 0;
  /// Locks what this owner has begun, and lets its lease end `lease` from now; answers whether
  /// nobody else has begun since.
  virtual bool continue_try(WriteSession& session, const InboxKey& key, const InboxFence& fence,
                            std::chrono::microseconds lease) = 0;
  virtual bool mark_processing(WriteSession& session, const InboxKey& key,
                               std::chrono::microseconds lease) = 0;
  // Without a fence: whoever has begun.
  virtual bool mark_processed(WriteSession& session, const InboxKey& key,
                              const std::optional<InboxFence>& fence) = 0;
  virtual bool mark_dead(WriteSession& session, const InboxKey& key,
                         const std::optional<InboxFence>& fence, std::string_view reason) = 0;
  /// Whether it has this status, and (with a fence) by the one who began so.
  virtual bool is_marked(WriteSession& session, const InboxKey& key, InboxStatus status,
                         const std::optional<InboxFence>& fence) = 0;
  /// `charge` 0: the begin does not count as an attempt.
  virtual bool release(WriteSession& session, const InboxKey& key, const InboxFence& fence,
                       std::string_view error, int charge) = 0;
  virtual std::optional<WallTime> renew(WriteSession& session, const InboxKey& key,
                                        const InboxFence& fence,
                                        std::chrono::microseconds lease) = 0;

  /// In the order of their keys. A message whose id is the one that is stored was stored by an
  /// earlier run of the same call: that is not a duplicate.
  virtual std::vector<InboxEnqueued> receive(WriteSession& session,
                                             std::span<const InboxArrival> arrivals) = 0;

  // Up to `most` at a time; each answers how many it were.
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
  /// Without those of the queue.
  virtual InboxCounts counts(ReadSession& session) = 0;
};

}  // namespace dovetail::storage
