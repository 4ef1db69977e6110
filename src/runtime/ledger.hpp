// The messages that a dispatcher holds, and the settlements that wait for a round trip.
//
// Threads: everything is guarded by `mutex`, which its users take.
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/claim_planner.hpp"
#include "runtime/delivery.hpp"

namespace dovetail::runtime {

/// A settlement that waits for its round trip, and where its message comes from.
struct Finished {
  storage::Settlement settlement;
  Subscription* subscription = nullptr;
  int priority = 0;
  storage::QueueMark place{};
  MonoTime lease_end{};
  MonoTime retry_at{};   // while it is put aside because another transaction holds a lock
  std::string stream{};  // empty: none
};

class Ledger {
 public:
  mutable std::mutex mutex;

  // --- deliveries

  /// Returns the delivery that holds the message already; null when it was added.
  DeliveryPtr add(const DeliveryPtr& delivery);
  /// False when the ledger does not hold this delivery.
  bool remove(const DeliveryPtr& delivery);
  [[nodiscard]] bool holds(MessageId id) const { return held_.contains(id); }
  /// The delivery of this very claim; null when it was settled meanwhile.
  [[nodiscard]] DeliveryPtr find(const Claim& claim) const;
  [[nodiscard]] const std::unordered_map<MessageId, DeliveryPtr>& held() const { return held_; }
  std::size_t running = 0;  // handlers under way, also those that hang

  // --- settlements

  void finish(Finished finished, MonoTime now);
  /// Takes everything that a round trip at this time settles, also what was put aside and is to be
  /// retried.
  [[nodiscard]] std::vector<Finished> take(bool stopping, MonoTime now);
  void put_back(std::vector<Finished> finished, MonoTime now);
  /// Takes those out of `finished` that are not settleable and whose leases still hold.
  void put_aside(std::vector<Finished>& finished, const std::vector<MessageId>& settleable,
                 MonoTime now);
  [[nodiscard]] std::size_t finished() const { return finished_.size(); }
  [[nodiscard]] std::vector<Finished>& aside() { return aside_; }

  std::vector<MessageId> absolved;  // for the next round trip

  /// A settlement has been stored, or never will be.
  void note_settled(const Finished& finished);
  /// How many messages of the stream are finished and not settled.
  [[nodiscard]] std::size_t unsettled(const std::string& stream) const;

  [[nodiscard]] Load load() const;

 private:
  std::unordered_map<MessageId, DeliveryPtr> held_;
  std::size_t bytes_ = 0;
  std::vector<Finished> finished_;
  MonoTime first_finished_ = MonoTime::max();
  std::vector<Finished> aside_;
  std::unordered_map<std::string, std::size_t> unsettled_;  // by stream
};

/// How to settle a delivery later.
[[nodiscard]] Finished finished_of(const Delivery& delivery, storage::Settlement settlement);

}  // namespace dovetail::runtime
