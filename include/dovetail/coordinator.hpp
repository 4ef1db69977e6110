// The work coordinator: results, new messages and claims in one call, and buffers that save calls.
//
//   dovetail::Coordinator coordinator{platform.work(), {.strategy = WorkStrategy::interval}};
//   coordinator.queue_outbox_message({.topic = "order.placed", .payload = json,
//                                     .stream = "order-42"}, {.is_event = true});
//
// Use it if your service polls for its work itself, instead of registering handlers (platform.hpp),
// or if it makes so many small writes that a call for each is too expensive. It uses the same
// queues, leases, streams and events: both may be used on one database.
//
//   * WorkBatches::process_work_batch() (work.hpp) is the composite call. In one transaction (on
//     PostgreSQL, one round trip) it reports results, stores messages and events, renews leases,
//     and claims work. In SQL it is the function `process_work_batch(jsonb)`.
//   * Coordinator collects operations for that call. Its strategy decides when they are sent.
//   * OrderedStreamProcessor calls a function for claimed work: the messages of a stream in order,
//     different streams in parallel.
//
// Guarantees
//   * A call takes effect as a whole or not at all. Storing does not claim: flush() claims nothing.
//   * A claim leases exactly the messages that it returns.
//   * An operation leaves the buffer only after its commit. If a flush fails, the operations stay,
//     and the next flush sends them again. Messages and events are stored once, also if the commit
//     of the failed flush took effect.
//   * A message of the inbox is stored once per source and message id.
//   * With `is_event`, the message and its event are stored in one transaction, and once.
//   * The buffer is bounded. When it is full, the next queue_… call sends it, and waits for that.
//   * Messages of one stream are claimed in order, by one instance at a time (stream.hpp), whatever
//     the number of instances and partitions.
//   * A result of a claim whose lease has expired, or that another instance has, changes nothing.
//     It is returned in WorkResult::lost.
// Not guaranteed
//   * That a process that dies has sent its buffer. Call flush() where you need durability, or
//     store through a Transaction (outbox.hpp).
//   * That the share of an instance is exact while instances join or leave. Order never depends on
//     it.
//   * If the answer of a claim is lost, its messages stay leased until the lease expires.
//
// Threads: a Coordinator and an OrderedStreamProcessor may be shared between threads.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string_view>
#include <thread>
#include <utility>

#include "dovetail/work.hpp"

namespace dovetail {

enum class WorkStrategy : std::uint8_t {
  immediate,  ///< Each queue_… call flushes: the lowest latency, one call per operation.
  scoped,     ///< The destructor flushes, or flush(): one call per scope, such as a request.
  interval,   ///< A thread flushes from time to time: the fewest calls.
};

/// What the destructor of a scoped coordinator does while an exception leaves the scope.
enum class OnException : std::uint8_t {
  discard,  ///< Discards the operations that were not flushed.
  flush,
};

struct CoordinatorOptions {
  WorkStrategy strategy = WorkStrategy::immediate;
  WorkOptions work{};
  /// Interval: the pause of the thread: 1 ms to 1 h. An operation waits at most this long, and for
  /// the call of `on_result` that runs.
  std::chrono::milliseconds interval{100};
  /// Interval: so many operations are sent at once, without waiting: 1 to 10,000.
  int flush_at = 100;
  /// The most operations that wait in the buffer: 1 to 1,000,000.
  int max_buffered = 10'000;
  OnException on_exception = OnException::discard;
  /// What flush_and_claim() claims. With `interval`, the thread claims it, too.
  std::optional<WorkClaim> claim_outbox{};
  std::optional<WorkClaim> claim_inbox{};
  /// Called with the result of each call that the coordinator makes by itself: after the operations
  /// of `immediate`, by the thread of `interval`, for a full buffer, and by the destructor. If it
  /// throws, the claimed work is released. Work that it does not report stays leased. `interval`
  /// with a claim needs it.
  std::function<void(const WorkResult& result)> on_result{};
};

struct FailureOptions {
  Stages stages{};
  bool permanent = false;
  std::optional<std::chrono::milliseconds> delay{};
};

struct CoordinatorStats {
  std::uint64_t operations = 0;  ///< Sent.
  std::uint64_t calls = 0;       ///< Of process_work_batch() that took effect.
  std::uint64_t saved = 0;  ///< Calls that one call per operation would have needed in addition.
};

class Coordinator {
 public:
  /// Makes no call. With `interval`, starts the thread.
  explicit Coordinator(WorkBatches& batches, CoordinatorOptions options = {});
  /// Flushes, as the strategy says. If that fails, the operations are lost; the log event
  /// `coordinator.unsent` reports them. Call flush() before if you need to know.
  ~Coordinator();
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  // These check their arguments and put an operation into the buffer. If the buffer is full, they
  // first send it; if that throws, the operation was not queued. With `immediate`, they flush
  // afterwards; if that throws, the operation stays in the buffer.

  /// Returns the id of the message.
  MessageId queue_outbox_message(EnqueueRequest request, const StoreOptions& options = {});
  /// Returns the id that the message has in the queue, unless it is a duplicate.
  MessageId queue_inbox_message(InboxRequest request, const StoreOptions& options = {});
  void queue_completion(const Work& work, Stages stages = {});
  void queue_failure(const Work& work, std::string_view error, const FailureOptions& options = {});
  void queue_release(const Work& work, Stages stages = {});
  void queue_renewal(const Work& work);

  /// Sends the buffer, and claims nothing. Returns when the operations are durable. Without
  /// operations it makes no call.
  WorkResult flush();
  /// Sends the buffer, and claims what the options say.
  WorkResult flush_and_claim();
  /// Sends the buffer, and claims.
  WorkResult flush_and_claim(const std::optional<WorkClaim>& outbox,
                             const std::optional<WorkClaim>& inbox);

  /// The number of operations in the buffer.
  [[nodiscard]] std::size_t buffered() const;
  /// Removes all operations from the buffer, and returns them. Use it for operations that can never
  /// be stored, which would fail every flush.
  WorkBatch discard();
  [[nodiscard]] CoordinatorStats stats() const;

 private:
  void require_room();
  template <class Add>
  void queue(const Add& add);
  WorkResult send(const std::optional<WorkClaim>& outbox, const std::optional<WorkClaim>& inbox);
  WorkResult send_once(const std::optional<WorkClaim>& outbox,
                       const std::optional<WorkClaim>& inbox);
  /// Returns whether a claim was full: there may be more work.
  bool send_by_itself(bool claims);
  void deliver(const WorkResult& result);
  void run(const std::stop_token& stop);
  void end() noexcept;
  void report_unsent(std::string_view reason) const noexcept;

  WorkBatches* batches_;
  CoordinatorOptions options_;
  int exceptions_;         // in flight when the scope began
  std::mutex send_mutex_;  // one call at a time; taken before mutex_
  WorkBatch sending_;      // guarded by send_mutex_: its last call may have failed
  bool failed_before_ = false;
  bool new_ids_ = false;
  bool may_have_run_ = false;
  mutable std::mutex mutex_;
  std::condition_variable_any wakes_;
  WorkBatch pending_;
  std::size_t in_sending_ = 0;
  bool has_given_ids_ = false;  // of messages of the outbox
  CoordinatorStats stats_;
  std::jthread thread_;
};

// --- processing

/// What a function of the OrderedStreamProcessor may ask and record.
class WorkContext {
 public:
  WorkContext(Stages before, std::stop_token stop) : done_(before), stop_(std::move(stop)) {}

  /// What has succeeded, in earlier attempts and in this one.
  [[nodiscard]] Stages stages() const { return done_; }
  /// Records a stage. It is stored with the completion or the failure of the work.
  void stage_done(Stages stages) { done_ |= stages; }
  [[nodiscard]] const std::stop_token& stop_token() const { return stop_; }

 private:
  Stages done_;
  std::stop_token stop_;
};

/// Returns when the work is done, or throws. PermanentFailure (handler.hpp): a retry cannot help.
/// Messages that it has queued are sent also if it throws afterwards: queue them as its last step,
/// or with a message_id of their own, which a retry repeats.
using WorkFunction = std::function<void(const Work& work, WorkContext& context)>;

struct ProcessorOptions {
  int threads = 4;  ///< The number of streams that are processed at the same time: 1 to 1,000.
};

struct Processed {
  std::size_t completed = 0;
  std::size_t failed = 0;
  std::size_t released = 0;  ///< After a failure in their stream, or after a stop.
};

/// Calls a function for claimed work, and queues the results.
///
/// The work of one stream is processed in its order, and different streams in parallel. Work
/// without a stream has no order. When the function throws, the stream stops: the work is queued as
/// a failure with the stages that it has recorded, and the later work of the stream is released.
class OrderedStreamProcessor {
 public:
  explicit OrderedStreamProcessor(ProcessorOptions options = {});

  /// Returns when all work was processed. `stop` ends it early: work that was not begun is
  /// released. The results are in the buffer of `coordinator`: call its flush(), unless its
  /// strategy does.
  Processed process(std::span<const Work> work, const WorkFunction& function,
                    Coordinator& coordinator, const std::stop_token& stop = {}) const;

 private:
  ProcessorOptions options_;
};

}  // namespace dovetail
