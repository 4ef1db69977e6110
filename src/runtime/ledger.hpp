// The messages that a dispatcher holds, and the settlements that wait for a round trip.
//
// Threads: `mutex` guards everything. The callers lock it.
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/claim_planner.hpp"
#include "runtime/delivery.hpp"

namespace dovetail::runtime {

/// A settlement that waits for its round trip, and the origin of its message.
struct Finished {
  storage::Settlement settlement;
  Subscription* subscription = nullptr;
  int priority = 0;
  storage::QueueMark place{};
  MonoTime lease_end{};
  MonoTime retry_at{};   // set while it is put aside because another transaction holds a lock
  std::string stream{};  // empty: none
  std::string topic{};
  std::string_view outcome{};  // see outcome_of()
};

/// The outcome of a settlement, as a label of dovetail_settled_total.
[[nodiscard]] std::string_view outcome_of(const storage::Settlement& settlement,
                                          const Message& message);

class Ledger {
 public:
  mutable std::mutex mutex;

  // --- deliveries

  /// Returns the delivery that already holds the message, or null if this one was added.
  DeliveryPtr add(const DeliveryPtr& delivery);
  /// Returns false if the ledger does not hold this delivery.
  bool remove(const DeliveryPtr& delivery);
  [[nodiscard]] bool holds(MessageId id) const { return held_.contains(id); }
  /// Returns the delivery of exactly this claim, or null if it was settled meanwhile.
  [[nodiscard]] DeliveryPtr find(const Claim& claim) const;
  [[nodiscard]] const std::unordered_map<MessageId, DeliveryPtr>& held() const { return held_; }
  std::size_t running = 0;  // running handlers, including those that hang

  // --- settlements

  void finish(Finished finished, MonoTime now);
  /// Takes the settlements for a round trip at this time, including those put aside whose retry is
  /// due.
  [[nodiscard]] std::vector<Finished> take(bool stopping, MonoTime now);
  void put_back(std::vector<Finished> finished, MonoTime now);
  /// Removes from `finished`, and keeps aside, the settlements that are not settleable and whose
  /// leases are still held.
  void put_aside(std::vector<Finished>& finished, const std::vector<MessageId>& settleable,
                 MonoTime now);
  [[nodiscard]] std::size_t finished() const { return finished_.size(); }
  [[nodiscard]] std::vector<Finished>& aside() { return aside_; }

  // For the next round trip.
  std::vector<MessageId> lost_leases;
  std::vector<MessageId> uncharged;  // no handler began them before their leases expired

  /// The settlement was stored, or never will be.
  void note_settled(const Finished& finished);
  /// The number of messages of the stream that are finished and not settled.
  [[nodiscard]] std::size_t unsettled(const std::string& stream) const;

  // --- topics whose settlements wait for locks of other transactions

  void note_blocked(const std::string& topic, MonoTime now);
  /// True if a settlement of the topic was blocked a moment ago.
  [[nodiscard]] bool was_blocked(const std::string& topic, MonoTime now) const;

  [[nodiscard]] Load load() const;

 private:
  std::unordered_map<MessageId, DeliveryPtr> held_;
  std::size_t bytes_ = 0;
  std::vector<Finished> finished_;
  MonoTime first_finished_ = MonoTime::max();
  std::vector<Finished> aside_;
  std::unordered_map<std::string, std::size_t> unsettled_;  // by stream
  std::unordered_map<std::string, MonoTime> blocked_;       // by topic
};

/// Returns the entry for a later settlement of the delivery.
[[nodiscard]] Finished finished_of(const Delivery& delivery, storage::Settlement settlement);

}  // namespace dovetail::runtime
