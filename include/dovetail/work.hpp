// The composite call of the work coordinator, and its values. coordinator.hpp is the place to
// begin: it describes the guarantees, and what to use when.
//
//   const auto result = platform.work().process_work_batch(
//       {.completions = {{.claim = work.claim, .stages = Stage::published}},
//        .outbox_messages = {{.message = {.topic = "order.placed", .payload = json}}},
//        .claim_outbox = WorkClaim{.batch_size = 100}});
//   for (const auto& work : result.work) { … }
//
// Threads: WorkBatches may be shared between threads. The others are plain values.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dovetail/ids.hpp"
#include "dovetail/inbox.hpp"
#include "dovetail/log.hpp"
#include "dovetail/metrics.hpp"
#include "dovetail/outbox.hpp"
#include "dovetail/queue.hpp"
#include "dovetail/stage.hpp"
#include "dovetail/stream.hpp"

namespace dovetail {

namespace storage {
class Database;
class WorkStore;
}  // namespace storage
namespace coordinator {
class Holdings;
}  // namespace coordinator

/// The queue of a message.
enum class WorkKind : std::uint8_t { outbox, inbox };

[[nodiscard]] std::string_view to_string(WorkKind kind);

/// A claimed message. Report it with a completion, a failure or a release, or renew it, before
/// `lease_until`. An instance that makes no call for WorkOptions::stale_after loses its leases
/// earlier.
struct Work {
  WorkKind queue = WorkKind::outbox;
  Message message{};  ///< With its stages: skip those that earlier attempts have done.
  Claim claim{};
  WallTime lease_until{};     ///< By the database's clock.
  bool newly_stored = false;  ///< The same call has stored it.
  bool orphaned = false;      ///< Its last owner lost the lease: it died or was too slow.

  /// The message as the inbox sees it, with its source and its id there.
  [[nodiscard]] InboxMessage inbox_message() const { return InboxMessage::from(message); }
};

/// The work is done. Its message gets these stages and leaves the queue.
struct WorkCompletion {
  WorkKind queue = WorkKind::outbox;
  Claim claim{};
  Stages stages{};
};

/// The work has failed. Its message keeps the stages that have succeeded, and is retried after a
/// delay. After the last attempt (QueueOptions::max_attempts) it becomes a dead letter, or blocks
/// its stream.
struct WorkFailure {
  WorkKind queue = WorkKind::outbox;
  Claim claim{};
  Stages stages{};
  std::string error{};     ///< Not empty; truncated to 2 KiB.
  bool permanent = false;  ///< A retry cannot help: this was the last attempt.
  /// Absent: 2 s, 4 s … 60 s by the number of attempts, minus up to 10 %.
  std::optional<std::chrono::milliseconds> delay{};
};

/// The work was not started, or not finished. Its message is ready again at once, with these
/// stages, and no attempt is charged.
struct WorkRelease {
  WorkKind queue = WorkKind::outbox;
  Claim claim{};
  Stages stages{};
};

/// The work takes longer: its lease begins again.
struct WorkRenewal {
  WorkKind queue = WorkKind::outbox;
  Claim claim{};
};

struct StoreOptions {
  /// The message is also appended to the event store (event.hpp): to the stream of the message,
  /// with the topic as type, the payload as data, the headers as metadata (JSON), and the id of the
  /// message. It needs a stream.
  bool is_event = false;
};

struct NewOutboxWork {
  EnqueueRequest message{};  ///< Without `joins`.
  StoreOptions options{};
};

struct NewInboxWork {
  InboxRequest message{};
  StoreOptions options{};
  /// The id in the queue. A call that is repeated with the same id is not a duplicate.
  std::optional<MessageId> id{};
};

/// What to claim of one queue.
struct WorkClaim {
  int batch_size = 50;  ///< 1 to 10,000.
  /// Claims only messages that the same call stores. With a stream, its earlier messages come
  /// first; a stream that is leased or blocked returns nothing. Such messages wait for a claim
  /// without `stored_only`.
  bool stored_only = false;
  std::vector<std::string> topics{};  ///< At most 1,000. Empty: all topics.
  /// The limit of the payloads of one claim, in bytes: up to 64 MiB. One message is always claimed.
  std::size_t max_bytes = std::size_t{64} << 20;
};

/// Everything that one call does, in this order. Empty parts cost nothing.
struct WorkBatch {
  std::vector<WorkCompletion> completions{};
  std::vector<WorkFailure> failures{};
  std::vector<WorkRelease> releases{};
  std::vector<NewOutboxWork> outbox_messages{};
  std::vector<NewInboxWork> inbox_messages{};
  std::vector<WorkRenewal> renewals{};
  std::optional<WorkClaim> claim_outbox{};
  std::optional<WorkClaim> claim_inbox{};

  /// The number of results, messages and renewals.
  [[nodiscard]] std::size_t operations() const;
};

/// How an instance shares the work with others. A stream belongs to a partition (the hash of its
/// name modulo partition_count), and a partition to the live instance whose rank is the partition
/// modulo their number. An instance claims streams of its own partitions. Messages without a stream
/// have no order: every instance claims them. Instances share the work of a queue with those that
/// claim the same topics of it.
struct WorkOptions {
  int partition_count = 10'000;  ///< 1 to 1,000,000; the same in all instances.
  /// An instance has leased streams in at most so many partitions at a time, so that it leaves work
  /// to others. `stored_only` does not count.
  int max_partitions_per_instance = 100;
  std::chrono::milliseconds lease{300'000};  ///< 1 ms to 24 h.
  /// An instance without a heartbeat for this time is removed, and its leases expire: 1 s to 24 h.
  /// Calls renew the heartbeat when a ninth of it has passed.
  std::chrono::milliseconds stale_after{90'000};
  /// A stream that has waited for this time is claimed by every instance, so that an instance that
  /// lives but does not claim delays its streams only by this time: 1 ms to 24 h.
  std::chrono::milliseconds help_after{5'000};
  /// The instance that owns the leases. Absent: one for each Platform. Coordinators of one process
  /// that claim different topics of one queue need instances of their own.
  std::optional<InstanceId> instance{};
  /// What happens to a message of a stream, and to the stream, after its last attempt or a
  /// permanent failure.
  StreamFailure on_stream_failure = StreamFailure::block;
};

enum class StoreOutcome : std::uint8_t {
  stored,
  duplicate,      ///< The message is known: its id, its unique key, or its source and message id.
  hash_mismatch,  ///< Inbox: the message is known with different content.
  stream_closed,  ///< It is an event, and its stream of events was closed. It was not stored.
};

[[nodiscard]] std::string_view to_string(StoreOutcome outcome);

struct StoredWork {
  StoreOutcome outcome = StoreOutcome::stored;
  /// The id in the queue, also of a message that was stored before. Absent if there is none.
  std::optional<MessageId> id{};

  [[nodiscard]] bool stored() const { return outcome == StoreOutcome::stored; }
};

struct LostClaim {
  WorkKind queue = WorkKind::outbox;
  MessageId id{};
};

/// The place of this instance among those that claim the same topics (of the outbox, if a call
/// claims from both queues). Only calls that claim waiting work know it.
struct WorkShare {
  int live_instances = 0;
  int rank = 0;           ///< From 0, in the order of the ids.
  int partitions = 0;     ///< The number of partitions that belong to this instance.
  int stale_removed = 0;  ///< Stale instances that this call has removed.
};

struct WorkResult {
  std::size_t completed = 0;
  std::size_t failed = 0;
  std::size_t released = 0;
  std::vector<StoredWork> outbox{};  ///< In the order of WorkBatch::outbox_messages.
  std::vector<StoredWork> inbox{};   ///< In the order of WorkBatch::inbox_messages.
  std::vector<Work> work{};          ///< The claimed messages; those of a stream in order.
  std::vector<LostClaim> lost{};     ///< Results and renewals that changed nothing.
  std::optional<WorkShare> share{};
};

/// The composite call. Platform::work() returns it.
class WorkBatches {
 public:
  WorkBatches(storage::Database& database, Outbox& outbox, Inbox& inbox, Logger log,
              Metrics metrics);
  ~WorkBatches();
  WorkBatches(const WorkBatches&) = delete;
  WorkBatches& operator=(const WorkBatches&) = delete;

  /// Makes the call, and repeats it after a lost connection or a deadlock. Bad arguments are
  /// rejected before any I/O. A batch without content makes no call.
  ///
  /// Throws Error if the database gave no answer. Repeat the call with the same ids: what was
  /// stored is not stored again, and results that took effect are returned in `lost`.
  WorkResult process_work_batch(const WorkBatch& batch, const WorkOptions& options = {});

  /// Removes this instance, for a clean end: others take over its partitions at once. The work that
  /// it has claimed through this Platform and not reported is released; no attempt is charged. It
  /// joins again when it claims. Returns whether it had joined. The Platform calls it when it is
  /// destroyed.
  bool leave(const WorkOptions& options = {});

  /// The instance of calls without WorkOptions::instance.
  [[nodiscard]] InstanceId instance() const { return instance_; }

 private:
  friend class Coordinator;
  struct Sending {
    bool may_have_run = false;  ///< An earlier call with this batch may have taken effect.
    bool new_ids = false;       ///< The ids of the outbox's messages were generated, and not sent.
  };
  WorkResult process(const WorkBatch& batch, const WorkOptions& options, const Sending& sending);
  bool remove(InstanceId instance, bool once);
  void count(const WorkBatch& batch, const WorkResult& result) const;
  void count_stored(const WorkBatch& batch, const WorkResult& result) const;
  void note(const WorkBatch& batch, const WorkOptions& options, const WorkResult& result);

  storage::Database* database_;
  storage::WorkStore* store_;
  Outbox* outbox_;
  Inbox* inbox_;
  Logger log_;
  Metrics metrics_;
  InstanceId instance_;
  std::unique_ptr<coordinator::Holdings> holdings_;
};

}  // namespace dovetail
