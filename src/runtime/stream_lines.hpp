// The deliveries of streams that a dispatcher holds: one delivery of each stream is with the worker
// pool, and the others wait for it in order.
//
// Threads: guarded by the ledger's mutex.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/delivery.hpp"

namespace dovetail::runtime {

class StreamLines {
 public:
  /// Returns whether the delivery may begin now. If not, it waits for the one before it.
  bool admit(const DeliveryPtr& delivery);
  /// The delivery at the front has ended, and the stream continues. Returns the next delivery, or
  /// null.
  [[nodiscard]] DeliveryPtr advance(const Delivery& delivery);
  /// The delivery has ended without a success, or was given back. Returns the deliveries behind it,
  /// which must not begin. A delivery that still runs keeps its place in front.
  [[nodiscard]] std::vector<DeliveryPtr> remove_successors(const Delivery& delivery);
  /// Whether the delivery waits for another one.
  [[nodiscard]] bool is_behind(const Delivery& delivery) const;
  /// Returns all deliveries that wait for another one.
  [[nodiscard]] std::vector<DeliveryPtr> take_waiting();

 private:
  /// The first delivery of each line is with the pool.
  std::unordered_map<std::string, std::deque<DeliveryPtr>> lines_;
};

}  // namespace dovetail::runtime
