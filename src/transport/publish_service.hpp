// A route as a service: it claims messages of the outbox, passes them to the Publisher, and settles
// them by its answers.
//
// Its threads
//   * Lanes, for messages without a stream. Each repeats: one round trip that settles the last
//   batch
//     and claims the next one, then a call of the Publisher.
//   * One lane for streams. Each call of the Publisher has at most one message of a stream.
//   * The keeper, which renews the leases during long calls, and searches for topics of a pattern.
//
// A window of one message has one lane for everything.
//
// Threads: start() once; stop() from one thread at a time; the rest from any.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "component/connects.hpp"
#include "component/service.hpp"
#include "runtime/ledger.hpp"
#include "runtime/node_handlers.hpp"
#include "runtime/queue_source.hpp"
#include "transport/breaker.hpp"
#include "transport/publish_planner.hpp"
#include "transport/reports.hpp"
#include "transport/route.hpp"
#include "transport/route_topics.hpp"

namespace dovetail::transport {

/// Messages that are in a run for longer get leases of their own.
inline constexpr std::chrono::milliseconds longest_run{1'000};

class PublishService final : public component::Service, public component::Connects, public Reports {
 public:
  /// Requires a checked route.
  PublishService(runtime::Node& node, const runtime::NodeHandlers& handlers, Route route);
  PublishService(const PublishService&) = delete;
  PublishService& operator=(const PublishService&) = delete;
  /// Waits for the calls of the Publisher.
  ~PublishService() override;

  [[nodiscard]] std::string name() const override { return "publish " + route_.pattern; }
  /// Of the lanes, and of the keeper.
  [[nodiscard]] std::size_t connections() const override { return lanes_.size() + 1; }
  void start() override;
  void request_stop() override;
  /// Waits for calls of the Publisher until `deadline`, ends them then, and settles. Returns false
  /// if a call does not end.
  bool stop(MonoTime deadline) override;
  void cut_off() override;
  [[nodiscard]] component::ServiceHealth health() const override;
  [[nodiscard]] std::vector<component::Loop> loops() const override;
  [[nodiscard]] std::optional<std::string> outage() const override;
  [[nodiscard]] TransportInfo info() const override;

 private:
  /// A claimed message.
  struct Work {
    Message message;
    Claim claim;
    storage::QueueMark place;
    MonoTime lease_end;
    std::optional<MonoTime> expires;
    int lost_leases = 0;
    bool renewed = false;  // its lease was renewed: the row has moved
    bool lost = false;     // its lease was lost
    bool ended = false;    // its settlement is known, or it has none
  };
  struct Lane {
    explicit Lane(const Clock& clock) : progress(clock) {}

    std::vector<bool> kinds;  // what it claims: false: messages, true: streams
    core::LoopProgress progress;
    std::jthread thread;

    // --- its thread only
    std::vector<runtime::Finished> finished;  // settlements that wait for a round trip
    std::vector<MessageId> lost_leases;       // for the next round trip
    std::vector<MessageId> uncharged;         // for the next round trip
    bool careful = false;                     // the last round trip could not settle some messages
    MonoTime settle_at{};                     // when to try again to settle them

    // --- the mutex of the service
    std::deque<Work> works;  // the messages of its batch
    bool ended = false;
  };
  struct Trip {
    std::optional<LaneClaim> claim;
    MonoTime sent_at{};
  };
  struct Bells {
    explicit Bells(PublishService& service);
    storage::Doorbell::Subscription messages;
    storage::Listener::Subscription listener;
  };
  struct Counts {
    std::uint64_t confirmed = 0;
    std::uint64_t rejected = 0;
    std::uint64_t dead = 0;
  };

  // --- publish_service.cpp
  void make_lanes();
  /// Returns whether all lanes have ended by then. Under the mutex.
  bool await_lanes(std::unique_lock<std::mutex>& lock, MonoTime until);

  // --- publish_lane.cpp: round trips
  void run(Lane& lane);
  /// Waits until there is a reason for a round trip. Returns nullopt if there will be no more.
  [[nodiscard]] std::optional<Trip> next_trip(Lane& lane);
  [[nodiscard]] std::optional<LaneClaim> plan(Lane& lane, MonoTime now);
  [[nodiscard]] MonoTime next_wake(const Lane& lane, MonoTime now) const;
  void probe(Lane& lane, std::unique_lock<std::mutex>& lock);
  void note_probe(const std::optional<std::string>& problem, MonoTime now);
  void ask_blocked(std::unique_lock<std::mutex>& lock);
  /// Returns whether messages were claimed.
  bool travel(Lane& lane, Trip& trip);
  [[nodiscard]] storage::ClaimOrder order_of(const LaneClaim& claim) const;
  void take_back_losses(Lane& lane);
  void note_settled(Lane& lane, const Trip& trip, const runtime::WorkResult& result);
  void note_return(const runtime::Finished& finished, bool claimed_streams, MonoTime now);
  void note_failure(const Trip& trip, const std::exception& error);
  void take_in(Lane& lane, const Trip& trip, storage::Claimed claimed);
  [[nodiscard]] Work work_of(storage::ClaimedEntry&& entry, MonoTime sent_at) const;

  // --- publish_batch.cpp: calls of the Publisher
  void publish_batch(Lane& lane);
  /// The next call: at most one message of each stream.
  [[nodiscard]] std::vector<Work*> next_call(Lane& lane);
  void publish(Lane& lane, const std::vector<Work*>& works);
  [[nodiscard]] std::vector<PublishOutcome> call(Lane& lane, std::span<const Message> messages);
  void note_outcomes(Lane& lane, const std::vector<Work*>& works,
                     const std::vector<PublishOutcome>& outcomes);
  void note_breaker(const std::vector<PublishOutcome>& outcomes);
  void report(const Message& message, const PublishOutcome& outcome) const;
  void set_gauges() const;
  // Under the mutex:
  void settle(Lane& lane, Work& work, storage::Settlement settlement);
  void give_back(Lane& lane, Work& work);
  /// Ends the messages that must not be published. Returns whether the work may be.
  bool admit(Lane& lane, Work& work, MonoTime now);
  /// The messages behind this one in its stream must not be published.
  void give_back_successors(Lane& lane, const Work& work);

  // --- publish_keeper.cpp
  void keep();
  [[nodiscard]] std::vector<Claim> claims_to_renew(MonoTime now);
  void note_renewal(const std::vector<Claim>& asked, std::vector<MessageId> held, MonoTime sent_at);
  void renew();
  void search();

  [[nodiscard]] Clock& clock() const { return scope_.database.clock(); }
  [[nodiscard]] std::string_view store() const { return scope_.database.name(); }

  const Route route_;
  const WorkerOptions worker_;
  const runtime::QueueScope scope_;
  const std::string source_name_;
  storage::Listener& listener_;
  runtime::QueueSource source_;
  RouteTopics topics_;  // used by the keeper only
  std::deque<Lane> lanes_;
  std::optional<Bells> bells_;
  core::LoopProgress keeping_;
  std::jthread keeper_;
  std::stop_source calls_;   // ends the calls of the Publisher
  std::stop_source probes_;  // ends its probes
  std::stop_source io_;      // ends the calls of the database

  mutable std::mutex mutex_;  // guards the rest
  std::condition_variable_any wakes_;
  std::condition_variable_any keeper_wakes_;
  PublishPlanner planner_;
  Breaker breaker_;
  std::optional<std::string> blocked_;  // the broker asks to wait
  MonoTime blocked_since_{};
  component::ServiceHealth health_;  // of the database
  MonoTime retry_at_{};              // after a failure of the database
  MonoTime failing_since_{};
  MonoTime keep_at_ = MonoTime::max();  // when the keeper has to look at the leases
  bool searches_ = false;               // a search for topics is wanted
  MonoTime search_at_{};                // when to search without an event
  bool keeper_ends_ = false;
  bool stopping_ = false;  // no more claims
  bool closed_ = false;    // the lanes end, even if settlements are left
  Counts counts_;
};

}  // namespace dovetail::transport
